//! Writes the history beside the loop, so that a slow or full disk delays no eviction.

use super::{History, HistoryError, encode};
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
    /// Why the disk refused the last write, while it does.
    pub error: Option<String>,
}

/// A handle on the thread that writes. Dropping it writes what is still queued and ends the thread.
#[derive(Debug)]
pub struct Recorder {
    queue: Option<SyncSender<Vec<u8>>>,
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
        let line = encode(record)?;
        let queue = self.queue.as_ref().ok_or(HistoryError::Ended)?;
        queue.try_send(line).map_err(|refused| match refused {
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
    lines: &Receiver<Vec<u8>>,
    retry_every: Duration,
    kept: &Mutex<Kept>,
) {
    loop {
        let outcome = if history.waiting() == 0 {
            match lines.recv() {
                Ok(line) => history.append_line(line),
                Err(_) => return,
            }
        } else {
            match lines.recv_timeout(retry_every) {
                Ok(line) => history.append_line(line),
                Err(RecvTimeoutError::Timeout) => history.retry(),
                Err(RecvTimeoutError::Disconnected) => {
                    give_up(history);
                    return;
                }
            }
        };
        tell(&history, outcome, kept);
    }
}

fn give_up(mut history: History) {
    if let Err(error) = history.retry() {
        tracing::error!(%error, records = history.waiting(), "stopping with decisions that the disk never took");
    }
}

fn tell(history: &History, outcome: Result<(), HistoryError>, kept: &Mutex<Kept>) {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    let error = outcome.err().map(|error| error.to_string());
    match (&kept.error, &error) {
        (None, Some(error)) => {
            tracing::error!(error, "a decision could not be written; evictions go on");
        }
        (Some(_), None) => {
            tracing::info!(records = history.records(), "the history is written again");
        }
        _ => {}
    }
    *kept = Kept {
        records: history.records(),
        waiting: history.waiting(),
        error,
    };
}
