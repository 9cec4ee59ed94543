//! What evictd does in a cluster. It runs against the testkit, and unchanged against a real cluster, on the machine that is
//! its node; see [`evictd_testkit::SuiteCluster`]. What it relies on there is in the testkit's suite of this name; the scheduler and
//! the batch controllers have theirs in their crates.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "in a test a panic is the report"
)]

#[allow(dead_code, reason = "other tests need what these do not")]
#[path = "../crates/kernel/tests/support/cgroup.rs"]
mod cgroup_support;
#[allow(dead_code, reason = "other tests need what these do not")]
#[path = "../crates/testkit/tests/support/suite.rs"]
mod support;

use cgroup_support::{TestCgroup, left_out};
use evictd_kernel::cgroup::{DEFAULT_ROOT, Hierarchies};
use evictd_testkit::{Driver, Processes, SuiteCluster};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;
use support::{AT_MOST, Suite, create, has_condition, has_taint, was_evicted};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

const EVICTD: &str = env!("CARGO_BIN_EXE_evictd");
const CONDITION: &str = "EvictdMemoryPressure";
const TAINT: &str = "evictd.dev/memory-pressure";
/// Of the memory of all pods, what is left when the test begins; the hog takes more than that.
const HEADROOM: i64 = 96 << 20;
const HOG: &str = "--hold 1Mi --grow-to 192Mi --per-second 96Mi";
/// What the testkit's pods may take together, should anything go wrong.
const BOUND: &str = "536870912";

/// One daemon at a time: each writes the same conditions of the same Node.
static NODE: Mutex<()> = Mutex::const_new(());

/// A suite on whose node the built daemon runs beside the kubelet.
struct Ward {
    suite: Suite,
    /// The cgroup with all pods, below the root of each hierarchy.
    pods: PathBuf,
    evictd: Option<Child>,
    _group: Option<TestCgroup>,
}

impl Ward {
    /// With a modest pod; `driver` names the cgroups of the testkit's kubelet. None, having said so, where this is not the node, or no cgroups can be made for one.
    async fn start(test: &str, driver: Driver) -> Option<Self> {
        let mut roots = Vec::new();
        let group = if SuiteCluster::is_real() {
            None
        } else {
            let group = TestCgroup::new(test, &["memory", "pids", "freezer", "unified"])?;
            let hierarchies = Hierarchies::detect(Path::new(DEFAULT_ROOT)).unwrap();
            let own = hierarchies
                .mounts()
                .map(|mount| mount.join(&group.relative));
            roots.extend(own.filter(|directory| directory.is_dir()));
            for bound in ["memory.limit_in_bytes", "memory.max"] {
                // One of them is there.
                let _ = fs::write(group.dir(bound), BOUND);
            }
            Some(group)
        };
        let runtime = Processes::new(roots, driver).with_entrypoint(EVICTD);
        let suite = Suite::start(test, runtime).await;
        let modest = suite.pod("modest", "--hold 1Mi").await;
        let uid = modest["metadata"]["uid"].as_str().unwrap();
        let Some(pods) = cgroup_of_all_pods(uid) else {
            left_out(
                test,
                "this machine is not the node: it has no cgroup of its pods",
            );
            return None;
        };
        let mut ward = Self {
            suite,
            pods,
            evictd: None,
            _group: group,
        };
        ward.forget_what_was();
        // What a threshold must be above is what is left now.
        ward.run("evictionHard: {memory.available: 1Mi}", &[]).await;
        Some(ward)
    }

    fn path(&self, below: &str) -> PathBuf {
        self.suite.home.path().join(below)
    }

    /// Runs the daemon, with all other namespaces' pods out of its reach.
    async fn run(&mut self, lines: &str, arguments: &[&str]) {
        self.stop();
        let namespaces: Api<Namespace> = Api::all(self.suite.client.clone());
        let namespaces = namespaces.list(&ListParams::default()).await.unwrap();
        let others = namespaces.items.into_iter();
        let others: Vec<String> = others
            .filter_map(|namespace| namespace.metadata.name)
            .filter(|name| *name != self.suite.namespace)
            .collect();
        let home = self.suite.home.path().display();
        let off = [
            "imagefs.available",
            "imagefs.inodesFree",
            "nodefs.available",
            "nodefs.inodesFree",
            "pid.available",
        ];
        let lines = lines.replace(
            '}',
            &format!(
                ", {}}}",
                off.map(|signal| format!("{signal}: null")).join(", ")
            ),
        );
        let text = format!(
            "apiVersion: evictd.dev/v1alpha1\nkind: EvictionConfiguration\n{lines}\n\
             evictionPressureTransitionPeriod: 3s\nnodeName: '{}'\nnodeCgroup: '{pods}'\ncgroupRoots: ['{pods}']\n\
             pods: {{source: kubernetes}}\nkubernetes: {{kubeconfig: '{}'}}\nprotect: {{namespaces: {}}}\n\
             metrics: {{address: '127.0.0.1:0'}}\nsocket: {home}/evictd.sock\nstateDirectory: {home}/state\n\
             runtimeDirectory: {home}/run\n",
            self.suite.ground.node(),
            self.suite.ground.kubeconfig().display(),
            json!(others),
            pods = self.pods.display(),
        );
        fs::write(self.path("evictd.yaml"), text).unwrap();
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.path("log"));
        let child = Command::new(EVICTD)
            .args(["run", "--config"])
            .arg(self.path("evictd.yaml"))
            .args(arguments)
            .stderr(log.unwrap())
            .spawn();
        self.evictd = Some(child.unwrap());
        self.eventually("evictd knows what is left", |ward| {
            let status = ward.ask(&["status"]);
            status["signals"][0]["available"].is_number() && status["pods"]["active"] != 0
        })
        .await;
    }

    /// Runs it so that the hog crosses the threshold, and the pods that are there do not.
    async fn watch(&mut self, arguments: &[&str]) {
        let left = self.ask(&["status"])["signals"][0]["available"]
            .as_i64()
            .unwrap();
        let threshold = left - HEADROOM;
        let lines = format!("evictionHard: {{memory.available: '{threshold}'}}");
        self.run(&lines, arguments).await;
    }

    /// What a command prints; null where it fails.
    fn ask(&self, arguments: &[&str]) -> Value {
        let output = Command::new(EVICTD)
            .args(arguments)
            .args(["-o", "json", "--socket"])
            .arg(self.path("evictd.sock"))
            .output()
            .unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    async fn eventually(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + AT_MOST;
        while !holds(self) {
            assert!(Instant::now() < deadline, "still not: {what}");
            sleep(Duration::from_millis(50)).await;
        }
    }

    fn stop(&mut self) {
        if let Some(mut evictd) = self.evictd.take() {
            let _ = evictd.kill();
            let _ = evictd.wait();
        }
    }

    /// Takes everything of evictd's off the Node, an earlier run's included.
    fn forget_what_was(&mut self) -> Value {
        self.stop();
        let kubeconfig = self.suite.ground.kubeconfig();
        let text = format!(
            "apiVersion: evictd.dev/v1alpha1\nkind: EvictionConfiguration\nnodeName: '{}'\nkubernetes: {{kubeconfig: '{}'}}\n",
            self.suite.ground.node(),
            kubeconfig.display()
        );
        fs::write(self.path("node.yaml"), text).unwrap();
        let output = Command::new(EVICTD)
            .args(["uninstall-node", "-o", "json", "--config"])
            .arg(self.path("node.yaml"))
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{told}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

impl Drop for Ward {
    fn drop(&mut self) {
        if std::thread::panicking() {
            use std::io::Write;
            let log = fs::read_to_string(self.path("log")).unwrap_or_default();
            let _ = writeln!(
                std::io::stderr(),
                "--- evictd said:\n{log}\n--- and ranks:\n{:#}",
                self.ask(&["rank"])
            );
            self.stop();
        } else {
            self.forget_what_was();
        }
    }
}

/// The group in which the kubelet has all its pods, found by one of them.
fn cgroup_of_all_pods(uid: &str) -> Option<PathBuf> {
    let hierarchies = Hierarchies::detect(Path::new(DEFAULT_ROOT)).ok()?;
    let mut tops = vec![PathBuf::new()];
    // A kubelet may have a root of its own, and the testkit's has.
    let names =
        evictd_kernel::cgroup::subdirectories(&hierarchies.process_directory(Path::new("")).ok()?)
            .ok()?;
    tops.extend(names.into_iter().map(PathBuf::from));
    let mut found = tops
        .iter()
        .filter_map(|top| hierarchies.find_pod(top, uid).ok()?);
    let pod = found.next()?.relative;
    let is_tree = |group: &&Path| {
        let name = group.file_name().unwrap_or_default().to_string_lossy();
        name.trim_end_matches(".slice").ends_with("kubepods")
    };
    pod.ancestors().find(is_tree).map(Path::to_owned)
}

fn tells_why(pod: &Value) -> bool {
    let message = pod["status"]["message"].as_str().unwrap_or_default();
    was_evicted(pod) && message.starts_with("The node was low on resource: memory. ")
}

#[tokio::test]
async fn a_dry_run_decides_and_ends_no_pod() {
    let _one = NODE.lock().await;
    let Some(mut ward) = Ward::start("dryrun", Driver::Cgroupfs).await else {
        return;
    };
    ward.watch(&["--dry-run"]).await;
    ward.suite.pod("hog", HOG).await;
    ward.eventually("it has decided", |ward| {
        let decision = &ward.ask(&["history"])[0];
        let pod = decision["pod"].as_str().unwrap_or_default();
        decision["dryRun"] == true && pod.ends_with("/hog")
    })
    .await;
    let lives = |pod: &Value| {
        pod["status"]["phase"] == "Running"
            && pod["status"]["containerStatuses"][0]["restartCount"] == 0
    };
    ward.suite.stays("hog", 15, lives).await;
}

#[tokio::test]
async fn an_evicted_pod_is_replaced_by_its_owner_and_the_node_keeps_the_next_one_away() {
    let _one = NODE.lock().await;
    let Some(mut ward) = Ward::start("owner", Driver::Cgroupfs).await else {
        return;
    };
    ward.watch(&[]).await;
    let node = ward.suite.node(|node| !node.is_null()).await;
    let taints = node["spec"]["taints"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let tolerations: Vec<Value> = taints
        .iter()
        .map(|taint| json!({"key": taint["key"], "operator": "Exists"}))
        .collect();
    let mut spec = ward.suite.worker(HOG);
    spec["tolerations"] = tolerations.into();
    let here =
        json!([{"key": "metadata.name", "operator": "In", "values": [ward.suite.ground.node()]}]);
    spec["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchFields": here}],
    }}});
    let labels = json!({"app": "owned"});
    let sets: Api<ReplicaSet> = ward.suite.api();
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "owner"},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    });
    create(&sets, set).await.unwrap();
    let owned = async |what: &str, holds: &dyn Fn(&[Value]) -> bool| {
        let deadline = Instant::now() + AT_MOST;
        let mut pods: Vec<Value> = Vec::new();
        while !holds(&pods) {
            assert!(Instant::now() < deadline, "still not: {what}: {pods:#?}");
            sleep(Duration::from_millis(50)).await;
            let labelled = ListParams::default().labels("app=owned");
            if let Ok(found) = ward.suite.pods.list(&labelled).await {
                pods = found.items.iter().map(|pod| json!(pod)).collect();
            }
        }
    };
    let waits =
        |pod: &Value| pod["spec"]["nodeName"].is_null() && pod["status"]["phase"] == "Pending";
    owned("one was evicted and the next waits", &|pods| {
        pods.iter().any(tells_why) && pods.iter().any(waits)
    })
    .await;
    sets.delete("owner", &DeleteParams::background())
        .await
        .unwrap();
}

/// What is measured in seconds.
mod alone {
    use super::*;

    #[tokio::test]
    async fn a_hog_is_evicted_and_the_node_shows_its_pressure_until_it_is_over() {
        let _one = NODE.lock().await;
        let Some(mut ward) = Ward::start("hog", Driver::Systemd).await else {
            return;
        };
        ward.watch(&[]).await;
        ward.suite.pod("hog", HOG).await;
        ward.suite
            .node(|node| has_condition(node, CONDITION, "True") && has_taint(node, TAINT))
            .await;
        let pod = ward.suite.sees("hog", tells_why).await;
        assert!(has_condition(&pod, "DisruptionTarget", "True"));
        let record = pod["metadata"]["annotations"]["evictd.dev/evicted"]
            .as_str()
            .unwrap();
        let record: Value = serde_json::from_str(record).unwrap();
        assert_eq!(record["signal"], "memory.available");
        let history = ward.ask(&["history"]);
        let decisions = history.as_array().unwrap().iter();
        let evicted: Vec<&Value> = decisions.filter(|one| one["pod"].is_string()).collect();
        assert_eq!(evicted.len(), 1, "{history:#}");
        assert_eq!(evicted[0]["id"], record["decision"]);
        ward.eventually("the history says that the cluster knows", |ward| {
            ward.ask(&["history"])[0]["publication"]["state"] == "published"
        })
        .await;
        let reaction = ward.ask(&["history"])[0]["outcome"]["reactionSeconds"].as_f64();
        assert!(
            reaction.is_some_and(|seconds| seconds < 1.0),
            "{reaction:?}"
        );

        ward.suite
            .node(|node| has_condition(node, CONDITION, "False") && !has_taint(node, TAINT))
            .await;
        ward.suite.stays("hog", 30, tells_why).await;
        let lives = |pod: &Value| {
            pod["status"]["phase"] == "Running"
                && pod["status"]["containerStatuses"][0]["restartCount"] == 0
        };
        ward.suite.sees("modest", lives).await;
        let removed = ward.forget_what_was();
        assert!(removed.to_string().contains(CONDITION), "{removed}");
        let clean = |node: &Value| {
            let conditions = node["status"]["conditions"]
                .as_array()
                .into_iter()
                .flatten();
            let mut kinds = conditions.filter_map(|condition| condition["type"].as_str());
            !node.is_null()
                && !kinds.any(|kind| kind.starts_with("Evictd"))
                && !has_taint(node, TAINT)
        };
        ward.suite.node(clean).await;
    }
}
