//! Times a whole plan over all nodes on one thread. kube-scheduler 1.36.2 needs for the plain cluster, on one thread:
//! 41 ms at 100 nodes, 363 ms at 1000, 2211 ms at 5000 (on two: 23, 231 and 1308 ms).
#![allow(
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a bench"
)]

mod recipe;

use divan::{Bencher, black_box};
use evictd_preemption::{Options, Plan, VictimRules, plan};
use recipe::{Extra, Plain, Recipe, build};
use serde_json::{Value, json};
use std::time::Duration;

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
    plan(
        cluster,
        VictimRules::of_budgets(budgets),
        preemptor,
        options,
        &mut [],
        &|_| false,
    )
    .expect("a plan")
}

/// Holds the choice to kube-scheduler's, so that no speed-up comes from a wrong answer.
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

/// Gives every pod a template of its own, as a StatefulSet, Job or DaemonSet does.
struct OfTheirOwn<E>(E);

impl<E: Extra> Extra for OfTheirOwn<E> {
    fn node(&self, i: u64, node: &mut Value) {
        self.0.node(i, node);
    }

    fn pod(&self, i: u64, j: u64, pod: &mut Value) {
        self.0.pod(i, j, pod);
        let name = pod["metadata"]["name"].clone();
        pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] = name;
    }

    fn preemptor(&self, pod: &mut Value) {
        self.0.preemptor(pod);
    }
}

/// The nodes of the cluster where templates of their own are measured.
const FEW: u64 = if cfg!(debug_assertions) { 100 } else { 5000 };

/// Bytes of this process in memory; 0 where the system does not report them.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|line| line.split(' ').nth(1)?.parse::<usize>().ok());
    4096 * pages.unwrap_or(0)
}

/// The slowdown by one template per pod. Both clusters are measured in turns, because a busy machine then slows both;
/// the quickest run of each counts.
fn ratio<E: Extra + Copy>(extra: E) {
    let (shared, own) = (build(FEW, &extra), build(FEW, &OfTheirOwn(extra)));
    let time = |recipe: &Recipe| {
        let start = std::time::Instant::now();
        black_box(run(recipe));
        start.elapsed()
    };
    let times: Vec<_> = (0..15).map(|_| (time(&shared), time(&own))).collect();
    let quickest = |of: fn(&(Duration, Duration)) -> Duration| times.iter().map(of).min();
    let (shared, own) = (quickest(|(shared, _)| *shared), quickest(|(_, own)| *own));
    let (shared, own) = (shared.expect("15 runs"), own.expect("15 runs"));
    let ratio = own.as_secs_f64() / shared.as_secs_f64();
    println!(
        "{FEW} nodes: {shared:?} with shared templates, {own:?} with one a pod: {ratio:.2} times"
    );
    // Without optimisation it is only seen that it runs.
    assert!(
        ratio <= 1.3 || cfg!(debug_assertions),
        "a template a pod may cost 1.3 times as much"
    );
}

/// The memory of a pod with its own template. It runs first, in memory that no allocation has used yet.
#[divan::bench(sample_count = 1, sample_size = 1)]
fn bytes_of_a_pod() {
    let before = resident();
    let own = build(FEW, &OfTheirOwn(Plain));
    let pods: usize = own.cluster.nodes().iter().map(|node| node.pods.len()).sum();
    let bytes = resident().saturating_sub(before) / pods;
    println!("{bytes} bytes a pod, with its share of its node");
}

#[divan::bench(sample_count = 1, sample_size = 1)]
fn plain_with_a_template_a_pod() {
    ratio(Plain);
}

#[divan::bench(sample_count = 1, sample_size = 1)]
fn entangled_with_a_template_a_pod() {
    ratio(Entangled);
}

#[divan::bench(args = NODES, sample_count = 20)]
fn plain(bencher: Bencher<'_, '_>, nodes: u64) {
    let recipe = build(nodes, &Plain);
    check(&recipe, nodes);
    bencher.bench_local(|| run(&recipe));
}

/// Adds affinity and spreading to the budgets. A twelfth of the pods repels the incoming pod, which repels another
/// twelfth. It also spreads evenly over zones of ten nodes, counting a third of all pods.
#[derive(Clone, Copy)]
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
