//! Admission: the answers of the real Volcano, and each row of its behaviour.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

mod cost;
mod jobs;
mod oracle;
mod others;
mod properties;
mod queues;
mod rules;
mod templates;
mod workflow_rules;

use evictd_batch_admission::{Answer, Question};
use serde_json::{Value, from_value, json};

/// The answer to a question in a cluster of the queues that the cases have.
fn ask(path: &str, operation: &str, fields: Value) -> Answer {
    let mut question = json!({"path": path, "operation": operation, "queues": all_queues()});
    for (field, value) in fields.as_object().unwrap() {
        question[field] = value.clone();
    }
    let question: Question = from_value(question).unwrap();
    question.answer_of_volcano().unwrap()
}

fn all_queues() -> Value {
    let queue = |name: &str, parent: &str, state: &str| {
        json!({"metadata": {"name": name}, "spec": {"parent": parent, "weight": 1},
            "status": {"state": state}})
    };
    let mut queues = vec![queue("root", "", "Open")];
    for (name, parent) in [("default", "root"), ("team", "root"), ("team-a", "team")] {
        queues.push(queue(name, parent, "Open"));
    }
    for state in ["Closed", "Closing", "Unknown", ""] {
        let name = format!("is-{}", state.to_lowercase());
        queues.push(queue(&name, "root", state));
    }
    queues.into()
}

/// What was said, where it was not let in.
fn denial(answer: Answer) -> String {
    assert_eq!(answer.allowed, answer.message.is_none());
    answer.message.unwrap_or_default()
}

fn task(name: &str) -> Value {
    json!({"name": name, "replicas": 1, "template": {"metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "busybox"}]}}})
}

/// A job of one task that is right, with these fields of `spec`.
fn job(spec: Value) -> Value {
    let mut job = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
        "metadata": {"name": "job1", "namespace": "default"},
        "spec": {"minAvailable": 1, "queue": "default", "tasks": [task("w")]}});
    for (field, value) in spec.as_object().unwrap() {
        job["spec"][field] = value.clone();
    }
    job
}

/// What is said of a new job.
fn of_job(spec: Value) -> String {
    denial(ask(
        "/jobs/validate",
        "CREATE",
        json!({"object": job(spec)}),
    ))
}

/// A task with these fields.
fn task_with(fields: Value) -> Value {
    let mut task = task("w");
    for (field, value) in fields.as_object().unwrap() {
        task[field] = value.clone();
    }
    task
}
