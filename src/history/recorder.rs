//! Writes the history beside the loop, so that a slow or full disk delays no eviction.

use super::{History, HistoryError, Line, Receipt};
use serde::Serialize;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Records on their way to the writer. One decision a cycle is made, so this many are minutes of trouble.
const QUEUE: usize = 64;

/// The writer formats and syncs; it needs little, and all of it is locked into memory.
const STACK_BYTES: usize = 128 << 10;

/// How the history stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept {
    /// Records on disk.
    pub records: u64,
    /// Records waiting in memory for the disk.
    pub waiting: usize,
    /// How often a new segment has begun, for which older records went.
    pub segments: u64,
    /// Why the disk refused the last write, while it does.
    pub error: Option<String>,
}

/// What is written without another's record in between.
type Lines = Vec<Line>;

/// A handle on the thread that writes. Dropping it writes what is still queued and ends the thread.
#[derive(Debug)]
pub struct Recorder {
    queue: Option<SyncSender<Lines>>,
    kept: Arc<Mutex<Kept>>,
    thread: Option<JoinHandle<()>>,
}

impl Recorder {
    /// Starts the writer; while the disk refuses, it tries again every `retry_every`.
    pub fn start(history: History, retry_every: Duration) -> io::Result<Self> {
        let (queue, lines) = sync_channel(QUEUE);
        let kept = Arc::new(Mutex::new(Kept {
            records: history.records(),
            waiting: history.waiting(),
            segments: history.segments(),
            error: None,
        }));
        let told = Arc::clone(&kept);
        let thread = Builder::new()
            .name("history".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || write_all(history, &lines, retry_every, &told))?;
        Ok(Self {
            queue: Some(queue),
            kept,
            thread: Some(thread),
        })
    }

    /// Hands one record to the writer, never waiting for the disk.
    pub fn record(&self, record: &impl Serialize) -> Result<(), HistoryError> {
        self.send(vec![Line::of(record)?])
    }

    /// The same with a whole line, for which somebody waits.
    pub(crate) fn deliver(&self, bytes: Vec<u8>, receipt: Receipt) -> Result<(), HistoryError> {
        self.send(vec![Line { bytes, receipt }])
    }

    /// The same with several, all of them or none. One that is no record is left out.
    pub fn record_all<'a, R: Serialize + 'a>(
        &self,
        records: impl Iterator<Item = &'a R>,
    ) -> Result<(), HistoryError> {
        let lines = records.filter_map(|record| Line::of(record).ok());
        self.send(lines.collect())
    }

    fn send(&self, lines: Lines) -> Result<(), HistoryError> {
        let queue = self.queue.as_ref().ok_or(HistoryError::Ended)?;
        queue.try_send(lines).map_err(|refused| match refused {
            TrySendError::Full(_) => HistoryError::Behind { waiting: QUEUE },
            TrySendError::Disconnected(_) => HistoryError::Ended,
        })
    }

    /// How the history stood after the last write or attempt.
    pub fn kept(&self) -> Kept {
        self.kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the history's writer panicked");
        }
    }
}

fn write_all(
    mut history: History,
    queue: &Receiver<Lines>,
    retry_every: Duration,
    kept: &Mutex<Kept>,
) {
    loop {
        let next = if history.waiting() == 0 {
            queue.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            queue.recv_timeout(retry_every)
        };
        match next {
            Ok(lines) => {
                for line in lines {
                    let outcome = history.append_line(line);
                    tell(&history, outcome, kept);
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                let outcome = history.retry();
                tell(&history, outcome, kept);
            }
            Err(RecvTimeoutError::Disconnected) => return give_up(history),
        }
    }
}

fn give_up(mut history: History) {
    if let Err(error) = history.retry() {
        tracing::error!(%error, records = history.waiting(), "stopping with decisions that the disk never took");
    }
}

fn tell(history: &History, outcome: Result<(), HistoryError>, kept: &Mutex<Kept>) {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    match (&kept.error, &outcome) {
        // A decision is made once a cycle at most: each that is lost has its line.
        (_, Err(error)) if !matches!(error, HistoryError::Write { .. }) => {
            tracing::error!(%error, "a decision is not kept in the history; evictions go on");
        }
        (None, Err(error)) => {
            tracing::error!(%error, "a decision could not be written; evictions go on");
        }
        (Some(_), Ok(())) => {
            tracing::info!(records = history.records(), "the history is written again");
        }
        _ => {}
    }
    *kept = Kept {
        records: history.records(),
        waiting: history.waiting(),
        segments: history.segments(),
        error: outcome.err().map(|error| error.to_string()),
    };
}

#[cfg(test)]
mod tests {
    use super::super::LARGEST_RECORD;
    use super::*;
    use crate::testing::{logged, with_tmpfs};
    use serde_json::json;

    #[test]
    fn each_record_that_a_full_disk_costs_is_told() {
        let name = "each_record_that_a_full_disk_costs_is_told";
        let directory = tempfile::tempdir().unwrap();
        with_tmpfs(name, directory.path().to_owned(), 64, |disk| {
            let history = History::open(&disk.join("evictd"), 1 << 20).unwrap();
            let large = json!({ "text": "x".repeat(LARGEST_RECORD / 3) });
            let (queue, lines) = sync_channel(QUEUE);
            for _ in 0..5 {
                queue.send(vec![Line::of(&large).unwrap()]).unwrap();
            }
            drop(queue);
            let kept = Mutex::default();
            let log = logged(|| write_all(history, &lines, Duration::ZERO, &kept));
            let said = |words| log.matches(words).count();
            assert_eq!(said("a decision could not be written"), 1, "{log}");
            assert_eq!(said("a decision is not kept"), 3, "{log}");
            assert_eq!(said("that the disk never took"), 1, "{log}");
        });
    }
}
