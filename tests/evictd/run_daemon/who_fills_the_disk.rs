//! `evictd disk`: who fills a filesystem, to the byte.

use super::disk::{own_mounts, tmpfs};
use crate::daemon::Daemon;
use crate::node::{Node, Traits};
use evictd_testkit::program;
use nix::mount::{MsFlags, mount};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const MIB: i64 = 1 << 20;

fn fill(path: &Path, mebibytes: usize) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, vec![1; mebibytes << 20]).unwrap();
}

fn of<'a>(list: &'a Value, key: &str, value: &str) -> &'a Value {
    let mut found = list.as_array().unwrap().iter();
    found.find(|one| one[key] == value).unwrap_or(&Value::Null)
}

/// A process in the pod's group that holds a file open of which the name is gone.
fn holder_of(node: &Node, pod: &str, path: &Path) -> impl Drop + use<> {
    struct Held(std::process::Child);
    impl Drop for Held {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
    let file = File::open(path).unwrap();
    fs::remove_file(path).unwrap();
    let mut sleeper = Command::new("sleep");
    let child = sleeper.arg("600").stdin(Stdio::from(file)).spawn();
    let held = Held(child.unwrap());
    let group = node.group.make(pod);
    node.enter(&group, held.0.id());
    held
}

#[test]
fn the_holders_of_a_filesystem_are_shown_to_the_byte() {
    let name = "the_holders_of_a_filesystem_are_shown_to_the_byte";
    let Some(node) = Node::new(name) else { return };
    if !own_mounts(name) {
        return;
    }
    let disk = node.path("disk");
    tmpfs(&disk, "size=48m");
    let volume = |uid: &str| disk.join(format!("kubelet/pods/{uid}/volumes"));
    let scratch = volume("uid-web").join("kubernetes.io~empty-dir/scratch");
    fill(&scratch.join("data"), 5);
    fill(&scratch.join("deleted"), 3);
    fill(
        &volume("uid-db").join("kubernetes.io~configmap/settings/data"),
        1,
    );
    fill(&disk.join("nobodys"), 7);
    let pod = |uid: &str, volumes: Value| Traits {
        metadata: json!({ "uid": uid }),
        spec: json!({ "volumes": volumes }),
    };
    let web = pod("uid-web", json!([{ "name": "scratch", "emptyDir": {} }]));
    let _web = node.pod("web", "--hold 1Mi", web);
    let db = json!([{ "name": "settings", "configMap": { "name": "settings" } }]);
    let _db = node.pod("db", "--hold 1Mi", pod("uid-db", db));
    let _held = holder_of(&node, "web", &scratch.join("deleted"));
    let place = disk.display();
    let lines = format!(
        "filesystems: {{nodefs: {place}, imagefs: {place}, containerfs: {place}}}\nkubelet: {{rootDir: '{place}/kubelet'}}"
    );
    let daemon = Daemon::start(&node, &[("nodefs.available", "1Mi")], &lines);
    let run = |arguments: &[&str]| {
        let mut command = crate::evictd(&["disk", "--socket"]);
        let command = command.arg(&daemon.socket).args(arguments);
        let output = program::run(command, "");
        assert!(output.status.success(), "{}", program::stderr(&output));
        program::stdout(&output)
    };
    let ledger: Value = serde_json::from_str(&run(&["-o", "json"])).unwrap();
    let [filesystem] = &ledger["filesystems"].as_array().unwrap()[..] else {
        panic!("{ledger}")
    };
    assert_eq!(
        filesystem["roles"],
        json!(["nodefs", "imagefs", "containerfs"])
    );
    let web = of(&filesystem["pods"], "pod", "shop/web");
    assert_eq!(web["byKind"]["emptyDirs"], 5 * MIB, "{ledger}");
    assert_eq!(web["byKind"]["deletedFiles"], 3 * MIB);
    assert_eq!(web["bytes"], 8 * MIB);
    let db = of(&filesystem["pods"], "pod", "shop/db");
    assert_eq!(db["byKind"], json!({ "otherVolumes": MIB }));
    let rest = of(&filesystem["nobodys"], "what", "everything else");
    assert_eq!(rest["bytes"], 7 * MIB);
    assert_eq!(filesystem["usedBytes"], 16 * MIB);
    assert_eq!(filesystem["thresholds"][0]["signal"], "nodefs.available");
    // The ranking agrees.
    let mut ranked = Value::Null;
    daemon.eventually("it is ranked", |daemon| {
        ranked = daemon
            .get("/v1/ranking?signal=nodefs.available")
            .unwrap_or_default();
        ranked["next"] == "shop/web"
    });
    assert_eq!(ranked["pods"][0]["usage"], "8Mi");
    let page = run(&[]);
    for shown in ["shop/web", "(everything else)", "16Mi of 48Mi used"] {
        assert!(page.contains(shown), "{shown} in\n{page}");
    }
}

/// A root of a container as a runtime mounts it, with its writable layer on this disk.
fn container_root(disk: &Path) -> PathBuf {
    let [upper, work, root] = ["upper", "work", "rootfs"].map(|name| disk.join(name));
    for path in [&upper, &work, &root] {
        fs::create_dir(path).unwrap();
    }
    let options = format!(
        "lowerdir=/,upperdir={},workdir={}",
        upper.display(),
        work.display()
    );
    let (source, flags) = (Some("overlay"), MsFlags::empty());
    mount(source, &root, source, flags, Some(options.as_str())).unwrap();
    root
}

#[test]
fn a_writable_layer_is_measured_where_no_runtime_counts_it() {
    let name = "a_writable_layer_is_measured_where_no_runtime_counts_it";
    let Some(mut node) = Node::new(name) else {
        return;
    };
    if !own_mounts(name) {
        return;
    }
    let disk = node.path("disk");
    tmpfs(&disk, "size=24m");
    let root = container_root(&disk);
    let script = format!(
        "exec chroot {} sh -c 'dd of=/written bs=1M count=12 status=none; echo ready; exec sleep 600' < /dev/zero",
        root.display()
    );
    node.group.script("writer", &script);
    node.admit("writer", Traits::default());
    let _idle = node.pod("idle", "--hold 1Mi", Traits::default());
    let place = disk.display();
    let lines = format!(
        "filesystems: {{nodefs: {place}, imagefs: {place}, containerfs: {place}}}\nkubelet: {{rootDir: '{place}/kubelet'}}"
    );
    let daemon = Daemon::start(&node, &[("nodefs.available", "1Mi")], &lines);
    let mut ledger = Value::Null;
    daemon.eventually("the layer is measured", |daemon| {
        ledger = daemon.get("/v1/disk").unwrap_or_default();
        let pods = &ledger["filesystems"][0]["pods"];
        pods.is_array()
            && of(pods, "pod", "shop/writer")["byKind"] == json!({ "writableLayers": 12 * MIB })
    });
    let pods = &ledger["filesystems"][0]["pods"];
    assert_eq!(of(pods, "pod", "shop/idle"), &Value::Null, "{ledger}");
}
