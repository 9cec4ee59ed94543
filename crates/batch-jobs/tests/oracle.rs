//! Recorded answers of the controllers of Volcano ed72c7c8 to requests and changes; ours are equal.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_batch_jobs::reconcile::{JobCase, QueueCase};
use evictd_batch_objects::Compat;
use evictd_test_objects::recorded;
use serde_json::Value;

fn check(folder: &str, count: usize, answer: impl Fn(&Value) -> Value) {
    recorded::check(env!("CARGO_MANIFEST_DIR"), folder, count, answer);
}

#[test]
fn every_request_to_a_job_is_answered_as_volcanos_controller_does() {
    check("job", 59, |input| {
        let case: JobCase = serde_json::from_value(input.clone()).unwrap();
        let now = "2026-01-01T01:00:00Z".parse().unwrap();
        let outcome = case.answer(Compat::VOLCANO, now).unwrap();
        serde_json::to_value(outcome).unwrap()
    });
}

#[test]
fn every_request_to_a_queue_is_answered_as_volcanos_controller_does() {
    check("queue", 18, |input| {
        let case: QueueCase = serde_json::from_value(input.clone()).unwrap();
        serde_json::to_value(case.answer().unwrap()).unwrap()
    });
}
