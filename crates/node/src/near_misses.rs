//! Near misses and times under conditions across restarts: a small file beside the history. A disk that is full or slow costs
//! nothing but the last minutes.

use crate::{regular_file, whole_file};
use evictd_kernel::threads::Pool;
use evictd_signals::near_misses::{Kept, NearMisses};
use jiff::{SignedDuration, Timestamp};
use std::{
    fs::{self, OpenOptions},
    io::{self, ErrorKind, Read},
    mem::take,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{
    sync::oneshot::{Receiver, error::TryRecvError},
    time::timeout,
};

/// The file in the state directory.
const FILE: &str = "near-misses.json";
/// A file that cannot be used is renamed to this, so that its content is not lost.
const DAMAGED: &str = "near-misses.damaged.json";
/// No more of the file is read.
const LONGEST: u64 = 256 << 10;
/// The time between two writes.
const PERIOD: SignedDuration = SignedDuration::from_mins(5);
/// The same after the end of a near miss.
const SOON: SignedDuration = SignedDuration::from_mins(1);
/// How long the last write may take when the agent stops. On a slower disk the last minutes are lost.
const LAST_WRITE: Duration = Duration::from_millis(400);

/// The near misses and times under conditions, and their file.
pub struct NearMissLog {
    misses: NearMisses,
    directory: PathBuf,
    threads: Pool,
    /// A write that has not ended.
    writing: Option<Receiver<io::Result<()>>>,
    written_at: Option<Timestamp>,
    /// Whether a near miss has ended since the last write.
    has_news: bool,
    /// Whether the last write failed, which was logged.
    fails: bool,
}

impl NearMissLog {
    /// Continues from the file in this directory. One that cannot be used is renamed, with a line in the log.
    pub fn open(directory: &Path) -> Self {
        Self {
            misses: NearMisses::new(read_or_rename(directory)),
            directory: directory.to_owned(),
            threads: Pool::of_this_process(),
            writing: None,
            written_at: None,
            has_news: false,
            fails: false,
        }
    }

    pub(crate) const fn misses(&mut self) -> &mut NearMisses {
        &mut self.misses
    }

    pub(crate) fn to_keep(&self) -> Kept {
        self.misses.to_keep()
    }

    /// Writes the file if that is due, on another thread. Call it in each cycle; `has_ended` says that a near miss has ended.
    pub(crate) fn save(&mut self, now: Timestamp, has_ended: bool) {
        self.has_news |= has_ended;
        let written_at = *self.written_at.get_or_insert(now);
        if self.is_writing() {
            return;
        }
        let pause = if self.has_news { SOON } else { PERIOD };
        if now.duration_since(written_at) >= pause {
            self.written_at = Some(now);
            self.write();
        }
    }

    fn write(&mut self) {
        self.has_news = false;
        let (directory, kept) = (self.directory.clone(), self.misses.to_keep());
        // A disk that hangs keeps one thread, and the next write waits for it.
        let submitted = self.threads.run(move || write(&directory, &kept));
        self.writing = submitted.ok();
    }

    fn is_writing(&mut self) -> bool {
        let Some(writing) = &mut self.writing else {
            return false;
        };
        match writing.try_recv() {
            Err(TryRecvError::Empty) => return true,
            Ok(written) => self.note(written),
            Err(TryRecvError::Closed) => {}
        }
        self.writing = None;
        false
    }

    fn note(&mut self, written: io::Result<()>) {
        let fails = written.is_err();
        match written {
            Err(error) if !self.fails => warn(&self.directory.join(FILE), &error),
            Ok(()) if self.fails => tracing::info!("near misses are kept again"),
            _ => {}
        }
        self.fails = fails;
    }

    /// Writes the file for the next start, within a second. It can run beside the other writes at a stop.
    pub(crate) fn close(&mut self) -> impl Future<Output = ()> + Send + 'static {
        let (earlier, threads) = (take(&mut self.writing), self.threads.clone());
        let (directory, kept) = (self.directory.clone(), self.misses.to_keep());
        async move {
            // An earlier write must not replace the last one.
            if let Some(earlier) = earlier
                && timeout(LAST_WRITE, earlier).await.is_err()
            {
                return;
            }
            let path = directory.join(FILE);
            let submitted = threads.run(move || write(&directory, &kept));
            if let Ok(writing) = submitted
                && let Ok(Ok(Err(error))) = timeout(LAST_WRITE, writing).await
            {
                warn(&path, &error);
            }
        }
    }
}

fn warn(path: &Path, error: &io::Error) {
    let path = path.display();
    tracing::warn!("near misses are not kept for the next start: {path}: {error}");
}

fn write(directory: &Path, kept: &Kept) -> io::Result<()> {
    whole_file::write_to_disk(directory, FILE, 0o640, &serde_json::to_vec(kept)?)
}

fn read_or_rename(directory: &Path) -> Kept {
    let path = directory.join(FILE);
    let why = match read(&path) {
        Ok(Some(kept)) if kept.is_newer() => "a newer evictd has written it".to_owned(),
        Ok(kept) => return kept.unwrap_or_default(),
        Err(error) => error.to_string(),
    };
    let renamed = match fs::rename(&path, directory.join(DAMAGED)) {
        Ok(()) => format!("it is kept as {DAMAGED}"),
        Err(error) => format!("and it cannot be renamed: {error}"),
    };
    tracing::warn!(
        "near misses from before this start are not used: {}: {why}; {renamed}",
        path.display()
    );
    Kept::default()
}

/// `None` if there is no such file.
fn read(path: &Path) -> io::Result<Option<Kept>> {
    let file = match regular_file::open(path, OpenOptions::new().read(true)) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text)?;
    Ok(Some(serde_json::from_str(&text)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_signals::{ConditionMap, NodeCondition};
    use evictd_testkit::testing::{logged, with_tmpfs};
    use std::iter::empty;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    /// An hour of memory pressure.
    fn filled(log: &mut NearMissLog) -> Kept {
        let mut raised = ConditionMap::default();
        raised[NodeCondition::MemoryPressure] = true;
        for step in 0..=360 {
            let now = at(step * 10);
            log.misses()
                .observe(now, SignedDuration::from_secs(10), raised, empty());
        }
        log.to_keep()
    }

    #[tokio::test]
    async fn what_is_known_is_there_after_a_restart() {
        let place = tempfile::tempdir().unwrap();
        let mut log = NearMissLog::open(place.path());
        let known = filled(&mut log);
        log.save(at(0), false);
        assert!(log.writing.is_none(), "it is not due");
        log.save(at(60), true);
        assert!(log.writing.is_some());
        log.close().await;
        let next = NearMissLog::open(place.path()).to_keep();
        assert_eq!(next.report(at(0), at(4000)), known.report(at(0), at(4000)));
        assert!(next.report(at(0), at(4000)).observed_seconds > 3590.0);
    }

    #[test]
    fn a_file_that_cannot_be_used_is_renamed_and_reported() {
        let newer = r#"{"version":99,"days":"of another form"}"#;
        for text in [
            "",
            "{",
            "\u{0}",
            r#"{"days":7}"#,
            r#"{"version":99}"#,
            newer,
        ] {
            let place = tempfile::tempdir().unwrap();
            fs::write(place.path().join(FILE), text).unwrap();
            let log = logged(|| {
                let kept = NearMissLog::open(place.path()).to_keep();
                assert!(
                    kept.report(Timestamp::MIN, Timestamp::MAX)
                        .conditions
                        .is_empty()
                );
            });
            assert!(
                log.contains("it is kept as near-misses.damaged.json"),
                "{text:?}: {log}"
            );
            let renamed = fs::read_to_string(place.path().join(DAMAGED)).unwrap();
            assert_eq!(
                (renamed.as_str(), place.path().join(FILE).exists()),
                (text, false)
            );
        }
        let nowhere = NearMissLog::open(Path::new("/nonexistent/state"));
        assert_eq!(
            nowhere.to_keep(),
            NearMisses::new(Kept::default()).to_keep()
        );
    }

    #[test]
    fn a_full_disk_leaves_the_last_file_as_it_was_and_is_reported_once() {
        let name = "a_full_disk_leaves_the_last_file_as_it_was_and_is_reported_once";
        let place = tempfile::tempdir().unwrap();
        with_tmpfs(name, place.path().to_owned(), 64, |disk| {
            let mut log = NearMissLog::open(disk);
            write(disk, &log.to_keep()).unwrap();
            let before = fs::read(disk.join(FILE)).unwrap();
            let filler = disk.join("filler");
            let all = fs::write(&filler, vec![0; 64 << 10]);
            assert_eq!(all.unwrap_err().kind(), ErrorKind::StorageFull);
            let known = filled(&mut log);
            let lines = logged(|| {
                for _ in 0..3 {
                    let written = write(disk, &known);
                    log.note(written);
                }
            });
            assert_eq!(lines.matches("are not kept").count(), 1, "{lines}");
            assert_eq!(fs::read(disk.join(FILE)).unwrap(), before);
            let left: Vec<_> = fs::read_dir(disk).unwrap().collect();
            assert_eq!(left.len(), 2, "nothing half written stays: {left:?}");
            fs::remove_file(&filler).unwrap();
            let lines = logged(|| {
                let written = write(disk, &known);
                log.note(written);
            });
            assert!(lines.contains("are kept again"), "{lines}");
            assert_eq!(NearMissLog::open(disk).to_keep(), known);
        });
    }
}
