//! Where the kubelet keeps its files is found from its process.

use super::disk::{own_mounts, tmpfs};
use crate::daemon::Daemon;
use crate::node::{Node, Traits};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A directory like `/proc`, with processes of this test's own besides.
fn proc_of(node: &Node) -> PathBuf {
    let proc = node.path("proc");
    fs::create_dir(&proc).unwrap();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        symlink(entry.path(), proc.join(entry.file_name())).unwrap();
    }
    proc
}

/// A process that calls itself a kubelet. No process has an id that is so high.
fn kubelet(proc: &Path, pid: u32, uid: u32, cgroup: &Path, options: &str) {
    let process = proc.join(pid.to_string());
    fs::create_dir(&process).unwrap();
    let ids = [
        uid.to_string(),
        uid.to_string(),
        uid.to_string(),
        uid.to_string(),
    ]
    .join("\t");
    let files = [
        ("comm", "kubelet\n".to_owned()),
        ("status", format!("Name:\tkubelet\nUid:\t{ids}\n")),
        ("cgroup", format!("0::/{}\n", cgroup.display())),
        ("cmdline", format!("kubelet\0{options}\0")),
    ];
    for (file, text) in files {
        fs::write(process.join(file), text).unwrap();
    }
}

fn source(daemon: &Daemon, port: &str) -> Value {
    let status = daemon.status();
    let mut sources = status["sources"].as_array().unwrap().iter();
    sources.find(|one| one["port"] == port).unwrap().clone()
}

#[test]
fn the_kubelets_directories_are_taken_from_its_command_line() {
    let name = "the_directories_of_the_kubelet";
    let Some(node) = Node::new(name) else { return };
    if !own_mounts(name) {
        return;
    }
    let disk = node.path("disk");
    tmpfs(&disk, "size=16m");
    let scratch = disk.join("kubelet/pods/uid-web/volumes/kubernetes.io~empty-dir/scratch");
    fs::create_dir_all(&scratch).unwrap();
    fs::write(scratch.join("data"), vec![1; 5 << 20]).unwrap();
    let log = disk.join("logs/shop_web_uid-web/main");
    fs::create_dir_all(&log).unwrap();
    fs::write(log.join("0.log"), vec![1; 2 << 20]).unwrap();
    let traits = Traits {
        metadata: json!({ "uid": "uid-web" }),
        spec: json!({ "volumes": [{ "name": "scratch", "emptyDir": {} }] }),
    };
    let _web = node.pod("web", "--hold 1Mi", traits);
    let place = disk.display();
    let file = disk.join("kubelet.yaml");
    let header = "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n";
    fs::write(&file, format!("{header}podLogsDir: {place}/logs\n")).unwrap();
    let proc = proc_of(&node);
    // A tenant's, in a pod and of another user.
    let pod = node.group.relative.join("pod");
    kubelet(&proc, 900_000_001, 0, &pod, "--root-dir=/evil");
    kubelet(&proc, 900_000_002, 1000, Path::new("a"), "--root-dir=/evil");
    let lines = format!(
        "filesystems: {{nodefs: {place}, imagefs: {place}, containerfs: {place}}}\nroots: {{proc: '{}'}}\ndryRun: true",
        proc.display()
    );
    let start = || Daemon::start(&node, &[("nodefs.available", "1Mi")], &lines);
    let daemon = start();
    assert_eq!(
        source(&daemon, "kubelet.rootDir"),
        json!({
            "port": "kubelet.rootDir", "chosen": "/var/lib/kubelet",
            "why": "the usual directory; no kubelet runs",
        })
    );
    drop(daemon);
    let options = format!("--config={place}/kubelet.yaml\0--root-dir\0{place}/kubelet");
    kubelet(&proc, 900_000_003, 0, Path::new("system.slice"), &options);
    let daemon = start();
    let root = source(&daemon, "kubelet.rootDir");
    assert_eq!(root["chosen"], format!("{place}/kubelet"));
    assert_eq!(root["why"], "--root-dir of the kubelet, process 900000003");
    let logs = source(&daemon, "kubelet.podLogsDir");
    assert_eq!(logs["chosen"], format!("{place}/logs"));
    assert!(daemon.log_text().contains("the kubelet's files in"));
    daemon.eventually("both are counted", |daemon| {
        let ranked = daemon.get("/v1/ranking?signal=nodefs.available");
        ranked.is_some_and(|ranked| ranked["pods"][0]["usage"] == "7Mi")
    });
}
