//! `evictd history`: past evictions with all the evidence kept of each.

use super::daemon::Daemon;
use super::outcome::gone;
use super::ranking;
use super::table::{amount, quantity, text, told_moment, used};
use anyhow::anyhow;
use clap::Args;
use evictd_command::{Failure, Output, table};
use evictd_eviction::Signal;
use serde_json::Value;
use std::collections::HashMap;
use std::fmt::Write;

const EXAMPLE: &str = "Example:
  evictd history
  evictd history 1a2006d362d-1
  evictd history -o json | jq '.[] | select(.kind == \"hard\") | .pod'";

/// Past evictions, oldest first; one of them in full when its id is given.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// Show this decision with all its evidence.
    #[arg(value_name = "ID")]
    id: Option<String>,
    #[command(flatten)]
    daemon: Daemon,
    #[command(flatten)]
    output: Output,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let all = latest(self.daemon.get("/v1/history")?);
        let Some(id) = self.id else {
            return self.output.print(&all, list);
        };
        let one = decisions(&all)
            .iter()
            .find(|decision| decision["id"] == id)
            .ok_or_else(|| {
                Failure::Input(anyhow!(
                    "no decision {id:?} is kept; `evictd history` lists them"
                ))
            })?;
        self.output.print(one, evidence)
    }
}

/// A decision is recorded when it is made and again when its outcome is known: only the last word counts.
fn latest(all: Value) -> Value {
    let Value::Array(records) = all else {
        return all;
    };
    let mut kept: Vec<Value> = Vec::with_capacity(records.len());
    let mut places: HashMap<String, usize> = HashMap::new();
    for record in records {
        let place = record["id"].as_str().and_then(|id| {
            let place = *places.entry(id.to_owned()).or_insert(kept.len());
            kept.get_mut(place)
        });
        match place {
            Some(earlier) => *earlier = record,
            None => kept.push(record),
        }
    }
    Value::Array(kept)
}

fn decisions(all: &Value) -> &[Value] {
    all.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// What the pod's status was told; where nobody went, why not.
fn words(decision: &Value) -> String {
    match decision["message"].as_str() {
        Some(message) => message.to_owned(),
        None => format!("nobody: {}", text(&decision["why"])),
    }
}

fn list(all: &Value) -> String {
    if decisions(all).is_empty() {
        return "Nothing was ever evicted.".to_owned();
    }
    let rows = decisions(all).iter().map(|decision| {
        vec![
            told_moment(&decision["time"]),
            text(&decision["id"]),
            text(&decision["signal"]),
            text(&decision["kind"]),
            text(&decision["pod"]),
            text(&decision["gracePeriodSeconds"]),
            gone(decision),
            text(&decision["publication"]["state"]),
            words(decision),
        ]
    });
    let headings = [
        "TIME",
        "ID",
        "SIGNAL",
        "KIND",
        "POD",
        ">GRACE",
        ">GONE AFTER",
        "CLUSTER",
        "MESSAGE",
    ];
    table(&headings, rows)
}

/// From the look that saw the crossing to the last process gone, step by step.
fn reaction(outcome: &Value) -> String {
    let steps = [
        ("decided", &outcome["crossedToDecidedSeconds"]),
        ("first signal", &outcome["firstSignalSeconds"]),
        ("gone", &outcome["lastProcessGoneSeconds"]),
    ];
    let mut told = "crossed".to_owned();
    let mut since = 0.0;
    for (step, value) in steps {
        let Some(value) = value.as_f64() else { break };
        // The first counts from the crossing, the others from the decision.
        let took = if step == "decided" {
            value
        } else {
            value - since
        };
        since = if step == "decided" { 0.0 } else { value };
        let _ = write!(told, " -> {step} {:.1} ms", took.max(0.0) * 1000.0);
    }
    match outcome["reactionSeconds"].as_f64() {
        Some(all) => format!("{told}; {:.1} ms in all", all * 1000.0),
        None => told,
    }
}

/// What became of telling the cluster.
fn cluster(decision: &Value) -> String {
    let told = &decision["publication"];
    let state = text(&told["state"]);
    match told["why"].as_str() {
        Some(why) => format!("{state}: {why}"),
        None => state,
    }
}

/// Who would make it again, and how often that led here lately.
fn owner(decision: &Value) -> String {
    let owner = &decision["owner"];
    match (owner["name"].as_str(), owner["evictions"].as_u64()) {
        (Some(name), Some(evictions)) => {
            let (kind, namespace) = (text(&owner["kind"]), text(&owner["namespace"]));
            format!("{kind} {namespace}/{name}, {evictions} of its pods evicted here lately")
        }
        _ => text(&Value::Null),
    }
}

/// Everything kept of one decision.
fn evidence(decision: &Value) -> String {
    match decision["kind"].as_str() {
        Some("admission" | "preemption") => at_the_door(decision),
        _ => shortage(decision),
    }
}

/// Of a pod that was not let in, or left for one that was.
fn at_the_door(decision: &Value) -> String {
    page(&[
        ("DECISION", text(&decision["id"])),
        ("TIME", told_moment(&decision["time"])),
        ("POD", pod(decision)),
        ("SIGNAL", signal_and_kind(decision)),
        ("REASON", text(&decision["reason"])),
        ("MESSAGE", text(&decision["message"])),
        ("FOR", text(&decision["preemptor"])),
        ("GRACE", text(&decision["gracePeriodSeconds"])),
        ("ENDED", text(&decision["outcome"]["method"])),
        ("GONE", gone(decision)),
        ("CLUSTER", cluster(decision)),
    ])
}

fn pod(decision: &Value) -> String {
    let (pod, uid) = (text(&decision["pod"]), text(&decision["uid"]));
    format!("{pod} (uid {uid})")
}

fn signal_and_kind(decision: &Value) -> String {
    let (signal, kind) = (text(&decision["signal"]), text(&decision["kind"]));
    format!("{signal} ({kind})")
}

fn page(lines: &[(&str, String)]) -> String {
    let mut page = String::new();
    for (heading, told) in lines {
        // Writing to a String cannot fail.
        let _ = writeln!(page, "{heading:<11}{told}");
    }
    page
}

/// Of a decision for which something was short.
fn shortage(decision: &Value) -> String {
    let signal = decision["signal"].as_str().and_then(Signal::parse);
    let acting = match &decision["threshold"] {
        threshold @ Value::Object(_) => threshold,
        _ => decision,
    };
    let observed = format!(
        "{} available of {}",
        amount(signal, acting["observed"]["available"].as_i64()),
        amount(signal, acting["observed"]["capacity"].as_i64())
    );
    let threshold = format!(
        "below {} since {}",
        quantity(signal, &acting["quantity"]),
        told_moment(&acting["firstObservedAt"])
    );
    let lines = [
        ("DECISION", text(&decision["id"])),
        ("TIME", told_moment(&decision["time"])),
        ("POD", pod(decision)),
        ("SIGNAL", signal_and_kind(decision)),
        ("OBSERVED", observed),
        ("THRESHOLD", threshold),
        (
            "GRACE",
            format!("{} s", text(&decision["gracePeriodSeconds"])),
        ),
        ("REASON", text(&decision["reason"])),
        ("MESSAGE", text(&decision["message"])),
        ("WHY", text(&decision["why"])),
        ("NEXT", text(&decision["runnerUp"])),
        ("GAIN", used(signal, &decision["expectedGain"])),
        ("OWNER", owner(decision)),
        ("WOKEN BY", text(&decision["wokenBy"])),
        ("REACTION", reaction(&decision["outcome"])),
        ("GONE", gone(decision)),
        ("CLUSTER", cluster(decision)),
    ];
    let page = page(&lines);
    format!("{page}\n{}\n", ranking::recorded(decision))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_reaction_is_told_step_by_step() {
        let outcome = json!({
            "crossedToDecidedSeconds": 0.5, "firstSignalSeconds": 0.001,
            "lastProcessGoneSeconds": 0.0215, "reactionSeconds": 0.5215,
        });
        assert_eq!(
            reaction(&outcome),
            "crossed -> decided 500.0 ms -> first signal 1.0 ms -> gone 20.5 ms; 521.5 ms in all"
        );
        assert_eq!(reaction(&json!({})), "crossed");
    }

    #[test]
    fn the_outcome_replaces_the_decision_it_belongs_to() {
        let records = json!([{ "id": "1" }, { "id": "2" }, {}, { "id": "1", "outcome": {} }, {}]);
        let expected = json!([{ "id": "1", "outcome": {} }, { "id": "2" }, {}, {}]);
        assert_eq!(latest(records), expected);
    }
}
