//! A cluster with the definitions, queues, controllers and the scheduler that one test needs.

use crate::support::{AT_MOST, Suite, client, create, found, has_condition};
use evictd_testkit::program::beside;
use evictd_testkit::testing::left_out;
use evictd_testkit::{Exits, FakeRuntime, Runtime, SuiteCluster};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::events::v1::Event;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io;
use std::process::{Child, Command, Output};
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep};

const BATCH: &str = env!("CARGO_BIN_EXE_evictd-batch");

const CONF: &str = "\
actions: \"enqueue, allocate, backfill, reclaim\"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
";

/// One at a time: controllers work for every job of the cluster.
static CLUSTER: Mutex<()> = Mutex::const_new(());

/// A command that succeeds at once, one that fails at once, and one that runs until a signal.
pub(crate) const ENDS: &[&str] = &["--version"];
pub(crate) const FAILS: &[&str] = &["check-config", "/nowhere/at-all.yaml"];
pub(crate) const STAYS: &[&str] = &["worker", "--alone", "--hold", "1Mi"];

/// What evictd does by these arguments, by a fake runtime.
#[derive(Debug, Default)]
struct ByArguments(FakeRuntime);

impl Runtime for ByArguments {
    fn start(&mut self, pod: &Value, container: &Value, exits: &Exits) -> io::Result<String> {
        let id = self.0.start(pod, container, exits)?;
        let code = match container["args"][0].as_str() {
            Some(first) if first == ENDS[0] => Some(0),
            Some(first) if first == FAILS[0] => Some(2),
            _ => None,
        };
        if let Some(code) = code {
            // A kubelet that is gone does not hear of it.
            let _ = exits.send((id.clone(), code));
        }
        Ok(id)
    }

    fn terminate(&mut self, id: &str) {
        self.0.terminate(id);
    }

    fn kill(&mut self, id: &str) {
        self.0.kill(id);
    }
}

/// Whether there are jobs that the suite has not made. Those of a test before are waited for: they go with its namespace.
async fn others(jobs: &Api<DynamicObject>) -> bool {
    let deadline = Instant::now() + AT_MOST;
    loop {
        // Where there is no definition there are none.
        let Ok(list) = jobs.list(&ListParams::default()).await else {
            return false;
        };
        let of_test = |job: &DynamicObject| {
            let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
            namespace.starts_with("evictd-suite-")
        };
        if list.items.is_empty() {
            return false;
        }
        if !list.items.iter().all(of_test) || Instant::now() > deadline {
            return true;
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// What the node of the suite has and offers.
async fn patch_node(client: &Client, suite: &Suite, offered: &Value) -> kube::Result<Node> {
    let nodes: Api<Node> = Api::all(client.clone());
    let status = json!({ "status": { "capacity": offered, "allocatable": offered } });
    let patch = Patch::Strategic(status);
    let parameters = PatchParams::default();
    nodes
        .patch_status(suite.ground.node(), &parameters, &patch)
        .await
}

fn kind(group: &str, version: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// The kinds that this is about.
pub(crate) struct Kinds {
    pub(crate) definitions: Api<DynamicObject>,
    pub(crate) queues: Api<DynamicObject>,
    pub(crate) jobs: Api<DynamicObject>,
    pub(crate) groups: Api<DynamicObject>,
    pub(crate) commands: Api<DynamicObject>,
}

/// A suite whose node offers a few pieces of a resource, with the programs at work.
pub(crate) struct Batch {
    pub(crate) suite: Suite,
    pub(crate) kinds: Kinds,
    /// The resource that is offered.
    pub(crate) resource: String,
    pub(crate) programs: Vec<Child>,
    /// Objects without a namespace that have to go: the kind and the name.
    pub(crate) made: Vec<(ApiResource, String)>,
    _turn: MutexGuard<'static, ()>,
}

impl Batch {
    /// On a node that offers so many pieces. `None`, having said so, where jobs of others are in the cluster.
    pub(crate) async fn start(test: &str, pieces: u32) -> Option<Self> {
        let turn = CLUSTER.lock().await;
        let suite = Suite::start(test, ByArguments(FakeRuntime::deaf())).await;
        let (name, client) = (suite.namespace.clone(), suite.client.clone());
        let job = kind("batch.volcano.sh", "v1alpha1", "Job");
        let definition = kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let queue = kind("scheduling.volcano.sh", "v1beta1", "Queue");
        let group = kind("scheduling.volcano.sh", "v1beta1", "PodGroup");
        let command = kind("bus.volcano.sh", "v1alpha1", "Command");
        let kinds = Kinds {
            definitions: Api::all_with(client.clone(), &definition),
            queues: Api::all_with(client.clone(), &queue),
            jobs: Api::namespaced_with(client.clone(), &name, &job),
            groups: Api::namespaced_with(client.clone(), &name, &group),
            commands: Api::namespaced_with(client.clone(), &name, &command),
        };
        let all: Api<DynamicObject> = Api::all_with(client, &job);
        let mut batch = Self {
            suite,
            kinds,
            resource: format!("example.com/{name}"),
            programs: Vec::new(),
            made: Vec::new(),
            _turn: turn,
        };
        if others(&all).await {
            left_out(test, "the cluster has jobs of others");
            return None;
        }
        batch.define(&definition).await;
        batch.offer(pieces).await;
        if batch.kinds.queues.get("root").await.is_err() {
            // The scheduler makes it.
            batch.made.push((queue.clone(), "root".to_owned()));
        }
        batch.made.push((queue, name));
        batch.run_programs();
        batch.queue_is(&batch.suite.namespace, "Open").await;
        Some(batch)
    }

    /// Makes the definitions that are missing.
    async fn define(&mut self, definition: &ApiResource) {
        let printed = self.batch(&["crds"]);
        let printed = String::from_utf8(printed.stdout).unwrap();
        for text in printed.split("---\n").skip(1) {
            let one: Value = serde_saphyr::from_str(text).unwrap();
            let name = one["metadata"]["name"].as_str().unwrap().to_owned();
            if self.made_now(&name, &one).await {
                self.made.push((definition.clone(), name.clone()));
            }
            let established = |definition: &Value| has_condition(definition, "Established", "True");
            found(&self.kinds.definitions, &name, established).await;
        }
    }

    /// Makes a definition; false where there is one already, which stays as it is.
    async fn made_now(&self, name: &str, definition: &Value) -> bool {
        let deadline = Instant::now() + AT_MOST;
        while let Err(refused) = create(&self.kinds.definitions, definition.clone()).await {
            let there = self.kinds.definitions.get(name).await;
            let exists = matches!(&refused, kube::Error::Api(status) if status.code == 409);
            // That of an earlier test may be about to go, or just be gone.
            if exists && there.is_ok_and(|existing| existing.metadata.deletion_timestamp.is_none())
            {
                return false;
            }
            assert!(Instant::now() < deadline, "{name}: {refused}");
            sleep(self.suite.ground.seconds(1)).await;
        }
        true
    }

    /// The node offers so many pieces.
    async fn offer(&self, pieces: u32) {
        let mut offered = json!({ self.resource.as_str(): pieces.to_string() });
        if !SuiteCluster::is_real() {
            // The testkit's kubelet does not say how large its node is.
            offered["pods"] = "110".into();
        }
        patch_node(&self.suite.client, &self.suite, &offered)
            .await
            .unwrap();
    }

    /// The scheduler's name of pods that belong to jobs.
    pub(crate) fn scheduler_name(&self) -> String {
        format!("{}-batch", self.suite.namespace)
    }

    fn log(&self) -> File {
        let path = self.suite.home.path().join("log");
        let log = File::options().create(true).append(true).open(path);
        log.unwrap()
    }

    /// The scheduler, for plain pods that name the namespace and for those of jobs, and the controllers.
    fn run_programs(&mut self) {
        let (home, name) = (self.suite.home.path(), &self.suite.namespace);
        let config = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "leaderElection": { "leaderElect": false }, "profiles": [{ "schedulerName": name }],
        });
        let (config_file, conf_file) = (home.join("config.json"), home.join("batch.conf"));
        fs::write(&config_file, config.to_string()).unwrap();
        fs::write(&conf_file, CONF).unwrap();
        let mut scheduler = Command::new(beside(BATCH, "evictd-scheduler"));
        scheduler.args(["run", "--secure-port=0", "--schedule-period=100ms"]);
        scheduler.args(["--default-queue", name]);
        scheduler.args(["--batch-scheduler-name", &self.scheduler_name()]);
        scheduler.arg("--config").arg(config_file);
        scheduler.arg("--batch-conf").arg(conf_file);
        let mut controllers = Command::new(BATCH);
        controllers.args(["controllers", "--listen-address=", "--healthz-address="]);
        controllers.args(["--leader-elect-resource-namespace", name]);
        controllers.args(["--leader-elect-resource-name", name]);
        for mut program in [scheduler, controllers] {
            program
                .arg("--kubeconfig")
                .arg(self.suite.ground.kubeconfig());
            let child = program.stderr(self.log()).spawn().unwrap();
            self.programs.push(child);
        }
    }

    /// Runs the webhook on a free port of the loopback, with a certificate of its own making; where that is.
    pub(crate) async fn run_webhook(&mut self) -> String {
        let (name, mut webhook) = (&self.suite.namespace, Command::new(BATCH));
        webhook.args(["webhook", "--listen-address=127.0.0.1", "--port=0"]);
        webhook.args(["--webhook-namespace", name, "--webhook-configuration", name]);
        webhook.args(["--scheduler-name", &self.scheduler_name(), "--kubeconfig"]);
        webhook.arg(self.suite.ground.kubeconfig());
        let path = self.suite.home.path().join("log");
        let child = webhook.stderr(self.log()).spawn().unwrap();
        self.programs.push(child);
        let deadline = Instant::now() + AT_MOST;
        loop {
            let log = fs::read_to_string(&path).unwrap();
            let after = log.split_once("listens on https://");
            if let Some((address, _)) = after.and_then(|(_, rest)| rest.split_once('\n')) {
                return address.to_owned();
            }
            assert!(Instant::now() < deadline, "the webhook does not listen");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Runs `evictd-batch` for this cluster; it must succeed.
    pub(crate) fn batch(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(BATCH);
        command.env("KUBECONFIG", self.suite.ground.kubeconfig());
        let output = command.args(arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {stderr}");
        output
    }

    /// A queue of this weight, whose name is the namespace's and this.
    pub(crate) async fn queue(&mut self, name: &str, weight: u32) -> String {
        let name = format!("{}-{name}", self.suite.namespace);
        let kind = kind("scheduling.volcano.sh", "v1beta1", "Queue");
        self.made.push((kind, name.clone()));
        let queue = json!({ "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
            "metadata": { "name": name }, "spec": { "weight": weight, "parent": "root" } });
        create(&self.kinds.queues, queue).await.unwrap();
        self.queue_is(&name, "Open").await;
        name
    }

    pub(crate) async fn queue_is(&self, name: &str, state: &str) {
        found(&self.kinds.queues, name, |queue| {
            queue["status"]["state"] == state
        })
        .await;
    }

    /// A job with one task of so many pods that do this, each on a piece of the resource; in the namespace's own queue.
    pub(crate) fn job(&self, name: &str, replicas: u32, arguments: &[&str]) -> Value {
        let mut spec = self.pod_spec(arguments);
        spec["restartPolicy"] = "Never".into();
        json!({
            "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": { "name": name },
            "spec": {
                "schedulerName": self.scheduler_name(), "queue": self.suite.namespace,
                "minAvailable": replicas, "maxRetry": 3,
                "tasks": [{ "name": "work", "replicas": replicas, "template": { "spec": spec } }],
            },
        })
    }

    /// What one container does on a piece of the resource.
    fn pod_spec(&self, arguments: &[&str]) -> Value {
        let mut spec = self.suite.worker("");
        let pieces = json!({ self.resource.as_str(): "1" });
        let container = &mut spec["containers"][0];
        container["args"] = json!(arguments);
        container["resources"] = json!({ "requests": pieces, "limits": pieces });
        spec["tolerations"] = json!([{ "operator": "Exists" }]);
        spec
    }

    pub(crate) async fn create(&self, job: Value) {
        create(&self.kinds.jobs, job).await.unwrap();
    }

    /// A pod of no job, on a piece of the resource.
    pub(crate) async fn plain_pod(&self, name: &str) {
        let mut spec = self.pod_spec(STAYS);
        spec["schedulerName"] = self.suite.namespace.clone().into();
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": spec });
        // The namespace's service account is made a moment after it.
        let deadline = Instant::now() + AT_MOST;
        while let Err(refused) = create(&self.suite.pods, pod.clone()).await {
            let of_account = refused.to_string().contains("serviceaccount");
            assert!(of_account && Instant::now() < deadline, "{refused}");
            sleep(self.suite.ground.seconds(1)).await;
        }
    }

    pub(crate) async fn job_is(&self, name: &str, phase: &str) -> Value {
        self.job_looks(name, |job| job["status"]["state"]["phase"] == phase)
            .await
    }

    pub(crate) async fn job_looks(&self, name: &str, looks: impl Fn(&Value) -> bool) -> Value {
        found(&self.kinds.jobs, name, looks).await
    }

    /// The pods of a job, or all there are.
    pub(crate) async fn pods(&self, job: Option<&str>) -> Vec<Value> {
        let selector = job.map(|name| format!("volcano.sh/job-name={name}"));
        let labels = ListParams::default().labels(selector.as_deref().unwrap_or_default());
        let Ok(pods) = self.suite.pods.list(&labels).await else {
            return Vec::new();
        };
        pods.items.iter().map(|pod| json!(pod)).collect()
    }

    /// Waits until the pods of a job look so.
    pub(crate) async fn pods_are(&self, job: &str, what: &str, holds: impl Fn(&[Value]) -> bool) {
        let deadline = Instant::now() + AT_MOST;
        loop {
            let pods = self.pods(Some(job)).await;
            if holds(&pods) {
                return;
            }
            assert!(Instant::now() < deadline, "still not {what}: {pods:#?}");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// For as long as a few sessions take.
    pub(crate) async fn meanwhile(&self, what: &str, holds: impl AsyncFn() -> bool) {
        let until = Instant::now() + Duration::from_secs(2);
        while Instant::now() < until {
            assert!(holds().await, "no longer: {what}");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until an event about this object has this in its note.
    pub(crate) async fn has_event(&self, name: &str, reason: &str, part: &str) {
        let events: Api<Event> = self.suite.api();
        let deadline = Instant::now() + AT_MOST;
        loop {
            let list = events.list(&ListParams::default()).await.unwrap();
            let is_about = |event: &&Event| {
                let of = event.regarding.as_ref().and_then(|of| of.name.as_deref());
                event.reason.as_deref() == Some(reason) && of == Some(name)
            };
            let notes = list.items.iter().filter(is_about);
            let notes: Vec<&str> = notes.filter_map(|event| event.note.as_deref()).collect();
            if notes.iter().any(|note| note.contains(part)) {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "no event {reason} about {name} has {part:?}: {notes:?}"
            );
            sleep(self.suite.ground.seconds(1)).await;
        }
    }
}

/// Whether a pod has a node and is there to stay.
pub(crate) fn is_bound(pod: &Value) -> bool {
    pod["spec"]["nodeName"].is_string() && pod["metadata"]["deletionTimestamp"].is_null()
}

pub(crate) fn bound(pods: &[Value]) -> usize {
    pods.iter().filter(|pod| is_bound(pod)).count()
}

/// Everything goes, however the test ends; what has a namespace goes with that.
impl Drop for Batch {
    fn drop(&mut self) {
        use std::io::Write;
        for program in &mut self.programs {
            // It may have ended already.
            let _ = program.kill();
            let _ = program.wait();
        }
        if std::thread::panicking() {
            let log = fs::read_to_string(self.suite.home.path().join("log"));
            let log = log.unwrap_or_default();
            let _ = writeln!(io::stderr(), "--- the programs said:\n{log}");
        }
        let (batch, made) = (&*self, &self.made);
        let remove = || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let client = client(&batch.suite.ground).await;
                let nothing = json!({ batch.resource.as_str(): null });
                if let Err(error) = patch_node(&client, &batch.suite, &nothing).await {
                    let _ = writeln!(io::stderr(), "the node still offers: {error}");
                }
                for (kind, name) in made.iter().rev() {
                    let objects: Api<DynamicObject> = Api::all_with(client.clone(), kind);
                    let gone = objects.delete(name, &DeleteParams::default()).await;
                    let missing = |error: &kube::Error| {
                        matches!(error, kube::Error::Api(status) if status.code == 404)
                    };
                    if let Err(error) = gone && !missing(&error) {
                        let _ = writeln!(io::stderr(), "{name} is left behind: {error}");
                    }
                }
            });
        };
        // This thread's own runtime must not be waited in.
        let _ = std::thread::scope(|scope| scope.spawn(remove).join());
    }
}
