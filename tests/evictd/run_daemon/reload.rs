//! SIGHUP.

use crate::daemon::{Daemon, configuration, write_configuration};
use crate::node::{EVICTD, Node, Traits};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::fs;
use std::process::{Command, Stdio};

fn threshold(daemon: &Daemon) -> Value {
    daemon.status()["signals"][0]["thresholds"][0]["configured"].clone()
}

#[test]
fn a_good_file_takes_effect_and_a_bad_one_leaves_the_old_one_in_force() {
    let Some(node) = Node::new("a_good_file_takes_effect_and_a_bad_one_does_not") else {
        return;
    };
    let mut hog = node.pod("hog", "--hold 90Mi", Traits::default());
    let daemon = Daemon::start(&node, &[("memory.available", "16Mi")], "");
    assert_eq!(threshold(&daemon), "16Mi");

    let bad = configuration(&node, &[("memory.available", "minus")], "dryRunn: true");
    fs::write(node.path("evictd.yaml"), bad).unwrap();
    daemon.signal(Signal::SIGHUP);
    daemon.eventually("the bad file is refused", |daemon| {
        daemon.said("the new configuration is refused, the previous one stays in force") == 1
    });
    assert_eq!(daemon.said("evictionHard.memory.available"), 1);
    assert_eq!(daemon.said("dryRunn"), 1);
    assert_eq!(threshold(&daemon), "16Mi");
    let refused = &daemon.status()["configuration"]["refused"];
    assert_eq!(refused["mistakes"].as_array().unwrap().len(), 2);
    assert_eq!(daemon.count("evictd_config_last_reload_successful"), 0);

    fs::remove_file(node.path("evictd.yaml")).unwrap();
    daemon.signal(Signal::SIGHUP);
    daemon.eventually("a missing file is refused", |daemon| {
        daemon.said("the new configuration is refused, the previous one stays in force") == 2
    });

    let place = node.directory.path().display();
    let moved = format!("socket: {place}/elsewhere.sock");
    write_configuration(&node, &[("memory.available", "110Mi")], &moved);
    daemon.signal(Signal::SIGHUP);
    daemon.evicted(1);
    daemon.eventually("the new threshold is shown", |daemon| {
        threshold(daemon) == "110Mi"
    });
    let named = "changed settings that take effect only after a restart: socket";
    assert_eq!(daemon.said(named), 1);
    let configuration = &daemon.status()["configuration"];
    assert_eq!(configuration["refused"], Value::Null);
    assert_eq!(configuration["waitsForRestart"], json!(["socket"]));
    assert_eq!(daemon.count("evictd_config_last_reload_successful"), 1);
    assert_eq!(
        daemon.count("evictd_config_restart_required{setting=\"socket\"}"),
        1
    );
    assert!(!hog.lives());
}

#[test]
fn an_empty_file_is_refused_and_ends_no_dry_run() {
    let Some(node) = Node::new("an_empty_file_is_refused_and_ends_no_dry_run") else {
        return;
    };
    let daemon = Daemon::start(&node, &[("memory.available", "1Mi")], "dryRun: true");
    let refused = "the new configuration is refused, the previous one stays in force";
    for (before, nothing) in ["", "# dryRun: true\n", "---\nnull\n", "{}\n"]
        .iter()
        .enumerate()
    {
        fs::write(node.path("evictd.yaml"), nothing).unwrap();
        daemon.signal(Signal::SIGHUP);
        daemon.eventually("the empty file is refused", |daemon| {
            daemon.said(refused) == before + 1
        });
    }
    assert_eq!(daemon.said("the file is empty"), 4);
    assert_eq!(daemon.status()["dryRun"], true);
    assert_eq!(threshold(&daemon), "1Mi");
    drop(daemon);
    // Nor is it what the daemon starts with.
    let mut started = Command::new(EVICTD)
        .args(["run", "--config"])
        .arg(node.path("evictd.yaml"))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(started.wait().unwrap().code(), Some(2));
}
