//! Whole lives of a job: what happens, and what the machine makes of it.

use super::cluster::Cluster;
use super::support::{case, task};
use evictd_batch_jobs::job::JobEvent;
use evictd_batch_objects::Compat;
use evictd_batch_objects::bus::Action;
use serde_json::{Value, json};
use std::collections::VecDeque;

fn cluster(policies: Value) -> Cluster {
    let mut job = case("", json!([task("w", 2)]), json!([]))["job"].take();
    job["status"] = json!({});
    job["spec"]["policies"] = policies;
    Cluster::new(&job, Compat::EVICTD)
}

/// A job whose pods run.
fn running(policies: Value) -> Cluster {
    let mut cluster = cluster(policies);
    cluster.settle();
    started(&mut cluster);
    assert_eq!(cluster.phase(), "Running");
    cluster
}

/// The scheduler lets the group in, and the kubelet starts the pods.
fn started(cluster: &mut Cluster) {
    cluster.set_group_phase("Inqueue");
    cluster.settle();
    for name in cluster.pods() {
        cluster.set_phase(&name, "Running");
    }
    cluster.settle();
}

fn told(cluster: &Cluster, reason: &str) -> Vec<String> {
    let notices = cluster
        .notices
        .iter()
        .filter(|notice| notice.reason == reason);
    notices.map(|notice| notice.message.clone()).collect()
}

#[test]
fn a_job_gets_a_group_then_pods_and_is_completed_when_they_succeed() {
    let mut cluster = cluster(json!([]));
    cluster.settle();
    assert_eq!(
        (cluster.phase().as_str(), cluster.pods().len()),
        ("Pending", 0)
    );
    assert!(cluster.stored.borrow().group.is_some());
    started(&mut cluster);
    assert_eq!(
        (cluster.phase().as_str(), cluster.pods().len()),
        ("Running", 2)
    );
    for name in cluster.pods() {
        cluster.set_phase(&name, "Succeeded");
    }
    cluster.settle();
    let status = cluster.job().status;
    assert_eq!(
        (
            status.state.phase.as_str(),
            status.succeeded,
            status.version
        ),
        ("Completed", 2, 0)
    );
    // It has no more use for the group, and keeps its pods.
    assert!(cluster.stored.borrow().group.is_none());
    assert_eq!(cluster.pods().len(), 2);
}

#[test]
fn a_job_restarts_when_a_pod_fails_and_no_more_often_than_it_may() {
    let mut cluster = running(json!([{"action": "RestartJob", "event": "PodFailed"}]));
    for retries in 1..=3 {
        let first = cluster.pods().remove(0);
        cluster.set_phase(&first, "Failed");
        cluster.settle();
        let status = cluster.job().status;
        assert_eq!(status.retry_count, retries);
        if retries < 3 {
            // Until the new group is let in; then the pods that are gone count no longer.
            assert_eq!(status.state.phase.as_str(), "Restarting");
            started(&mut cluster);
            assert_eq!(
                (cluster.phase().as_str(), cluster.pods().len()),
                ("Running", 2)
            );
        }
    }
    assert_eq!(cluster.phase(), "Failed");
    assert_eq!(
        told(&cluster, "ExecuteAction"),
        [1, 2, 3].map(|retry| format!("Start to execute action RestartJob (retry {retry} of 3)"))
    );
}

/// A job whose pods are created, and the watch events of the pods, which are held back.
fn unseen() -> (Cluster, VecDeque<JobEvent>) {
    let mut cluster = cluster(json!([]));
    cluster.settle();
    cluster.set_group_phase("Inqueue");
    while cluster.pods().len() < 2 {
        assert!(cluster.answer() || cluster.event());
    }
    let is_pod = |event: &JobEvent| matches!(event, JobEvent::Pod(_));
    let (held, others) = cluster.events.drain(..).partition(is_pod);
    cluster.events = others;
    (cluster, held)
}

fn creations(cluster: &Cluster) -> usize {
    let made = cluster.made.iter();
    made.filter(|kind| *kind == "CreatePod").count()
}

#[test]
fn s6_041_a_pod_that_no_watch_has_shown_yet_is_not_created_again() {
    let (mut cluster, held) = unseen();
    cluster.set_group_phase("Running");
    cluster.settle();
    assert_eq!(creations(&cluster), 2);
    cluster.events.extend(held);
    cluster.settle();
    assert_eq!((creations(&cluster), cluster.pods().len()), (2, 2));
    assert_eq!(cluster.job().status.pending, 2);
}

#[test]
fn s6_041_a_pod_that_no_watch_ever_shows_is_read_and_replaced() {
    let (mut cluster, _) = unseen();
    cluster.stored.borrow_mut().pods.remove("train-w-0");
    cluster.settle();
    assert_eq!((creations(&cluster), cluster.pods().len()), (3, 2));
}

/// A mark is an event, and an event asks for the next ending: without a pause of its own each brought the next.
#[test]
fn a_pod_whose_deletion_is_refused_is_tried_again_later_each_time() {
    for phase in ["Running", "Pending"] {
        let mut cluster = running(json!([]));
        cluster.set_phase("train-w-0", phase);
        cluster.failing.insert("DeletePod");
        cluster.made.clear();
        cluster
            .events
            .push_back(JobEvent::Command(Action::AbortJob));
        cluster.settle();
        let count = |kind: &str| cluster.made.iter().filter(|made| *made == kind).count();
        // Two pods in an hour: pauses begin with 5 ms, are doubled each time, and end at 3 minutes.
        assert!(
            count("DeletePod") <= 2 * 36,
            "{} deletions",
            count("DeletePod")
        );
        assert!(count("MarkPod") <= 2 * 36, "{} marks", count("MarkPod"));
        assert!(
            count("WriteStatus") <= 40,
            "{} writes",
            count("WriteStatus")
        );
        cluster.failing.clear();
        cluster.settle();
        assert_eq!(cluster.pods(), Vec::<String>::new());
    }
}

#[test]
fn a_job_is_aborted_and_resumed_by_commands() {
    let mut cluster = running(json!([]));
    cluster
        .events
        .push_back(JobEvent::Command(Action::AbortJob));
    cluster.settle();
    assert_eq!(
        (cluster.phase().as_str(), cluster.pods().len()),
        ("Aborted", 0)
    );
    cluster
        .events
        .push_back(JobEvent::Command(Action::ResumeJob));
    cluster.settle();
    assert_eq!(cluster.phase(), "Pending");
    started(&mut cluster);
    let status = cluster.job().status;
    assert_eq!(
        (status.state.phase.as_str(), status.retry_count),
        ("Running", 0)
    );
    let issued = "Start to execute command AbortJob, and clean it up to make sure executed not more than once.";
    assert_eq!(told(&cluster, "CommandIssued")[0], issued);
}

/// A job that was to be aborted, and one of its pods that could not be deleted.
fn aborted_in_vain() -> Cluster {
    let mut cluster = running(json!([]));
    cluster.failing.insert("DeletePod");
    cluster
        .events
        .push_back(JobEvent::Command(Action::AbortJob));
    while told(&cluster, "FailedDelete").is_empty() {
        assert!(cluster.answer() || cluster.event());
    }
    cluster
}

#[test]
fn s6_016_what_fails_is_tried_again_and_the_job_terminated_at_last() {
    let mut cluster = running(json!([]));
    cluster.failing.insert("MarkPod");
    cluster
        .events
        .push_back(JobEvent::Command(Action::RestartJob));
    cluster.settle();
    // Once, fifteen times again, and once to terminate.
    assert_eq!(told(&cluster, "FailedDelete").len(), 17);
    let last = told(&cluster, "ExecuteAction").pop().unwrap();
    assert_eq!(
        last,
        "Job failed on action RestartJob for retry limit reached"
    );
    assert_eq!(cluster.phase(), "Running");
    // Faults that pass are overcome.
    let mut cluster = aborted_in_vain();
    cluster.failing.clear();
    cluster.settle();
    let status = cluster.job().status;
    assert_eq!(
        (status.state.phase.as_str(), cluster.pods().len()),
        ("Aborted", 0)
    );
}

#[test]
fn s6_032_a_pod_whose_deletion_failed_is_read_again() {
    let mut cluster = aborted_in_vain();
    // Gone without an event.
    cluster.stored.get_mut().pods.clear();
    cluster.events.clear();
    cluster.failing.clear();
    cluster.settle();
    assert!(cluster.machine.as_ref().unwrap().info().pods().is_empty());
}

/// Reads show the marks of its pods first, and the watch then shows nothing new.
#[test]
fn a_restart_whose_deletions_fail_goes_on_although_the_watch_is_behind() {
    let mut cluster = running(json!([{"action": "RestartJob", "event": "PodFailed"}]));
    cluster.failing.insert("DeletePod");
    cluster.set_phase("train-w-0", "Failed");
    assert!(cluster.event());
    let mut late = Vec::new();
    let mut hold = |cluster: &mut Cluster| {
        let is_pod = |event: &JobEvent| matches!(event, JobEvent::Pod(_) | JobEvent::PodGone(_));
        let (held, others): (Vec<_>, _) = cluster.events.drain(..).partition(is_pod);
        cluster.events = others.into();
        late.extend(held);
    };
    while told(&cluster, "FailedDelete").is_empty() {
        assert!(cluster.answer() || cluster.event());
        hold(&mut cluster);
    }
    cluster.failing.clear();
    for _ in 0..3 {
        cluster.tick();
        while cluster.answer() || cluster.event() {
            hold(&mut cluster);
        }
    }
    cluster.events.extend(late);
    cluster.settle();
    let stored = cluster.stored.borrow();
    let version = |pod: &Value| pod["metadata"]["annotations"]["volcano.sh/job-version"].clone();
    assert!(stored.pods.values().all(|pod| version(pod) == "1"));
    drop(stored);
    assert_eq!(cluster.job().status.retry_count, 1);
}

/// The pod ends while it is read.
#[test]
fn a_pod_whose_end_was_seen_is_not_brought_back_by_a_late_read() {
    let mut cluster = aborted_in_vain();
    cluster.failing.clear();
    let mut read = None;
    while read.is_none() {
        cluster.tick();
        let at = |event: &JobEvent| matches!(event, JobEvent::Read(..));
        let place = cluster.events.iter().position(at);
        read = place.and_then(|place| cluster.events.remove(place));
        assert!(read.is_some() || cluster.answer() || cluster.event());
    }
    for name in cluster.pods() {
        cluster.remove_pod(&name);
    }
    while cluster.event() {}
    cluster.events.extend(read);
    cluster.settle();
    assert!(cluster.machine.as_ref().unwrap().info().pods().is_empty());
}

#[test]
fn s6_053_a_timeout_restarts_a_job_whose_pod_waits_too_long_and_not_one_that_runs() {
    let policy = json!([{"action": "RestartJob", "event": "PodPending", "timeout": "10m"}]);
    let mut cluster = cluster(policy);
    cluster.settle();
    cluster.set_group_phase("Inqueue");
    while cluster.answer() || cluster.event() {}
    assert_eq!(
        told(&cluster, "ExecuteAction")[0],
        "Execute action RestartJob after 10m0s"
    );
    cluster.set_phase("train-w-0", "Running");
    while cluster.answer() || cluster.event() {}
    cluster.settle();
    assert_eq!(cluster.job().status.retry_count, 1);
    assert_eq!(cluster.phase(), "Restarting");
    // Now both run in time.
    cluster.set_group_phase("Inqueue");
    while cluster.answer() || cluster.event() {}
    for name in cluster.pods() {
        cluster.set_phase(&name, "Running");
    }
    cluster.settle();
    assert_eq!(
        (cluster.phase().as_str(), cluster.job().status.retry_count),
        ("Running", 1)
    );
}

#[test]
fn a_machine_is_gone_with_its_job_and_its_pods() {
    let mut cluster = running(json!([]));
    cluster.stored.get_mut().job = None;
    cluster.events.push_back(JobEvent::JobGone);
    cluster.settle();
    assert!(!cluster.machine.as_ref().unwrap().is_gone());
    for name in cluster.pods() {
        cluster.remove_pod(&name);
    }
    cluster.settle();
    assert!(cluster.machine.as_ref().unwrap().is_gone());
    assert_eq!(cluster.pods().len(), 0);
}

#[test]
fn an_evicted_pod_is_made_anew_and_a_marked_one_is_no_event() {
    let mut cluster = running(json!([{"action": "RestartJob", "event": "PodEvicted"}]));
    cluster.remove_pod("train-w-1");
    cluster.settle();
    // The restart deleted the other one: that was no eviction.
    assert_eq!(
        (cluster.phase().as_str(), cluster.job().status.retry_count),
        ("Restarting", 0)
    );
    let mut cluster = running(json!([]));
    cluster.remove_pod("train-w-1");
    cluster.settle();
    assert_eq!(cluster.pods(), ["train-w-0", "train-w-1"]);
}

#[test]
fn s6_016_a_job_whose_queue_is_missing_waits_for_it_and_is_terminated_in_volcanos_form() {
    for (compat, after) in [(Compat::EVICTD, "Pending"), (Compat::VOLCANO, "Terminated")] {
        let mut job = case("", json!([task("w", 2)]), json!([]))["job"].take();
        job["status"] = json!({});
        let mut cluster = Cluster::new(&job, compat);
        cluster.stored.get_mut().queue = false;
        cluster.settle();
        let says = !told(&cluster, "QueueNotFound").is_empty();
        assert_eq!(says, after == "Pending");
        cluster.stored.get_mut().queue = true;
        cluster.events.push_back(JobEvent::Appeared);
        // Nobody waits for the next try.
        while cluster.answer() || cluster.event() {}
        assert_eq!(cluster.phase(), after);
    }
}

/// The versions of the pods, and the number of restarts.
fn restarted_although_one_deletion_fails(
    policies: Value,
    restart: fn(&mut Cluster),
) -> (Vec<Value>, i32) {
    let mut cluster = running(policies);
    restart(&mut cluster);
    cluster.undeletable.insert("train-w-1".to_owned());
    while told(&cluster, "FailedDelete").is_empty() {
        assert!(cluster.answer() || cluster.event());
    }
    // The other pod is made again before the fault passes.
    for _ in 0..4 {
        cluster.set_group_phase("Running");
        while cluster.answer() || cluster.event() {}
        cluster.tick();
    }
    let made_again = cluster.pods();
    assert_eq!(made_again, ["train-w-0", "train-w-1"]);
    cluster.undeletable.clear();
    cluster.settle();
    cluster.set_group_phase("Running");
    cluster.settle();
    let stored = cluster.stored.borrow();
    let version = |pod: &Value| pod["metadata"]["annotations"]["volcano.sh/job-version"].clone();
    let versions = stored.pods.values().map(version).collect();
    drop(stored);
    (versions, cluster.job().status.retry_count)
}

#[test]
fn a_restart_whose_deletions_fail_counts_once_and_restarts_no_pod_twice() {
    let by_command = restarted_although_one_deletion_fails(json!([]), |cluster| {
        let command = JobEvent::Command(Action::RestartJob);
        cluster.events.push_back(command);
    });
    let policy = json!([{"action": "RestartJob", "event": "PodFailed"}]);
    let by_policy = restarted_although_one_deletion_fails(policy, |cluster| {
        cluster.set_phase("train-w-0", "Failed");
    });
    let once = (vec![json!("1"), json!("1")], 1);
    assert_eq!((by_command, by_policy), (once.clone(), once));
}

/// While pods end, each attempt writes the status before it fails. That is no success of the request.
#[test]
fn s6_016_attempts_that_write_the_status_before_they_fail_are_counted() {
    let mut cluster = running(json!([]));
    cluster.failing.insert("DeletePodGroup");
    cluster.made.clear();
    cluster
        .events
        .push_back(JobEvent::Command(Action::AbortJob));
    cluster.settle();
    let deletions = cluster.made.iter().filter(|made| *made == "DeletePodGroup");
    // Once, fifteen times again, and once to terminate.
    assert_eq!(deletions.count(), 17);
}
