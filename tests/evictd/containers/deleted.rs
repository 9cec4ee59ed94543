//! A file that is deleted but open fills the node's disk: `du` misses it.

use super::{Bound, Site, plain, scratch};
use crate::daemon::{Daemon, names, wait};
use crate::run_daemon::reclaim::available;
use serde_json::Value;
use std::process::Command;

const MI: u64 = 1 << 20;

/// How large the file is: what it proves does not depend on it. `EVICTD_DELETED_MIB=1024` asks for more.
fn mebibytes() -> u64 {
    let asked = std::env::var("EVICTD_DELETED_MIB").ok();
    asked.map_or(96, |asked| asked.parse().unwrap())
}

/// What `du` finds in the pod's directory, in MiB.
fn du(site: &Site, bound: &Bound) -> u64 {
    let pod = site.kubelet().join("pods").join(&bound.uid);
    let output = Command::new("du").arg("-sm").arg(pod).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.split('\t').next().unwrap().parse().unwrap()
}

/// The deleted bytes that `evictd disk` tells of this pod.
fn told(daemon: &Daemon, pod: &str) -> u64 {
    let ledger: Value = daemon.command(&["disk"]);
    let filesystems = ledger["filesystems"].as_array().unwrap().iter();
    let mut pods = filesystems.flat_map(|one| one["pods"].as_array().unwrap());
    let found = pods.find(|one| one["pod"] == pod);
    found.map_or(0, |found| {
        found["byKind"]["deletedFiles"].as_u64().unwrap_or(0)
    })
}

/// Who holds a deleted file at this path in its container is found, told and evicted, and its bytes are back.
fn goes_for(test: &str, path: &str) {
    let large = mebibytes();
    let Some(mut site) = Site::on_disk(test, large + 250) else {
        return;
    };
    let holder = site.pod("holder", &plain(), &scratch(&Value::Null));
    let writer = site.pod("writer", &plain(), &scratch(&Value::Null));
    let wrote = "dd if=/dev/zero of=/scratch/data bs=1M count=12; exec sleep 1000";
    let wrote = site.run(&writer, wrote);
    let disk = site.disk.as_ref().unwrap().0.clone();
    assert!(wait(|| du(&site, &writer) >= 12));
    nix::unistd::sync();
    let before = available(&disk);
    let holds = format!(
        "exec 3>{path}; rm {path}; dd if=/dev/zero bs=1M count={large} >&3; exec sleep 1000"
    );
    let holds = site.run(&holder, &holds);
    let taken = || before.saturating_sub(available(&disk)) >= large * MI;
    assert!(wait(taken), "{} of {before} left", available(&disk));
    assert!(du(&site, &holder) < 2, "du finds it");

    let daemon = site.daemon(&[("nodefs.available", "1Mi")], "");
    daemon.eventually("the holder is told", |daemon| {
        told(daemon, "shop/holder") >= large * MI
    });
    assert_eq!(told(&daemon, "shop/writer"), 0);
    let threshold = (available(&disk) + large * MI / 2).to_string();
    daemon.reload(
        &site.cluster.node,
        &[("nodefs.available", &threshold)],
        &site.lines(""),
    );
    let decisions = daemon.evicted(1);
    assert_eq!(names(&decisions), ["shop/holder"], "{:#}", decisions[0]);
    assert_eq!(decisions[0]["signal"], "nodefs.available");
    daemon.eventually("its bytes are back", |_| available(&disk) + 4 * MI > before);
    // A busy runtime hears of an end later than the disk.
    daemon.eventually("the runtime knows its end", |_| !site.lives(&holds));
    daemon.some_turns_pass();
    assert!(site.lives(&wrote));
    assert_eq!(daemon.said("evicting "), 1);
}

#[test]
fn the_holder_of_a_deleted_file_in_a_volume_is_told_and_evicted() {
    let test = "the_holder_of_a_deleted_file_in_a_volume";
    goes_for(test, "/scratch/gone");
}

#[test]
fn the_holder_of_a_deleted_file_in_its_layer_is_told_and_evicted() {
    let test = "the_holder_of_a_deleted_file_in_its_layer";
    goes_for(test, "/tmp/gone");
}
