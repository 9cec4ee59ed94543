use super::*;
use crate::pods::LocalPod;
use evictd_pod::{Pod, wire};
use std::{fs, path::Path};

const SIGNAL: Signal = Signal::NodefsAvailable;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn set(generation: u64, names: &[&str]) -> Arc<PodSet> {
    let pods = names.iter().map(|name| {
        let volumes = r#"{"spec":{"volumes":[{"name":"v","emptyDir":{}}]}}"#;
        let mut pod: wire::Pod = serde_json::from_str(volumes).unwrap();
        pod.metadata.uid = (*name).into();
        LocalPod::new(Pod::from_wire(pod), None)
    });
    Arc::new(PodSet {
        generation,
        pods: pods.collect(),
        ..PodSet::default()
    })
}

fn roots(top: &Path) -> DiskRoots {
    DiskRoots {
        kubelet: top.join("kubelet"),
        logs: top.join("logs"),
        proc: "/proc".into(),
    }
}

fn gauge(top: &Path) -> UsageReader {
    let hierarchies = Hierarchies::detect(Path::new("/sys/fs/cgroup")).unwrap();
    UsageReader::new(hierarchies, roots(top), None)
}

fn write(top: &Path, pod: &str, mebibytes: usize) {
    let volume = top.join(format!(
        "kubelet/pods/{pod}/volumes/kubernetes.io~empty-dir/v"
    ));
    fs::create_dir_all(&volume).unwrap();
    fs::write(volume.join("data"), vec![1; mebibytes << 20]).unwrap();
}

fn mebibytes(usage: Option<Usage>) -> Option<Vec<Option<i64>>> {
    let of =
        |pod: &Option<evictd_usage::PodUsage>| Some(pod.as_ref()?.ephemeral_storage?.value >> 20);
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
    assert_eq!(
        shown
            .of(1)
            .unwrap()
            .measured(StarvedResource::EphemeralStorage),
        Some(at(0))
    );
    assert_eq!(mebibytes(Some(shown)), Some(vec![None, Some(1)]));
    gauge.measured().await;
    let shown = gauge.show(at(61), SIGNAL, &pods).await;
    assert_eq!(mebibytes(shown), Some(vec![Some(2), Some(3)]));
}

#[tokio::test]
async fn a_walk_decides_once_and_only_if_it_was_begun_for_that() {
    let top = tempfile::tempdir().unwrap();
    write(top.path(), "a", 1);
    let (mut gauge, pods) = (gauge(top.path()), set(1, &["a"]));
    assert_eq!(mebibytes(gauge.show(at(0), SIGNAL, &pods).await), None);
    gauge.measured().await;
    // What was written since somebody looked is what has crossed the threshold.
    write(top.path(), "a", 3);
    for now in [1, 2] {
        let read = gauge.read(at(now), SIGNAL, at(1), &pods).await;
        assert_eq!(mebibytes(read), None);
        let shown = gauge.show(at(now), SIGNAL, &pods).await;
        assert_eq!(mebibytes(shown), Some(vec![Some(1)]));
    }
    gauge.measured().await;
    let is_usable = gauge.read(at(2), SIGNAL, at(1), &pods).await;
    assert_eq!(mebibytes(is_usable), Some(vec![Some(3)]));
    let again = gauge.read(at(2), SIGNAL, at(1), &pods).await;
    assert_eq!(mebibytes(again), None);
}

#[tokio::test]
async fn a_walk_of_an_earlier_pressure_does_not_decide() {
    let top = tempfile::tempdir().unwrap();
    write(top.path(), "a", 1);
    let (mut gauge, pods) = (gauge(top.path()), set(1, &["a"]));
    let early = gauge.read(at(1), SIGNAL, at(1), &pods).await;
    assert_eq!(mebibytes(early), None);
    gauge.measured().await;
    let later = gauge.read(at(3), SIGNAL, at(3), &pods).await;
    assert_eq!(mebibytes(later), None);
    gauge.measured().await;
    let later = gauge.read(at(4), SIGNAL, at(3), &pods).await;
    assert_eq!(mebibytes(later), Some(vec![Some(1)]));
}

/// A tree of cgroup v2 with a group for each pod.
fn cgroups(top: &Path, names: &[&str]) -> (UsageReader, Arc<PodSet>) {
    fs::write(top.join("cgroup.controllers"), "memory pids\n").unwrap();
    for name in names {
        fs::create_dir(top.join(name)).unwrap();
        for (file, text) in [
            ("memory.current", "5000\n"),
            ("memory.stat", "anon 1\ninactive_file 0\n"),
            ("pids.current", "2\n"),
        ] {
            fs::write(top.join(name).join(file), text).unwrap();
        }
    }
    let mut pods = Arc::into_inner(set(1, names)).unwrap();
    for (pod, name) in pods.pods.iter_mut().zip(names) {
        pod.cgroup = Some(crate::pods::BoundCgroup {
            relative: name.into(),
            by_annotation: true,
        });
    }
    let gauge = UsageReader::new(Hierarchies::detect(top).unwrap(), roots(top), None);
    (gauge, Arc::new(pods))
}

const MEMORY: Signal = Signal::MemoryAvailable;

/// The working sets that a decision is based on; `None` where it waits.
async fn is_usable(
    gauge: &mut UsageReader,
    second: i64,
    pods: &Arc<PodSet>,
) -> Option<Vec<Option<i64>>> {
    let usage = gauge.read(at(second), MEMORY, at(0), pods).await?;
    Some(
        usage
            .pods
            .into_iter()
            .map(|pod| Some(pod?.working_set?.value))
            .collect(),
    )
}

#[tokio::test(start_paused = true)]
async fn figures_that_cannot_be_read_postpone_a_decision_for_three_looks() {
    let top = tempfile::tempdir().unwrap();
    let (mut gauge, pods) = cgroups(top.path(), &["a", "b"]);
    let write = |text: &str| fs::write(top.path().join("a/memory.current"), text).unwrap();
    let complete = Some(vec![Some(5000), Some(5000)]);
    let without = Some(vec![None, Some(5000)]);

    write("?\n");
    assert_eq!(is_usable(&mut gauge, 0, &pods).await, None);
    // The loop is called for the next look at once.
    gauge.measured().await;
    write("5000\n");
    assert_eq!(is_usable(&mut gauge, 0, &pods).await, complete);

    write("?\n");
    for _ in 0..3 {
        assert_eq!(is_usable(&mut gauge, 1, &pods).await, None);
        gauge.measured().await;
        // Whoever only wants to see what there is waits for nothing.
        assert!(gauge.show(at(1), MEMORY, &pods).await.is_some());
    }
    // Then it goes on, and so does the next one.
    for second in [1, 2] {
        assert_eq!(is_usable(&mut gauge, second, &pods).await, without);
    }

    // Once they could be read they are waited for again.
    write("5000\n");
    assert_eq!(is_usable(&mut gauge, 3, &pods).await, complete);
    write("?\n");
    assert_eq!(is_usable(&mut gauge, 3, &pods).await, None);
    // A group that is gone is no error.
    fs::remove_dir_all(top.path().join("a")).unwrap();
    assert_eq!(is_usable(&mut gauge, 3, &pods).await, without);
}

#[tokio::test(start_paused = true)]
async fn a_decision_waits_for_no_figure_that_it_does_not_need() {
    let top = tempfile::tempdir().unwrap();
    let (mut gauge, pods) = cgroups(top.path(), &["a"]);
    fs::write(top.path().join("a/memory.current"), "?").unwrap();
    let counted = gauge.read(at(0), Signal::PidAvailable, at(0), &pods).await;
    assert_eq!(
        counted
            .unwrap()
            .of(0)
            .unwrap()
            .processes
            .map(|count| count.value),
        Some(2)
    );
    assert_eq!(is_usable(&mut gauge, 0, &pods).await, None);
}

#[tokio::test]
async fn pods_that_are_listed_anew_throw_no_walk_away() {
    let top = tempfile::tempdir().unwrap();
    write(top.path(), "a", 1);
    let mut gauge = gauge(top.path());
    let (before, moved, more) = (set(1, &["a"]), set(2, &["a"]), set(3, &["b", "a"]));
    let every = WalkScope::AllPods;
    for (scope, now, expected) in [
        (every, &moved, Some(vec![Some(1)])),
        // A ranking needs all of them.
        (every, &more, None),
        (WalkScope::LimitedPods, &more, Some(vec![None, Some(1)])),
    ] {
        assert_eq!(mebibytes(gauge.read_disk(at(0), &before, every)), None);
        gauge.measured().await;
        let found = mebibytes(gauge.read_disk(at(1), now, scope));
        assert_eq!(found, expected, "{scope:?} {:?}", now.generation);
        if expected.is_none() {
            // What was begun instead.
            gauge.measured().await;
            assert!(gauge.read_disk(at(1), now, scope).is_some());
        }
    }
}
