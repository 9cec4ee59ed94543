//! Properties of every plan over random clusters.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod scenario;

use evictd_placement::Checks;
use evictd_preemption::{BudgetPolicy, Candidate, Compat, Options, Plan, plan};
use proptest::prelude::*;
use scenario::{Answer, Scenario, budget, pod, started, with};
use serde_json::{Value, json};

const APPS: [&str; 3] = ["web", "db", "batch"];

#[derive(Debug, Clone)]
struct RandomPod {
    app: usize,
    priority: i32,
    cores: u32,
    minute: Option<u32>,
    port: bool,
}

#[derive(Debug, Clone)]
struct Random {
    nodes: Vec<(u32, Vec<RandomPod>)>,
    budgets: Vec<(usize, i32)>,
    cores: u32,
    port: bool,
    compat: Compat,
}

fn random_pod() -> impl Strategy<Value = RandomPod> {
    let fields = (
        0..3_usize,
        0..6_i32,
        0..4_u32,
        proptest::option::of(0..3_u32),
        any::<bool>(),
    );
    fields.prop_map(|(app, priority, cores, minute, port)| RandomPod {
        app,
        priority,
        cores,
        minute,
        port,
    })
}

fn random() -> impl Strategy<Value = Random> {
    let node = (2..9_u32, proptest::collection::vec(random_pod(), 0..7));
    (
        proptest::collection::vec(node, 1..8),
        proptest::collection::vec((0..3_usize, 0..3_i32), 0..4),
        1..7_u32,
        any::<bool>(),
        proptest::sample::select(Compat::ALL.to_vec()),
    )
        .prop_map(|(nodes, budgets, cores, port, compat)| Random {
            nodes,
            budgets,
            cores,
            port,
            compat,
        })
}

fn with_port(pod: Value, port: bool) -> Value {
    if port {
        let ports = json!([{ "containerPort": 80, "hostPort": 80 }]);
        with(pod, "/spec/containers/0/ports", ports)
    } else {
        pod
    }
}

/// The cluster; `turned` lists everything the other way round.
fn scenario(random: &Random, turned: bool) -> Scenario {
    let names: Vec<String> = (0..random.nodes.len()).map(|i| format!("n{i}")).collect();
    let mut nodes: Vec<(&str, u32, Vec<Value>)> = Vec::new();
    for ((cores, pods), name) in random.nodes.iter().zip(&names) {
        let mut taken = false;
        let pods = pods.iter().enumerate().map(|(index, own)| {
            let new = pod(&format!("{name}-{index}"), own.priority, own.cores);
            let new = with(new, "/metadata/labels", json!({ "app": APPS[own.app] }));
            let new = own
                .minute
                .map_or(new.clone(), |minute| started(new, minute));
            // One pod a port, as on a real node.
            let port = own.port && !taken;
            taken |= port;
            with_port(new, port)
        });
        let mut pods: Vec<Value> = pods.collect();
        if turned {
            pods.reverse();
        }
        nodes.push((name, *cores, pods));
    }
    let budgets = random.budgets.iter().enumerate();
    let budgets = budgets.map(|(index, (app, allowed))| {
        let name = json!(format!("pdb-{index}"));
        with(budget(APPS[*app], *allowed), "/metadata/name", name)
    });
    let mut budgets: Vec<Value> = budgets.collect();
    if turned {
        nodes.reverse();
        budgets.reverse();
    }
    let preemptor = with_port(pod("new", 4, random.cores), random.port);
    Scenario::new(&nodes, &preemptor)
        .budgets(&budgets)
        .compat(random.compat)
}

/// Whether the pod fits on a candidate's node without these victims.
fn fits_without(
    scenario: &Scenario,
    plan: &Plan,
    candidate: &Candidate,
    but: Option<usize>,
) -> bool {
    let mut checks = Checks::new(&scenario.cluster, &scenario.preemptor);
    let mut trial = checks.on(candidate.node);
    for (index, victim) in plan.victims(candidate).iter().enumerate() {
        if but != Some(index) {
            trial.remove(*victim as usize);
        }
    }
    trial.fits().is_ok()
}

fn found(answer: &Answer) -> (Option<&String>, &[String], &[String], &[String]) {
    (
        answer.chosen.as_ref(),
        &answer.victims,
        &answer.why,
        &answer.actions,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_candidate_is_really_one(random in random()) {
        let scenario = scenario(&random, false);
        let plan = scenario.plan().plan;
        for candidate in &plan.candidates {
            let pods = &scenario.cluster.node(candidate.node).pods;
            let victims = plan.victims(candidate);
            for victim in victims {
                prop_assert!(pods[*victim as usize].priority < scenario.preemptor.priority);
            }
            prop_assert!(fits_without(&scenario, &plan, candidate, None));
            for one in 0..victims.len() {
                prop_assert!(!fits_without(&scenario, &plan, candidate, Some(one)), "one too many");
            }
            prop_assert!(candidate.violations <= victims.len());
        }
    }

    #[test]
    fn no_node_that_could_be_freed_is_missed(random in random()) {
        let scenario = scenario(&random, false);
        let plan = scenario.plan().plan;
        prop_assume!(!plan.fits());
        for id in scenario.cluster.node_ids() {
            let mut checks = Checks::new(&scenario.cluster, &scenario.preemptor);
            let mut trial = checks.on(id);
            for index in trial.first_below(scenario.preemptor.priority)..trial.pods().len() {
                trial.remove(index);
            }
            let could = trial.fits().is_ok();
            let is = plan.candidates.iter().any(|candidate| candidate.node == id);
            prop_assert_eq!(could, is);
        }
    }

    #[test]
    fn no_candidate_breaks_fewer_budgets_than_the_chosen_one(random in random()) {
        let plan = scenario(&random, false).plan().plan;
        if let Some(choice) = plan.choice() {
            let fewest = plan.candidates.iter().map(|candidate| candidate.violations).min();
            prop_assert_eq!(Some(choice.violations), fewest);
        } else {
            prop_assert!(plan.candidates.is_empty());
        }
    }

    #[test]
    fn the_order_of_the_input_does_not_matter(random in random()) {
        let (one, other) = (scenario(&random, false).plan(), scenario(&random, true).plan());
        prop_assert_eq!(found(&one), found(&other));
        prop_assert_eq!(one.message, other.message);
    }

    #[test]
    fn a_policy_that_spares_budgets_never_breaks_one(random in random()) {
        let scenario = scenario(&random, false).policy(BudgetPolicy::NeverViolate);
        let spared = scenario.plan().plan;
        for candidate in &spared.candidates {
            prop_assert_eq!(candidate.violations, 0);
            let pods = &scenario.cluster.node(candidate.node).pods;
            for (app, allowed) in &random.budgets {
                let victims = spared.victims(candidate).iter();
                let covered = victims.filter(|index| {
                    let labels = pods[**index as usize].labels();
                    let key = scenario.cluster.symbols().get("app").unwrap();
                    let value = labels.get(key).unwrap();
                    scenario.cluster.symbols().text(value) == APPS[*app]
                });
                prop_assert!(covered.count() <= usize::try_from(*allowed).unwrap());
            }
        }
        // A node that needs no broken budget is found with the policy, too.
        let options = Options { policy: BudgetPolicy::Prefer, ..scenario.options };
        let Scenario { cluster, budgets, preemptor, .. } = &scenario;
        let plain = plan(cluster, budgets, preemptor, options, &mut [], &|_| false).unwrap();
        for candidate in plain.candidates.iter().filter(|candidate| candidate.violations == 0) {
            let mut spared = spared.candidates.iter();
            prop_assert!(spared.any(|spared| spared.node == candidate.node));
        }
    }
}
