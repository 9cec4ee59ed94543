//! The objects themselves, their end, and Commands.

use evictd_batch_jobs::job::{Fate, expires, fate};
use evictd_batch_objects::{Command, Job, PodGroup, PodGroupPhase, Queue};
use evictd_reconcile::Refusal;
use serde_json::{Value, json};

#[test]
fn s6_001_jobs_commands_groups_and_queues_are_read_with_fields_of_a_newer_version() {
    let newer =
        json!({"metadata": {"name": "x"}, "spec": {"somethingNew": [1]}, "status": {"more": {}}});
    let job: Job = serde_json::from_value(newer.clone()).unwrap();
    let group: PodGroup = serde_json::from_value(newer.clone()).unwrap();
    let queue: Queue = serde_json::from_value(newer).unwrap();
    let command = json!({"action": "AbortJob", "target": {"kind": "Job", "name": "x"}});
    let command: Command = serde_json::from_value(command).unwrap();
    let target = command.target_object.unwrap();
    let names = [
        job.metadata.name,
        group.metadata.name,
        queue.metadata.name,
        target.name,
    ];
    assert_eq!(names, ["x", "x", "x", "x"]);
}

#[test]
fn s6_002_a_jobs_spec_has_volcanos_fields() {
    let spec = json!({
        "schedulerName": "volcano", "minAvailable": 2, "minSuccess": 1, "queue": "q", "maxRetry": 3,
        "ttlSecondsAfterFinished": 5, "priorityClassName": "high", "runningEstimate": "1h",
        "networkTopology": {"mode": "hard", "highestTierAllowed": 2},
        "plugins": {"svc": ["--x"], "env": null},
        "volumes": [{"mountPath": "/d", "volumeClaimName": "c"}],
        "tasks": [{
            "name": "w", "replicas": 2, "minAvailable": 1, "maxRetry": 4, "topologyPolicy": "restricted",
            "dependsOn": {"name": ["m"], "iteration": "any"},
            "partitionPolicy": {"totalPartitions": 2, "partitionSize": 1, "minPartitions": 1},
        }],
    });
    let job: Job = serde_json::from_value(json!({"spec": spec})).unwrap();
    let (spec, task) = (&job.spec, &job.spec.tasks[0]);
    assert_eq!(
        (spec.min_success, spec.ttl_seconds_after_finished),
        (Some(1), Some(5))
    );
    assert_eq!(spec.plugins.len(), 2);
    assert_eq!((task.max_retry, task.min_available), (4, Some(1)));
    assert_eq!(task.partition_policy.as_ref().unwrap().partition_size, 1);
}

#[test]
fn s6_003_a_task_of_a_newer_version_is_read() {
    let job = json!({"spec": {"tasks": [{"name": "w", "futureField": {"a": 1}}]}});
    let job: Job = serde_json::from_value(job).unwrap();
    assert_eq!(job.spec.tasks[0].name, "w");
}

#[test]
fn s6_005_a_jobs_status_is_written_as_it_was_read() {
    let status = json!({
        "state": {"phase": "Running", "reason": "r", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        "minAvailable": 2, "pending": 1, "running": 2, "succeeded": 3, "failed": 4, "terminating": 5,
        "unknown": 6, "version": 7, "retryCount": 8, "runningDuration": "1m0s",
        "controlledResources": {"plugin-svc": "svc"},
        "taskStatusCount": {"w": {"phase": {"Running": 2}}},
        "conditions": [{"status": "Pending", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    });
    let job: Job = serde_json::from_value(json!({"status": status})).unwrap();
    assert_eq!(serde_json::to_value(job.status).unwrap(), status);
}

#[test]
fn s6_009_a_group_has_volcanos_fields() {
    let group = json!({
        "spec": {
            "minMember": 2, "queue": "q", "priorityClassName": "high", "minResources": {"cpu": "2"},
            "minTaskMember": {"w": 2}, "subGroupPolicy": [{"name": "w"}],
        },
        "status": {"phase": "Inqueue", "running": 1, "conditions": [{"type": "Unschedulable", "status": "True"}]},
    });
    let group: PodGroup = serde_json::from_value(group).unwrap();
    assert_eq!(
        (
            group.spec.min_task_member["w"],
            group.spec.sub_group_policy.len()
        ),
        (2, 1)
    );
    assert_eq!(group.status.conditions[0].kind.as_str(), "Unschedulable");
}

#[test]
fn s6_010_an_unknown_phase_of_a_group_is_read() {
    let group: PodGroup =
        serde_json::from_value(json!({"status": {"phase": "Completed"}})).unwrap();
    assert_eq!(group.status.phase, PodGroupPhase::Completed);
}

#[test]
fn s6_011_a_queue_has_volcanos_fields() {
    let queue = json!({
        "spec": {"weight": 2, "capability": {"cpu": "4"}, "reclaimable": false, "parent": "p", "priority": 3,
            "guarantee": {"resource": {"cpu": "1"}}, "deserved": {"cpu": "2"}, "dequeueStrategy": "fifo", "type": "t"},
        "status": {"state": "Closing", "running": 2},
    });
    let queue: Queue = serde_json::from_value(queue).unwrap();
    assert_eq!(
        (
            queue.spec.weight,
            queue.spec.reclaimable,
            queue.spec.priority
        ),
        (2, Some(false), 3)
    );
    assert_eq!(
        (queue.status.state.as_str(), queue.status.running),
        ("Closing", 2)
    );
}

#[test]
fn s6_012_a_command_acts_only_for_whoever_deleted_it() {
    assert_eq!(fate(&Ok(())), Fate::Act);
    assert_eq!(fate(&Err(Refusal::NotFound)), Fate::Drop);
    assert_eq!(
        fate(&Err(Refusal::Other("no answer".to_owned()))),
        Fate::Retry
    );
}

fn finished(phase: &str, ttl: Value) -> Option<String> {
    let job = json!({
        "spec": {"ttlSecondsAfterFinished": ttl},
        "status": {"state": {"phase": phase, "lastTransitionTime": "2026-01-01T00:00:00Z"}},
    });
    let job: Job = serde_json::from_value(job).unwrap();
    expires(&job).map(|time| time.to_string())
}

#[test]
fn s6_054_a_finished_job_is_deleted_after_its_time() {
    for phase in ["Completed", "Failed", "Terminated"] {
        assert_eq!(
            finished(phase, json!(90)).as_deref(),
            Some("2026-01-01T00:01:30Z")
        );
        assert_eq!(
            finished(phase, json!(0)).as_deref(),
            Some("2026-01-01T00:00:00Z")
        );
        assert_eq!(finished(phase, Value::Null), None);
    }
    for phase in ["Aborted", "Running", "Completing", ""] {
        assert_eq!(finished(phase, json!(1)), None);
    }
}
