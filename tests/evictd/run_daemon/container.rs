//! The daemon as its container sees the node.

use crate::cgroup_support::left_out;
use crate::daemon::{Daemon, names};
use crate::node::{EVICTD, Node, Traits};
use evictd_kernel::cgroup::{DEFAULT_ROOT, Hierarchies};
use std::path::Path;
use std::process::Command;

/// Crossed by a pod that holds 110 MiB of the node's 192; it is asked first, process by process.
const SOFT: &str = "evictionSoft: {memory.available: 110Mi}
evictionSoftGracePeriod: {memory.available: 1s}
evictionMaxPodGracePeriod: 4";

#[test]
fn in_a_cgroup_namespace_of_its_own_it_ends_the_right_pod() {
    let name = "in_a_cgroup_namespace_of_its_own";
    let can = Command::new("unshare").args(["--cgroup", "true"]).status();
    if !can.is_ok_and(|status| status.success()) {
        return left_out(name, "no cgroup namespace can be made here");
    }
    let Some(node) = Node::new(name) else {
        return;
    };
    // Below the one that its pods are below, too, as a DaemonSet's is.
    let own = node.group.make("agent");
    let mut small = node.pod("small", "--hold 8Mi", Traits::default());
    let mut hog = node.pod("hog", "--hold 110Mi", Traits::default());
    let script = "for group in $GROUPS_OF_MINE; do echo $$ > $group/cgroup.procs; done; exec unshare --cgroup \"$@\"";
    let machine = Hierarchies::detect(Path::new(DEFAULT_ROOT)).unwrap();
    let groups = machine.mounts().map(|mount| mount.join(&own));
    let groups = groups.filter(|group| group.is_dir());
    let groups: Vec<String> = groups.map(|group| group.display().to_string()).collect();
    let mut container = Command::new("/bin/sh");
    container
        .env("GROUPS_OF_MINE", groups.join(" "))
        .args(["-c", script, "sh", EVICTD]);
    let calm = [("memory.available", "16Mi")];
    let daemon = Daemon::start_by(&node, container, &calm, SOFT);
    let decisions = daemon.evicted(1);
    assert_eq!(names(&decisions), ["shop/hog"]);
    assert_eq!(decisions[0]["outcome"]["method"], "terminated");
    assert!(small.lives() && !hog.lives());
}
