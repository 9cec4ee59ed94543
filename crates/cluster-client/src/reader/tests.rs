use super::*;
use crate::Access;
use evictd_testkit::{ApiServer, FakeRuntime, Fault, Kubelet};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
};

fn reader(api: &ApiServer) -> Reader {
    let config = kube::Config::new(api.url().parse().unwrap());
    let access = Access::new("a test".into(), config);
    access.reader(Duration::from_secs(10)).unwrap()
}

fn maps(api: &ApiServer, count: usize) {
    let admin = api.actor("test");
    for number in 0..count {
        let metadata = json!({ "name": format!("m-{number:04}") });
        admin
            .create(json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata }))
            .unwrap();
    }
}

fn items(page: &str) -> usize {
    let page: Value = serde_json::from_str(page).unwrap();
    page["items"].as_array().unwrap().len()
}

#[tokio::test]
async fn a_collection_comes_in_pages_even_where_the_server_forgets_their_state() {
    let api = ApiServer::start().unwrap();
    maps(&api, 1001);
    let mut pages = reader(&api).pages("/api/v1/configmaps");
    let first = pages.next().await.unwrap().unwrap();
    // As after five minutes.
    let last = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "z" } });
    api.actor("test").create(last).unwrap();
    api.compact();
    let second = pages.next().await.unwrap().unwrap();
    let third = pages.next().await.unwrap().unwrap();
    assert_eq!(
        [&first, &second, &third].map(|page| items(page)),
        [500, 500, 2]
    );
    assert_eq!(pages.next().await.unwrap(), None);
}

#[tokio::test]
async fn a_missing_right_is_named() {
    let api = ApiServer::start().unwrap();
    api.fault(Fault::answer(403).times(1));
    let refused = reader(&api).pages("/api/v1/nodes").next().await;
    assert_eq!(
        refused.unwrap_err().to_string(),
        "GET /api/v1/nodes: not permitted; the RBAC verb list on nodes is needed cluster-wide"
    );
}

/// Answers one request with a 403 that holds this, as whoever stands before or behind the API server does.
fn refusing(body: &'static str) -> Reader {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        while !lines.next().unwrap().unwrap().is_empty() {}
        let head = format!(
            "HTTP/1.1 403 Forbidden\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + body).as_bytes()).unwrap();
    });
    let access = Access::new("a test".into(), kube::Config::new(url.parse().unwrap()));
    access.reader(Duration::from_secs(10)).unwrap()
}

#[tokio::test]
async fn only_where_the_api_server_itself_refuses_a_right_is_named() {
    let path = "/api/v1/nodes/one/proxy/configz";
    for (body, told) in [
        (
            "Forbidden (user=jane, verb=get, resource=nodes, subresource(s)=[configz proxy])\n",
            "403 Forbidden: Forbidden (user=jane, verb=get, resource=nodes, subresource(s)=[configz proxy])",
        ),
        (
            r#"{"error": "not on this network"}"#,
            r#"403 Forbidden: {"error": "not on this network"}"#,
        ),
        (
            r#"{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "message": "no", "code": 403}"#,
            "not permitted; the RBAC verb get on nodes/proxy is needed cluster-wide",
        ),
    ] {
        let error = refusing(body).get(path).await.unwrap_err();
        assert_eq!(error.to_string(), format!("GET {path}: {told}"));
    }
}

#[tokio::test]
async fn a_kubelet_behind_the_api_server_refuses_in_its_own_words() {
    let api = ApiServer::start().unwrap();
    let second = Duration::from_millis(10);
    let kubelet = Kubelet::start(&api, "one", second, FakeRuntime::default()).unwrap();
    let reader = reader(&api);
    let configz = "/api/v1/nodes/one/proxy/configz";
    assert_eq!(
        reader.get(configz).await.unwrap(),
        r#"{"kubeletconfig":{"enableServer":true}}"#
    );
    let nothing = reader.get("/api/v1/nodes/one/proxy/nothing").await;
    let told = nothing.unwrap_err().to_string();
    assert!(
        told.ends_with("nothing: 404 Not Found: 404 page not found"),
        "{told}"
    );
    drop(kubelet);
    let away = reader.get(configz).await.unwrap_err().to_string();
    assert!(
        away.contains("503 ServiceUnavailable: error trying to reach"),
        "{away}"
    );
}
