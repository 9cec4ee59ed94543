//! Every case answered by the real kubelet 1.36.2: same conditions, thresholds, ranking, victim, words.
#![allow(clippy::unwrap_used, reason = "a test")]

use evictd_eviction::simulation::{self, PlainConfig, Timeline};
use serde_json::Value;
use std::{fs, path::Path};

fn cases() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/eviction");
    let mut cases: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (
                name,
                serde_json::from_slice(&fs::read(path).unwrap()).unwrap(),
            )
        })
        .collect();
    cases.sort_by(|a, b| a.0.cmp(&b.0));
    cases
}

fn answer(input: &Value) -> Value {
    let config: PlainConfig = serde_json::from_value(input["config"].clone()).unwrap();
    match config.rules() {
        Err(refused) => serde_json::json!({ "parseError": refused.0[0] }),
        Ok(rules) => {
            let timeline: Timeline = serde_json::from_value(input.clone()).unwrap();
            serde_json::to_value(simulation::run(rules, timeline)).unwrap()
        }
    }
}

/// Where a tie left the ranking out of the expectation, it is left out of the answer; where the real kubelet
/// crashed its answer ends.
fn comparable(mut steps: Vec<Value>, expected: &[Value]) -> Vec<Value> {
    let end = expected.iter().position(|step| step.get("panic").is_some());
    steps.truncate(end.unwrap_or(steps.len()));
    for (step, expected) in steps.iter_mut().zip(expected) {
        if expected.get("ranking").is_none() {
            step.as_object_mut().unwrap().remove("ranking");
        }
    }
    steps
}

fn without_marks(steps: &[Value]) -> Vec<Value> {
    let mut steps: Vec<Value> = steps
        .iter()
        .take_while(|step| step.get("panic").is_none())
        .cloned()
        .collect();
    for step in &mut steps {
        step.as_object_mut().unwrap().remove("rankingTie");
    }
    steps
}

#[test]
fn all_cases_of_the_real_kubelet() {
    let (mut wrong, cases) = (Vec::new(), cases());
    for (name, case) in &cases {
        let (expected, answer) = (&case["expected"], answer(&case["input"]));
        if expected.get("parseError").is_some() {
            if expected["parseError"] != answer["parseError"] {
                wrong.push(format!("{name}: {expected} but {answer}"));
            }
            continue;
        }
        let main = expected["steps"].as_array().unwrap().clone();
        let alternatives = expected["alternatives"].as_array().into_iter().flatten();
        let mut accepted =
            std::iter::once(&main).chain(alternatives.map(|steps| steps.as_array().unwrap()));
        let steps = answer["steps"].as_array().unwrap();
        let matches =
            |accepted: &Vec<Value>| comparable(steps.clone(), accepted) == without_marks(accepted);
        if expected["thresholds"] != answer["thresholds"] || !accepted.any(matches) {
            let ours = comparable(steps.clone(), &main);
            let first = ours
                .iter()
                .zip(without_marks(&main))
                .find(|(ours, main)| *ours != main);
            wrong.push(match first {
                Some((ours, main)) => format!("{name}: expected\n{main}\nbut got\n{ours}"),
                None => format!(
                    "{name}: {} but {}",
                    expected["thresholds"], answer["thresholds"]
                ),
            });
        }
    }
    assert!(cases.len() >= 60, "only {} cases found", cases.len());
    assert!(
        wrong.is_empty(),
        "{} of {} wrong:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n\n")
    );
}
