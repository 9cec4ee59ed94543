//! Sessions as Volcano ed72c7c8 ran them.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_batch::session::{Objects, Setting, simulate};
use evictd_batch_objects::Compat;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::path::Path;

/// Cuts off the text that depends on an arbitrary choice.
fn cut(text: &str) -> &str {
    let text = text
        .split_once(". Origin reason is")
        .map_or(text, |(before, _)| before);
    // The rest is Go's inner form of quantities.
    let quota = "resource quota insufficient";
    let end = text.find(quota).map(|at| at + quota.len());
    end.filter(|end| text[*end..].starts_with(", "))
        .map_or(text, |end| &text[..end])
}

/// The first difference between an answer and what is wanted, if there is one.
fn difference(own: &Value, wanted: &Value, place: &str) -> Option<String> {
    match (own, wanted) {
        (Value::Object(own), Value::Object(wanted)) => {
            let missing = wanted.keys().find(|key| !own.contains_key(*key));
            let extra = own.keys().find(|key| !wanted.contains_key(*key));
            if let Some(key) = missing.or(extra) {
                let (own, wanted) = (own.get(key), wanted.get(key));
                return Some(format!("{place}.{key}: {own:?}\n    wanted {wanted:?}"));
            }
            let mut entries = own.iter();
            entries.find_map(|(key, own)| difference(own, &wanted[key], &format!("{place}.{key}")))
        }
        (Value::Array(own), Value::Array(wanted)) if own.len() == wanted.len() => {
            let mut pairs = own.iter().zip(wanted).enumerate();
            pairs.find_map(|(at, (own, wanted))| difference(own, wanted, &format!("{place}[{at}]")))
        }
        (Value::String(own), Value::String(wanted)) if cut(own) == cut(wanted) => None,
        (Value::Number(own), Value::Number(wanted)) => {
            let (left, right) = (own.as_f64().unwrap(), wanted.as_f64().unwrap());
            let near = (left - right).abs() <= 1e-6 * left.abs().max(right.abs());
            (!near).then(|| format!("{place}: {own}, wanted {wanted}"))
        }
        _ => (own != wanted).then(|| format!("{place}: {own}\n    wanted {wanted}")),
    }
}

fn answer(input: &Value) -> Value {
    let objects = Objects::deserialize(input).unwrap();
    match simulate(&objects, &Setting::default(), Compat::VOLCANO) {
        Ok((outcome, _)) => serde_json::to_value(outcome).unwrap(),
        Err(error) => json!({ "confError": error.first }),
    }
}

/// Only the keys that are wanted; a set of texts is sorted after what is arbitrary was cut off.
fn wanted_of(own: &Value, wanted: &Map<String, Value>) -> Value {
    let own = wanted
        .keys()
        .filter_map(|key| Some((key.clone(), sorted(own.get(key)?))));
    Value::Object(own.collect())
}

fn sorted(value: &Value) -> Value {
    let Value::Array(list) = value else {
        return value.clone();
    };
    let is_order = list.iter().any(|item| !item.is_string());
    if is_order
        || list
            .iter()
            .all(|item| !item.as_str().unwrap().contains(' '))
    {
        return value.clone();
    }
    let mut list: Vec<&str> = list
        .iter()
        .map(|item| cut(item.as_str().unwrap()))
        .collect();
    list.sort_unstable();
    json!(list)
}

/// What is wrong with the answer to a case.
fn wrong(case: &Value) -> Option<String> {
    let own = answer(&case["input"]);
    let mut wanted = case["expected"].as_object().unwrap().clone();
    let alternatives = wanted.remove("alternatives");
    wanted.remove("free");
    wanted.remove("originReasons");
    // The real scheduler ends its process there, and this one must not.
    if wanted.remove("crash").is_some() {
        return None;
    }
    let judge = |wanted: &Map<String, Value>| {
        let sorted: Map<String, Value> = wanted
            .iter()
            .map(|(key, value)| (key.clone(), sorted(value)))
            .collect();
        difference(&wanted_of(&own, wanted), &Value::Object(sorted), "")
    };
    if let Some(difference) = judge(&wanted) {
        return Some(difference);
    }
    let alternatives = alternatives?;
    let all = alternatives.as_array().unwrap().iter();
    let mut differences = all.map(|own| judge(own.as_object().unwrap()));
    let first = differences.next().unwrap();
    (first.is_some() && differences.all(|own| own.is_some()))
        .then(|| format!("none of the alternatives: {}", first.unwrap()))
}

/// Compares the recorded cases of a family; there are at least so many.
fn compare(family: &str, least: usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle");
    let mut paths: Vec<_> = std::fs::read_dir(folder.join(family))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort_unstable();
    let mut mistakes = Vec::new();
    for path in &paths {
        let case: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        if let Some(wrong) = wrong(&case) {
            let name = path.file_stem().unwrap().to_string_lossy();
            mistakes.push(format!("{name} {}: {wrong}", case["tags"]));
        }
    }
    assert!(paths.len() >= least, "only {} cases found", paths.len());
    assert!(
        mistakes.is_empty(),
        "{} of {} wrong:\n{}",
        mistakes.len(),
        paths.len(),
        mistakes.join("\n")
    );
}

#[test]
fn s6_171_to_s6_190_sessions_with_network_topologies_are_those_of_volcano() {
    compare("network-topology", 35);
}

#[test]
fn every_session_of_the_real_scheduler() {
    compare("session", 98);
}

#[test]
fn every_session_with_a_hierarchy_of_queues() {
    compare("capacity-hierarchy", 63);
}

/// A test for each family of newer plugins.
macro_rules! families {
    ($($test:ident: $family:literal, $least:literal;)*) => {$(
        #[test]
        fn $test() {
            compare($family, $least);
        }
    )*};
}

families! {
    s6_207_sessions_with_nodegroup: "nodegroup", 26;
    s6_211_sessions_with_resource_strategy_fit: "resource-strategy-fit", 13;
    s6_213_sessions_with_sla: "sla", 13;
    s6_216_sessions_with_tdm: "tdm", 15;
    s6_192_sessions_with_gangpreempt: "gangpreempt", 32;
    s6_192_sessions_with_gangreclaim: "gangreclaim", 32;
    s6_219_sessions_with_pdb: "pdb", 12;
    s6_220_sessions_with_resourcequota: "resourcequota", 11;
    s6_221_sessions_with_cdp: "cdp", 9;
    s6_217_sessions_with_task_topology: "task-topology", 13;
    s6_222_sessions_with_usage: "usage", 12;
    s6_223_sessions_with_numa_aware: "numa-aware", 11;
    s6_206_sessions_with_rescheduling: "rescheduling", 9;
}

/// How many pods our form evicts in a recorded case with a change, and how many were recorded.
fn evicted_by_us(case: &str, change: impl Fn(&mut Value)) -> (usize, usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle");
    let text = std::fs::read(folder.join(case)).unwrap();
    let mut case: Value = serde_json::from_slice(&text).unwrap();
    change(&mut case["input"]);
    let objects = Objects::deserialize(&case["input"]).unwrap();
    let (ours, _) = simulate(&objects, &Setting::default(), Compat::EVICTD).unwrap();
    let recorded = case["expected"]["evicted"].as_array().unwrap().len();
    (ours.evicted.len(), recorded)
}

#[test]
fn s6_198_gangs_give_back_victims_that_were_not_needed() {
    for family in ["gangpreempt", "gangreclaim"] {
        let (ours, recorded) = evicted_by_us(&format!("{family}/0002.json"), |_| ());
        assert_eq!((ours, recorded), (1, 4), "{family}");
    }
}

#[test]
fn s6_198_gangs_never_evict_critical_pods_and_keep_budgets() {
    for family in ["gangpreempt", "gangreclaim"] {
        let (ours, recorded) = evicted_by_us(&format!("{family}/0047.json"), |_| ());
        assert!(ours == 0 && recorded > 0, "{family}: {ours} of {recorded}");
        let protect = |input: &mut Value| {
            for pod in input["pods"].as_array_mut().unwrap() {
                pod["metadata"]["labels"] = json!({ "app": "any" });
            }
            input["podDisruptionBudgets"] = json!([{
                "metadata": { "namespace": "default", "name": "all" },
                "spec": { "selector": { "matchLabels": { "app": "any" } } },
                "status": { "disruptionsAllowed": 0 },
            }]);
        };
        let (ours, recorded) = evicted_by_us(&format!("{family}/0001.json"), protect);
        assert!(ours == 0 && recorded > 0, "{family}: {ours} of {recorded}");
    }
}

#[test]
fn s6_206_a_node_without_figures_takes_no_pods_of_others() {
    for known in [true, false] {
        let (ours, recorded) = evicted_by_us("rescheduling/0005.json", |input| {
            if !known {
                // The figures of the node with room are too old.
                input["nodeMetrics"]["n0"]["time"] = json!("2026-01-01T23:54:00Z");
            }
        });
        assert!(recorded > 0 && (ours > 0) == known, "{known}: {ours}");
    }
}
