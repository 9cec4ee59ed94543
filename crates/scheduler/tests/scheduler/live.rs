//! `plan` with a live cluster.

use crate::cluster::{cluster, pending};
use crate::scheduler;
use evictd_testkit::http::serve;
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

/// The kinds of a server that has no groups of pods.
const RESOURCES: [(&str, &[&str]); 6] = [
    ("apps", &["replicasets", "statefulsets"]),
    ("node.k8s.io", &["runtimeclasses"]),
    ("policy", &["poddisruptionbudgets"]),
    (
        "resource.k8s.io",
        &[
            "deviceclasses",
            "resourceclaims",
            "resourceclaimtemplates",
            "resourceslices",
        ],
    ),
    ("scheduling.k8s.io", &["priorityclasses"]),
    (
        "storage.k8s.io",
        &[
            "csidrivers",
            "csinodes",
            "csistoragecapacities",
            "storageclasses",
            "volumeattachments",
        ],
    ),
];

fn reply(request: &str) -> (&'static str, String) {
    let objects = cluster();
    let path = request.split(' ').nth(1).unwrap();
    let page = match path {
        "/version" => json!({ "major": "1", "minor": "36", "gitVersion": "v1.36.2" }).to_string(),
        "/api/v1/nodes?&limit=500" => page("NodeList", &objects[..1], ""),
        "/api/v1/pods?&limit=500" => page("PodList", &objects[1..2], "a+b="),
        "/api/v1/pods?&limit=500&continue=a%2Bb%3D" => page("PodList", &objects[2..], ""),
        _ => match path.split('/').collect::<Vec<_>>().as_slice() {
            ["", "apis", group] => {
                json!({ "versions": [{ "groupVersion": format!("{group}/v1") }] }).to_string()
            }
            ["", "apis", group, "v1"] => {
                let mut groups = RESOURCES.iter().filter(|(name, _)| name == group);
                let resources = groups.next().unwrap().1.iter();
                let resources: Vec<Value> = resources.map(|name| json!({ "name": name })).collect();
                json!({ "resources": resources }).to_string()
            }
            _ => page("ThingList", &[], ""),
        },
    };
    ("200 OK", page)
}

/// The requests for a plan: the version, a page for each of 18 kinds, another page of pods, and two for each of 5 groups.
const REQUESTS: usize = 30;

#[test]
fn a_cluster_is_read_page_by_page() {
    let (address, requests) = serve(REQUESTS, reply);
    let output = plan(address, "prod");
    let answer = answer(&output);
    assert_eq!(answer["chosen"]["victims"], json!(["shop/cheap"]));
    let absent = "the API server has no podgroups.scheduling.k8s.io, compositepodgroups.scheduling.k8s.io, \
         devicetaintrules.resource.k8s.io";
    assert_eq!(answer["warnings"], json!([absent]));
    let heads: Vec<String> = requests().into_iter().map(|(head, _)| head).collect();
    assert!(
        heads
            .iter()
            .all(|head| head.to_lowercase().contains("authorization: bearer secret"))
    );
    let paths = heads
        .iter()
        .map(|head| head.split([' ', '?']).nth(1).unwrap());
    let is_list = |path: &&str| {
        let depth = path.split('/').count();
        depth == if path.starts_with("/apis/") { 5 } else { 4 }
    };
    let lists: Vec<&str> = paths.filter(is_list).collect();
    let expected = [
        "/api/v1/nodes",
        "/api/v1/namespaces",
        "/apis/policy/v1/poddisruptionbudgets",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        "/api/v1/persistentvolumeclaims",
        "/api/v1/persistentvolumes",
        "/apis/storage.k8s.io/v1/storageclasses",
        "/apis/storage.k8s.io/v1/csinodes",
        "/apis/storage.k8s.io/v1/volumeattachments",
        "/apis/storage.k8s.io/v1/csidrivers",
        "/apis/storage.k8s.io/v1/csistoragecapacities",
        "/apis/resource.k8s.io/v1/resourceclaims",
        "/apis/resource.k8s.io/v1/resourceslices",
        "/apis/resource.k8s.io/v1/deviceclasses",
        "/apis/resource.k8s.io/v1/resourceclaimtemplates",
        "/apis/node.k8s.io/v1/runtimeclasses",
        "/api/v1/limitranges",
        "/api/v1/pods",
        "/api/v1/pods",
    ];
    assert_eq!(lists, expected);
}

#[test]
fn a_missing_right_is_reported_with_its_verb() {
    let status = json!({ "kind": "Status", "status": "Failure", "reason": "Forbidden", "message": "no", "code": 403 });
    let (address, _requests) = serve(6, move |request| {
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
    let (address, _requests) = serve(REQUESTS, move |request| {
        let is_storage = request.contains("storage.k8s.io/v1/");
        if request.contains("persistentvolume") || is_storage {
            ("403 Forbidden", status.to_string())
        } else {
            reply(request)
        }
    });
    let answer = answer(&plan(address, "prod"));
    assert_eq!(answer["chosen"]["victims"], json!(["shop/cheap"]));
    let warnings = answer["warnings"].to_string();
    let missing = "persistentvolumeclaims may not be listed (the RBAC verb list on persistentvolumeclaims is needed)";
    assert!(warnings.contains(missing), "{warnings}");
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
