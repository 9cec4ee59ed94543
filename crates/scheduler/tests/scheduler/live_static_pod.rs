//! `evictd-scheduler run` with the flags of kube-scheduler's static pod.

use crate::live_scheduling::{node, node_of_pod, pod};
use crate::scheduler;
use evictd_testkit::ApiServer;
use evictd_testkit::testing::wait_until;
use std::fs::File;
use std::io::Write;
use std::net::TcpListener;
use std::process::{Child, Stdio};
use tempfile::NamedTempFile;

/// Ends with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn s5_073_the_flags_of_kubeadms_static_pod_work_and_flags_without_effect_are_reported() {
    let api = ApiServer::start().unwrap();
    let admin = api.actor("test");
    node(&admin, "one", "2");
    let mut kubeconfig = NamedTempFile::new().unwrap();
    write!(kubeconfig, "{}", api.kubeconfig()).unwrap();
    let path = kubeconfig.path().to_str().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let log = NamedTempFile::new().unwrap();
    let mut command = scheduler();
    // The first five are kubeadm's, the others what its configuration often adds.
    command.arg("run").args([
        format!("--authentication-kubeconfig={path}"),
        format!("--authorization-kubeconfig={path}"),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--kubeconfig={path}"),
        "--leader-elect=true".to_owned(),
        format!("--secure-port={port}"),
        "--profiling=False".to_owned(),
        "--leader-elect-lease-duration=20s".to_owned(),
        "--leader-elect-renew-deadline=15s".to_owned(),
        "--feature-gates=RotateKubeletServerCertificate=true".to_owned(),
        "--tls-min-version=VersionTLS12".to_owned(),
        "-v=2".to_owned(),
    ]);
    command.stderr(Stdio::from(File::create(log.path()).unwrap()));
    let program = Ended(command.spawn().unwrap());
    admin.create(pod("web", "1", 0)).unwrap();
    wait_until("the pod is bound", || {
        node_of_pod(&admin, "web").is_string()
    });
    let lease = admin.get("leases", "kube-system/kube-scheduler").unwrap();
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 20);
    drop(program);
    let told = std::fs::read_to_string(log.path()).unwrap();
    assert!(
        told.contains("accepted, but without effect here: --profiling\n"),
        "{told}"
    );
    assert!(!told.contains("RotateKubeletServerCertificate"), "{told}");
}

#[test]
fn s7_002_run_behaves_as_the_release_of_the_api_server_or_as_it_is_told() {
    // The server's version, the flags, and what is logged.
    let table: [(u32, &[&str], &str); 4] = [
        (
            36,
            &[],
            "behaves as kube-scheduler 1.36, because the API server is",
        ),
        (
            37,
            &[],
            "behaves as kube-scheduler 1.37, because the API server is",
        ),
        (
            37,
            &[
                "--emulated-version=1.36",
                "--feature-gates=GangScheduling=true",
            ],
            "behaves as kube-scheduler 1.36\n",
        ),
        (
            37,
            &["--feature-gates=GangScheduling=true"],
            "cannot set feature gate GangScheduling: Kubernetes 1.37 does not have it",
        ),
    ];
    for (minor, flags, expected) in table {
        let api = ApiServer::start().unwrap();
        api.set(|settings| settings.minor_version = minor);
        let mut kubeconfig = NamedTempFile::new().unwrap();
        write!(kubeconfig, "{}", api.kubeconfig()).unwrap();
        let log = NamedTempFile::new().unwrap();
        let mut command = scheduler();
        command.arg("run").args(["--secure-port=0", "--kubeconfig"]);
        command.arg(kubeconfig.path()).args(flags);
        command.stderr(Stdio::from(File::create(log.path()).unwrap()));
        let mut program = Ended(command.spawn().unwrap());
        wait_until(expected, || {
            std::fs::read_to_string(log.path())
                .unwrap()
                .contains(expected)
        });
        // A gate that the release does not have is a mistake of the command line.
        if expected.starts_with("cannot") {
            assert_eq!(program.0.wait().unwrap().code(), Some(2));
        }
    }
}
