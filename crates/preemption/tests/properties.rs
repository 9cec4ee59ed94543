//! Properties of every plan over random clusters.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod scenario;

use evictd_placement::Checks;
use evictd_preemption::{
    BudgetPolicy, Candidate, Compat, Options, Plan, VictimRules, explain_node, plan,
};
use proptest::prelude::*;
use scenario::{Answer, Scenario, budget, in_group, pod, started, with};
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

/// The nodes with their pods.
fn nodes(random: &Random, change: impl Fn(Value) -> Value) -> Vec<(String, u32, Vec<Value>)> {
    let nodes = random.nodes.iter().enumerate();
    let node = |(number, (cores, pods)): (usize, &(u32, Vec<RandomPod>))| {
        let name = format!("n{number}");
        let mut taken = false;
        let pods = pods.iter().enumerate().map(|(index, one)| {
            let new = pod(&format!("{name}-{index}"), one.priority, one.cores);
            let new = with(new, "/metadata/labels", json!({ "app": APPS[one.app] }));
            let new = one
                .minute
                .map_or(new.clone(), |minute| started(new, minute));
            // One pod a port, as on a real node.
            let port = one.port && !taken;
            taken |= port;
            change(with_port(new, port))
        });
        let pods = pods.collect();
        (name, *cores, pods)
    };
    nodes.map(node).collect()
}

/// The cluster; `turned` lists everything the other way round.
fn scenario(random: &Random, turned: bool) -> Scenario {
    let named = nodes(random, |pod| pod);
    let mut nodes: Vec<(&str, u32, Vec<Value>)> = Vec::new();
    for (name, cores, pods) in &named {
        let mut pods = pods.clone();
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
            trial.remove(victim.index as usize);
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

/// The topology and the app from which a pod must be apart.
fn apart() -> impl Strategy<Value = (&'static str, &'static str)> {
    proptest::sample::select(vec![("kubernetes.io/hostname", "db"), ("zone", "web")])
}

/// The names of the pods that leave if all victims on a node leave. The pods of `web` leave all nodes, those of `db` by the priority of
/// their group, and the others by their own.
fn less_important(nodes: &[(String, u32, Vec<Value>)], node: &str, priority: i32) -> Vec<String> {
    let app = |pod: &Value| pod["metadata"]["labels"]["app"].clone();
    let mut on_node = nodes.iter().filter(|(name, ..)| name == node);
    let has_web = on_node.any(|(.., pods)| pods.iter().any(|pod| app(pod) == "web"));
    let pods = nodes
        .iter()
        .flat_map(|(name, _, pods)| pods.iter().map(move |pod| (name == node, pod)));
    let leaving = pods.filter(|(is_here, pod)| match app(pod).as_str() {
        Some("web") => has_web && priority < 4,
        Some("db") => *is_here && priority < 4,
        _ => *is_here && pod["spec"]["priority"].as_i64() < Some(4),
    });
    let name = |pod: &Value| {
        pod["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    leaving.map(|(_, pod)| name(pod)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_candidate_is_really_one(random in random()) {
        let scenario = scenario(&random, false);
        let plan = scenario.plan().plan;
        for candidate in &plan.candidates {
            let victims = plan.victims(candidate);
            for victim in victims {
                prop_assert!(victim.pod(&scenario.cluster).priority < scenario.preemptor.priority);
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
            for (app, allowed) in &random.budgets {
                let victims = spared.victims(candidate).iter();
                let covered = victims.filter(|victim| {
                    let labels = victim.pod(&scenario.cluster).labels();
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
        let plain = plan(cluster, VictimRules::of_budgets(budgets), preemptor, options, &mut [], &|_| false).unwrap();
        for candidate in plain.candidates.iter().filter(|candidate| candidate.violations == 0) {
            let mut spared = spared.candidates.iter();
            prop_assert!(spared.any(|spared| spared.node == candidate.node));
        }
    }

    /// The pods of each app are a group, one of them atomic. The pod may not be beside some of them, and is spread among others.
    /// In a zone the atomic group is in its way on other nodes, too.
    #[test]
    fn groups_are_victims_as_a_whole_and_every_candidate_is_one_without_them(
        random in random(), priority in 0..6_i32, (key, apart) in apart(),
    ) {
        let terms = json!([{ "topologyKey": key, "labelSelector": { "matchLabels": { "app": apart } } }]);
        let spread = json!([{ "maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": { "matchLabels": { "app": "web" } } }]);
        let required = json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": terms } });
        let new = with(pod("new", 4, random.cores), "/metadata/labels", json!({ "app": "web" }));
        let new = with(with(new, "/spec/affinity", required), "/spec/topologySpreadConstraints", spread);
        let groups = [("web", priority, true), ("db", priority, false)];
        let nodes = nodes(&random, |pod| {
            let app = pod["metadata"]["labels"]["app"].as_str().unwrap_or_default().to_owned();
            in_group(pod, &app)
        });
        let built = |left_out: &[String]| {
            let mut nodes = nodes.clone();
            for (_, _, pods) in &mut nodes {
                pods.retain(|pod| left_out.iter().all(|name| pod["metadata"]["name"] != json!(name)));
            }
            let named: Vec<(&str, u32, Vec<Value>)> =
                nodes.iter().map(|(name, cores, pods)| (name.as_str(), *cores, pods.clone())).collect();
            Scenario::new(&named, &new).groups(&groups)
        };
        let scenario = built(&[]);
        let plan = scenario.plan().plan;
        prop_assume!(!plan.fits());
        let rules = VictimRules { budgets: &[], groups: Some(&scenario.groups) };
        for node in scenario.cluster.node_ids() {
            let (_, alone) = explain_node(&scenario.cluster, rules, &scenario.preemptor, scenario.options, node);
            let candidate = plan.candidates.iter().find(|candidate| candidate.node == node);
            if let Err(rejection) = plan.filter[node.index()] && rejection.is_resolvable() {
                prop_assert_eq!(alone.ok(), candidate.map(|candidate| candidate.violations));
                let emptied = built(&less_important(&nodes, scenario.cluster.node_name(node), priority));
                let could = Checks::new(&emptied.cluster, &emptied.preemptor).fits(node).is_ok();
                prop_assert_eq!(could, candidate.is_some());
            }
            let Some(candidate) = candidate else { continue };
            let victims = scenario.victims(&plan, candidate);
            let without = built(&victims);
            prop_assert!(Checks::new(&without.cluster, &without.preemptor).fits(node).is_ok());
            let left = without.groups.pods_of("web").len();
            let all = scenario.groups.pods_of("web").len();
            prop_assert!(left == 0 || left == all, "{} of {} are left", left, all);
        }
    }
}
