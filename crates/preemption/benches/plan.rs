//! A whole plan, all nodes, one thread. kube-scheduler 1.36.2 needs for the plain cluster, on one thread: 41 ms at 100
//! nodes, 363 ms at 1000, 2211 ms at 5000 (on two: 23, 231 and 1308 ms).
#![allow(clippy::expect_used, reason = "a bench")]

mod recipe;

use divan::{Bencher, black_box};
use evictd_preemption::{Options, Plan, plan};
use recipe::{Extra, Plain, Recipe, build};
use serde_json::{Value, json};

/// Without optimisation it is only seen that they run.
const NODES: &[u64] = if cfg!(debug_assertions) {
    &[100]
} else {
    &[100, 1000, 5000, 100_000]
};

fn main() {
    divan::main();
}

fn run(recipe: &Recipe) -> Plan {
    let Recipe {
        cluster,
        budgets,
        preemptor,
    } = black_box(recipe);
    let options = Options::default();
    plan(cluster, budgets, preemptor, options, &mut [], &|_| false).expect("a plan")
}

/// The choice that kube-scheduler makes there, so that speed is never bought with a wrong answer.
fn check(recipe: &Recipe, nodes: u64) {
    let found = run(recipe);
    let choice = found.choice().expect("a choice");
    let expected = match nodes {
        100 => "node-00076",
        1000 => "node-00881",
        5000 => "node-01858",
        _ => return,
    };
    assert_eq!(recipe.cluster.node_name(choice.node), expected);
    assert_eq!((choice.violations, found.victims(choice).len()), (0, 7));
    assert_eq!(found.candidates.len(), recipe.cluster.nodes().len());
}

#[divan::bench(args = NODES, sample_count = 20)]
fn plain(bencher: Bencher<'_, '_>, nodes: u64) {
    let recipe = build(nodes, &Plain);
    check(&recipe, nodes);
    bencher.bench_local(|| run(&recipe));
}

/// Budgets as before, and besides: a twelfth of the pods may not be beside the incoming one, it may not be beside
/// another twelfth, and it must be spread evenly, with a third of all, over zones of ten nodes.
struct Entangled;

fn away_from(labels: &Value) -> Value {
    json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
        { "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": labels } }] } })
}

impl Extra for Entangled {
    fn node(&self, i: u64, node: &mut Value) {
        node["metadata"]["labels"]["topology.kubernetes.io/zone"] =
            json!(format!("zone-{}", i / 10));
    }

    fn pod(&self, _i: u64, _j: u64, pod: &mut Value) {
        if pod["metadata"]["labels"]["app"] == "app-0" {
            pod["spec"]["affinity"] = away_from(&json!({ "app": "incoming" }));
        }
        if matches!(
            pod["metadata"]["labels"]["app"].as_str(),
            Some("app-1" | "app-2" | "app-3" | "app-4")
        ) {
            pod["metadata"]["labels"]["tier"] = json!("front");
        }
    }

    fn preemptor(&self, pod: &mut Value) {
        pod["metadata"]["labels"] = json!({ "app": "incoming", "tier": "front" });
        pod["spec"]["affinity"] = away_from(&json!({ "app": "app-11" }));
        pod["spec"]["topologySpreadConstraints"] = json!([{
            "maxSkew": 40, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": { "matchLabels": { "tier": "front" } } }]);
    }
}

#[divan::bench(args = NODES, sample_count = 20)]
fn entangled(bencher: Bencher<'_, '_>, nodes: u64) {
    let recipe = build(nodes, &Entangled);
    let found = run(&recipe);
    assert!(found.chosen.is_some());
    bencher.bench_local(|| run(&recipe));
}
