//! `evictd-scheduler run` from end to end, against an API server on loopback in this process. It measures the bound pods per
//! second, the memory, and how long a pod that fits waits behind many that do not.
//!
//! `cargo bench -p evictd-scheduler --bench live` uses 5000 nodes with 30 pods each, 10 000 pods that fit and 100 000 that do
//! not. The server needs some GB. `EVICTD_BENCH_FITTING=100000` sets the number of pods that fit, to compare the last ten
//! thousand with the first. The server uses most of the shared processors, so that its processor time is printed, too.
//! `-- gangs` runs only the 100 gangs of 100 pods on 1000 nodes with batch sessions. `EVICTD_KUBE_SCHEDULER=FILE` is the program of a
//! kube-scheduler, which gets the same nodes and the pods that fit from a server like this one afterwards, with its own defaults.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    reason = "a bench's panic and output are its report, its figures approximate"
)]

use evictd_testkit::{Actor, ApiServer};
use mimalloc::MiMalloc;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::ops::Range;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::NamedTempFile;

// The server shares the processors with the scheduler; with the allocator of libc the scheduler would wait for it.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The size of the cluster.
struct Size {
    nodes: usize,
    running: usize,
    fitting: usize,
    waiting: usize,
}

/// How many pods that fit are created at once.
const STEP: usize = 10_000;

struct Scheduler {
    name: &'static str,
    program: Child,
    _files: Vec<NamedTempFile>,
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// The processor time of a process in seconds.
fn processor(process: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks.map(|text| text.parse::<f64>().unwrap() / 100.0).sum()
}

impl Scheduler {
    fn start(api: &ApiServer, arguments: &[&str]) -> Self {
        let kubeconfig = file(&api.kubeconfig());
        let mut command = Command::new(env!("CARGO_BIN_EXE_evictd-scheduler"));
        command.args(["run", "--secure-port=0", "--leader-elect=false"]);
        command
            .args(arguments)
            .arg("--kubeconfig")
            .arg(kubeconfig.path());
        let child = command.stderr(Stdio::null()).spawn();
        Self {
            name: "evictd-scheduler",
            program: child.unwrap(),
            _files: vec![kubeconfig],
        }
    }

    /// A kube-scheduler with its defaults, but for the rate of its requests, which would bound it.
    fn of_kubernetes(api: &ApiServer, program: &OsStr) -> Self {
        let kubeconfig = file(&api.kubeconfig());
        let configuration = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "leaderElection": { "leaderElect": false },
            "clientConnection": { "kubeconfig": kubeconfig.path(), "qps": 5000, "burst": 5000, "contentType": "application/json" },
        });
        let configuration = file(&configuration.to_string());
        let mut command = Command::new(program);
        command.arg("--secure-port=0").arg("--config");
        let child = command.arg(configuration.path()).stderr(Stdio::null());
        Self {
            name: "kube-scheduler",
            program: child.spawn().unwrap(),
            _files: vec![kubeconfig, configuration],
        }
    }

    fn processor(&self) -> f64 {
        processor(self.program.id())
    }

    /// Resident memory in megabytes.
    fn resident(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.program.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
        kilobytes.unwrap().parse::<f64>().unwrap() / 1024.0
    }
}

fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    write!(file, "{text}").unwrap();
    file
}

fn pod(name: &str, cpu: &str, priority: i32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "default", "labels": { "app": "bench", "pod-name": name },
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "bench", "uid": "u", "controller": true }] },
        "spec": { "priority": priority, "serviceAccountName": "default", "containers": [{ "name": "main", "image": "registry/app:1.2.3",
            "env": [{ "name": "MODE", "value": "production" }], "ports": [{ "containerPort": 8080 }],
            "resources": { "requests": { "cpu": cpu, "memory": "200Mi" }, "limits": { "memory": "400Mi" } } }] },
    })
}

fn fill(admin: &Actor, size: &Size) {
    for node in 0..size.nodes {
        let name = format!("node-{node:05}");
        let amounts = json!({ "cpu": "16", "memory": "60Gi", "pods": "110" });
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": format!("z{}", node % 3) } },
            "status": { "allocatable": amounts, "capacity": amounts },
        });
        admin.create(node).unwrap();
        for index in 0..size.running {
            let mut pod = pod(&format!("{name}-{index}"), "400m", 0);
            pod["spec"]["nodeName"] = json!(name);
            pod["status"] = json!({ "phase": "Running" });
            admin.create(pod).unwrap();
        }
    }
}

/// Waits for a condition, which is checked after each change, so that waiting takes no processor time from the scheduler.
fn wait_until(admin: &Actor, what: &str, is: impl Fn() -> bool) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let waits = admin.wait(Duration::from_mins(5), |_| is().then_some(()));
    assert!(
        runtime.block_on(waits).is_some(),
        "waited in vain until {what}"
    );
}

fn is_bound(admin: &Actor, name: &str) -> bool {
    let pod = admin.get("pods", &format!("default/{name}"));
    pod.is_some_and(|pod| pod["spec"]["nodeName"].is_string())
}

fn main() {
    let measures = std::env::args().any(|argument| argument == "--bench");
    let fitting = std::env::var("EVICTD_BENCH_FITTING").ok();
    let size = if measures {
        Size {
            nodes: 5000,
            running: 30,
            fitting: fitting.map_or(STEP, |fitting| fitting.parse().unwrap()),
            waiting: 100_000,
        }
    } else {
        Size {
            nodes: 10,
            running: 3,
            fitting: 20,
            waiting: 20,
        }
    };
    if !std::env::args().any(|argument| argument == "gangs") {
        single_pods(&size);
        if let Some(program) = std::env::var_os("EVICTD_KUBE_SCHEDULER") {
            beside(&size, &program);
        }
    }
    gangs(if measures {
        (1000, 100, 100)
    } else {
        (10, 3, 4)
    });
}

/// The same pods with a kube-scheduler, as far as they fit.
fn beside(size: &Size, program: &OsStr) {
    let api = ApiServer::start().unwrap();
    let admin = api.actor("bench");
    fill(&admin, size);
    let start = Instant::now();
    let scheduler = Scheduler::of_kubernetes(&api, program);
    first(&admin, &scheduler, size, start);
    fit(&admin, &scheduler, 0..size.fitting.min(STEP));
}

/// Waits until the first pod has its node.
fn first(admin: &Actor, scheduler: &Scheduler, size: &Size, start: Instant) {
    admin.create(pod("first", "100m", 0)).unwrap();
    wait_until(admin, "the first pod has its node", || {
        is_bound(admin, "first")
    });
    println!(
        "{}, {} nodes and {} pods: the first pod has its node {:.2} s after the start; {:.0} MB resident",
        scheduler.name,
        size.nodes,
        size.nodes * size.running,
        start.elapsed().as_secs_f64(),
        scheduler.resident()
    );
}

fn single_pods(size: &Size) {
    let api = ApiServer::start().unwrap();
    let admin = api.actor("bench");
    fill(&admin, size);
    let start = Instant::now();
    let scheduler = Scheduler::start(&api, &[]);
    first(&admin, &scheduler, size, start);
    for first in (0..size.fitting).step_by(STEP) {
        fit(&admin, &scheduler, first..size.fitting.min(first + STEP));
    }
    let has_condition = |index: usize| {
        let pod = admin.get("pods", &format!("default/waits-{index}"));
        pod.is_some_and(|pod| !pod["status"]["conditions"].is_null())
    };
    let tenth = size.waiting / 10;
    for index in 0..size.waiting {
        admin
            .create(pod(&format!("waits-{index}"), "64", 1000))
            .unwrap();
        if index + 1 == tenth {
            behind(&admin, &scheduler, "behind a tenth of them", &|| {
                (0..tenth).filter(|index| has_condition(*index)).count()
            });
        }
    }
    wait_until(&admin, "the last pod has its condition", || {
        has_condition(size.waiting - 1)
    });
    println!(
        "{} pods wait; {:.0} MB resident",
        size.waiting,
        scheduler.resident()
    );
    behind(&admin, &scheduler, "behind all of them", &|| size.waiting);
}

/// Measures how long it takes until these pods have their nodes.
fn fit(admin: &Actor, scheduler: &Scheduler, pods: Range<usize>) {
    let server = std::process::id();
    let (start, used, others) = (Instant::now(), scheduler.processor(), processor(server));
    for index in pods.clone() {
        admin
            .create(pod(&format!("fits-{index}"), "100m", 0))
            .unwrap();
    }
    let made = start.elapsed().as_secs_f64();
    for index in pods.clone().rev() {
        wait_until(admin, "all pods have their nodes", || {
            is_bound(admin, &format!("fits-{index}"))
        });
    }
    let took = start.elapsed().as_secs_f64();
    println!(
        "{}: pods {pods:?} made in {made:.2} s have their nodes after {took:.2} s: {:.0} a second, {:.2} s of processor, {:.2} s of the server's; {:.0} MB resident",
        scheduler.name,
        pods.len() as f64 / took,
        scheduler.processor() - used,
        processor(server) - others,
        scheduler.resident()
    );
}

/// Measures how long a pod of low priority that fits waits, while a node changes ten times and wakes all the others.
fn behind(admin: &Actor, scheduler: &Scheduler, what: &str, reported: &dyn Fn() -> usize) {
    let server = std::process::id();
    for round in 0..10 {
        let allocatable = json!({ "cpu": format!("{}", 17 + round) });
        let status = json!({ "status": { "allocatable": allocatable } });
        admin.merge("nodes/status", "node-00001", status).unwrap();
        let name = format!("low-{}-{round}", what.replace(' ', "-"));
        let (start, used, others) = (Instant::now(), scheduler.processor(), processor(server));
        admin.create(pod(&name, "100m", 0)).unwrap();
        wait_until(admin, "the pod of low priority has its node", || {
            is_bound(admin, &name)
        });
        let took = start.elapsed().as_secs_f64();
        println!(
            "a pod of low priority {what}: {took:.3} s, {:.2} s of processor, {:.2} s of the server's; {} have their condition by then",
            scheduler.processor() - used,
            processor(server) - others,
            reported()
        );
    }
}

/// Volcano's default configuration.
const BATCH_CONF: &str = "\
actions: \"enqueue, allocate, backfill\"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
";

/// Measures how long it takes until this many gangs of this many pods have their nodes.
fn gangs((nodes, gangs, members): (usize, usize, usize)) {
    let api = ApiServer::start().unwrap();
    let admin = api.actor("bench");
    for index in 0..nodes {
        let name = format!("node-{index:05}");
        let amounts = json!({ "cpu": "32", "memory": "128Gi", "pods": "110" });
        admin
            .create(json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
                "status": { "allocatable": amounts, "capacity": amounts },
            }))
            .unwrap();
    }
    let of_volcano = |kind: &str, name: &str, spec: Value, status: Value| {
        json!({ "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": kind,
            "metadata": { "name": name }, "spec": spec, "status": status })
    };
    for name in ["root", "default"] {
        let open = json!({ "state": "Open" });
        admin
            .create(of_volcano("Queue", name, json!({ "weight": 1 }), open))
            .unwrap();
    }
    let conf = file(BATCH_CONF);
    let path = conf.path().to_str().unwrap();
    let scheduler = Scheduler::start(&api, &["--batch-conf", path, "--schedule-period=100ms"]);
    let member = |gang: usize, member: usize| format!("gang-{gang}-{member}");
    let mut first = pod("first", "1", 0);
    first["spec"]["containers"][0]["resources"]["requests"]["memory"] = "1Gi".into();
    admin.create(first.clone()).unwrap();
    wait_until(&admin, "the first pod has its node", || {
        is_bound(&admin, "first")
    });
    let (server, asked) = (std::process::id(), api.counters().requests);
    let (start, used, others) = (Instant::now(), scheduler.processor(), processor(server));
    for gang in 0..gangs {
        let name = format!("gang-{gang}");
        let spec = json!({ "minMember": members, "queue": "default",
            "minResources": { "cpu": members.to_string(), "memory": format!("{members}Gi") } });
        let status = json!({ "phase": "Pending" });
        admin
            .create(of_volcano("PodGroup", &name, spec, status))
            .unwrap();
        for index in 0..members {
            let mut pod = first.clone();
            pod["metadata"] = json!({ "name": member(gang, index), "annotations": {
                "scheduling.k8s.io/group-name": name, "volcano.sh/task-spec": "work" } });
            pod["spec"]["schedulerName"] = "volcano".into();
            admin.create(pod).unwrap();
        }
    }
    let made = start.elapsed().as_secs_f64();
    for gang in (0..gangs).rev() {
        for index in (0..members).rev() {
            wait_until(&admin, "all gangs have their nodes", || {
                is_bound(&admin, &member(gang, index))
            });
        }
    }
    let (took, pods) = (start.elapsed().as_secs_f64(), (gangs * members) as f64);
    let (used, others) = (scheduler.processor() - used, processor(server) - others);
    println!(
        "{gangs} gangs of {members} pods on {nodes} nodes, made in {made:.2} s, have their nodes after {took:.2} s: {:.0} pods a second, {:.3} ms of processor a pod, {:.3} ms of the server's; {:.2} requests a pod; {:.0} MB resident",
        pods / took,
        used * 1000.0 / pods,
        others * 1000.0 / pods,
        (api.counters().requests - asked) as f64 / pods,
        scheduler.resident()
    );
    let mut asked = std::collections::BTreeMap::<String, usize>::new();
    for entry in api.log() {
        *asked
            .entry(format!("{} {}", entry.verb, entry.what))
            .or_default() += 1;
    }
    println!("{asked:?}");
}
