//! `evictd explain` as a user starts it, on what a real kubelet 1.36.2 reported and on each case it answered.

mod fetch;
mod headlines;
mod oracle;
mod requests;
mod words;

use evictd_kernel::clock::Clock;
use evictd_testkit::program::{self, page, stderr};
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::{fs, path::PathBuf, process::Output};
use tempfile::TempDir;

/// Five seconds after the real node's figures were measured.
const NOW: &str = "2026-11-21T00:12:20Z";

fn fixture(name: &str) -> String {
    format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// What is explained, in files of their own.
struct Files {
    folder: TempDir,
}

impl Files {
    /// The real node's pods and summary.
    fn real() -> Self {
        let files = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        for name in ["pods.json", "summary.json", "node.json"] {
            fs::copy(fixture(&format!("explain/{name}")), files.path(name)).unwrap();
        }
        files
    }

    fn of(pods: &Value, summary: &Value) -> Self {
        let files = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        files.write("pods.json", &pods.to_string());
        files.write("summary.json", &summary.to_string());
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut value = serde_json::from_slice(&fs::read(self.path(name)).unwrap()).unwrap();
        change(&mut value);
        self.write(name, &value.to_string());
    }

    /// Runs `evictd explain` in the folder.
    fn explain(&self, arguments: &[&str]) -> Output {
        let files = ["--pods", "pods.json", "--summary", "summary.json"];
        let mut command = crate::evictd(&["explain", "--now", NOW]);
        command.current_dir(self.folder.path());
        program::run(command.args(files).args(arguments), "")
    }

    fn page(&self, arguments: &[&str]) -> String {
        page(&self.explain(&[arguments, &["-o", "table"]].concat()))
    }

    fn json(&self, arguments: &[&str]) -> Value {
        program::answer(&self.explain(&[arguments, &["-o", "json"]].concat()))
    }
}

fn assert_has(page: &str, lines: &[&str]) {
    for line in lines {
        assert!(page.contains(line), "{line:?} is not in\n{page}");
    }
}

/// Thresholds of ours under which the real node is short of memory.
const SHORT: &str = "kind: EvictionConfiguration
evictionHard: { memory.available: 20Gi }
";

#[test]
fn a_calm_node_is_reported_with_the_first_candidate() {
    let files = Files::real();
    assert_has(
        &files.page(&[]),
        &[
            "Nothing is under pressure: no pod is evicted now. The nearest is imagefs.available, 32.1Gi above its threshold.",
            "First victim for memory.available: default/be uses 50.6Mi and requested none",
            "the kubelet's rules with its default thresholds",
            "one filesystem for everything: the node's and the images' figures agree",
            "figures from 2026-11-21 00:12:15Z, 5s ago",
        ],
    );
    let answer = files.json(&[]);
    assert_eq!(answer["next"], "default/be");
    assert_eq!(answer["evicted"], json!([]));
    let order: Vec<&Value> = answer["pods"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pod| &pod["pod"])
        .collect();
    assert_eq!(
        order,
        ["default/be", "default/bu", "default/hostnet", "default/gu"]
    );
    for key in [
        "pod",
        "rank",
        "exceedsRequest",
        "priority",
        "usage",
        "request",
        "overage",
        "critical",
        "protected",
        "qos",
        "why",
    ] {
        assert!(answer["pods"][0].get(key).is_some(), "{key}");
    }
}

#[test]
fn pods_are_read_from_a_directory_as_from_a_list() {
    let files = Files::real();
    let text = fs::read(files.path("pods.json")).unwrap();
    let list: Value = serde_json::from_slice(&text).unwrap();
    fs::create_dir_all(files.path("dump/shop")).unwrap();
    for (index, pod) in list["items"].as_array().unwrap().iter().enumerate() {
        let folder = if index % 2 == 0 { "dump" } else { "dump/shop" };
        let mut pod = pod.clone();
        pod["kind"] = json!("Pod");
        files.write(&format!("{folder}/{index}.json"), &pod.to_string());
    }
    let mut command = crate::evictd(&["explain", "--now", NOW, "-o", "json"]);
    command.current_dir(files.folder.path());
    command.args(["--pods", "dump", "--summary", "summary.json"]);
    let output = program::run(&mut command, "");
    assert_eq!(program::answer(&output), files.json(&[]));
}

#[test]
fn a_node_under_pressure_is_reported_with_the_victim_and_the_reason() {
    let files = Files::real();
    files.write("config.yaml", SHORT);
    // Four small pods cannot lift the node by 839Mi.
    assert_has(
        &files.page(&["--config", "config.yaml"]),
        &[
            "No pod is evicted, although memory.available 19.2Gi < 20Gi: the pods that may be evicted hold 201Mi together, and 839Mi are missing",
            "4.2Gi of 23.5Gi are used outside of pods",
        ],
    );
    files.write(
        "config.yaml",
        &format!("{SHORT}\nevictWithoutRelief: true\n"),
    );
    assert_has(
        &files.page(&["--config", "config.yaml"]),
        &[
            "default/be is evicted now, without a grace period: memory.available 19.2Gi < 20Gi.",
            "Why this one: default/be uses 50.6Mi and requested none, the most of its kind; default/bu, next, uses 70.3Mi, 38.3Mi above its request of 32Mi; 4.2Gi of 23.5Gi are used outside of pods.",
            "MET, acts now",
            "Node conditions set: MemoryPressure",
            "evictd's rules from config.yaml",
        ],
    );
    let answer = files.json(&["--config", "config.yaml"]);
    assert_eq!(answer["next"], "default/be");
    assert_eq!(answer["evicted"][0]["pod"], "default/be");
    assert_eq!(answer["ranking"][0], "default/be");
}

#[test]
fn the_configuration_of_a_real_kubelet_is_taken_as_it_is() {
    let files = Files::real();
    let config = fixture("kubelet-configz.json");
    let page = files.page(&["--config", &config]);
    // That node has every signal switched off.
    assert_has(
        &page,
        &[
            "Eviction is off: no signal has a threshold, so no pod is evicted, whatever this node runs out of.",
            "memory.available                19.2Gi    23.5Gi",
        ],
    );
    // One clear thing: nobody is said to be first.
    for absent in ["First victim", "in the order of eviction", "default/be"] {
        assert!(!page.contains(absent), "{absent}\n{page}");
    }
    let longest = page.lines().map(|line| line.chars().count()).max();
    assert!(longest.unwrap() < 130, "{page}");
    let page = files.page(&["--config", &config, "--signal", "memory.available"]);
    assert_has(
        &page,
        &[
            "Eviction is off",
            "First victim for memory.available: default/be",
        ],
    );
}

#[test]
fn a_soft_threshold_cannot_have_lasted_in_one_capture() {
    let files = Files::real();
    files.write(
        "config.yaml",
        "kind: KubeletConfiguration
evictionSoft: { memory.available: 20Gi }
evictionSoftGracePeriod: { memory.available: 1m30s }
",
    );
    assert_has(
        &files.page(&["--config", "config.yaml"]),
        &[
            "No pod is evicted yet: memory.available 19.2Gi < 20Gi, which acts once it has lasted 1m30s.",
            "First victim for memory.available: default/be",
            "MET, would act after 1m30s",
        ],
    );
    assert_eq!(
        files.json(&["--config", "config.yaml"])["evicted"],
        json!([])
    );
}

#[test]
fn another_signal_can_be_asked_for() {
    let files = Files::real();
    assert_has(
        &files.page(&["--signal", "nodefs.available"]),
        &["First victim for nodefs.available: default/bu uses 50.1Mi"],
    );
    assert_eq!(
        files.json(&["--signal", "nodefs.available"])["rankedFor"],
        "nodefs.available"
    );
}

#[test]
fn s1_045_where_every_pod_is_critical_nobody_goes() {
    let files = Files::real();
    files.write("config.yaml", SHORT);
    files.change("pods.json", |pods| {
        for pod in pods["items"].as_array_mut().unwrap() {
            pod["spec"]["priority"] = json!(2_000_000_000);
        }
    });
    assert_has(
        &files.page(&["--config", "config.yaml"]),
        &["No pod is evicted, although memory.available 19.2Gi < 20Gi: every pod is critical"],
    );
    assert_eq!(
        files.json(&["--config", "config.yaml"])["next"],
        Value::Null
    );
}

#[test]
fn s1_069_a_pod_over_a_limit_of_its_own_goes_first() {
    let files = Files::real();
    files.change("pods.json", |pods| {
        let items = pods["items"].as_array_mut().unwrap();
        let pod = items
            .iter_mut()
            .find(|pod| pod["metadata"]["name"] == "bu")
            .unwrap();
        let volumes = pod["spec"]["volumes"].as_array_mut().unwrap();
        let volume = volumes
            .iter_mut()
            .find(|volume| volume["name"] == "d")
            .unwrap();
        volume["emptyDir"]["sizeLimit"] = json!("1Mi");
    });
    assert_has(
        &files.page(&[]),
        &[
            "default/bu is evicted now, because it exceeds a storage limit of its own:",
            "Usage of EmptyDir volume \"d\" exceeds the limit \"1Mi\".",
        ],
    );
    let answer = files.json(&[]);
    assert_eq!(answer["localStorageEviction"], true);
    assert_eq!(answer["next"], "default/bu");
}

#[test]
fn s1_060_missing_figures_are_told_and_each_side_ranks_them_its_way() {
    let files = Files::real();
    files.change("summary.json", |summary| {
        let stats = summary["pods"].as_array_mut().unwrap();
        stats.retain(|stats| stats["podRef"]["name"] != "gu");
        stats.push(json!({ "podRef": { "name": "ghost", "namespace": "team", "uid": "?" } }));
    });
    let told = stderr(&files.explain(&[]));
    assert_has(
        &told,
        &[
            "pods that are not in the summary, so that their usage is unknown (1): default/gu",
            "pods that are only in the summary, and are not ranked (1): team/ghost",
        ],
    );
    assert_eq!(files.json(&[])["next"], "default/gu");
    files.write("config.yaml", SHORT);
    assert_eq!(
        files.json(&["--config", "config.yaml"])["pods"][3]["pod"],
        "default/gu"
    );
}

#[test]
fn pods_of_other_nodes_are_left_out() {
    let files = Files::real();
    files.change("pods.json", |pods| {
        pods["items"][1]["spec"]["nodeName"] = json!("elsewhere");
    });
    let output = files.explain(&["-o", "json"]);
    assert_has(
        &stderr(&output),
        &["1 pods of the list run on other nodes than vm and are left out"],
    );
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["pods"].as_array().unwrap().len(), 3);
}

#[test]
fn yaml_and_stdin_will_do() {
    let files = Files::real();
    let pods: Value = serde_json::from_slice(&fs::read(files.path("pods.json")).unwrap()).unwrap();
    files.write("pods.yaml", &serde_saphyr::to_string(&pods).unwrap());
    let mut command = crate::evictd(&["explain", "--summary", "-", "-o", "yaml", "--now", NOW]);
    command.arg("--pods").arg(files.path("pods.yaml"));
    let summary = fs::read(files.path("summary.json")).unwrap();
    let answer = page(&program::run(&mut command, summary));
    let answer: Value = serde_saphyr::from_str(&answer).unwrap();
    assert_eq!(answer, files.json(&[]));
}

#[test]
fn every_mistake_in_every_file_is_told_at_once() {
    let files = Files::real();
    files.change("pods.json", |pods| {
        pods["items"][2]["spec"]["priority"] = json!("high");
    });
    files.change("summary.json", |summary| {
        summary["node"]["memory"]["availableBytes"] = json!(-1);
        summary["pods"][0]["podRef"]["uid"] = json!([]);
    });
    files.write(
        "config.yaml",
        "kind: EvictionConfiguration\nevictionHrad: {}\n",
    );
    files.write("node.json", "{ \"kind\": \"Pod\" }");
    let output = files.explain(&["--config", "config.yaml", "--node", "node.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert_has(
        &stderr(&output),
        &[
            "default/bu: spec.priority: ",
            "node.memory.availableBytes: ",
            "pods[0].podRef.uid: ",
            "evictionHrad",
            "node.json: holds no Node; it holds 1 Pod",
        ],
    );
}

#[test]
fn a_file_that_is_not_a_capture_is_an_error() {
    let files = Files::real();
    for text in ["", "{", "7", "\u{0}", "[]"] {
        files.write("broken", text);
        for option in ["--pods", "--summary", "--node"] {
            // An array of no pods is that of a node without pods.
            if (option, text) == ("--pods", "[]") {
                continue;
            }
            let mut command = crate::evictd(&["explain"]);
            command.current_dir(files.folder.path());
            for (name, file) in [
                ("--pods", "pods.json"),
                ("--summary", "summary.json"),
                ("--node", "node.json"),
            ] {
                let file = if name == option { "broken" } else { file };
                command.args([name, file]);
            }
            let output = program::run(&mut command, "");
            assert_eq!(output.status.code(), Some(2), "{option} {text:?}");
        }
    }
    let both = files.explain(&["--node", "-", "--config", "-"]);
    assert_eq!(both.status.code(), Some(2));
    assert_has(&stderr(&both), &["only one"]);
    let missing = files.explain(&["--config", "."]);
    assert_eq!(missing.status.code(), Some(2));
    assert_has(&stderr(&missing), &["directory"]);
}

#[test]
fn a_summary_that_tells_little_is_answered_and_one_that_tells_nothing_is_not() {
    let no_pods = json!({ "kind": "PodList", "items": [] });
    let nothing = Files::of(&no_pods, &json!({ "kind": "PodList", "items": [{}] })).explain(&[]);
    assert_eq!(nothing.status.code(), Some(2));
    assert_has(
        &stderr(&nothing),
        &["summary.json: holds no figures of a node or its pods"],
    );
    let little = Files::of(&no_pods, &json!({ "node": null, "pods": [{}] }));
    assert_has(
        &little.page(&[]),
        &[
            "No pod is evicted: the summary has no figures of the signals that have thresholds.",
            "There are no pods.",
        ],
    );
}

#[test]
fn s1_080_s1_081_taints_follow_the_conditions() {
    let page = Files::real().page(&["--node", "node.json"]);
    assert_has(
        &page,
        &[
            "Node vm: Ready is False.",
            "node.kubernetes.io/memory-pressure  NoSchedule  about to be added    2026-11-21 00:11:40Z",
            "node.kubernetes.io/not-ready        NoSchedule  about to be added",
            "node.kubernetes.io/not-ready        NoExecute   present              2026-11-21 00:10:00Z",
            "node.kubernetes.io/disk-pressure    NoSchedule  about to be removed",
            "example.com/dedicated               NoSchedule  present",
        ],
    );
}

#[test]
fn a_filesystem_that_the_node_reports_as_read_only_is_told() {
    let files = Files::real();
    let told = "ReadonlyFilesystem is True (FilesystemIsReadOnly: Remounting filesystem read-only)";
    let page = files.page(&["--node", "node.json"]);
    assert!(!page.contains("ReadonlyFilesystem"), "{page}");
    files.change("node.json", |node| {
        let conditions = node["status"]["conditions"].as_array_mut().unwrap();
        conditions.push(json!({
            "type": "ReadonlyFilesystem", "status": "True", "reason": "FilesystemIsReadOnly",
            "message": "Remounting filesystem read-only",
        }));
    });
    let answer = files.json(&["--node", "node.json"]);
    let answer = answer["node"]["readOnly"].as_str().unwrap().to_owned();
    assert!(answer.starts_with(told), "{answer}");
    assert!(answer.contains("evicts no pod for it"), "{answer}");
    let page = files.page(&["--node", "node.json"]);
    assert!(
        page.contains("WARNING") && page.contains("ReadonlyFilesystem"),
        "{page}"
    );
}

#[test]
fn s1_083_s1_084_no_execute_removes_pods_when_their_toleration_ends() {
    let files = Files::real();
    files.change("pods.json", |pods| {
        let items = pods["items"].as_array_mut().unwrap();
        items[0]["spec"]["tolerations"] = Value::Null;
        items[1]["spec"]["tolerations"][0]["tolerationSeconds"] = json!(30);
        items[2]["spec"]["tolerations"] = Value::Null;
        items[2]["metadata"]["ownerReferences"] =
            json!([{ "kind": "DaemonSet", "name": "d", "uid": "d", "controller": true }]);
    });
    let answer = files.json(&["--node", "node.json"]);
    let removals: Vec<(&str, &str, f64)> = answer["node"]["removals"]
        .as_array()
        .unwrap()
        .iter()
        .map(|removal| {
            let text = |key: &str| removal[key].as_str().unwrap();
            (
                text("pod"),
                text("at"),
                removal["inSeconds"].as_f64().unwrap(),
            )
        })
        .collect();
    // The DaemonSet's pod stays.
    assert_eq!(
        removals,
        [
            ("default/be", "2026-11-21T00:10:30Z", -110.0),
            ("default/hostnet", "2026-11-21T00:15:00Z", 160.0),
            ("default/gu", "2026-11-21T00:15:00Z", 160.0),
        ]
    );
}

#[test]
fn s1_082_only_its_lease_tells_that_a_node_is_silent() {
    let files = Files::real();
    files.change("node.json", |node| {
        node["spec"]["taints"] = json!([]);
        let conditions = node["status"]["conditions"].as_array_mut().unwrap();
        conditions.retain(|condition| condition["type"] == "Ready");
        conditions[0]["status"] = json!("True");
        // A healthy node writes its status every five minutes.
        conditions[0]["lastHeartbeatTime"] = json!("2026-11-21T00:08:20Z");
    });
    let node = ["--node", "node.json"];
    let page = files.page(&node);
    assert_has(
        &page,
        &[
            "Node vm: Ready is True.",
            "No pod is removed by a NoExecute taint",
        ],
    );
    assert_eq!(files.json(&node)["node"]["heartbeat"], Value::Null);

    files.change("node.json", |node| {
        let spec = json!({ "renewTime": "2026-11-21T00:12:10.000000Z" });
        let lease = json!({ "kind": "Lease", "metadata": { "name": "vm" }, "spec": spec });
        *node = json!({ "kind": "List", "items": [node.take(), lease] });
    });
    let healthy = [
        "Ready is True; its lease was renewed 10s ago.",
        "No pod is removed by a NoExecute taint",
    ];
    assert_has(&files.page(&node), &healthy);
    files.change("node.json", |list| {
        list["items"][1]["spec"]["renewTime"] = json!("2026-11-21T00:11:20.000000Z");
    });
    assert_has(
        &files.page(&node),
        &[
            "its lease was renewed 1m ago, longer than the 50 s that a controller waits",
            "node.kubernetes.io/unreachable  NoExecute   unless it reports  2026-11-21 00:12:10Z",
            "default/hostnet       in 4m 50s",
        ],
    );
}

/// A list as large as no node has; what a person would wait for at most, with room for a busy machine.
#[test]
fn a_huge_list_is_answered_in_seconds() {
    let (count, patience) = if cfg!(debug_assertions) {
        (5_000, SignedDuration::from_mins(1))
    } else {
        (100_000, SignedDuration::from_secs(20))
    };
    let pods: Vec<Value> = (0..count)
        .map(|index| {
            json!({
                "metadata": { "name": format!("pod-{index}"), "namespace": "team", "uid": index.to_string() },
                "spec": { "priority": index % 7, "containers": [{ "name": "c", "resources": { "requests": { "memory": "10Mi" } } }] },
                "status": { "phase": "Running" },
            })
        })
        .collect();
    let stats: Vec<Value> = (0..count)
        .map(|index| {
            json!({
                "podRef": { "uid": index.to_string() },
                "memory": { "workingSetBytes": (index * 7919) % (20 << 20) },
            })
        })
        .collect();
    let node = json!({ "memory": { "availableBytes": 1 << 20, "workingSetBytes": 8_u64 << 30 } });
    let files = Files::of(
        &json!({ "kind": "PodList", "items": pods }),
        &json!({ "node": node, "pods": stats }),
    );
    let clock = Clock::start();
    let before = clock.now();
    let answer = files.json(&[]);
    let took = clock.now().duration_since(before);
    assert_eq!(answer["pods"].as_array().unwrap().len(), count);
    assert_eq!(answer["evicted"].as_array().unwrap().len(), 1);
    assert!(took < patience, "took {took:?}");
    assert_has(&files.page(&[]), &[&format!("... and {} more", count - 20)]);
}
