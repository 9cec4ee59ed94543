//! Pods from templates, volumes, and the PodGroup of a job.

use super::support::{case, pod, task, volcano};
use evictd_batch_jobs::job::{Answer, Call, Done, JobInfo, Lister, Next, Request, Round, Task};
use evictd_batch_objects::bus::{Action, Event};
use evictd_batch_objects::{Compat, Job, PodGroup, TaskPod};
use serde_json::{Value, json};
use std::sync::Arc;

/// A cluster in which every queue exists, and this PodGroup.
pub(super) struct Around(pub(super) Option<PodGroup>);

impl Lister for Around {
    fn has_queue(&self, _: &str) -> bool {
        true
    }
    fn priority(&self, class: &str) -> Option<i32> {
        [("high", 1000), ("low", 10)]
            .into_iter()
            .find(|(name, _)| *name == class)
            .map(|(_, value)| value)
    }
    fn has_claim(&self, _: &str, name: &str) -> bool {
        name == "data"
    }
    fn pod_group(&self, _: &str, name: &str) -> Option<Arc<PodGroup>> {
        self.0
            .clone()
            .filter(|group| group.metadata.name == name)
            .map(Arc::new)
    }
    fn pod(&self, _: &str, _: &str) -> Option<Arc<TaskPod>> {
        None
    }
}

/// All calls of a synchronisation of this job, each answered with success.
pub(super) fn calls(job: &Value, group: &Value) -> Vec<Call> {
    calls_by(job, group, Compat::EVICTD)
}

/// The same by these rules.
pub(super) fn calls_by(job: &Value, group: &Value, compat: Compat) -> Vec<Call> {
    let mut info = JobInfo::default();
    let job: Job = serde_json::from_value(job.clone()).unwrap();
    info.set_job(job.clone());
    let around = Around(serde_json::from_value(group.clone()).unwrap());
    let request = Request::of_job("ml", "train", Event::OutOfSync);
    let task = Task {
        action: &Action::SyncJob,
        request: &request,
        compat,
    };
    let now = "2026-01-01T01:00:00Z".parse().unwrap();
    let (mut round, mut step) = Round::start(&mut info, task, now, &around);
    let mut all = Vec::new();
    while let Next::Calls(calls) = step.next {
        let answer = |call: &Call| -> Answer {
            Ok(match call {
                Call::WriteStatus { .. } | Call::PatchJob { .. } => {
                    Done::Job(Box::new(job.clone()))
                }
                _ => Done::Nothing,
            })
        };
        let answers = calls.iter().map(answer).collect();
        all.extend(calls);
        step = round.answered(answers, now, &around);
    }
    all
}

/// The pods that are made.
pub(super) fn pods(job: &Value) -> Vec<Value> {
    let group = json!({"metadata": {"name": "train-u1"}, "status": {"phase": "Inqueue"}});
    let made = calls(job, &group)
        .into_iter()
        .filter_map(|call| match call {
            Call::CreatePod { pod } => Some(pod.pod()),
            _ => None,
        });
    made.collect()
}

#[test]
fn s6_044_a_pod_is_the_template_with_what_the_job_says() {
    let mut worker = task("w", 3);
    worker["topologyPolicy"] = json!("best-effort");
    worker["partitionPolicy"] = json!({"totalPartitions": 2, "partitionSize": 2});
    worker["template"]["metadata"] =
        json!({"labels": {"app": "x"}, "annotations": {"k": "v"}, "generateName": "no"});
    worker["template"]["spec"]["somethingNew"] = json!({"kept": true});
    let mut job = case("Pending", json!([worker]), json!([]))["job"].take();
    job["spec"]["priorityClassName"] = json!("high");
    job["metadata"]["annotations"] = json!({
        "volcano.sh/preemptable": "true", "volcano.sh/revocable-zone": "z", "other": "stays here",
        "volcano.sh/jdb-min-available": "1", "volcano.sh/jdb-max-unavailable": "2",
    });
    job["metadata"]["labels"] = json!({"volcano.sh/cooldown-time": "10m"});
    let last = pods(&job).pop().unwrap();
    let wanted = json!({
        "k": "v", "scheduling.k8s.io/group-name": "train-u1", "volcano.sh/job-name": "train",
        "volcano.sh/job-retry-count": "0", "volcano.sh/job-version": "1", "volcano.sh/queue-name": "q",
        "volcano.sh/task-index": "2", "volcano.sh/task-spec": "w", "volcano.sh/template-uid": "train-w",
        "volcano.sh/numa-topology-policy": "best-effort", "volcano.sh/preemptable": "true",
        "volcano.sh/revocable-zone": "z", "volcano.sh/jdb-min-available": "1",
    });
    assert_eq!(last["metadata"]["annotations"], wanted);
    let wanted = json!({
        "app": "x", "volcano.sh/job-name": "train", "volcano.sh/job-namespace": "ml",
        "volcano.sh/queue-name": "q", "volcano.sh/task-index": "2", "volcano.sh/task-spec": "w",
        "volcano.sh/partition-id": "1", "volcano.sh/cooldown-time": "10m",
    });
    assert_eq!(last["metadata"]["labels"], wanted);
    let spec = &last["spec"];
    let texts = [
        &spec["schedulerName"],
        &spec["priorityClassName"],
        &last["metadata"]["name"],
    ];
    assert_eq!(
        texts.map(|text| text.as_str().unwrap()),
        ["volcano", "high", "train-w-2"]
    );
    assert_eq!(spec["somethingNew"], json!({"kept": true}));
    let owner = &last["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["uid"], &owner["controller"]),
        (&json!("Job"), &json!("u1"), &json!(true))
    );
}

#[test]
fn s6_045_volumes_are_mounted_and_their_claims_made_once() {
    let mut job = case("Pending", json!([task("w", 1)]), json!([]))["job"].take();
    job["spec"]["volumes"] = json!([
        {"mountPath": "/data", "volumeClaimName": "data"},
        {"mountPath": "/scratch", "volumeClaim": {"resources": {"requests": {"storage": "1Gi"}}}},
    ]);
    let group = json!({"metadata": {"name": "train-u1"}, "status": {"phase": "Inqueue"}});
    let all = calls(&job, &group);
    let claims: Vec<&Value> = all
        .iter()
        .filter_map(|call| match call {
            Call::CreateObject { object, .. } => Some(&**object),
            _ => None,
        })
        .collect();
    let name = claims[0]["metadata"]["name"].as_str().unwrap();
    let end = name.strip_prefix("train-pvc-").unwrap();
    assert!(
        end.len() == 12
            && end
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    );
    assert_eq!(
        (
            claims.len(),
            &claims[0]["spec"]["resources"]["requests"]["storage"]
        ),
        (1, &json!("1Gi"))
    );
    // A controller that begins anew makes the same one.
    assert_eq!(calls(&job, &group), all);
    let named = all.iter().find_map(|call| match call {
        Call::PatchJob { patch } => Some(patch.clone()),
        _ => None,
    });
    let wanted = json!([{"op": "add", "path": "/spec/volumes/1/volumeClaimName", "value": name}]);
    assert_eq!(named, Some(wanted));
    let spec = pods(&job)[0]["spec"].clone();
    let paths = spec["containers"][0]["volumeMounts"]
        .as_array()
        .unwrap()
        .iter();
    let paths: Vec<&str> = paths
        .map(|mount| mount["mountPath"].as_str().unwrap())
        .collect();
    assert_eq!(paths, ["/data", "/scratch"]);
    assert_eq!(
        spec["volumes"][1]["persistentVolumeClaim"]["claimName"],
        name
    );
    let status = all.iter().rev().find_map(|call| match call {
        Call::WriteStatus { patch } => Some(patch["status"]["controlledResources"].clone()),
        _ => None,
    });
    let key = format!("volume-pvc-{name}");
    assert_eq!(status, Some(json!({"volume-pvc-data": "data", key: name})));
}

fn group_of(change: impl FnOnce(&mut Value)) -> Value {
    let mut second = task("b", 3);
    second["template"]["spec"]["priorityClassName"] = json!("high");
    second["template"]["spec"]["containers"][0]["resources"] =
        json!({"requests": {"cpu": "2", "nvidia.com/gpu": "1"}, "limits": {"cpu": "4"}});
    let mut case = case("Pending", json!([task("a", 2), second]), json!([]));
    case["podGroup"] = Value::Null;
    change(&mut case);
    volcano(case, json!({"action": "SyncJob"}))["podGroups"].take()
}

#[test]
fn s6_046_a_jobs_group_needs_what_its_first_pods_use() {
    // Three of five: the three of the higher class.
    let groups = group_of(|case| case["job"]["spec"]["minAvailable"] = json!(3));
    let wanted = json!({
        "count/pods": "3", "pods": "3", "cpu": "6", "requests.cpu": "6", "limits.cpu": "12",
        "nvidia.com/gpu": "3", "requests.nvidia.com/gpu": "3",
    });
    let group = &groups["train-u1"];
    assert_eq!(group["minResources"], wanted);
    assert_eq!(
        (&group["minTaskMember"], &group["queue"]),
        (&json!({"a": 2, "b": 3}), &json!("q"))
    );
    // All that the tasks need, then others.
    let groups = group_of(|case| {
        case["job"]["spec"]["tasks"][1]["minAvailable"] = json!(1);
        case["job"]["spec"]["tasks"][0]["minAvailable"] = json!(1);
        case["job"]["spec"]["minAvailable"] = json!(3);
    });
    let resources = &groups["train-u1"]["minResources"];
    assert_eq!(
        (&resources["cpu"], &resources["memory"]),
        (&json!("5"), &json!("1Gi"))
    );
    // An older one is brought in line, but for its queue.
    let groups = group_of(|case| {
        case["podGroup"] =
            json!({"metadata": {"name": "train"}, "spec": {"queue": "old", "minMember": 9}});
    });
    let group = &groups["train"];
    assert_eq!(
        (&group["minMember"], &group["queue"]),
        (&json!(5), &json!("old"))
    );
    assert!(groups.get("train-u1").is_none());
    let groups = group_of(|case| {
        case["job"]["spec"]["tasks"][0]["minAvailable"] = Value::Null;
        case["job"]["spec"]["tasks"][0]["partitionPolicy"] =
            json!({"partitionSize": 2, "minPartitions": 1});
    });
    assert_eq!(groups["train-u1"]["minTaskMember"]["a"], 2);
}

#[test]
fn a_job_with_more_pods_than_a_cluster_holds_is_refused_with_an_event() {
    let mut huge = task("w", i32::MAX);
    huge["minAvailable"] = json!(1);
    let answer = volcano(
        case("Pending", json!([huge]), json!([pod("w", 0, "Running")])),
        json!({"action": "SyncJob"}),
    );
    let error = answer["error"].as_str().unwrap();
    assert_eq!(
        error,
        "the job wants 2147483647 pods, and a cluster holds at most 150000"
    );
    assert!(answer["events"][0].as_str().unwrap().ends_with(error));
}
