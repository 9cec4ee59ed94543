use super::*;
use std::{fs, io::Write, path::Path, sync::atomic::AtomicBool};

struct Kept {
    trees: KeptTrees,
    top: tempfile::TempDir,
}

impl Kept {
    fn new() -> Self {
        let top = tempfile::tempdir().unwrap();
        fs::create_dir_all(top.path().join("a/b")).unwrap();
        fs::write(top.path().join("a/b/file"), vec![1; 100_000]).unwrap();
        let trees = KeptTrees::new().unwrap();
        Self { trees, top }
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.top.path().join(name)
    }

    /// The usage, and how many entries were read for it. It must be that of a walk.
    fn measure(&mut self) -> (DiskUsage, u64) {
        self.trees.update();
        let stop = AtomicBool::new(false);
        let mut budget = Budget {
            entries: 1000,
            stop: &stop,
        };
        let mut tree = self.trees.take(self.top.path());
        let usage = tree
            .measure(Timestamp::UNIX_EPOCH, &mut budget)
            .unwrap()
            .unwrap();
        self.trees.put(tree);
        let entries = 1000 - budget.entries;
        assert_eq!(
            usage,
            DiskUsage::of(self.top.path(), &mut budget)
                .unwrap()
                .unwrap()
        );
        (usage, entries)
    }

    fn settled(&mut self) -> bool {
        self.measure();
        self.measure();
        self.measure().1 == 0
    }
}

#[test]
fn an_unchanged_directory_is_not_read_again() {
    let mut kept = Kept::new();
    assert_eq!(kept.measure().1, 3);
    assert_eq!(kept.measure().1, 0);
}

#[test]
fn a_file_that_grows_or_shrinks_in_place_is_seen_although_its_directory_does_not_change() {
    let mut kept = Kept::new();
    let (before, _) = kept.measure();
    let path = kept.at("a/b/file");
    let mut file = fs::File::options().append(true).open(&path).unwrap();
    file.write_all(&vec![1; 500_000]).unwrap();
    let (more, read) = kept.measure();
    assert!(more.bytes >= before.bytes + 450_000, "{more:?}");
    assert_eq!(read, 1);
    assert!(kept.settled());
    file.set_len(10).unwrap();
    assert!(kept.measure().0.bytes < before.bytes);
}

#[test]
fn new_and_deleted_and_moved_names_are_seen() {
    let mut kept = Kept::new();
    kept.measure();
    fs::write(kept.at("a/new"), vec![1; 100_000]).unwrap();
    assert_eq!(kept.measure().0.inodes, 5);
    fs::create_dir(kept.at("c")).unwrap();
    kept.measure();
    fs::write(kept.at("c/below"), "x").unwrap();
    assert_eq!(kept.measure().0.inodes, 7);
    fs::rename(kept.at("c"), kept.at("a/b/c")).unwrap();
    kept.measure();
    fs::write(kept.at("a/b/c/below"), vec![1; 100_000]).unwrap();
    kept.measure();
    fs::remove_dir_all(kept.at("a/b")).unwrap();
    assert_eq!(kept.measure().0.inodes, 3);
    assert!(kept.settled());
}

#[test]
fn a_tree_with_hard_links_is_walked_each_time() {
    let mut kept = Kept::new();
    kept.measure();
    fs::hard_link(kept.at("a/b/file"), kept.at("again")).unwrap();
    assert_eq!(kept.measure().0.inodes, 4);
    assert!(!kept.settled());
}

#[test]
fn a_tree_that_another_holds_or_that_is_forgotten_is_walked() {
    let mut kept = Kept::new();
    kept.measure();
    let mut below = kept.trees.take(Path::new(&kept.at("a")));
    let stop = AtomicBool::new(false);
    let mut budget = Budget {
        entries: 1000,
        stop: &stop,
    };
    assert_eq!(
        below
            .measure(Timestamp::UNIX_EPOCH, &mut budget)
            .unwrap()
            .unwrap()
            .inodes,
        3
    );
    assert_eq!(below.walked, None);
    kept.trees.put(below);
    // The tree above it still is told of changes.
    fs::write(kept.at("a/b/file"), "").unwrap();
    assert_eq!(kept.measure().1, 1);
    kept.trees.forget_unused();
    kept.trees.forget_unused();
    assert!(kept.trees.trees.is_empty() && kept.trees.watches.is_empty());
    assert_eq!(kept.measure().1, 3);
}

#[test]
fn a_removed_tree_has_no_usage() {
    let mut kept = Kept::new();
    kept.measure();
    let path = kept.top.path().to_owned();
    fs::remove_dir_all(&path).unwrap();
    kept.trees.update();
    let stop = AtomicBool::new(false);
    let mut budget = Budget {
        entries: 1000,
        stop: &stop,
    };
    let mut tree = kept.trees.take(&path);
    assert_eq!(tree.measure(Timestamp::UNIX_EPOCH, &mut budget), Ok(None));
}

#[test]
fn a_change_without_a_report_is_seen_after_ten_minutes() {
    let mut kept = Kept::new();
    kept.measure();
    let stop = AtomicBool::new(false);
    let mut budget = Budget {
        entries: 1000,
        stop: &stop,
    };
    let mut tree = kept.trees.take(kept.top.path());
    let later = Timestamp::UNIX_EPOCH + MAX_AGE;
    tree.measure(later, &mut budget).unwrap();
    assert_eq!((1000 - budget.entries, tree.walked), (3, Some(later)));
}
