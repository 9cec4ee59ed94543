//! The controller as a state machine, on an API server that is as slow and unreliable as the real one (S6-242 to S6-245).
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_hyper_nodes::{
    DiscoveryConf, HyperNode, HyperNodeAnswer, HyperNodeCall, HyperNodeCommand, HyperNodeEvent,
    HyperNodeMachine, SOURCE_LABEL,
};
use evictd_pod::wire::Metadata;
use evictd_reconcile::Refusal;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const CONF: &str = "\
networkTopologyDiscovery:
- source: label
  enabled: true
  config:
    networkTopologyTypes:
      net:
      - nodeLabel: zone
      - nodeLabel: rack
      - nodeLabel: kubernetes.io/hostname
";

fn conf(text: &str) -> DiscoveryConf {
    DiscoveryConf::parse("volcano-controller.conf", text).unwrap()
}

fn node(name: &str, labels: &Value) -> Metadata {
    serde_json::from_value(json!({"name": name, "labels": labels})).unwrap()
}

/// A cluster with the controller.
struct World {
    machine: HyperNodeMachine,
    now: Timestamp,
    stored: BTreeMap<String, Value>,
    version: u64,
    /// Commands that were not carried out yet.
    calls: Vec<(String, HyperNodeCall)>,
    suspended: Vec<String>,
}

impl World {
    fn new(text: &str) -> Self {
        let mut world = Self {
            machine: HyperNodeMachine::new(),
            now: Timestamp::UNIX_EPOCH,
            stored: BTreeMap::new(),
            version: 0,
            calls: Vec::new(),
            suspended: Vec::new(),
        };
        world.event(HyperNodeEvent::Discovery(conf(text).label));
        world
    }

    fn event(&mut self, event: HyperNodeEvent) {
        for command in self.machine.on_event(self.now, event) {
            match command {
                HyperNodeCommand::Call(name, call) => self.calls.push((name, call)),
                HyperNodeCommand::Suspended(why) => self.suspended.push(why),
                HyperNodeCommand::Wake(_) => {}
            }
        }
    }

    /// A person writes a HyperNode.
    fn write(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        self.version += 1;
        let new = || json!({"metadata": {"name": name, "uid": format!("u{}", self.version)}, "spec": {}, "status": {}});
        let mut object = self.stored.get(name).cloned().unwrap_or_else(new);
        change(&mut object);
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.stored.insert(name.to_owned(), object.clone());
        let object = serde_json::from_value(object).unwrap();
        self.event(HyperNodeEvent::HyperNode(Arc::new(object)));
    }

    /// What the API server answers.
    fn carry_out(&mut self, name: &str, call: HyperNodeCall) -> HyperNodeAnswer {
        let known = self.stored.get(name).cloned();
        let conflict = || Refusal::Other("conflict".to_owned());
        self.version += 1;
        let version = json!(self.version.to_string());
        let mut object = match call {
            HyperNodeCall::Create(_) if known.is_some() => return Err(Refusal::AlreadyExists),
            HyperNodeCall::Create(mut object) => {
                object["metadata"]["uid"] = json!(format!("u{}", self.version));
                object
            }
            HyperNodeCall::Delete(options) => {
                let known = known.ok_or(Refusal::NotFound)?;
                for field in ["uid", "resourceVersion"] {
                    if options["preconditions"][field] != known["metadata"][field] {
                        return Err(conflict());
                    }
                }
                self.stored.remove(name);
                let old: HyperNode = serde_json::from_value(known).unwrap();
                self.event(HyperNodeEvent::HyperNodeGone(Arc::new(old)));
                return Ok(None);
            }
            HyperNodeCall::Patch(patch) => {
                let mut known = known.ok_or(Refusal::NotFound)?;
                if patch["metadata"]["resourceVersion"] != known["metadata"]["resourceVersion"] {
                    return Err(conflict());
                }
                known["metadata"]["labels"] = patch["metadata"]["labels"].clone();
                known["spec"] = patch["spec"].clone();
                known
            }
            HyperNodeCall::PatchStatus(patch) => {
                let mut known = known.ok_or(Refusal::NotFound)?;
                if patch["metadata"]["uid"] != known["metadata"]["uid"] {
                    return Err(conflict());
                }
                known["status"] = patch["status"].clone();
                known
            }
        };
        object["metadata"]["resourceVersion"] = version;
        self.stored.insert(name.to_owned(), object.clone());
        let stored: HyperNode = serde_json::from_value(object).unwrap();
        Ok(Some(Arc::new(stored)))
    }

    /// Answers all calls until none is left and no more time is needed.
    fn settle(&mut self) {
        for _ in 0..1000 {
            for (name, call) in std::mem::take(&mut self.calls) {
                let answer = self.carry_out(&name, call);
                // The watch may show the change before or after the answer.
                if let Ok(Some(stored)) = &answer
                    && self.version.is_multiple_of(2)
                {
                    self.event(HyperNodeEvent::HyperNode(Arc::clone(stored)));
                }
                self.event(HyperNodeEvent::Answer(name, answer));
            }
            self.now += SignedDuration::from_secs(1);
            self.event(HyperNodeEvent::Tick);
            if self.calls.is_empty() {
                return;
            }
        }
        panic!("the controller never rests: {:?}", self.calls);
    }

    /// `tier label members count`, sorted.
    fn shown(&self) -> Vec<String> {
        let all = self.stored.values().map(|object| {
            let members = object["spec"]["members"].as_array().cloned();
            let members = members.unwrap_or_default().into_iter().map(|member| {
                let name = member["selector"]["exactMatch"]["name"].as_str();
                let name = name.unwrap_or("*").to_owned();
                // Not the letters that follow from a hash.
                name.rsplit_once('-')
                    .map_or(name.clone(), |(start, _)| start.to_owned())
            });
            let members: Vec<String> = members.collect();
            let key = object["spec"]["tierName"].as_str().unwrap_or("by hand");
            let value = object["metadata"]["labels"][key].as_str().unwrap_or("");
            let count = &object["status"]["nodeCount"];
            format!(
                "{} {key}={value} [{}] {count}",
                object["spec"]["tier"],
                members.join(" ")
            )
        });
        let mut all: Vec<String> = all.collect();
        all.sort();
        all
    }
}

fn three_nodes(world: &mut World) {
    for (name, zone, rack) in [("n1", "z", "r1"), ("n2", "z", "r1"), ("n3", "z", "r2")] {
        let labels = json!({"zone": zone, "rack": rack});
        world.event(HyperNodeEvent::Node(node(name, &labels)));
    }
    world.event(HyperNodeEvent::Listed);
    world.settle();
}

#[test]
fn s6_244_hyper_nodes_follow_the_labels_of_nodes() {
    let mut world = World::new(CONF);
    three_nodes(&mut world);
    let all = [
        "1 rack=r1 [n1 n2] 2",
        "1 rack=r2 [n3] 1",
        "2 zone=z [hypernode-net-tier1 hypernode-net-tier1] 2",
    ];
    assert_eq!(world.shown(), all);
    // A node changes its rack, and an empty rack vanishes.
    let labels = json!({"zone": "z", "rack": "r1"});
    world.event(HyperNodeEvent::Node(node("n3", &labels)));
    world.settle();
    let all = ["1 rack=r1 [n1 n2 n3] 3", "2 zone=z [hypernode-net-tier1] 1"];
    assert_eq!(world.shown(), all);
    world.event(HyperNodeEvent::NodeGone("n1".to_owned()));
    world.settle();
    assert_eq!(world.shown()[0], "1 rack=r1 [n2 n3] 2");
    // One that a person deletes is created again, with the same name.
    let names: Vec<String> = world.stored.keys().cloned().collect();
    let old: HyperNode = serde_json::from_value(world.stored.remove(&names[0]).unwrap()).unwrap();
    world.event(HyperNodeEvent::HyperNodeGone(Arc::new(old)));
    world.settle();
    let again: Vec<String> = world.stored.keys().cloned().collect();
    assert_eq!(names, again);
}

#[test]
fn s6_243_hyper_nodes_of_people_and_of_other_sources_are_left_alone_but_counted() {
    let mut world = World::new(CONF);
    for (name, source) in [("mine", ""), ("fabric", "ufm")] {
        world.write(name, |object| {
            object["metadata"]["labels"] = json!({SOURCE_LABEL: source, "rack": "r1"});
            object["spec"] = json!({"tier": 1, "members": [
                {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"rack": "r1"}}}},
            ]});
        });
    }
    let before = world.stored.clone();
    three_nodes(&mut world);
    for (name, before) in before {
        let now = &world.stored[&name];
        assert_eq!(now["spec"], before["spec"]);
        assert_eq!(now["status"]["nodeCount"], 2);
    }
    assert_eq!(world.stored.len(), 5);
    // A count follows the nodes, which Volcano's does not (S6-242).
    let labels = json!({"rack": "r1"});
    world.event(HyperNodeEvent::Node(node("n4", &labels)));
    world.settle();
    assert_eq!(world.stored["mine"]["status"]["nodeCount"], 3);
}

#[test]
fn s6_243_a_name_that_another_object_has_is_avoided() {
    let mut world = World::new(CONF);
    three_nodes(&mut world);
    let name = world.stored.keys().next().unwrap().clone();
    // The same cluster, in which a person was faster; the watch shows that late.
    let mut world = World::new(CONF);
    let foreign = json!({"metadata": {"name": name, "uid": "foreign", "resourceVersion": "1"}, "spec": {"tier": 9}});
    world.stored.insert(name.clone(), foreign.clone());
    three_nodes(&mut world);
    assert_eq!(world.stored[&name], foreign);
    assert_eq!(world.stored.len(), 4);
}

#[test]
fn without_a_source_discovered_hyper_nodes_stay() {
    let mut world = World::new(CONF);
    three_nodes(&mut world);
    let before = world.shown();
    world.event(HyperNodeEvent::Discovery(conf("").label));
    world.event(HyperNodeEvent::Node(node("n3", &json!({}))));
    world.settle();
    assert_eq!(world.shown(), before);
}

#[test]
fn a_call_that_fails_is_tried_again_later_and_others_are_not_held_up() {
    let mut world = World::new(CONF);
    for (name, rack) in [("n1", "r1"), ("n2", "r2")] {
        world.event(HyperNodeEvent::Node(node(name, &json!({"rack": rack}))));
    }
    world.event(HyperNodeEvent::Listed);
    let (first, _) = world.calls.remove(0);
    let refusal = Refusal::Other("the API server is overloaded".to_owned());
    world.event(HyperNodeEvent::Answer(first, Err(refusal)));
    assert_eq!(world.calls.len(), 1);
    world.settle();
    assert_eq!(world.shown(), ["1 rack=r1 [n1] 1", "1 rack=r2 [n2] 1"]);
}

#[test]
fn states_of_nodes_that_change_no_label_cost_nothing() {
    let mut world = World::new(CONF);
    three_nodes(&mut world);
    let labels = json!({"zone": "z", "rack": "r2"});
    let commands = world
        .machine
        .on_event(world.now, HyperNodeEvent::Node(node("n3", &labels)));
    assert_eq!(commands, []);
}

#[test]
fn labels_that_make_too_many_hyper_nodes_suspend_the_discovery() {
    let mut world = World::new(CONF);
    for number in 0..10_001 {
        let labels = json!({"rack": format!("r{number}")});
        world.event(HyperNodeEvent::Node(node(&format!("n{number}"), &labels)));
    }
    world.event(HyperNodeEvent::Listed);
    world.settle();
    assert!(world.stored.is_empty());
    assert_eq!(world.suspended.len(), 1);
    assert!(
        world.suspended[0].contains("10001 HyperNodes"),
        "{:?}",
        world.suspended
    );
}

#[test]
fn s6_245_each_mistake_of_the_sources_is_reported_with_its_place() {
    let read = |text: &str| {
        let error = DiscoveryConf::parse("c.conf", text)
            .unwrap_err()
            .to_string();
        error.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let ufm = "networkTopologyDiscovery:\n- source: ufm\n  enabled: true\n";
    let found = read(ufm);
    let start = "c.conf:2:11: networkTopologyDiscovery[0].source: ufm is not supported: ";
    assert!(
        found[0].starts_with(start) && found[0].contains("use source label"),
        "{found:?}"
    );
    assert!(conf(&ufm.replace("true", "false")).label.is_none());
    let found = read(&ufm.replace("ufm", "roce"));
    assert!(
        found[0].ends_with("\"roce\" is no source of HyperNodes; there is label"),
        "{found:?}"
    );
    // Volcano would delete all its HyperNodes.
    let found = read(&CONF.replace("networkTopologyTypes", "networkTopologyType"));
    assert!(found[0].contains("needs types of networks"), "{found:?}");
    let found = read(&CONF.replace("net:", "a-name-of-too-many-bytes:"));
    let start = "c.conf:6:7: networkTopologyDiscovery[0].config.networkTopologyTypes.a-name-of-too-many-bytes: ";
    assert!(found[0].starts_with(start), "{found:?}");
    let found = read(&CONF.replace("zone", "rack"));
    assert!(
        found[0].contains("the label rack stands twice"),
        "{found:?}"
    );
    let one = CONF.replace("      - nodeLabel: zone\n      - nodeLabel: rack\n", "");
    assert!(
        read(&one)[0].contains("at least two labels"),
        "{:?}",
        read(&one)
    );
    assert!(read("a: [")[0].contains("it is not YAML"));
    assert!(read("- a")[0].contains("is not a map"));
    let twice = format!("{CONF}{}", CONF.replace("networkTopologyDiscovery:\n", ""));
    assert!(
        read(&twice)[0].contains("enabled twice"),
        "{:?}",
        read(&twice)
    );
    let unknown = conf(&CONF.replace("  enabled", "  intervall: 1h\n  enabled"));
    let warning = unknown.warnings[0].to_string();
    assert!(
        warning.contains("did you mean networkTopologyDiscovery[0].interval?"),
        "{warning}"
    );
    assert!(conf("").label.is_none() && conf(CONF).label.is_some());
}

/// Older definitions of HyperNodes have no name of the tier and no count.
#[test]
fn fields_that_the_api_server_drops_are_not_written_again_at_once() {
    let mut world = World::new(CONF);
    let labels = json!({"rack": "r1"});
    world.event(HyperNodeEvent::Node(node("n1", &labels)));
    world.event(HyperNodeEvent::Listed);
    let (name, _) = world.calls.remove(0);
    let mut stored = json!({
        "metadata": {"name": name, "uid": "u", "resourceVersion": "1", "labels": {SOURCE_LABEL: "label", "rack": "r1"}},
        "spec": {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "n1"}}}]},
    });
    let mut written = 0;
    for second in 0..3600 {
        let object: HyperNode = serde_json::from_value(stored.clone()).unwrap();
        let answer = Ok(Some(Arc::new(object)));
        if second == 0 || world.calls.pop().is_some() {
            world.event(HyperNodeEvent::Answer(name.clone(), answer));
            written += 1;
        }
        world.now += SignedDuration::from_secs(1);
        world.event(HyperNodeEvent::Tick);
    }
    // The longest pause of retries is three minutes.
    assert!((2..60).contains(&written), "{written} calls in an hour");
    // A change that arrives by watch before its answer is none that was dropped.
    stored["metadata"]["resourceVersion"] = json!("2");
    stored["spec"]["tierName"] = json!("rack");
    stored["status"] = json!({"nodeCount": 1});
    let object: HyperNode = serde_json::from_value(stored).unwrap();
    world.event(HyperNodeEvent::HyperNode(Arc::new(object)));
    world.settle();
    world.now += SignedDuration::from_hours(1);
    world.event(HyperNodeEvent::Tick);
    assert_eq!(world.calls, []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever happens, in the end the HyperNodes are those of the labels, and people keep theirs.
    #[test]
    fn the_hyper_nodes_become_those_of_the_labels(
        steps in prop::collection::vec((0..6_u8, 0..4_usize, 0..3_usize, 0..2_usize), 1..30)
    ) {
        let mut world = World::new(CONF);
        world.event(HyperNodeEvent::Listed);
        let mut nodes: BTreeMap<String, Value> = BTreeMap::new();
        for (step, name, rack, zone) in steps {
            let name = format!("n{name}");
            match step {
                0..=2 => {
                    let labels = json!({"rack": format!("r{rack}"), "zone": format!("z{zone}")});
                    nodes.insert(name.clone(), labels.clone());
                    world.event(HyperNodeEvent::Node(node(&name, &labels)));
                }
                3 => {
                    nodes.remove(&name);
                    world.event(HyperNodeEvent::NodeGone(name));
                }
                4 => {
                    // A person changes one of them.
                    if let Some(known) = world.stored.keys().nth(rack).cloned() {
                        world.write(&known, |object| object["spec"]["tier"] = json!(7));
                    }
                }
                _ => world.settle(),
            }
        }
        world.settle();
        let mut fresh = World::new(CONF);
        for (name, labels) in &nodes {
            fresh.event(HyperNodeEvent::Node(node(name, labels)));
        }
        fresh.event(HyperNodeEvent::Listed);
        fresh.settle();
        prop_assert_eq!(world.shown(), fresh.shown());
    }
}
