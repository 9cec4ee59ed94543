//! `evictd-scheduler run` and deferred in-place resizes (S7-240 to S7-246).

use crate::live_scheduling::{Live, condition, pod};
use crate::scheduler;
use evictd_testkit::ApiServer;
use evictd_testkit::program;
use evictd_testkit::testing::wait_until;
use serde_json::{Value, json};
use std::net::TcpListener;

#[test]
fn s7_244_a_deferred_resize_preempts_on_its_node_and_pending_says_what_it_waits_for() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let api = ApiServer::start().unwrap();
    api.set(|settings| settings.minor_version = 37);
    let arguments = [
        &*format!("--secure-port={port}"),
        "--bind-address=127.0.0.1",
        "--authorization-always-allow-paths=/v1/pending",
        "--feature-gates=InPlacePodVerticalScalingSchedulerPreemption=true",
    ];
    let live = Live::with(api, &[("one", "2"), ("two", "2")], &arguments);
    // As if an earlier scheduler had bound them.
    let on_one = |mut pod: Value| {
        pod["spec"]["nodeName"] = json!("one");
        pod
    };
    live.admin.create(on_one(pod("low", "1", 0))).unwrap();
    let mut app = on_one(pod("app", "2", 1000));
    app["status"] = json!({ "phase": "Running",
        "containerStatuses": [{ "name": "main", "allocatedResources": { "cpu": "1", "memory": "64Mi" },
            "resources": { "requests": { "cpu": "1", "memory": "64Mi" } } }],
        "conditions": [{ "type": "PodResizePending", "status": "True", "reason": "Deferred" },
            { "type": "PodScheduled", "status": "True" }] });
    live.admin.create(app).unwrap();
    let low = live.until("default/low", "being deleted", |low| {
        !low["metadata"]["deletionTimestamp"].is_null()
    });
    let disrupted = low["status"]["conditions"].to_string();
    assert!(disrupted.contains("PreemptionByScheduler"), "{disrupted}");
    let app = live.admin.get("pods", "default/app").unwrap();
    assert_eq!(condition(&app)["status"], "True");
    assert!(app["status"]["nominatedNodeName"].is_null(), "{app}");
    let server = format!("https://127.0.0.1:{port}");
    let pending = || {
        let mut command = scheduler();
        command.args(["pending", "--insecure-skip-tls-verify", "--server", &server]);
        command.args(["--kubeconfig"]).arg(live.kubeconfig_path());
        command.env("COLUMNS", "120");
        String::from_utf8(program::run(&mut command, "").stdout).unwrap()
    };
    wait_until("pending lists the resize", || {
        pending().contains("waiting for preempted pods to end: default/low")
    });
    // The kubelet ends the victim, and the resize fits then.
    let at_once = json!({ "gracePeriodSeconds": 0 });
    let _ = live.admin.delete("pods", "default/low", at_once);
    wait_until("the resize fits", || {
        pending().contains("pod resize fits, waiting for Kubelet actuation")
    });
    assert!(pending().starts_with("No pod is pending."), "{}", pending());
}
