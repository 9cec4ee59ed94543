//! Queues on the command line.

use crate::cluster::{Cluster, cells};
use evictd_testkit::program::{answer, page, refusal, stderr};
use serde_json::json;

const COLUMNS: &str = "Name Weight State Parent Inqueue Pending Running Unknown Completed";

#[test]
fn s6_148_a_queue_is_created_with_volcanos_defaults() {
    let cluster = Cluster::start();
    let made = page(&cluster.run("queue create"));
    assert_eq!(made, "create queue test successfully\n");
    let queue = cluster.only("queues");
    assert_eq!(queue["metadata"]["name"], "test");
    assert_eq!(queue["spec"], json!({"weight": 1}));
    let again = refusal(&cluster.run("queue create"), 1);
    assert!(
        again.contains("queues.scheduling.volcano.sh \"test\" already exists"),
        "{again}"
    );
    page(&cluster.run("queue create -n gold -w 8"));
    let gold = cluster.admin.get("queues", "gold").unwrap();
    assert_eq!(gold["spec"]["weight"], 8);
}

#[test]
fn s6_148_an_invalid_state_is_an_error_and_a_dropped_state_a_warning() {
    let cluster = Cluster::start();
    let message = refusal(&cluster.run("queue create -S Ajar"), 2);
    assert!(
        message.contains("queue state must be in [Open Closed]"),
        "{message}"
    );
    let made = cluster.run("queue create -n q -S Closed");
    assert_eq!(page(&made), "create queue q successfully\n");
    let message = stderr(&made);
    assert!(
        message.contains("`evictd-batch queue operate -n q -a close`"),
        "{message}"
    );
}

#[test]
fn s6_148_queues_are_listed_with_their_pod_groups_counted() {
    let cluster = Cluster::start();
    assert_eq!(page(&cluster.run("queue list")), "No resources found\n");
    cluster.queue("gold", json!({"spec": {"weight": 4, "parent": "root"}}));
    cluster.queue(
        "silver",
        json!({"status": {"state": "Closed", "running": 9}}),
    );
    let phases = [
        "Inqueue",
        "Pending",
        "Pending",
        "Running",
        "Running",
        "Running",
        "Unknown",
        "Completed",
    ];
    for (index, phase) in phases.iter().enumerate() {
        cluster.pod_group(&format!("g{index}"), "gold", phase);
    }
    cluster.pod_group("elsewhere", "other", "Running");
    let listed = page(&cluster.run("queue list"));
    let table = cells(&listed);
    assert_eq!(table[0].join(" "), COLUMNS);
    assert_eq!(table[1].join(" "), "gold 4 Open root 1 2 3 1 1");
    assert_eq!(table[2].join(" "), "silver 1 Closed 0 0 0 0 0");
    let got = page(&cluster.run("queue get -n gold"));
    assert_eq!(cells(&got), table[..2]);
    let got = answer(&cluster.run("queue get -n gold -o json"));
    assert_eq!(
        got,
        json!([{
            "name": "gold", "weight": 4, "state": "Open", "parent": "root",
            "inqueue": 1, "pending": 2, "running": 3, "unknown": 1, "completed": 1,
        }])
    );
}

#[test]
fn s6_148_a_queue_needs_a_name_and_has_to_exist() {
    let cluster = Cluster::start();
    for (arguments, expected) in [
        (
            "get",
            "name is mandatory to get the particular queue details",
        ),
        ("delete", "queue name must be specified"),
        ("operate -a open", "queue name must be specified"),
        ("operate -n q", "action can not be null"),
        (
            "operate -n q -a shut",
            "action shut invalid, valid actions are open, close and update",
        ),
        (
            "operate -n q -a update",
            "when update queue q, weight must be specified, the value must be greater than 0",
        ),
    ] {
        let message = refusal(&cluster.run(&format!("queue {arguments}")), 2);
        assert_eq!(message, format!("evictd-batch: {expected}\n"));
    }
    for arguments in [
        "get -n q",
        "delete -n q",
        "operate -n q -a open",
        "operate -n q -a update -w 2",
    ] {
        let message = refusal(&cluster.run(&format!("queue {arguments}")), 1);
        assert!(
            message.contains("queues.scheduling.volcano.sh \"q\" not found"),
            "{message}"
        );
    }
}

#[test]
fn s6_072_s6_148_opening_and_closing_make_commands_in_the_namespace_default() {
    let cluster = Cluster::start();
    let queue = cluster.queue("gold", json!({}));
    for (word, action) in [("open", "OpenQueue"), ("close", "CloseQueue")] {
        page(&cluster.run(&format!("queue operate -n gold -a {word}")));
        let command = cluster.only("commands");
        assert_eq!(command["metadata"]["namespace"], "default");
        assert_eq!(
            command["metadata"]["generateName"],
            format!("gold-{}-", action.to_lowercase())
        );
        assert_eq!(command["action"], action);
        let reference = json!({
            "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": "gold",
            "uid": queue["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
        });
        assert_eq!(command["target"], reference);
        assert_eq!(command["metadata"]["ownerReferences"], json!([reference]));
        let name = command["metadata"]["name"].as_str().unwrap();
        cluster.admin.delete("commands", name, json!({})).unwrap();
    }
}

#[test]
fn s6_148_an_update_changes_only_the_weight_and_a_queue_can_be_deleted() {
    let cluster = Cluster::start();
    cluster.queue("gold", json!({"spec": {"parent": "root", "novel": 1}}));
    let message = page(&cluster.run("queue operate -n gold -a update -w 7"));
    assert_eq!(message, "update queue gold successfully\n");
    let queue = cluster.only("queues");
    assert_eq!(
        queue["spec"],
        json!({"weight": 7, "parent": "root", "novel": 1})
    );
    assert!(cluster.admin.list("commands").is_empty());
    let message = page(&cluster.run("queue delete -n gold"));
    assert_eq!(message, "delete queue gold successfully\n");
    assert!(cluster.admin.list("queues").is_empty());
}
