use super::*;
use evictd_testkit::testing::{logged, wait_until, with_tmpfs};
use nix::mount::{MsFlags, mount};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::ops::Range;
use std::time::Duration;

fn decision(id: u64) -> Value {
    json!({ "id": format!("d-{id}"), "pod": "shop/cart", "message": "says \"hi\"\n00000000 2 {}" })
}

/// A process that another test is just starting has our lock for a moment, too, as copies of all descriptors.
fn opened(directory: &Path, limit: u64) -> History {
    let mut history = History::open(directory, limit);
    wait_until("the last one to hold it is gone", || {
        if let Err(HistoryError::InUse { .. }) = history {
            history = History::open(directory, limit);
        }
        !matches!(history, Err(HistoryError::InUse { .. }))
    });
    history.unwrap()
}

fn ids(directory: &Path) -> Vec<String> {
    read(directory)
        .unwrap()
        .map(|record| {
            let record: Value = serde_json::from_str(&record.unwrap()).unwrap();
            record["id"].as_str().unwrap().to_owned()
        })
        .collect()
}

fn expected(range: Range<u64>) -> Vec<String> {
    range.map(|id| format!("d-{id}")).collect()
}

fn written(records: u64) -> Vec<u8> {
    (0..records)
        .flat_map(|id| encode(&decision(id)).unwrap())
        .collect()
}

fn scanned(bytes: &[u8]) -> Vec<String> {
    let mut scanner = Scanner::new(bytes);
    std::iter::from_fn(|| scanner.next_record().unwrap()).collect()
}

/// Where each record of [`written`] lies, newline included.
fn spans(records: u64) -> Vec<Range<usize>> {
    let mut start = 0;
    (0..records)
        .map(|id| {
            let end = start + encode(&decision(id)).unwrap().len();
            std::mem::replace(&mut start, end)..end
        })
        .collect()
}

#[test]
fn a_line_is_checksum_length_and_json() {
    let line = encode(&json!({ "a": 1 })).unwrap();
    assert_eq!(line, b"561bacaf 7 {\"a\":1}\n");
}

#[test]
fn appended_records_are_read_after_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("evictd");
    for id in 0..5 {
        let mut history = opened(&path, 1 << 20);
        assert_eq!(history.records(), id);
        history.append(&decision(id)).unwrap();
    }
    assert_eq!(ids(&path), expected(0..5));
}

#[test]
fn a_directory_in_use_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let _first = opened(directory.path(), 1 << 20);
    let second = History::open(directory.path(), 1 << 20);
    assert!(matches!(second, Err(HistoryError::InUse { .. })));
}

#[test]
fn a_directory_that_is_a_file_or_below_one_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    File::create(&file).unwrap();
    for path in [file.clone(), file.join("below")] {
        let error = History::open(&path, 1 << 20).unwrap_err();
        assert!(matches!(error, HistoryError::Open { .. }), "{error}");
        assert!(error.to_string().contains("file"), "{error}");
    }
}

#[test]
fn a_segment_that_is_a_directory_is_an_error_with_its_path() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join(CURRENT)).unwrap();
    let error = History::open(directory.path(), 1 << 20).unwrap_err();
    assert!(error.to_string().contains(CURRENT), "{error}");
}

#[test]
fn killed_at_any_byte_loses_at_most_the_record_being_written() {
    let bytes = written(3);
    let spans = spans(3);
    let directory = tempfile::tempdir().unwrap();
    for cut in 0..=bytes.len() {
        std::fs::write(directory.path().join(CURRENT), &bytes[..cut]).unwrap();
        let mut history = opened(directory.path(), 1 << 20);
        // A record is whole without its newline.
        let whole = spans.iter().filter(|span| span.end - 1 <= cut).count() as u64;
        assert_eq!(history.records(), whole, "cut at {cut}");
        history.append(&decision(7)).unwrap();
        drop(history);
        let mut kept = expected(0..whole);
        kept.push("d-7".to_owned());
        assert_eq!(ids(directory.path()), kept, "cut at {cut}");
        let after = std::fs::read_to_string(directory.path().join(CURRENT)).unwrap();
        assert_eq!(after.lines().count() as u64, whole + 1, "cut at {cut}");
    }
}

#[test]
fn any_flipped_byte_costs_at_most_its_own_record() {
    let bytes = written(3);
    let spans = spans(3);
    let good = scanned(&bytes);
    assert_eq!(good.len(), 3);
    for at in 0..bytes.len() {
        for mask in [0x01, 0x20, 0x80, 0xff, bytes[at] ^ b'\n', bytes[at]] {
            let mut damaged = bytes.clone();
            damaged[at] ^= mask;
            let found = scanned(&damaged);
            for (record, span) in good.iter().zip(&spans) {
                assert!(
                    found.contains(record) || span.contains(&at),
                    "byte {at} ^ {mask:#x}"
                );
            }
            assert!(
                found.iter().all(|record| good.contains(record)),
                "byte {at} ^ {mask:#x}"
            );
        }
    }
}

#[test]
fn a_zeroed_sector_costs_only_the_records_in_it() {
    let bytes = written(4);
    let spans = spans(4);
    let good = scanned(&bytes);
    // From inside the second record exactly to the beginning of the third, its newline included.
    let mut damaged = bytes.clone();
    damaged[spans[1].start + 5..spans[1].end].fill(0);
    assert_eq!(
        scanned(&damaged),
        [good[0].clone(), good[2].clone(), good[3].clone()]
    );
}

#[test]
fn damage_in_the_middle_is_kept_and_records_are_appended() {
    let directory = tempfile::tempdir().unwrap();
    let mut bytes = written(3);
    bytes[spans(3)[1].start + 30] ^= 0x40;
    std::fs::write(directory.path().join(CURRENT), &bytes).unwrap();
    let mut history = opened(directory.path(), 1 << 20);
    history.append(&decision(3)).unwrap();
    drop(history);
    assert_eq!(ids(directory.path()), ["d-0", "d-2", "d-3"]);
}

proptest! {
    #[test]
    fn rubbish_is_never_taken_for_a_record(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        prop_assert_eq!(scanned(&bytes), Vec::<String>::new());
    }

    #[test]
    fn records_in_intact_lines_survive_any_damage(
        hits in proptest::collection::vec((0..450_usize, any::<u8>()), 0..20),
    ) {
        let bytes = written(6);
        let good = scanned(&bytes);
        let mut damaged = bytes.clone();
        for (at, byte) in hits {
            damaged[at] = byte;
        }
        let found = scanned(&damaged);
        for (record, span) in good.iter().zip(spans(6)) {
            let from = span.start.saturating_sub(1);
            if damaged[from..span.end] == bytes[from..span.end] {
                prop_assert!(found.contains(record));
            }
        }
        prop_assert!(found.iter().all(|record| good.contains(record)));
    }
}

#[test]
fn the_size_is_bounded_and_the_newest_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let limit = 2000;
    let mut history = opened(directory.path(), limit);
    for id in 0..200 {
        history.append(&decision(id)).unwrap();
        let size: u64 = std::fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .sum();
        assert!(size <= limit, "{size} bytes");
    }
    let kept = ids(directory.path());
    assert_eq!(kept.len() as u64, history.records());
    assert!(kept.len() > 10, "{} kept", kept.len());
    assert_eq!(kept, expected(200 - kept.len() as u64..200));
    drop(history);
    assert_eq!(opened(directory.path(), limit).records(), kept.len() as u64);
}

#[test]
fn a_record_that_is_too_large_is_refused_and_the_next_one_kept() {
    let directory = tempfile::tempdir().unwrap();
    let mut history = opened(directory.path(), 1 << 20);
    let large = json!({ "text": "x".repeat(LARGEST_RECORD) });
    assert!(matches!(
        history.append(&large),
        Err(HistoryError::TooLarge { .. })
    ));
    history.append(&decision(0)).unwrap();
    assert_eq!(ids(directory.path()), ["d-0"]);
}

#[test]
fn a_removed_directory_begins_anew() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("evictd");
    let mut history = opened(&path, 1 << 20);
    history.append(&decision(0)).unwrap();
    std::fs::remove_dir_all(&path).unwrap();
    history.append(&decision(1)).unwrap();
    assert_eq!(ids(&path), ["d-1"]);
}

#[test]
fn reading_where_nothing_is_finds_nothing() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(read(&directory.path().join("nothing")).unwrap().count(), 0);
}

fn with_small_disk(name: &str, test: impl FnOnce(&Path) + Send + 'static) {
    let directory = tempfile::tempdir().unwrap();
    with_tmpfs(name, directory.path().to_owned(), 64, test);
}

fn fill(disk: &Path) -> std::path::PathBuf {
    let path = disk.join("filler");
    let mut file = File::create(&path).unwrap();
    while file.write_all(&[b'x'; 512]).is_ok() {}
    path
}

#[test]
fn a_full_disk_loses_nothing_that_was_kept() {
    with_small_disk("a_full_disk_loses_nothing_that_was_kept", |disk| {
        let path = disk.join("evictd");
        let mut history = opened(&path, 1 << 20);
        history.append(&decision(0)).unwrap();
        let filler = fill(disk);
        // The last page of the segment still takes some.
        let mut id = 1;
        while history.append(&decision(id)).is_ok() {
            id += 1;
        }
        let refused = history.append(&decision(id + 1)).unwrap_err();
        let HistoryError::Write {
            waiting: 2, source, ..
        } = refused
        else {
            panic!("{refused}");
        };
        assert_eq!(source.kind(), io::ErrorKind::StorageFull);
        assert_eq!(ids(&path), expected(0..id), "a torn record is not read");
        std::fs::remove_file(filler).unwrap();
        history.append(&decision(id + 2)).unwrap();
        assert_eq!(history.waiting(), 0);
        assert_eq!(ids(&path), expected(0..id + 3));
    });
}

#[test]
fn killed_on_a_full_disk_only_what_waited_is_lost() {
    with_small_disk("killed_on_a_full_disk_only_what_waited_is_lost", |disk| {
        let path = disk.join("evictd");
        let mut history = opened(&path, 1 << 20);
        let _filler = fill(disk);
        let refused = history.append(&json!({ "text": "x".repeat(9000) }));
        assert!(matches!(refused, Err(HistoryError::Write { .. })));
        drop(history);
        let history = opened(&path, 1 << 20);
        assert_eq!(history.records(), 0);
    });
}

#[test]
fn records_that_wait_for_a_full_disk_are_bounded() {
    with_small_disk("records_that_wait_for_a_full_disk_are_bounded", |disk| {
        let mut history = opened(&disk.join("evictd"), 1 << 20);
        let _filler = fill(disk);
        let large = json!({ "text": "x".repeat(LARGEST_RECORD / 3) });
        let mut outcomes = (0..5).map(|_| history.append(&large).unwrap_err());
        assert!(matches!(
            outcomes.next(),
            Some(HistoryError::Write { waiting: 1, .. })
        ));
        assert!(matches!(
            outcomes.next(),
            Some(HistoryError::Write { waiting: 2, .. })
        ));
        assert!(matches!(
            outcomes.next(),
            Some(HistoryError::Full { waiting: 2, .. })
        ));
    });
}

#[test]
fn the_recorder_tries_again_until_the_disk_takes_it() {
    with_small_disk("the_recorder_tries_again_until_the_disk_takes_it", |disk| {
        let path = disk.join("evictd");
        let history = opened(&path, 1 << 20);
        let filler = fill(disk);
        let recorder = Recorder::start(history, Duration::from_millis(5));
        let large = json!({ "id": "d-0", "text": "x".repeat(9000) });
        recorder.record_all([&large].into_iter()).unwrap();
        wait_until("the disk refuses", || recorder.state().error.is_some());
        assert_eq!(recorder.state().waiting, 1);
        std::fs::remove_file(filler).unwrap();
        wait_until("the disk takes it", || recorder.state().error.is_none());
        recorder.record_all([&decision(1)].into_iter()).unwrap();
        drop(recorder);
        assert_eq!(ids(&path), expected(0..2));
    });
}

fn remount(disk: &Path, read_only: MsFlags) {
    let nothing = None::<&str>;
    let flags = MsFlags::MS_REMOUNT | read_only;
    mount(nothing, disk, nothing, flags, nothing).unwrap();
}

#[test]
fn a_directory_that_cannot_be_made_yet_is_warned_of_once_and_made_for_the_first_record() {
    let name = "a_directory_that_cannot_be_made_yet_is_warned_of_once";
    with_small_disk(name, |disk| {
        remount(disk, MsFlags::MS_RDONLY);
        let path = disk.join("evictd");
        let mut history = None;
        let log = logged(|| history = Some(opened(&path, 1 << 20)));
        assert_eq!(log.lines().count(), 1, "{log}");
        for words in [path.to_str().unwrap(), "Read-only", "stateDirectory"] {
            assert!(log.contains(words), "{log}");
        }
        let mut history = history.unwrap();
        assert!(!history.is_readable());
        let log = logged(|| {
            let refused = history.append(&decision(0)).unwrap_err();
            assert!(
                matches!(refused, HistoryError::Write { waiting: 1, .. }),
                "{refused}"
            );
        });
        assert_eq!(log, "");
        remount(disk, MsFlags::empty());
        history.append(&decision(1)).unwrap();
        assert_eq!(ids(&path), expected(0..2));
        let second = History::open(&path, 1 << 20);
        assert!(matches!(second, Err(HistoryError::InUse { .. })));
    });
}

#[test]
fn records_of_another_run_are_kept_when_the_directory_becomes_writable() {
    let name = "records_of_another_run_are_kept_when_the_directory_becomes_writable";
    with_small_disk(name, |disk| {
        let path = disk.join("evictd");
        remount(disk, MsFlags::MS_RDONLY);
        let mut late = opened(&path, 1 << 20);
        remount(disk, MsFlags::empty());
        let mut other = opened(&path, 1 << 20);
        other.append(&decision(0)).unwrap();
        let refused = late.append(&decision(1)).unwrap_err();
        assert!(refused.to_string().contains("in use"), "{refused}");
        drop(other);
        late.retry().unwrap();
        assert_eq!(late.records(), 2);
        assert_eq!(ids(&path), expected(0..2));
    });
}
