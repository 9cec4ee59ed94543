//! The queue between the threads that log and the thread that writes.
//!
//! If no writing thread can be created, each logging thread writes as much as the reader accepts at once; the rest
//! is dropped and counted.

use super::entry::Entry;
use evictd_command::printable;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::Duration;
use systemd_journal_logger::JournalLog;
use tracing_subscriber::fmt::MakeWriter;

/// The most lines that wait for a slow reader, or for the thread at start.
const QUEUE: usize = 1024;

/// How long the process waits for such a reader at its end.
const PATIENCE: Duration = Duration::from_secs(1);

const STACK_BYTES: usize = 128 << 10;

/// The bytes that a ready pipe or socket accepts without blocking (`PIPE_BUF`).
const AT_ONCE: usize = 4096;

/// A queued line.
pub(super) enum Line {
    /// With separate fields, for the journal.
    Entry(Box<Entry>),
    /// Formatted, for stderr.
    Text(Vec<u8>),
    /// The end of the queue.
    End,
}

/// A handle for threads that log.
#[derive(Clone)]
pub(super) struct Queue {
    lines: SyncSender<Line>,
    shared: Arc<Shared>,
    to_journal: bool,
    /// Whether lines must not contain colours.
    plain: bool,
}

/// The state shared by the handles.
struct Shared {
    lost: AtomicU64,
    /// Whether lines need not be kept for a thread, because none will start soon.
    no_thread: AtomicBool,
    /// Whether the thread is running or about to start.
    started: AtomicBool,
    /// The writer, until the thread takes it.
    writer: Mutex<Option<Writer>>,
}

struct Writer {
    lines: Receiver<Line>,
    journal: Option<JournalLog>,
    /// Dropped after the last line was written.
    _done: SyncSender<()>,
}

/// Dropping it writes the queued lines, but for at most a second.
#[derive(Debug)]
pub struct Guard {
    queue: Queue,
    written: Receiver<()>,
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Line")
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Queue")
    }
}

impl Queue {
    /// For `journal`, or for stderr without one. Lines are queued until [`Guard::start`].
    pub(super) fn new(journal: Option<JournalLog>) -> (Self, Guard) {
        let (lines, to_write) = sync_channel(QUEUE);
        let (done, written) = sync_channel(1);
        let queue = Self {
            lines,
            to_journal: journal.is_some(),
            shared: Arc::new(Shared {
                lost: AtomicU64::new(0),
                no_thread: AtomicBool::new(false),
                started: AtomicBool::new(false),
                writer: Mutex::new(Some(Writer {
                    lines: to_write,
                    journal,
                    _done: done,
                })),
            }),
            plain: false,
        };
        let guard = Guard {
            queue: queue.clone(),
            written,
        };
        (queue, guard)
    }

    /// For lines without colours; control characters are removed, so that no line can control a terminal.
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
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
        }
        if self.shared.no_thread.load(Ordering::Relaxed) && self.shared.start().is_err() {
            self.shared.write_at_once(Duration::ZERO);
        }
    }
}

impl Shared {
    fn start(self: &Arc<Self>) -> io::Result<()> {
        let shared = Arc::clone(self);
        let started = Builder::new()
            .name("log".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let writer = shared
                    .writer
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take();
                if let Some(writer) = writer {
                    writer.write_all(&shared.lost);
                }
            });
        self.no_thread.store(started.is_err(), Ordering::Relaxed);
        self.started.store(started.is_ok(), Ordering::Relaxed);
        started.map(|_| ())
    }

    /// Writes the queued lines, waiting for the reader for at most `patience`.
    fn write_at_once(&self, patience: Duration) {
        // Another thread is writing, and will write this line too.
        let Ok(writer) = self.writer.try_lock() else {
            return;
        };
        let Some(writer) = writer.as_ref() else {
            return;
        };
        let lost = self.lost.swap(0, Ordering::Relaxed);
        let notice = (lost > 0).then(|| Line::Entry(Box::new(Entry::lost(lost))));
        let mut lost_now = 0;
        for line in notice.into_iter().chain(writer.lines.try_iter()) {
            if !line.write_within(patience) {
                lost_now += 1;
            }
        }
        self.lost.fetch_add(lost_now, Ordering::Relaxed);
    }
}

impl Writer {
    fn write_all(&self, lost: &AtomicU64) {
        while let Ok(line) = self.lines.recv() {
            if matches!(line, Line::End) {
                break;
            }
            write(self.journal.as_ref(), line);
            tell_loss(self.journal.as_ref(), lost.swap(0, Ordering::Relaxed));
        }
    }
}

impl Guard {
    /// Starts the writing thread. If that fails, every line tries again, and is written if the reader accepts it at
    /// once.
    pub fn start(&self) -> io::Result<()> {
        self.queue.shared.start()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // If even this does not fit, the reader is stuck and waiting is pointless.
        let has_room = self.queue.lines.try_send(Line::End).is_ok();
        if !self.queue.shared.started.load(Ordering::Relaxed) {
            self.queue.shared.write_at_once(PATIENCE);
        } else if has_room {
            let _: Result<(), RecvTimeoutError> = self.written.recv_timeout(PATIENCE);
        }
    }
}

impl Line {
    /// Writes to stderr, or to the journal if there is one. False if the reader accepts no more.
    fn write_within(self, patience: Duration) -> bool {
        let text = match self {
            Self::Entry(entry) => format!("{}\n", entry.message()).into_bytes(),
            Self::Text(text) => text,
            Self::End => return true,
        };
        let (stderr, patience) = (io::stderr(), patience.as_millis());
        let patience = PollTimeout::try_from(patience).unwrap_or(PollTimeout::ZERO);
        text.chunks(AT_ONCE).all(|piece| {
            let mut ready = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
            let takes = poll(&mut ready, patience) == Ok(1)
                && ready[0]
                    .revents()
                    .is_some_and(|now| now.contains(PollFlags::POLLOUT));
            takes && stderr.lock().write_all(piece).is_ok()
        })
    }
}

/// A line that cannot be written is dropped, because there is no other place to report that.
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

/// One formatted line; the format layer writes it as a whole.
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
