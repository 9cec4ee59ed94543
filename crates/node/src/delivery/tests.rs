mod lasting;

use super::*;
use evictd_cluster_client::Access;
use evictd_testkit::{ApiServer, Fault, Status};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;

/// An API server with the pod `shop/web`, and a delivery queue to it.
struct Post {
    api: ApiServer,
    delivery_queue: DeliveryQueue,
    publications: UnboundedReceiver<Progress>,
}

/// The next final result.
async fn closed(publications: &mut UnboundedReceiver<Progress>) -> Publication {
    loop {
        if let Progress::Closed(publication) = publications.recv().await.unwrap() {
            return publication;
        }
    }
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "shop" },
        "spec": { "nodeName": "one", "containers": [{ "name": "main", "image": "none" }] },
        "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] },
    })
}

impl Post {
    fn new() -> Self {
        let api = ApiServer::start().unwrap();
        let admin = api.actor("test");
        let space =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } });
        admin.create(space).unwrap();
        admin.create(pod("web")).unwrap();
        let config = kube::Config::new(api.url().parse().unwrap());
        let access = Access::new("a test".into(), config);
        let (delivery_queue, publications) =
            DeliveryQueue::new(access.actions().unwrap(), watch::channel(true).1);
        Self {
            api,
            delivery_queue,
            publications,
        }
    }

    fn web(&self) -> Value {
        self.api.actor("test").get("pods", "shop/web").unwrap()
    }

    fn uid(&self) -> String {
        self.web()["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    fn notice(&self) -> Notice {
        Notice {
            id: "d-1".into(),
            namespace: "shop".into(),
            name: "web".into(),
            uid: self.uid(),
            generation: std::num::NonZeroU32::new(3),
            reason: "Evicted".into(),
            message: "The node was low on resource: memory. ".into(),
            disruption_target: Some("The node was low on resource: memory. ".into()),
            way: Way::Status,
            record: r#"{"decision":"d-1"}"#.into(),
            time: Timestamp::from_second(1_800_000_000).unwrap(),
        }
    }

    async fn outcome(&mut self) -> DeliveryOutcome {
        let told = timeout(Duration::from_secs(20), closed(&mut self.publications));
        told.await.expect("its fate is told").outcome
    }

    /// How many patches were carried out or answered.
    fn patches(&self, status: u16) -> usize {
        let patch =
            |entry: &&evictd_testkit::Entry| entry.verb == "patch" && entry.status == status;
        self.api.log().iter().filter(patch).count()
    }

    fn assert_told(&self) {
        let web = self.web();
        let status = &web["status"];
        assert_eq!(status["phase"], "Failed");
        assert_eq!(status["reason"], "Evicted");
        assert_eq!(status["message"], "The node was low on resource: memory. ");
        assert_eq!(
            web["metadata"]["annotations"]["evictd.dev/evicted"],
            r#"{"decision":"d-1"}"#
        );
    }
}

#[tokio::test]
async fn s1_051_s1_053_one_patch_tells_the_status_and_a_new_annotation() {
    let mut post = Post::new();
    assert_eq!(post.delivery_queue.submit(post.notice()).await, Ok(true));
    assert_eq!(post.outcome().await, DeliveryOutcome::Published);
    post.assert_told();
    assert!(post.delivery_queue.pending_count() == 0);
    let web = post.web();
    let conditions = web["status"]["conditions"].as_array().unwrap();
    let of = |kind: &str| conditions.iter().find(|one| one["type"] == kind).unwrap();
    assert_eq!(of("Ready")["status"], "True", "others stay");
    let target = of("DisruptionTarget");
    assert_eq!(target["status"], "True");
    assert_eq!(target["reason"], "TerminationByKubelet");
    assert_eq!(target["message"], web["status"]["message"]);
    assert_eq!(target["lastTransitionTime"], "2027-01-15T08:00:00Z");
    assert_eq!(target["observedGeneration"], 3);
    let log = post.api.log();
    let verbs: Vec<_> = log.iter().map(|entry| entry.verb).collect();
    assert_eq!(verbs, ["patch", "get"], "it is told, and looked at");
    assert!(
        log[0]
            .path
            .starts_with("/api/v1/namespaces/shop/pods/web/status?")
    );
}

#[tokio::test]
async fn s1_053_a_limit_of_the_pods_own_sets_no_condition() {
    let mut post = Post::new();
    let notice = Notice {
        disruption_target: None,
        ..post.notice()
    };
    post.delivery_queue.submit(notice).await.unwrap();
    assert_eq!(post.outcome().await, DeliveryOutcome::Published);
    post.assert_told();
    let web = post.web();
    assert_eq!(web["status"]["conditions"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_lost_patch_is_repeated_until_it_is_stored_once() {
    for code in [401, 403, 409, 429, 500, 503] {
        let mut post = Post::new();
        post.api
            .fault(Fault::answer(code).on("patch", "pods/status").times(2));
        assert_eq!(
            post.delivery_queue.submit(post.notice()).await,
            Ok(false),
            "{code}"
        );
        assert!(post.delivery_queue.pending_count() > 0);
        assert_eq!(post.outcome().await, DeliveryOutcome::Published, "{code}");
        post.assert_told();
        assert_eq!((post.patches(code), post.patches(200)), (2, 1), "{code}");
    }
}

#[tokio::test]
async fn the_server_says_when_to_ask_again() {
    let mut post = Post::new();
    let later = Fault::answer(429).retry_after(2);
    post.api.fault(later.on("patch", "pods/status").times(1));
    assert_eq!(post.delivery_queue.submit(post.notice()).await, Ok(false));
    let soon = timeout(Duration::from_millis(1500), closed(&mut post.publications));
    assert!(soon.await.is_err(), "it was asked too soon");
    assert_eq!(post.outcome().await, DeliveryOutcome::Published);
}

#[tokio::test]
async fn a_notice_is_delivered_when_the_server_is_back() {
    let mut post = Post::new();
    let notice = post.notice();
    post.api.go_away();
    assert_eq!(post.delivery_queue.submit(notice).await, Ok(false));
    post.api.come_back();
    assert_eq!(post.outcome().await, DeliveryOutcome::Published);
    post.assert_told();
    assert_eq!(post.patches(200), 1);
}

#[tokio::test]
async fn an_answer_that_is_cut_off_is_not_asked_for_twice() {
    let mut post = Post::new();
    post.api
        .fault(Fault::cut_after(0).on("patch", "pods/status").times(1));
    assert_eq!(post.delivery_queue.submit(post.notice()).await, Ok(false));
    assert_eq!(post.outcome().await, DeliveryOutcome::Published);
    post.assert_told();
    assert_eq!((post.patches(0), post.patches(200)), (1, 0));
}

#[tokio::test]
async fn a_pod_that_was_deleted_or_replaced_is_not_patched() {
    for replaced in [false, true] {
        let mut post = Post::new();
        let (notice, admin) = (post.notice(), post.api.actor("test"));
        let at_once = json!({ "gracePeriodSeconds": 0 });
        admin.delete("pods", "shop/web", at_once).unwrap();
        let mut why = "the pod is gone";
        if replaced {
            admin.create(pod("web")).unwrap();
            why = "another pod has its name now";
        }
        assert_eq!(post.delivery_queue.submit(notice).await, Ok(false));
        assert_eq!(post.outcome().await, DeliveryOutcome::Recorded(why));
        if replaced {
            assert_eq!(post.web()["status"]["phase"], "Running");
        }
    }
}

#[tokio::test]
async fn a_refusal_for_good_ends_it() {
    let mut post = Post::new();
    let invalid = Status::new(422, "Invalid", "not like this");
    post.api
        .fault(Fault::refuse(invalid).on("patch", "pods/status"));
    post.delivery_queue.submit(post.notice()).await.unwrap();
    let why = "writing the status of pod shop/web: 422 Invalid: not like this";
    assert_eq!(
        post.outcome().await,
        DeliveryOutcome::NotPublished(why.into())
    );
    assert_eq!(post.patches(422), 1);
}

#[tokio::test]
async fn of_two_notices_on_a_pod_the_later_counts_until_it_is_withdrawn() {
    let mut post = Post::new();
    post.api
        .fault(Fault::answer(503).on("patch", "pods/status"));
    post.delivery_queue.submit(post.notice()).await.unwrap();
    let later = Notice {
        id: "d-2".into(),
        ..post.notice()
    };
    post.delivery_queue.submit(later).await.unwrap();
    let why = "decision d-2 came after it";
    assert_eq!(
        post.outcome().await,
        DeliveryOutcome::NotPublished(why.into())
    );
    assert!(post.delivery_queue.pending_count() > 0);
    post.delivery_queue.withdraw(&post.uid(), "the end");
    assert_eq!(
        post.outcome().await,
        DeliveryOutcome::NotPublished("the end".into())
    );
    assert!(post.delivery_queue.pending_count() == 0);
}
