//! Recorded answers of the controllers of Volcano ed72c7c8 to syncs of workflows; ours are equal.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_batch_objects::Compat;
use evictd_batch_workflows::WorkflowCase;
use evictd_test_objects::recorded;
use serde_json::Value;

fn check(folder: &str, count: usize, answer: impl Fn(&Value) -> Value) {
    recorded::check(env!("CARGO_MANIFEST_DIR"), folder, count, answer);
}

/// The answer to a sync of a cron job, a flow or a job template.
fn workflow(input: &Value) -> Value {
    let case: WorkflowCase = serde_json::from_value(input.clone()).unwrap();
    let now = "2026-01-01T01:00:00Z".parse().unwrap();
    serde_json::to_value(case.answer(Compat::VOLCANO, now).unwrap()).unwrap()
}

#[test]
fn s6_234_to_s6_241_every_sync_of_a_cron_job_is_answered_as_volcanos_controller_does() {
    check("cronjob", 23, workflow);
}

#[test]
fn s6_226_to_s6_232_every_sync_of_a_flow_is_answered_as_volcanos_controller_does() {
    check("jobflow", 23, workflow);
}

#[test]
fn s6_233_every_sync_of_a_job_template_is_answered_as_volcanos_controller_does() {
    check("jobtemplate", 3, workflow);
}
