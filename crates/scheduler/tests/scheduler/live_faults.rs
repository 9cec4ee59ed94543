//! `evictd-scheduler run` while the API server fails, hangs and lies: every pod gets one node, and no node too many pods.

use crate::live_scheduling::{
    Live, condition, create_waiting_for_volume, node_of, pod, provide_volume,
};
use evictd_testkit::Fault;
use evictd_testkit::testing::wait_until;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// As many pods as fit, exactly.
const PODS: usize = 12;

fn cluster() -> Live {
    Live::new(&[("one", "4"), ("two", "4"), ("three", "4")])
}

fn create(live: &Live, round: &str) -> Vec<String> {
    let names: Vec<String> = (0..PODS).map(|index| format!("{round}-{index}")).collect();
    for name in &names {
        live.admin.create(pod(name, "1", 0)).unwrap();
    }
    names
}

/// Waits until all pods have their nodes, and checks that each was bound once.
fn all_placed_once(live: &Live, names: &[String], what: &str) {
    wait_until(&format!("all pods are bound, {what}"), || {
        names.iter().all(|name| node_of(live, name).is_string())
    });
    let mut nodes: BTreeMap<String, usize> = BTreeMap::new();
    for name in names {
        let node = node_of(live, name).as_str().unwrap().to_owned();
        *nodes.entry(node).or_default() += 1;
    }
    assert!(nodes.values().all(|pods| *pods == 4), "{what}: {nodes:?}");
    for name in names {
        let path = format!("/pods/{name}/binding");
        let log = live.api.log().into_iter();
        let done = log.filter(|entry| entry.path.ends_with(&path) && entry.status == 201);
        assert!(done.count() <= 1, "{what}: {name} was bound twice");
    }
}

/// Deletes all pods, so that the next round has the room.
fn clear(live: &Live, names: &[String]) {
    for name in names {
        let now = json!({ "gracePeriodSeconds": 0 });
        live.admin
            .delete("pods", &format!("default/{name}"), now)
            .unwrap();
    }
}

#[test]
fn failed_bindings_are_retried_until_each_pod_has_its_node() {
    let live = cluster();
    let faults = [
        ("refused", Fault::answer(409)),
        ("busy", Fault::answer(429)),
        ("busy and says when", Fault::answer(429).retry_after(1)),
        ("broken", Fault::answer(500)),
        ("away", Fault::answer(503)),
        ("late", Fault::answer(504)),
        ("forbidden", Fault::answer(403)),
        ("slow", Fault::delay(Duration::from_millis(200))),
        ("without an answer", Fault::cut_after(0)),
    ];
    for (round, (what, fault)) in faults.into_iter().enumerate() {
        live.api.fault(fault.on("create", "pods/binding").times(7));
        let names = create(&live, &format!("round-{round}"));
        all_placed_once(&live, &names, what);
        live.api.clear_faults();
        clear(&live, &names);
    }
}

#[test]
fn s5_094_a_pod_whose_binding_may_not_read_the_node_is_tried_again() {
    let live = Live::new(&[("one", "8")]);
    create_waiting_for_volume(&live);
    live.api.fault(Fault::answer(403).on("list", "nodes"));
    live.until("default/wants", "reported", |pod| {
        condition(pod)["reason"] == "SchedulerError"
    });
    live.api.clear_faults();
    provide_volume(&live);
    assert_eq!(live.bound("default/wants"), "one");
}

#[test]
fn broken_watches_lose_no_event() {
    let live = cluster();
    for round in 0..6 {
        // Half of them are created while the watches are broken.
        match round {
            0 => live.api.cut_watches(),
            1 => {
                live.api.compact();
                live.api.cut_watches();
            }
            2 => {
                live.api
                    .fault(Fault::answer(410).on("watch", "pods").times(2));
                live.api.cut_watches();
            }
            3 => {
                live.api
                    .fault(Fault::cut_after(200).on("watch", "pods").times(3));
                live.api.cut_watches();
            }
            4 => {
                live.api
                    .fault(Fault::answer(500).on("watch", "*").times(20));
                live.api.cut_watches();
            }
            _ => live.api.go_away(),
        }
        let names = if round == 5 {
            live.api.come_back();
            create(&live, "round-5")
        } else {
            create(&live, &format!("round-{round}"))
        };
        all_placed_once(&live, &names, &format!("round {round}"));
        live.api.clear_faults();
        // A pod that is deleted during a gap is deleted in the cache, too.
        live.api.cut_watches();
        clear(&live, &names);
    }
}

#[test]
fn conditions_that_cannot_be_written_delay_no_binding() {
    let live = cluster();
    live.api
        .fault(Fault::answer(500).on("patch", "pods/status"));
    live.api.fault(Fault::answer(500).on("create", "events"));
    live.admin.create(pod("large", "9", 0)).unwrap();
    let names = create(&live, "small");
    all_placed_once(&live, &names, "without conditions");
    live.api.clear_faults();
    clear(&live, &names);
    // The next attempt writes the condition.
    live.admin.create(pod("other", "1", 0)).unwrap();
    let is_reported = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array().cloned();
        let mut conditions = conditions.unwrap_or_default().into_iter();
        conditions.any(|condition| condition["reason"] == "Unschedulable")
    };
    live.until("default/large", "reported", is_reported);
}

#[test]
fn two_leaders_at_once_bind_each_pod_once() {
    let live = cluster();
    let mut second = live.another(&["--leader-elect=false"]);
    for round in 0..4 {
        let names = create(&live, &format!("round-{round}"));
        wait_until("all pods are bound", || {
            names.iter().all(|name| node_of(&live, name).is_string())
        });
        for name in &names {
            let path = format!("/pods/{name}/binding");
            let log = live.api.log().into_iter();
            let done = log.filter(|entry| entry.path.ends_with(&path) && entry.status == 201);
            assert_eq!(done.count(), 1, "{name}");
        }
        clear(&live, &names);
    }
    second.kill().unwrap();
    second.wait().unwrap();
}

#[test]
fn a_leader_that_loses_its_lease_ends_and_another_takes_over() {
    let mut live = cluster();
    live.admin.create(pod("first", "1", 0)).unwrap();
    live.bound("default/first");
    let names: Vec<String> = (1..PODS).map(|index| format!("pod-{index}")).collect();
    live.api
        .fault(Fault::delay(Duration::from_millis(300)).on("create", "pods/binding"));
    for name in &names {
        live.admin.create(pod(name, "1", 0)).unwrap();
    }
    // Another holder takes the lease while bindings are under way.
    let stolen = json!({ "spec": { "holderIdentity": "somebody else", "renewTime": "2000-01-01T00:00:00.000000Z" } });
    live.admin
        .merge("leases", "kube-system/kube-scheduler", stolen)
        .unwrap();
    assert!(
        !live.ended().success(),
        "it says that it does not lead any more"
    );
    live.api.clear_faults();
    let mut second = live.another(&["--leader-elect=false"]);
    let mut all = names.clone();
    all.push("first".to_owned());
    all_placed_once(&live, &all, "after the lease was lost");
    second.kill().unwrap();
    second.wait().unwrap();
}
