//! The first step of the real kubelet's cases, through the program.

use super::Files;
use crate::comparison;
use serde_json::{Value, json};
use std::path::Path;

/// What the kubelet would be configured with to decide as in this case, and the flags for its layout.
fn kubelet_configuration(case: &Value) -> (Value, Vec<&'static str>) {
    let mut config = case["config"].clone();
    let keys = config.as_object_mut().unwrap();
    keys.insert("kind".to_owned(), json!("KubeletConfiguration"));
    keys.entry("evictionHard").or_insert(json!({}));
    keys.entry("enforceNodeAllocatable")
        .or_insert(json!(["none"]));
    let node = &case["steps"][0]["summary"]["node"];
    let filesystems = [
        &node["fs"],
        &node["runtime"]["imageFs"],
        &node["runtime"]["containerFs"],
    ];
    let shows_layout = filesystems
        .iter()
        .all(|filesystem| filesystem["capacityBytes"].is_u64());
    let flags = [
        ("dedicatedImageFs", "--dedicated-image-fs"),
        ("splitContainerFs", "--split-container-fs"),
    ];
    let flags = flags.into_iter().filter_map(|(key, flag)| {
        let is_so = keys.remove(key) == Some(json!(true));
        (is_so && !shows_layout).then_some(flag)
    });
    let flags = flags.collect();
    (config, flags)
}

/// The first step of every case that has no summary for after the reclaim.
#[test]
fn the_first_step_of_every_case_of_the_real_kubelet() {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/eviction/tests/oracle/eviction");
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for (name, case) in comparison::cases(&folder) {
        let (input, mut expected) = (&case["input"], case["expected"].clone());
        let first = &input["steps"][0];
        if expected.get("parseError").is_some() || first.get("summaryAfterReclaim").is_some() {
            continue;
        }
        let alternatives = expected["alternatives"]
            .as_array_mut()
            .into_iter()
            .flatten();
        for steps in alternatives {
            steps.as_array_mut().unwrap().truncate(1);
        }
        expected["steps"].as_array_mut().unwrap().truncate(1);
        let files = Files::of(
            &json!({ "kind": "PodList", "items": input["pods"] }),
            &first["summary"],
        );
        let (config, flags) = kubelet_configuration(input);
        files.write("config.json", &config.to_string());
        let mut answer = files.json(&[&["--config", "config.json"], flags.as_slice()].concat());
        let step = answer.as_object_mut().unwrap();
        for key in ["pods", "next", "rankedFor", "signals", "assumed"] {
            step.remove(key);
        }
        let answer = json!({ "thresholds": expected["thresholds"], "steps": [answer] });
        wrong.extend(comparison::difference(&expected, &answer).map(|it| format!("{name}: {it}")));
        compared += 1;
    }
    assert!(compared >= 50, "only {compared} cases were compared");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
