//! Defaults of a new job (S6-075, S6-076).

use crate::Settings;
use crate::patch::{PatchOperation, patched};
use crate::read::{list, number, text};
use evictd_batch_objects::{Job, written};
use serde_json::{Value, json};

/// The queue of jobs that name none.
const QUEUE: &str = "default";
/// How often a job, or a container of a task, is restarted where nothing is said.
const RETRIES: i32 = 3;
/// Plugins that need the names of the other pods.
const NEED_NAMES: [&str; 4] = ["tensorflow", "mpi", "pytorch", "ray"];

/// The changes; `job` is `object` as it was read.
pub(crate) fn patch(object: &Value, job: &Job, settings: &Settings) -> Vec<PatchOperation> {
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
    let tasks = list(&object["spec"], "tasks");
    let missing: Vec<Fields> = tasks.iter().enumerate().map(missing).collect();
    // A patch of single fields keeps fields that this version does not know.
    if settings.writes_whole_tasks {
        patch.extend(whole(tasks, &missing));
    } else {
        patch.extend(named(&missing));
    }
    if job.spec.min_available == 0 {
        // The default of a task is not written yet, so it is read from the patch.
        let of_tasks = tasks.iter().zip(&missing).map(|(task, missing)| {
            let added = missing.iter().find(|(field, _)| *field == LEAST);
            added.map_or_else(
                || number(task, LEAST),
                |(_, value)| value.as_i64().unwrap_or_default(),
            )
        });
        let all = of_tasks.fold(0_i64, i64::saturating_add);
        patch.push(PatchOperation::add("/spec/minAvailable", all));
    }
    patch.extend(plugins(&object["spec"]["plugins"], settings));
    patch
}

const LEAST: &str = "minAvailable";

/// Fields that a task gets, as pointers below the task.
type Fields = Vec<(&'static str, Value)>;

/// The defaults of a task.
fn missing((index, given): (usize, &Value)) -> Fields {
    let spec = &given["template"]["spec"];
    let mut missing = Vec::new();
    if !given.is_object() {
        return missing;
    }
    if text(given, "name").is_empty() {
        missing.push(("name", format!("default{index}").into()));
    }
    if given[LEAST].is_null() {
        missing.push((LEAST, needed(given).into()));
    }
    if number(given, "maxRetry") == 0 {
        missing.push(("maxRetry", RETRIES.into()));
    }
    // With the resolver of its node a pod finds no services, and so none of the other pods.
    if spec["hostNetwork"] == true && text(spec, "dnsPolicy").is_empty() {
        let policy = "ClusterFirstWithHostNet";
        missing.push(("template/spec/dnsPolicy", policy.into()));
    }
    missing
}

/// One operation per field, so a patch is never larger than the missing fields.
fn named(missing: &[Fields]) -> impl Iterator<Item = PatchOperation> {
    missing.iter().enumerate().flat_map(|(index, fields)| {
        fields.iter().map(move |(field, value)| {
            let path = format!("/spec/tasks/{index}/{field}");
            PatchOperation::add(&path, value.clone())
        })
    })
}

/// All tasks as Volcano writes them back, if one lacks something.
fn whole(tasks: &[Value], missing: &[Fields]) -> Option<PatchOperation> {
    if missing.iter().all(Vec::is_empty) {
        return None;
    }
    let written = tasks.iter().zip(missing).map(|(task, fields)| {
        let fields = fields
            .iter()
            .map(|(field, value)| PatchOperation::add(&format!("/{field}"), value.clone()));
        let complete = patched(task, &fields.collect::<Vec<_>>());
        written::task(complete.as_ref().unwrap_or(task))
    });
    let written: Vec<Value> = written.collect();
    Some(PatchOperation::replace("/spec/tasks", written))
}

/// The pods that a task needs: those of the partitions that it needs, if it says so, else all.
fn needed(task: &Value) -> i64 {
    let partitions = &task["partitionPolicy"];
    match number(partitions, "minPartitions") {
        some if some > 0 => some.saturating_mul(number(partitions, "partitionSize")),
        _ => number(task, "replicas"),
    }
}

/// Plugins that others need. Volcano writes all of them back.
fn plugins(given: &Value, settings: &Settings) -> Vec<PatchOperation> {
    let Some(given) = given.as_object() else {
        return Vec::new();
    };
    let names = NEED_NAMES.iter().any(|name| given.contains_key(*name));
    // `mpirun` starts its workers over ssh.
    let needed = [("svc", names), ("ssh", given.contains_key("mpi"))];
    let needed = needed
        .into_iter()
        .filter(|(name, needed)| *needed && !given.contains_key(*name))
        .map(|(name, _)| name);
    if !settings.writes_whole_tasks {
        let add = |name| PatchOperation::add(&format!("/spec/plugins/{name}"), json!([]));
        return needed.map(add).collect();
    }
    let mut all = given.clone();
    all.extend(needed.map(|name| (name.to_owned(), json!([]))));
    vec![PatchOperation::replace("/spec/plugins", all)]
}
