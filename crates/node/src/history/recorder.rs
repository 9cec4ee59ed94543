//! Writes the history in the background, so that a slow or full disk does not delay an eviction.

use super::{History, HistoryError, Line, Receipt};
use evictd_kernel::threads::Pool;
use serde::Serialize;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// The most records that may be queued for the writer. One decision is made per cycle, so this is enough for
/// minutes.
const QUEUE: usize = 64;

/// Stack size of the writer; it is small because all of it is locked into memory.
const STACK_BYTES: usize = 128 << 10;

/// The state of the history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RecorderState {
    /// The number of records on disk.
    pub records: u64,
    /// Evictions that they are of.
    pub evictions: usize,
    /// Records waiting in memory for the disk.
    pub waiting: usize,
    /// How often a new segment was begun; each time the oldest segment is deleted.
    pub segments: u64,
    /// Why the last write failed, while writes fail.
    pub error: Option<String>,
}

/// Lines that are written without other records in between.
type Lines = Vec<Line>;

/// A handle of the writing thread. Dropping it writes the queued records and ends the thread.
#[derive(Debug)]
pub(crate) struct Recorder {
    queue: Option<SyncSender<Lines>>,
    state: Arc<Mutex<RecorderState>>,
    writer: Arc<Mutex<Option<Writer>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Writes while the writing thread cannot be created.
    pool: Pool,
}

/// The parameters of the writing thread.
#[derive(Debug)]
struct Writer {
    history: History,
    lines: Receiver<Lines>,
    retry_every: Duration,
    state: Arc<Mutex<RecorderState>>,
}

impl Recorder {
    /// Starts the writer; while writes fail, it retries every `retry_every`. If no thread can be created, a thread
    /// of the pool writes, and each record tries again to create one.
    pub(crate) fn start(history: History, retry_every: Duration) -> Self {
        let (queue, lines) = sync_channel(QUEUE);
        let state = Arc::new(Mutex::new(RecorderState {
            records: history.records(),
            evictions: history.evictions(),
            waiting: history.waiting(),
            segments: history.segments(),
            error: history.last_error().map(str::to_owned),
        }));
        let recorder = Self {
            queue: Some(queue),
            writer: Arc::new(Mutex::new(Some(Writer {
                history,
                lines,
                retry_every,
                state: Arc::clone(&state),
            }))),
            state,
            thread: Mutex::default(),
            pool: Pool::of_this_process(),
        };
        if let Err(error) = recorder.start_thread() {
            tracing::warn!(
                "no thread can be created to write the history ({error}); others write it until then"
            );
        }
        recorder
    }

    fn start_thread(&self) -> io::Result<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_some() {
            return Ok(());
        }
        let writer = Arc::clone(&self.writer);
        let started = Builder::new()
            .name("history".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                if let Some(writer) = take(&writer) {
                    writer.write_all();
                }
            })?;
        *thread = Some(started);
        Ok(())
    }

    /// Queues one complete line; never waits for the disk. `receipt` is marked when the line is on disk.
    pub(crate) fn deliver(&self, bytes: Vec<u8>, receipt: Receipt) -> Result<(), HistoryError> {
        let bytes = bytes.into();
        self.send(vec![Line { bytes, receipt }])
    }

    /// The same for several records, all or none. Values that cannot be encoded are left out.
    pub(crate) fn record_all<'a, R: Serialize + 'a>(
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
        })?;
        if self.start_thread().is_err() {
            let writer = Arc::clone(&self.writer);
            // If the pool has no thread either, the record waits in the queue.
            let _ = self.pool.submit(move || {
                let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(writer) = writer.as_mut() {
                    writer.write_queued();
                }
            });
        }
        Ok(())
    }

    /// The state of the history after the last write or attempt.
    pub(crate) fn state(&self) -> RecorderState {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // The writer ends when the queue is closed, after everything in it is written.
        drop(self.queue.take());
        let thread = self
            .thread
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the history's writer panicked");
        }
        if let Some(writer) = take(&self.writer) {
            writer.write_all();
        }
    }
}

fn take(writer: &Mutex<Option<Writer>>) -> Option<Writer> {
    writer.lock().unwrap_or_else(PoisonError::into_inner).take()
}

impl Writer {
    /// Writes until the queue is closed.
    fn write_all(mut self) {
        loop {
            let up_to_date = self.history.waiting() == 0 && self.history.last_error().is_none();
            let next = if up_to_date {
                self.lines
                    .recv()
                    .map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                self.lines.recv_timeout(self.retry_every)
            };
            match next {
                Ok(lines) => self.write(lines),
                Err(RecvTimeoutError::Timeout) => {
                    let outcome = self.history.retry();
                    note_outcome(&self.history, outcome, &self.state);
                }
                Err(RecvTimeoutError::Disconnected) => return log_lost(self.history),
            }
        }
    }

    fn write_queued(&mut self) {
        while let Ok(lines) = self.lines.try_recv() {
            self.write(lines);
        }
    }

    fn write(&mut self, lines: Lines) {
        for line in lines {
            let outcome = self.history.append_line(line);
            note_outcome(&self.history, outcome, &self.state);
        }
    }
}

fn log_lost(mut history: History) {
    if let Err(error) = history.retry() {
        tracing::error!(%error, records = history.waiting(), "stopping with decisions that could not be written to disk");
    }
}

fn note_outcome(
    history: &History,
    outcome: Result<(), HistoryError>,
    state: &Mutex<RecorderState>,
) {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    match (&state.error, &outcome) {
        // The directory cannot be opened, which was logged at start, and no record waits for it.
        (_, Err(_)) if history.waiting() == 0 => {}
        // There is at most one decision per cycle, so each lost record is logged.
        (_, Err(error)) if !matches!(error, HistoryError::Write { .. }) => {
            tracing::error!(%error, "a decision is missing in the history; evictions continue");
        }
        (_, Err(error)) if state.waiting == 0 => {
            tracing::error!(%error, "a decision could not be written; evictions continue");
        }
        (Some(_), Ok(())) => {
            tracing::info!(
                records = history.records(),
                "the history can be written again"
            );
        }
        _ => {}
    }
    *state = RecorderState {
        records: history.records(),
        evictions: history.evictions(),
        waiting: history.waiting(),
        segments: history.segments(),
        error: outcome.err().map(|error| error.to_string()),
    };
}

#[cfg(test)]
mod tests {
    use super::super::LARGEST_RECORD;
    use super::*;
    use evictd_testkit::testing::{logged, with_tmpfs};
    use serde_json::json;

    #[test]
    fn each_record_that_is_lost_to_a_full_disk_is_reported() {
        let name = "each_record_that_is_lost_to_a_full_disk_is_reported";
        let directory = tempfile::tempdir().unwrap();
        with_tmpfs(name, directory.path().to_owned(), 64, |disk| {
            let history = History::open(&disk.join("evictd"), 1 << 20).unwrap();
            let large = json!({ "text": "x".repeat(LARGEST_RECORD / 3) });
            let (queue, lines) = sync_channel(QUEUE);
            for _ in 0..5 {
                queue.send(vec![Line::of(&large).unwrap()]).unwrap();
            }
            drop(queue);
            let writer = Writer {
                history,
                lines,
                retry_every: Duration::ZERO,
                state: Arc::default(),
            };
            let log = logged(|| writer.write_all());
            let said = |words| log.matches(words).count();
            assert_eq!(said("a decision could not be written"), 1, "{log}");
            assert_eq!(said("a decision is missing"), 3, "{log}");
            assert_eq!(said("that could not be written to disk"), 1, "{log}");
        });
    }
}
