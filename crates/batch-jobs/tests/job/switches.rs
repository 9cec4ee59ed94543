//! Where ours differs from Volcano: both sides of every switch.

use super::objects::calls_by;
use super::support::{answer, case, ours, phase, pod, task, volcano};
use evictd_batch_jobs::job::{Call, JobInfo, Request, choose, pod_added};
use evictd_batch_objects::Compat;
use evictd_batch_objects::bus::Event;
use serde_json::{Value, json};

fn one(phase: &str, pods: Value) -> Value {
    case(phase, json!([task("w", 2)]), pods)
}

#[test]
fn s6_027_a_finished_job_keeps_its_version_and_its_counts() {
    let pods = json!([pod("w", 0, "Succeeded"), pod("w", 1, "Succeeded")]);
    let job = || {
        let mut job = one("Completed", pods.clone());
        job["job"]["status"]["succeeded"] = json!(2);
        job["job"]["status"]["taskStatusCount"] = json!({"w": {"phase": {"Succeeded": 2}}});
        job
    };
    let request = json!({"action": "SyncJob"});
    let theirs = volcano(job(), request.clone())["status"].take();
    assert_eq!(
        (&theirs["version"], &theirs["succeeded"]),
        (&json!(2), &json!(0))
    );
    let own = ours(job(), request)["status"].take();
    assert_eq!((&own["version"], &own["succeeded"]), (&json!(1), &json!(2)));
    assert_eq!(own["taskStatusCount"], json!({"w": {"Succeeded": 2}}));
}

#[test]
fn s6_031_a_kill_counts_what_stays() {
    let pods = json!([pod("w", 0, "Succeeded"), pod("w", 1, "Running")]);
    let request = json!({"action": "AbortJob"});
    let theirs = volcano(one("Running", pods.clone()), request.clone())["status"].take();
    let own = ours(one("Running", pods), request)["status"].take();
    assert_eq!(
        (&theirs["succeeded"], &theirs["terminating"]),
        (&json!(0), &json!(1))
    );
    assert_eq!(
        (&own["succeeded"], &own["terminating"]),
        (&json!(1), &json!(1))
    );
}

#[test]
fn s6_032_a_kill_that_fails_raises_no_version() {
    let mut job = one("Running", json!([pod("w", 0, "Running")]));
    job["failDelete"] = json!(["train-w-0"]);
    let request = json!({"action": "AbortJob"});
    assert_eq!(volcano(job.clone(), request.clone())["cachedVersion"], 2);
    assert_eq!(ours(job, request).get("cachedVersion"), None);
}

#[test]
fn s6_056_a_target_kill_leaves_the_service_alone() {
    let mut job = one("Running", json!([pod("w", 0, "Running")]));
    job["job"]["spec"]["plugins"] = json!({"svc": []});
    job["job"]["status"]["controlledResources"] = json!({"plugin-svc": "svc"});
    let request = json!({"action": "RestartTask", "taskName": "w"});
    let controlled = |answer: Value| answer["status"]["controlledResources"].clone();
    assert_eq!(controlled(volcano(job.clone(), request.clone())), json!({}));
    assert_eq!(controlled(ours(job, request)), json!({"plugin-svc": "svc"}));
}

#[test]
fn s6_056_hosts_of_a_job_that_is_scaled_while_it_waits() {
    let told = |status: Value, compat| {
        let mut job = one("Pending", json!([]))["job"].take();
        job["spec"]["plugins"] = json!({"svc": []});
        job["status"]["controlledResources"] = status;
        let group = json!({"metadata": {"name": "train-u1"}, "status": {"phase": "Pending"}});
        let calls = calls_by(&job, &group, compat).into_iter();
        let maps = calls.filter(|call| matches!(call, Call::ApplyObject { .. }));
        maps.count()
    };
    let made = json!({"plugin-svc": "svc"});
    assert_eq!(told(made.clone(), Compat::EVICTD), 1);
    assert_eq!(told(made, Compat::VOLCANO), 0);
    // The first time it is made, once.
    assert_eq!(told(json!({}), Compat::EVICTD), 1);
}

#[test]
fn s6_052_zero_is_an_exit_code_of_a_pod_that_failed_only() {
    let mut case = one("Running", json!([]));
    case["job"]["spec"]["policies"] = json!([{"action": "AbortJob", "exitCode": 0}]);
    let job = serde_json::from_value(case["job"].take()).unwrap();
    let chosen = |event: Event, compat| {
        let request = Request {
            job_version: 1,
            ..Request::of_job("ml", "train", event)
        };
        choose(&job, &request, compat).action.as_str().to_owned()
    };
    assert_eq!(chosen(Event::TaskCompleted, Compat::VOLCANO), "AbortJob");
    assert_eq!(chosen(Event::TaskCompleted, Compat::EVICTD), "SyncJob");
    assert_eq!(chosen(Event::PodFailed, Compat::EVICTD), "AbortJob");
}

#[test]
fn s6_042_a_status_that_says_the_same_is_not_written() {
    let mut job = case("Running", json!([task("w", 0)]), json!([]));
    job["job"]["spec"]["minAvailable"] = json!(0);
    let request = json!({"action": "SyncJob"});
    assert_eq!(
        volcano(job.clone(), request.clone())["status"]["conditions"],
        json!(["Running"])
    );
    assert_eq!(ours(job, request)["status"]["conditions"], json!([]));
}

#[test]
fn s6_043_a_task_that_says_nothing_is_ready_when_all_its_pods_are() {
    let mut worker = task("x", 1);
    worker["dependsOn"] = json!({"name": ["w"]});
    let made = |pods: Value, compat| {
        let mut job = case("Pending", json!([task("w", 2), worker.clone()]), pods);
        job["job"]["spec"]["tasks"][0]["minAvailable"] = Value::Null;
        job["request"] = json!({"action": "SyncJob"});
        answer(job, compat)["createdPods"]
            .get("train-x-0")
            .is_some()
    };
    let some = json!([pod("w", 0, "Running"), pod("w", 1, "Pending")]);
    assert!(made(some.clone(), Compat::VOLCANO) && !made(some, Compat::EVICTD));
    assert!(made(
        json!([pod("w", 0, "Running"), pod("w", 1, "Running")]),
        Compat::EVICTD
    ));
}

#[test]
fn s6_047_what_ended_while_no_controller_ran_is_an_event() {
    let mut info = JobInfo::default();
    let job = one("Running", json!([]))["job"].take();
    info.set_job(serde_json::from_value(job).unwrap());
    let mut failed = pod("w", 0, "Failed");
    failed["status"]["containerStatuses"] = json!([{"state": {"terminated": {"exitCode": 9}}}]);
    let failed = serde_json::from_value(failed).unwrap();
    let theirs = pod_added(&info, &failed, Compat::VOLCANO).unwrap();
    let own = pod_added(&info, &failed, Compat::EVICTD).unwrap();
    assert_eq!((theirs.event, theirs.exit_code), (Event::PodPending, 0));
    assert_eq!((own.event, own.exit_code), (Event::PodFailed, 9));
    for index in 0..2 {
        let done: evictd_batch_objects::TaskPod =
            serde_json::from_value(pod("w", index, "Succeeded")).unwrap();
        info.set_pod(done.into());
    }
    let done = serde_json::from_value(pod("w", 1, "Succeeded")).unwrap();
    assert_eq!(
        pod_added(&info, &done, Compat::EVICTD).unwrap().event,
        Event::TaskCompleted
    );
    assert_eq!(
        pod_added(&info, &done, Compat::VOLCANO).unwrap().event,
        Event::PodPending
    );
}

#[test]
fn both_compats_agree_where_no_difference_applies() {
    let pods = json!([pod("w", 0, "Running"), pod("w", 1, "Running")]);
    for action in [
        "SyncJob",
        "AbortJob",
        "RestartJob",
        "CompleteJob",
        "TerminateJob",
    ] {
        let request = json!({"action": action});
        let own = ours(one("Running", pods.clone()), request.clone());
        let theirs = volcano(one("Running", pods.clone()), request);
        assert_eq!(phase(&own), phase(&theirs), "{action}");
        assert_eq!(own["deletedPods"], theirs["deletedPods"], "{action}");
    }
}

#[test]
fn s6_024_events_of_an_aborted_job_neither_raise_its_version_nor_write() {
    let request = json!({"action": "SyncJob"});
    let version = |answer: Value| answer["status"]["version"].as_i64().unwrap();
    assert_eq!(
        version(volcano(one("Aborted", json!([])), request.clone())),
        2
    );
    let own = ours(one("Aborted", json!([])), request);
    assert_eq!(own["status"]["controlledResources"], Value::Null);
    assert_eq!(version(own), 1);
}
