//! `hcclrank`: an annotation with the pod's rank, masters first (S6-058).

use super::super::object::{Spec, map_at};
use super::arguments::Arguments;
use evictd_batch_objects::{Job, TaskSpec};
use serde_json::{Map, Value};

const KNOWN: [(&str, bool); 2] = [("master", false), ("worker", false)];
const RANK: &str = "hccl/rankIndex";

/// The template's annotation counts before its variable `RANK`, and that before the place in the job.
pub(super) fn on_pod(
    (job, task, index): (&Job, &TaskSpec, i32),
    pod: &mut Map<String, Value>,
    arguments: &[String],
) {
    let mut spec = Spec::of(pod);
    let rank = spec.containers().find_map(|container| {
        let env = container.get("env").and_then(Value::as_array)?;
        let rank = env.iter().find(|variable| variable["name"] == "RANK")?;
        rank["value"].as_str().map(str::to_owned)
    });
    let rank = rank.filter(|rank| !rank.is_empty());
    let Some(rank) = rank.or_else(|| place(job, task, index, arguments)) else {
        return;
    };
    let annotations = map_at(map_at(pod, "metadata"), "annotations");
    let given = annotations.get(RANK).and_then(Value::as_str);
    if given.is_none_or(str::is_empty) {
        annotations.insert(RANK.to_owned(), rank.into());
    }
}

/// Masters are numbered from zero, workers after them.
fn place(job: &Job, task: &TaskSpec, index: i32, arguments: &[String]) -> Option<String> {
    let arguments = Arguments::read(arguments, &KNOWN);
    let master = arguments.text("master", "master");
    if task.name == master {
        return Some(index.to_string());
    }
    let is_worker = task.name == arguments.text("worker", "worker");
    let masters = job.spec.tasks.iter().find(|task| task.name == master);
    let masters = masters.map_or(0, |task| i64::from(task.replicas));
    is_worker.then(|| (masters + i64::from(index)).to_string())
}
