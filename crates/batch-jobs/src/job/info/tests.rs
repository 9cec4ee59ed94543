use super::*;
use crate::job::names::{ENDING, JOB_API, JOB_KIND, JOB_NAME, JOB_VERSION, OUT_OF_SYNC, PARTITION};
use crate::job::{JobCommand, JobEvent, JobMachine, Lister, status};
use evictd_batch_objects::Compat;
use evictd_batch_objects::{JobStatus, PodGroup};
use evictd_pod::wire::PodPhase;
use evictd_reconcile::Refusal;
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::cell::Cell;

thread_local! {
    static VISITED: Cell<usize> = const { Cell::new(0) };
}

/// Counts pods that were looked at.
pub(in crate::job) fn visit(pods: usize) {
    VISITED.set(VISITED.get() + pods);
}

/// A pod in some state.
#[derive(Debug, Clone)]
struct State {
    task: usize,
    index: usize,
    phase: &'static str,
    deleting: bool,
    restarts: i32,
    partition: &'static str,
    mark: &'static str,
}

impl State {
    fn pod(&self, version: usize) -> TaskPod {
        let task = format!("t{}", self.task);
        let mut pod = json!({
            "metadata": {
                "name": format!("train-{task}-{}", self.index), "namespace": "ml",
                "uid": format!("{task}-{}", self.index), "resourceVersion": version.to_string(),
                "labels": {},
                "annotations": {
                    JOB_NAME: "train", JOB_VERSION: "1", TASK_SPEC: task,
                },
                "ownerReferences": [{
                    "apiVersion": JOB_API, "kind": JOB_KIND, "name": "train", "uid": "u", "controller": true,
                }],
            },
            "status": {
                "phase": self.phase,
                "containerStatuses": [{"restartCount": self.restarts}],
                "initContainerStatuses": [{"restartCount": 1}],
            },
        });
        let metadata = &mut pod["metadata"];
        if self.deleting {
            metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        if !self.partition.is_empty() {
            metadata["labels"][PARTITION] = json!(self.partition);
        }
        if !self.mark.is_empty() {
            metadata["annotations"][ENDING] = json!(self.mark);
            metadata["annotations"][OUT_OF_SYNC] = json!("true");
        }
        serde_json::from_value(pod).unwrap()
    }
}

fn state() -> impl Strategy<Value = State> {
    let phases = vec!["Pending", "Running", "Succeeded", "Failed", "Unknown", ""];
    let marks = vec![
        "",
        "",
        "RestartJob/1/0",
        "RestartTask/1/0",
        "RestartPod/1/0",
        "RestartPartition/1/0",
        "RestartPod/0/0",
        "RestartPod",
    ];
    (
        (0_usize..2, 0_usize..4, any::<bool>(), 0_i32..3),
        prop::sample::select(phases),
        prop::sample::select(vec!["", "0", "1"]),
        prop::sample::select(marks),
    )
        .prop_map(
            |((task, index, deleting, restarts), phase, partition, mark)| State {
                task,
                index,
                phase,
                deleting,
                restarts,
                partition,
                mark,
            },
        )
}

fn job(replicas: usize, policies: &Value) -> Job {
    let tasks = ["t0", "t1"].map(|name| {
        json!({
            "name": name, "replicas": replicas, "minAvailable": 0, "maxRetry": 4,
            "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
        })
    });
    serde_json::from_value(json!({
        "metadata": {"name": "train", "namespace": "ml", "uid": "u", "resourceVersion": "1"},
        "spec": {"queue": "default", "minAvailable": 0, "tasks": tasks, "policies": policies},
        "status": {"version": 1, "state": {"phase": "Running"}},
    }))
    .unwrap()
}

fn is_same_as_a_scan(info: &JobInfo) -> Result<(), TestCaseError> {
    let job = info.job.clone().unwrap();
    let mut status = JobStatus::default();
    let mut terminating = 0;
    let mut partitions: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    let mut terminations = Terminations::default();
    for task in &job.spec.tasks {
        let pods: Vec<_> = info.pods.get(&task.name).into_iter().flatten().collect();
        let succeeded = pods
            .iter()
            .filter(|(_, pod)| pod.status.phase == PodPhase::Succeeded);
        let completed = succeeded.count() >= usize::try_from(task.replicas).unwrap();
        prop_assert_eq!(info.is_completed(&task.name), completed);
        let mut restarts = 0;
        for (name, pod) in pods {
            if pod.metadata.deletion_timestamp.is_some() {
                terminating += 1;
            } else {
                status::count(&mut status, &task.name, pod);
            }
            if matches!(pod.status.phase, PodPhase::Running | PodPhase::Pending) {
                let both = [
                    &pod.status.container_statuses,
                    &pod.status.init_container_statuses,
                ];
                let all = both.into_iter().flatten();
                restarts += all.map(|status| status.restart_count).sum::<i32>();
            }
            let partition = partition(pod);
            if !partition.is_empty() {
                let place = (task.name.clone(), partition.to_owned());
                partitions.entry(place).or_default().insert(name.clone());
            }
            terminations.add(pod);
        }
        prop_assert_eq!(info.is_failed(&task.name), restarts >= task.max_retry);
    }
    let mut counted = JobStatus::default();
    info.counts.count_staying(&mut counted);
    prop_assert_eq!(counted, status);
    prop_assert_eq!(info.counts.terminating(), terminating);
    prop_assert_eq!(&info.partitions, &partitions);
    prop_assert_eq!(&info.terminations, &terminations);
    Ok(())
}

proptest! {
    #[test]
    fn the_counts_always_equal_a_scan_of_all_pods(
        changes in prop::collection::vec((state(), prop::bool::weighted(0.3)), 0..30),
    ) {
        let mut info = JobInfo::default();
        info.set_job(job(2, &json!([])));
        for (version, (state, is_gone)) in changes.into_iter().enumerate() {
            let pod = state.pod(version);
            if is_gone {
                info.remove_pod(&pod);
            } else {
                info.set_pod(Arc::new(pod));
            }
            is_same_as_a_scan(&info)?;
        }
    }
}

struct Everything;

impl Lister for Everything {
    fn has_queue(&self, _: &str) -> bool {
        true
    }
    fn priority(&self, _: &str) -> Option<i32> {
        None
    }
    fn has_claim(&self, _: &str, _: &str) -> bool {
        true
    }
    fn pod_group(&self, _: &str, _: &str) -> Option<Arc<PodGroup>> {
        None
    }
    fn pod(&self, _: &str, _: &str) -> Option<Arc<TaskPod>> {
        None
    }
}

/// Brings an event and then the answer that nothing is there to each call, until nothing is left to be done.
fn settle(machine: &mut JobMachine, event: JobEvent) {
    let mut events = vec![event];
    while let Some(event) = events.pop() {
        let commands = machine.on_event(Timestamp::UNIX_EPOCH, event, &Everything);
        for command in commands {
            if let JobCommand::Calls(calls) = command {
                let answers = calls.iter().map(|_| Err(Refusal::NotFound));
                events.push(JobEvent::Answers(answers.collect()));
            }
        }
    }
}

/// Each pod of a job changes its phase and ends; returns how many pods are looked at.
fn visited(pods: usize, policies: &Value, phase: &'static str, mark: &'static str) -> usize {
    let state = |index: usize| State {
        task: index % 2,
        index: index / 2,
        phase: "Running",
        deleting: false,
        restarts: 0,
        partition: "0",
        mark: "",
    };
    let running = (0..pods).map(|index| Arc::new(state(index).pod(1)));
    let changed = (0..pods).map(|index| State {
        phase,
        mark,
        ..state(index)
    });
    let changed: Vec<_> = changed.map(|state| Arc::new(state.pod(2))).collect();
    let mut machine = JobMachine::new("ml", "train", Compat::EVICTD, None);
    let job = Box::new(job(pods / 2, policies));
    VISITED.set(0);
    settle(&mut machine, JobEvent::Found(job, running.collect()));
    for pod in &changed {
        machine.set_pod(pod);
    }
    settle(&mut machine, JobEvent::Tick);
    for pod in &changed {
        machine.remove_pod(pod);
    }
    settle(&mut machine, JobEvent::Tick);
    assert!(machine.info().pods().is_empty());
    VISITED.get()
}

#[test]
fn the_events_of_a_jobs_pods_do_not_look_at_all_its_pods_each() {
    let restart = |action: &str| json!([{"action": action, "event": "PodFailed"}]);
    for (pods, policies, phase, mark) in [
        (5_000, json!([]), "Succeeded", ""),
        (5_000, json!([]), "Failed", "RestartPod/1/9"),
        (2_000, restart("RestartPod"), "Failed", ""),
        (2_000, json!([]), "Running", "RestartPod/1/0"),
    ] {
        let visited = visited(pods, &policies, phase, mark);
        assert!(visited <= 10 * pods, "{visited} of {pods}");
    }
}
