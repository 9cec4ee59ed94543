use super::*;
use evictd_pod::wire;
use std::{fs, path::Path};

const SIGNAL: Signal = Signal::NodefsAvailable;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn set(generation: u64, names: &[&str]) -> Arc<PodSet> {
    let pods = names.iter().map(|name| {
        let volumes = r#"{"spec":{"volumes":[{"name":"v","emptyDir":{}}]}}"#;
        let mut pod: wire::Pod = serde_json::from_str(volumes).unwrap();
        pod.metadata.uid = (*name).to_owned();
        Pod::from_wire(pod)
    });
    Arc::new(PodSet {
        generation,
        pods: pods.collect(),
        cgroups: vec![None; names.len()],
        manifests: vec![None; names.len()],
        ..PodSet::default()
    })
}

fn gauge(top: &Path) -> Gauge {
    let hierarchies = Hierarchies::detect(Path::new("/sys/fs/cgroup")).unwrap();
    let (kubelet, logs) = (top.join("kubelet"), top.join("logs"));
    Gauge::new(hierarchies, DiskRoots { kubelet, logs }, None)
}

fn write(top: &Path, pod: &str, mebibytes: usize) {
    let volume = top.join(format!(
        "kubelet/pods/{pod}/volumes/kubernetes.io~empty-dir/v"
    ));
    fs::create_dir_all(&volume).unwrap();
    fs::write(volume.join("data"), vec![1; mebibytes << 20]).unwrap();
}

fn mebibytes(usage: Option<Usage>) -> Option<Vec<Option<i64>>> {
    let of = |pod: &Option<evictd_eviction::usage::PodUsage>| {
        Some(pod.as_ref()?.ephemeral_storage? >> 20)
    };
    Some(usage?.pods.iter().map(of).collect())
}

#[tokio::test]
async fn a_question_is_answered_by_the_last_walk_while_the_next_is_under_way() {
    let top = tempfile::tempdir().unwrap();
    write(top.path(), "a", 1);
    let (mut gauge, pods) = (gauge(top.path()), set(1, &["a"]));
    assert_eq!(mebibytes(gauge.show(at(0), SIGNAL, &pods).await), None);
    gauge.measured().await;
    for second in [0, 1, 5] {
        let shown = gauge.show(at(second), SIGNAL, &pods).await;
        assert_eq!(mebibytes(shown), Some(vec![Some(1)]), "{second}");
    }
    write(top.path(), "a", 3);
    write(top.path(), "b", 2);
    let pods = set(2, &["b", "a"]);
    let shown = gauge.show(at(60), SIGNAL, &pods).await.unwrap();
    assert_eq!(shown.of(1).unwrap().time, Some(at(0)));
    assert_eq!(mebibytes(Some(shown)), Some(vec![None, Some(1)]));
    gauge.measured().await;
    let shown = gauge.show(at(61), SIGNAL, &pods).await;
    assert_eq!(mebibytes(shown), Some(vec![Some(2), Some(3)]));
}

#[tokio::test]
async fn a_walk_that_was_shown_decides_once() {
    let top = tempfile::tempdir().unwrap();
    write(top.path(), "a", 1);
    let (mut gauge, pods) = (gauge(top.path()), set(1, &["a"]));
    assert_eq!(mebibytes(gauge.show(at(0), SIGNAL, &pods).await), None);
    gauge.measured().await;
    let shown = gauge.show(at(1), SIGNAL, &pods).await;
    assert_eq!(mebibytes(shown), Some(vec![Some(1)]));
    let decides = gauge.read(at(1), SIGNAL, &pods).await;
    assert_eq!(mebibytes(decides), Some(vec![Some(1)]));
    assert_eq!(mebibytes(gauge.read(at(1), SIGNAL, &pods).await), None);
}

#[tokio::test]
async fn pods_that_are_listed_anew_throw_no_walk_away() {
    let top = tempfile::tempdir().unwrap();
    write(top.path(), "a", 1);
    let mut gauge = gauge(top.path());
    let (before, moved, more) = (set(1, &["a"]), set(2, &["a"]), set(3, &["b", "a"]));
    let every = Whose::EveryPod;
    for (whose, now, expected) in [
        (every, &moved, Some(vec![Some(1)])),
        // A ranking needs all of them.
        (every, &more, None),
        (Whose::LimitedPods, &more, Some(vec![None, Some(1)])),
    ] {
        assert_eq!(mebibytes(gauge.read_disk(at(0), &before, every)), None);
        gauge.measured().await;
        let found = mebibytes(gauge.read_disk(at(1), now, whose));
        assert_eq!(found, expected, "{whose:?} {:?}", now.generation);
        if expected.is_none() {
            // What was begun instead.
            gauge.measured().await;
            assert!(gauge.read_disk(at(1), now, whose).is_some());
        }
    }
}
