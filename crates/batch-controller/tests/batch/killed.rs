//! Controllers and scheduler are killed in the midst of jobs: no pod too many, none too few, no retry counted twice, no gang
//! finally bound in part, and no second set of victims.

use crate::batch;
use crate::crashes::{crashes, requests, wait};
use evictd_testkit::program::beside;
use evictd_testkit::{Actor, ApiServer, Fault};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tempfile::NamedTempFile;

const NODES: usize = 4;
/// Pods for which a node has room.
const ROOM: usize = 4;
const ALL: usize = NODES * ROOM;
/// What all that a round waits for may take, on a machine that is busy with other tests.
const AT_MOST: Duration = Duration::from_mins(1);

const CONF: &str = "\
actions: \"enqueue, allocate, backfill, preempt, reclaim\"
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

/// What kubelets do with the pods of jobs.
#[derive(Default)]
struct Wishes {
    /// Jobs whose pods succeed.
    succeed: BTreeSet<String>,
    /// Jobs whose first pod fails, the first time.
    fail: BTreeSet<String>,
    /// Pods that went for another job, by uid.
    victims: BTreeSet<String>,
    /// What must never be seen.
    wrong: Vec<String>,
}

/// A cluster with both programs, and kubelets.
struct Scene {
    api: ApiServer,
    admin: Actor,
    kubeconfig: NamedTempFile,
    conf: NamedTempFile,
    controllers: Child,
    scheduler: Child,
    wishes: Arc<Mutex<Wishes>>,
    stop: Arc<AtomicBool>,
    kubelets: Option<JoinHandle<()>>,
    chance: u64,
}

impl Drop for Scene {
    fn drop(&mut self) {
        for program in [&mut self.controllers, &mut self.scheduler] {
            // It may have ended already.
            let _ = program.kill();
            let _ = program.wait();
        }
        self.stop.store(true, Ordering::SeqCst);
        if let Some(kubelets) = self.kubelets.take() {
            let _ = kubelets.join();
        }
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn annotation<'a>(pod: &'a Value, name: &str) -> &'a str {
    pod["metadata"]["annotations"][name]
        .as_str()
        .unwrap_or_default()
}

fn has_ended(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

fn holds_room(pod: &Value) -> bool {
    pod["spec"]["nodeName"].is_string() && !has_ended(pod)
}

fn goes(pod: &Value) -> bool {
    !pod["metadata"]["deletionTimestamp"].is_null()
}

/// One look of all kubelets at their pods.
fn look(admin: &Actor, wishes: &mut Wishes) {
    let pods = admin.list("pods");
    let mut held: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| holds_room(pod)) {
        *held.entry(text(pod, "/spec/nodeName")).or_default() += 1;
    }
    for (node, held) in held.into_iter().filter(|(_, held)| *held > ROOM) {
        wishes.wrong.push(format!("{node} has {held} pods"));
    }
    for pod in &pods {
        let name = format!("default/{}", text(pod, "/metadata/name"));
        let uid = text(pod, "/metadata/uid");
        if goes(pod) {
            if pod["status"]["conditions"]
                .to_string()
                .contains("PreemptionByScheduler")
            {
                wishes.victims.insert(uid.to_owned());
            }
            let now = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}});
            // It may be gone.
            let _ = admin.delete("pods", &name, now);
            continue;
        }
        if !holds_room(pod) {
            continue;
        }
        let job = annotation(pod, "volcano.sh/job-name");
        let first = annotation(pod, "volcano.sh/job-version") == "0" && name.ends_with("-0");
        let (phase, state) = match text(pod, "/status/phase") {
            "Running" if first && wishes.fail.contains(job) => {
                ("Failed", json!({"terminated": {"exitCode": 1}}))
            }
            "Running" if wishes.succeed.contains(job) => {
                ("Succeeded", json!({"terminated": {"exitCode": 0}}))
            }
            "Running" => continue,
            _ => ("Running", json!({"running": {}})),
        };
        let containers =
            json!([{"name": "c", "ready": phase == "Running", "restartCount": 0, "state": state}]);
        let status = json!({"metadata": {"uid": uid}, "status": {"phase": phase, "containerStatuses": containers}});
        // It may be gone.
        let _ = admin.merge("pods/status", &name, status);
    }
}

impl Scene {
    fn new() -> Self {
        let api = ApiServer::start().unwrap();
        let admin = api.actor("kubelets");
        for name in ["root", "early", "late"] {
            let queue = json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
                "metadata": {"name": name}, "spec": {"weight": 1, "parent": if name == "root" { "" } else { "root" }}});
            admin.create(queue).unwrap();
        }
        let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": "high"}, "value": 1000});
        admin.create(class).unwrap();
        for index in 0..NODES {
            let amounts = json!({"cpu": ROOM.to_string(), "memory": "8Gi", "pods": "110"});
            admin
                .create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("node-{index}")},
                    "status": {"capacity": amounts, "allocatable": amounts}}))
                .unwrap();
        }
        let (mut kubeconfig, mut conf) =
            (NamedTempFile::new().unwrap(), NamedTempFile::new().unwrap());
        write!(kubeconfig, "{}", api.kubeconfig()).unwrap();
        write!(conf, "{CONF}").unwrap();
        let (wishes, stop) = (
            Arc::<Mutex<Wishes>>::default(),
            Arc::<AtomicBool>::default(),
        );
        let (actor, wanted, stopped) = (admin.clone(), Arc::clone(&wishes), Arc::clone(&stop));
        let kubelets = thread::spawn(move || {
            // What they are to do with pods is no change that they would wait for.
            while !stopped.load(Ordering::SeqCst) {
                wait(&actor, Duration::from_millis(20), || {
                    look(&actor, &mut wanted.lock().unwrap());
                    false
                });
            }
        });
        Self {
            controllers: controllers(&kubeconfig),
            scheduler: scheduler(&kubeconfig, &conf),
            api,
            admin,
            kubeconfig,
            conf,
            wishes,
            stop,
            kubelets: Some(kubelets),
            chance: 1,
        }
    }

    /// The next number below this; the same in each run.
    fn below(&mut self, end: u64) -> u64 {
        self.chance = self
            .chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.chance >> 33) % end
    }

    /// SIGKILL for one of the two or both, when the server has been asked a few times more; others begin.
    fn kill(&mut self) {
        let more = self.below(60);
        requests(&self.api, &self.admin, more);
        let who = self.below(3);
        if who != 0 {
            self.controllers.kill().unwrap();
            self.controllers.wait().unwrap();
            self.controllers = controllers(&self.kubeconfig);
        }
        if who != 1 {
            self.scheduler.kill().unwrap();
            self.scheduler.wait().unwrap();
            self.scheduler = scheduler(&self.kubeconfig, &self.conf);
        }
    }

    /// A few of the next requests fail.
    fn fail_requests(&mut self) {
        for fault in [
            Fault::answer(500).on("*", "pods"),
            Fault::answer(503).on("*", "jobs/status"),
            Fault::answer(429).on("patch", "pods/status"),
            Fault::cut_after(0).on("create", "pods/binding"),
            Fault::delay(Duration::from_millis(30)).on("create", "pods/binding"),
            Fault::cut_after(0).on("patch", "podgroups"),
            Fault::answer(500).on("delete", "*"),
        ] {
            let times = self.below(4);
            self.api.fault(fault.times(times));
        }
        if self.below(2) == 0 {
            self.api.cut_watches();
        }
    }

    fn submit(&self, name: &str, queue: &str, pods: usize, min: usize, more: Value) {
        let requests = json!({"requests": {"cpu": "1"}});
        let containers = json!([{"name": "c", "image": "none", "resources": requests}]);
        let mut job = json!({
            "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "schedulerName": "volcano", "queue": queue, "minAvailable": min, "maxRetry": 3,
                "tasks": [{"name": "w", "replicas": pods,
                    "template": {"spec": {"restartPolicy": "Never", "containers": containers}}}],
            },
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            job["spec"][key] = value.clone();
        }
        self.admin.create(job).unwrap();
    }

    fn pods(&self, job: &str) -> Vec<Value> {
        let mut pods = self.admin.list("pods");
        pods.retain(|pod| annotation(pod, "volcano.sh/job-name") == job);
        pods
    }

    /// How many of its pods have a node and are not about to go.
    fn bound(&self, job: &str) -> usize {
        let pods = self.pods(job).into_iter();
        pods.filter(|pod| holds_room(pod) && !goes(pod)).count()
    }

    fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let held = wait(&self.admin, AT_MOST, || {
            let wrong = std::mem::take(&mut self.wishes.lock().unwrap().wrong);
            assert!(wrong.is_empty(), "{what}: {wrong:?}");
            holds()
        });
        assert!(held, "still not: {what}\n{}", self.state());
    }

    /// The jobs' statuses, and all that a session goes by, as `evictd-batch simulate` reads it.
    fn state(&self) -> Value {
        let jobs = self.admin.list("jobs").into_iter();
        let jobs: Vec<Value> = jobs.map(|mut job| job["status"].take()).collect();
        let mut state = json!({"conf": CONF, "jobs": jobs});
        for (key, kind) in [
            ("nodes", "nodes"),
            ("queues", "queues"),
            ("podGroups", "podgroups.scheduling.volcano.sh"),
            ("pods", "pods"),
            ("priorityClasses", "priorityclasses"),
        ] {
            state[key] = self.admin.list(kind).into();
            for object in state[key].as_array_mut().into_iter().flatten() {
                object["metadata"]["managedFields"] = Value::Null;
            }
        }
        state
    }

    /// That it stays so for a few sessions.
    fn stays(&self, what: &str, holds: impl Fn() -> bool) {
        let changed = wait(&self.admin, Duration::from_millis(300), || !holds());
        assert!(!changed, "no longer: {what}");
    }

    fn job(&self, name: &str) -> Value {
        let job = self.admin.get("jobs", &format!("default/{name}"));
        job.unwrap_or_default()
    }

    /// Its pods succeed from now on, so that it ends, with as many pods as it has replicas.
    fn completes(&self, name: &str) {
        self.wishes.lock().unwrap().succeed.insert(name.to_owned());
        self.until(&format!("{name} is completed"), || {
            text(&self.job(name), "/status/state/phase") == "Completed"
        });
        let replicas = self.job(name)["spec"]["tasks"][0]["replicas"].as_u64();
        assert_eq!(Some(self.pods(name).len() as u64), replicas, "{name}");
    }

    /// Everything of the round goes.
    fn clear(&self) {
        for job in self.admin.list("jobs") {
            let name = format!("default/{}", text(&job, "/metadata/name"));
            self.admin.delete("jobs", &name, Value::Null).unwrap();
        }
        for pod in self.admin.list("pods") {
            let name = format!("default/{}", text(&pod, "/metadata/name"));
            let now = json!({"gracePeriodSeconds": 0});
            let _ = self.admin.delete("pods", &name, now);
        }
        let groups = "podgroups.scheduling.volcano.sh";
        for group in self.admin.list(groups) {
            let name = format!("default/{}", text(&group, "/metadata/name"));
            let _ = self.admin.delete(groups, &name, Value::Null);
        }
        *self.wishes.lock().unwrap() = Wishes::default();
        self.api.clear_faults();
    }
}

fn controllers(kubeconfig: &NamedTempFile) -> Child {
    let mut command = batch();
    command.args(["controllers", "--leader-elect=false", "--healthz-address="]);
    command.args(["--listen-address=", "--kubeconfig"]);
    command
        .arg(kubeconfig.path())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn scheduler(kubeconfig: &NamedTempFile, conf: &NamedTempFile) -> Child {
    let path = beside(env!("CARGO_BIN_EXE_evictd-batch"), "evictd-scheduler");
    let mut command = Command::new(path);
    command.args(["run", "--leader-elect=false", "--secure-port=0"]);
    command.args(["--schedule-period=20ms", "--default-queue=early"]);
    command.arg("--kubeconfig").arg(kubeconfig.path());
    command.arg("--batch-conf").arg(conf.path());
    command.stderr(Stdio::null()).spawn().unwrap()
}

/// A pod fails, and its job restarts once.
fn restart(scene: &mut Scene, round: u64) {
    let name = format!("restarts-{round}");
    let policy = json!([{"action": "RestartJob", "event": "PodFailed"}]);
    scene.submit(&name, "early", 3, 3, json!({"policies": policy}));
    scene.kill();
    scene.until("all pods run", || {
        let running = scene.pods(&name).into_iter();
        running
            .filter(|pod| text(pod, "/status/phase") == "Running")
            .count()
            == 3
    });
    scene.wishes.lock().unwrap().fail.insert(name.clone());
    scene.kill();
    scene.until("it runs again", || {
        let pods = scene.pods(&name);
        let again = |pod: &Value| {
            annotation(pod, "volcano.sh/job-version") != "0"
                && text(pod, "/status/phase") == "Running"
        };
        pods.len() == 3 && pods.iter().all(again)
    });
    scene.completes(&name);
    let status = scene.job(&name)["status"].take();
    assert_eq!(status["retryCount"], 1, "{name}: {status:#}");
}

/// Two gangs that each need more than half of the cluster never both hold a part of it.
fn gangs(scene: &mut Scene, round: u64) {
    let names = ["one", "two"].map(|name| format!("gang-{name}-{round}"));
    for name in &names {
        scene.submit(name, "early", 10, 10, json!({}));
    }
    scene.kill();
    scene.kill();
    let bound = |name: &String| scene.bound(name);
    scene.until("one gang is bound whole and the other not at all", || {
        let both = [bound(&names[0]), bound(&names[1])];
        both == [10, 0] || both == [0, 10]
    });
    let first = usize::from(bound(&names[1]) == 10);
    scene.stays("the other has none", || bound(&names[1 - first]) == 0);
    scene.completes(&names[first]);
    scene.completes(&names[1 - first]);
}

/// A queue takes back its half of the cluster, and no more.
fn reclaim(scene: &mut Scene, round: u64) {
    let (early, late) = (format!("early-{round}"), format!("late-{round}"));
    scene.submit(&early, "early", ALL, 1, json!({}));
    scene.until("one job has everything", || scene.bound(&early) == ALL);
    let half = ALL / 2;
    scene.submit(&late, "late", half, half, json!({}));
    scene.kill();
    scene.kill();
    victims(scene, (&early, half), (&late, half));
}

/// A job of higher priority takes the room of pods that another one of its queue can spare, and no more.
fn preemption(scene: &mut Scene, round: u64) {
    let (low, high) = (format!("low-{round}"), format!("high-{round}"));
    scene.submit(&low, "early", ALL, 4, json!({}));
    scene.until("one job has everything", || scene.bound(&low) == ALL);
    scene.submit(&high, "early", 4, 4, json!({"priorityClassName": "high"}));
    scene.kill();
    scene.kill();
    victims(scene, (&low, ALL - 4), (&high, 4));
}

fn victims(scene: &Scene, (old, left): (&str, usize), (new, taken): (&str, usize)) {
    scene.until("the new job has its room", || scene.bound(new) == taken);
    scene.until("the old one has the rest", || scene.bound(old) == left);
    scene.stays("each keeps what it has", || {
        (scene.bound(old), scene.bound(new)) == (left, taken)
    });
    let victims = scene.wishes.lock().unwrap().victims.len();
    assert_eq!(victims, taken, "victims of {new}");
    scene.completes(new);
    scene.completes(old);
}

#[test]
fn programs_that_are_killed_bind_whole_gangs_and_evict_no_second_set_of_victims() {
    let mut scene = Scene::new();
    for round in 0..crashes() {
        scene.fail_requests();
        match round % 4 {
            0 => restart(&mut scene, round),
            1 => gangs(&mut scene, round),
            2 => reclaim(&mut scene, round),
            _ => preemption(&mut scene, round),
        }
        scene.clear();
    }
}
