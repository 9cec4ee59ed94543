//! Evictions that do not help.

use crate::daemon::{Daemon, names};
use crate::node::{Node, Traits};
use serde_json::json;

const SLEEPER: &str = "echo ready; exec sleep 600";

#[test]
fn evictions_that_do_not_help_stop_and_begin_again_when_the_signal_has_moved() {
    let Some(mut node) = Node::new("evictions_that_do_not_help_stop") else {
        return;
    };
    // The memory is taken outside of every pod.
    let _outsider = node.worker("outsider", "--hold 90Mi");
    let mut second = node.worker("second", "--hold 30Mi");
    let mut sleepers = Vec::new();
    for name in ["a", "b", "c", "d"] {
        sleepers.push(node.group.script(name, SLEEPER));
        node.admit(name, Traits::default());
    }
    let daemon = Daemon::start(
        &node,
        &[("memory.available", "128Mi")],
        "futileEvictions: 2\nevictWithoutRelief: true",
    );
    daemon.eventually("evictions are stopped", |daemon| {
        daemon.status()["futileStops"] != json!([])
    });
    daemon.some_turns_pass();
    let decisions = daemon.history();
    let pods = names(&decisions);
    assert_eq!(pods.len(), 3, "{pods:?}");
    assert_eq!(pods[2], "nobody");
    assert_eq!(
        decisions[2]["withheld"],
        json!({ "because": "futile", "evictions": 2 })
    );
    assert_eq!(
        daemon.status()["futileStops"][0]["signal"],
        "memory.available"
    );
    assert_eq!(daemon.said("no pod is evicted"), 1);

    second.end();
    daemon.evicted(4);
    daemon.eventually("it is said again", |daemon| {
        daemon.said("no pod is evicted") == 2
    });
}

#[test]
fn nobody_goes_in_vain_and_it_is_said_who_holds_what_is_missing() {
    let Some(node) = Node::new("nobody_goes_in_vain") else {
        return;
    };
    // The memory is taken outside of every pod.
    let _outsider = node.worker("outsider", "--hold 116Mi");
    let mut pods = ["a", "b", "c"].map(|name| node.pod(name, "--hold 4Mi", Traits::default()));
    let daemon = Daemon::start(&node, &[("memory.available", "128Mi")], "");
    daemon.eventually("it is said", |daemon| daemon.said("no pod is evicted") == 1);
    daemon.some_turns_pass();
    assert!(pods.iter_mut().all(crate::node::Worker::lives));
    let decision = daemon.history().remove(0);
    assert_eq!(decision["withheld"]["because"], "noRelief", "{decision:#}");
    let in_no_pod: i64 = bytes(&decision["shares"]["inNoPod"]);
    assert!(in_no_pod > 116 << 20, "{decision:#}");
    assert!(daemon.said("are used outside of pods") == 1);
    assert_eq!(daemon.condition("MemoryPressure")["raised"], true);
}

fn bytes(quantity: &serde_json::Value) -> i64 {
    let quantity: evictd_pod::Quantity = quantity.as_str().unwrap().parse().unwrap();
    quantity.value()
}
