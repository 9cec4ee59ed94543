//! A node of a cluster for one test: an API server of our own that knows its pods, and their real cgroups.

use crate::daemon::Daemon;
use crate::node::{Node, Worker};
use evictd_testkit::{Actor, ApiServer, Authority, TlsProxy};
use serde_json::{Value, json};
use std::fs;

pub(crate) struct Cluster {
    pub(crate) node: Node,
    pub(crate) api: ApiServer,
    pub(crate) admin: Actor,
}

impl Cluster {
    /// None, having said so, where no cgroups can be made.
    pub(crate) fn new(test: &str) -> Option<Self> {
        let node = Node::of_kubelet(test)?;
        let api = ApiServer::start().unwrap();
        let admin = api.actor("test");
        for (kind, name) in [("Node", "test"), ("Namespace", "shop")] {
            let object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
            admin.create(object).unwrap();
        }
        let cluster = Self { node, api, admin };
        cluster.write_kubeconfig("");
        Some(cluster)
    }

    /// With this token, if any.
    pub(crate) fn write_kubeconfig(&self, token: &str) {
        let mut kubeconfig: Value = serde_json::from_str(&self.api.kubeconfig()).unwrap();
        if !token.is_empty() {
            kubeconfig["users"][0]["user"] = json!({ "token": token });
        }
        let path = self.node.path("kubeconfig");
        fs::write(path, kubeconfig.to_string()).unwrap();
    }

    /// Writes a file of this test; its path.
    pub(crate) fn write(&self, file: &str, text: &str) -> String {
        let path = self.node.path(file);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// A kubeconfig that leads to this proxy, verified by this authority, for this user.
    pub(crate) fn use_proxy(&self, proxy: &TlsProxy, authority: &Authority, user: &Value) {
        let authority = self.write("ca.crt", &authority.pem());
        let mut kubeconfig: Value = serde_json::from_str(&self.api.kubeconfig()).unwrap();
        kubeconfig["clusters"][0]["cluster"] =
            json!({"server": proxy.url(), "certificate-authority": authority});
        kubeconfig["users"][0]["user"] = user.clone();
        self.write("kubeconfig", &kubeconfig.to_string());
    }

    /// The lines of a configuration that takes its pods from here.
    pub(crate) fn lines(&self) -> String {
        let place = self.node.directory.path().display();
        format!(
            "pods: {{source: kubernetes}}\nkubernetes: {{kubeconfig: {place}/kubeconfig}}\nruntimeDirectory: {place}/run"
        )
    }

    /// A daemon that begins to evict below so much memory.
    pub(crate) fn daemon(&self, memory: &str) -> Daemon {
        Daemon::start(&self.node, &[("memory.available", memory)], &self.lines())
    }

    /// A pod that the API server knows; its UID.
    pub(crate) fn create(&self, name: &str, metadata: &Value) -> String {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"nodeName": "test", "containers": [{"name": "main", "image": "none"}]},
            "status": {"phase": "Running"},
        });
        for (key, value) in metadata.as_object().into_iter().flatten() {
            pod["metadata"][key] = value.clone();
        }
        let made = self.admin.create(pod).unwrap();
        made["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    /// A process in the cgroup that a kubelet makes for the pod with this UID.
    pub(crate) fn run(&self, uid: &str, arguments: &str) -> Worker {
        let cgroup = format!("evictd-pod{}.slice", uid.replace('-', "_"));
        self.node.worker(&cgroup, arguments)
    }

    /// Both.
    pub(crate) fn pod(&self, name: &str, arguments: &str) -> Worker {
        let uid = self.create(name, &Value::Null);
        self.run(&uid, arguments)
    }

    pub(crate) fn delete(&self, name: &str) {
        let now = json!({"gracePeriodSeconds": 0});
        let at = format!("shop/{name}");
        self.admin.delete("pods", &at, now).unwrap();
    }
}

impl Daemon {
    /// The names of the pods that it knows, sorted.
    pub(crate) fn pods(&self) -> Vec<String> {
        let ranking = self.get("/v1/ranking?signal=memory.available");
        let ranking = ranking.unwrap_or_default();
        let pods = ranking["pods"].as_array().into_iter().flatten();
        let mut names: Vec<String> = pods
            .map(|pod| pod["pod"].as_str().unwrap().replace("shop/", ""))
            .collect();
        names.sort();
        names
    }

    pub(crate) fn eventually_knows(&self, pods: &[&str]) {
        let what = format!("it knows {pods:?}");
        self.eventually(&what, |daemon| daemon.pods() == pods);
    }

    /// That nobody can ask a kubelet here is all it warns of.
    pub(crate) fn is_sure_of_its_pods(&self) -> bool {
        let status = self.status();
        let mut warnings = status["warnings"].as_array().unwrap().iter();
        status["pods"]["asOf"].is_null()
            && warnings.all(|warning| warning.as_str().unwrap().starts_with("cannot tell whether"))
    }

    pub(crate) fn warns(&self, words: &str) -> bool {
        let status = self.status();
        let mut warnings = status["warnings"].as_array().unwrap().iter();
        warnings.any(|warning| warning.as_str().unwrap().contains(words))
    }
}
