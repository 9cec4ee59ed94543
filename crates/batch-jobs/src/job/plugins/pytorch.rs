//! `pytorch`: every container knows where the master is and which rank it has (S6-058).

use super::arguments::Arguments;
use super::{Made, hosts, open_port, push_env};
use serde_json::json;

const KNOWN: [(&str, bool); 6] = [
    ("master", false),
    ("worker", false),
    ("port", false),
    ("wait-master-enabled", true),
    ("wait-master-timeout", false),
    ("wait-master-image", false),
];
/// The init container that waits for the master.
const WAITING: &str = "wait-for-master";

pub(super) fn on_pod(made: &mut Made<'_>, arguments: &[String]) {
    let arguments = Arguments::read(arguments, &KNOWN);
    let (master, worker) = (
        arguments.text("master", "master"),
        arguments.text("worker", "worker"),
    );
    let port = arguments.number("port", 23456);
    let job = made.job;
    let Some(task) = job.spec.tasks.iter().find(|task| task.name == master) else {
        return;
    };
    let address = hosts::host(job, task, 0).full();
    let name = made.task.name.as_str();
    if name == worker && arguments.is_on("wait-master-enabled", false) {
        wait(made, &arguments, &address, port);
    }
    // Pods of other tasks take no part in the training, and have no rank.
    let both = job.spec.tasks.iter();
    let both = both.filter(|task| task.name == master || task.name == worker);
    let world: i64 = both.map(|task| i64::from(task.replicas)).sum();
    let rank = if name == worker {
        Some(i64::from(made.index) + 1)
    } else {
        (name == master).then_some(0)
    };
    for container in made.spec.containers() {
        open_port(container, "pytorchjob-port", port);
        push_env(container, "MASTER_ADDR", &address);
        push_env(container, "MASTER_PORT", &port.to_string());
        push_env(container, "WORLD_SIZE", &world.to_string());
        if let Some(rank) = rank {
            push_env(container, "RANK", &rank.to_string());
        }
    }
}

/// The worker starts when the master's port is open, or fails after a time.
fn wait(made: &mut Made<'_>, arguments: &Arguments, address: &str, port: i64) {
    let mut containers = made.spec.init_containers();
    let waits =
        containers.any(|container| container.get("name").is_some_and(|name| name == WAITING));
    drop(containers);
    if waits {
        return;
    }
    let seconds = arguments.number("wait-master-timeout", 300);
    let script = format!(
        "end=$(( $(date +%s) + {seconds} ))\n\
         until nc -z {address} {port}; do\n\
         \x20 [ $(date +%s) -lt $end ] || {{ echo \"{address}:{port} is closed after {seconds} s\"; exit 1; }}\n\
         \x20 sleep 2\n\
         done"
    );
    made.spec.push_init_container(json!({
        "name": WAITING,
        "image": arguments.text("wait-master-image", "busybox:1.36.1"),
        "command": ["sh", "-c", script],
    }));
}
