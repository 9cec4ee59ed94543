//! Jobs with what their controllers make of them, and those of which no session has to be asked.

use crate::scenario::Scenario;
use crate::{ALL, ask, by_form, why, words};
use evictd_batch::session::Objects;
use evictd_batch::why::{Answer, State};
use evictd_batch_objects::{Compat, Job, PodGroup};
use serde_json::{Value, json};

/// The job `train` of three pods, with this status.
fn job(status: Value, tasks: Value) -> Job {
    let job = json!({
        "metadata": {"name": "train", "namespace": "default", "uid": "u1"},
        "spec": {"schedulerName": "volcano", "queue": "q", "minAvailable": 3, "tasks": tasks},
        "status": status,
    });
    serde_json::from_value(job).unwrap()
}

fn task(name: &str, replicas: i32, depends_on: &[&str]) -> Value {
    let requests = json!({"requests": {"cpu": "1"}});
    let mut task = json!({"name": name, "replicas": replicas,
        "template": {"spec": {"containers": [{"name": "c", "resources": requests}]}}});
    if !depends_on.is_empty() {
        task["dependsOn"] = json!({"name": depends_on});
    }
    task
}

fn in_phase(phase: &str) -> Job {
    let status = json!({"state": {"phase": phase, "lastTransitionTime": "2026-01-01T00:00:00Z"},
        "controlledResources": {}, "succeeded": 3, "retryCount": 2, "terminating": 1});
    job(status, json!([task("w", 3, &[])]))
}

fn cluster() -> Objects {
    Scenario::new(ALL).node("a", "8").objects()
}

/// The job's group, as its controller makes it.
fn group(phase: &str) -> PodGroup {
    let owner = json!([{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": "u1", "controller": true}]);
    let group = json!({
        "metadata": {"name": "train-u1", "namespace": "default", "ownerReferences": owner},
        "spec": {"minMember": 3, "queue": "q"}, "status": {"phase": phase},
    });
    serde_json::from_value(group).unwrap()
}

/// A job in a cluster in which nothing of it is there yet.
fn of(job: Job) -> Answer {
    why(&cluster(), &[job])
}

#[test]
fn a_finished_or_stopped_job_has_a_plain_headline() {
    for (phase, state, headline) in [
        (
            "Completed",
            State::Finished,
            "train was completed at 2026-01-01T00:00:00Z (3 pods succeeded)",
        ),
        (
            "Failed",
            State::Finished,
            "train failed at 2026-01-01T00:00:00Z after 2 restarts",
        ),
        (
            "Terminated",
            State::Finished,
            "train was terminated at 2026-01-01T00:00:00Z",
        ),
        (
            "Aborted",
            State::Stopped,
            "train was aborted at 2026-01-01T00:00:00Z",
        ),
        (
            "Aborting",
            State::Stopped,
            "train is being aborted since 2026-01-01T00:00:00Z",
        ),
        (
            "Restarting",
            State::Waits,
            "train restarts since 2026-01-01T00:00:00Z: its pods are made anew once all have ended; 1 pod of it still ends",
        ),
    ] {
        let answer = of(in_phase(phase));
        assert_eq!((answer.state, answer.headline.as_str()), (state, headline));
    }
    let aborted = of(in_phase("Aborted"));
    assert!(aborted.more[0].ends_with("evictd-batch job resume -n default -N train"));
}

#[test]
fn a_job_without_a_pod_group_or_pods_asks_for_the_controllers() {
    let none = of(in_phase("Pending"));
    assert_eq!(none.headline, "train waits: it has no pod group");
    let mut objects = cluster();
    objects.pod_groups.push(group("Inqueue"));
    let unmade = why(&objects, &[in_phase("Pending")]);
    assert_eq!(
        unmade.headline,
        "train waits: the controllers have not made 3 pods of it"
    );
    assert_eq!(unmade.more[0], "Once they are there, it starts.");
    assert!(unmade.soonest.is_empty());
}

#[test]
fn a_job_without_pods_is_diagnosed_with_the_pods_that_will_be_created() {
    let mut objects = Scenario::new(ALL)
        .node("a", "4")
        .job("own", 1, "Running")
        .running("own", 0, &["a", "a"], "2")
        .objects();
    let mut waiting = group("Pending");
    waiting.spec.min_resources = Some(serde_json::from_value(json!({"cpu": "3"})).unwrap());
    objects.pod_groups.push(waiting);
    let answer = why(&objects, &[in_phase("Pending")]);
    assert_eq!(answer.state, State::NotEnqueued);
    // Let in after one pod had ended, it would still not start: three of one core each need both to end.
    assert_eq!(words(&answer)[0], "default/own ends (2 pods)");
    assert!(answer.soonest[0].sessions >= 2, "{answer:?}");
}

/// The pod of the task `driver`, which waits.
fn driver() -> Value {
    json!({
        "metadata": {"name": "train-driver-0", "namespace": "default", "uid": "p",
            "annotations": {"scheduling.k8s.io/group-name": "train-u1", "volcano.sh/task-spec": "driver",
                "volcano.sh/job-name": "train", "volcano.sh/job-version": "0"},
            "ownerReferences": [{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": "u1", "controller": true}]},
        "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": "Pending"},
    })
}

#[test]
fn pods_that_depend_on_another_task_are_reported() {
    let status = json!({"state": {"phase": "Pending"}, "controlledResources": {}});
    let job = job(
        status,
        json!([task("driver", 1, &[]), task("work", 2, &["driver"])]),
    );
    let mut objects = cluster();
    objects.pod_groups.push(group("Inqueue"));
    objects.pods.push(serde_json::from_value(driver()).unwrap());
    let answer = why(&objects, std::slice::from_ref(&job));
    assert_eq!(
        answer.headline,
        "train waits: it has 1 of the 3 pods that it needs; 2 pods are made once other tasks run (dependsOn)"
    );
    assert_eq!(
        words(&answer),
        ["its minAvailable is lowered to 1 (from 3), and those of its tasks"]
    );
    // A pod may be named in place of the job.
    let by_pod = ask(&objects, &[job], "train-driver-0").unwrap();
    assert_eq!(by_pod.headline, answer.headline);
    assert_eq!(by_pod.more[0], "Pod train-driver-0 belongs to it.");
}

#[test]
fn an_unknown_name_is_answered_with_the_nearest_one() {
    let told = |name: &str| {
        ask(&cluster(), &[in_phase("Pending")], name)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        told("trian"),
        "no job, pod group, pod or owner of pods is named trian in the namespace default; the nearest name is train"
    );
    assert_eq!(
        told("wholly-different"),
        "no job, pod group, pod or owner of pods is named wholly-different in the namespace default"
    );
    let mut elsewhere = in_phase("Pending");
    "research".clone_into(&mut elsewhere.metadata.namespace);
    let told = ask(&cluster(), &[elsewhere], "train")
        .unwrap_err()
        .to_string();
    assert!(
        told.ends_with("; there is one in the namespace research"),
        "{told}"
    );
}

#[test]
fn the_answer_names_the_other_scheduler_of_a_pod() {
    let with =
        json!({"metadata": {"annotations": null}, "spec": {"schedulerName": "default-scheduler"}});
    let objects = Scenario::new(ALL)
        .node("a", "8")
        .pod("train", "", "1", &with)
        .objects();
    let answer = why(&objects, &[]);
    assert_eq!(
        answer.headline,
        "train is placed by the scheduler default-scheduler, not by volcano"
    );
}

#[test]
fn pods_are_found_by_their_owner_and_a_plain_one_may_lack_its_group() {
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "train-5c9", "uid": "r1", "controller": true}]);
    let with = json!({"metadata": {"ownerReferences": owner, "annotations": null}});
    let scenario = Scenario::new(ALL)
        .node("a", "8")
        .pod("train-5c9-x", "", "1", &with);
    let told = |objects: &Objects, compat: Compat| {
        let answer = by_form(objects, compat);
        (answer.kind, answer.pod_group, answer.headline)
    };
    assert_eq!(
        told(&scenario.objects(), Compat::VOLCANO),
        (
            "Owner",
            "default/podgroup-r1".to_owned(),
            "train waits: its pods belong to no pod group".to_owned()
        )
    );
    // With us a pod needs none, but its queue.
    let own = "default/train-5c9-x@pod".to_owned();
    assert_eq!(
        told(&scenario.objects(), Compat::EVICTD),
        (
            "Owner",
            own.clone(),
            "train waits: its queue default does not exist".to_owned()
        )
    );
    let large = scenario.queue("default", &json!({"capability": {"cpu": "500m"}}));
    let large = told(&large.objects(), Compat::EVICTD);
    assert_eq!(
        large,
        (
            "Owner",
            own,
            "train waits: queue default may not have so much (cpu 1 of 500m with it)".to_owned()
        )
    );
}

#[test]
fn a_job_whose_other_pods_are_yet_to_be_made_runs_in_part() {
    let status = json!({"state": {"phase": "Running"}, "controlledResources": {}});
    let job = job(
        status,
        json!([task("driver", 1, &[]), task("work", 2, &["driver"])]),
    );
    let mut objects = cluster();
    let mut group = group("Running");
    group.spec.min_member = 1;
    objects.pod_groups.push(group);
    let mut driver = driver();
    // It has a node, and does not run yet.
    driver["spec"]["nodeName"] = json!("a");
    objects
        .pods
        .push(serde_json::from_value(driver.clone()).unwrap());
    let told = |objects: &Objects| why(objects, std::slice::from_ref(&job)).headline;
    let waits = "train runs with 1 of its 3 pods; the others wait: 2 pods are made once other tasks run (dependsOn)";
    assert_eq!(told(&objects), waits);
    driver["status"] =
        json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]});
    objects.pods[0] = serde_json::from_value(driver.clone()).unwrap();
    assert_eq!(told(&objects), waits);
    // Once it is ready, it is the controllers' turn.
    driver["status"]["conditions"][0]["status"] = json!("True");
    objects.pods[0] = serde_json::from_value(driver).unwrap();
    assert_eq!(
        told(&objects),
        "train runs with 1 of its 3 pods; the others wait: the controllers have not made 2 pods of it"
    );
}
