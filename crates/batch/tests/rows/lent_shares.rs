//! `LendUnusableShare`: shares that start no pod are lent.

use crate::scenario::{Scenario, conf, evicted};
use evictd_batch_objects::{Compat, Difference};
use serde_json::{Value, json};

fn only(difference: Difference) -> Compat {
    Compat::VOLCANO.with(difference)
}

#[test]
fn a_share_that_a_queue_cannot_use_is_redistributed() {
    let conf = conf("allocate", &[&["gang"], &["proportion", "predicates"]]);
    let two_queues = || Scenario::new(&conf).queue("r", &json!({})).node("a", "8");
    let scenario = |cores: &str| {
        two_queues()
            .job("small", 0, "Inqueue")
            .waiting("small", 8, "1")
            .job_with("large", 2, "Inqueue", &json!({"queue": "r"}))
            .waiting("large", 2, cores)
    };
    let ours = only(Difference::LendUnusableShare);
    let bound = |cores: &str, compat: Compat| {
        let outcome = scenario(cores).run_as(compat);
        let of = |job: &str| outcome.binds.keys().filter(|pod| pod.contains(job)).count();
        (of("small"), of("large"))
    };
    // Half of the cluster is too little for a gang of six cores: with Volcano it stands empty.
    assert_eq!(bound("3", Compat::VOLCANO), (4, 0));
    assert_eq!(bound("3", ours), (8, 0));
    assert_eq!(bound("2", ours), (4, 2));
    // Of two queues that could use nothing the one that may use more then lends nothing.
    let two = |compat: Compat| {
        let outcome = two_queues()
            .job("one", 2, "Inqueue")
            .waiting("one", 2, "3")
            .job_with("two", 2, "Inqueue", &json!({"queue": "r"}))
            .waiting("two", 2, "3")
            .run_as(compat);
        outcome.binds.len()
    };
    assert_eq!((two(Compat::VOLCANO), two(ours)), (0, 2));
}

/// What a pod asks for.
fn asks(cpu: &str, memory: &str) -> Value {
    json!({"spec": {"containers": [
        {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]}})
}

#[test]
fn a_queue_that_lends_one_resource_may_take_another() {
    let conf = conf("allocate", &[&["gang"], &["proportion", "predicates"]]);
    let bound = |compat: Compat| {
        let small = |scenario: Scenario, index: usize| {
            let name = format!("small{index}");
            let scenario = scenario.job(&name, 1, "Inqueue");
            scenario.pod(&format!("{name}-work-0"), &name, "1", &asks("1", "1Gi"))
        };
        let scenario = Scenario::new(&conf).queue("r", &json!({})).node("a", "8");
        let scenario = (0..8).fold(scenario, small);
        // Half of the cores are too few for either of these; what is left to `q` is memory, to `r` it is cores.
        scenario
            .job("wide", 2, "Inqueue")
            .pod("wide-work-0", "wide", "4", &asks("4", "40Gi"))
            .pod("wide-work-1", "wide", "4", &asks("4", "40Gi"))
            .job_with("large", 2, "Inqueue", &json!({"queue": "r"}))
            .pod("large-work-0", "large", "3", &asks("3", "1Gi"))
            .pod("large-work-1", "large", "3", &asks("3", "1Gi"))
            .run_as(compat)
            .binds
            .len()
    };
    assert_eq!(bound(Compat::VOLCANO), 4);
    assert_eq!(bound(only(Difference::LendUnusableShare)), 8);
}

#[test]
fn redistribution_asks_the_first_lender_again_for_its_usable_share() {
    let conf = conf("allocate", &[&["gang"], &["proportion", "predicates"]]);
    let outcome = Scenario::new(&conf)
        .queue("r", &json!({}))
        .node("a", "8")
        .job("first", 2, "Inqueue")
        .waiting("first", 2, "3")
        // All that there is is too little for this one.
        .job_with("never", 2, "Inqueue", &json!({"queue": "r"}))
        .waiting("never", 2, "5")
        .run_as(only(Difference::LendUnusableShare));
    assert_eq!(outcome.binds.len(), 2);
    assert!(outcome.binds.keys().all(|pod| pod.contains("first")));
}

#[test]
fn a_gang_that_empty_nodes_cannot_hold_keeps_no_share() {
    let conf = conf("allocate", &[&["gang"], &["proportion", "predicates"]]);
    let bound = |never: u8| {
        let nodes = Scenario::new(&conf).queue("r", &json!({})).node("a", "4");
        let outcome = nodes
            .node("b", "4")
            .node("c", "4")
            .job("whole", 3, "Inqueue")
            .waiting("whole", 3, "4")
            .job_with("never", i32::from(never), "Inqueue", &json!({"queue": "r"}))
            .waiting("never", usize::from(never), "1500m")
            .run_as(only(Difference::LendUnusableShare));
        outcome.binds.len()
    };
    // Seven of these ask for less than the three nodes have, and each node holds two.
    assert_eq!(bound(7), 3);
    // One of 5 cores is less than the share of its queue.
    let outcome = Scenario::new(&conf)
        .queue("r", &json!({}))
        .node("a", "4")
        .node("b", "4")
        .node("c", "4")
        .job("whole", 2, "Inqueue")
        .waiting("whole", 2, "4")
        .job_with("never", 1, "Inqueue", &json!({"queue": "r"}))
        .waiting("never", 1, "5")
        .run_as(only(Difference::LendUnusableShare));
    assert_eq!(outcome.binds.len(), 2);
    assert_eq!(bound(4), 4);
}

/// Pods that fit on no node, of a gang of none, and pods of which the nodes hold some at a time.
#[test]
fn pods_that_no_node_can_hold_keep_no_share() {
    let conf = conf("allocate", &[&["gang"], &["proportion", "predicates"]]);
    let bound = |(min, waiting): (i32, usize), cpu: &str, compat: Compat| {
        let outcome = Scenario::new(&conf)
            .queue("r", &json!({}))
            .node("a", "4")
            .node("b", "4")
            .job("whole", 2, "Inqueue")
            .waiting("whole", 2, "4")
            .job_with("never", min, "Inqueue", &json!({"queue": "r"}))
            .waiting("never", waiting, cpu)
            .run_as(compat);
        let of = |job: &str| outcome.binds.keys().filter(|pod| pod.contains(job)).count();
        (of("whole"), of("never"))
    };
    let ours = only(Difference::LendUnusableShare);
    assert_eq!(bound((0, 1), "5", Compat::VOLCANO), (0, 0));
    assert_eq!(bound((0, 1), "5", ours), (2, 0));
    assert_eq!(bound((0, 1), "4", ours), (0, 1));
    assert_eq!(bound((3, 3), "3", ours), (2, 0));
}

/// Queue `r` may have 2 cores, and its pods start one by one.
#[test]
fn pods_larger_than_the_share_of_their_queue_keep_none_of_it() {
    let conf = conf("allocate", &[&["gang"], &["proportion", "predicates"]]);
    let bound = |cores: &str, (whole, elastic): (usize, &[&str]), compat: Compat| {
        let scenario = Scenario::new(&conf)
            .queue("r", &json!({"capability": {"cpu": "2"}}))
            .node("a", cores)
            .job("whole", i32::try_from(whole).unwrap(), "Inqueue")
            .waiting("whole", whole, "1")
            .job_with("elastic", 0, "Inqueue", &json!({"queue": "r"}));
        let pods = elastic.iter().enumerate();
        let scenario = pods.fold(scenario, |scenario, (index, cpu)| {
            let name = format!("elastic-work-{index}");
            scenario.pod(&name, "elastic", cpu, &json!({}))
        });
        let outcome = scenario.run_as(compat);
        let of = |job: &str| outcome.binds.keys().filter(|pod| pod.contains(job)).count();
        (of("whole"), of("elastic"))
    };
    let ours = only(Difference::LendUnusableShare);
    let large = ["3", "3"];
    assert_eq!(bound("4", (4, &large), Compat::VOLCANO), (0, 0));
    assert_eq!(bound("4", (4, &large), ours), (4, 0));
    assert_eq!(bound("4", (4, &["2", "3"]), ours), (0, 1));
    // One pod fits into the share, and half a core of it is left.
    for pods in [["1500m", "3"], ["1500m", "1500m"]] {
        assert_eq!(bound("4500m", (3, &pods), Compat::VOLCANO), (0, 1));
        assert_eq!(bound("4500m", (3, &pods), ours), (3, 1));
    }
}

/// No node is in the only group that queue `r` may use.
#[test]
fn a_queue_whose_node_groups_are_absent_keeps_no_share() {
    let bound = |plugins: &[&str], group: &str| {
        let affinity =
            json!({"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["g"]}});
        let label = json!({"metadata": {"labels": {"volcano.sh/nodegroup-name": group}}});
        let label = if group.is_empty() { json!({}) } else { label };
        let outcome = Scenario::new(&conf("allocate", &[&["gang"], plugins]))
            .queue("r", &json!({"affinity": affinity}))
            .node("a", "4")
            .node_with("b", "4", &label)
            .job("whole", 1, "Inqueue")
            .pod("whole-work-0", "whole", "4", &json!({}))
            .pod("whole-work-1", "whole", "4", &json!({}))
            .job_with("other", 1, "Inqueue", &json!({"queue": "r"}))
            .waiting("other", 2, "4")
            .run_as(only(Difference::LendUnusableShare));
        let of = |job: &str| outcome.binds.keys().filter(|pod| pod.contains(job)).count();
        (of("whole"), of("other"))
    };
    let group = "{name: nodegroup, arguments: {strict: false}}";
    let off = "{name: nodegroup, enablePredicate: false, arguments: {strict: false}}";
    assert_eq!(bound(&["proportion", "predicates", group], ""), (2, 0));
    assert_eq!(bound(&["proportion", "predicates", group], "g"), (1, 1));
    assert_eq!(bound(&["proportion", "predicates", off], ""), (1, 1));
}

/// Node `b` alone would do for queue `r`, and refuses its pods.
#[test]
fn pods_that_every_node_refuses_keep_no_share() {
    let conf = conf("allocate", &[&["gang"], &["proportion", "predicates"]]);
    let bound = |conf: &str, node: &Value, pod: &Value| {
        let outcome = Scenario::new(conf)
            .queue("r", &json!({}))
            .node("a", "4")
            .node_with("b", "4", node)
            .job("whole", 1, "Inqueue")
            .waiting("whole", 2, "4")
            .job_with("other", 1, "Inqueue", &json!({"queue": "r"}))
            .pod("other-work-0", "other", "3", pod)
            .run_as(only(Difference::LendUnusableShare));
        let of = |job: &str| outcome.binds.keys().filter(|pod| pod.contains(job)).count();
        (of("whole"), of("other"))
    };
    let selector = json!({"spec": {"nodeSelector": {"disk": "ssd"}}});
    let labelled = json!({"metadata": {"labels": {"disk": "ssd"}}});
    assert_eq!(bound(&conf, &json!({}), &selector), (2, 0));
    assert_eq!(bound(&conf, &labelled, &selector), (1, 1));
    // Where the filter is off, the pod starts.
    let tiers = "{name: predicates, arguments: {predicate.NodeAffinityEnable: false}}";
    let off = self::conf("allocate", &[&["gang"], &["proportion", tiers]]);
    assert_eq!(bound(&off, &json!({}), &selector), (1, 1));
}

/// Queue `r` is owed half of four nodes, and its pods may use one.
#[test]
fn a_share_beyond_the_nodes_that_its_pods_may_use_is_lent() {
    let conf = conf("allocate", &[&["gang"], &["proportion", "predicates"]]);
    let on = |disk: &str| json!({"spec": {"nodeSelector": {"disk": disk}}});
    let bound = |pod: &Value, gangs: bool, compat: Compat| {
        let nodes = [("a", "ssd"), ("b", "hdd"), ("c", "hdd"), ("d", "hdd")].into_iter();
        let scenario = nodes.fold(Scenario::new(&conf), |scenario, (node, disk)| {
            let labels = json!({"metadata": {"labels": {"disk": disk}}});
            scenario.node_with(node, "4", &labels)
        });
        let scenario = scenario.queue("r", &json!({})).job("whole", 1, "Inqueue");
        let scenario = (0..4).fold(scenario, |scenario, index| {
            scenario.pod(&format!("whole-work-{index}"), "whole", "4", &on("hdd"))
        });
        let scenario = scenario
            .job_with("rest", 1, "Inqueue", &json!({"queue": "r"}))
            .job_with("rest-too", 1, "Inqueue", &json!({"queue": "r"}));
        let scenario = (0..4).fold(scenario, |scenario, index| {
            let job = if gangs && index > 1 {
                "rest-too"
            } else {
                "rest"
            };
            scenario.pod(&format!("{job}-work-{index}"), job, "2", pod)
        });
        let outcome = scenario.run_as(compat);
        let of = |job: &str| outcome.binds.keys().filter(|pod| pod.contains(job)).count();
        (of("whole"), of("rest"))
    };
    let ours = only(Difference::LendUnusableShare);
    for gangs in [false, true] {
        assert_eq!(bound(&json!({}), gangs, ours), (2, 4));
        assert_eq!(bound(&on("ssd"), gangs, Compat::VOLCANO), (2, 2));
        assert_eq!(bound(&on("ssd"), gangs, ours), (3, 2));
    }
}

/// Queue `r` may hold 1 core of node group `g`, where all nodes are.
#[test]
fn a_share_beyond_the_limits_of_node_groups_is_lent() {
    let affinity =
        json!({"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["g"]}});
    let label = json!({"metadata": {"labels": {"volcano.sh/nodegroup-name": "g"}}});
    let group = "{name: nodegroup, arguments: {strict: false}}";
    let bound = |limit: &str| {
        let limits = json!({"volcano.sh/nodegroup-resource-limits": limit});
        let limits = json!({"metadata": {"annotations": limits}});
        let outcome = Scenario::new(&conf(
            "allocate",
            &[&["gang"], &["proportion", "predicates", group]],
        ))
        .queue_with(&json!({"spec": {"affinity": affinity}}))
        .queue("r", &json!({"affinity": affinity}))
        .queue_with(&limits)
        .node_with("a", "4", &label)
        .job("whole", 1, "Inqueue")
        .waiting("whole", 4, "1")
        .job_with("other", 1, "Inqueue", &json!({"queue": "r"}))
        .waiting("other", 2, "1")
        .run_as(only(Difference::LendUnusableShare));
        let of = |job: &str| outcome.binds.keys().filter(|pod| pod.contains(job)).count();
        (of("whole"), of("other"))
    };
    assert_eq!(bound(r#"{"g": {"cpu": "2"}}"#), (2, 2));
    assert_eq!(bound(r#"{"g": {"cpu": "1"}}"#), (3, 1));
}

/// Queue `q` holds all 12 cores. Queue `r` wants 6, and the 5 of the gang in `s` are more than a third.
#[test]
fn a_queue_evicts_pods_for_its_share_and_not_for_what_others_lend() {
    let conf = conf(
        "allocate, reclaim",
        &[&["gang"], &["proportion", "predicates"]],
    );
    let counts = |held: usize| {
        let scenario = Scenario::new(&conf)
            .queue("r", &json!({}))
            .queue("s", &json!({}))
            .node("a", "12")
            .job("holds", 1, "Running")
            .running("holds", 0, &vec!["a"; held], "1")
            .job_with("large", 5, "Inqueue", &json!({"queue": "s"}))
            .waiting("large", 5, "1");
        let scenario = (0..6).fold(scenario, |scenario, index| {
            let job = format!("wants-{index}");
            let scenario = scenario.job_with(&job, 1, "Inqueue", &json!({"queue": "r"}));
            scenario.waiting(&job, 1, "1")
        });
        let outcome = scenario.run_as(only(Difference::LendUnusableShare));
        (outcome.binds.len(), evicted(&outcome).len())
    };
    // A lent share is used where it is free.
    assert_eq!(counts(6), (6, 0));
    assert_eq!(counts(12), (0, 4));
}
