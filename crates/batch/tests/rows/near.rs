//! Network topologies by evictd's rules: what cannot be kept waits and says so, and evictions respect them (S6-175, S6-188,
//! S6-191).

use evictd_batch::conf::Conf;
use evictd_batch::session::{Cache, Objects, Outcome, Setting, simulate};
use evictd_batch_objects::{Compat, Difference};
use evictd_placement::Cluster;
use serde::Deserialize;
use serde_json::{Value, json};

const PLUGINS: &str = "priority gang capacity predicates network-topology-aware";

/// Two racks in a row, each of two nodes with 2 cpu, and what a test adds.
struct Racks(Value);

fn hyper_node(name: &str, tier: i32, kind: &str, members: &[&str]) -> Value {
    let members = members
        .iter()
        .map(|name| json!({"type": kind, "selector": {"exactMatch": {"name": name}}}));
    let members: Vec<Value> = members.collect();
    json!({"metadata": {"name": name}, "spec": {"tier": tier, "tierName": format!("t{tier}"), "members": members}})
}

impl Racks {
    fn new(actions: &str, plugins: &str) -> Self {
        let plugins = plugins.split(' ').map(|name| json!({"name": name}));
        let plugins: Vec<Value> = plugins.collect();
        let conf = json!({"actions": actions, "tiers": [{"plugins": plugins}]});
        let nodes = ["a1", "a2", "b1", "b2"].map(|name| {
            json!({"metadata": {"name": name},
                "status": {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "9"}}})
        });
        let queues = ["root", "old", "new"].map(|name| {
            json!({"metadata": {"name": name},
                "spec": {"weight": 1, "deserved": {"cpu": "4", "memory": "16Gi"}}, "status": {"state": "Open"}})
        });
        Self(json!({
            "conf": conf.to_string(), "nodes": nodes, "queues": queues,
            "hyperNodes": [
                hyper_node("rack-a", 1, "Node", &["a1", "a2"]),
                hyper_node("rack-b", 1, "Node", &["b1", "b2"]),
                hyper_node("row", 2, "HyperNode", &["rack-a", "rack-b"]),
            ],
            "priorityClasses": [{"metadata": {"name": "high"}, "value": 100}],
            "podGroups": [], "pods": [],
        }))
    }

    fn push(&mut self, list: &str, object: Value) {
        self.0[list].as_array_mut().unwrap().push(object);
    }

    /// A job with so many pods of 1 cpu: each on one of these nodes, or pending for `""`.
    fn job(mut self, name: &str, spec: &Value, nodes: &[&str]) -> Self {
        let mut of_job = json!({"minMember": nodes.len()});
        for (key, value) in spec.as_object().unwrap() {
            of_job[key] = value.clone();
        }
        self.push("podGroups", json!({
            "metadata": {"namespace": "default", "name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": of_job, "status": {"phase": "Inqueue"},
        }));
        for (index, node) in nodes.iter().enumerate() {
            let phase = if node.is_empty() {
                "Pending"
            } else {
                "Running"
            };
            self.push("pods", json!({
                "metadata": {"namespace": "default", "name": format!("{name}-{index}"), "uid": format!("{name}-{index}"),
                    "labels": {"part": (index / 2).to_string()},
                    "annotations": {"scheduling.k8s.io/group-name": name}},
                "spec": {"schedulerName": "volcano", "nodeName": node,
                    "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
                "status": {"phase": phase},
            }));
        }
        self
    }

    fn run(&self, compat: Compat) -> Outcome {
        let objects = Objects::deserialize(&self.0).unwrap();
        simulate(&objects, &Setting::default(), compat).unwrap().0
    }
}

/// The racks of these pods, without doubles.
fn racks<'o>(nodes: impl Iterator<Item = &'o String>) -> String {
    let mut racks: Vec<char> = nodes.filter_map(|node| node.chars().next()).collect();
    racks.sort_unstable();
    racks.dedup();
    racks.into_iter().collect()
}

/// A change of the cluster.
type Change<'c> = &'c dyn Fn(&mut Racks);

fn hard(queue: &str, tier: i32) -> Value {
    json!({"queue": queue, "networkTopology": {"mode": "hard", "highestTierAllowed": tier}})
}

fn says(outcome: &Outcome, job: &str) -> String {
    let group = &outcome.pod_groups[&format!("default/{job}")];
    let conditions = group.conditions.iter();
    conditions
        .map(|condition| condition.message.as_str())
        .collect()
}

#[test]
fn s6_175_a_hard_topology_that_cannot_be_kept_waits_and_says_why() {
    let topology = |topology: Value| json!({"queue": "new", "networkTopology": topology});
    let twice = |racks: &mut Racks| {
        racks.push(
            "hyperNodes",
            hyper_node("other", 2, "HyperNode", &["rack-a"]),
        );
    };
    let none = |racks: &mut Racks| racks.0["hyperNodes"] = json!([]);
    let left = |_: &mut Racks| {};
    let table: [(Value, Change<'_>, &str, &str); 6] = [
        (
            json!({"mode": "hard", "highestTierName": "rack"}),
            &left,
            PLUGINS,
            "no HyperNode has the tier name rack; there are t1, t2",
        ),
        (
            json!({"highestTierName": "rack"}),
            &left,
            PLUGINS,
            "no HyperNode has the tier name rack",
        ),
        (
            json!({"mode": "hard"}),
            &left,
            PLUGINS,
            "a hard topology needs highestTierAllowed or highestTierName",
        ),
        (
            json!({"mode": "hard", "highestTierAllowed": 0}),
            &left,
            PLUGINS,
            "the lowest tier of a HyperNode is 1",
        ),
        (
            json!({"mode": "hard", "highestTierAllowed": 1}),
            &none,
            PLUGINS,
            "there are no HyperNodes",
        ),
        (
            json!({"mode": "hard", "highestTierAllowed": 1}),
            &left,
            "priority gang capacity predicates",
            "no plugin network-topology-aware",
        ),
    ];
    for (written, change, plugins, words) in table {
        let mut racks = Racks::new("enqueue, allocate", plugins);
        change(&mut racks);
        let racks = racks.job("near", &topology(written.clone()), &["", ""]);
        let waits = racks.run(Compat::EVICTD);
        assert!(waits.bound.is_empty(), "{written}: {:?}", waits.binds);
        let said = says(&waits, "near");
        assert!(said.contains(words), "{written}: {said}");
    }
    let mut racks = Racks::new("enqueue, allocate", PLUGINS);
    twice(&mut racks);
    let racks = racks.job("near", &topology(json!({"mode": "soft"})), &["", ""]);
    let said = says(&racks.run(Compat::EVICTD), "near");
    assert!(said.contains("rack-a already has a parent other"), "{said}");
    // In Volcano an unknown name means that the job may be anywhere.
    let unknown = topology(json!({"mode": "hard", "highestTierName": "rack"}));
    let racks = Racks::new("allocate", PLUGINS).job("near", &unknown, &["", "", "", "", ""]);
    assert_eq!(racks.run(Compat::VOLCANO).bound.len(), 5);
}

#[test]
fn a_hard_topology_of_a_tier_above_all_others_is_kept_in_one_hyper_node() {
    let mut racks =
        Racks::new("allocate", PLUGINS).job("near", &hard("new", 9), &["", "", "", "", ""]);
    // Without the row there is no HyperNode for all five.
    racks.0["hyperNodes"].as_array_mut().unwrap().pop();
    assert_eq!(racks.run(Compat::VOLCANO).bound.len(), 5);
    let waits = racks.run(Compat::EVICTD);
    assert!(waits.bound.is_empty());
    let said = says(&waits, "near");
    assert!(
        said.contains(
            "in one HyperNode of tier 1 or lower: at best there is room for 4 of 5, in rack-a"
        ),
        "{said}"
    );
}

/// The racks of the victims, and how many there are.
fn victims(outcome: &Outcome, racks: &Racks) -> (String, usize) {
    let pods = racks.0["pods"].as_array().unwrap();
    let node = |pod: &str| {
        let mut pods = pods.iter();
        let of_pod = |object: &&Value| pod.ends_with(object["metadata"]["name"].as_str().unwrap());
        pods.find(of_pod).unwrap()["spec"]["nodeName"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let nodes: Vec<String> = outcome
        .evicted
        .iter()
        .map(|victim| node(&victim.pod))
        .collect();
    (self::racks(nodes.iter()), nodes.len())
}

#[test]
fn s6_191_reclaim_takes_room_in_one_hyper_node_of_a_hard_topology() {
    // One pod each, so that every victim can be spared.
    let mut racks = Racks::new("reclaim", PLUGINS);
    for (index, node) in ["a1", "a1", "b1", "b1", "a2", "a2", "b2", "b2"]
        .iter()
        .enumerate()
    {
        racks = racks.job(
            &format!("old{index}"),
            &json!({"queue": "old", "minMember": 0}),
            &[node],
        );
    }
    let racks = racks.job("near", &hard("new", 1), &["", "", ""]);
    let outcome = racks.run(Compat::EVICTD);
    let (of_racks, count) = victims(&outcome, &racks);
    assert_eq!((of_racks.len(), count), (1, 3), "{:?}", outcome.evicted);
    assert_eq!(self::racks(outcome.pipelined.values()), of_racks);
}

#[test]
fn s6_191_preempt_takes_room_in_one_hyper_node_of_a_hard_topology() {
    let mut racks = Racks::new("preempt", "priority gang predicates network-topology-aware");
    for (index, node) in ["a1", "a1", "b1", "b1", "a2", "a2", "b2", "b2"]
        .iter()
        .enumerate()
    {
        racks = racks.job(
            &format!("old{index}"),
            &json!({"queue": "new", "minMember": 0}),
            &[node],
        );
    }
    let mut near = hard("new", 1);
    near["priorityClassName"] = json!("high");
    let racks = racks.job("near", &near, &["", "", ""]);
    let outcome = racks.run(Compat::EVICTD);
    let (of_racks, count) = victims(&outcome, &racks);
    assert_eq!((of_racks.len(), count), (1, 3), "{:?}", outcome.evicted);
    // Volcano's preempt leaves such a job out.
    assert!(racks.run(Compat::VOLCANO).evicted.is_empty());
}

#[test]
fn s6_179_pods_join_those_that_run_and_a_rack_that_is_full_lets_them_wait() {
    let spec = hard("new", 1);
    let mut near = spec.clone();
    near["minMember"] = json!(2);
    let racks = Racks::new("allocate", PLUGINS)
        .job("other", &json!({"queue": "old"}), &["b2", "b2"])
        .job("near", &near, &["b1", "b1", "", ""]);
    let outcome = racks.run(Compat::EVICTD);
    assert!(outcome.bound.is_empty(), "{:?}", outcome.binds);
    let racks = Racks::new("allocate", PLUGINS).job("near", &near, &["b1", "b1", "", ""]);
    let outcome = racks.run(Compat::EVICTD);
    assert_eq!(self::racks(outcome.binds.values()), "b");
    assert_eq!(outcome.bound.len(), 2);
}

#[test]
fn s6_188_s6_189_parts_of_a_job_have_a_minimum_and_a_topology_of_their_own() {
    let parts = |min: i32| {
        json!({"queue": "new", "minMember": 2, "subGroupPolicy": [{
            "name": "p", "subGroupSize": 2, "minSubGroups": min, "matchLabelKeys": ["part"],
            "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
        }]})
    };
    for compat in [Compat::EVICTD, Compat::VOLCANO] {
        let racks = Racks::new("allocate", PLUGINS).job("parts", &parts(2), &["", "", "", ""]);
        let outcome = racks.run(compat);
        for part in [["0", "1"], ["2", "3"]] {
            let nodes = part.map(|index| &outcome.binds[&format!("default/parts-{index}")]);
            assert_eq!(
                self::racks(nodes.into_iter()).len(),
                1,
                "{:?}",
                outcome.binds
            );
        }
        // Three parts are not there.
        let racks = Racks::new("allocate", PLUGINS).job("parts", &parts(3), &["", "", "", ""]);
        let outcome = racks.run(compat);
        assert!(outcome.bound.is_empty());
        assert_eq!(
            outcome.invalid_jobs["default/parts"].reason,
            "NotEnoughPodsOfTask"
        );
    }
}

#[test]
fn a_job_in_a_hyper_node_of_an_earlier_tree_is_in_none_of_a_smaller_one() {
    let racks = Racks::new("allocate", PLUGINS).job("near", &hard("new", 2), &["a1", "b1"]);
    let objects = Objects::deserialize(&racks.0).unwrap();
    let conf = Conf::read(&objects.conf).unwrap();
    for compat in [Compat::EVICTD, Compat::VOLCANO] {
        let mut cluster = Cluster::new();
        for node in &objects.nodes {
            assert!(cluster.add_node(node));
        }
        for pod in &objects.pods {
            cluster.add_pod(pod.clone()).unwrap();
        }
        let mut cache = Cache::of(&mut cluster, &objects, Setting::default());
        let outcome = cache.session(&mut cluster, &conf, compat);
        let groups = outcome.allocated_hyper_nodes_at_open.unwrap();
        assert_eq!(groups["default/near"].job, "row");
        // One rack is left, and contains itself.
        cache.remove_hyper_node("row");
        cache.remove_hyper_node("rack-b");
        let circle = hyper_node("rack-a", 1, "HyperNode", &["rack-a"]);
        cache.hyper_node(&serde_json::from_value(circle).unwrap());
        let outcome = cache.session(&mut cluster, &conf, compat);
        assert_eq!(outcome.hyper_nodes_ready, Some(false));
        assert!(outcome.allocated_hyper_nodes_at_open.unwrap().is_empty());
    }
}

#[test]
fn s6_188_a_hard_topology_of_pods_that_no_policy_can_match_waits_and_says_so() {
    let near = json!({"mode": "hard", "highestTierAllowed": 1});
    let says_of = |policy: Value| {
        let spec = json!({"queue": "new", "subGroupPolicy": [policy]});
        let racks = Racks::new("enqueue, allocate", PLUGINS).job("near", &spec, &["", ""]);
        let outcome = racks.run(Compat::EVICTD);
        (outcome.bound.len(), says(&outcome, "near"))
    };
    let (bound, said) = says_of(json!({"name": "p", "networkTopology": near}));
    let words = "spec.subGroupPolicy p: without matchLabelKeys it matches no pod";
    assert!(bound == 0 && said.contains(words), "{bound}: {said}");
    let unreadable = json!({"name": "q", "matchLabelKeys": 7, "networkTopology": near});
    let (bound, said) = says_of(unreadable);
    let words = "spec.subGroupPolicy q: it cannot be read: invalid type";
    assert!(bound == 0 && said.contains(words), "{bound}: {said}");
    // Without a topology the pods may be anywhere.
    let (bound, said) = says_of(json!({"name": "r"}));
    assert_eq!(bound, 2, "{said}");
    let soft = json!({"name": "s", "networkTopology": {"mode": "soft"}});
    assert_eq!(says_of(soft).0, 2);
}

#[test]
fn parts_with_the_same_name_are_not_the_same_part() {
    let spec = json!({"queue": "new", "minMember": 1, "subGroupPolicy": [{
        "name": "p", "subGroupSize": 1, "minSubGroups": 2, "matchLabelKeys": ["x", "y"],
    }]});
    let mut racks = Racks::new("allocate", PLUGINS).job("parts", &spec, &["", ""]);
    for (at, labels) in [("a-b", "c"), ("a", "b-c")].into_iter().enumerate() {
        racks.0["pods"][at]["metadata"]["labels"] = json!({"x": labels.0, "y": labels.1});
    }
    assert_eq!(racks.run(Compat::EVICTD).bound.len(), 2);
    // In Volcano their names decide, so there is one part.
    assert!(racks.run(Compat::VOLCANO).bound.is_empty());
}

#[test]
fn s6_194_evictions_for_a_gang_are_tried_in_so_many_groups() {
    let evicted = |most: i64| {
        let plugins = "priority gang predicates network-topology-aware";
        let mut racks = Racks::new("gangpreempt", plugins);
        let mut conf: Value = serde_json::from_str(racks.0["conf"].as_str().unwrap()).unwrap();
        let arguments = json!({"maxDomains": most});
        conf["configurations"] = json!([{"name": "gangpreempt", "arguments": arguments}]);
        racks.0["conf"] = json!(conf.to_string());
        let as_high = json!({"queue": "new", "priorityClassName": "high"});
        let low = json!({"queue": "new", "minMember": 0});
        let mut near = hard("new", 1);
        near["priorityClassName"] = json!("high");
        // Only the pods of the second rack have a lower priority.
        let racks = racks
            .job("kept", &as_high, &["a1", "a1", "a2", "a2"])
            .job("low", &low, &["b1", "b1", "b2", "b2"])
            .job("near", &near, &["", ""]);
        victims(&racks.run(Compat::EVICTD), &racks)
    };
    assert_eq!(evicted(1), (String::new(), 0));
    assert_eq!(evicted(2), ("b".to_owned(), 2));
}

#[test]
fn the_widest_tiers_and_the_least_minima_overflow_nothing() {
    let mut racks = Racks::new("allocate, gangpreempt", PLUGINS);
    for (at, tier) in [i32::MIN, i32::MIN, i32::MAX].into_iter().enumerate() {
        racks.0["hyperNodes"][at]["spec"]["tier"] = json!(tier);
    }
    let old = json!({"queue": "new", "minMember": 0, "subGroupPolicy": [{
        "name": "p", "minSubGroups": i32::MIN, "matchLabelKeys": ["part"],
    }]});
    let mut near = json!({"queue": "new", "networkTopology": {"mode": "soft"}});
    near["priorityClassName"] = json!("high");
    let racks = racks.job("old", &old, &["a1", "a1", "a2", "b2", "b2"]).job(
        "near",
        &near,
        &["b1", "", "", "", ""],
    );
    for compat in [Compat::EVICTD, Compat::VOLCANO] {
        let outcome = racks.run(compat);
        assert!(!outcome.pipelined.is_empty() || !outcome.bound.is_empty());
    }
}

#[test]
fn s6_178_an_elastic_job_starts_where_not_all_its_pods_fit() {
    for mode in ["hard", "soft"] {
        let topology = json!({"mode": mode, "highestTierAllowed": 2});
        let spec = json!({"queue": "new", "minMember": 1, "networkTopology": topology});
        // All nodes together have room for eight.
        let racks = Racks::new("enqueue, allocate", PLUGINS).job("wide", &spec, &[""; 10]);
        let bound = |compat| racks.run(compat).bound.len();
        assert_eq!(bound(Compat::EVICTD), 8, "{mode}");
        assert_eq!(bound(Compat::VOLCANO), 0, "{mode}");
        let without = Compat::EVICTD.without(Difference::ElasticPartsStart);
        assert_eq!(bound(without), 0, "{mode}");
        // Its minResources are those of a whole application, as Spark's operator writes them.
        let mut spec = spec.clone();
        spec["minResources"] = json!({"cpu": "10"});
        let racks = Racks::new("allocate", PLUGINS).job("spark", &spec, &[""]);
        let bound = |compat| racks.run(compat).bound.len();
        assert_eq!(
            (bound(Compat::EVICTD), bound(Compat::VOLCANO)),
            (1, 0),
            "{mode}"
        );
    }
}

#[test]
fn a_gang_that_no_hyper_node_can_hold_keeps_no_share() {
    let bound = |near: usize| {
        let plugins = "gang proportion predicates network-topology-aware";
        let racks = Racks::new("allocate", plugins)
            .job("whole", &json!({"queue": "new"}), &[""; 5])
            .job("near", &hard("old", 1), &vec![""; near]);
        let outcome = racks.run(Compat::EVICTD);
        let of = |job: &str| outcome.binds.keys().filter(|pod| pod.contains(job)).count();
        (of("whole"), of("near"))
    };
    // Half of the nodes is too little for one of them. A rack holds four.
    assert_eq!(bound(4), (0, 4));
    assert_eq!(bound(5), (5, 0));
}
