//! `plan` with a live cluster.

use crate::cluster::{cluster, pending};
use crate::scheduler;
use crate::server::serve;
use evictd_testkit::program::{self, answer, stderr};
use serde_json::{Value, json};
use std::io::Write;
use std::net::SocketAddr;
use std::process::Output;

fn plan(address: SocketAddr, context: &str) -> Output {
    let mut kubeconfig = tempfile::NamedTempFile::new().unwrap();
    let config = json!({
        "apiVersion": "v1", "kind": "Config",
        "clusters": [{ "name": "c", "cluster": { "server": format!("http://{address}") } }],
        "users": [{ "name": "u", "user": { "token": "secret" } }],
        "contexts": [{ "name": "prod", "context": { "cluster": "c", "user": "u" } }],
    });
    write!(kubeconfig, "{config}").unwrap();
    let mut pod = tempfile::NamedTempFile::new().unwrap();
    write!(pod, "{}", pending(10)).unwrap();
    let mut command = scheduler();
    command
        .args(["plan", "-o", "json", "--context", context, "--pod"])
        .arg(pod.path())
        .env("KUBECONFIG", kubeconfig.path());
    program::run(&mut command, "")
}

/// A page of a typed list, whose items have no kind.
fn page(kind: &str, items: &[Value], token: &str) -> String {
    let mut items = items.to_vec();
    for item in &mut items {
        item.as_object_mut().unwrap().remove("kind");
    }
    json!({ "kind": kind, "apiVersion": "v1", "metadata": { "continue": token }, "items": items })
        .to_string()
}

fn reply(request: &str) -> (&'static str, String) {
    let objects = cluster();
    let page = match request.split(' ').nth(1).unwrap() {
        "/api/v1/nodes?&limit=500" => page("NodeList", &objects[..1], ""),
        "/api/v1/pods?&limit=500" => page("PodList", &objects[1..2], "a+b="),
        "/api/v1/pods?&limit=500&continue=a%2Bb%3D" => page("PodList", &objects[2..], ""),
        _ => page("ThingList", &[], ""),
    };
    ("200 OK", page)
}

#[test]
fn a_cluster_is_read_page_by_page() {
    let (address, requests) = serve(14, reply);
    let output = plan(address, "prod");
    assert_eq!(answer(&output)["chosen"]["victims"], json!(["shop/cheap"]));
    let heads: Vec<String> = requests().into_iter().map(|(head, _)| head).collect();
    assert!(
        heads
            .iter()
            .all(|head| head.to_lowercase().contains("authorization: bearer secret"))
    );
    let paths: Vec<&str> = heads
        .iter()
        .map(|head| head.split([' ', '?']).nth(1).unwrap())
        .collect();
    assert_eq!(
        paths,
        [
            "/api/v1/nodes",
            "/api/v1/namespaces",
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            "/apis/policy/v1/poddisruptionbudgets",
            "/api/v1/persistentvolumeclaims",
            "/api/v1/persistentvolumes",
            "/apis/storage.k8s.io/v1/storageclasses",
            "/apis/storage.k8s.io/v1/csinodes",
            "/apis/storage.k8s.io/v1/volumeattachments",
            "/apis/resource.k8s.io/v1/resourceclaims",
            "/apis/resource.k8s.io/v1/resourceslices",
            "/apis/resource.k8s.io/v1/deviceclasses",
            "/api/v1/pods",
            "/api/v1/pods",
        ]
    );
}

#[test]
fn a_missing_right_is_reported_with_its_verb() {
    let status = json!({ "kind": "Status", "status": "Failure", "reason": "Forbidden", "message": "no", "code": 403 });
    let (address, _requests) = serve(4, move |request| {
        if request.contains("poddisruptionbudgets") {
            ("403 Forbidden", status.to_string())
        } else {
            reply(request)
        }
    });
    let output = plan(address, "prod");
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(
        told.contains("the RBAC verb list on poddisruptionbudgets is needed"),
        "{told}"
    );
}

#[test]
fn a_plan_without_the_right_to_list_storage_reports_unchecked_claims() {
    let status = json!({ "kind": "Status", "status": "Failure", "reason": "Forbidden", "message": "no", "code": 403 });
    let (address, _requests) = serve(14, move |request| {
        if request.contains("persistentvolume") || request.contains("storage.k8s.io") {
            ("403 Forbidden", status.to_string())
        } else {
            reply(request)
        }
    });
    assert_eq!(
        answer(&plan(address, "prod"))["chosen"]["victims"],
        json!(["shop/cheap"])
    );
}

#[test]
fn a_cluster_that_fails_is_not_bad_input() {
    let (address, _requests) = serve(1, |_| ("200 OK", "rubbish".to_owned()));
    let output = plan(address, "prod");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("context prod: GET /api/v1/nodes: "),
        "{}",
        stderr(&output)
    );
    let output = plan(address, "staging");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("--context staging: "),
        "{}",
        stderr(&output)
    );
}
