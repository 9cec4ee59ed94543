//! The history of decisions: append-only, checksummed, bounded.
//!
//! One record is one line, `crc32 length json`, so that an operator can read it with `less` and a program can
//! detect damage. Two segments are kept, each up to half the byte limit: when `decisions.log` is full it is renamed
//! to `decisions.1.log`, which replaces the older one.
//!
//! Every record is one `write` followed by `fdatasync`: after [`History::append`] returned `Ok`, the record
//! survives a power cut. A process killed at any byte leaves at most one torn record, which the next
//! [`History::open`] cuts off. A disk can take seconds for a sync, so the daemon writes through a [`Recorder`].

mod intents;
mod past;
mod recorder;
mod scan;
mod tally;
#[cfg(test)]
mod tests;

pub(crate) use intents::Intents;
pub(crate) use past::{EarlierDecisions, OpenRecords, PastEviction, evicted};
pub(crate) use recorder::{Recorder, RecorderState};
pub use scan::Scanner;

use crate::regular_file;
use serde::Serialize;
use std::collections::VecDeque;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};
use tally::Tally;

const CURRENT: &str = "decisions.log";
const PREVIOUS: &str = "decisions.1.log";

/// The default limit of the history in bytes: some 500 decisions over 110 pods each.
pub(crate) const DEFAULT_LIMIT: u64 = 16 << 20;

/// The largest record in bytes; a decision over a thousand pods takes about 300 kB.
pub(crate) const LARGEST_RECORD: usize = 4 << 20;

/// The most bytes that wait in memory while writes fail.
const WAITING_LIMIT: usize = LARGEST_RECORD;

/// Why an operation on the history failed.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The directory or a segment could not be opened or created.
    #[error("cannot open the history {path}: {source}")]
    Open {
        /// The directory or segment.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// Another process holds the directory.
    #[error("the history {path} is in use by another process")]
    InUse {
        /// The directory of the history.
        path: PathBuf,
    },
    /// A segment could not be read.
    #[error("cannot read the history {path}: {source}")]
    Read {
        /// The file of the segment.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// The write failed; the record waits in memory and is written by a later call.
    #[error("cannot write the history {path} ({waiting} records wait in memory): {source}")]
    Write {
        /// The file of the segment.
        path: PathBuf,
        /// How many records wait, this one included.
        waiting: usize,
        /// The error of the system call.
        source: io::Error,
    },
    /// Writes fail and the memory for waiting records is used up: this record is lost.
    #[error(
        "the history {path} cannot be written and {waiting} records already wait: this one is lost"
    )]
    Full {
        /// The directory of the history.
        path: PathBuf,
        /// How many records wait.
        waiting: usize,
    },
    /// The record is larger than [`LARGEST_RECORD`]: it is not kept.
    #[error("a record of {size} bytes is larger than the history allows ({LARGEST_RECORD})")]
    TooLarge {
        /// Its size in bytes.
        size: usize,
    },
    /// The record is not representable as JSON: it is not kept.
    #[error("cannot encode a record for the history: {0}")]
    Encode(#[from] serde_json::Error),
    /// The disk is so slow that the writer's queue is full: this record is not kept.
    #[error("the history's disk is slow and {waiting} records already wait: this one is lost")]
    Behind {
        /// How many records wait.
        waiting: usize,
    },
    /// The writing thread has ended.
    #[error("the history's writer has stopped: the record is lost")]
    Ended,
}

impl HistoryError {
    /// Whether the error stays even if the disk recovers: another process is writing, or the path itself is wrong.
    fn is_lasting(&self) -> bool {
        match self {
            Self::InUse { .. } => true,
            Self::Open { source, .. } | Self::Read { source, .. } => matches!(
                source.kind(),
                ErrorKind::NotADirectory
                    | ErrorKind::IsADirectory
                    | ErrorKind::AlreadyExists
                    | ErrorKind::InvalidInput
                    | ErrorKind::InvalidFilename
            ),
            _ => false,
        }
    }
}

/// The one writer of a history directory.
#[derive(Debug)]
pub struct History {
    directory: PathBuf,
    /// Open to hold the lock and to sync renames; `None` while the directory cannot be opened.
    handle: Option<File>,
    /// Whether the content of the segments is known.
    checked: bool,
    segment_limit: u64,
    current: Option<File>,
    /// Bytes of the current segment that contain complete records or older damage.
    length: u64,
    /// Whether the file may be longer than `length`, because a write failed half way.
    torn: bool,
    /// The last record lacks its newline.
    unterminated: bool,
    in_current: Tally,
    in_previous: Tally,
    /// How often a new segment was begun.
    segments: u64,
    /// Why the directory cannot be opened, while that is so.
    last_error: Option<String>,
    waiting: Waiting,
    waiting_bytes: usize,
}

impl History {
    /// Opens or creates the history in `directory`, which never grows past `limit` bytes by more than one record.
    ///
    /// A damaged tail is cut off and other damage is skipped, each with a warning. If the disk is full, read-only
    /// or broken at present, that is only a warning too, and every record tries it again.
    pub fn open(directory: &Path, limit: u64) -> Result<Self, HistoryError> {
        let mut history = Self {
            directory: directory.to_owned(),
            handle: None,
            checked: false,
            segment_limit: limit / 2,
            current: None,
            length: 0,
            torn: false,
            unterminated: false,
            in_current: Tally::default(),
            in_previous: Tally::default(),
            segments: 0,
            last_error: None,
            waiting: Waiting::default(),
            waiting_bytes: 0,
        };
        match history.begin() {
            Err(error) if error.is_lasting() => Err(error),
            Err(error) => {
                tracing::warn!(
                    "no decision can be saved yet: {error}; evictd works without its history and tries again with each \
                     decision: free space on that disk, make it writable, or set another stateDirectory"
                );
                history.last_error = Some(error.to_string());
                Ok(history)
            }
            Ok(()) => Ok(history),
        }
    }

    fn begin(&mut self) -> Result<(), HistoryError> {
        self.take_hold()?;
        let begun = self.open_current().and_then(|()| self.mend());
        begun.map_err(|source| HistoryError::Open {
            path: self.path(CURRENT),
            source,
        })
    }

    /// Locks the directory and reads its content, unless that is done.
    fn take_hold(&mut self) -> Result<(), HistoryError> {
        if self.checked {
            return Ok(());
        }
        if self.handle.is_none() {
            self.handle = Some(lock(&self.directory)?);
        }
        let (previous, current) = (self.check(PREVIOUS)?, self.check(CURRENT)?);
        if let Some(checked) = previous {
            checked.warn(&self.path(PREVIOUS));
            self.in_previous = checked.holds;
        }
        if let Some(checked) = current {
            checked.warn(&self.path(CURRENT));
            self.length = checked.good_end;
            self.torn = checked.tail > 0;
            self.unterminated = checked.unterminated;
            self.in_current = checked.holds;
        }
        self.checked = true;
        Ok(())
    }

    /// Whether the content of the directory is known.
    pub(crate) fn is_readable(&self) -> bool {
        self.checked
    }

    /// Appends one record and syncs it to the disk.
    ///
    /// On `HistoryError::Write` the record is kept in memory, in order. The next `append` or [`History::retry`] that
    /// succeeds writes it.
    pub fn append(&mut self, record: &impl Serialize) -> Result<(), HistoryError> {
        self.append_line(Line::of(record)?)
    }

    fn append_line(&mut self, line: Line) -> Result<(), HistoryError> {
        let full = self.waiting_bytes + line.bytes.len() > WAITING_LIMIT && self.waiting() > 0;
        if full && self.retry().is_err() {
            return Err(HistoryError::Full {
                path: self.directory.clone(),
                waiting: self.waiting(),
            });
        }
        self.waiting_bytes += line.bytes.len();
        self.waiting.lines().push_back(line);
        self.retry()
    }

    /// Why nothing can be written to disk, if that is known without trying.
    pub(crate) fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    /// Writes the records that wait in memory. If none does, tries again to open the directory, if necessary.
    pub fn retry(&mut self) -> Result<(), HistoryError> {
        if self.last_error.is_some() && self.waiting() == 0 {
            self.begin()?;
        }
        // A record stays visible in memory until it is on disk.
        while let Some(line) = self.waiting.first() {
            if let Err(source) = self.write(&line.bytes) {
                return Err(HistoryError::Write {
                    path: self.path(CURRENT),
                    waiting: self.waiting(),
                    source,
                });
            }
            self.waiting.lines().pop_front();
            line.receipt.sign();
            self.waiting_bytes -= line.bytes.len();
        }
        self.last_error = None;
        Ok(())
    }

    /// How many records wait in memory for the disk.
    pub fn waiting(&self) -> usize {
        self.waiting.lines().len()
    }

    /// A view of those records, now and later.
    pub fn in_memory(&self) -> Waiting {
        self.waiting.clone()
    }

    /// How many records are on disk.
    pub fn records(&self) -> u64 {
        self.in_previous.records + self.in_current.records
    }

    /// How many evictions those records are of, dry runs included.
    pub fn evictions(&self) -> usize {
        self.in_current.evictions_with(&self.in_previous)
    }

    /// How often a new segment was begun; each time the oldest segment is deleted.
    pub fn segments(&self) -> u64 {
        self.segments
    }

    fn path(&self, segment: &str) -> PathBuf {
        self.directory.join(segment)
    }

    fn check(&self, segment: &str) -> Result<Option<Checked>, HistoryError> {
        let path = self.path(segment);
        let failed = |source| HistoryError::Read {
            path: path.clone(),
            source,
        };
        let opened = regular_file::open(&path, OpenOptions::new().read(true));
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let mut scanner = Scanner::new(BufReader::new(file));
        let mut holds = Tally::default();
        while let Some(record) = scanner.next_record().map_err(failed)? {
            holds.note(record.as_bytes());
        }
        Ok(Some(Checked {
            holds,
            good_end: scanner.good_end(),
            damaged: scanner.damaged_before_good_end(),
            tail: scanner.position() - scanner.good_end(),
            unterminated: scanner.unterminated(),
        }))
    }

    fn open_current(&mut self) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o640);
        let file = regular_file::open(&self.path(CURRENT), &mut options)?;
        if let Some(handle) = &self.handle {
            handle.sync_all()?;
        }
        self.current = Some(file);
        Ok(())
    }

    /// Cuts off the remains of a failed or interrupted write.
    fn mend(&mut self) -> io::Result<()> {
        if self.torn
            && let Some(file) = &self.current
        {
            file.set_len(self.length)?;
            self.torn = false;
        }
        Ok(())
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        self.take_hold().map_err(io::Error::other)?;
        self.reopen_if_removed()?;
        if self.length > 0 && self.length + line.len() as u64 > self.segment_limit {
            self.rotate()?;
        }
        if self.current.is_none() {
            self.open_current()?;
        }
        self.mend()?;
        let mut written = line.len() as u64;
        if let Some(file) = &mut self.current {
            self.torn = true;
            if self.unterminated {
                file.write_all(b"\n")?;
                written += 1;
            }
            file.write_all(line)?;
            file.sync_data()?;
        }
        self.torn = false;
        self.unterminated = false;
        self.length += written;
        if let Some(json) = scan::good_record(line) {
            self.in_current.note(&line[json]);
        }
        Ok(())
    }

    /// Opens a new file if the current one was deleted, because otherwise records would go to a file without a
    /// name.
    fn reopen_if_removed(&mut self) -> io::Result<()> {
        let Some(file) = &self.current else {
            return Ok(());
        };
        if file.metadata()?.nlink() > 0 {
            return Ok(());
        }
        tracing::warn!(path = %self.path(CURRENT).display(), "the history was removed; a new one is begun");
        create_directory(&self.directory)?;
        self.handle = Some(File::open(&self.directory)?);
        self.begin_segment(Tally::default());
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.mend()?;
        std::fs::rename(self.path(CURRENT), self.path(PREVIOUS))?;
        let full = std::mem::take(&mut self.in_current);
        self.begin_segment(full);
        Ok(())
    }

    fn begin_segment(&mut self, in_previous: Tally) {
        self.current = None;
        self.length = 0;
        self.torn = false;
        self.unterminated = false;
        self.in_current = Tally::default();
        self.in_previous = in_previous;
        self.segments += 1;
    }
}

/// A record on its way to the disk.
#[derive(Debug, Clone)]
struct Line {
    bytes: Arc<[u8]>,
    receipt: Receipt,
}

impl Line {
    /// A line without a receipt that anyone checks.
    fn of(record: &impl Serialize) -> Result<Self, HistoryError> {
        Ok(Self {
            bytes: encode(record)?.into(),
            receipt: Receipt::default(),
        })
    }
}

/// Records that wait in memory for the disk. Clones share their state.
#[derive(Debug, Clone, Default)]
pub struct Waiting(Arc<Mutex<VecDeque<Line>>>);

impl Waiting {
    fn lines(&self) -> MutexGuard<'_, VecDeque<Line>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn first(&self) -> Option<Line> {
        self.lines().front().cloned()
    }

    /// Their JSON, oldest first.
    pub fn records(&self) -> Vec<String> {
        let lines = self.lines();
        let json = |line: &Line| {
            let json = scan::good_record(&line.bytes)?;
            String::from_utf8(line.bytes[json].to_vec()).ok()
        };
        lines.iter().filter_map(json).collect()
    }
}

/// Whether a record is on disk. Clones share their state.
#[derive(Debug, Clone, Default)]
pub(crate) struct Receipt(Arc<AtomicBool>);

impl Receipt {
    fn sign(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_signed(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The result of checking a segment.
struct Checked {
    holds: Tally,
    good_end: u64,
    /// Bytes before that which belong to no record.
    damaged: u64,
    tail: u64,
    unterminated: bool,
}

impl Checked {
    fn warn(&self, path: &Path) {
        let (path, records) = (path.display(), self.holds.records);
        if self.damaged > 0 {
            tracing::warn!(
                %path, bytes = self.damaged, records,
                "damaged records in the history were skipped; the others are kept",
            );
        }
        if self.tail > 0 {
            tracing::warn!(
                %path, bytes = self.tail, records,
                "the end of the history was damaged and is cut off: the last record is lost",
            );
        }
    }
}

/// Opens and locks the directory for this process; creates it if it does not exist.
fn lock(directory: &Path) -> Result<File, HistoryError> {
    let path = directory.to_owned();
    let handle = match create_directory(directory).and_then(|()| File::open(directory)) {
        Ok(handle) => handle,
        Err(source) => return Err(HistoryError::Open { path, source }),
    };
    match handle.try_lock() {
        Ok(()) => Ok(handle),
        Err(TryLockError::WouldBlock) => Err(HistoryError::InUse { path }),
        Err(TryLockError::Error(source)) => Err(HistoryError::Open { path, source }),
    }
}

fn create_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o750).create(path)
}

pub(crate) fn encode(record: &impl Serialize) -> Result<Vec<u8>, HistoryError> {
    let json = serde_json::to_vec(record)?;
    if json.len() > LARGEST_RECORD {
        return Err(HistoryError::TooLarge { size: json.len() });
    }
    let mut line = format!("{:08x} {} ", crc32fast::hash(&json), json.len()).into_bytes();
    line.extend_from_slice(&json);
    line.push(b'\n');
    Ok(line)
}

/// The complete records of a history, oldest first, each as JSON. Needs no lock: it may be read while a daemon
/// writes, and skips a record that is only half written.
#[derive(Debug)]
pub(crate) struct Records {
    segments: VecDeque<(PathBuf, Scanner<BufReader<File>>)>,
}

/// Opens the records kept in `directory`; a directory or segment that is not there holds none.
pub(crate) fn read(directory: &Path) -> Result<Records, HistoryError> {
    let mut segments = VecDeque::new();
    let mut seen = None;
    // The current segment first: if the writer renames it in between, the same file is opened twice, but none is
    // missed.
    for name in [CURRENT, PREVIOUS] {
        let path = directory.join(name);
        let opened = regular_file::open(&path, OpenOptions::new().read(true));
        let opened = opened.and_then(|file| Ok((file.metadata()?.ino(), file)));
        let (inode, file) = match opened {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(source) => return Err(HistoryError::Read { path, source }),
        };
        if seen.replace(inode) != Some(inode) {
            segments.push_front((path, Scanner::new(BufReader::new(file))));
        }
    }
    Ok(Records { segments })
}

impl Iterator for Records {
    type Item = Result<String, HistoryError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (path, scanner) = self.segments.front_mut()?;
            match scanner.next_record() {
                Ok(Some(record)) => return Some(Ok(record)),
                Ok(None) => {
                    self.segments.pop_front();
                }
                Err(source) => {
                    let path = path.clone();
                    self.segments.pop_front();
                    return Some(Err(HistoryError::Read { path, source }));
                }
            }
        }
    }
}
