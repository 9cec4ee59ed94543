//! The built program gives the recorded verdicts, scores and messages of kube-scheduler 1.36.2.

use crate::{cluster, scheduler};
use evictd_testkit::program::{self, answer};
use serde_json::{Map, Value};
use std::io::Write;
use std::path::Path;
use tempfile::NamedTempFile;

fn file(value: &Value) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    write!(file, "{value}").unwrap();
    file
}

/// The answer of `explain` to a case.
pub(crate) fn explain(input: &Value) -> Value {
    let items = input["objects"].as_array().unwrap();
    let (pod, config) = (file(&input["pod"]), file(&input["config"]));
    let mut command = scheduler();
    command.args(["explain", "--cluster", "-", "-o", "json", "--pod"]);
    command.arg(pod.path());
    if input.get("config").is_some() {
        command.arg("--config").arg(config.path());
    }
    answer(&program::run(&mut command, cluster::list(items)))
}

/// An absent list or map and an empty one are the same answer.
pub(crate) fn without_empty(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let some = map
                .iter()
                .map(|(key, value)| (key.clone(), without_empty(value)));
            let some: Map<String, Value> = some.filter(|(_, value)| !value.is_null()).collect();
            if some.is_empty() {
                Value::Null
            } else {
                Value::Object(some)
            }
        }
        Value::Array(list) if list.is_empty() => Value::Null,
        Value::Array(list) => list.iter().map(without_empty).collect(),
        other => other.clone(),
    }
}

#[test]
fn decisions_equal_those_of_kube_scheduler() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scheduling/tests/oracle/schedule");
    let (mut wrong, mut count) = (Vec::new(), 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let case: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let actual = explain(&case["input"]);
        for (key, wanted) in case["expected"].as_object().unwrap() {
            let (actual, wanted) = (without_empty(&actual[key]), without_empty(wanted));
            if actual != wanted {
                wrong.push(format!(
                    "{} {key}: {actual}, expected {wanted}",
                    path.display()
                ));
            }
        }
        count += 1;
    }
    assert!(count >= 60, "only {count} cases found");
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
