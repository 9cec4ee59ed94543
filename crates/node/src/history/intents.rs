//! Decisions that are about to be carried out, in a file of fixed size in memory (tmpfs), so that no disk can delay
//! them. The file outlives this process but not a reboot.
//!
//! The history is written in the background, to a disk that may be full, frozen or slow. If the daemon dies right
//! after it has killed a pod, a record must remain. So each decision that makes a pod leave is first written here,
//! in place, into pages that are already allocated. It stays until the history has it on disk: the next run finds
//! each open decision in one of the two.
//!
//! The file is an array of slots. A used slot begins with a line as in the history, `crc32 length json`; a free one
//! with a zero byte.

use super::{Receipt, encode, scan::good_record};
use crate::regular_file;
use evictd_decision::record::Record;
use nix::sys::statfs::{TMPFS_MAGIC, fstatfs};
use rustix::fs::{FallocateFlags, fallocate};
use std::{
    borrow::Cow,
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

const FILE: &str = "intents";
/// Holds a whole decision over some 30 pods; for larger ones the ranking is left out.
const SLOT_BYTES: usize = 8 << 10;
/// As many as the most records that may wait for the history's writer.
const SLOTS: usize = 64;

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IntentsError {
    /// The file could not be opened or prepared.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        /// The failed action, in a few words.
        doing: &'static str,
        /// The file or its directory.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// The file is on a disk, which could delay a kill.
    #[error("{path} is on a disk, and not in memory (tmpfs)")]
    NotInMemory {
        /// The file of the intents.
        path: PathBuf,
    },
    /// Another process holds it.
    #[error("{path} is in use by another process")]
    InUse {
        /// The file of the intents.
        path: PathBuf,
    },
}

/// The file, held open.
#[derive(Debug)]
pub(crate) struct Intents {
    file: File,
    path: PathBuf,
    slots: Vec<Option<Held>>,
    /// Whether the last write failed; a failure is logged once.
    failing: bool,
}

/// The record in a slot.
#[derive(Debug)]
struct Held {
    id: String,
    is_open: bool,
    /// Whether the history has it on disk.
    receipt: Receipt,
}

impl Intents {
    /// Opens or creates the file in this directory, and returns the records in it. A damaged slot is skipped with a
    /// warning: a process that died while writing it had not begun to carry it out.
    pub(crate) fn open(directory: &Path) -> Result<(Self, Vec<Record>), IntentsError> {
        let path = directory.join(FILE);
        let failed = |doing, path: &Path| {
            let path = path.to_owned();
            move |source| IntentsError::Io {
                doing,
                path,
                source,
            }
        };
        let mut make = DirBuilder::new();
        make.recursive(true).mode(0o755);
        make.create(directory).map_err(failed("make", directory))?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = regular_file::open(&path, options.mode(0o640));
        let file = file.map_err(failed("open", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(IntentsError::InUse { path }),
            Err(TryLockError::Error(source)) => return Err(failed("lock", &path)(source)),
        }
        let filesystem = fstatfs(&file).map_err(io::Error::from);
        if filesystem
            .map_err(failed("inspect", &path))?
            .filesystem_type()
            != TMPFS_MAGIC
        {
            return Err(IntentsError::NotInMemory { path });
        }
        let bytes = (SLOTS * SLOT_BYTES) as u64;
        fallocate(&file, FallocateFlags::empty(), 0, bytes)
            .map_err(io::Error::from)
            // Reserved at the start, because a node that is short of memory may have no page left for it later.
            .map_err(failed("make room for", &path))?;
        let mut intents = Self {
            file,
            path,
            slots: Vec::with_capacity(SLOTS),
            failing: false,
        };
        let records = intents.read()?;
        Ok((intents, records))
    }

    fn read(&mut self) -> Result<Vec<Record>, IntentsError> {
        let mut records = Vec::new();
        let mut slot = vec![0; SLOT_BYTES];
        let mut damaged = 0;
        for number in 0..SLOTS {
            let read = self.file.read_exact_at(&mut slot, offset(number));
            read.map_err(|source| IntentsError::Io {
                doing: "read",
                path: self.path.clone(),
                source,
            })?;
            let found = good_record(&slot)
                .and_then(|json| serde_json::from_slice::<Record>(&slot[json]).ok());
            damaged += usize::from(found.is_none() && slot[0] != 0);
            self.slots.push(found.as_ref().map(|record| Held {
                id: record.id.clone(),
                is_open: record.is_open(),
                receipt: Receipt::default(),
            }));
            records.extend(found);
        }
        if damaged > 0 {
            let path = self.path.display();
            tracing::warn!(%path, damaged, "records that were not written completely when evictd stopped are skipped");
        }
        Ok(records)
    }

    /// Writes this record, whose whole line is `line`, or as much of it as fits. The receipt must be given to the
    /// history's writer, which marks it when the line is on disk.
    pub(crate) fn write(&mut self, record: &Record, line: &[u8]) -> Receipt {
        self.release();
        let receipt = Receipt::default();
        let written = self.write_free(record, line, &receipt);
        if let Err(error) = &written
            && !self.failing
        {
            let path = self.path.display();
            tracing::warn!(%path, %error, "a decision is not in memory, only in the history, whose disk is slow");
        }
        self.failing = written.is_err();
        receipt
    }

    fn write_free(&mut self, record: &Record, line: &[u8], receipt: &Receipt) -> io::Result<()> {
        let fitting = fitting(record, line)?;
        let full = || io::Error::new(io::ErrorKind::StorageFull, "it is full");
        let free = self.slots.iter().position(Option::is_none);
        let is_closed = |held: &Option<Held>| held.as_ref().is_some_and(|held| !held.is_open);
        let closed = || self.slots.iter().position(is_closed);
        let slot = free.or_else(closed).ok_or_else(full)?;
        self.file.write_all_at(&fitting, offset(slot))?;
        let held = Held {
            id: record.id.clone(),
            is_open: record.is_open(),
            receipt: receipt.clone(),
        };
        self.slots[slot] = Some(held);
        // Frees an older slot of the same decision.
        self.free_if(|number, held| number != slot && held.id == record.id);
        Ok(())
    }

    /// Frees the slots whose records are on disk in the history.
    pub(crate) fn release(&mut self) {
        self.free_if(|_, held| held.receipt.is_signed());
    }

    /// Frees the slots of this decision.
    pub(crate) fn free(&mut self, id: &str) {
        self.free_if(|_, held| held.id == id);
    }

    fn free_if(&mut self, done: impl Fn(usize, &Held) -> bool) {
        for (number, slot) in self.slots.iter_mut().enumerate() {
            let done = slot.as_ref().is_some_and(|held| done(number, held));
            // If this fails it is tried again later, at the latest by the next start.
            if done && self.file.write_all_at(&[0], offset(number)).is_ok() {
                *slot = None;
            }
        }
    }
}

const fn offset(slot: usize) -> u64 {
    (slot * SLOT_BYTES) as u64
}

/// The line of the record, without the ranking if it does not fit into a slot otherwise.
fn fitting<'a>(record: &Record, line: &'a [u8]) -> io::Result<Cow<'a, [u8]>> {
    if line.len() <= SLOT_BYTES {
        return Ok(Cow::Borrowed(line));
    }
    let essential = record.clone().essential();
    // The ranking and long texts are left out first; the kill can be finished without them.
    for shorter in [essential.clone(), essential.brief()] {
        let line = encode(&shorter).map_err(io::Error::other)?;
        if line.len() <= SLOT_BYTES {
            return Ok(Cow::Owned(line));
        }
    }
    Err(io::ErrorKind::FileTooLarge.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_decision::record::{Kind, Outcome, RankingRow};
    use evictd_testkit::testing::{logged, wait_until, with_tmpfs};
    use jiff::Timestamp;
    use nix::sys::statfs::statfs;
    use std::fs;

    fn record(id: &str, pods: usize) -> Record {
        let row = |number| RankingRow {
            pod: format!("shop/pod-{number}"),
            ..RankingRow::default()
        };
        Record {
            pod: Some("shop/hog".to_owned()),
            uid: Some("u".to_owned()),
            ranking: (0..pods).map(row).collect(),
            ..Record::new(
                id.to_owned(),
                Timestamp::UNIX_EPOCH,
                Kind::Hard,
                "memory.available",
            )
        }
    }

    fn write(intents: &mut Intents, record: &Record) -> Receipt {
        intents.write(record, &encode(record).unwrap())
    }

    /// Retries the lock: a process that another test is just starting holds it for a moment, with copies of all
    /// descriptors.
    fn opened(place: &Path) -> (Intents, Vec<Record>) {
        let mut opened = Intents::open(place);
        wait_until("the last one to hold it is gone", || {
            if let Err(IntentsError::InUse { .. }) = opened {
                opened = Intents::open(place);
            }
            !matches!(opened, Err(IntentsError::InUse { .. }))
        });
        opened.unwrap()
    }

    fn in_memory(name: &str, test: impl FnOnce(&Path) + Send + 'static) {
        let directory = tempfile::tempdir().unwrap();
        with_tmpfs(name, directory.path().to_owned(), 1024, test);
    }

    #[test]
    fn an_intent_is_found_until_the_history_has_its_record() {
        in_memory(
            "an_intent_is_found_until_the_history_has_its_record",
            |place| {
                let (mut intents, before) = opened(place);
                assert_eq!(before, []);
                let receipts = ["a", "b", "c"].map(|id| write(&mut intents, &record(id, 2)));
                receipts[1].sign();
                intents.release();
                drop(intents);
                let (mut intents, found) = opened(place);
                assert_eq!(found, [record("a", 2), record("c", 2)]);
                intents.free("a");
                drop(intents);
                assert_eq!(opened(place).1, [record("c", 2)]);
            },
        );
    }

    #[test]
    fn of_two_records_of_a_decision_the_later_is_kept() {
        in_memory("of_two_records_of_a_decision_the_later_is_kept", |place| {
            let (mut intents, _) = opened(place);
            write(&mut intents, &record("a", 2));
            let mut ended = record("a", 2);
            ended.conclude(Outcome::not_started());
            write(&mut intents, &ended);
            drop(intents);
            assert_eq!(opened(place).1, [ended]);
        });
    }

    #[test]
    fn of_a_large_decision_everything_but_the_ranking_is_kept() {
        in_memory(
            "of_a_large_decision_everything_but_the_ranking_is_kept",
            |place| {
                let (mut intents, _) = opened(place);
                write(&mut intents, &record("large", 1000));
                let words = Record {
                    message: Some("word ".repeat(10_000)),
                    ..record("long", 1)
                };
                write(&mut intents, &words);
                drop(intents);
                let found = opened(place).1;
                assert_eq!(found, [record("large", 0), words.brief()]);
            },
        );
    }

    #[test]
    fn once_it_is_made_no_full_filesystem_holds_it_up() {
        in_memory("once_it_is_made_no_full_filesystem_holds_it_up", |place| {
            let (mut intents, _) = opened(place);
            while fs::OpenOptions::new()
                .append(true)
                .create(true)
                .open(place.join("filler"))
                .and_then(|mut file| io::Write::write_all(&mut file, &[1; 512]))
                .is_ok()
            {}
            for id in 0..SLOTS {
                write(&mut intents, &record(&id.to_string(), 20));
            }
            drop(intents);
            assert_eq!(opened(place).1.len(), SLOTS);
        });
    }

    #[test]
    fn with_all_slots_taken_closed_records_are_replaced_and_that_is_logged_once() {
        in_memory(
            "where_all_slots_are_taken_what_is_closed_makes_room",
            |place| {
                let (mut intents, _) = opened(place);
                for id in 1..SLOTS {
                    write(&mut intents, &record(&id.to_string(), 1));
                }
                let mut closed = record("closed", 1);
                closed.conclude(Outcome::not_started());
                write(&mut intents, &closed);
                let log = logged(|| {
                    for id in ["open", "too many", "far too many"] {
                        write(&mut intents, &record(id, 1));
                    }
                });
                assert_eq!(log.lines().count(), 1, "{log}");
                drop(intents);
                let found = opened(place).1;
                let has = |id: &str| found.iter().any(|record| record.id == id);
                assert!(has("open") && has("1") && !has("closed") && !has("too many"));
                assert_eq!(found.len(), SLOTS);
            },
        );
    }

    #[test]
    fn damage_costs_its_own_slot_and_is_warned_of() {
        in_memory("damage_costs_its_own_slot_and_is_warned_of", |place| {
            let (mut intents, _) = opened(place);
            for id in ["a", "b", "c"] {
                write(&mut intents, &record(id, 2));
            }
            intents.file.write_all_at(b"x", offset(1) + 40).unwrap();
            drop(intents);
            let mut found = Vec::new();
            let log = logged(|| found = opened(place).1);
            assert_eq!(found, [record("a", 2), record("c", 2)]);
            assert!(
                log.lines().count() == 1 && log.contains("damaged=1"),
                "{log}"
            );
        });
    }

    #[test]
    fn a_file_on_a_disk_and_one_in_use_are_refused() {
        in_memory("a_file_on_a_disk_and_one_in_use_are_refused", |place| {
            let _first = opened(place);
            let second = Intents::open(place);
            assert!(matches!(second, Err(IntentsError::InUse { .. })));
            let error = Intents::open(Path::new("/proc/self")).unwrap_err();
            assert!(error.to_string().contains("/proc/self"), "{error}");
        });
        let disk = tempfile::tempdir().unwrap();
        if statfs(disk.path()).unwrap().filesystem_type() != TMPFS_MAGIC {
            let error = Intents::open(disk.path()).unwrap_err();
            assert!(matches!(error, IntentsError::NotInMemory { .. }), "{error}");
        }
    }
}
