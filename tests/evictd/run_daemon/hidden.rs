//! A node whose `/proc` hides the processes of others, and a daemon under a user of its own, as its unit runs it.

use crate::cgroup_support::left_out;
use crate::daemon::{Daemon, names};
use crate::node::{EVICTD, Node, Traits};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Mounts `/proc` anew for this process and those that it becomes, and gives up all rights of root but two.
const HIDE: &str = "mount -t proc -o \"hidepid=$1\" proc /proc && shift && exec setpriv --reuid=65534 --regid=65534 \
    --clear-groups --inh-caps=-all,+kill,+dac_override --ambient-caps=-all,+kill,+dac_override \
    --bounding-set=-all,+kill,+dac_override \"$@\"";

fn hiding(hidepid: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        HIDE,
        "sh",
    ]);
    command.arg(hidepid);
    command
}

#[test]
fn a_hog_whose_processes_are_hidden_goes_and_the_start_says_what_to_change() {
    let test = "a_hog_whose_processes_are_hidden_goes";
    // Nobody but a user of its own is kept from seeing them.
    for hidepid in ["2", "1"] {
        let can = hiding(hidepid).arg("true").output();
        if !can.is_ok_and(|output| output.status.success()) {
            return left_out(test, "no unshare, mount or setpriv that can do it");
        }
        let Some(node) = Node::new(test) else {
            return;
        };
        for place in ["", "manifests", "static"] {
            fs::set_permissions(node.path(place), Permissions::from_mode(0o777)).unwrap();
        }
        let mut modest = node.pod("modest", "--hold 16Mi", Traits::default());
        let mut hog = node.pod("hog", "--hold 16Mi --grow-to 150Mi", Traits::default());
        let mut command = hiding(hidepid);
        command.arg(EVICTD);
        let daemon = Daemon::start_by(&node, command, &[("memory.available", "64Mi")], "");
        let warnings = daemon.status()["warnings"].to_string();
        assert!(warnings.contains("SupplementaryGroups="), "{warnings}");
        hog.grow();
        let decisions = daemon.evicted(1);
        assert_eq!(names(&decisions), ["shop/hog"]);
        assert_ne!(decisions[0]["outcome"]["method"], "already-gone");
        assert!(!hog.lives() && modest.lives());
    }
}
