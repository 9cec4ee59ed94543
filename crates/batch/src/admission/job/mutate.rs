//! What a new job gets where it says nothing (S6-075, S6-076).

use crate::admission::patch::PatchOperation;
use crate::admission::read::{number, text};
use crate::admission::{Settings, written};
use crate::wire::Job;
use serde_json::{Value, json};

/// The queue of jobs that name none.
const QUEUE: &str = "default";
/// How often a job, or a container of a task, is restarted where nothing is said.
const RETRIES: i32 = 3;
/// Plugins that need the names of the other pods.
const NEED_NAMES: [&str; 4] = ["tensorflow", "mpi", "pytorch", "ray"];

/// The changes; `job` is `object` as it was read.
pub(in crate::admission) fn patch(
    object: &Value,
    job: &Job,
    settings: &Settings,
) -> Vec<PatchOperation> {
    let mut patch = Vec::new();
    if job.spec.queue.is_empty() {
        patch.push(PatchOperation::add("/spec/queue", QUEUE));
    }
    if job.spec.scheduler_name.is_empty() {
        let scheduler = settings.scheduler_names.first();
        let scheduler = scheduler.map_or("", String::as_str);
        patch.push(PatchOperation::add("/spec/schedulerName", scheduler));
    }
    if job.spec.max_retry == 0 {
        patch.push(PatchOperation::add("/spec/maxRetry", RETRIES));
    }
    let given = object["spec"]["tasks"].as_array();
    let given = given.map_or(&[][..], Vec::as_slice);
    let tasks: Vec<Value> = given.iter().enumerate().map(with_defaults).collect();
    if tasks != given {
        let written: Vec<_> = tasks.iter().map(written::task).collect();
        patch.push(PatchOperation::replace("/spec/tasks", written));
    }
    if job.spec.min_available == 0 {
        let of_tasks = tasks.iter().map(|task| number(task, "minAvailable"));
        let all = of_tasks.fold(0_i64, i64::saturating_add);
        patch.push(PatchOperation::add("/spec/minAvailable", all));
    }
    patch.extend(plugins(&object["spec"]["plugins"]));
    patch
}

/// A task with its defaults; as it was given where it has them all.
fn with_defaults((index, given): (usize, &Value)) -> Value {
    let spec = &given["template"]["spec"];
    let unnamed = spec["hostNetwork"] == true && text(spec, "dnsPolicy").is_empty();
    let mut task = given.clone();
    if unnamed && let Some(Value::Object(spec)) = task.pointer_mut("/template/spec") {
        let policy = "ClusterFirstWithHostNet";
        spec.insert("dnsPolicy".to_owned(), policy.into());
    }
    let Some(fields) = task.as_object_mut() else {
        return task;
    };
    let mut set = |field: &str, value: Value| fields.insert(field.to_owned(), value);
    if text(given, "name").is_empty() {
        set("name", format!("default{index}").into());
    }
    if given["minAvailable"].is_null() {
        set("minAvailable", needed(given).into());
    }
    if number(given, "maxRetry") == 0 {
        set("maxRetry", RETRIES.into());
    }
    task
}

/// The pods that a task needs: those of the partitions that it needs, if it says so, else all.
fn needed(task: &Value) -> i64 {
    let partitions = &task["partitionPolicy"];
    match number(partitions, "minPartitions") {
        some if some > 0 => some.saturating_mul(number(partitions, "partitionSize")),
        _ => number(task, "replicas"),
    }
}

/// All plugins, with those that others need.
fn plugins(given: &Value) -> Option<PatchOperation> {
    let mut plugins = given.as_object()?.clone();
    if NEED_NAMES.iter().any(|name| plugins.contains_key(*name)) {
        plugins.entry("svc").or_insert_with(|| json!([]));
    }
    if plugins.contains_key("mpi") {
        plugins.entry("ssh").or_insert_with(|| json!([]));
    }
    Some(PatchOperation::replace("/spec/plugins", plugins))
}
