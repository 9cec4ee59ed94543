//! Commands that are not what they seem.

use crate::live::{Live, command, running};
use evictd_testkit::testing::wait_until;
use serde_json::json;

#[test]
fn a_command_acts_only_on_the_uid_that_it_names_and_on_queues_only_from_namespace_default() {
    let live = Live::new(&[]);
    let tenant = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tenant"}});
    live.admin.create(tenant).unwrap();
    running(&live, "train", |_| {});
    let mut misplaced = live.order("default", "CloseQueue");
    misplaced["metadata"]["namespace"] = json!("tenant");
    let of_core = {
        let mut command = command("train", "Job", "u", "AbortJob");
        command["target"]["apiVersion"] = json!("batch/v1");
        command["target"]["uid"] = live.job("train")["metadata"]["uid"].take();
        command
    };
    let of_others = live.admin.create(of_core).unwrap()["metadata"]["name"].take();
    for refused in [
        misplaced,
        command("default", "Queue", "another", "CloseQueue"),
        command("default", "Queue", "", "CloseQueue"),
        command("train", "Job", "another", "AbortJob"),
    ] {
        live.admin.create(refused).unwrap();
    }
    let left = || {
        let left = live.admin.list("commands");
        left.iter()
            .map(|one| one["metadata"]["name"].clone())
            .collect::<Vec<_>>()
    };
    wait_until("they are taken", || left() == [of_others.clone()]);
    // What comes after them is carried out after them.
    live.command("train", "AbortJob");
    live.until_phase("train", "Aborted");
    let queue = live.admin.get("queues", "default").unwrap();
    assert_eq!(queue["status"]["state"], "Open");
    let events = live.admin.list("events");
    let orders = events
        .iter()
        .filter(|event| event["reason"] == "CommandIssued");
    assert_eq!(orders.count(), 1);
}
