//! Cron jobs, flows and templates: where evictd differs from Volcano, and the machine that runs their syncs.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

use evictd_batch_objects::{Compat, Difference, Job};
use evictd_batch_workflows::{
    Call, Done, Object, WorkflowCase, WorkflowCommand, WorkflowEvent, WorkflowKey, WorkflowMachine,
};
use evictd_reconcile::Refusal;
use jiff::Timestamp;
use serde_json::{Value, from_value, json};
use std::sync::Arc;

const NOW: &str = "2026-03-02T10:05:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn cron_job(spec: Value, status: Value) -> Value {
    let mut cron = json!({
        "metadata": {"name": "nightly", "namespace": "ml", "uid": "u1", "creationTimestamp": "2026-03-02T09:59:00Z", "resourceVersion": "7"},
        "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"queue": "q"}}},
        "status": status,
    });
    for (field, value) in spec.as_object().unwrap() {
        cron["spec"][field] = value.clone();
    }
    cron
}

fn job(name: &str, owner: (&str, &str), phase: &str) -> Value {
    let (kind, uid) = owner;
    let api = if kind == "JobFlow" { "flow" } else { "batch" };
    json!({
        "metadata": {"name": name, "namespace": "ml", "uid": format!("uid-{name}"),
            "labels": {"volcano.sh/createdByJobFlow": "ml.f", "volcano.sh/createdByJobTemplate": "ml.t"},
            "ownerReferences": [{"apiVersion": format!("{api}.volcano.sh/v1alpha1"), "kind": kind,
                "name": if kind == "JobFlow" { "f" } else { "nightly" }, "uid": uid, "controller": true}]},
        "status": {"state": {"phase": phase}},
    })
}

fn answer(case: Value, compat: Compat) -> Value {
    let case: WorkflowCase = from_value(case).unwrap();
    serde_json::to_value(case.answer(compat, now()).unwrap()).unwrap()
}

#[test]
fn s6_240_a_job_that_exists_is_adopted_and_volcano_never_finds_it() {
    let existing = job("nightly-29540765", ("CronJob", "u1"), "Running");
    let case = json!({"kind": "cronjob", "now": NOW, "cronJob": cron_job(json!({}), json!({})), "apiOnlyJobs": [existing]});
    let ours = answer(case.clone(), Compat::EVICTD);
    assert_eq!(ours["status"]["active"][0]["name"], "nightly-29540765");
    assert_eq!(ours["status"]["lastScheduleTime"], NOW);
    assert_eq!(ours["error"], Value::Null);
    let volcano = answer(case, Compat::EVICTD.without(Difference::AdoptJobs));
    let missing = "jobs.batch.volcano.sh \"nightly-29540765\" not found";
    assert_eq!(volcano["error"], missing);
}

#[test]
fn s6_240_a_job_of_another_owner_is_reported_and_an_ended_one_counts_as_created() {
    let foreign = job("nightly-29540765", ("CronJob", "other"), "Running");
    let of = |existing: Value| {
        let cron = cron_job(json!({}), json!({}));
        answer(
            json!({"kind": "cronjob", "now": NOW, "cronJob": cron, "apiOnlyJobs": [existing]}),
            Compat::EVICTD,
        )
    };
    let said = of(foreign);
    let expected = "Warning ForeignJob Job nightly-29540765 exists but is not owned by this CronJob (current owner: nightly)";
    assert_eq!(said["events"], json!([expected]));
    assert_eq!(said["status"], Value::Null);
    let ended = of(job("nightly-29540765", ("CronJob", "u1"), "Completed"));
    assert_eq!(ended["status"], json!({"lastScheduleTime": NOW}));
}

#[test]
fn s6_236_a_job_that_was_not_written_down_is_seen_by_forbid() {
    let mut orphan = job("nightly-29540764", ("CronJob", "u1"), "Running");
    orphan["metadata"]["annotations"] =
        json!({"volcano.sh/cronjob-scheduled-timestamp": "2026-03-02T10:04:00Z"});
    let cron = cron_job(json!({"concurrencyPolicy": "Forbid"}), json!({}));
    let case = json!({"kind": "cronjob", "now": NOW, "cronJob": cron, "jobs": [orphan]});
    let ours = answer(case.clone(), Compat::EVICTD);
    assert_eq!(ours["createdJobs"], json!([]));
    assert_eq!(ours["status"]["active"][0]["name"], "nightly-29540764");
    assert_eq!(ours["status"]["lastScheduleTime"], "2026-03-02T10:04:00Z");
    let volcano = answer(case, Compat::EVICTD.without(Difference::AdoptJobs));
    assert_eq!(volcano["createdJobs"].as_array().unwrap().len(), 1);
}

#[test]
fn s6_239_replace_deletes_each_of_three_jobs_and_volcano_fails_on_one() {
    let names = ["a", "b", "c"];
    let active =
        names.map(|name| json!({"name": name, "namespace": "ml", "uid": format!("uid-{name}")}));
    let cron = cron_job(
        json!({"concurrencyPolicy": "Replace"}),
        json!({"active": active}),
    );
    let jobs = names.map(|name| job(name, ("CronJob", "u1"), "Running"));
    let case = json!({"kind": "cronjob", "now": NOW, "cronJob": cron, "jobs": jobs});
    let ours = answer(case.clone(), Compat::EVICTD);
    assert_eq!(ours["deletedJobs"], json!(["a", "b", "c"]));
    assert_eq!(ours["status"]["active"].as_array().unwrap().len(), 1);
    let volcano = answer(case, Compat::EVICTD.without(Difference::EachActiveJobOnce));
    assert_eq!(volcano["deletedJobs"], json!(["a", "c"]));
    assert_eq!(volcano["error"], "jobs.batch.volcano.sh \"c\" not found");
}

/// The answer to a sync of a flow of two parts, the second after the first, with the phases of the jobs that exist.
fn flow_of_two(phase: &str, jobs: &[(&str, &str)]) -> Value {
    let template = |name: &str| json!({"metadata": {"name": name, "namespace": "ml"}, "spec": {"queue": name}});
    let flows = json!([{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}}]);
    let jobs = jobs
        .iter()
        .map(|(name, phase)| job(name, ("JobFlow", "u2"), phase));
    let case = json!({
        "kind": "jobflow", "now": NOW, "jobs": jobs.collect::<Vec<_>>(), "jobTemplates": [template("a"), template("b")],
        "jobFlow": {"metadata": {"name": "f", "namespace": "ml", "uid": "u2"}, "spec": {"flows": flows},
            "status": {"state": {"phase": phase}}},
    });
    answer(case, Compat::EVICTD)
}

#[test]
fn s6_228_the_job_of_a_flow_names_its_creators_and_has_the_spec_of_its_template() {
    let answer = flow_of_two("", &[]);
    let created = &answer["createdJobs"][0];
    let marks =
        json!({"volcano.sh/createdByJobFlow": "ml.f", "volcano.sh/createdByJobTemplate": "ml.a"});
    assert_eq!(created["metadata"]["name"], "f-a");
    assert_eq!(created["metadata"]["labels"], marks);
    assert_eq!(created["metadata"]["annotations"], marks);
    assert_eq!(created["metadata"]["ownerReferences"][0]["uid"], "u2");
    assert_eq!(created["spec"]["queue"], "a");
    let event = "Normal Created create a job named f-a!";
    assert_eq!(answer["events"], json!([event]));
    assert_eq!(answer["createdJobs"].as_array().unwrap().len(), 1);
}

#[test]
fn s6_229_the_jobs_of_a_flow_are_listed_by_their_phases() {
    for (phase, list) in [
        ("Pending", "pendingJobs"),
        ("Running", "runningJobs"),
        ("Completed", "completedJobs"),
        ("Failed", "failedJobs"),
        ("Terminated", "terminatedJobs"),
        ("Aborted", "unKnowJobs"),
    ] {
        let status = flow_of_two("Running", &[("f-a", phase)])["status"].take();
        assert_eq!(status[list], json!(["f-a"]), "{status}");
        assert_eq!(status["conditions"]["f-a"]["phase"], phase);
    }
    let status = flow_of_two("Running", &[("f-a", "Completing")])["status"].take();
    assert_eq!(status["conditions"]["f-a"]["phase"], "Completing");
    assert_eq!(status["unKnowJobs"], Value::Null);
}

#[test]
fn s6_230_the_phase_of_a_flow_follows_from_its_jobs() {
    for (before, jobs, after) in [
        (
            "Pending",
            [("f-a", "Pending"), ("f-b", "Pending")],
            "Pending",
        ),
        (
            "Pending",
            [("f-a", "Running"), ("f-b", "Pending")],
            "Running",
        ),
        ("Pending", [("f-a", "Running"), ("f-b", "Failed")], "Failed"),
        (
            "Running",
            [("f-a", "Completed"), ("f-b", "Running")],
            "Running",
        ),
        (
            "Running",
            [("f-a", "Completed"), ("f-b", "Completed")],
            "Succeed",
        ),
        (
            "Running",
            [("f-a", "Completed"), ("f-b", "Terminated")],
            "Failed",
        ),
    ] {
        let status = flow_of_two(before, &jobs)["status"].take();
        assert_eq!(status["state"]["phase"], after, "{before} {jobs:?}");
    }
    // Failed is final.
    let failed = flow_of_two("Failed", &[("f-a", "Running")]);
    assert_eq!(failed.get("status"), None);
}

fn object(kind: &str, value: Value) -> Object {
    match kind {
        "CronJob" => Object::CronJob(Arc::new(from_value(value).unwrap())),
        "JobFlow" => Object::JobFlow(Arc::new(from_value(value).unwrap())),
        _ => Object::JobTemplate(Arc::new(from_value(value).unwrap())),
    }
}

fn started() -> WorkflowMachine {
    let mut machine = WorkflowMachine::new(Compat::EVICTD, Some(2));
    machine.on_event(now(), WorkflowEvent::Listed);
    machine
}

fn calls(commands: &[WorkflowCommand]) -> Vec<(WorkflowKey, Call)> {
    let calls = commands.iter().filter_map(|command| match command {
        WorkflowCommand::Call(key, call) => Some((key.clone(), (**call).clone())),
        _ => None,
    });
    calls.collect()
}

fn wake(commands: &[WorkflowCommand]) -> Option<Timestamp> {
    commands.iter().rev().find_map(|command| match command {
        WorkflowCommand::Wake(time) => Some(*time),
        _ => None,
    })
}

/// The job of a call that creates one, as the API server stores it.
fn stored(call: &Call) -> Arc<Job> {
    let Call::CreateJob { job } = call else {
        panic!("{call:?}");
    };
    let mut job: Job = from_value(job.clone()).unwrap();
    job.metadata.uid = "uid-new".into();
    Arc::new(job)
}

#[test]
fn s6_241_a_cron_job_is_synced_at_its_next_time_and_a_new_job_is_known_from_the_answer() {
    let mut machine = started();
    let cron = object("CronJob", cron_job(json!({}), json!({})));
    let commands = machine.on_event(now(), WorkflowEvent::Object(None, cron));
    let (key, create) = calls(&commands).remove(0);
    let job = stored(&create);
    let answer = WorkflowEvent::Answer(key.clone(), Ok(Done::Job(job)));
    let commands = machine.on_event(now(), answer);
    let (_, write) = calls(&commands).remove(0);
    let Call::WriteStatus { status, patch } = write else {
        panic!("{write:?}");
    };
    assert_eq!(patch["metadata"]["resourceVersion"], "7");
    let mut newer = cron_job(json!({}), status);
    newer["metadata"]["resourceVersion"] = "8".into();
    let newer = object("CronJob", newer);
    let answer = WorkflowEvent::Answer(key, Ok(Done::Stored(newer.clone())));
    let commands = machine.on_event(now(), answer);
    assert!(calls(&commands).is_empty());
    let next: Timestamp = "2026-03-02T10:10:00.1Z".parse().unwrap();
    assert_eq!(wake(&commands), Some(next));
    // The watch shows the state that the answers have shown, so no call follows. The job does not count as missing.
    let old = object("CronJob", cron_job(json!({}), json!({})));
    let commands = machine.on_event(now(), WorkflowEvent::Object(Some(old), newer));
    assert!(calls(&commands).is_empty());
    let commands = machine.on_event(next, WorkflowEvent::Tick);
    assert_eq!(calls(&commands).len(), 1);
}

#[test]
fn s6_241_another_schedule_begins_at_its_next_time_and_a_wrong_one_never() {
    let mut machine = started();
    let spec = |schedule: &str| json!({"schedule": schedule, "suspend": true});
    let old = object("CronJob", cron_job(spec("@yearly"), json!({})));
    machine.on_event(now(), WorkflowEvent::Object(None, old.clone()));
    let with = |schedule: &str, version: &str| {
        let mut cron = cron_job(json!({"schedule": schedule}), json!({}));
        cron["metadata"]["resourceVersion"] = version.into();
        object("CronJob", cron)
    };
    let hourly = with("@hourly", "8");
    let commands = machine.on_event(now(), WorkflowEvent::Object(Some(old), hourly.clone()));
    assert!(calls(&commands).is_empty());
    assert_eq!(
        wake(&commands),
        Some("2026-03-02T11:00:00.1Z".parse().unwrap())
    );
    let wrong = with("often", "9");
    let commands = machine.on_event(now(), WorkflowEvent::Object(Some(hourly), wrong));
    assert_eq!(wake(&commands), None);
    let WorkflowCommand::Notice(_, notice) = &commands[0] else {
        panic!("{commands:?}");
    };
    assert_eq!(notice.reason, "UnParseableCronJobSchedule");
}

#[test]
fn s6_232_a_flow_waits_for_its_template_and_is_reported_after_the_last_retry() {
    let mut machine = started();
    let flow = json!({"metadata": {"name": "f", "namespace": "ml", "uid": "u2"}, "spec": {"flows": [{"name": "t"}]}});
    let commands = machine.on_event(now(), WorkflowEvent::Object(None, object("JobFlow", flow)));
    assert!(calls(&commands).is_empty());
    let mut last = commands;
    for _ in 0..2 {
        let due = wake(&last).unwrap();
        last = machine.on_event(due, WorkflowEvent::Tick);
    }
    let WorkflowCommand::Notice(_, notice) = &last[0] else {
        panic!("{last:?}");
    };
    assert_eq!(
        notice.message,
        "SyncJobFlow JobFlow failed for sync jobflow f failed for jobtemplate.flow.volcano.sh \"t\" not found, event is OutOfSync, action is SyncJobFlow"
    );
    let template = json!({"metadata": {"name": "t", "namespace": "ml"}, "spec": {"queue": "q"}});
    let template = object("JobTemplate", template);
    let commands = machine.on_event(now(), WorkflowEvent::Object(None, template));
    let (key, create) = calls(&commands).remove(0);
    assert_eq!(stored(&create).metadata.name, "f-t");
    // A call that fails is tried again.
    let refused = Err(Refusal::Other("no".to_owned()));
    let commands = machine.on_event(now(), WorkflowEvent::Answer(key, refused));
    assert!(wake(&commands).is_some());
}

#[test]
fn s6_227_the_next_job_of_a_flow_is_created_when_its_target_completes() {
    let mut machine = WorkflowMachine::new(Compat::EVICTD, None);
    let flow = json!({
        "metadata": {"name": "f", "namespace": "ml", "uid": "u2"},
        "spec": {"flows": [{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}}]},
        "status": {"state": {"phase": "Running"}},
    });
    machine.on_event(now(), WorkflowEvent::Object(None, object("JobFlow", flow)));
    for name in ["a", "b"] {
        let template = json!({"metadata": {"name": name, "namespace": "ml"}});
        let template = object("JobTemplate", template);
        machine.on_event(now(), WorkflowEvent::Object(None, template));
    }
    let of = |phase: &str| -> Arc<Job> {
        Arc::new(from_value(job("f-a", ("JobFlow", "u2"), phase)).unwrap())
    };
    let running = of("Running");
    machine.on_event(now(), WorkflowEvent::Job(None, Arc::clone(&running)));
    let commands = machine.on_event(now(), WorkflowEvent::Listed);
    // The first sync counts the job that runs.
    let (key, write) = calls(&commands).remove(0);
    assert!(matches!(write, Call::WriteStatus { .. }));
    machine.on_event(now(), WorkflowEvent::Answer(key, Ok(Done::Nothing)));
    let commands = machine.on_event(now(), WorkflowEvent::Job(Some(running), of("Completed")));
    let (_, create) = calls(&commands).remove(0);
    assert_eq!(stored(&create).metadata.name, "f-b");
}

#[test]
fn s6_231_the_jobs_of_a_flow_are_deleted_once_its_success_is_written() {
    let mut machine = WorkflowMachine::new(Compat::EVICTD, None);
    let flow = |phase: &str, version: &str| {
        let flow = json!({
            "metadata": {"name": "f", "namespace": "ml", "uid": "u2", "resourceVersion": version},
            "spec": {"flows": [{"name": "a"}], "jobRetainPolicy": "delete"},
            "status": {"state": {"phase": phase}},
        });
        object("JobFlow", flow)
    };
    machine.on_event(now(), WorkflowEvent::Object(None, flow("Running", "7")));
    let done: Arc<Job> = Arc::new(from_value(job("f-a", ("JobFlow", "u2"), "Completed")).unwrap());
    machine.on_event(now(), WorkflowEvent::Job(None, done));
    let commands = machine.on_event(now(), WorkflowEvent::Listed);
    let (key, _) = calls(&commands).remove(0);
    let answer = WorkflowEvent::Answer(key, Ok(Done::Stored(flow("Succeed", "8"))));
    let commands = machine.on_event(now(), answer);
    let (_, delete) = calls(&commands).remove(0);
    assert!(matches!(delete, Call::DeleteJob { name, .. } if name == "f-a"));
}

#[test]
fn an_answer_about_an_object_that_has_gone_is_none_about_its_successor() {
    for seen_apart in [false, true] {
        let mut machine = started();
        let old = object("CronJob", cron_job(json!({}), json!({})));
        let commands = machine.on_event(now(), WorkflowEvent::Object(None, old.clone()));
        let (key, create) = calls(&commands).remove(0);
        let mut successor = cron_job(json!({}), json!({}));
        successor["metadata"]["uid"] = "u2".into();
        let successor = object("CronJob", successor);
        // A watch shows a re-created object as one change, or as a deletion and a creation.
        let before = if seen_apart {
            machine.on_event(now(), WorkflowEvent::Gone(old));
            None
        } else {
            Some(old)
        };
        let commands = machine.on_event(now(), WorkflowEvent::Object(before, successor));
        assert!(calls(&commands).is_empty(), "{commands:?}");
        let answer = WorkflowEvent::Answer(key.clone(), Ok(Done::Job(stored(&create))));
        let (of, create) = calls(&machine.on_event(now(), answer)).remove(0);
        let job = stored(&create);
        assert_eq!((of, &*job.metadata.owner_references[0].uid), (key, "u2"));
    }
}

#[test]
fn the_successor_of_a_flow_is_synced_though_its_watch_shows_one_change() {
    let mut machine = started();
    let flow = |uid: &str, version: &str| {
        object(
            "JobFlow",
            json!({"metadata": {"name": "f", "namespace": "ml", "uid": uid, "resourceVersion": version},
                "spec": {"flows": [{"name": "t"}]}}),
        )
    };
    let template = json!({"metadata": {"name": "t", "namespace": "ml", "uid": "t", "resourceVersion": "1"}, "spec": {"tasks": []}});
    machine.on_event(
        now(),
        WorkflowEvent::Object(None, object("JobTemplate", template)),
    );
    let commands = machine.on_event(now(), WorkflowEvent::Object(None, flow("u1", "2")));
    let (key, _) = calls(&commands).remove(0);
    let both = WorkflowEvent::Object(Some(flow("u1", "2")), flow("u2", "3"));
    assert!(calls(&machine.on_event(now(), both)).is_empty());
    let answer = WorkflowEvent::Answer(key, Err(Refusal::Other("lost".to_owned())));
    assert_eq!(calls(&machine.on_event(now(), answer)).len(), 1);
}

/// The allocations of a sync that creates the jobs of so many parts, one call at a time.
fn allocations_of_a_flow(parts: usize) -> u64 {
    let mut machine = WorkflowMachine::new(Compat::EVICTD, Some(15));
    machine.on_event(now(), WorkflowEvent::Listed);
    let template = json!({"metadata": {"name": "t", "namespace": "ml"}, "spec": {"queue": "q"}});
    let flows: Vec<Value> = (0..parts)
        .map(|part| json!({"name": format!("t{part}")}))
        .collect();
    for part in 0..parts {
        let mut template = template.clone();
        template["metadata"]["name"] = json!(format!("t{part}"));
        let template = object("JobTemplate", template);
        machine.on_event(now(), WorkflowEvent::Object(None, template));
    }
    let flow = json!({"metadata": {"name": "f", "namespace": "ml", "uid": "u2"}, "spec": {"flows": flows}});
    let flow = object("JobFlow", flow);
    let mut turns = 0;
    let allocations = allocation_counter::measure(|| {
        let mut commands = machine.on_event(now(), WorkflowEvent::Object(None, flow.clone()));
        loop {
            let calls = commands.into_iter().find_map(|command| match command {
                WorkflowCommand::Call(key, call) if key == flow.key() => Some((key, *call)),
                _ => None,
            });
            let Some((key, call)) = calls else { break };
            turns += usize::from(matches!(call, Call::CreateJob { .. }));
            let answer = WorkflowEvent::Answer(key, Ok(Done::Nothing));
            commands = machine.on_event(now(), answer);
        }
    });
    assert_eq!(turns, parts);
    allocations.count_total
}

#[test]
fn a_sync_of_a_flow_works_in_proportion_to_its_parts() {
    let (few, many) = (allocations_of_a_flow(100), allocations_of_a_flow(400));
    assert!(many < 5 * few, "{few} allocations, then {many}");
}
