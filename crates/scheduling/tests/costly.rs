//! Pods whose attempts are costly take turns by namespace, and the pods of others are tried in between. Cost is counted, not
//! timed.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod scenario;

use evictd_placement::{Checks, Cluster};
use evictd_pod::wire;
use evictd_scheduling::{Change, Outcome, USUAL_COST};
use scenario::{Object, Scenario, added, node, pod, pod_group};
use serde_json::{Value, json};

/// The most that one evaluation of a selector costs.
const EVALUATION: u64 = 1_000_000;
/// The most that the uncached selectors of one attempt cost, with the last evaluation.
const ATTEMPT: u64 = 4_000_000 + 2 * EVALUATION;

struct Scene(Scenario);

/// An attempt: the pod, its outcome in a word, and its cost.
type Tried = (String, &'static str, u64);

impl Scene {
    /// Nodes with one device each.
    fn new(nodes: usize) -> Self {
        let mut scenario = Scenario::new();
        let class = json!({ "metadata": { "name": "gpu" } });
        scenario.change(Change::DeviceClass(added(class)));
        for index in 0..nodes {
            let name = format!("node-{index:03}");
            let node = node(&name).cpu("64").memory("64Gi");
            scenario.node(node.label("kubernetes.io/hostname", &name));
            scenario.change(Change::ResourceSlice(added(json!({
                "metadata": { "name": name },
                "spec": { "driver": "gpu.example.com", "nodeName": name, "devices": [{ "name": "card" }],
                    "pool": { "name": name, "generation": 1, "resourceSliceCount": 1 } } }))));
        }
        Self(scenario)
    }

    fn pod(&mut self, namespace: &str, name: &str, more: Value) {
        self.0
            .pod(pod(name).namespace(namespace).cpu("10m").spec(more));
    }

    /// A pod whose claim has a selector of its own that costs about 700 000 units for each device and selects none.
    fn pod_with_costly_selector(&mut self, namespace: &str, number: usize) {
        let name = format!("{namespace}-{number:03}");
        let selector = json!({ "cel": { "expression":
            format!("lists.range(1000).exists(x, lists.range(98).exists(y, x + y < -{}))", number + 1) } });
        let exactly = json!({ "deviceClassName": "gpu", "selectors": [selector] });
        self.0.change(Change::ResourceClaim(added(json!({
            "metadata": { "name": name, "namespace": namespace, "uid": format!("claim-{name}") },
            "spec": { "devices": { "requests": [{ "name": "card", "exactly": exactly }] } } }))));
        let claims = json!([{ "name": "card", "resourceClaimName": name }]);
        self.pod(namespace, &name, json!({ "resourceClaims": claims }));
    }

    /// The next attempt.
    fn attempt(&mut self) -> Option<Tried> {
        let attempt = self.0.attempt()?;
        let outcome = match attempt.outcome {
            Outcome::Placed { .. } => "placed",
            Outcome::PutOff(reason) => {
                let namespace = attempt.pod.metadata.namespace_or_default();
                assert!(reason.contains(&format!("{namespace:?}")), "{reason}");
                assert!(reason.contains("take turns"), "{reason}");
                "put off"
            }
            Outcome::Unschedulable(_) => "unschedulable",
            Outcome::Error(_) => "error",
            other => panic!("{other:?}"),
        };
        Some((
            attempt.key.to_string(),
            outcome,
            self.0.scheduler.take_cost(),
        ))
    }

    /// Tries pods until all of a namespace are placed. Returns the cost until then and the attempts of other namespaces
    /// that were not put off.
    fn until_placed(&mut self, namespace: &str, count: usize) -> (u64, usize) {
        let (mut placed, mut cost, mut others) = (0, 0, 0);
        while placed < count {
            let (pod, outcome, units) = self.attempt().unwrap();
            cost += units;
            if pod.starts_with(namespace) {
                assert_eq!(outcome, "placed", "{pod}");
                placed += 1;
            } else if outcome != "put off" {
                others += 1;
            }
        }
        (cost, others)
    }
}

#[test]
fn a_hundred_pods_with_costly_selectors_delay_others_by_one_attempt_at_a_time() {
    let mut scene = Scene::new(3);
    for number in 0..100 {
        scene.pod_with_costly_selector("mallory", number);
    }
    for number in 0..20 {
        scene.pod("shop", &format!("shop-{number}"), json!({}));
    }
    let (cost, others) = scene.until_placed("shop", 20);
    // The first one is found to be costly after one evaluation. While that is not made up for, no other one is tried.
    assert!(cost <= USUAL_COST + 2 * EVALUATION, "{cost}");
    assert_eq!(others, 0);
    // No other pod waits: they are tried one after the other.
    let (mut tried, mut most) = (0, 0);
    while tried < 5 {
        let (_, outcome, units) = scene.attempt().unwrap();
        most = most.max(units);
        tried += usize::from(outcome == "unschedulable");
        assert_ne!(outcome, "placed");
    }
    assert!(most <= ATTEMPT, "{most}");
}

#[test]
fn namespaces_with_costly_pods_have_turns_one_after_the_other() {
    let mut scene = Scene::new(2);
    for namespace in ["ann", "bob"] {
        for number in 0..3 {
            scene.pod_with_costly_selector(namespace, number);
        }
    }
    let tried = std::iter::from_fn(|| scene.attempt());
    let tried: Vec<_> = tried
        .filter(|(_, outcome, _)| *outcome != "put off")
        .collect();
    let names: Vec<&str> = tried.iter().map(|(pod, ..)| pod.as_str()).collect();
    assert_eq!(
        names,
        [
            "ann-000", "bob-000", "ann-001", "bob-001", "ann-002", "bob-002"
        ]
    );
}

#[test]
fn a_costly_pod_has_its_turn_once_others_had_as_much_work_and_a_higher_priority_goes_first() {
    let mut scene = Scene::new(100);
    for number in 0..3 {
        let name = format!("mallory-{number}");
        scene.pod("mallory", &name, long_affinity(number, 6_000));
    }
    // Each of them costs less than a costly one, and there is always one that waits.
    let mut worked = 0;
    let honest = |scene: &mut Scene, number: usize, priority: i32| {
        let mut spec = long_affinity(number, 1_000);
        spec["priority"] = json!(priority);
        scene.pod("shop", &format!("shop-{number}"), spec);
    };
    let mut number = 0;
    let mut tried = Vec::new();
    while tried.len() < 2 {
        honest(&mut scene, number, 0);
        number += 1;
        match scene.attempt().unwrap() {
            (_, "put off", _) => {}
            (pod, _, _) if pod.starts_with("mallory") => tried.push(number),
            (_, outcome, units) => {
                assert_eq!(outcome, "placed");
                worked += units;
            }
        }
    }
    assert!(worked > USUAL_COST, "{worked} units before the second turn");
    // While pods of a higher priority wait, no costly one is tried, whatever the others have done.
    for high in number..number + 50 {
        honest(&mut scene, high, 1);
    }
    for _ in 0..50 {
        assert!(scene.attempt().unwrap().0.starts_with("shop"));
    }
}

#[test]
fn in_a_session_costly_selectors_of_a_namespace_have_a_share_and_those_of_others_their_own() {
    let mut scene = Scene::new(3);
    for number in 0..50 {
        scene.pod_with_costly_selector("mallory", number);
    }
    let claim = json!({ "metadata": { "name": "card", "namespace": "shop", "uid": "card" }, "spec": { "devices": {
        "requests": [{ "name": "card", "exactly": { "deviceClassName": "gpu" } }] } } });
    scene.0.change(Change::ResourceClaim(added(claim)));
    let pod_of = |namespace: &str, claim: &str| {
        let claims = json!([{ "name": "card", "resourceClaimName": claim }]);
        let pod = pod(claim).namespace(namespace);
        (*pod.set("/spec/resourceClaims", claims).read::<wire::Pod>()).clone()
    };
    let fits = |cluster: &mut Cluster, pod: wire::Pod| {
        let pod = cluster.pod(pod).unwrap();
        let mut checks = Checks::new(cluster, &pod);
        let mut nodes = cluster.node_ids();
        nodes.any(|id| checks.fits(id).is_ok())
    };
    let mut sessions = Vec::new();
    for _ in 0..2 {
        let fits = scene.0.scheduler.with_cluster(|cluster| {
            for number in 0..50 {
                let name = format!("mallory-{number:03}");
                assert!(!fits(cluster, pod_of("mallory", &name)));
            }
            fits(cluster, pod_of("shop", "card"))
        });
        assert!(fits, "a claim of another namespace is searched for");
        sessions.push(scene.0.scheduler.take_cost());
    }
    let most = *sessions.iter().max().unwrap();
    // A share, the evaluation that exceeds it, and the steps of all searches.
    assert!(most < (1 << 18) + EVALUATION + 10_000, "{sessions:?}");
}

/// A node affinity of this many requirements, each with one value.
fn long_affinity(number: usize, requirements: usize) -> Value {
    let expressions = (0..requirements).map(
        |index| json!({ "key": "kubernetes.io/hostname", "operator": "NotIn", "values": [format!("{number}-{index}")] }),
    );
    let terms = json!([{ "matchExpressions": expressions.collect::<Vec<_>>() }]);
    json!({ "affinity": { "nodeAffinity":
        { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } } } })
}

#[test]
fn long_node_affinity_takes_turns_as_well() {
    let mut scene = Scene::new(100);
    for number in 0..20 {
        let name = format!("mallory-{number}");
        scene.pod("mallory", &name, long_affinity(number, 6_000));
    }
    scene.pod("shop", "shop-0", json!({}));
    let (cost, others) = scene.until_placed("shop", 1);
    assert_eq!(others, 0);
    assert!(cost < 3 * USUAL_COST, "{cost}");
    // An honest list takes no turns.
    scene.pod("honest", "honest-0", long_affinity(0, 60));
    let (cost, _) = scene.until_placed("honest", 1);
    assert!(cost < USUAL_COST, "{cost}");
}

#[test]
fn a_pod_with_more_terms_than_can_be_kept_is_refused_with_the_reason() {
    let mut scene = Scene::new(1);
    let term = |index| json!({ "topologyKey": format!("key-{index}"), "labelSelector": {} });
    let affinity = |count: usize| {
        let terms: Vec<Value> = (0..count).map(term).collect();
        json!({ "affinity": { "podAntiAffinity":
            { "requiredDuringSchedulingIgnoredDuringExecution": terms } } })
    };
    scene.pod("mallory", "mallory", affinity(257));
    match scene.0.attempt().unwrap().outcome {
        Outcome::Error(message) => assert_eq!(
            message,
            "spec.affinity.podAntiAffinity: 257 entries; a pod that is to be scheduled may have 256"
        ),
        other => panic!("{other:?}"),
    }
    scene.pod("honest", "honest", affinity(256));
    assert_eq!(scene.attempt().unwrap().1, "placed");
    // One that has its node already counts there, however many terms it has.
    let mut placed = affinity(20_000);
    placed["nodeName"] = json!("node-000");
    scene.pod("mallory", "placed", placed);
    assert_eq!(
        scene.0.scheduler.take_invalid_objects(),
        Vec::<String>::new()
    );
    assert_eq!(scene.0.scheduler.cluster().sizes().pods, 2);
}

/// Required anti-affinity of this many terms, each with this many values, to pods of the pod's own namespace or of all.
fn long_anti_affinity(terms: usize, values: usize, all_namespaces: bool) -> Value {
    let values: Vec<String> = (0..values).map(|value| format!("v-{value}")).collect();
    let terms = (0..terms).map(|index| {
        let selector =
            json!({ "matchExpressions": [{ "key": "app", "operator": "In", "values": values }] });
        let mut term = json!({ "topologyKey": format!("key-{index}"), "labelSelector": selector });
        if all_namespaces {
            term["namespaceSelector"] = json!({});
        }
        term
    });
    json!({ "affinity": { "podAntiAffinity":
        { "requiredDuringSchedulingIgnoredDuringExecution": terms.collect::<Vec<_>>() } } })
}

/// Twenty full nodes, and pods of one namespace that need room on one of them. Their preemption is costly.
fn preempting(group: Option<Object>, pods: impl Iterator<Item = Object>) -> Scene {
    let mut scene = Scene::new(20);
    if let Some(group) = group {
        scene.0.group(group);
    }
    for index in 0..20 * 60 {
        let low = pod(&format!("low-{index:04}")).namespace("shop").cpu("1");
        scene.0.pod(low.on(&format!("node-{:03}", index % 20)));
    }
    for pod in pods {
        let high = pod.namespace("mallory").cpu("32").priority(10);
        scene.0.pod(high.spec(long_anti_affinity(250, 1, false)));
    }
    for number in 0..20 {
        let name = format!("shop-{number}");
        scene
            .0
            .pod(pod(&name).namespace("shop").cpu("10m").priority(10));
    }
    scene
}

/// Others are placed before the preemption, and it is done then.
fn preempts_in_its_turn(mut scene: Scene) {
    let (cost, others) = scene.until_placed("shop", 20);
    assert_eq!(others, 0);
    assert!(cost > USUAL_COST, "{cost} units: no preemption was begun");
    assert!(cost < 2 * USUAL_COST, "{cost}");
    // In its turn such a pod preempts, however much that costs.
    match scene.0.attempt().unwrap().outcome {
        Outcome::Unschedulable(rejected) => assert!(rejected.nominated.is_some()),
        other => panic!("{other:?}"),
    }
    assert!(scene.0.scheduler.take_cost() > USUAL_COST);
}

#[test]
fn pods_that_preempt_expensively_take_turns_as_well() {
    let pods = (0..5).map(|number| pod(&format!("mallory-{number}")));
    preempts_in_its_turn(preempting(None, pods));
}

#[test]
fn a_gang_that_preempts_expensively_takes_turns_as_well() {
    let members = (0..3).map(|number| pod(&format!("mallory-{number}")).member_of("gang"));
    let group = pod_group("gang", 3).namespace("mallory");
    let group = group.set("/spec/priority", 10);
    preempts_in_its_turn(preempting(Some(group), members));
}

#[test]
fn terms_cost_what_they_are_compared_with_and_pods_of_other_namespaces_only_if_they_are_meant() {
    let mut scene = Scene::new(2);
    for index in 0..500 {
        let other = pod(&format!("other-{index}")).namespace("mallory");
        scene
            .0
            .pod(other.label("app", &format!("{index}")).on("node-000"));
    }
    scene.pod("shop", "shop-0", long_anti_affinity(250, 200, false));
    let (cost, _) = scene.until_placed("shop", 1);
    assert!(cost < USUAL_COST / 10, "{cost}");
    scene.pod("shop", "shop-1", long_anti_affinity(250, 200, true));
    let (_, outcome, cost) = scene.attempt().unwrap();
    assert_eq!(outcome, "put off");
    assert!(cost > USUAL_COST && cost < 2 * USUAL_COST, "{cost}");
    assert_eq!(scene.attempt().unwrap().1, "placed");
}
