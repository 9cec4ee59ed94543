//! A pod fills a disk as quickly as a real one does: it goes before the disk is full.

use super::{Site, plain, scratch};
use crate::daemon::{names, wait};
use crate::run_daemon::reclaim::available;
use serde_json::Value;
use std::fs;

const MI: u64 = 1 << 20;
/// The size of the disk in MiB, of which half may be taken.
const DISK: u64 = 2048;
/// Some 500 MB a second, less on a busy machine: 50 MiB, and a tenth of a second until the next.
const WRITES: &str = "until [ -e /scratch/go ]; do sleep 0.1; done; i=0; while [ $i -lt 80 ]; do
    dd if=/dev/zero of=/scratch/$i bs=1M count=50 || mv /scratch/go /scratch/full; i=$((i+1)); sleep 0.1; done; exec sleep 1000";

#[test]
fn who_writes_500_megabytes_a_second_goes_before_the_disk_is_full() {
    let test = "who_writes_500_megabytes_a_second";
    let Some(mut site) = Site::on_disk(test, DISK) else {
        return;
    };
    let writer = site.pod("writer", &plain(), &scratch(&Value::Null));
    let large = site.pod("large", &plain(), &scratch(&Value::Null));
    let holds = "dd if=/dev/zero of=/scratch/data bs=1M count=300; exec sleep 1000";
    let holds = site.run(&large, holds);
    let volume = site.scratch(&writer);
    let data = site.scratch(&large).join("data");
    assert!(wait(|| {
        fs::metadata(&data).is_ok_and(|data| data.len() == 300 * MI)
    }));
    let filling = site.run(&writer, WRITES);
    let threshold = format!("{}Mi", DISK / 2);
    let daemon = site.daemon(&[("nodefs.available", &threshold)], "");
    daemon.eventually("both pods are known", |daemon| {
        daemon.status()["pods"]["active"] == 2
    });
    fs::write(volume.join("go"), "").unwrap();
    let decisions = daemon.evicted(1);
    let disk = site.disk.as_ref().unwrap().0.clone();
    eprintln!("{} MiB are left", available(&disk) / MI);
    assert_eq!(names(&decisions), ["shop/writer"], "{:#}", decisions[0]);
    assert!(!volume.join("full").exists(), "the disk was full");
    daemon.some_turns_pass();
    assert!(wait(|| !site.lives(&filling)), "the runtime knows its end");
    assert!(site.lives(&holds));
    assert_eq!(daemon.said("evicting "), 1);
}
