//! The kubelet of our own does what a real one was seen to do.

use super::{AT_MOST, pod};
use evictd_testkit::{Actor, ApiServer, Controllers, Driver, FakeRuntime, Kubelet, Processes};
use serde_json::{Value, json};
use std::time::Duration;

/// What takes a kubelet 10 s takes this one 100 ms.
const SECOND: Duration = Duration::from_millis(10);

struct Node {
    api: ApiServer,
    admin: Actor,
    kubelet: Kubelet,
}

impl Node {
    async fn start() -> Self {
        Self::with(SECOND).await
    }

    /// It has just written over what others say, and will do so again in ten of its seconds.
    async fn with(second: Duration) -> Self {
        let api = ApiServer::start().unwrap();
        let kubelet = Kubelet::start(&api, "one", second, FakeRuntime::default()).unwrap();
        let admin = api.actor("test");
        let ready = |admin: &Actor| {
            admin
                .get("nodes", "one")
                .filter(|node| has_condition(node, "Ready", "True"))
        };
        assert!(admin.wait(AT_MOST, ready).await.is_some());
        Self {
            api,
            admin,
            kubelet,
        }
    }

    /// A running pod, on which SIGTERM has this effect.
    async fn pod(&self, on_term: &str) {
        let mut pod = pod("a", "one");
        pod["metadata"]["annotations"] = json!({"testkit/on-term": on_term});
        pod["spec"]["terminationGracePeriodSeconds"] = 5.into();
        self.admin.create(pod).unwrap();
        self.sees(|pod| pod["status"]["phase"] == "Running").await;
    }

    fn fail(&self, annotated: bool) {
        let mut patch = json!({"status": {
            "phase": "Failed", "reason": "Evicted", "message": "low on memory",
            "conditions": [{"type": "DisruptionTarget", "status": "True"}],
        }});
        if annotated {
            patch["metadata"]["annotations"] = json!({"evictd.dev/evicted": "yes"});
        }
        self.admin.strategic("pods/status", "a", patch).unwrap();
    }

    async fn sees(&self, what: impl Fn(&Value) -> bool) -> Value {
        let look = |admin: &Actor| admin.get("pods", "a").filter(|pod| what(pod));
        let seen = self.admin.wait(AT_MOST, look).await;
        seen.unwrap_or_else(|| panic!("{:#}", self.admin.get("pods", "a").unwrap_or_default()))
    }

    async fn gone(&self) {
        let gone = self
            .admin
            .wait(AT_MOST, |admin| {
                admin.get("pods", "a").is_none().then_some(())
            })
            .await;
        assert!(gone.is_some());
    }
}

fn ended(pod: &Value) -> bool {
    !pod["status"]["containerStatuses"][0]["state"]["terminated"].is_null()
}

#[tokio::test]
async fn a_status_patch_alone_stops_no_container_and_is_overwritten() {
    let node = Node::start().await;
    node.pod("0").await;
    node.fail(false);
    let pod = node.sees(|pod| pod["status"]["phase"] == "Running").await;
    assert!(!ended(&pod));
    assert_eq!(pod["status"]["reason"], Value::Null);
    assert!(has_condition(&pod, "DisruptionTarget", "True"));
}

#[tokio::test]
async fn the_same_patch_with_an_annotation_ends_the_pod_for_good() {
    for (on_term, code, reason) in [
        ("0", 0, Value::Null),
        ("3", 3, "Evicted".into()),
        ("ignore", 137, "Evicted".into()),
    ] {
        let node = Node::start().await;
        node.pod(on_term).await;
        node.fail(true);
        let pod = node
            .sees(|pod| ended(pod) && pod["status"]["reason"] == reason)
            .await;
        let status = &pod["status"];
        assert_eq!(status["phase"], "Failed");
        assert_eq!(
            status["containerStatuses"][0]["state"]["terminated"]["exitCode"],
            code
        );
        assert_eq!(status["containerStatuses"][0]["restartCount"], 0);
        assert!(has_condition(&pod, "DisruptionTarget", "True"));
        assert!(has_condition(&pod, "Ready", "False"));
    }
}

#[tokio::test]
async fn killed_processes_of_a_pod_with_a_final_phase_are_not_restarted() {
    let node = Node::with(10 * SECOND).await;
    node.pod("ignore").await;
    node.fail(false);
    node.kubelet.kill("default/a", "main");
    let pod = node.sees(ended).await;
    assert_eq!(pod["status"]["phase"], "Failed");
    assert_eq!(pod["status"]["reason"], "Evicted");
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
}

#[tokio::test]
async fn a_killed_container_of_a_running_pod_starts_again() {
    let node = Node::start().await;
    node.pod("0").await;
    node.kubelet.kill("default/a", "main");
    let pod = node
        .sees(|pod| pod["status"]["containerStatuses"][0]["restartCount"] == 1)
        .await;
    assert_eq!(pod["status"]["phase"], "Running");
}

#[tokio::test]
async fn a_deletion_ends_the_pod_and_then_its_object() {
    for on_term in ["0", "ignore"] {
        let node = Node::start().await;
        node.pod(on_term).await;
        node.admin
            .delete("pods", "a", json!({"gracePeriodSeconds": 1}))
            .unwrap();
        node.gone().await;
    }
    let node = Node::start().await;
    node.pod("ignore").await;
    node.admin
        .merge(
            "pods",
            "a",
            json!({"metadata": {"finalizers": ["test/wait"]}}),
        )
        .unwrap();
    node.admin
        .delete("pods", "a", json!({"gracePeriodSeconds": 1}))
        .unwrap();
    let pod = node
        .sees(|pod| pod["metadata"]["deletionGracePeriodSeconds"] == 0)
        .await;
    assert_eq!(pod["status"]["phase"], "Failed");
    node.admin
        .merge("pods", "a", json!({"metadata": {"finalizers": null}}))
        .unwrap();
    node.gone().await;
}

#[tokio::test]
async fn standard_conditions_and_taints_of_a_node_are_overwritten_by_its_kubelet() {
    let node = Node::start().await;
    let _controllers = Controllers::start(&node.api).unwrap();
    let admin = &node.admin;
    let sees = async |what: &dyn Fn(&Value) -> bool| {
        admin
            .wait(AT_MOST, |admin| {
                admin.get("nodes", "one").filter(|node| what(node))
            })
            .await
            .unwrap()
    };
    let pressure =
        |kind: &str| json!({"status": {"conditions": [{"type": kind, "status": "True"}]}});
    admin
        .strategic("nodes/status", "one", pressure("EvictdMemoryPressure"))
        .unwrap();
    admin
        .strategic("nodes/status", "one", pressure("MemoryPressure"))
        .unwrap();
    sees(&|node| node["spec"]["taints"][0]["key"] == "node.kubernetes.io/memory-pressure").await;
    let node = sees(&|node| node["spec"]["taints"] == json!([])).await;
    assert!(has_condition(&node, "MemoryPressure", "False"));
    assert!(has_condition(&node, "EvictdMemoryPressure", "True"));
}

fn has_condition(object: &Value, kind: &str, status: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == kind && condition["status"] == status)
}

#[tokio::test]
async fn an_evicted_pod_is_replaced_and_the_replacement_of_a_pod_that_was_not_is_deleted() {
    let node = Node::with(10 * SECOND).await;
    let controllers = Controllers::start(&node.api).unwrap();
    let admin = &node.admin;
    admin.create(json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
        "spec": {"replicas": 1, "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "none"}]},
        }},
    })).unwrap();
    admin
        .create(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        }))
        .unwrap();
    let running = |admin: &Actor| -> Vec<String> {
        let mut pods = admin.list("pods");
        pods.retain(|pod| {
            pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
        });
        pods.iter()
            .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let first = admin
        .wait(AT_MOST, |admin| running(admin).pop())
        .await
        .unwrap();
    let healthy = |admin: &Actor| {
        let budget = admin.get("poddisruptionbudgets", "web")?;
        (budget["status"]["currentHealthy"] == 1)
            .then_some(budget["status"]["disruptionsAllowed"].clone())
    };
    assert_eq!(admin.wait(AT_MOST, healthy).await, Some(0.into()));
    admin
        .merge(
            "pods/status",
            &first,
            json!({"status": {"phase": "Failed"}}),
        )
        .unwrap();
    admin
        .wait(AT_MOST, |admin| {
            (admin.list("pods").len() == 2).then_some(())
        })
        .await
        .unwrap();
    admin
        .wait(AT_MOST, |admin| {
            (admin.list("pods").len() == 1).then_some(())
        })
        .await
        .unwrap();
    assert_eq!(admin.list("pods")[0]["metadata"]["name"], *first);
    controllers.pause(true);
    admin
        .delete("pods", &first, json!({"gracePeriodSeconds": 0}))
        .unwrap();
    assert_eq!(admin.list("pods").len(), 0);
}

#[tokio::test]
async fn the_kubelet_serves_its_own_endpoints() {
    let node = Node::start().await;
    node.pod("0").await;
    node.kubelet
        .set_summary(json!({"node": {"nodeName": "one", "memory": {"availableBytes": 7}}}));
    node.kubelet.require_token("secret");
    let config = kube::Config::new(node.kubelet.url().parse().unwrap());
    let get = async |config: kube::Config, path: &str| {
        let client = kube::Client::try_from(config).unwrap();
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        client.request::<Value>(request).await
    };
    assert!(get(config.clone(), "/pods").await.is_err());
    let mut config = config;
    config.auth_info.token = Some("secret".to_owned().into());
    assert_eq!(
        get(config.clone(), "/pods").await.unwrap()["items"][0]["metadata"]["name"],
        "a"
    );
    assert_eq!(
        get(config.clone(), "/stats/summary").await.unwrap()["node"]["memory"]["availableBytes"],
        7
    );
    assert_eq!(
        get(config, "/configz").await.unwrap()["kubeletconfig"],
        json!({"enableServer": true})
    );
}

#[tokio::test]
async fn containers_may_be_real_processes() {
    let groups = tempfile::tempdir().unwrap();
    let api = ApiServer::start().unwrap();
    let kubelet = Kubelet::start(
        &api,
        "one",
        SECOND,
        Processes::new([groups.path()], Driver::Cgroupfs),
    )
    .unwrap();
    let node = Node {
        admin: api.actor("test"),
        api,
        kubelet,
    };
    node.pod("sleep takes its own way").await;
    let pod = node.sees(|_| true).await;
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    // Each container's directory is where a kubelet has it, and holds its process.
    let processes = |container: u64| {
        groups.path().join(format!(
            "kubepods/besteffort/pod{uid}/{container:064x}/cgroup.procs"
        ))
    };
    // The process writes it, so that nothing but time tells when.
    let written = async {
        loop {
            let text = std::fs::read_to_string(processes(1)).unwrap_or_default();
            if let Some(pid) = text.strip_suffix('\n') {
                return pid.to_owned();
            }
            tokio::time::sleep(SECOND).await;
        }
    };
    let pid = tokio::time::timeout(AT_MOST, written).await.unwrap();
    assert!(std::path::Path::new("/proc").join(&pid).exists());
    node.kubelet.kill("default/a", "main");
    node.sees(|pod| pod["status"]["containerStatuses"][0]["restartCount"] == 1)
        .await;
    node.admin.delete("pods", "a", Value::Null).unwrap();
    node.gone().await;
    assert!(!std::path::Path::new("/proc").join(&pid).exists());
}
