//! SIGHUP.

use crate::cgroup_support::left_out;
use crate::daemon::{Daemon, configuration, names, wait, write_configuration};
use crate::node::{EVICTD, Node, Traits};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::{Value, json};
use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

const REFUSED: &str = "the new configuration is refused, the previous one stays in force";

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
        daemon.said(REFUSED) == 1
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
        daemon.said(REFUSED) == 2
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
    for (before, nothing) in ["", "# dryRun: true\n", "---\nnull\n", "{}\n"]
        .iter()
        .enumerate()
    {
        fs::write(node.path("evictd.yaml"), nothing).unwrap();
        daemon.signal(Signal::SIGHUP);
        daemon.eventually("the empty file is refused", |daemon| {
            daemon.said(REFUSED) == before + 1
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

/// What may become of a file, and how that is told.
type Mishap = (&'static str, fn(&Path), &'static str);

const MISHAPS: [Mishap; 11] = [
    ("evictd.yaml", |_| {}, "No such file"),
    (
        "evictd.yaml",
        |file| fs::create_dir(file).unwrap(),
        "is a directory",
    ),
    (
        "evictd.yaml",
        |file| symlink("gone", file).unwrap(),
        "No such file",
    ),
    (
        "evictd.yaml",
        |file| symlink(file, file).unwrap(),
        "symbolic links",
    ),
    (
        "evictd.yaml",
        |file| symlink("/proc/self/mem", file).unwrap(),
        "Input/output error",
    ),
    ("evictd.yaml", unreadable, "Permission denied"),
    (
        "conf.d",
        |file| fs::write(file, "a file").unwrap(),
        "Not a directory",
    ),
    ("conf.d", |file| closed(file), "Permission denied"),
    (
        "conf.d/a.yaml",
        |file| fs::create_dir(file).unwrap(),
        "is a directory",
    ),
    (
        "conf.d/a.yaml",
        |file| symlink("/proc/self/mem", file).unwrap(),
        "Input/output error",
    ),
    ("conf.d/a.yaml", unreadable, "Permission denied"),
];

fn unreadable(file: &Path) {
    fs::write(file, "kind: EvictionConfiguration\n").unwrap();
    fs::set_permissions(file, Permissions::from_mode(0o0)).unwrap();
}

fn closed(directory: &Path) {
    fs::create_dir(directory).unwrap();
    fs::set_permissions(directory, Permissions::from_mode(0o0)).unwrap();
}

/// Started so, root may read no more than its files' modes say.
fn bound_by_modes() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-dac_override,-dac_read_search"]);
    command
}

#[test]
fn an_unreadable_configuration_is_reported_with_its_file_and_the_old_one_stays_in_force() {
    let name = "whatever_becomes_of_a_file_is_told_with_its_name";
    let Some(node) = Node::new(name) else { return };
    let can = bound_by_modes().arg("true").status();
    if !can.is_ok_and(|status| status.success()) {
        return left_out(name, "no setpriv that can do it");
    }
    let mut command = bound_by_modes();
    command.arg(EVICTD);
    let low = [("memory.available", "16Mi")];
    let daemon = Daemon::start_by(&node, command, &low, "dryRun: true");
    for (round, (file, mishap, words)) in MISHAPS.into_iter().enumerate() {
        let path = node.path(file);
        if file == "evictd.yaml" {
            fs::remove_file(&path).unwrap();
        } else {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
        }
        mishap(&path);
        daemon.signal(Signal::SIGHUP);
        daemon.eventually(&format!("{file}: {words}"), |daemon| {
            daemon.said(REFUSED) == round + 1
        });
        let status = daemon.status();
        let mistakes = status["configuration"]["refused"]["mistakes"].to_string();
        for words in [words, &path.display().to_string()] {
            assert!(mistakes.contains(words), "{file}: {words}: {mistakes}");
        }
        assert_eq!(status["dryRun"], true);
        assert_eq!(threshold(&daemon), "16Mi");
        // The next one begins with what is well.
        let _ = fs::remove_dir_all(node.path("conf.d"))
            .or_else(|_| fs::remove_file(node.path("conf.d")));
        if file == "evictd.yaml" {
            let _ = fs::remove_dir(&path).or_else(|_| fs::remove_file(&path));
            write_configuration(&node, &low, "dryRun: true");
        }
    }
    daemon.reload(&node, &[("memory.available", "17Mi")], "dryRun: true");
    daemon.eventually("the new threshold is shown", |daemon| {
        threshold(daemon) == "17Mi"
    });
    assert_eq!(daemon.status()["configuration"]["refused"], Value::Null);
}

#[test]
fn a_file_that_hangs_delays_no_eviction() {
    let Some(node) = Node::new("a_file_that_hangs_delays_no_eviction") else {
        return;
    };
    let growing = "--hold 2Mi --grow-to 100Mi --per-second 400Mi";
    let mut hog = node.pod("hog", growing, Traits::default());
    let low = [("memory.available", "110Mi")];
    let daemon = Daemon::start(&node, &low, "");
    let file = node.path("evictd.yaml");
    fs::remove_file(&file).unwrap();
    // Whoever opens it waits until somebody writes into it.
    mkfifo(&file, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    for _ in 0..2 {
        daemon.signal(Signal::SIGHUP);
        daemon.some_turns_pass();
    }
    hog.grow();
    assert_eq!(names(&daemon.evicted(1)), ["shop/hog"]);
    assert_eq!(daemon.said(REFUSED), 0);
    let mut writer = None;
    let is_read = || {
        let nonblocking = nix::fcntl::OFlag::O_NONBLOCK.bits();
        let opened = OpenOptions::new()
            .write(true)
            .custom_flags(nonblocking)
            .open(&file);
        writer = opened.ok();
        writer.is_some()
    };
    assert!(wait(is_read), "nobody reads it");
    fs::remove_file(&file).unwrap();
    write_configuration(&node, &[("memory.available", "90Mi")], "");
    let other = configuration(&node, &[("memory.available", "100Mi")], "");
    writer.take().unwrap().write_all(other.as_bytes()).unwrap();
    // It was asked for again meanwhile, and that counts.
    daemon.eventually("the last state is in force", |daemon| {
        threshold(daemon) == "90Mi"
    });
    assert_eq!(daemon.said("was reloaded and is in force"), 1);
}
