//! Who gets room, and where.

use crate::scenario::{Scenario, bound, conf, events_of, short};
use evictd_batch::conf::Conf;
use evictd_batch::session::{Cache, Outcome, Setting};
use evictd_batch_objects::Compat;
use evictd_placement::Cluster;
use evictd_pod::wire;
use serde_json::{Value, json};

const GANG: &[&str] = &["priority", "gang"];
const NODES: &[&str] = &["predicates", "nodeorder"];

fn affinity(terms: &Value) -> Value {
    json!({"spec": {"affinity": terms}})
}

#[test]
fn s6_098_every_filter_has_to_agree_and_scores_are_added() {
    let selector = json!({"spec": {"nodeSelector": {"disk": "ssd"}}});
    let nodes = |plugins: &[&str]| {
        Scenario::new(&conf("allocate", &[&["gang"], plugins]))
            .node_with(
                "full",
                "8",
                &json!({"metadata": {"labels": {"disk": "ssd"}}}),
            )
            .node_with(
                "empty",
                "8",
                &json!({"metadata": {"labels": {"disk": "ssd"}}}),
            )
            .node("other", "80")
            .job("old", 0, "Running")
            .running("old", 0, &["full"], "2")
            .job("j", 1, "Inqueue")
            .pod("j-work-0", "j", "1", &selector)
            .run()
    };
    assert_eq!(
        bound(&nodes(&["predicates", "nodeorder"]), "j-work-0"),
        Some("empty")
    );
    // binpack likes the full one by more than nodeorder likes the empty one.
    let strong = "{name: binpack, arguments: {binpack.weight: 10}}";
    let both = nodes(&["predicates", "nodeorder", strong]);
    assert_eq!(bound(&both, "j-work-0"), Some("full"));
    // Without predicates nobody keeps it off the largest.
    assert_eq!(bound(&nodes(&["nodeorder"]), "j-work-0"), Some("other"));
}

#[test]
fn s6_103_placements_of_a_gang_that_does_not_start_are_undone() {
    let outcome = Scenario::new(&conf(
        "allocate",
        &[&["priority", "gang", "drf"], &["proportion", "predicates"]],
    ))
    .class("high", 10)
    .node("a", "2")
    .job_with("large", 3, "Inqueue", &json!({"priorityClassName": "high"}))
    .waiting("large", 3, "1")
    .job("small", 2, "Inqueue")
    .waiting("small", 2, "1")
    .run();
    assert_eq!(short(&outcome.bound), ["small-work-0", "small-work-1"]);
    let after = &outcome.queues_after.as_ref().unwrap()["q"];
    assert_eq!(after.allocated["cpu"].0.to_bits(), 2000.0_f64.to_bits());
}

#[test]
fn s6_107_tasks_beyond_the_deserved_share_of_the_queue_are_passed_over() {
    let outcome = Scenario::new(&conf(
        "allocate",
        &[&["gang"], &["proportion", "predicates"]],
    ))
    .queue("r", &json!({"capability": {"cpu": "2"}}))
    .node("a", "8")
    .job_with("j", 1, "Inqueue", &json!({"queue": "r"}))
    .pod("j-work-0", "j", "3", &json!({}))
    .pod("j-work-1", "j", "1", &json!({}))
    .run();
    assert_eq!(short(&outcome.bound), ["j-work-1"]);
    // Nothing is told of the one that was passed over but the state of its job.
    let waits = &outcome.pod_conditions["default/j-work-0"];
    assert!(
        waits.message.starts_with("pod group is ready, 1 Binding"),
        "{}",
        waits.message
    );
    // The queue with the smaller part of what it deserves comes first, anew after each turn.
    let shared = Scenario::new(&conf(
        "allocate",
        &[&["gang"], &["proportion", "predicates"]],
    ))
    .queue("r", &json!({"weight": 3}))
    .node("a", "4")
    .job("one", 1, "Inqueue")
    .waiting("one", 4, "1")
    .job_with("other", 1, "Inqueue", &json!({"queue": "r"}))
    .waiting("other", 4, "1")
    .run();
    let count = |job: &str| {
        short(&shared.bound)
            .iter()
            .filter(|pod| pod.starts_with(job))
            .count()
    };
    assert_eq!((count("one"), count("other")), (1, 3));
}

#[test]
fn s6_108_a_role_that_failed_is_not_tried_again() {
    let scenario = |min: i32| {
        Scenario::new(&conf("allocate", &[&["gang"], NODES]))
            .node("a", "2")
            .job("j", min, "Inqueue")
            .pod("j-work-0", "j", "3", &json!({}))
            .pod("j-work-1", "j", "1", &json!({}))
            .pod(
                "j-other-2",
                "j",
                "1",
                &json!({"metadata": {"annotations": {"volcano.sh/task-spec": "other"}}}),
            )
            .run()
    };
    let outcome = scenario(1);
    let message = |pod: &str| {
        outcome.pod_conditions[&format!("default/{pod}")]
            .message
            .clone()
    };
    assert_eq!(
        message("j-work-0"),
        "0/1 nodes are unavailable: 1 Insufficient cpu."
    );
    // The small one would fit, but is of the same role.
    assert_eq!(
        message("j-work-1"),
        "Task j-work-1 with role spec work has already predicated failed, skip"
    );
    assert_eq!(short(&outcome.bound), ["j-other-2"]);
    // Where all are needed, the first failure is the end.
    let all = scenario(3);
    assert!(all.bound.is_empty());
    let message = &all.pod_conditions["default/j-other-2"].message;
    assert!(message.starts_with("pod group is not ready"), "{message}");
}

#[test]
fn s6_108_a_node_that_refused_a_role_is_not_asked_again_in_that_turn() {
    // The first task leaves too little for its like on either node; the third is small, and only a node that has not
    // refused its role takes it.
    let refused = |conf_of: &str| {
        Scenario::new(conf_of)
            .node("a", "3")
            .node("b", "5")
            .job("j", 2, "Inqueue")
            .pod("j-work-0", "j", "4", &json!({}))
            .pod("j-work-1", "j", "1", &json!({}))
            .run()
    };
    let with = conf("allocate", &[&["gang"], NODES]);
    let outcome = refused(&with);
    assert_eq!(bound(&outcome, "j-work-0"), Some("b"));
    assert_eq!(
        bound(&outcome, "j-work-1"),
        Some("b"),
        "a has refused the role"
    );
    let without = format!(
        "{with}configurations:\n- name: allocate\n  arguments: {{predicateErrorCacheEnable: false}}\n"
    );
    assert_eq!(bound(&refused(&without), "j-work-1"), Some("a"));
}

#[test]
fn s6_109_room_now_comes_before_room_later() {
    let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:10:00Z"},
        "spec": {"nodeName": "a"}, "status": {"phase": "Running"}});
    let scenario = |free: &str| {
        Scenario::new(&conf("allocate", &[&["gang"], NODES]))
            .node("a", "100")
            .node("b", free)
            .job("old", 0, "Running")
            .pod("old-work-0", "old", "100", &going)
            .job("j", 1, "Inqueue")
            .waiting("j", 1, "1")
            .run()
    };
    assert_eq!(bound(&scenario("1"), "j-work-0"), Some("b"));
    let later = scenario("500m");
    assert!(later.bound.is_empty());
    assert_eq!(later.pipelined["default/j-work-0"], "a");
}

#[test]
fn s6_110_a_job_that_waits_for_its_victims_holds_its_room() {
    let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:10:00Z"},
        "spec": {"nodeName": "a"}, "status": {"phase": "Running"}});
    let outcome = Scenario::new(&conf("allocate", &[GANG, NODES]))
        .class("high", 10)
        .node("a", "2")
        .job("old", 0, "Running")
        .pod("old-work-0", "old", "1", &going)
        .job_with("pair", 2, "Inqueue", &json!({"priorityClassName": "high"}))
        .waiting("pair", 2, "1")
        .job("later", 1, "Inqueue")
        .waiting("later", 1, "1")
        .run();
    assert!(outcome.bound.is_empty());
    assert_eq!(outcome.allocated_not_bound, ["default/pair-work-0 -> a"]);
    assert_eq!(short(outcome.pipelined.keys()), ["pair-work-1"]);
    let told = &outcome.pod_conditions["default/pair-work-0"];
    assert_eq!(
        (told.reason.as_str(), told.message.as_str()),
        (
            "Schedulable",
            "Pod default/pair-work-0 can possibly be assigned to a, once minAvailable is satisfied"
        )
    );
    // Once a job has enough, others have their turn after each of its further tasks.
    let turns = Scenario::new(&conf("allocate", &[&["drf", "gang"], NODES]))
        .node("a", "4")
        .job("one", 1, "Inqueue")
        .waiting("one", 4, "1")
        .job("two", 1, "Inqueue")
        .waiting("two", 4, "1")
        .run();
    let bound = short(&turns.bound);
    assert_eq!(
        bound,
        ["one-work-0", "one-work-1", "two-work-0", "two-work-1"]
    );
}

#[test]
fn s6_111_tasks_that_ask_for_nothing_are_placed_at_the_end() {
    let full = json!({"status": {"allocatable": {"cpu": "4", "memory": "1Gi", "pods": "1"}}});
    let scenario = |actions: &str| {
        Scenario::new(&conf(actions, &[GANG, NODES]))
            .node("a", "2")
            .node_with("b", "4", &full)
            .job("old", 0, "Running")
            .running("old", 0, &["b"], "1")
            .job("j", 2, "Inqueue")
            .waiting("j", 2, "0")
            .job("pending", 1, "Pending")
            .waiting("pending", 1, "0")
            .run()
    };
    assert!(scenario("allocate").bound.is_empty());
    let outcome = scenario("enqueue, backfill");
    assert_eq!(
        short(&outcome.bound),
        ["j-work-0", "j-work-1", "pending-work-0"]
    );
    assert!(
        outcome.binds.values().all(|node| node == "a"),
        "b takes no pod more"
    );
}

#[test]
fn s6_135_filters_are_kube_schedulers_own_with_its_words() {
    let port = json!({"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]}});
    let mut taken = port.clone();
    taken["spec"]["nodeName"] = json!("port");
    taken["status"] = json!({"phase": "Running"});
    let crowded = json!({"status": {"allocatable": {"cpu": "4", "memory": "1Gi", "pods": "0"}}});
    let outcome = Scenario::new(&conf("backfill", &[&["gang"], NODES]))
        .node("port", "1")
        .node_with("cordoned", "1", &json!({"spec": {"unschedulable": true}}))
        .node_with(
            "tainted",
            "1",
            &json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}),
        )
        .node_with("crowded", "1", &crowded)
        .job("old", 0, "Running")
        .pod("old-work-0", "old", "0", &taken)
        .job("j", 1, "Inqueue")
        .pod("j-work-0", "j", "0", &port)
        .run();
    assert_eq!(
        outcome.pod_conditions["default/j-work-0"].message,
        "0/4 nodes are unavailable: 1 node(s) didn't have free ports for the requested pod ports, \
         1 node(s) had untolerated taint(s), 1 node(s) pod number exceeded, 1 node(s) were unschedulable."
    );
}

#[test]
fn s6_135_a_claim_that_cannot_be_had_keeps_its_pod_from_every_node() {
    for action in ["allocate", "backfill"] {
        let uses = json!({"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}});
        let cpu = if action == "backfill" { "0" } else { "1" };
        let text = conf(action, &[&["gang"], NODES]);
        let scenario = Scenario::new(&text)
            .node("one", "4")
            .node("two", "4")
            .job("j", 1, "Inqueue")
            .pod("j-work-0", "j", cpu, &uses);
        let objects = scenario.objects();
        let mut cluster = Cluster::new();
        for node in &objects.nodes {
            cluster.add_node(node);
        }
        let mut cache = Cache::of(&mut cluster, &objects, Setting::default());
        let conf = Conf::read(&text).unwrap();
        let mut session = |cluster: &mut Cluster| cache.session(cluster, &conf, Compat::VOLCANO);
        let words = |outcome: &Outcome| outcome.pod_conditions["default/j-work-0"].message.clone();
        assert_eq!(
            words(&session(&mut cluster)),
            "0/2 nodes are unavailable: 2 plugin VolumeZone pre-predicates failed \
             persistentvolumeclaim \"data\" not found."
        );
        let claim = |spec: Value, phase: &str| -> wire::PersistentVolumeClaim {
            let claim = json!({"metadata": {"name": "data", "namespace": "default"}, "spec": spec, "status": {"phase": phase}});
            serde_json::from_value(claim).unwrap()
        };
        let unbound = claim(json!({"storageClassName": "gone"}), "Pending");
        cluster.add_claim(&unbound).unwrap();
        assert_eq!(
            words(&session(&mut cluster)),
            "0/2 nodes are unavailable: 2 plugin VolumeZone pre-predicates failed \
             storageclass.storage.k8s.io \"gone\" not found."
        );
        let volume = json!({"metadata": {"name": "pv"}, "spec": {"claimRef": {"name": "data", "namespace": "default"}}});
        cluster
            .add_volume(&serde_json::from_value(volume).unwrap())
            .unwrap();
        cluster.remove_claim(&unbound.metadata);
        let bound_to = claim(json!({"volumeName": "pv"}), "Bound");
        cluster.add_claim(&bound_to).unwrap();
        assert!(bound(&session(&mut cluster), "j-work-0").is_some());
    }
}

#[test]
fn s6_136_nodes_are_scored_with_kube_schedulers_scores() {
    let node = |conf_of: &str, with: &Value| {
        let ssd = json!({"metadata": {"labels": {"disk": "ssd"}}});
        let old = json!({"spec": {"taints": [{"key": "old", "effect": "PreferNoSchedule"}]}});
        let outcome = Scenario::new(conf_of)
            .node_with("disk", "4", &ssd)
            .node("empty", "16")
            .node_with("old", "32", &old)
            .job("j", 1, "Inqueue")
            .pod("j-work-0", "j", "2", with)
            .run();
        bound(&outcome, "j-work-0").unwrap().to_owned()
    };
    let default = conf("allocate", &[&["gang"], NODES]);
    let nothing = json!({});
    // The emptiest of those without a taint.
    assert_eq!(node(&default, &nothing), "empty");
    let wish = affinity(
        &json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}}]}}),
    );
    assert_eq!(node(&default, &wish), "disk");
    let weights = |arguments: &str| {
        conf(
            "allocate",
            &[
                &["gang"],
                &[
                    "predicates",
                    &format!("{{name: nodeorder, arguments: {{{arguments}}}}}"),
                ],
            ],
        )
    };
    assert_eq!(node(&weights("tainttoleration.weight: 0"), &nothing), "old");
    let most = weights(
        "leastrequested.weight: 0, mostrequested.weight: 1, balancedresource.weight: 0, tainttoleration.weight: 0",
    );
    assert_eq!(node(&most, &nothing), "disk");
}

#[test]
fn s6_137_binpack_fills_nodes_by_the_weights_of_resources() {
    let node = |arguments: &str| {
        let gpu = |count: &str| json!({"status": {"allocatable": {"example.com/gpu": count}}});
        let asks = json!({"spec": {"containers": [{"name": "c", "resources": {"requests":
            {"cpu": "1", "example.com/gpu": "1"}}}]}});
        let outcome = Scenario::new(&conf(
            "allocate",
            &[
                &["gang"],
                &[&format!("{{name: binpack, arguments: {{{arguments}}}}}")],
            ],
        ))
        .node_with("cpu", "2", &gpu("8"))
        .node_with("gpu", "16", &gpu("1"))
        .job("j", 1, "Inqueue")
        .pod("j-work-0", "j", "1", &asks)
        .run();
        bound(&outcome, "j-work-0").unwrap().to_owned()
    };
    assert_eq!(node("binpack.cpu: 1"), "cpu");
    assert_eq!(
        node("binpack.resources: example.com/gpu, binpack.resources.example.com/gpu: 5"),
        "gpu"
    );
    // With no weight at all the name decides.
    assert_eq!(node("binpack.weight: 0"), "cpu");
}

#[test]
fn s6_142_all_nodes_are_looked_at() {
    let many = (0..300).fold(
        Scenario::new(&conf("allocate", &[&["gang"], NODES])),
        |own, index| own.node(&format!("n{index:03}"), "2"),
    );
    let outcome = many
        .node("z", "200")
        .job("j", 1, "Inqueue")
        .waiting("j", 1, "1")
        .run();
    assert_eq!(bound(&outcome, "j-work-0"), Some("z"));
    assert_eq!(outcome.session_nodes.len(), 301);
    assert!(events_of(&outcome, "j-work-0").is_empty());
}
