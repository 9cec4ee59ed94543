//! Compares candidates, victims and choice with kube-scheduler 1.36.2 over random clusters.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_placement::{Checks, Cluster, Code, Pod};
use evictd_pod::wire;
use evictd_preemption::{Action, Budget, Candidate, Options, Plan, VictimRules, plan};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

struct Case {
    cluster: Cluster,
    budgets: Vec<Budget>,
    preemptor: Pod,
}

fn read<T: DeserializeOwned>(value: &Value) -> Vec<T> {
    Vec::deserialize(value).unwrap_or_default()
}

fn case(input: &Value) -> Case {
    let mut cluster = Cluster::new();
    for node in read::<evictd_pod::Node>(&input["nodes"]) {
        assert!(cluster.add_node(&node));
    }
    for namespace in read::<wire::Namespace>(&input["namespaces"]) {
        cluster.add_namespace(&namespace);
    }
    for mut pod in read::<wire::Pod>(&input["pods"]) {
        // A nominated pod that was not tried was not in the queue of the recorded scheduler (S4-002).
        if !pod.was_tried() {
            pod.status.nominated_node_name.clear();
        }
        cluster.add_pod(pod).unwrap();
    }
    let preemptor = wire::Pod::deserialize(&input["preemptor"]).unwrap();
    let preemptor = cluster.pod(preemptor).unwrap();
    let budgets = read::<wire::PodDisruptionBudget>(&input["pdbs"]);
    let budgets = budgets.iter().map(|wire| Budget::new(&mut cluster, wire));
    let budgets: Result<_, _> = budgets.collect();
    Case {
        budgets: budgets.unwrap(),
        cluster,
        preemptor,
    }
}

/// Names as the case has them.
fn names(cluster: &Cluster, plan: &Plan, candidate: &Candidate) -> Vec<String> {
    let victims = plan.victims(candidate).iter();
    let victims = victims.map(|victim| cluster.full_name(victim.pod(cluster)));
    victims.collect()
}

fn strings(value: &Value) -> Vec<String> {
    read(value)
}

/// Node, violations and victims of each candidate. The victims are sorted where kube-scheduler's order is random.
type Candidates = BTreeMap<String, (u64, Vec<String>)>;

fn sorted_if(free: bool, mut victims: Vec<String>) -> Vec<String> {
    if free {
        victims.sort();
    }
    victims
}

fn wanted(expected: &Value) -> Candidates {
    let free = strings(&expected["victimOrderTie"]);
    let candidates = expected["candidates"].as_array().unwrap().iter();
    let one = |candidate: &Value| {
        let node = candidate["node"].as_str().unwrap().to_owned();
        let violations = candidate["numPDBViolations"].as_u64().unwrap();
        let victims = sorted_if(free.contains(&node), strings(&candidate["victims"]));
        (node, (violations, victims))
    };
    candidates.map(one).collect()
}

fn found(case: &Case, plan: &Plan, expected: &Value) -> Candidates {
    let free = strings(&expected["victimOrderTie"]);
    let one = |candidate: &Candidate| {
        let node = case.cluster.node_name(candidate.node).to_owned();
        let victims = names(&case.cluster, plan, candidate);
        let victims = sorted_if(free.contains(&node), victims);
        (node, (candidate.violations as u64, victims))
    };
    plan.candidates.iter().map(one).collect()
}

/// The differences as text.
fn differences(file: &str, input: &Value, expected: &Value) -> Vec<String> {
    let case = case(input);
    let Case {
        cluster,
        budgets,
        preemptor,
    } = &case;
    let options = Options::default();
    let plan = plan(
        cluster,
        VictimRules::of_budgets(budgets),
        preemptor,
        options,
        &mut [],
        &|_| false,
    )
    .unwrap();
    let checks = Checks::new(cluster, preemptor);
    let mut differences = Vec::new();
    let mut compare = |what: &str, found: String, wanted: String| {
        if found != wanted {
            differences.push(format!(
                "{file}: {what}:\n  found  {found}\n  wanted {wanted}"
            ));
        }
    };
    let fits = &expected["fitsWithoutPreemption"];
    compare("fits", plan.fits().to_string(), fits.to_string());
    let eligible = !plan.fits() && plan.ineligible.is_none();
    compare(
        "eligible",
        eligible.to_string(),
        expected["eligible"].to_string(),
    );
    let ineligible = plan.ineligible.map_or("", |why| why.as_str());
    let wanted_reason = expected["ineligibleReason"].as_str().unwrap_or("");
    compare(
        "ineligible",
        ineligible.to_owned(),
        wanted_reason.to_owned(),
    );
    let candidates = found(&case, &plan, expected);
    compare(
        "candidates",
        format!("{candidates:?}"),
        format!("{:?}", wanted(expected)),
    );
    let chosen = plan.choice().map(|choice| cluster.node_name(choice.node));
    let tied = strings(&expected["chosenTie"]);
    if !chosen.is_some_and(|name| tied.iter().any(|tied| tied == name)) {
        let wanted = expected["chosen"]["node"].as_str();
        compare("chosen", format!("{chosen:?}"), format!("{wanted:?}"));
    }
    if chosen == expected["preemptNominatedNode"].as_str() {
        let deleted: BTreeSet<String> = deleted(&plan).collect();
        let wanted: BTreeSet<String> = strings(&expected["deleted"]).into_iter().collect();
        if expected.get("victimTie").is_none() {
            compare("deleted", format!("{deleted:?}"), format!("{wanted:?}"));
        }
    }
    if let Some(wanted) = expected["preemptMessage"].as_str() {
        let message = plan.message(&checks).unwrap_or_default();
        compare("message", message, wanted.to_owned());
    }
    for (node, wanted) in expected["notCandidates"].as_object().into_iter().flatten() {
        let why = plan
            .not_candidates
            .iter()
            .find(|(id, _)| cluster.node_name(*id) == node);
        let status = |(code, words): (Code, Vec<String>)| format!("{} {words:?}", code.as_str());
        let found = match why {
            Some((_, why)) => status(why.status(&checks)),
            // A node that was not tried keeps its first Filter result.
            None => match plan.filter[cluster.find_node(node).unwrap().index()] {
                Err(rejection) => status((rejection.code, checks.messages(rejection))),
                Ok(()) => "fits".to_owned(),
            },
        };
        compare(
            &format!("not a candidate: {node}"),
            found,
            format!(
                "{} {:?}",
                wanted["code"].as_str().unwrap(),
                strings(&wanted["reasons"])
            ),
        );
    }
    differences
}

fn deleted(plan: &Plan) -> impl Iterator<Item = String> {
    plan.actions.iter().filter_map(|action| match action {
        Action::Delete { pod, .. } => Some(pod.clone()),
        _ => None,
    })
}

#[test]
fn s3_020_s4_040_s4_041_every_case_is_answered_as_kube_scheduler_answered_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle");
    let mut count = 0;
    let mut wrong = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        let case: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        wrong.extend(differences(&file, &case["input"], &case["expected"]));
        count += 1;
    }
    assert!(count >= 55, "only {count} cases");
    let files: BTreeSet<&str> = wrong.iter().map(|line| &line[..9]).collect();
    assert!(
        wrong.is_empty(),
        "{} of {count} wrong:\n{}",
        files.len(),
        wrong.join("\n")
    );
}
