//! The memory of a job while its pods are created is bounded.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_batch_jobs::job::{
    Answer, Call, Done, JobInfo, Lister, Next, Request, Round, RoundError, Task,
};
use evictd_batch_objects::bus::{Action, Event};
use evictd_batch_objects::{Compat, Job, PodGroup, TaskPod};
use serde_json::{Value, from_value, json};
use std::sync::Arc;

/// A cluster with every queue, and a group that was let in.
struct Around;

impl Lister for Around {
    fn has_queue(&self, _: &str) -> bool {
        true
    }
    fn priority(&self, _: &str) -> Option<i32> {
        None
    }
    fn has_claim(&self, _: &str, _: &str) -> bool {
        true
    }
    fn pod_group(&self, _: &str, name: &str) -> Option<Arc<PodGroup>> {
        let group = json!({"metadata": {"name": name}, "status": {"phase": "Inqueue"}});
        Some(Arc::new(from_value(group).unwrap()))
    }
    fn pod(&self, _: &str, _: &str) -> Option<Arc<TaskPod>> {
        None
    }
}

fn job(spec: &Value) -> Value {
    json!({"metadata": {"name": "train", "namespace": "ml", "uid": "u1"}, "spec": spec,
        "status": {"state": {"phase": "Pending"}}})
}

/// The result of a synchronisation: pods created, the most in one step, and errors.
#[derive(Debug, Default)]
struct Came {
    pods: usize,
    batch: usize,
    error: Option<RoundError>,
    notices: Vec<String>,
}

/// Every pod is put together as it is sent, and forgotten.
fn synchronised(job: &Value) -> Came {
    let mut info = JobInfo::default();
    let job: Job = from_value(job.clone()).unwrap();
    info.set_job(job.clone());
    let request = Request::of_job("ml", "train", Event::OutOfSync);
    let task = Task {
        action: &Action::SyncJob,
        request: &request,
        compat: Compat::EVICTD,
    };
    let now = "2026-01-01T01:00:00Z".parse().unwrap();
    let (mut round, mut step) = Round::start(&mut info, task, now, &Around);
    let mut came = Came::default();
    loop {
        came.notices
            .extend(step.notices.into_iter().map(|notice| notice.message));
        let calls = match step.next {
            Next::Calls(calls) => calls,
            Next::Done(done) => {
                came.error = done.err();
                return came;
            }
        };
        let mut made = 0;
        let answers = calls.iter().map(|call| -> Answer {
            Ok(match call {
                Call::CreatePod { pod } => {
                    let text = pod.pod().to_string();
                    assert!(text.len() >= pod.least_bytes());
                    made += 1;
                    Done::Nothing
                }
                Call::WriteStatus { .. } | Call::PatchJob { .. } => {
                    Done::Job(Box::new(job.clone()))
                }
                _ => Done::Nothing,
            })
        });
        let answers = answers.collect();
        came.pods += made;
        came.batch = came.batch.max(made);
        step = round.answered(answers, now, &Around);
    }
}

fn measured(job: &Value) -> (Came, u64) {
    let mut came = Came::default();
    let taken = allocation_counter::measure(|| came = synchronised(job));
    (came, taken.bytes_max)
}

fn worker(replicas: i32, containers: usize) -> Value {
    let containers: Vec<_> = (0..containers)
        .map(|index| json!({"name": format!("c{index}"), "image": "busybox"}))
        .collect();
    json!({"name": "worker", "replicas": replicas, "template": {"spec": {"containers": containers}}})
}

const MIB: u64 = 1 << 20;

#[test]
fn pods_that_know_each_other_share_what_they_know_and_are_made_in_batches() {
    let spec = json!({"queue": "q", "minAvailable": 1, "tasks": [worker(1000, 1)],
        "plugins": {"tensorflow": [], "svc": []}});
    let (came, taken) = measured(&job(&spec));
    assert_eq!((came.pods, came.error), (1000, None), "{:?}", came.notices);
    assert_eq!(came.batch, 100);
    assert!(taken < 4 * MIB, "{taken}");
}

#[test]
fn a_job_whose_names_fit_into_no_pod_is_refused_with_the_reason() {
    for plugins in [
        json!({"tensorflow": []}),
        json!({"svc": []}),
        json!({"ssh": ["--ssh-private-key=k"]}),
        json!({"mpi": []}),
    ] {
        let master = json!({"name": "master", "replicas": 1, "template": {"spec": {"containers": [{"name": "c"}]}}});
        let spec = json!({"queue": "q", "minAvailable": 1, "tasks": [master, worker(140_000, 1)], "plugins": plugins});
        let (came, taken) = measured(&job(&spec));
        assert_eq!(came.pods, 0);
        let error = came.error.unwrap();
        assert!(matches!(error, RoundError::Names(_)), "{error:?}");
        assert!(came.notices[0].contains("worker"), "{:?}", came.notices);
        assert!(taken < 32 * MIB, "{plugins}: {taken}");
    }
}

#[test]
fn a_template_that_grows_beyond_the_size_of_a_pod_is_refused_with_the_reason() {
    let volumes: Vec<_> = (0..400)
        .map(|index| json!({"mountPath": format!("/volume/{index}"), "volumeClaimName": format!("v{index}")}))
        .collect();
    let spec =
        json!({"queue": "q", "minAvailable": 1, "tasks": [worker(2, 5000)], "volumes": volumes});
    let (came, taken) = measured(&job(&spec));
    assert_eq!(came.pods, 0);
    let error = came.error.unwrap();
    assert!(matches!(error, RoundError::LargePod { .. }), "{error:?}");
    assert!(
        came.notices[0].starts_with("Error creating pods: a pod of task worker would have"),
        "{:?}",
        came.notices
    );
    assert!(taken < 32 * MIB, "{taken}");
}
