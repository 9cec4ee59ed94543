//! A real kubectl works with the server.

use super::running;
use evictd_testkit::ApiServer;
use evictd_testkit::testing::left_out;
use std::process::Command;

#[test]
fn kubectl_gets_describes_patches_and_deletes() {
    if Command::new("kubectl")
        .args(["version", "--client"])
        .output()
        .is_err()
    {
        left_out(
            "kubectl_gets_describes_patches_and_deletes",
            "no kubectl in PATH",
        );
        return;
    }
    let api = ApiServer::start().unwrap();
    let admin = api.actor("test");
    let node = serde_json::json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "one"}});
    admin.create(node).unwrap();
    admin.create(running("a")).unwrap();
    let home = tempfile::tempdir().unwrap();
    let kubeconfig = home.path().join("config");
    std::fs::write(&kubeconfig, api.kubeconfig()).unwrap();
    let kubectl = |arguments: &str| {
        let output = Command::new("kubectl")
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .args(arguments.split(' '))
            .env("HOME", home.path())
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "kubectl {arguments}: {told}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(kubectl("get pods --all-namespaces").contains("a "));
    assert!(kubectl("get no").contains("one"));
    assert_eq!(kubectl("get pods a -o jsonpath={.status.phase}"), "Running");
    assert!(kubectl("describe pod a").contains("QoS Class:       BestEffort"));
    assert!(kubectl("describe node one").contains("Taints:"));
    kubectl("taint node one key=value:NoSchedule");
    assert_eq!(
        admin.get("nodes", "one").unwrap()["spec"]["taints"][0]["key"],
        "key"
    );
    kubectl("label pod a tier=web");
    assert!(kubectl("get pods -l tier=web -o name").contains("pod/a"));
    let manifest = home.path().join("map.yaml");
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map}\ndata: {key: value}\n";
    std::fs::write(&manifest, map).unwrap();
    let apply = format!(
        "apply --server-side --validate=false -f {}",
        manifest.display()
    );
    assert!(kubectl(&apply).contains("serverside-applied"));
    assert_eq!(kubectl("get cm map -o jsonpath={.data.key}"), "value");
    kubectl("delete pod a --grace-period=0 --force");
    assert_eq!(admin.get("pods", "a"), None);
    let version = kubectl("version -o json");
    assert!(version.contains("v1.36.0-evictd-testkit"), "{version}");
}
