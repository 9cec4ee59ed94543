//! What `evictd-scheduler run` and `pending` write for people: the log and errors.

use crate::live_scheduling::{Live, pod};
use crate::scheduler;
use evictd_testkit::testing::wait_until;
use evictd_testkit::{ApiServer, program};
use std::fs::File;
use std::io::Write;
use std::net::TcpListener;
use std::process::Stdio;
use tempfile::NamedTempFile;

/// The log of a scheduler without election, after its pod was bound.
fn log(live: &Live, environment: &[(&str, &str)], arguments: &[&str]) -> String {
    let log = NamedTempFile::new().unwrap();
    let mut kubeconfig = NamedTempFile::new().unwrap();
    write!(kubeconfig, "{}", live.api.kubeconfig()).unwrap();
    let mut command = scheduler();
    command.args(["run", "--leader-elect=false", "--bind-address=127.0.0.1"]);
    command.arg("--kubeconfig").arg(kubeconfig.path());
    command
        .args(arguments)
        .envs(environment.iter().copied())
        .stderr(Stdio::from(File::create(log.path()).unwrap()));
    let mut program = command.spawn().unwrap();
    wait_until("the pods are bound or nominated", || {
        ["low", "high"].iter().all(|name| {
            let pod = live.admin.get("pods", &format!("default/{name}"));
            pod.is_none_or(|pod| {
                pod["spec"]["nodeName"].is_string()
                    || pod["status"]["nominatedNodeName"].is_string()
            })
        })
    });
    program.kill().unwrap();
    program.wait().unwrap();
    std::fs::read_to_string(log.path()).unwrap()
}

fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap().port()
}

/// A cluster whose scheduler does not take the pods of the default profile.
fn idle() -> Live {
    let config = r#"{ "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "leaderElection": { "leaderElect": false }, "profiles": [{ "schedulerName": "other" }] }"#;
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(config.as_bytes()).unwrap();
    let path = file.path().to_str().unwrap();
    let live = Live::with(
        ApiServer::start().unwrap(),
        &[("one", "2")],
        &["--config", path],
    );
    live.admin.create(pod("low", "1500m", 0)).unwrap();
    live
}

#[test]
fn without_election_no_lease_is_named_and_a_pod_preempts_a_number_of_pods() {
    let live = idle();
    log(&live, &[], &["--secure-port=0"]);
    live.admin.create(pod("high", "1500m", 1000)).unwrap();
    let log = log(&live, &[], &["--secure-port=0"]);
    assert!(!log.contains("lease"), "{log}");
    assert!(log.contains("default/high preempts 1 pod on one"), "{log}");
    assert!(!log.contains("preempts 0"), "{log}");
}

#[test]
fn without_a_kubeconfig_for_clients_the_port_uses_the_service_account_of_its_pod() {
    let live = idle();
    let port = format!("--secure-port={}", free_port());
    let outside = log(&live, &[], &[&port]);
    assert!(!outside.contains("accepts no tokens"), "{outside}");
    // As in a pod whose account was not mounted.
    let of_pod = [
        ("KUBERNETES_SERVICE_HOST", "127.0.0.1"),
        ("KUBERNETES_SERVICE_PORT", "1"),
    ];
    live.admin.create(pod("high", "100m", 0)).unwrap();
    let inside = log(&live, &of_pod, &[&port]);
    assert!(
        inside.contains("the secure port accepts no tokens: "),
        "{inside}"
    );
}

#[test]
fn errors_of_pending_name_the_flag_of_the_server() {
    let api = ApiServer::start().unwrap();
    let mut kubeconfig = NamedTempFile::new().unwrap();
    write!(kubeconfig, "{}", api.kubeconfig()).unwrap();
    let pending = |server: &str| {
        let mut command = scheduler();
        command.args(["pending", "--server", server, "--kubeconfig"]);
        program::run(command.arg(kubeconfig.path()), "")
    };
    let closed = format!("https://127.0.0.1:{}", free_port());
    let named = format!("--server {closed}: ");
    assert!(program::refusal(&pending(&closed), 1).contains(&named));
    for text in ["127.0.0.1:10259", "ftp://host", "not a url", ""] {
        let refusal = program::refusal(&pending(text), 2);
        let named = format!("--server {text:?}: is not a URL such as https://");
        assert!(refusal.contains(&named), "{refusal}");
    }
}

#[test]
fn errors_of_pending_are_about_the_port_and_not_about_the_api_server() {
    let port = free_port();
    let secure = format!("--secure-port={port}");
    let arguments = [secure.as_str(), "--bind-address=127.0.0.1"];
    let live = Live::with(ApiServer::start().unwrap(), &[("one", "2")], &arguments);
    let pending = |scheme: &str| {
        let mut command = scheduler();
        command.arg("pending").arg("--kubeconfig");
        command.arg(live.kubeconfig.path()).arg("--server");
        command.arg(format!("{scheme}://127.0.0.1:{port}"));
        program::refusal(&program::run(&mut command, ""), 1)
    };
    // The port made its certificate itself.
    wait_until("the port is open", || {
        pending("https").contains("add --insecure-skip-tls-verify")
    });
    assert!(!pending("https").contains("the API server's certificate"));
    let plain = pending("http");
    assert!(plain.contains("begins with https://"), "{plain}");
}
