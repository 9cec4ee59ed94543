//! A container that has just begun fills the disk with its writable layer, of which the runtime tells nothing for 10 s: the
//! pod beside it, whose 150 MiB are known, stays.

use super::{Site, plain, scratch};
use crate::daemon::{Daemon, names, wait};
use crate::node::EVICTD;
use serde_json::Value;
use std::fs;
use std::process::Command;

const MI: u64 = 1 << 20;
/// The size of the disk in MiB, of which half may be taken.
const DISK: u64 = 2048;
/// Up to 250 MB a second, so that the threshold is crossed before the runtime counts the layer.
const WRITES: &str =
    "i=0; while [ $i -lt 60 ]; do dd if=/dev/zero of=/big$i bs=1M count=50 || break; i=$((i+1));
    sleep 0.2; done; exec sleep 1000";

fn the_young_writer_goes(test: &str, start: impl FnOnce(&Site, &[(&str, &str)]) -> Daemon) {
    let Some(mut site) = Site::on_disk(test, DISK) else {
        return;
    };
    let idle = site.pod("idle", &plain(), &scratch(&Value::Null));
    let writer = site.pod("writer", &plain(), &scratch(&Value::Null));
    let holds = site.run(
        &idle,
        "dd if=/dev/zero of=/scratch/data bs=1M count=150; exec sleep 1000",
    );
    let data = site.scratch(&idle).join("data");
    assert!(wait(|| {
        fs::metadata(&data).is_ok_and(|data| data.len() == 150 * MI)
    }));
    let threshold = format!("{}Mi", DISK / 2);
    let daemon = start(&site, &[("nodefs.available", &threshold)]);
    daemon.eventually("both pods are known", |daemon| {
        daemon.status()["pods"]["active"] == 2
    });
    let young = site.run(&writer, WRITES);
    let decisions = daemon.evicted(1);
    assert_eq!(names(&decisions), ["shop/writer"], "{:#}", decisions[0]);
    assert!(wait(|| !site.lives(&young)), "the runtime knows its end");
    assert!(site.lives(&holds));
    daemon.some_turns_pass();
    assert_eq!(daemon.said("evicting "), 1);
}

#[test]
fn a_young_writer_goes_and_its_idle_neighbour_stays() {
    the_young_writer_goes("a_young_writer_goes", |site, hard| site.daemon(hard, ""));
}

#[test]
fn a_young_writer_goes_where_no_layer_can_be_walked() {
    // A mount namespace made before the container begins does not have the mount of its root, as that of a DaemonSet.
    let own = |site: &Site, hard: &[(&str, &str)]| {
        let mut container = Command::new("unshare");
        container.args(["--mount", "--propagation", "private", EVICTD]);
        Daemon::start_by(&site.cluster.node, container, hard, &site.lines(""))
    };
    the_young_writer_goes("a_young_writer_goes_without_walks", own);
}
