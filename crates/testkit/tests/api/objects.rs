//! Objects over HTTP as a client of evictd's own kind sees them: get, list, watch, patch and delete.

use super::{AT_MOST, client, code, pod};
use evictd_testkit::ApiServer;
use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{
    DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, WatchEvent,
    WatchParams,
};
use kube::runtime::watcher;
use serde_json::{Value, json};
use std::pin::pin;

#[tokio::test]
async fn pods_are_listed_by_node_phase_and_label() {
    let api = ApiServer::start().unwrap();
    let admin = api.actor("test");
    for (name, node) in [("a", "one"), ("b", "one"), ("c", "two")] {
        admin.create(pod(name, node)).unwrap();
    }
    admin
        .merge("pods/status", "a", json!({"status": {"phase": "Failed"}}))
        .unwrap();
    let pods: Api<Pod> = Api::all(client(&api));
    let names = async |parameters: ListParams| -> Vec<String> {
        let list = pods.list(&parameters).await.unwrap();
        list.into_iter()
            .map(|pod| pod.metadata.name.unwrap())
            .collect()
    };
    let of_node = ListParams::default().fields("spec.nodeName=one");
    assert_eq!(names(of_node).await, ["a", "b"]);
    let running = ListParams::default().fields("spec.nodeName=one,status.phase!=Failed");
    assert_eq!(names(running).await, ["b"]);
    assert_eq!(
        names(ListParams::default().labels("app in (a, c)")).await,
        ["a", "c"]
    );
    assert_eq!(
        names(ListParams::default().labels("app!=a")).await,
        ["b", "c"]
    );
    let wrong = ListParams::default().fields("spec.hostname=x");
    assert_eq!(code(pods.list(&wrong).await).0, 400);
}

#[tokio::test]
async fn all_pages_of_a_list_show_the_version_of_the_first_page() {
    let api = ApiServer::start().unwrap();
    let admin = api.actor("test");
    for name in ["a", "b", "c"] {
        admin.create(pod(name, "one")).unwrap();
    }
    let pods: Api<Pod> = Api::all(client(&api));
    let first = pods.list(&ListParams::default().limit(2)).await.unwrap();
    admin
        .delete("pods", "c", json!({"gracePeriodSeconds": 0}))
        .unwrap();
    admin.create(pod("d", "one")).unwrap();
    assert_eq!(first.metadata.remaining_item_count, Some(1));
    let token = first.metadata.continue_.clone().unwrap();
    let next = ListParams::default().limit(2).continue_token(&token);
    let second = pods.list(&next).await.unwrap();
    assert_eq!(second.items.len(), 1);
    assert_eq!(second.items[0].metadata.name.as_deref(), Some("c"));
    assert_eq!(second.metadata.continue_, None);
    assert_eq!(
        second.metadata.resource_version,
        first.metadata.resource_version
    );
    api.compact();
    assert_eq!(code(pods.list(&next).await), (410, "Expired".to_owned()));
}

#[tokio::test]
async fn a_write_of_an_old_version_conflicts() {
    let api = ApiServer::start().unwrap();
    let pods: Api<Pod> = Api::default_namespaced(client(&api));
    let new: Pod = serde_json::from_value(pod("a", "one")).unwrap();
    let mut mine = pods.create(&PostParams::default(), &new).await.unwrap();
    assert_eq!(
        code(pods.create(&PostParams::default(), &new).await),
        (409, "AlreadyExists".to_owned())
    );
    let label = json!({"metadata": {"labels": {"by": "another"}}});
    pods.patch("a", &PatchParams::default(), &Patch::Merge(label))
        .await
        .unwrap();
    mine.metadata.labels = None;
    let answer = pods.replace("a", &PostParams::default(), &mine).await;
    assert_eq!(code(answer), (409, "Conflict".to_owned()));
    let stale =
        json!({"metadata": {"resourceVersion": mine.metadata.resource_version, "labels": null}});
    let answer = pods
        .patch("a", &PatchParams::default(), &Patch::Merge(stale))
        .await;
    assert_eq!(code(answer), (409, "Conflict".to_owned()));
    let other = DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some("another".to_owned()),
            ..Preconditions::default()
        }),
        ..DeleteParams::default()
    };
    assert_eq!(
        code(pods.delete("a", &other).await),
        (409, "Conflict".to_owned())
    );
    assert_eq!(code(pods.get("none").await), (404, "NotFound".to_owned()));
}

#[tokio::test]
async fn a_patch_of_status_keeps_annotations_and_nothing_of_the_spec() {
    let api = ApiServer::start().unwrap();
    let admin = api.actor("test");
    admin.create(pod("a", "one")).unwrap();
    admin
        .merge(
            "pods/status",
            "a",
            json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
        )
        .unwrap();
    let pods: Api<Pod> = Api::default_namespaced(client(&api));
    let patch = json!({
        "metadata": {"annotations": {"evictd.dev/evicted": "yes"}, "ownerReferences": [{"uid": "x"}]},
        "spec": {"nodeName": "another"},
        "status": {"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True"}]},
    });
    pods.patch_status("a", &PatchParams::default(), &Patch::Strategic(patch))
        .await
        .unwrap();
    let pod = admin.get("pods", "a").unwrap();
    assert_eq!(pod["metadata"]["annotations"]["evictd.dev/evicted"], "yes");
    assert_eq!(pod["metadata"]["ownerReferences"], Value::Null);
    assert_eq!(pod["spec"]["nodeName"], "one");
    assert_eq!(pod["status"]["phase"], "Failed");
    let types: Vec<_> = pod["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["type"])
        .collect();
    assert_eq!(types, ["Ready", "DisruptionTarget"]);
    let patch = json!({"status": {"phase": "Running"}});
    pods.patch("a", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    assert_eq!(admin.get("pods", "a").unwrap()["status"]["phase"], "Failed");
}

#[tokio::test]
async fn a_pod_with_a_grace_period_stays_until_it_is_deleted_without_one() {
    let api = ApiServer::start().unwrap();
    let admin = api.actor("test");
    admin.create(pod("a", "one")).unwrap();
    let pods: Api<Pod> = Api::default_namespaced(client(&api));
    pods.delete("a", &DeleteParams::default().grace_period(5))
        .await
        .unwrap();
    let shorter =
        || admin.get("pods", "a").unwrap()["metadata"]["deletionGracePeriodSeconds"].clone();
    assert_eq!(shorter(), 5);
    pods.delete("a", &DeleteParams::default().grace_period(20))
        .await
        .unwrap();
    assert_eq!(shorter(), 5);
    pods.delete("a", &DeleteParams::default().grace_period(1))
        .await
        .unwrap();
    assert_eq!(shorter(), 1);
    admin
        .merge(
            "pods",
            "a",
            json!({"metadata": {"finalizers": ["test/wait"]}}),
        )
        .unwrap();
    pods.delete("a", &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    assert_eq!(shorter(), 0);
    admin
        .merge("pods", "a", json!({"metadata": {"finalizers": null}}))
        .unwrap();
    assert_eq!(admin.get("pods", "a"), None);
}

#[tokio::test]
async fn a_watch_sends_changes_bookmarks_and_an_error_when_it_is_too_old() {
    let api = ApiServer::start().unwrap();
    let admin = api.actor("test");
    let before = admin.create(pod("a", "one")).unwrap()["metadata"]["resourceVersion"].clone();
    let before = before.as_str().unwrap();
    let pods: Api<Pod> = Api::all(client(&api));
    let parameters = WatchParams::default()
        .fields("spec.nodeName=one")
        .timeout(1);
    let mut events = pods.watch(&parameters, before).await.unwrap().boxed();
    admin.create(pod("b", "two")).unwrap();
    admin
        .merge("pods", "a", json!({"metadata": {"labels": {"x": "y"}}}))
        .unwrap();
    admin
        .delete("pods", "a", json!({"gracePeriodSeconds": 0}))
        .unwrap();
    let mut seen = Vec::new();
    while let Some(event) = events.try_next().await.unwrap() {
        seen.push(match event {
            WatchEvent::Added(pod) => format!("added {}", pod.metadata.name.unwrap()),
            WatchEvent::Modified(pod) => format!("modified {}", pod.metadata.name.unwrap()),
            WatchEvent::Deleted(pod) => format!("deleted {}", pod.metadata.name.unwrap()),
            WatchEvent::Bookmark(_) => "bookmark".to_owned(),
            WatchEvent::Error(status) => status.message.clone(),
        });
    }
    let expected = ["modified a", "modified a", "deleted a", "bookmark"];
    assert_eq!(seen, expected);
    api.compact();
    let mut events = pods.watch(&parameters, before).await.unwrap().boxed();
    let Some(WatchEvent::Error(status)) = events.try_next().await.unwrap() else {
        panic!("no error")
    };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
}

#[tokio::test]
async fn a_watcher_follows_through_cut_watches_and_a_compaction() {
    for streaming in [false, true] {
        let api = ApiServer::start().unwrap();
        let admin = api.actor("test");
        admin.create(pod("a", "one")).unwrap();
        let nodes: Api<Pod> = Api::all(client(&api));
        let config = watcher::Config::default();
        let config = if streaming {
            config.streaming_lists()
        } else {
            config
        };
        let mut events = pin!(watcher(nodes, config));
        let mut next = async |wanted: &str| {
            let find = async {
                loop {
                    match events.next().await.unwrap() {
                        Ok(watcher::Event::InitApply(pod) | watcher::Event::Apply(pod))
                            if pod.metadata.name.as_deref() == Some(wanted) =>
                        {
                            return;
                        }
                        _ => {}
                    }
                }
            };
            tokio::time::timeout(AT_MOST, find).await.unwrap();
        };
        next("a").await;
        admin
            .wait(AT_MOST, |_| {
                if !streaming {
                    return Some(());
                }
                (api.counters().watches > 0).then_some(())
            })
            .await
            .unwrap();
        admin.create(pod("b", "one")).unwrap();
        next("b").await;
        api.cut_watches();
        admin.create(pod("c", "one")).unwrap();
        next("c").await;
        admin.create(pod("d", "one")).unwrap();
        api.compact();
        api.cut_watches();
        next("d").await;
    }
}

#[tokio::test]
async fn a_server_without_streaming_lists_refuses_them() {
    let api = ApiServer::start().unwrap();
    api.set(|settings| settings.streaming_lists = false);
    let nodes: Api<Node> = Api::all(client(&api));
    let mut events = pin!(watcher(nodes, watcher::Config::default().streaming_lists()));
    let error = loop {
        match events.next().await.unwrap() {
            Err(error) => break error,
            Ok(watcher::Event::Init) => {}
            Ok(other) => panic!("{other:?}"),
        }
    };
    let watcher::Error::WatchStartFailed(kube::Error::Api(status)) = error else {
        panic!("{error}")
    };
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
}
