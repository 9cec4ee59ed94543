//! What is read first, and under pressure: it must not be calm where something is exhausted, unknown or contradicted.

use super::{Files, NOW, assert_has};
use serde_json::{Value, json};

const OURS: &str = "kind: EvictionConfiguration\n";
const KUBELETS: &str = "kind: KubeletConfiguration\n";
const GIB: i64 = 1 << 30;

/// A calm node with one pod of 1Gi.
fn summary() -> Value {
    let filesystem = json!({
        "time": "2026-11-21T00:12:15Z", "availableBytes": 50 * GIB, "capacityBytes": 100 * GIB,
        "inodesFree": 5_000_000, "inodes": 6_000_000,
    });
    json!({
        "node": {
            "nodeName": "n1",
            "memory": { "time": "2026-11-21T00:12:15Z", "availableBytes": 4 * GIB, "workingSetBytes": 12 * GIB },
            "fs": filesystem,
            "runtime": { "imageFs": filesystem, "containerFs": filesystem },
            "rlimit": { "time": "2026-11-21T00:12:15Z", "maxpid": 32768, "curproc": 900 },
        },
        "pods": [{
            "podRef": { "name": "forge-0", "namespace": "shop", "uid": "1" },
            "memory": { "workingSetBytes": GIB },
            "volume": [{ "name": "scratch", "usedBytes": 60 * GIB, "inodesUsed": 30 }],
            "containers": [{
                "name": "main",
                "rootfs": { "usedBytes": 102_400, "inodesUsed": 10 },
                "logs": { "usedBytes": 22_528, "inodesUsed": 1 },
            }],
        }],
    })
}

fn pod() -> Value {
    json!({
        "metadata": { "name": "forge-0", "namespace": "shop", "uid": "1" },
        "spec": { "nodeName": "n1", "containers": [{ "name": "main" }],
                  "volumes": [{ "name": "scratch", "emptyDir": {} }] },
        "status": { "phase": "Running" },
    })
}

fn files(summary: &Value, config: &str) -> Files {
    let files = Files::of(&json!({ "kind": "PodList", "items": [pod()] }), summary);
    files.write("config.yaml", config);
    files
}

/// The first line, which is all that some read.
fn headline(page: &str) -> &str {
    page.lines().next().unwrap_or_default()
}

#[test]
fn an_exhausted_signal_without_a_threshold_is_the_headline() {
    let mut summary = summary();
    for path in ["/node/fs/inodesFree", "/node/runtime/imageFs/inodesFree"] {
        *summary.pointer_mut(path).unwrap() = json!(0);
    }
    let config =
        format!("{KUBELETS}evictionHard: {{memory.available: 100Mi, nodefs.available: 10%}}\n");
    let page = files(&summary, &config).page(&["--config", "config.yaml"]);
    let expected = "nodefs.inodesFree, imagefs.inodesFree are exhausted (0 of 6000000 left) and have no threshold: no pod \
                    is evicted for them.";
    assert_eq!(headline(&page), expected);
    assert_has(&page, &["Nothing else is under pressure"]);
}

#[test]
fn a_filesystem_of_capacity_0_is_not_measured() {
    let mut summary = summary();
    let nothing = json!({ "availableBytes": 0, "capacityBytes": 0, "inodesFree": 0, "inodes": 0 });
    summary["node"]["runtime"] = json!({ "imageFs": nothing, "containerFs": nothing });
    for config in [OURS, KUBELETS] {
        let files = files(&summary, config);
        let page = files.page(&["--config", "config.yaml"]);
        assert_has(
            &page,
            &[
                "The nearest is memory.available",
                "not measured: its capacity is 0",
            ],
        );
        let blind =
            "Not measured, so that no pod is evicted for it: imagefs.available, imagefs.inodesFree";
        assert_has(&page, &[blind]);
        assert!(!page.contains(" 0 above"), "{page}");
        assert!(!page.contains("exhausted"), "{page}");
        assert_has(&page, &["one filesystem for everything"]);
    }
}

fn node(disk_pressure: &str, heartbeat: &str, transition: &str) -> Value {
    let condition = |kind: &str, status: &str| json!({ "type": kind, "status": status, "lastHeartbeatTime": heartbeat, "lastTransitionTime": transition });
    json!({
        "kind": "Node", "metadata": { "name": "n1" },
        "status": { "conditions": [condition("DiskPressure", disk_pressure), condition("Ready", "True")] },
    })
}

#[test]
fn a_condition_that_the_figures_contradict_is_doubted() {
    let silent = "last reported 3h 2m ago, at 2026-11-20 21:10:00Z, although a kubelet reports at least every 5m: it is \
                  silent or stuck";
    let table = [
        (
            "True",
            "2026-11-20T21:10:00Z",
            "2026-11-20T20:10:00Z",
            vec![
                silent,
                "DiskPressure has been True since 2026-11-20 20:10:00Z (4h 2m), but these figures show no such shortage.",
            ],
        ),
        (
            "True",
            "2026-11-21T00:12:00Z",
            "2026-11-20T20:10:00Z",
            vec![
                "DiskPressure has been True since 2026-11-20 20:10:00Z (4h 2m), but these figures show no such shortage, and a \
             kubelet clears it 5m after the last one",
            ],
        ),
        // Within the transition period a condition outlives its cause, as it should.
        (
            "True",
            "2026-11-21T00:12:00Z",
            "2026-11-21T00:10:00Z",
            vec![],
        ),
        (
            "False",
            "2026-11-20T21:10:00Z",
            "2026-11-20T20:10:00Z",
            vec![silent],
        ),
        (
            "False",
            "2026-11-21T00:12:00Z",
            "2026-11-20T20:10:00Z",
            vec![],
        ),
    ];
    for (status, heartbeat, transition, expected) in table {
        let files = files(&summary(), OURS);
        files.write(
            "node.json",
            &node(status, heartbeat, transition).to_string(),
        );
        let page = files.page(&["--config", "config.yaml", "--node", "node.json"]);
        assert_has(&page, &expected);
        let contradicts = page.contains("but these figures");
        let expects = expected
            .iter()
            .any(|line| line.contains("but these figures"));
        assert_eq!(contradicts, expects, "{page}");
        assert_eq!(
            page.contains("silent or stuck"),
            expected.contains(&silent),
            "{page}"
        );
    }
    assert!(NOW.starts_with("2026-11-21"));
}

#[test]
fn a_critical_pod_over_its_own_limit_is_named_and_not_evicted() {
    let mut agent = pod();
    agent["spec"]["priority"] = json!(2_000_000_000);
    agent["spec"]["volumes"] = json!([{ "name": "scratch", "emptyDir": { "sizeLimit": "1Gi" } }]);
    for config in [OURS, KUBELETS] {
        let files = Files::of(&json!({ "kind": "PodList", "items": [agent] }), &summary());
        files.write("config.yaml", config);
        let page = files.page(&["--config", "config.yaml"]);
        assert!(headline(&page).contains("no pod is evicted now"), "{page}");
        let sentence = "shop/forge-0 exceeds a limit of its own and is never evicted (critical priority): Usage of EmptyDir \
                        volume \"scratch\" exceeds the limit \"1Gi\"";
        assert_has(&page, &[sentence]);
        let kind = config.trim_end().trim_start_matches("kind: ");
        let timeline = json!({
            "now": NOW, "config": { "kind": kind }, "pods": [agent], "steps": [{ "summary": summary() }],
        });
        files.write("timeline.json", &timeline.to_string());
        let mut simulate = crate::evictd(&["simulate", "timeline.json", "-o", "table"]);
        simulate.current_dir(files.path(""));
        let simulated = evictd_testkit::program::run(&mut simulate, "");
        assert_has(&evictd_testkit::program::page(&simulated), &[sentence]);
    }
}

#[test]
fn a_message_names_the_volume_that_was_weighed() {
    let mut summary = summary();
    for path in [
        "/node/fs/availableBytes",
        "/node/runtime/imageFs/availableBytes",
    ] {
        *summary.pointer_mut(path).unwrap() = json!(8 * GIB);
    }
    let message = |config: &str| {
        let answer = files(&summary, config).json(&["--config", "config.yaml"]);
        answer["evicted"][0]["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let (ours, kubelets) = (message(OURS), message(KUBELETS));
    let (first, _) = kubelets
        .split_once("Container main was using 122Ki")
        .unwrap();
    let weighed = "Pod forge-0 was using 60Gi, request is 0, has larger consumption of ephemeral-storage. Its largest part is \
                   emptyDir volume scratch (60Gi). ";
    assert_eq!(ours, format!("{first}{weighed}"));
}
