//! The built program gives the recorded answers of kube-scheduler 1.36.2.

use crate::{cluster, plan};
use evictd_testkit::program::answer;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The objects of a case, with their kinds.
pub(crate) fn objects(input: &Value) -> Vec<Value> {
    let groups = [
        ("nodes", "v1", "Node"),
        ("namespaces", "v1", "Namespace"),
        ("pods", "v1", "Pod"),
        ("pdbs", "policy/v1", "PodDisruptionBudget"),
    ];
    let mut items = Vec::new();
    for (group, version, kind) in groups {
        for object in input[group].as_array().into_iter().flatten() {
            let mut object = object.clone();
            object["kind"] = json!(kind);
            object["apiVersion"] = json!(version);
            items.push(object);
        }
    }
    items
}

fn strings(value: &Value) -> Vec<String> {
    let values = value.as_array().into_iter().flatten();
    values
        .map(|value| value.as_str().unwrap().to_owned())
        .collect()
}

/// Violations and victims of each candidate. Victims without a defined order are sorted.
fn candidates(of: &Value, free: &[String]) -> BTreeMap<String, (Value, Vec<String>)> {
    let one = |candidate: &Value| {
        let node = candidate["node"].as_str().unwrap().to_owned();
        let mut victims = strings(&candidate["victims"]);
        if free.contains(&node) {
            victims.sort();
        }
        (node, (candidate["numPDBViolations"].clone(), victims))
    };
    of["candidates"]
        .as_array()
        .unwrap()
        .iter()
        .map(one)
        .collect()
}

/// The differences between the answer and the expected one.
fn differences(expected: &Value, answer: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut compare = |what: &str, actual: &Value, wanted: &Value| {
        if actual != wanted {
            found.push(format!("{what}: {actual}, expected {wanted}"));
        }
    };
    for key in ["fitsWithoutPreemption", "eligible"] {
        compare(key, &answer[key], &expected[key]);
    }
    let reason = expected.get("ineligibleReason").cloned();
    let reason = reason.unwrap_or_else(|| json!(""));
    compare("ineligibleReason", &answer["ineligibleReason"], &reason);
    // A node that expected leaves out was excluded before it was asked; its code is the one of absent nodes.
    let absent = &expected["absentNodesStatus"]["code"];
    let status = answer["filterStatus"].as_object().unwrap();
    for (node, wanted) in expected["filterStatus"].as_object().into_iter().flatten() {
        compare(node, status.get(node).unwrap_or(&Value::Null), wanted);
    }
    let excluded = status
        .iter()
        .filter(|(node, _)| expected["filterStatus"].get(node).is_none());
    for (node, status) in excluded {
        compare(node, &status["code"], absent);
    }
    let free = strings(&expected["victimOrderTie"]);
    let (actual, wanted) = (candidates(answer, &free), candidates(expected, &free));
    compare("candidates", &json!(actual), &json!(wanted));
    let node = &answer["chosen"]["node"];
    if !expected["chosenTie"]
        .as_array()
        .is_some_and(|tied| tied.contains(node))
    {
        compare("chosen", node, &expected["chosen"]["node"]);
    }
    found
}

#[test]
fn plans_equal_those_of_kube_scheduler() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../preemption/tests/oracle");
    let (mut wrong, mut count) = (Vec::new(), 0);
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let case: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let input = &case["input"];
        let output = plan(
            cluster::list(&objects(input)),
            &input["preemptor"],
            &["-o", "json"],
        );
        let differences = differences(&case["expected"], &answer(&output));
        if !differences.is_empty() {
            wrong.push(format!(
                "{}:\n  {}",
                path.display(),
                differences.join("\n  ")
            ));
        }
        count += 1;
    }
    assert!(count >= 55, "only {count} cases found");
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
