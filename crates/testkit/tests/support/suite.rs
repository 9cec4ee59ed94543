//! The ground that a suite stands on: a namespace of its own in whatever cluster there is, and pods in it.

use evictd_testkit::{Runtime, SuiteCluster};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Config, Resource};
use serde_json::{Value, json};
use std::fmt::Debug;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// What must happen at all; a real cluster may have to pull an image for it, and does much every ten seconds only.
pub(crate) const AT_MOST: Duration = Duration::from_mins(2);
/// How often is looked whether something has happened.
const LOOK: Duration = Duration::from_millis(50);

pub(crate) struct Suite {
    pub(crate) ground: SuiteCluster,
    pub(crate) client: Client,
    pub(crate) pods: Api<Pod>,
    pub(crate) nodes: Api<Node>,
    pub(crate) namespace: String,
    /// For whatever the test writes.
    pub(crate) home: tempfile::TempDir,
}

impl Suite {
    /// On the real cluster, or on one of our own that runs containers by this.
    pub(crate) async fn start(test: &str, runtime: impl Runtime + 'static) -> Self {
        let home = tempfile::tempdir().unwrap();
        let ground = SuiteCluster::find(home.path(), runtime).unwrap();
        let client = client(&ground).await;
        // Another run may be under way, and one before may still be going.
        let unique = home.path().file_name().unwrap().to_string_lossy();
        let unique = unique.trim_start_matches('.').to_lowercase();
        let namespace = format!("evictd-suite-{test}-{unique}");
        let object = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": namespace, "labels": {"pod-security.kubernetes.io/enforce": "privileged"}},
        });
        let namespaces: Api<Namespace> = Api::all(client.clone());
        create(&namespaces, object).await.unwrap();
        Self {
            pods: Api::namespaced(client.clone(), &namespace),
            nodes: Api::all(client.clone()),
            client,
            ground,
            namespace,
            home,
        }
    }

    /// An API of this suite's namespace.
    pub(crate) fn api<K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>>(
        &self,
    ) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// What runs one container of the project's image, in the role of a pod that does this.
    pub(crate) fn worker(&self, arguments: &str) -> Value {
        let mut words = vec!["worker", "--alone"];
        words.extend(arguments.split_ascii_whitespace());
        json!({
            "terminationGracePeriodSeconds": 2, "automountServiceAccountToken": false,
            "containers": [{
                "name": "main", "image": self.ground.image(), "imagePullPolicy": "IfNotPresent", "args": words,
            }],
        })
    }

    /// A running pod of this name on the node; SIGTERM has no effect on it, since it is the first process of its
    /// container and does not listen.
    pub(crate) async fn pod(&self, name: &str, arguments: &str) -> Value {
        let mut spec = self.worker(arguments);
        spec["nodeName"] = self.ground.node().into();
        spec["tolerations"] = json!([{"operator": "Exists"}]);
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"suite": name}}, "spec": spec,
        });
        // The namespace's service account is made a moment after it.
        let deadline = Instant::now() + AT_MOST;
        while let Err(refused) = create(&self.pods, pod.clone()).await {
            let of_account = refused.to_string().contains("serviceaccount");
            assert!(of_account && Instant::now() < deadline, "{refused}");
            sleep(LOOK).await;
        }
        self.sees(name, |pod| pod["status"]["phase"] == "Running")
            .await
    }

    /// The pod once it looks so.
    pub(crate) async fn sees(&self, name: &str, what: impl Fn(&Value) -> bool) -> Value {
        found(&self.pods, name, what).await
    }

    /// The node once it looks so.
    pub(crate) async fn node(&self, what: impl Fn(&Value) -> bool) -> Value {
        found(&self.nodes, self.ground.node(), what).await
    }

    /// That the pod looks so for as long as a real kubelet takes for these seconds.
    pub(crate) async fn stays(&self, name: &str, seconds: u32, what: impl Fn(&Value) -> bool) {
        let until = Instant::now() + self.ground.seconds(seconds);
        while Instant::now() < until {
            let pod = get(&self.pods, name).await;
            assert!(what(&pod), "{pod:#}");
            sleep(LOOK).await;
        }
    }
}

/// The namespace goes with everything in it, however the test ends.
impl Drop for Suite {
    fn drop(&mut self) {
        let (ground, namespace) = (&self.ground, &self.namespace);
        let remove = || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let namespaces: Api<Namespace> = Api::all(client(ground).await);
                namespaces.delete(namespace, &DeleteParams::default()).await
            })
        };
        // This thread's own runtime must not be waited in.
        let removed = std::thread::scope(|scope| scope.spawn(remove).join());
        if !matches!(removed, Ok(Ok(_))) {
            use std::io::Write;
            let _ = writeln!(
                std::io::stderr(),
                "the namespace {namespace} is left behind: {removed:?}"
            );
        }
    }
}

pub(crate) async fn client(ground: &SuiteCluster) -> Client {
    let kubeconfig = Kubeconfig::read_from(ground.kubeconfig()).unwrap();
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap();
    config.default_retry = false;
    // The proxy of the environment is for the world outside.
    config.proxy_url = None;
    Client::try_from(config).unwrap()
}

pub(crate) async fn create<K>(api: &Api<K>, object: Value) -> kube::Result<K>
where
    K: Resource + Clone + Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    let object = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await
}

/// What a strategic merge patch of the status of a pod asks for.
pub(crate) async fn patch_status(pods: &Api<Pod>, name: &str, patch: Value) {
    let patch = Patch::Strategic(patch);
    let parameters = PatchParams::default();
    pods.patch_status(name, &parameters, &patch).await.unwrap();
}

async fn get<K>(api: &Api<K>, name: &str) -> Value
where
    K: Clone + Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    match api.get(name).await {
        Ok(object) => serde_json::to_value(object).unwrap(),
        // Whoever waits looks again.
        Err(_) => Value::Null,
    }
}

/// The object once it looks so; null is one that is not there.
pub(crate) async fn found<K>(api: &Api<K>, name: &str, what: impl Fn(&Value) -> bool) -> Value
where
    K: Clone + Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    let deadline = Instant::now() + AT_MOST;
    loop {
        let object = get(api, name).await;
        if what(&object) {
            return object;
        }
        assert!(
            Instant::now() < deadline,
            "{name} did not look so within {AT_MOST:?}: {object:#}"
        );
        sleep(LOOK).await;
    }
}

pub(crate) fn has_condition(object: &Value, kind: &str, status: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == kind && condition["status"] == status)
}

pub(crate) fn has_taint(node: &Value, key: &str) -> bool {
    let taints = node["spec"]["taints"].as_array();
    taints
        .into_iter()
        .flatten()
        .any(|taint| taint["key"] == key)
}

/// It was killed, and who looks at it later sees why.
pub(crate) fn was_evicted(pod: &Value) -> bool {
    let status = &pod["status"];
    let ended = &status["containerStatuses"][0]["state"]["terminated"];
    status["phase"] == "Failed" && status["reason"] == "Evicted" && ended["exitCode"] == 137
}
