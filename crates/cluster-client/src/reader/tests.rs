use super::*;
use crate::Access;
use evictd_testkit::{ApiServer, Fault, Imagined, Kubelet};
use serde_json::{Value, json};

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

#[tokio::test]
async fn a_kubelet_behind_the_api_server_refuses_in_its_own_words() {
    let api = ApiServer::start().unwrap();
    let second = Duration::from_millis(10);
    let kubelet = Kubelet::start(&api, "one", second, Imagined::default()).unwrap();
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
