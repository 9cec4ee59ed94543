//! The queue between whoever logs and the thread that writes.

use super::journal::Entry;
use evictd_command::printable;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::Duration;
use systemd_journal_logger::JournalLog;
use tracing_subscriber::fmt::MakeWriter;

/// Lines that may wait for a reader that is slow.
const QUEUE: usize = 1024;

/// How long the end of the process waits for such a reader.
const PATIENCE: Duration = Duration::from_secs(1);

const STACK_BYTES: usize = 128 << 10;

/// One line on its way.
pub(super) enum Line {
    /// With its fields apart, for the journal.
    Entry(Box<Entry>),
    /// Formatted, for stderr.
    Text(Vec<u8>),
    /// The last one.
    End,
}

/// A handle for whoever logs.
#[derive(Clone)]
pub(super) struct Queue {
    lines: SyncSender<Line>,
    lost: Arc<AtomicU64>,
    to_journal: bool,
    /// Whether no line brings colours of its own.
    plain: bool,
}

/// Dropping it writes what is queued, or gives up after a second.
#[derive(Debug)]
pub struct Guard {
    lines: SyncSender<Line>,
    written: Receiver<()>,
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Line")
    }
}

impl Queue {
    /// Starts the thread that writes to `journal`, or to stderr without one.
    pub(super) fn start(journal: Option<JournalLog>) -> io::Result<(Self, Guard)> {
        let (lines, to_write) = sync_channel(QUEUE);
        let (done, written) = sync_channel(1);
        let lost = Arc::new(AtomicU64::new(0));
        let queue = Self {
            lines: lines.clone(),
            lost: Arc::clone(&lost),
            to_journal: journal.is_some(),
            plain: false,
        };
        Builder::new()
            .name("log".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                while let Ok(line) = to_write.recv() {
                    if matches!(line, Line::End) {
                        break;
                    }
                    write(journal.as_ref(), line);
                    tell_loss(journal.as_ref(), lost.swap(0, Ordering::Relaxed));
                }
                drop(done);
            })?;
        Ok((queue, Guard { lines, written }))
    }

    /// For lines without colours, in which nothing may steer a terminal.
    pub(super) fn plain(self) -> Self {
        Self {
            plain: true,
            ..self
        }
    }

    pub(super) fn writes_to_journal(&self) -> bool {
        self.to_journal
    }

    pub(super) fn push(&self, line: Line) {
        if self.lines.try_send(line).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // When even this does not fit, the reader is stuck and waiting is pointless.
        if self.lines.try_send(Line::End).is_ok() {
            let _ = self.written.recv_timeout(PATIENCE);
        }
    }
}

/// A line that nobody can be told about is lost: there is no third place to say so.
fn write(journal: Option<&JournalLog>, line: Line) {
    match (journal, line) {
        (Some(journal), Line::Entry(entry)) => drop(entry.send(journal)),
        (_, Line::Text(text)) => drop(io::stderr().write_all(&text)),
        (None, Line::Entry(_)) | (_, Line::End) => {}
    }
}

fn tell_loss(journal: Option<&JournalLog>, lost: u64) {
    if lost > 0 {
        let entry = Entry::lost(lost);
        match journal {
            Some(_) => write(journal, Line::Entry(Box::new(entry))),
            None => write(
                None,
                Line::Text(format!("{}\n", entry.message()).into_bytes()),
            ),
        }
    }
}

/// One formatted line; the format layer writes it in one piece.
pub(super) struct LineWriter<'a>(&'a Queue);

impl Write for LineWriter<'_> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let line = match std::str::from_utf8(text) {
            Ok(line) if self.0.plain => printable(line).into_owned().into_bytes(),
            _ => text.to_vec(),
        };
        self.0.push(Line::Text(line));
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Queue {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        LineWriter(self)
    }
}
