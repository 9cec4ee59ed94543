//! Rights that are missing, kinds that are not there, and where the cluster is found.

use crate::batch;
use crate::cluster::{Cluster, file};
use evictd_testkit::program::{self, page, refusal, stderr};
use serde_json::json;

#[test]
fn a_missing_right_is_named() {
    let cluster = Cluster::start();
    cluster.job("default", "train", json!({}));
    cluster.queue("gold", json!({}));
    let rule = |group: &str, resource: &str| json!({"apiGroups": [group], "resources": [resource], "verbs": ["get"]});
    let rules = json!([
        rule("batch.volcano.sh", "jobs"),
        rule("scheduling.volcano.sh", "queues")
    ]);
    cluster.api.grant("token", "guest", Some(rules));
    let kubeconfig = file(&cluster.api.kubeconfig_of("token"));
    for (arguments, right) in [
        (
            "job run -N a",
            "create on jobs is needed in the namespace default (API group batch.volcano.sh)",
        ),
        (
            "job list --all-namespaces",
            "list on jobs is needed cluster-wide (API group batch.volcano.sh)",
        ),
        (
            "job delete -N train",
            "delete on jobs is needed in the namespace default (API group batch.volcano.sh)",
        ),
        (
            "job suspend -N train",
            "create on commands is needed in the namespace default (API group bus.volcano.sh)",
        ),
        (
            "queue create",
            "create on queues is needed cluster-wide (API group scheduling.volcano.sh)",
        ),
        (
            "queue operate -n gold -a update -w 2",
            "patch on queues is needed cluster-wide (API group scheduling.volcano.sh)",
        ),
        (
            "why train",
            "list on jobs is needed in the namespace default (API group batch.volcano.sh)",
        ),
        (
            "queue get -n gold",
            "list on podgroups is needed cluster-wide (API group scheduling.volcano.sh)",
        ),
    ] {
        let mut command = batch();
        command
            .args(arguments.split(' '))
            .arg("--kubeconfig")
            .arg(kubeconfig.path());
        let message = refusal(&program::run(&mut command, ""), 3);
        assert!(
            message.contains(&format!("the RBAC verb {right}")),
            "{arguments}: {message}"
        );
    }
    // A job is shown without its events.
    let mut command = batch();
    command
        .args(["job", "view", "-N", "train", "-k"])
        .arg(kubeconfig.path());
    let viewed = program::run(&mut command, "");
    assert!(page(&viewed).starts_with("Name:         train\n"));
    let message = stderr(&viewed);
    assert!(
        message.contains("list on events is needed in the namespace default"),
        "{message}"
    );
}

#[test]
fn a_cluster_without_the_definitions_is_an_error_that_says_so() {
    let cluster = Cluster::start();
    cluster
        .api
        .set(|settings| settings.unknown_kinds = vec!["jobs", "queues"]);
    for (arguments, kind) in [
        ("job run -N a", "jobs.batch.volcano.sh"),
        ("job list", "jobs.batch.volcano.sh"),
        ("job view -N a", "jobs.batch.volcano.sh"),
        ("queue list", "queues.scheduling.volcano.sh"),
    ] {
        let message = refusal(&cluster.run(arguments), 1);
        let expected = format!(
            "the API server does not know {kind}: the custom resource definitions are not installed"
        );
        assert!(message.contains(&expected), "{arguments}: {message}");
    }
}

#[test]
fn a_missing_namespace_is_an_error_with_the_servers_words() {
    let cluster = Cluster::start();
    let message = refusal(&cluster.run("job run -N a -n nowhere"), 1);
    assert_eq!(
        message,
        "evictd-batch: create job: 404 NotFound: namespaces \"nowhere\" not found\n"
    );
}

#[test]
fn master_works_with_and_without_a_kubeconfig() {
    let cluster = Cluster::start();
    let wrong = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
    });
    let wrong = file(&wrong.to_string());
    let list = |kubeconfig: Option<&std::path::Path>, more: &[&str]| {
        let mut command = batch();
        command.args(["queue", "list"]).args(more);
        command.env_remove("KUBECONFIG").env("HOME", "/nonexistent");
        if let Some(kubeconfig) = kubeconfig {
            command.env("KUBECONFIG", kubeconfig);
        }
        program::run(&mut command, "")
    };
    let url = cluster.api.url();
    for kubeconfig in [Some(wrong.path()), None] {
        let found = list(kubeconfig, &["-s", &url]);
        assert_eq!(page(&found), "No resources found\n");
    }
    refusal(&list(Some(wrong.path()), &[]), 1);
    let message = refusal(&list(None, &[]), 2);
    assert!(message.contains("no API server is known"), "{message}");
    let message = refusal(&list(None, &["--master", "10.0.0.1"]), 2);
    assert!(
        message.contains("--master 10.0.0.1: is not a URL"),
        "{message}"
    );
    let message = refusal(&list(Some(wrong.path()), &["--context", "prod"]), 2);
    assert!(message.contains("prod"), "{message}");
}
