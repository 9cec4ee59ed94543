use super::*;
use evictd_pod::{Pod, wire};
use jiff::ToSpan;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn space(device: u64, path: &str, roles: &[&'static str], used: i64) -> Space {
    Space {
        device,
        path: path.into(),
        description: "ext4 on a disk".to_owned(),
        roles: roles.to_vec(),
        capacity: 1000,
        used,
        available: 1000 - used,
        inodes: 100,
        inodes_used: 10,
    }
}

fn entry(uid: &str, kind: Kind, device: Option<u64>, bytes: i64) -> Entry {
    Entry {
        uid: uid.to_owned(),
        kind,
        device,
        bytes,
        inodes: Some(1),
        at: NOW,
    }
}

fn pods(names: &[&str]) -> PodSet {
    let pod = |name: &&str| {
        let mut pod = wire::Pod::default();
        pod.metadata.name = (*name).to_owned();
        pod.metadata.uid = (*name).into();
        LocalPod::new(Pod::from_wire(pod), None)
    };
    PodSet {
        pods: names.iter().map(pod).collect(),
        ..PodSet::default()
    }
}

fn shown(filesystem: &FilesystemLedger) -> Vec<(&str, i64)> {
    let pods = filesystem
        .pods
        .iter()
        .map(|pod| (pod.pod.as_str(), pod.bytes));
    let unowned = filesystem.unowned.iter();
    let unowned = unowned.map(|one| (one.what.as_str(), one.bytes));
    pods.chain(unowned).collect()
}

fn findings() -> Findings {
    Findings {
        spaces: vec![
            space(1, "/var/lib/kubelet", &["nodefs"], 900),
            space(2, "/var/lib/containerd", &["imagefs"], 500),
        ],
        entries: vec![
            entry("a", Kind::EmptyDirs, Some(1), 100),
            entry("b", Kind::Logs, Some(1), 200),
            entry("b", Kind::DeletedFiles, Some(1), 300),
            entry("b", Kind::WritableLayers, None, 50),
        ],
        unowned: vec![
            ("images", None, 400, NOW),
            ("system logs", Some(1), 60, NOW),
        ],
        ..Findings::default()
    }
}

#[test]
fn the_shares_of_each_filesystem_add_up_to_its_usage() {
    let ledger = findings().ledger(NOW, &pods(&["a", "b", "c"]), &std::iter::empty());
    let [node, images] = &ledger.filesystems[..] else {
        panic!("{ledger:?}")
    };
    let expected = [
        ("default/b", 500),
        ("default/a", 100),
        ("system logs", 60),
        ("everything else", 240),
    ];
    assert_eq!(shown(node), expected);
    // A writable layer lies with the images where it has no filesystem of its own.
    let expected = [("default/b", 50), ("images", 400), ("everything else", 50)];
    assert_eq!(shown(images), expected);
    for filesystem in &ledger.filesystems {
        let found: i64 = shown(filesystem).iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(found, filesystem.used_bytes);
    }
    assert_eq!(ledger.unknown_pods, ["default/c"]);
}

#[test]
fn writers_are_shown_beside_growing_pods() {
    let mut before = Growth::default();
    let mut first = findings();
    first.compare(NOW, &[("a".to_owned(), 1000)], &mut before);
    let mut second = findings();
    // It writes over what it has: nothing grows.
    let written = [("a".to_owned(), 9000), ("c".to_owned(), 5)];
    second.compare(NOW + 2_i32.seconds(), &written, &mut before);
    let ledger = second.ledger(NOW, &pods(&["a", "b"]), &std::iter::empty());
    let rates = ledger.filesystems[0].pods.iter().map(|pod| {
        let name = pod.pod.as_str();
        (
            name,
            pod.growth_bytes_per_second,
            pod.written_bytes_per_second,
        )
    });
    let expected = [
        ("default/b", Some(0), None),
        ("default/a", Some(0), Some(4000)),
    ];
    assert!(rates.eq(expected));
}

#[test]
fn writable_layers_are_on_the_containers_filesystem_of_a_split_layout() {
    let mut findings = findings();
    findings.spaces[0].roles.push("containerfs");
    let ledger = findings.ledger(NOW, &pods(&["b"]), &std::iter::empty());
    assert_eq!(shown(&ledger.filesystems[0])[0], ("default/b", 550));
    assert_eq!(shown(&ledger.filesystems[1])[0], ("images", 400));
}

#[test]
fn with_hidden_processes_unowned_space_is_called_deleted_or_system() {
    let mut findings = findings();
    findings.hidden_processes = 1;
    let ledger = findings.ledger(NOW, &pods(&[]), &std::iter::empty());
    let last = ledger.filesystems[0].unowned.last().unwrap();
    assert_eq!(last.what, "deleted or system");
}

#[test]
fn a_filesystem_that_pods_mount_and_nobody_watches_is_named_once() {
    let mut findings = findings();
    let mounted = |pod: &str, path: &str, device| HostPath {
        pod: pod.to_owned(),
        path: path.into(),
        device,
    };
    findings.host_paths = vec![
        mounted("shop/db", "/mnt/data", 7),
        mounted("shop/db", "/mnt/data/more", 7),
        mounted("shop/backup", "/mnt/data", 7),
        mounted("shop/agent", "/var/lib/kubelet", 1),
    ];
    let ledger = findings.ledger(NOW, &pods(&[]), &std::iter::empty());
    let expected = Unwatched {
        path: "/mnt/data".into(),
        pods: vec!["shop/db".to_owned(), "shop/backup".to_owned()],
    };
    assert_eq!(ledger.unwatched, [expected]);
}

#[test]
fn figures_that_are_too_large_to_be_added_are_bounded() {
    let mut findings = findings();
    let absurd = ["a", "b", "b"].map(|uid| entry(uid, Kind::EmptyDirs, Some(1), i64::MAX));
    findings.entries.extend(absurd);
    let ledger = findings.ledger(NOW, &pods(&["a", "b"]), &std::iter::empty());
    let shown = shown(&ledger.filesystems[0]);
    assert_eq!(shown[0].1, i64::MAX);
    assert_eq!(shown.last(), Some(&("everything else", 0)));
}

#[test]
fn thresholds_are_shown_where_their_filesystem_is() {
    use evictd_pod::Quantity;
    use evictd_signals::ThresholdValue;
    let threshold = |signal, value| Threshold {
        signal,
        value: ThresholdValue::Quantity(Quantity::bytes(value)),
        grace_period: jiff::SignedDuration::ZERO,
        min_reclaim: None,
    };
    let all = [
        threshold(Signal::NodefsAvailable, 200),
        threshold(Signal::NodefsInodesFree, 50),
        threshold(Signal::ImagefsAvailable, 200),
        threshold(Signal::MemoryAvailable, 200),
    ];
    let ledger = findings().ledger(NOW, &pods(&[]), &all.iter());
    let lines = |index: usize| -> Vec<(&str, bool)> {
        let lines = ledger.filesystems[index].thresholds.iter();
        lines.map(|line| (line.signal.as_str(), line.met)).collect()
    };
    assert_eq!(
        lines(0),
        [("nodefs.available", true), ("nodefs.inodesFree", false)]
    );
    assert_eq!(lines(1), [("imagefs.available", false)]);
}

#[test]
fn a_threshold_on_what_the_filesystem_does_not_count_is_not_kept_but_not_measured() {
    let mut found = findings();
    found.spaces[0].inodes = 0;
    found.spaces[0].inodes_used = 0;
    let threshold = |signal| Threshold {
        signal,
        value: evictd_signals::ThresholdValue::Percentage(0.05),
        grace_period: jiff::SignedDuration::ZERO,
        min_reclaim: None,
    };
    let thresholds = [
        threshold(Signal::NodefsInodesFree),
        threshold(Signal::NodefsAvailable),
    ];
    let ledger = found.ledger(NOW, &pods(&["a"]), &thresholds.iter());
    let lines = ledger.filesystems[0].thresholds.iter();
    let found: Vec<_> = lines.map(|line| (line.unmeasured, line.met)).collect();
    assert_eq!(found, [(true, false), (false, false)]);
}
