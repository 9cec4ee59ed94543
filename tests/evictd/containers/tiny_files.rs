//! Many tiny files: who holds the inodes of a filesystem.

use super::{Bound, Site, plain, scratch};
use crate::cgroup_support::left_out;
use crate::daemon::names;
use crate::run_daemon::disk::{own_mounts, tmpfs};
use nix::sys::statvfs::statvfs;
use serde_json::Value;
use std::fs::{self, File};
use std::path::Path;

/// `EVICTD_FILES=2000000` asks for more than the tenth of that.
fn files() -> u64 {
    let asked = std::env::var("EVICTD_FILES").ok();
    asked.map_or(200_000, |asked| asked.parse().unwrap())
}

fn litter(directory: &Path, files: u64) {
    for number in 0..files {
        let into = directory.join(format!("{}", number / 5000));
        if number % 5000 == 0 {
            fs::create_dir(&into).unwrap();
        }
        File::create(into.join(format!("{number}"))).unwrap();
    }
}

#[test]
fn who_holds_the_inodes_is_told_and_evicted_within_the_budget_of_a_walk() {
    let test = "who_holds_the_inodes_is_told_and_evicted";
    if !own_mounts(test) {
        return;
    }
    let Some(mut site) = Site::new(test) else {
        return;
    };
    if !site.containerd.is_own() {
        left_out(test, "another runtime does not see this test's mounts");
        return;
    }
    let files = files();
    let kubelet = site.kubelet();
    tmpfs(
        &kubelet,
        &format!("nr_inodes={}", files + files / 10 + 1000),
    );
    let litters = site.pod("litters", &plain(), &scratch(&Value::Null));
    let tidy = site.pod("tidy", &plain(), &scratch(&Value::Null));
    let run = |bound: &Bound| site.run(bound, "exec sleep 1000");
    let (littering, remaining) = (run(&litters), run(&tidy));
    litter(&site.scratch(&litters), files);
    litter(&site.scratch(&tidy), files / 100);
    let place = site.cluster.node.directory.path();
    let filesystems = format!(
        "filesystems: {{nodefs: {nodefs}, imagefs: {place}, containerfs: {place}}}\n",
        nodefs = kubelet.display(),
        place = place.display()
    );
    let daemon = site.daemon(&[("nodefs.inodesFree", "10")], &filesystems);
    let mut told = Value::Null;
    daemon.eventually("the holder is told", |daemon| {
        let ledger = daemon.command(&["disk"]);
        let mut all = ledger["filesystems"].as_array().unwrap().iter();
        let nodefs = all.find(|one| one["path"] == kubelet.display().to_string());
        told = nodefs.map_or(Value::Null, |one| one["pods"][0].clone());
        told["pod"] == "shop/litters"
    });
    let counted = told["inodes"].as_u64().unwrap();
    // What the budget cut short is a lower bound.
    let least = files.min(50_000);
    assert!((least..=files + files / 1000).contains(&counted), "{told}");
    let free = statvfs(&kubelet).unwrap().files_available() + files / 2;
    daemon.reload(
        &site.cluster.node,
        &[("nodefs.inodesFree", &free.to_string())],
        &site.lines(&filesystems),
    );
    let decisions = daemon.evicted(1);
    assert_eq!(names(&decisions), ["shop/litters"]);
    assert_eq!(decisions[0]["signal"], "nodefs.inodesFree");
    let reaction = decisions[0]["outcome"]["reactionSeconds"].as_f64().unwrap();
    eprintln!("{files} files, of which {counted} were counted: {reaction:.3} s");
    assert!(reaction < 8.0, "{:#}", decisions[0]);
    daemon.eventually("the runtime knows its end", |_| !site.lives(&littering));
    daemon.some_turns_pass();
    assert!(site.lives(&remaining));
}
