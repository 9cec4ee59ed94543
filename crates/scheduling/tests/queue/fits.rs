//! No pod that fits is left to the flush after five minutes, also when what made room for it came during its attempt.

use evictd_placement::Cluster;
use evictd_pod::wire;
use evictd_scheduling::{
    Change, Delta, Failure, Framework, PluginName, Pool, PreemptionInput, SchedulingQueue, Settings,
};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Something that happens in the cluster.
#[derive(Debug, Clone)]
enum Event {
    /// A pod of this kind appears.
    Pod(usize),
    /// One of those that have a node goes.
    Gone(prop::sample::Index),
    /// One of those that have a node gets another label.
    Label(prop::sample::Index, usize),
    /// A node is, from now on, like this; `None`: it goes.
    Node(usize, Option<[usize; 4]>),
    /// An attempt begins; its answer comes that many events later.
    Try(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let shape = prop::option::weighted(0.8, prop::array::uniform4(0..3_usize));
    prop_oneof![
        4 => (0..12_usize).prop_map(Event::Pod),
        2 => any::<prop::sample::Index>().prop_map(Event::Gone),
        1 => (any::<prop::sample::Index>(), 0..2_usize).prop_map(|(pod, app)| Event::Label(pod, app)),
        3 => (0..3_usize, shape).prop_map(|(node, shape)| Event::Node(node, shape)),
        6 => (0..4_usize).prop_map(Event::Try),
    ]
}

/// A node by its cpu, its taint, its zone, and whether it is cordoned.
fn node(index: usize, [cpu, taint, zone, cordoned]: [usize; 4]) -> Value {
    let taints = ["NoSchedule", "PreferNoSchedule"];
    let taints = taints
        .get(taint)
        .map(|effect| json!([{ "key": "t", "effect": effect }]));
    let mut labels = json!({ "kubernetes.io/hostname": format!("node-{index}") });
    if zone < 2 {
        labels["zone"] = json!(format!("zone-{zone}"));
    }
    json!({ "metadata": { "name": format!("node-{index}"), "labels": labels },
        "spec": { "taints": taints, "unschedulable": cordoned == 0 },
        "status": { "allocatable": { "cpu": format!("{}", 1 + cpu), "memory": "4Gi", "pods": "4" } } })
}

/// What pods of a kind ask for beside processor time and ports.
fn spec(kind: usize) -> Value {
    let host = "kubernetes.io/hostname";
    let term = |app: &str, key: &str| json!({ "topologyKey": key, "labelSelector": { "matchLabels": { "app": app } } });
    let affinity = |of: &str, terms: &[Value]| {
        let terms = json!({ "requiredDuringSchedulingIgnoredDuringExecution": terms });
        json!({ "affinity": { of: terms } })
    };
    let spread = |key: &str, more: Value| {
        let mut constraint = json!({ "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": { "matchLabels": { "app": "app-0" } } });
        constraint["nodeTaintsPolicy"] = more;
        json!([constraint])
    };
    match kind {
        2 => json!({ "tolerations": [{ "operator": "Exists" }] }),
        3 => json!({ "nodeSelector": { "zone": "zone-1" } }),
        4 => affinity("podAffinity", &[term("app-1", "zone")]),
        5 => affinity("podAntiAffinity", &[term("app-0", "zone")]),
        6 => json!({ "topologySpreadConstraints": spread("zone", Value::Null) }),
        7 => affinity(
            "podAntiAffinity",
            &[term("app-0", "zone"), term("app-1", host)],
        ),
        8 => affinity("podAffinity", &[term("app-0", host)]),
        9 => {
            json!({ "topologySpreadConstraints": spread("zone", Value::Null), "nodeSelector": { "disk": "ssd" } })
        }
        10 => json!({ "topologySpreadConstraints": spread(host, json!("Honor")) }),
        _ => json!({}),
    }
}

/// The pods of a kind ask for the same.
fn pod(kind: usize, number: usize) -> wire::Pod {
    let app = format!("app-{}", kind % 2);
    let requests = json!({ "requests": { "cpu": if kind == 0 { "2" } else { "500m" } } });
    let ports = json!([{ "containerPort": 80, "hostPort": if kind == 1 { 80 } else { 0 } }]);
    let spec = spec(kind);
    let mut pod = json!({ "spec": spec,
        "metadata": { "name": format!("pod-{number}"), "uid": format!("uid-{number}"), "labels": { "app": app } } });
    pod["spec"]["containers"] = json!([{ "name": "c", "resources": requests, "ports": ports }]);
    serde_json::from_value(pod).unwrap()
}

/// A scheduler of one thread whose answers come late.
struct World {
    cluster: Cluster,
    framework: Framework,
    queue: SchedulingQueue,
    now: Timestamp,
    nodes: BTreeMap<usize, Arc<evictd_pod::Node>>,
    placed: Vec<Arc<wire::Pod>>,
    /// An attempt under way: the pod, what came out, and after how many events it is told.
    trying: Option<(Arc<str>, Decision, usize)>,
    pods: usize,
}

enum Decision {
    On(String),
    Rejected(Failure),
}

impl World {
    fn new() -> Self {
        let mut cluster = Cluster::new();
        let framework = Framework::of_default(&mut cluster);
        let names = ["default-scheduler".to_owned()];
        Self {
            cluster,
            framework,
            queue: SchedulingQueue::new(Settings::default(), names, false),
            now: Timestamp::UNIX_EPOCH,
            nodes: BTreeMap::new(),
            placed: Vec::new(),
            trying: None,
            pods: 0,
        }
    }

    fn pod_changes(&mut self, old: Option<Arc<wire::Pod>>, new: Option<Arc<wire::Pod>>) {
        for gone in old.iter().filter(|pod| !pod.spec.node_name.is_empty()) {
            self.cluster.remove_pod(&gone.metadata);
        }
        for there in new.iter().filter(|pod| !pod.spec.node_name.is_empty()) {
            self.cluster.add_pod(wire::Pod::clone(there)).unwrap();
        }
        self.queue.on(self.now, &Change::Pod(Delta { old, new }));
    }

    fn happens(&mut self, event: &Event) {
        self.now += SignedDuration::from_millis(100);
        match event {
            Event::Pod(kind) => {
                self.pods += 1;
                let new = pod(*kind, self.pods);
                self.pod_changes(None, Some(Arc::new(new)));
            }
            Event::Gone(index) if !self.placed.is_empty() => {
                let gone = self.placed.remove(index.index(self.placed.len()));
                self.pod_changes(Some(gone), None);
            }
            Event::Label(index, app) if !self.placed.is_empty() => {
                let index = index.index(self.placed.len());
                let old = Arc::clone(&self.placed[index]);
                let mut new = wire::Pod::clone(&old);
                new.metadata.labels = [("app".to_owned(), format!("app-{app}"))]
                    .into_iter()
                    .collect();
                self.placed[index] = Arc::new(new);
                self.pod_changes(Some(old), Some(Arc::clone(&self.placed[index])));
            }
            Event::Node(index, shape) => self.node_changes(*index, *shape),
            Event::Try(later) if self.trying.is_none() => self.attempt(*later),
            _ => {}
        }
        match &mut self.trying {
            Some((_, _, 0)) => self.answer(),
            Some((_, _, later)) => *later -= 1,
            None => {}
        }
    }

    fn node_changes(&mut self, index: usize, shape: Option<[usize; 4]>) {
        let new = shape.map(|shape| serde_json::from_value(node(index, shape)).unwrap());
        let new: Option<Arc<evictd_pod::Node>> = new.map(Arc::new);
        let old = if let Some(new) = &new {
            self.cluster.update_node(new);
            self.nodes.insert(index, Arc::clone(new))
        } else {
            let name = format!("node-{index}");
            // Its pods go with it.
            let is_there = |pod: &Arc<wire::Pod>| pod.spec.node_name == name;
            while let Some(place) = self.placed.iter().position(is_there) {
                let gone = self.placed.remove(place);
                self.pod_changes(Some(gone), None);
            }
            self.cluster.remove_node(&name);
            self.nodes.remove(&index)
        };
        self.queue.on(self.now, &Change::Node(Delta { old, new }));
    }

    fn attempt(&mut self, later: usize) {
        let Some(popped) = self.queue.pop() else {
            return;
        };
        let wire = wire::Pod::clone(self.queue.pod(&popped.pod).unwrap());
        let decision = self.decide(wire);
        self.trying = Some((popped.pod, decision, later));
    }

    fn decide(&mut self, wire: wire::Pod) -> Decision {
        if self.nodes.is_empty() {
            return Decision::Rejected(Failure::default());
        }
        let pod = self.cluster.pod(wire).unwrap();
        let filtered = self.framework.filter(&self.cluster, &pod);
        let decision = if let Some(node) = filtered.feasible.first() {
            Decision::On(self.cluster.node_name(*node).to_owned())
        } else {
            let input = PreemptionInput::default();
            let failure = self
                .framework
                .post_filter(&self.cluster, &pod, &filtered, input);
            let plugins = failure.unwrap().plugins;
            let rejectors = plugins.iter().map(|name| PluginName::parse(name).unwrap());
            Decision::Rejected(Failure {
                rejectors: rejectors.collect(),
                ..Failure::default()
            })
        };
        self.cluster.release(pod);
        decision
    }

    fn answer(&mut self) {
        let Some((key, decision, _)) = self.trying.take() else {
            return;
        };
        match decision {
            Decision::Rejected(failure) => {
                self.queue.failed(self.now, &key, &failure).unwrap();
            }
            Decision::On(node) if self.cluster.find_node(&node).is_some() => {
                self.queue.assume(self.now, &key, &node);
                self.queue.done(self.now, &key);
                let old = Arc::clone(self.queue.pod(&key).unwrap());
                let mut new = wire::Pod::clone(&old);
                new.spec.node_name = node;
                let new = Arc::new(new);
                self.placed.push(Arc::clone(&new));
                self.pod_changes(Some(old), Some(new));
            }
            Decision::On(_) => {
                self.queue
                    .failed(self.now, &key, &Failure::default())
                    .unwrap();
            }
        }
    }

    /// Tries pods until none is active or backs off.
    fn settle(&mut self) {
        self.answer();
        for _ in 0..1000 {
            self.now += SignedDuration::from_secs(2);
            self.queue.flush_backoff(self.now);
            self.attempt(0);
            if self.trying.is_none() && self.queue.pods_in(Pool::ErrorBackoff).is_empty() {
                return;
            }
            self.answer();
            // Without any node every attempt is an error, for ever.
            if self.nodes.is_empty() {
                return;
            }
        }
        unreachable!("it never settles");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_pod_that_fits_is_left_to_the_flush(events in prop::collection::vec(event(), 1..60)) {
        let mut world = World::new();
        world.node_changes(0, Some([1, 2, 0, 1]));
        for event in &events {
            world.happens(event);
        }
        world.settle();
        for key in world.queue.pods_in(Pool::Unschedulable) {
            let wire = wire::Pod::clone(world.queue.pod(&key).unwrap());
            prop_assert_eq!(&wire.metadata.key(), &key);
            if let Decision::On(node) = world.decide(wire) {
                let waiting = world.queue.queued_pod(&key);
                prop_assert!(false, "{} fits on {} and waits: {:?}", key, node, waiting);
            }
        }
        let waiting = world.queue.len() + world.placed.len();
        prop_assert!(waiting <= world.pods, "a pod is there twice");
    }
}
