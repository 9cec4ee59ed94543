use super::*;
use evictd_testkit::testing::with_tmpfs;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::{
    fs::{self, File},
    os::unix::fs::{MetadataExt, symlink},
    sync::atomic::AtomicUsize,
};

fn walk_all(path: &Path) -> DiskUsage {
    let stop = AtomicBool::new(false);
    DiskUsage::of(
        path,
        &mut Budget {
            entries: 1000,
            stop: &stop,
        },
    )
    .unwrap()
    .unwrap()
}

fn truncation(path: &Path, entries: u64, stopped: bool) -> DiskUsage {
    let stop = AtomicBool::new(stopped);
    DiskUsage::of(
        path,
        &mut Budget {
            entries,
            stop: &stop,
        },
    )
    .unwrap()
    .unwrap()
}

fn allocated(path: &Path) -> i64 {
    i64::try_from(fs::symlink_metadata(path).unwrap().blocks() * 512).unwrap()
}

/// The directories that hold most bytes and most inodes, each with its amount in whole units.
fn largest(path: &Path, entries: u64) -> [Option<(String, i64)>; 2] {
    let stop = AtomicBool::new(false);
    let mut budget = Budget {
        entries,
        stop: &stop,
    };
    let (_, largest) = DiskUsage::with_largest(path, &mut budget).unwrap().unwrap();
    [largest.by_bytes, largest.by_inodes]
        .map(|found| found.map(|(path, amount)| (path.to_str().unwrap().to_owned(), amount)))
}

#[test]
fn the_deepest_directory_with_more_than_half_is_found() {
    let top = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: usize| {
        let path = top.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, vec![1; bytes]).unwrap();
    };
    assert_eq!(largest(top.path(), 1000), [None, None]);
    write("models/a/weights", 3 << 20);
    write("models/b/weights", 1 << 20);
    for index in 0..20 {
        write(&format!("cache/small/{index}"), 10);
    }
    let [bytes, inodes] = largest(top.path(), 1000);
    let (path, amount) = bytes.unwrap();
    assert_eq!((path.as_str(), amount >> 20), ("models/a", 3));
    assert_eq!(inodes, Some(("cache/small".to_owned(), 21)));
    // Neither of two equal directories holds more than half, but the one above them does.
    write("models/b/more", 2 << 20);
    let (path, amount) = largest(top.path(), 1000)[0].clone().unwrap();
    assert_eq!((path.as_str(), amount >> 20), ("models", 6));
    // What was read before a walk was cut short counts.
    let cut = largest(&top.path().join("models"), 2)[0].clone();
    assert!(cut.is_some_and(|(path, _)| path == "a" || path == "b"));
    // Files beside directories hold most.
    write("file", 20 << 20);
    assert_eq!(largest(top.path(), 1000)[0], None);
}

#[test]
fn allocated_bytes_are_counted_and_every_inode_once() {
    let top = tempfile::tempdir().unwrap();
    let at = |name: &str| top.path().join(name);
    fs::create_dir_all(at("a/b")).unwrap();
    fs::write(at("a/file"), vec![1; 100_000]).unwrap();
    fs::hard_link(at("a/file"), at("a/b/again")).unwrap();
    fs::hard_link(at("a/file"), at("third")).unwrap();
    symlink("/", at("a/link")).unwrap();
    File::create(at("sparse"))
        .unwrap()
        .set_len(1 << 30)
        .unwrap();
    let usage = walk_all(top.path());
    // The top, a, b, the file, the link and the sparse file.
    assert_eq!((usage.inodes, usage.truncation), (6, None));
    let each = [
        top.path().to_owned(),
        at("a"),
        at("a/b"),
        at("a/file"),
        at("a/link"),
        at("sparse"),
    ];
    assert_eq!(
        usage.bytes,
        each.iter().map(|path| allocated(path)).sum::<i64>()
    );
    assert!((100_000..1_000_000).contains(&usage.bytes), "{usage:?}");
}

#[test]
fn a_file_a_link_to_a_directory_and_nothing() {
    let top = tempfile::tempdir().unwrap();
    let at = |name: &str| top.path().join(name);
    fs::write(at("file"), vec![1; 10_000]).unwrap();
    fs::create_dir(at("dir")).unwrap();
    fs::write(at("dir/inside"), "x").unwrap();
    symlink("dir", at("link")).unwrap();
    assert_eq!(
        walk_all(&at("file")),
        DiskUsage {
            bytes: allocated(&at("file")),
            inodes: 1,
            device: top.path().metadata().unwrap().dev(),
            truncation: None
        }
    );
    assert_eq!(walk_all(&at("link")).inodes, 2);
    let stop = AtomicBool::new(false);
    let mut budget = Budget {
        entries: 1,
        stop: &stop,
    };
    assert_eq!(DiskUsage::of(&at("missing"), &mut budget), Ok(None));
    assert_eq!(DiskUsage::of(&at("file/below"), &mut budget), Ok(None));
}

#[test]
fn another_filesystem_inside_is_left_out() {
    let top = tempfile::tempdir().unwrap();
    let mounted = top.path().join("mounted");
    fs::create_dir(&mounted).unwrap();
    fs::write(top.path().join("ours"), vec![1; 10_000]).unwrap();
    let path = top.path().to_owned();
    with_tmpfs(
        "another_filesystem_inside_is_left_out",
        mounted,
        1024,
        move |mounted| {
            fs::write(mounted.join("theirs"), vec![1; 500_000]).unwrap();
            let usage = walk_all(&path);
            assert_eq!((usage.inodes, usage.truncation), (2, None));
            assert!(usage.bytes < 100_000, "{usage:?}");
            // Where the volume itself is the mount, it counts.
            assert!(walk_all(mounted).bytes >= 500_000);
        },
    );
}

/// A walk holds what it reads by its descriptors, so it ends as it began.
#[test]
fn a_filesystem_that_becomes_read_only_or_is_unmounted_in_mid_walk_is_counted_whole() {
    let top = tempfile::tempdir().unwrap();
    let test = |disk: &Path| {
        for number in 0..400 {
            let directory = disk.join(format!("{number}"));
            fs::create_dir(&directory).unwrap();
            fs::write(directory.join("file"), vec![1; 4096]).unwrap();
        }
        let whole = walk_all(disk);
        assert_eq!((whole.inodes, whole.truncation), (801, None));
        let nothing = None::<&str>;
        let read_only = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        mount(nothing, disk, nothing, read_only, nothing).unwrap();
        assert_eq!(walk_all(disk), whole);
        let walks = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let walker = scope.spawn(|| {
                let mut found = walk_all(disk);
                while found.device == whole.device {
                    assert_eq!(found, whole);
                    walks.fetch_add(1, Ordering::Relaxed);
                    found = walk_all(disk);
                }
                found
            });
            while walks.load(Ordering::Relaxed) < 3 && !walker.is_finished() {
                std::thread::yield_now();
            }
            umount2(disk, MntFlags::MNT_DETACH).unwrap();
            let left = walker.join().unwrap();
            assert_eq!((left.inodes, left.truncation), (1, None), "the mount point");
        });
    };
    let name = "a_filesystem_that_is_unmounted_in_mid_walk";
    with_tmpfs(name, top.path().to_owned(), 16 << 10, test);
}

#[test]
fn a_walk_that_is_cut_short_gives_a_lower_bound_and_says_why() {
    let top = tempfile::tempdir().unwrap();
    for name in 0..20 {
        fs::write(top.path().join(name.to_string()), "x").unwrap();
    }
    let usage = truncation(top.path(), 10, false);
    assert_eq!(
        (usage.inodes, usage.truncation),
        (11, Some(Truncation::Entries))
    );
    assert_eq!(truncation(top.path(), 20, false).truncation, None);
    let usage = truncation(top.path(), 10, true);
    assert_eq!(
        (usage.inodes, usage.truncation),
        (1, Some(Truncation::Time))
    );
}

#[test]
fn directories_nested_too_deeply_are_left_out() {
    let top = tempfile::tempdir().unwrap();
    let mut path = top.path().to_owned();
    for _ in 0..MAX_DEPTH + 20 {
        path.push("d");
    }
    fs::create_dir_all(&path).unwrap();
    fs::write(top.path().join("beside"), "x").unwrap();
    let usage = walk_all(top.path());
    assert_eq!(usage.truncation, Some(Truncation::Depth));
    // 128 levels are read, and the directory below the last of them is counted.
    assert_eq!(usage.inodes, i64::try_from(MAX_DEPTH).unwrap() + 2);
}

#[test]
fn any_name_is_counted_and_nothing_is_opened_to_be_read() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    let top = tempfile::tempdir().unwrap();
    let names: [&[u8]; 4] = [b"two\nlines", b"\xff\xfe", b" (deleted)", &[b'n'; 255]];
    for name in names {
        let directory = top.path().join(OsStr::from_bytes(name));
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join(OsStr::from_bytes(name)), "1").unwrap();
    }
    // Whoever opens a pipe without a writer waits for one.
    nix::unistd::mkfifo(&top.path().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let usage = walk_all(top.path());
    assert_eq!((usage.inodes, usage.truncation), (10, None));
}
