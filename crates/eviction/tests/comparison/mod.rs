//! What the real kubelet answered, case by case, and how an answer is held against it. Shared by every test that
//! runs the cases, through whichever entry it calls them.
#![allow(clippy::unwrap_used, reason = "a test")]

use serde_json::Value;
use std::{fs, path::Path};

/// Every case in this folder by file name.
pub(crate) fn cases(folder: &Path) -> Vec<(String, Value)> {
    let mut cases: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let case = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
            (name, case)
        })
        .collect();
    cases.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(cases.len() >= 60, "only {} cases found", cases.len());
    cases
}

/// In what the answer differs from what this case expects.
pub(crate) fn difference(expected: &Value, answer: &Value) -> Option<String> {
    if expected.get("parseError").is_some() {
        return (expected["parseError"] != answer["parseError"])
            .then(|| format!("expected {expected} but got {answer}"));
    }
    if expected["thresholds"] != answer["thresholds"] {
        let (expected, answer) = (&expected["thresholds"], &answer["thresholds"]);
        return Some(format!(
            "expected thresholds {expected} but got thresholds {answer}"
        ));
    }
    let main = expected["steps"].as_array().unwrap();
    let alternatives = expected["alternatives"].as_array().into_iter().flatten();
    let mut accepted =
        std::iter::once(main).chain(alternatives.map(|steps| steps.as_array().unwrap()));
    let Some(steps) = answer["steps"].as_array() else {
        return Some(format!("expected steps but got {answer}"));
    };
    if accepted.any(|accepted| comparable(steps, accepted) == without_marks(accepted)) {
        return None;
    }
    let (ours, main) = (comparable(steps, main), without_marks(main));
    Some(
        match ours.iter().zip(&main).find(|(ours, main)| ours != main) {
            Some((ours, main)) => format!("expected\n{main}\nbut got\n{ours}"),
            None => format!("expected {} steps but got {}", main.len(), ours.len()),
        },
    )
}

/// Where a tie left the ranking out of the expectation, it is left out of the answer; where the real kubelet
/// crashed its answer ends.
fn comparable(steps: &[Value], expected: &[Value]) -> Vec<Value> {
    let end = expected.iter().position(|step| step.get("panic").is_some());
    let mut steps = steps[..end.unwrap_or(steps.len()).min(steps.len())].to_vec();
    for (step, expected) in steps.iter_mut().zip(expected) {
        if expected.get("ranking").is_none() {
            step.as_object_mut().unwrap().remove("ranking");
        }
    }
    steps
}

fn without_marks(steps: &[Value]) -> Vec<Value> {
    let before_a_crash = steps.iter().take_while(|step| step.get("panic").is_none());
    let mut steps: Vec<Value> = before_a_crash.cloned().collect();
    for step in &mut steps {
        step.as_object_mut().unwrap().remove("rankingTie");
    }
    steps
}
