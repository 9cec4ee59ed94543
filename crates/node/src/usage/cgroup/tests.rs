//! Fixture trees of both versions; the real kernel's are in `tests/usage.rs`.

use super::*;
use crate::pods::LocalPod;
use evictd_pod::{Pod, wire};
use std::fs;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;
const V1_STAT: &str = "cache 1\nrss 2\ntotal_cache 40000\ntotal_rss 60000\ntotal_swap 7000\ntotal_inactive_file 30000\n";
const V2_STAT: &str =
    "anon 60000\nfile 40000\ninactive_anon 1\ninactive_file 30000\nactive_file 9\n";

struct Tree(tempfile::TempDir);

impl Tree {
    fn new(files: &[(&str, &str)]) -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        for (path, text) in files {
            tree.write(path, text);
        }
        tree
    }

    fn v1() -> Self {
        Self::new(&[
            ("memory/pod/memory.usage_in_bytes", "100000\n"),
            ("memory/pod/memory.stat", V1_STAT),
            ("memory/pod/cgroup.procs", "1\n2\n"),
            ("pids/pod/pids.current", "12\n"),
        ])
    }

    fn v2() -> Self {
        Self::new(&[
            ("cgroup.controllers", "memory pids\n"),
            ("pod/memory.current", "100000\n"),
            ("pod/memory.stat", V2_STAT),
            ("pod/memory.swap.current", "7000\n"),
            ("pod/pids.current", "12\n"),
            ("pod/cgroup.procs", "1\n2\n"),
        ])
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn remove(&self, path: &str) {
        fs::remove_file(self.0.path().join(path)).unwrap();
    }

    fn reader(&self) -> CgroupUsage {
        CgroupUsage::new(Hierarchies::detect(self.0.path()).unwrap(), 1024)
    }
}

fn pod(json: &str) -> Pod {
    Pod::from_wire(serde_json::from_str::<wire::Pod>(json).unwrap())
}

fn set(generation: u64, pods: Vec<Pod>, cgroups: &[Option<(&str, bool)>]) -> PodSet {
    let bound = |&(relative, by_annotation): &(&str, bool)| BoundCgroup {
        relative: relative.into(),
        by_annotation,
    };
    PodSet {
        generation,
        pods: pods
            .into_iter()
            .zip(cgroups)
            .map(|(pod, cgroup)| LocalPod::new(pod, cgroup.as_ref().map(bound)))
            .collect(),
        ..PodSet::default()
    }
}

fn one() -> PodSet {
    set(
        1,
        vec![pod(r#"{"metadata":{"name":"a"}}"#)],
        &[Some(("pod", false))],
    )
}

fn read(reader: &mut CgroupUsage, set: &PodSet) -> (Usage, Vec<String>) {
    let mut usage = Usage::default();
    let warnings = reader.read_pods(NOW, set, &mut usage);
    (usage, warnings.iter().map(ToString::to_string).collect())
}

fn figures(usage: &PodUsage) -> (Option<i64>, Option<i64>, Option<i64>, Option<i64>) {
    let [memory, anon, swap] =
        [usage.working_set, usage.anon, usage.swap].map(|figure| Some(figure?.value));
    let processes = usage.processes.map(|processes| processes.value);
    (memory, anon, swap, processes)
}

#[test]
fn both_versions_give_the_same_figures() {
    for tree in [Tree::v1(), Tree::v2()] {
        let mut reader = tree.reader();
        for _ in 0..2 {
            let (usage, warnings) = read(&mut reader, &one());
            assert_eq!(warnings, [""; 0]);
            let usage = usage.of(0).unwrap();
            assert_eq!(
                figures(usage),
                (Some(70_000), Some(60_000), Some(7000), Some(12))
            );
            assert_eq!(usage.measured(StarvedResource::Memory), Some(NOW));
        }
    }
}

#[test]
fn a_working_set_is_never_below_nothing() {
    let tree = Tree::v1();
    tree.write("memory/pod/memory.usage_in_bytes", "29999\n");
    let (usage, _) = read(&mut tree.reader(), &one());
    assert_eq!(
        usage.of(0).unwrap().working_set.map(|bytes| bytes.value),
        Some(0)
    );
}

#[test]
fn a_missing_figure_is_unknown_without_a_warning() {
    let table: [(Tree, &str, _); 6] = [
        (
            Tree::v1(),
            "memory/pod/memory.usage_in_bytes",
            (None, None, None, Some(12)),
        ),
        (
            Tree::v1(),
            "memory/pod/memory.stat",
            (None, None, None, Some(12)),
        ),
        // Without the pids controller the processes are counted.
        (
            Tree::v1(),
            "pids/pod/pids.current",
            (Some(70_000), Some(60_000), Some(7000), Some(2)),
        ),
        (
            Tree::v2(),
            "pod/memory.current",
            (None, None, None, Some(12)),
        ),
        (
            Tree::v2(),
            "pod/memory.swap.current",
            (Some(70_000), Some(60_000), None, Some(12)),
        ),
        (
            Tree::v2(),
            "pod/pids.current",
            (Some(70_000), Some(60_000), Some(7000), Some(2)),
        ),
    ];
    for (tree, file, expected) in table {
        let mut reader = tree.reader();
        tree.remove(file);
        let (usage, warnings) = read(&mut reader, &one());
        assert_eq!(warnings, [""; 0], "{file}");
        assert_eq!(figures(usage.of(0).unwrap()), expected, "{file}");
    }
    let tree = Tree::v1();
    tree.write(
        "memory/pod/memory.stat",
        &V1_STAT.replace("total_swap 7000\n", ""),
    );
    assert_eq!(read(&mut tree.reader(), &one()).0.of(0).unwrap().swap, None);
}

#[test]
fn a_malformed_figure_is_unknown_with_a_warning_and_the_rest_is_read() {
    let (v1, v2) = (Tree::v1 as fn() -> Tree, Tree::v2 as fn() -> Tree);
    let table = [
        (v1, "memory/pod/memory.usage_in_bytes", "much\n"),
        (v1, "memory/pod/memory.usage_in_bytes", "-1\n"),
        (v1, "memory/pod/memory.stat", "total_rss\n"),
        (
            v1,
            "memory/pod/memory.stat",
            "total_rss 1\ntotal_inactive_file x\n",
        ),
        (v1, "memory/pod/memory.stat", "total_rss 1\n"),
        (v2, "pod/memory.current", ""),
        (v2, "pod/memory.stat", "\n"),
        (v2, "pod/memory.stat", "inactive_file 1\n"),
        (v2, "pod/memory.swap.current", "7 8\n"),
    ];
    for (tree, file, text) in table {
        let tree = tree();
        tree.write(file, text);
        let (usage, warnings) = read(&mut tree.reader(), &one());
        assert_eq!(warnings.len(), 1, "{file} {text:?}");
        assert!(
            warnings[0].starts_with("usage of pod default/a: ") && warnings[0].contains(file),
            "{warnings:?}"
        );
        assert_eq!(figures(usage.of(0).unwrap()), (None, None, None, Some(12)));
    }
    for (tree, file) in [
        (Tree::v1(), "pids/pod/pids.current"),
        (Tree::v2(), "pod/pids.current"),
    ] {
        tree.write(file, "many\n");
        let (usage, warnings) = read(&mut tree.reader(), &one());
        assert_eq!(warnings.len(), 1);
        assert_eq!(
            figures(usage.of(0).unwrap()),
            (Some(70_000), Some(60_000), Some(7000), Some(2))
        );
    }
}

#[test]
fn a_cgroup_that_is_gone_or_unknown_has_no_usage_and_leaves_the_others_theirs() {
    let tree = Tree::v1();
    tree.write("memory/q/memory.usage_in_bytes", "5\n");
    tree.write("memory/q/cgroup.procs", "");
    tree.write(
        "memory/q/memory.stat",
        "total_rss 1\ntotal_inactive_file 2\n",
    );
    let pods = |names: &[&str]| {
        names
            .iter()
            .map(|name| pod(&format!(r#"{{"metadata":{{"name":"{name}"}}}}"#)))
            .collect()
    };
    let mut reader = tree.reader();
    let mut usage = Usage::default();
    let first = set(
        1,
        pods(&["a", "b", "c"]),
        &[Some(("gone", false)), None, Some(("pod", false))],
    );
    assert!(reader.read_pods(NOW, &first, &mut usage).is_empty());
    assert_eq!(
        usage.pods.iter().map(Option::is_some).collect::<Vec<_>>(),
        [false, false, true]
    );

    // The same buffers serve another set, in another order, and nothing of the old one is left.
    usage.pods[2].as_mut().unwrap().ephemeral_storage = Some(Figure::bytes(1));
    let second = set(
        2,
        pods(&["c", "q"]),
        &[Some(("pod", false)), Some(("q", true))],
    );
    assert!(reader.read_pods(NOW, &second, &mut usage).is_empty());
    assert_eq!(usage.pods.len(), 2);
    assert_eq!(
        usage.of(0).unwrap().working_set.map(|bytes| bytes.value),
        Some(70_000)
    );
    assert_eq!(
        figures(usage.of(1).unwrap()),
        (Some(3), Some(1), None, Some(0))
    );
    for file in ["memory.usage_in_bytes", "memory.stat", "cgroup.procs"] {
        let path = tree.0.path().join("memory/pod").join(file);
        fs::remove_file(path).unwrap();
    }
    fs::remove_dir(tree.0.path().join("memory/pod")).unwrap();
    fs::remove_dir_all(tree.0.path().join("pids")).unwrap();
    assert!(reader.read_pods(NOW, &second, &mut usage).is_empty());
    assert_eq!(usage.of(0), None);
}

async fn containers(tree: &Tree, pod: Pod, by_annotation: bool) -> Vec<(String, Option<i64>)> {
    let set = set(1, vec![pod], &[Some(("pod", by_annotation))]);
    let mut usage = Usage::default();
    let warnings = tree
        .reader()
        .containers(NOW, &set, &[0, 7], &mut usage)
        .await;
    assert!(warnings.is_empty());
    let containers = usage.of(0).unwrap().containers.iter();
    containers
        .map(|container| {
            (
                container.name.clone(),
                container.working_set.map(|bytes| bytes.value),
            )
        })
        .collect()
}

#[tokio::test]
async fn containers_are_found_by_id_by_name_or_alone() {
    let tree = Tree::v1();
    for (child, usage) in [("aa", "10\n"), ("bb", "20\n"), ("web", "30\n")] {
        tree.write(&format!("memory/pod/{child}/memory.usage_in_bytes"), usage);
        tree.write(
            &format!("memory/pod/{child}/memory.stat"),
            "total_rss 1\ntotal_inactive_file 1\n",
        );
    }
    let two = r#"{"spec":{"containers":[{"name":"web"},{"name":"log"}]},"status":{"containerStatuses":[
        {"name":"log","containerID":"containerd://aa"},{"name":"web","containerID":"containerd://bb"}]}}"#;
    let expected = [("web".to_owned(), Some(19)), ("log".to_owned(), Some(9))];
    assert_eq!(containers(&tree, pod(two), false).await, expected);
    // By annotation only a child of the container's name counts, or the whole group where there is one container.
    assert_eq!(
        containers(&tree, pod(two), true).await,
        [("web".to_owned(), Some(29))]
    );
    let alone = r#"{"spec":{"containers":[{"name":"alone"}]}}"#;
    assert_eq!(
        containers(&tree, pod(alone), true).await,
        [("alone".to_owned(), Some(70_000))]
    );
    assert_eq!(containers(&tree, pod(alone), false).await, []);
}

#[test]
fn files_over_the_limit_are_opened_for_every_read() {
    let tree = Tree::v1();
    let hierarchies = Hierarchies::detect(tree.0.path()).unwrap();
    let kept = |open_files| CgroupUsage::new(hierarchies.clone(), open_files).kept_open;
    assert_eq!([kept(0), kept(256), kept(264)], [0, 0, 2]);
    assert!(kept(u64::MAX) > 1 << 20);
    let mut reader = CgroupUsage::new(hierarchies.clone(), 0);
    for _ in 0..2 {
        assert!(read(&mut reader, &one()).0.of(0).is_some());
    }
}

#[test]
fn a_figure_that_fails_once_is_read_again_at_once() {
    let error = |code| ReadError::Io {
        path: Path::new("memory.current").into(),
        source: std::io::Error::from_raw_os_error(code),
    };
    // Errors, how often is read, what is found.
    let table: [(&[i32], usize, Option<u8>); 4] = [
        (&[], 1, Some(7)),
        (&[nix::libc::EMFILE], 2, Some(7)),
        (&[nix::libc::EMFILE, nix::libc::EIO], 2, None),
        (&[nix::libc::ENOENT], 1, None),
    ];
    for (errors, expected, found) in table {
        let (mut left, mut reads) = (errors.iter(), 0);
        let read = twice(|| {
            reads += 1;
            left.next().map_or(Ok(7), |code| Err(error(*code)))
        });
        assert_eq!((reads, read.ok()), (expected, found), "{errors:?}");
    }
}
