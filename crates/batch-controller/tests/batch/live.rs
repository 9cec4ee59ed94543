//! `evictd-batch controllers` on an API server: jobs, queues and Commands.

use crate::batch;
use evictd_testkit::rights::packaged;
use evictd_testkit::testing::wait_until;
use evictd_testkit::{Actor, ApiServer, Entry, Fault};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write;
use std::process::Child;
use tempfile::NamedTempFile;

const LEASE: &str = "volcano-system/vc-controller-manager";

/// A cluster with controllers.
pub(crate) struct Live {
    pub(crate) api: ApiServer,
    pub(crate) admin: Actor,
    program: Child,
    kubeconfig: NamedTempFile,
    /// The log, which continues after a restart.
    pub(crate) log: NamedTempFile,
    arguments: Vec<String>,
}

impl Drop for Live {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

fn start(kubeconfig: &NamedTempFile, log: &NamedTempFile, arguments: &[String]) -> Child {
    let mut command = batch();
    command
        .args(["controllers", "--kubeconfig"])
        .arg(kubeconfig.path());
    command.args(arguments);
    for address in ["--listen-address", "--healthz-address"] {
        if !arguments.iter().any(|argument| argument == address) {
            command.args([address, ""]);
        }
    }
    let log = File::options().append(true).open(log.path()).unwrap();
    command.stderr(log).spawn().unwrap()
}

impl Live {
    pub(crate) fn new(arguments: &[&str]) -> Self {
        Self::at(ApiServer::start().unwrap(), arguments)
    }

    pub(crate) fn at(api: ApiServer, arguments: &[&str]) -> Self {
        let admin = api.actor("test");
        let system = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "volcano-system"}});
        admin.create(system).unwrap();
        for (name, parent) in [("root", ""), ("default", "root")] {
            admin.create(queue(name, parent)).unwrap();
        }
        // No more rights than those in packaging.
        let mut rules = packaged("batch/rights.yaml");
        if arguments.contains(&"volcano") {
            let more = packaged("components/volcano-form/rights.yaml");
            rules
                .as_array_mut()
                .unwrap()
                .extend(more.as_array().unwrap().clone());
        }
        api.grant("token", "controllers", Some(rules));
        let mut kubeconfig = NamedTempFile::new().unwrap();
        write!(kubeconfig, "{}", api.kubeconfig_of("token")).unwrap();
        let arguments: Vec<String> = arguments
            .iter()
            .map(|argument| (*argument).to_owned())
            .collect();
        let log = NamedTempFile::new().unwrap();
        let program = start(&kubeconfig, &log, &arguments);
        Self {
            api,
            admin,
            program,
            kubeconfig,
            log,
            arguments,
        }
    }

    /// Sends SIGKILL and starts the program again. The lease of the old process is over then: a short lease instead would
    /// end the program whenever a busy machine keeps it waiting.
    pub(crate) fn kill(&mut self) {
        let id = i32::try_from(self.program.id()).unwrap();
        kill(Pid::from_raw(id), Signal::SIGKILL).unwrap();
        self.program.wait().unwrap();
        // The process may have been killed before it took the lease.
        let released = json!({"spec": {"holderIdentity": ""}});
        let _ = self.admin.merge("leases", LEASE, released);
        self.program = start(&self.kubeconfig, &self.log, &self.arguments);
    }

    /// The most memory that the controllers held, in KiB.
    pub(crate) fn peak_memory(&self) -> u64 {
        peak_memory(self.program.id())
    }

    pub(crate) fn job(&self, name: &str) -> Value {
        let job = self.admin.get("jobs", &format!("default/{name}"));
        job.unwrap_or_default()
    }

    pub(crate) fn phase(&self, name: &str) -> String {
        let job = self.job(name);
        job["status"]["state"]["phase"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    pub(crate) fn until_phase(&self, name: &str, phase: &str) {
        wait_until(&format!("{name} is {phase}"), || self.phase(name) == phase);
    }

    /// The job's PodGroup.
    pub(crate) fn group(&self, job: &str) -> Option<Value> {
        let uid = self.job(job)["metadata"]["uid"].as_str()?.to_owned();
        self.admin.get(GROUPS, &format!("default/{job}-{uid}"))
    }

    /// Enqueues the pod group of a job, as the scheduler does.
    pub(crate) fn enqueue(&self, job: &str) {
        let group = self.group(job);
        let Some(group) = group.filter(|group| group["status"]["phase"] != "Inqueue") else {
            return;
        };
        let at = format!("default/{}", group["metadata"]["name"].as_str().unwrap());
        let status = json!({"status": {"phase": "Inqueue"}});
        // It may be gone.
        let _ = self.admin.merge(GROUPS, &at, status);
    }

    pub(crate) fn until_leader(&self) {
        wait_until("there is a leader", || {
            let lease = self.admin.get("leases", LEASE).unwrap_or_default();
            let holder = lease["spec"]["holderIdentity"].as_str();
            holder.is_some_and(|holder| !holder.is_empty())
        });
    }

    pub(crate) fn pods(&self, job: &str) -> Vec<String> {
        let pods = self.admin.list("pods").into_iter();
        let pods = pods.filter(|pod| pod["metadata"]["annotations"]["volcano.sh/job-name"] == job);
        let names = pods.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    pub(crate) fn until_pods(&self, job: &str, names: &[&str]) {
        wait_until(&format!("{job} has {names:?}"), || self.pods(job) == names);
    }

    /// Sets the phase of a pod, as its kubelet does.
    pub(crate) fn set_phase(&self, pod: &str, phase: &str) {
        let code = i32::from(phase == "Failed");
        let state = match phase {
            "Failed" | "Succeeded" => json!({"terminated": {"exitCode": code}}),
            _ => json!({"running": {}}),
        };
        let containers =
            json!([{"name": "c", "ready": phase == "Running", "restartCount": 0, "state": state}]);
        let status = json!({"status": {"phase": phase, "containerStatuses": containers}});
        // It may be gone.
        let _ = self
            .admin
            .merge("pods/status", &format!("default/{pod}"), status);
    }

    pub(crate) fn command(&self, job: &str, action: &str) {
        let uid = self.job(job)["metadata"]["uid"].take();
        let command = command(job, "Job", uid.as_str().unwrap_or("another"), action);
        self.admin.create(command).unwrap();
    }

    pub(crate) fn order(&self, queue: &str, action: &str) -> Value {
        let known = self.admin.get("queues", queue).unwrap();
        let uid = known["metadata"]["uid"].as_str().unwrap();
        command(queue, "Queue", uid, action)
    }

    /// Waits until an event about this object has this reason; returns its note.
    pub(crate) fn event_note(&self, name: &str, reason: &str) -> String {
        let mut note = String::new();
        wait_until(&format!("{name} has the event {reason}"), || {
            let events = self.admin.list("events").into_iter();
            let mut events = events.filter(|event| {
                event["involvedObject"]["name"] == name && event["reason"] == reason
            });
            let found = events.next();
            if let Some(event) = &found {
                note = event["message"].as_str().unwrap().into();
            }
            found.is_some()
        });
        note
    }
}

/// The most memory that a process held, in KiB.
pub(crate) fn peak_memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.unwrap().trim().trim_end_matches(" kB");
    peak.parse().unwrap()
}

const GROUPS: &str = "podgroups.scheduling.volcano.sh";

pub(crate) fn queue(name: &str, parent: &str) -> Value {
    json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
        "metadata": {"name": name}, "spec": {"weight": 1, "parent": parent},
    })
}

pub(crate) fn command(name: &str, kind: &str, uid: &str, action: &str) -> Value {
    let version = match kind {
        "Job" => "batch.volcano.sh/v1alpha1",
        _ => "scheduling.volcano.sh/v1beta1",
    };
    json!({
        "apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command",
        "metadata": {"generateName": format!("{name}-"), "namespace": "default"},
        "action": action, "target": {"apiVersion": version, "kind": kind, "name": name, "uid": uid},
    })
}

/// A job of two pods.
pub(crate) fn job(name: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut job = json!({
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "schedulerName": "volcano", "queue": "default", "minAvailable": 2, "maxRetry": 3,
            "tasks": [{
                "name": "w", "replicas": 2, "minAvailable": 2,
                "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "none"}]}},
            }],
        },
    });
    change(&mut job);
    job
}

/// A job whose pods run.
pub(crate) fn running(live: &Live, name: &str, change: impl FnOnce(&mut Value)) {
    live.admin.create(job(name, change)).unwrap();
    live.until_phase(name, "Pending");
    start_pods(live, name);
}

/// Enqueues the job and starts its pods, including those that are created meanwhile.
pub(crate) fn start_pods(live: &Live, name: &str) {
    let pods = [0, 1].map(|index| format!("{name}-w-{index}"));
    wait_until(&format!("{name} runs with all its pods"), || {
        live.enqueue(name);
        let mut running = 0;
        for pod in live.pods(name) {
            let stored = live.admin.get("pods", &format!("default/{pod}"));
            let stored = stored.unwrap_or_default();
            if stored["status"]["phase"] == "Pending" {
                live.set_phase(&pod, "Running");
            }
            let marked = stored["metadata"]["annotations"].get("volcano.sh/controller-out-of-sync");
            running += i32::from(stored["status"]["phase"] == "Running" && marked.is_none());
        }
        let counts = live.job(name)["status"].take();
        let counted = live.phase(name) == "Running" && counts["running"] == 2;
        counted && running == 2 && live.pods(name) == pods
    });
}

pub(crate) fn on_failure(job: &mut Value) {
    job["spec"]["policies"] = json!([{"action": "RestartJob", "event": "PodFailed"}]);
}

#[test]
fn a_job_gets_a_pod_group_then_pods_and_completes() {
    let live = Live::new(&[]);
    live.admin
        .create(job("train", |job| {
            job["spec"]["plugins"] = json!({"svc": [], "env": [], "ssh": []});
        }))
        .unwrap();
    wait_until("there is a group", || live.group("train").is_some());
    assert_eq!(live.pods("train"), [""; 0]);
    let group = live.group("train").unwrap();
    assert_eq!(
        (&group["spec"]["minMember"], &group["spec"]["queue"]),
        (&json!(2), &json!("default"))
    );
    start_pods(&live, "train");
    for (kind, name) in [
        ("services", "train"),
        ("configmaps", "train-svc"),
        ("networkpolicies", "train"),
        ("secrets", "train-ssh"),
    ] {
        assert!(
            live.admin.get(kind, &format!("default/{name}")).is_some(),
            "{kind} {name}"
        );
    }
    for pod in live.pods("train") {
        live.set_phase(&pod, "Succeeded");
    }
    live.until_phase("train", "Completed");
    wait_until("the group is gone", || live.group("train").is_none());
    let status = live.job("train")["status"].take();
    assert_eq!(
        (&status["succeeded"], status.get("retryCount")),
        (&json!(2), None)
    );
    assert_eq!(live.pods("train").len(), 2);
}

#[test]
fn a_pod_that_fails_restarts_its_job_by_a_policy() {
    let live = Live::new(&[]);
    running(&live, "train", on_failure);
    live.set_phase("train-w-1", "Failed");
    live.until_phase("train", "Restarting");
    start_pods(&live, "train");
    let status = live.job("train")["status"].take();
    assert_eq!(
        (&status["retryCount"], &status["version"]),
        (&json!(1), &json!(1))
    );
    let note = live.event_note("train", "ExecuteAction");
    assert!(
        note.starts_with("Start to execute action RestartJob (retry 1 of "),
        "{note}"
    );
}

#[test]
fn commands_abort_and_resume_a_job_once() {
    let live = Live::new(&[]);
    running(&live, "train", |_| {});
    live.command("train", "AbortJob");
    live.until_phase("train", "Aborted");
    live.until_pods("train", &[]);
    live.command("train", "ResumeJob");
    wait_until("it goes on", || live.group("train").is_some());
    start_pods(&live, "train");
    // A resume uses up no retry.
    assert_eq!(live.job("train")["status"].get("retryCount"), None);
    wait_until("no Command is left", || {
        live.admin.list("commands").is_empty()
    });
    let note = live.event_note("train", "CommandIssued");
    assert!(note.starts_with("Start to execute command "), "{note}");
    // A Command for a job that does not exist is deleted, too.
    live.command("missing", "AbortJob");
    wait_until("no Command is left", || {
        live.admin.list("commands").is_empty()
    });
}

#[test]
fn a_queue_closes_by_a_command_when_its_last_group_is_gone() {
    let live = Live::new(&[]);
    let state = |name: &str| live.admin.get("queues", name).unwrap()["status"]["state"].clone();
    wait_until("the queue is open", || state("default") == "Open");
    live.admin.create(queue("below", "default")).unwrap();
    running(&live, "train", |_| {});
    live.admin
        .create(live.order("default", "CloseQueue"))
        .unwrap();
    wait_until("the queue is closing", || state("default") == "Closing");
    wait_until("the one below is closed", || state("below") == "Closed");
    assert_eq!(
        live.event_note("default", "CloseQueue"),
        "Close queue succeed"
    );
    live.command("train", "AbortJob");
    wait_until("the queue is closed", || state("default") == "Closed");
    live.admin
        .create(live.order("default", "OpenQueue"))
        .unwrap();
    wait_until("both are open", || {
        state("default") == "Open" && state("below") == "Open"
    });
}

#[test]
fn a_finished_job_is_deleted_when_its_ttl_is_over() {
    let live = Live::new(&[]);
    running(&live, "train", |job| {
        job["spec"]["ttlSecondsAfterFinished"] = json!(1);
    });
    live.command("train", "TerminateJob");
    wait_until("the job is gone", || {
        live.admin.get("jobs", "default/train").is_none()
    });
}

#[test]
fn a_job_without_its_claim_records_an_event_and_starts_once_the_claim_exists() {
    let live = Live::new(&[]);
    let volume = json!([{"mountPath": "/data", "volumeClaimName": "data"}]);
    live.admin
        .create(job("train", |job| job["spec"]["volumes"] = volume))
        .unwrap();
    let note = live.event_note("train", "PVCError");
    assert_eq!(
        note,
        "Failed to create PVC, err: pvc data is not found, the job will be in the Pending state until the PVC is created"
    );
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default"}, "spec": {}});
    live.admin.create(claim).unwrap();
    start_pods(&live, "train");
}

#[test]
fn a_job_whose_queue_is_missing_waits_for_it() {
    let live = Live::new(&[]);
    let change = |job: &mut Value| job["spec"]["queue"] = json!("research");
    live.admin.create(job("train", change)).unwrap();
    let note = live.event_note("train", "QueueNotFound");
    assert!(note.contains("there is no queue \"research\""), "{note}");
    live.admin.create(queue("research", "root")).unwrap();
    start_pods(&live, "train");
}

#[test]
fn failed_calls_are_retried_and_nothing_is_created_twice() {
    let live = Live::new(&[]);
    for (verb, what) in [
        ("create", "podgroups"),
        ("create", "pods"),
        ("patch", "jobs/status"),
    ] {
        live.api.fault(Fault::answer(500).on(verb, what).times(3));
    }
    running(&live, "train", on_failure);
    for (verb, what) in [
        ("patch", "pods"),
        ("delete", "pods"),
        ("delete", "podgroups"),
    ] {
        live.api.fault(Fault::answer(503).on(verb, what).times(3));
    }
    live.api.cut_watches();
    live.set_phase("train-w-0", "Failed");
    live.until_phase("train", "Restarting");
    start_pods(&live, "train");
    assert_eq!(live.job("train")["status"]["retryCount"], 1);
}

#[test]
fn s6_012_a_command_acts_once_although_its_deletion_fails_at_first() {
    let live = Live::new(&[]);
    running(&live, "train", |_| {});
    live.api
        .fault(Fault::answer(503).on("delete", "commands").times(3));
    live.command("train", "RestartJob");
    live.until_phase("train", "Restarting");
    live.api.cut_watches();
    start_pods(&live, "train");
    assert!(live.admin.list("commands").is_empty());
    assert_eq!(live.job("train")["status"]["retryCount"], 1);
}

#[test]
fn only_one_of_two_controllers_works_and_the_other_takes_over() {
    // The second process waits for the whole duration of the lease.
    let arguments = ["--leader-elect-lease-duration", "3"].map(str::to_owned);
    let mut live = Live::new(&["--leader-elect-lease-duration", "3"]);
    live.until_leader();
    let mut second = Ended(start(&live.kubeconfig, &live.log, &arguments));
    running(&live, "train", |_| {});
    std::mem::swap(&mut live.program, &mut second.0);
    drop(second);
    running(&live, "next", |_| {});
}

/// A program that does not outlive the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_controllers_do_not_start_while_volcanos_run() {
    let mut live = Live::new(&[]);
    live.until_leader();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "volcano-controllers-0", "namespace": "default", "labels": {"app": "volcano-controller"}},
        "spec": {"nodeName": "one", "containers": [{"name": "c", "image": "none"}]},
    });
    live.admin.create(pod).unwrap();
    let mut second = Ended(start(&live.kubeconfig, &live.log, &[]));
    let mut status = None;
    wait_until("the second one ends", || {
        status = second.0.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(1));
    // The first one continues.
    assert!(live.program.try_wait().unwrap().is_none());
}

#[test]
fn bare_pods_get_a_pod_group_only_with_form_volcano() {
    for form in ["volcano", "evictd"] {
        let live = Live::new(&["--form", form]);
        let set = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {
                "name": "web", "namespace": "default",
                "annotations": {"scheduling.volcano.sh/group-min-member": "3"},
            },
            "spec": {"replicas": 1},
        });
        let uid = live.admin.create(set).unwrap()["metadata"]["uid"].clone();
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid, "controller": true});
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web-1", "namespace": "default", "ownerReferences": [owner]},
            "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "image": "none"}]},
        });
        live.admin.create(pod).unwrap();
        let name = format!("podgroup-{}", uid.as_str().unwrap());
        let group = || live.admin.get(GROUPS, &format!("default/{name}"));
        let named = || {
            let pod = live.admin.get("pods", "default/web-1").unwrap();
            pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == name.as_str()
        };
        if form == "evictd" {
            running(&live, "train", |_| {});
            assert!(group().is_none() && !named());
            continue;
        }
        wait_until("the pod has its group", || group().is_some() && named());
        assert_eq!(group().unwrap()["spec"]["minMember"], 3);
        let nothing = json!({"spec": {"replicas": 0}});
        live.admin
            .merge("replicasets", "default/web", nothing)
            .unwrap();
        wait_until("the group is gone", || group().is_none());
        // The annotation of a DaemonSet counts, too.
        let mut set = json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {
                "name": "each", "namespace": "default",
                "annotations": {"scheduling.volcano.sh/group-min-member": "2"},
            },
        });
        set["metadata"]["uid"] = live.admin.create(set.clone()).unwrap()["metadata"]["uid"].take();
        let owner = json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "each", "uid": set["metadata"]["uid"], "controller": true,
        });
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "each-1", "namespace": "default", "ownerReferences": [owner]},
            "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "image": "none"}]},
        });
        live.admin.create(pod).unwrap();
        let name = format!("podgroup-{}", set["metadata"]["uid"].as_str().unwrap());
        let group = || live.admin.get(GROUPS, &format!("default/{name}"));
        wait_until("the group of the DaemonSet is there", || group().is_some());
        assert_eq!(group().unwrap()["spec"]["minMember"], 2);
        // Pods of jobs are not bare: the owner of one is not looked up among the Jobs of Kubernetes.
        running(&live, "train", |_| {});
        let log = live.api.log();
        let lost = |entry: &&Entry| entry.path.starts_with("/apis/batch/v1/");
        assert_eq!(log.iter().find(lost), None);
    }
}
