//! What holds for every sequence of events.

use super::cluster::Cluster;
use super::support::{case, task};
use evictd_batch_jobs::job::JobEvent;
use evictd_batch_objects::bus::Action;
use evictd_batch_objects::{Compat, JobPhase, OpenEnum};
use proptest::prelude::*;
use serde_json::json;

/// Something that happens.
#[derive(Debug, Clone)]
enum Happens {
    /// A pod comes to a phase.
    Pod(u8, &'static str),
    /// A pod is evicted.
    Evicted(u8),
    Group(&'static str),
    Command(&'static str),
    /// So many events and answers come.
    Goes(u8),
    /// The controller is killed after so many calls of those that wait.
    Dies(u8),
    Fails(&'static str),
    Heals,
}

fn happens() -> impl Strategy<Value = Happens> {
    let phases = prop::sample::select(vec!["Pending", "Running", "Succeeded", "Failed", "Unknown"]);
    let groups = prop::sample::select(vec!["Inqueue", "Running", "Unknown", "Pending"]);
    let actions = prop::sample::select(vec![
        "AbortJob",
        "ResumeJob",
        "RestartJob",
        "CompleteJob",
        "TerminateJob",
        "RestartTask",
        "SyncQueue",
    ]);
    let calls = prop::sample::select(vec![
        "CreatePod",
        "DeletePod",
        "MarkPod",
        "WriteStatus",
        "CreatePodGroup",
    ]);
    prop_oneof![
        4 => (any::<u8>(), phases).prop_map(|(pod, phase)| Happens::Pod(pod, phase)),
        1 => any::<u8>().prop_map(Happens::Evicted),
        3 => groups.prop_map(Happens::Group),
        2 => actions.prop_map(Happens::Command),
        5 => (1_u8..20).prop_map(Happens::Goes),
        1 => (0_u8..4).prop_map(Happens::Dies),
        1 => calls.prop_map(Happens::Fails),
        1 => Just(Happens::Heals),
    ]
}

fn cluster(compat: Compat, policies: bool, depends: bool, min: i32) -> Cluster {
    let mut tasks = json!([task("a", 2), task("b", 1)]);
    if depends {
        tasks[1]["dependsOn"] = json!({"name": ["a"]});
    }
    let mut job = case("", tasks, json!([]))["job"].take();
    job["status"] = json!({});
    job["spec"]["minAvailable"] = json!(min);
    if policies {
        job["spec"]["policies"] = json!([
            {"action": "RestartJob", "event": "PodFailed"},
            {"action": "RestartTask", "event": "PodEvicted", "timeout": "30s"},
            {"action": "CompleteJob", "event": "TaskCompleted"},
        ]);
    }
    Cluster::new(&job, compat)
}

fn happen(cluster: &mut Cluster, what: &Happens) {
    let pods = cluster.pods();
    let pod = |index: u8| pods.get(usize::from(index) % pods.len().max(1)).cloned();
    match what {
        Happens::Pod(index, phase) => {
            if let Some(name) = pod(*index) {
                cluster.set_phase(&name, phase);
            }
        }
        Happens::Evicted(index) => {
            if let Some(name) = pod(*index) {
                cluster.remove_pod(&name);
            }
        }
        Happens::Group(phase) => cluster.set_group_phase(phase),
        Happens::Command(action) => {
            cluster
                .events
                .push_back(JobEvent::Command(Action::of(action)));
        }
        Happens::Goes(times) => {
            for _ in 0..*times {
                let _ = cluster.event() || cluster.answer();
            }
        }
        Happens::Dies(calls) => cluster.die_half_way(usize::from(*calls), calls % 2 == 1),
        Happens::Fails(call) => {
            cluster.failing.insert(call);
        }
        Happens::Heals => cluster.failing.clear(),
    }
    let pods = cluster.pods();
    let known = ["train-a-0", "train-a-1", "train-b-0"];
    assert!(
        pods.iter().all(|name| known.contains(&name.as_str())),
        "a pod too many: {pods:?}"
    );
}

/// Pods of a job that was left alone succeed; returns whether the job came to a phase from which nothing but a user's
/// wish leads on.
fn ends(cluster: &mut Cluster) -> bool {
    cluster.failing.clear();
    for _ in 0..20 {
        cluster.settle();
        let phase = OpenEnum::<JobPhase>::of(&cluster.phase()).or_pending();
        if phase.is_final() || phase == JobPhase::Aborted {
            return true;
        }
        cluster.set_group_phase("Inqueue");
        cluster.settle();
        for name in cluster.pods() {
            cluster.set_phase(&name, "Succeeded");
        }
    }
    false
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Versions and retries never go back (the cluster asserts it), no event panics, no pod is made that the job does not
    /// want, and every job comes to an end when its pods do.
    #[test]
    fn every_job_reaches_a_final_phase_when_its_pods_do(
        volcano in any::<bool>(),
        policies in any::<bool>(),
        depends in any::<bool>(),
        min in 0_i32..=3,
        story in prop::collection::vec(happens(), 0..40),
    ) {
        let compat = if volcano { Compat::VOLCANO } else { Compat::EVICTD };
        let mut cluster = cluster(compat, policies, depends, min);
        for what in &story {
            happen(&mut cluster, what);
        }
        prop_assert!(ends(&mut cluster), "it stays {}", cluster.phase());
    }

    /// One failure is one retry, wherever the controller is killed meanwhile.
    #[test]
    fn a_controller_that_is_killed_counts_no_retry_twice_and_makes_all_pods(
        deaths in prop::collection::vec((0_u8..12, 0_usize..4, any::<bool>()), 0..6),
    ) {
        let mut cluster = cluster(Compat::EVICTD, true, false, 3);
        cluster.settle();
        cluster.set_group_phase("Inqueue");
        cluster.settle();
        for name in cluster.pods() {
            cluster.set_phase(&name, "Running");
        }
        cluster.settle();
        cluster.set_phase("train-a-1", "Failed");
        for (steps, calls, late) in deaths {
            for _ in 0..steps {
                let _ = cluster.event() || cluster.answer();
            }
            cluster.die_half_way(calls, late);
        }
        for _ in 0..4 {
            cluster.settle();
            cluster.set_group_phase("Inqueue");
            cluster.settle();
            for name in cluster.pods() {
                cluster.set_phase(&name, "Running");
            }
        }
        cluster.settle();
        prop_assert_eq!(cluster.phase(), "Running");
        prop_assert_eq!(cluster.pods().len(), 3);
        prop_assert_eq!(cluster.job().status.retry_count, 1, "{:?}", cluster.job().status);
    }
}
