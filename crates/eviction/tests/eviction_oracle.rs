//! Every case answered by the real kubelet 1.36.2: same conditions, thresholds, ranking, victim, words.
#![allow(clippy::unwrap_used, reason = "a test")]

mod comparison;

use evictd_eviction::simulation::{self, PlainConfig, Timeline};
use serde_json::Value;
use std::path::Path;

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

#[test]
fn all_cases_of_the_real_kubelet() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/eviction");
    let cases = comparison::cases(&folder);
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|(name, case)| {
            let difference = comparison::difference(&case["expected"], &answer(&case["input"]))?;
            Some(format!("{name}: {difference}"))
        })
        .collect();
    let (wrong_ones, all) = (wrong.len(), cases.len());
    assert!(
        wrong.is_empty(),
        "{wrong_ones} of {all} wrong:\n{}",
        wrong.join("\n\n")
    );
}
