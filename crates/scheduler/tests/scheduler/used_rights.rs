//! The packaged role of the scheduler has exactly the rights that it uses.

use crate::live_batch;
use crate::live_devices::{claim, extended, with_served_cards};
use crate::live_groups::{child, composite, member};
use crate::live_scheduling::{Live, pod};
use crate::scheduler;
use evictd_testkit::program;
use evictd_testkit::rights::{granted, packaged, used};
use evictd_testkit::testing::wait_until;
use evictd_testkit::{ApiServer, Authority, Fault};
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use tempfile::NamedTempFile;

/// Granted rights without a request in this test, with the reason.
const UNSEEN: [&str; 3] = [
    // Repeats of an event are written after five minutes.
    "patch events events.k8s.io",
    "patch events ",
    // Not seen as a call: the API server checks this right beside that to the status.
    "patch resourceclaims/binding resource.k8s.io",
];

/// A scheduler with the packaged configuration and these rights. Its server cannot stream lists, so that the right to list is
/// used, too. The file has its credentials.
fn live(rules: Value, port: u16, arguments: &[&str]) -> (Live, NamedTempFile) {
    let api = ApiServer::start().unwrap();
    api.set(|settings| {
        settings.streaming_lists = false;
        // The newest release that it knows: earlier ones have no use for some of the rights.
        settings.minor_version = 37;
    });
    api.grant("token", "scheduler", Some(rules));
    let admin = api.actor("admin");
    let authority = Authority::new("test").unwrap();
    let published = json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "extension-apiserver-authentication", "namespace": "kube-system" },
        "data": { "client-ca-file": authority.pem() } });
    admin.create(published).unwrap();
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/kubernetes");
    let config = package.join("scheduler/scheduler.yaml");
    let secure = format!("--secure-port={port}");
    let credentials = kubeconfig(&api, "token");
    // As in the packaged pod.
    let [authentication, authorization] = ["authentication", "authorization"].map(|name| {
        let path = credentials.path().display();
        format!("--{name}-kubeconfig={path}")
    });
    let common = [
        "--config",
        config.to_str().unwrap(),
        &secure,
        "--bind-address=127.0.0.1",
        &authentication,
        &authorization,
    ];
    let arguments = [&common[..], arguments].concat();
    let kubeconfig = api.kubeconfig_of("token");
    let live = Live::by(&kubeconfig, api, &[("one", "4")], &arguments);
    (live, credentials)
}

fn kubeconfig(api: &ApiServer, token: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    write!(file, "{}", api.kubeconfig_of(token)).unwrap();
    file
}

fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap().port()
}

/// The pod with the scheduler name of the packaged profile.
fn of_profile(mut pod: Value) -> Value {
    pod["spec"]["schedulerName"] = json!("evictd-scheduler");
    pod
}

fn until_all_are_used(live: &Live, rules: &Value) {
    let granted = granted(rules);
    let mut unused = Vec::new();
    wait_until("every right is used", || {
        let used = used(&live.api.log(), "scheduler");
        let unseen = |right: &&String| !UNSEEN.contains(&right.as_str());
        unused = granted.difference(&used).filter(unseen).cloned().collect();
        unused.is_empty()
    });
    assert_eq!(unused, [""; 0]);
}

/// Pods whose claims get an existing volume and a provisioned one.
fn use_volumes(live: &Live) {
    let create = |object: Value| live.admin.create(object).unwrap();
    create(
        json!({ "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": "late" },
        "provisioner": "example.com/disk", "volumeBindingMode": "WaitForFirstConsumer" }),
    );
    let spec = json!({ "storageClassName": "late", "accessModes": ["ReadWriteOnce"] });
    let mut volume = spec.clone();
    volume["capacity"] = json!({ "storage": "5Gi" });
    volume["hostPath"] = json!({ "path": "/data" });
    create(
        json!({ "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": "there" }, "spec": volume }),
    );
    for (name, size) in [("fits", "2Gi"), ("larger", "20Gi")] {
        let mut claim = spec.clone();
        claim["resources"] = json!({ "requests": { "storage": size } });
        create(json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": { "name": name, "namespace": "default" }, "spec": claim }));
        let mut wants = of_profile(pod(name, "100m", 0));
        wants["spec"]["volumes"] =
            json!([{ "name": "data", "persistentVolumeClaim": { "claimName": name } }]);
        create(wants);
    }
}

#[test]
fn every_right_of_the_scheduler_is_used_and_none_is_missing() {
    let rules = packaged("scheduler/rights.yaml");
    let port = free_port();
    let (live, _credentials) = live(rules.clone(), port, &[]);
    // Without an answer the scheduler reads the pod.
    live.api
        .fault(Fault::cut_after(0).on("create", "pods/binding").times(1));
    live.admin.create(of_profile(pod("low", "2", 0))).unwrap();
    live.bound("default/low");
    live.admin
        .create(of_profile(pod("high", "3", 1000)))
        .unwrap();
    wait_until("its victim is being deleted", || {
        let low = live.admin.get("pods", "default/low");
        low.is_none_or(|low| low["metadata"]["deletionTimestamp"].is_string())
    });
    let now = json!({ "gracePeriodSeconds": 0 });
    // The server may have removed it already.
    let _ = live.admin.delete("pods", "default/low", now);
    live.bound("default/high");
    live.admin.create(composite("jobs", 1, "")).unwrap();
    live.admin.create(child("train", 2, "jobs")).unwrap();
    for name in ["train-0", "train-1"] {
        let member = member(name, "train", "8", 0);
        live.admin.create(of_profile(member)).unwrap();
    }
    use_volumes(&live);
    with_served_cards(&live, &[("one", 2)]);
    // The first attempt to bind fails, so that the allocation of the claim is withdrawn.
    live.api
        .fault(Fault::answer(422).on("create", "pods/binding").times(1));
    claim(&live, "card");
    let mut user = of_profile(pod("user", "100m", 0));
    user["spec"]["resourceClaims"] = json!([{ "name": "card", "resourceClaimName": "card" }]);
    live.admin.create(user).unwrap();
    live.bound("default/user");
    // The same for a claim that is made for an extended resource, and deleted.
    live.api
        .fault(Fault::answer(422).on("create", "pods/binding").times(1));
    let mut served = extended("extended", "1");
    served["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("100m");
    live.admin.create(of_profile(served)).unwrap();
    live.bound("default/extended");
    // A client lists the pending pods.
    live.api.grant("asks", "somebody", None);
    let asks = kubeconfig(&live.api, "asks");
    let mut pending = scheduler();
    pending.args(["pending", "--insecure-skip-tls-verify", "--server"]);
    pending.arg(format!("https://127.0.0.1:{port}"));
    pending.arg("--kubeconfig").arg(asks.path());
    program::run(&mut pending, "");
    until_all_are_used(&live, &rules);
}

#[test]
fn every_right_of_batch_sessions_is_used_and_none_is_missing() {
    let batch = packaged("scheduler-batch/rights.yaml");
    let mut rules = packaged("scheduler/rights.yaml");
    let all = rules.as_array_mut().unwrap();
    all.extend(batch.as_array().unwrap().iter().cloned());
    let conf = live_batch::conf_with("enqueue, allocate, backfill", "name: usage");
    let path = conf.path().to_str().unwrap();
    let (live, _credentials) = live(
        rules,
        free_port(),
        &["--batch-conf", path, "--schedule-period=20ms"],
    );
    let space = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "volcano-system" } });
    // It may exist already.
    let _ = live.admin.create(space);
    // The scheduler creates the root queue itself.
    live_batch::queue(&live.admin, "default");
    live.admin
        .create(live_batch::group("train", "default", 1, "1"))
        .unwrap();
    live.admin
        .create(live_batch::member("train-0", "train", "1"))
        .unwrap();
    live.bound("default/train-0");
    until_all_are_used(&live, &batch);
}
