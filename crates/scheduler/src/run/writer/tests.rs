//! Bindings, status patches, preemptions and events against a server that refuses, fails and hangs.

mod bound;
mod volumes;

use super::{
    BindOptions, Busy, Eviction, Limits, Outcome, Preemption, StatusPatch, Victim, Writer,
};
use crate::run::api_retry::{Failure, FailureKind};
use crate::run::events::Events;
use crate::run::metrics::Metrics;
use crate::run::pod_ref::PodRef;
use evictd_batch::session::EvictionKind;
use evictd_cluster_client::events::Group;
use evictd_cluster_client::{Access, Credentials};
use evictd_pod::wire::Condition;
use evictd_testkit::{Actor, ApiServer, Fault};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::io::Write;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Longer than any write takes.
const AT_MOST: Duration = Duration::from_secs(30);

struct Shop {
    api: ApiServer,
    admin: Actor,
    writer: Writer,
    events: Events,
    outcomes: mpsc::UnboundedReceiver<Outcome>,
}

impl Shop {
    async fn open() -> Self {
        Self::with(Limits::default()).await
    }

    async fn with(limits: Limits) -> Self {
        let api = ApiServer::start().unwrap();
        let admin = api.actor("test");
        let mut file = tempfile::NamedTempFile::new().unwrap();
        write!(file, "{}", api.kubeconfig()).unwrap();
        let credentials = Credentials {
            kubeconfig: Some(file.path().to_owned()),
            context: String::new(),
        };
        let access = Access::find(&credentials).await.unwrap();
        let actions = access.actions().unwrap();
        let events = Events::new(
            &actions,
            "here",
            [("default-scheduler", Group::Events)],
            Timestamp::now,
        );
        let (writer, outcomes) =
            Writer::new(actions, events.clone(), limits, &Metrics::new(false).0);
        Self {
            api,
            admin,
            writer,
            events,
            outcomes,
        }
    }

    fn pod(&self, name: &str, node: Option<&str>) -> PodRef {
        let mut spec = json!({"containers": [{"name": "main", "image": "none"}]});
        if let Some(node) = node {
            spec["nodeName"] = node.into();
        }
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec,
        });
        let made = self.admin.create(pod).unwrap();
        PodRef {
            namespace: "default".into(),
            name: name.to_owned(),
            uid: made["metadata"]["uid"].as_str().unwrap().into(),
        }
    }

    async fn outcome(&mut self) -> Outcome {
        let next = tokio::time::timeout(AT_MOST, self.outcomes.recv());
        next.await.unwrap().unwrap()
    }

    /// The result of the binding of this pod to node `one`.
    async fn bind(&mut self, pod: &PodRef) -> Result<(), Failure> {
        self.writer
            .bind(pod.clone(), "one".to_owned(), BindOptions::default())
            .unwrap();
        match self.outcome().await {
            Outcome::Bound { .. } => Ok(()),
            Outcome::NotBound { failure, .. } => Err(failure),
            other => panic!("{other:?}"),
        }
    }

    fn node_of(&self, name: &str) -> Value {
        self.admin.get("pods", name).unwrap()["spec"]["nodeName"].clone()
    }

    fn asked(&self, what: &str) -> usize {
        let log = self.api.log();
        log.iter().filter(|entry| entry.what == what).count()
    }

    async fn event(&self, reason: &str) -> Value {
        let of_reason = |admin: &Actor| {
            let mut events = admin.list("events").into_iter();
            events.find(|event| event["reason"] == reason)
        };
        self.admin.wait(AT_MOST, of_reason).await.unwrap()
    }
}

fn failure(kind: FailureKind, message: &str) -> Result<(), Failure> {
    Err(Failure {
        kind,
        message: message.to_owned(),
    })
}

fn kind(result: Result<(), Failure>) -> FailureKind {
    result.unwrap_err().kind
}

fn unschedulable(message: &str) -> StatusPatch {
    StatusPatch {
        condition: Some(Arc::new(
            Condition::new(
                "PodScheduled",
                false,
                "Unschedulable",
                message.into(),
                Timestamp::from_second(1_800_000_000).unwrap(),
            )
            .of_generation(NonZeroU32::new(1)),
        )),
        nominated_node: None,
    }
}

#[tokio::test]
async fn s5_095_a_pod_is_bound_by_one_post() {
    let mut shop = Shop::open().await;
    let pod = shop.pod("a", None);
    assert_eq!(shop.bind(&pod).await, Ok(()));
    assert_eq!(shop.node_of("a"), "one");
    assert_eq!(shop.asked("pods/binding"), 1);
    assert_eq!(shop.writer.bindings_in_flight(), 0);
}

#[tokio::test]
async fn s5_095_a_refused_binding_fails_without_a_retry() {
    let mut shop = Shop::open().await;
    let taken = shop.pod("taken", Some("two"));
    let conflict = "Operation cannot be fulfilled on pods/binding \"taken\": pod taken is already assigned to node \"two\"";
    assert_eq!(
        shop.bind(&taken).await,
        failure(FailureKind::Conflict, conflict)
    );
    let mut gone = shop.pod("gone", None);
    shop.admin.delete("pods", "gone", Value::Null).unwrap();
    assert_eq!(
        shop.bind(&gone).await,
        failure(FailureKind::Gone, "pods \"gone\" not found")
    );
    // Another pod gets the name.
    shop.pod("gone", None);
    assert_eq!(kind(shop.bind(&gone).await), FailureKind::Gone);
    gone.uid = Arc::default();
    shop.api
        .fault(Fault::answer(403).on("create", "pods/binding").times(1));
    assert_eq!(kind(shop.bind(&gone).await), FailureKind::Refused);
    assert_eq!(shop.asked("pods/binding"), 4);
    assert_eq!(shop.node_of("gone"), Value::Null);
}

#[tokio::test]
async fn a_binding_is_retried_while_the_server_is_busy_or_fails() {
    let mut shop = Shop::open().await;
    let pod = shop.pod("a", None);
    let busy = Fault::answer(429)
        .on("create", "pods/binding")
        .retry_after(1);
    shop.api.fault(busy.times(1));
    shop.api
        .fault(Fault::answer(503).on("create", "pods/binding").times(2));
    assert_eq!(shop.bind(&pod).await, Ok(()));
    // Faults that meet the same request are used up together.
    assert_eq!(shop.asked("pods/binding"), 3);

    let other = shop.pod("b", None);
    shop.api
        .fault(Fault::answer(500).on("create", "pods/binding"));
    assert_eq!(kind(shop.bind(&other).await), FailureKind::Unanswered);
    shop.api.clear_faults();
    shop.api
        .fault(Fault::answer(429).on("create", "pods/binding"));
    assert_eq!(kind(shop.bind(&other).await), FailureKind::Overloaded);
    assert_eq!(shop.node_of("b"), Value::Null);
}

#[tokio::test]
async fn a_binding_whose_answer_was_lost_is_found_and_not_sent_again() {
    let mut shop = Shop::open().await;
    let pod = shop.pod("a", None);
    shop.api
        .fault(Fault::cut_after(0).on("create", "pods/binding").times(1));
    assert_eq!(shop.bind(&pod).await, Ok(()));
    assert_eq!(shop.asked("pods/binding"), 1);
    // The same if another scheduler was faster.
    let taken = shop.pod("b", Some("two"));
    shop.api
        .fault(Fault::answer(500).on("create", "pods/binding").times(1));
    let conflict = "pod b is already assigned to node \"two\"";
    assert_eq!(
        shop.bind(&taken).await,
        failure(FailureKind::Conflict, conflict)
    );
}

#[tokio::test]
async fn a_binding_is_sent_again_when_the_server_hangs() {
    let mut shop = Shop::with(Limits {
        call: Duration::from_millis(200),
        ..Limits::default()
    })
    .await;
    let pod = shop.pod("a", None);
    let hangs = Fault::delay(AT_MOST * 10).on("create", "pods/binding");
    shop.api.fault(hangs.times(1));
    assert_eq!(shop.bind(&pod).await, Ok(()));
    assert_eq!(shop.node_of("a"), "one");
    shop.api.fault(Fault::delay(AT_MOST * 10).on("*", "*"));
    let other = shop.pod("b", None);
    let failure = shop.bind(&other).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unanswered);
    let message = "binding pod default/b to node one: no answer within 0.2 s";
    assert_eq!(failure.message, message);
}

#[tokio::test]
async fn waiting_bindings_are_bounded_but_those_of_a_gang_are_all_accepted() {
    let mut shop = Shop::with(Limits {
        bindings: 1,
        waiting_bindings: 2,
        ..Limits::default()
    })
    .await;
    let pods = ["a", "b", "c", "d"].map(|name| shop.pod(name, None));
    let bind = |pod: &PodRef, node: &str| {
        let options = BindOptions::default();
        shop.writer.bind(pod.clone(), node.to_owned(), options)
    };
    assert_eq!(bind(&pods[0], "one"), Ok(()));
    assert_eq!(bind(&pods[1], "one"), Ok(()));
    assert_eq!(bind(&pods[2], "one"), Err(Busy::Full));
    // The bindings of a gang are accepted together.
    let options = BindOptions {
        of_many: true,
        ..BindOptions::default()
    };
    let of_many = shop.writer.bind(pods[3].clone(), "one".to_owned(), options);
    assert_eq!(of_many, Ok(()));
    for _ in 0..3 {
        assert!(matches!(shop.outcome().await, Outcome::Bound { .. }));
    }
    assert_eq!(shop.node_of("a"), "one");
    assert_eq!(kind(shop.bind(&pods[0]).await), FailureKind::Conflict);
    assert_eq!(shop.bind(&pods[2]).await, Ok(()));
}

#[tokio::test]
async fn after_a_stop_no_write_begins() {
    let mut shop = Shop::open().await;
    let pod = shop.pod("a", None);
    shop.writer.stop();
    assert_eq!(kind(shop.bind(&pod).await), FailureKind::Stopped);
    shop.writer.status(pod.clone(), unschedulable("no"));
    assert!(matches!(
        shop.outcome().await,
        Outcome::StatusNotWritten { .. }
    ));
    assert_eq!(shop.api.log().len(), 0);
}

#[tokio::test]
async fn conditions_of_evicted_pods_name_the_generation_that_was_evicted() {
    let shop = Shop::open().await;
    let pod = shop.pod("a", Some("one"));
    let eviction = Eviction {
        pod,
        generation: NonZeroU32::new(3),
        kind: EvictionKind::Reclaim,
        scheduler: "volcano".to_owned(),
        time: Timestamp::UNIX_EPOCH,
    };
    shop.writer.evict(vec![eviction]);
    let marked = |admin: &Actor| {
        let pod = admin.get("pods", "a")?;
        let conditions = pod["status"]["conditions"].as_array()?.clone();
        (conditions.len() == 2).then_some(conditions)
    };
    let conditions = shop.admin.wait(AT_MOST, marked).await.unwrap();
    let generations: Vec<&Value> = conditions
        .iter()
        .map(|condition| &condition["observedGeneration"])
        .collect();
    assert_eq!(generations, [3, 3]);
}

#[tokio::test]
async fn s5_069_the_condition_has_the_whole_message() {
    let shop = Shop::open().await;
    let pod = shop.pod("a", None);
    let message = "x".repeat(3000);
    let mut patch = unschedulable(&message);
    patch.nominated_node = Some(Some("one".to_owned()));
    shop.writer.status(pod.clone(), patch);
    let nominated = |admin: &Actor| {
        let status = admin.get("pods", "a")?["status"].clone();
        (status["nominatedNodeName"] == "one").then_some(status)
    };
    let status = shop.admin.wait(AT_MOST, nominated).await.unwrap();
    let expected = json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
        "lastTransitionTime": "2027-01-15T08:00:00Z", "observedGeneration": 1,
    });
    let mut condition = status["conditions"][0].clone();
    condition.as_object_mut().unwrap().remove("lastProbeTime");
    assert_eq!(condition, expected);
    let cleared = StatusPatch {
        nominated_node: Some(None),
        ..StatusPatch::default()
    };
    shop.writer.status(pod, cleared);
    let cleared = |admin: &Actor| {
        let pod = admin.get("pods", "a")?;
        pod["status"]["nominatedNodeName"].is_null().then_some(())
    };
    shop.admin.wait(AT_MOST, cleared).await.unwrap();
}

#[tokio::test]
async fn the_last_of_many_status_patches_of_a_pod_is_written() {
    let shop = Shop::open().await;
    let pod = shop.pod("a", None);
    for number in 0..100 {
        shop.writer
            .status(pod.clone(), unschedulable(&number.to_string()));
    }
    let last = |admin: &Actor| {
        let pod = admin.get("pods", "a")?;
        (pod["status"]["conditions"][0]["message"] == "99").then_some(())
    };
    shop.admin.wait(AT_MOST, last).await.unwrap();
    assert!(
        shop.asked("pods/status") <= 2,
        "{}",
        shop.asked("pods/status")
    );
}

#[tokio::test]
async fn each_of_many_pods_gets_its_status_once() {
    let shop = Shop::with(Limits {
        statuses: 2,
        ..Limits::default()
    })
    .await;
    let names: Vec<String> = (0..50).map(|number| format!("pod-{number}")).collect();
    // The second half is written after the first, when no worker is left.
    for half in names.chunks(25) {
        for name in half {
            shop.writer
                .status(shop.pod(name, None), unschedulable(name));
        }
        let is_reported = |admin: &Actor| {
            let mut messages = half.iter().map(|name| {
                let pod = admin.get("pods", name)?;
                (pod["status"]["conditions"][0]["message"] == **name).then_some(())
            });
            messages.all(|message| message.is_some()).then_some(())
        };
        shop.admin.wait(AT_MOST, is_reported).await.unwrap();
    }
    // The server counts a request after it has carried it out.
    let counted = |_: &Actor| (shop.asked("pods/status") >= 50).then_some(());
    shop.admin.wait(AT_MOST, counted).await.unwrap();
    assert_eq!(shop.asked("pods/status"), 50);
}

#[tokio::test]
async fn a_status_patch_is_retried_and_leaves_a_pod_of_another_uid_unchanged() {
    let mut shop = Shop::open().await;
    let mut pod = shop.pod("a", None);
    shop.api
        .fault(Fault::answer(500).on("patch", "pods/status").times(2));
    shop.writer.status(pod.clone(), unschedulable("no"));
    let written = |admin: &Actor| {
        let pod = admin.get("pods", "a")?;
        (pod["status"]["conditions"][0]["message"] == "no").then_some(())
    };
    shop.admin.wait(AT_MOST, written).await.unwrap();
    pod.uid = "old".into();
    shop.writer.status(pod, unschedulable("other"));
    let Outcome::StatusNotWritten { failure, .. } = shop.outcome().await else {
        panic!()
    };
    assert_eq!(failure.kind, FailureKind::Gone);
}

impl Shop {
    fn preemption(&self, victims: &[&PodRef], cleared: Vec<PodRef>) -> Preemption {
        Preemption {
            time: Timestamp::from_second(1_800_000_000).unwrap(),
            preemptor: self.pod("preemptor", None),
            scheduler: "default-scheduler".to_owned(),
            node: "one".to_owned(),
            nominates: true,
            cleared,
            victims: victims
                .iter()
                .map(|victim| Victim {
                    pod: (*victim).clone(),
                    generation: NonZeroU32::new(3),
                })
                .collect(),
        }
    }

    /// Paths of the requests that changed something, without events.
    fn written(&self) -> Vec<String> {
        let log = self.api.log();
        let changes = log
            .iter()
            .filter(|entry| !matches!(entry.verb, "get" | "list") && entry.what != "events");
        changes
            .map(|entry| {
                let path = entry.path.split(['?']).next().unwrap();
                let name = path.split("/pods/").nth(1).unwrap();
                format!("{} {name}", entry.verb)
            })
            .collect()
    }
}

#[tokio::test]
async fn s4_028_nominations_are_written_first_and_the_last_victim_is_deleted_last() {
    let mut shop = Shop::open().await;
    let victims = ["v1", "v2", "v3"].map(|name| shop.pod(name, Some("one")));
    let nominated = shop.pod("nominated", None);
    let status = json!({"status": {"nominatedNodeName": "one"}});
    shop.admin
        .merge("pods/status", "nominated", status)
        .unwrap();
    let preemption = shop.preemption(&victims.each_ref(), vec![nominated]);
    let preemptor = preemption.preemptor.clone();
    shop.writer.preempt(preemption);
    let last = Outcome::LastVictim {
        preemptor: preemptor.clone(),
        victim: victims[2].clone(),
    };
    assert_eq!(shop.outcome().await, last);
    let done = Outcome::Preempted {
        preemptor: preemptor.clone(),
        failure: None,
    };
    assert_eq!(shop.outcome().await, done);
    let written = shop.written();
    assert_eq!(written[0], "patch preemptor/status");
    assert_eq!(written[1], "patch nominated/status");
    assert_eq!(written[6..], ["patch v3/status", "delete v3"]);
    let nominee = shop.admin.get("pods", "preemptor").unwrap();
    assert_eq!(nominee["status"]["nominatedNodeName"], "one");
    let nominated = shop.admin.get("pods", "nominated").unwrap();
    assert_eq!(nominated["status"]["nominatedNodeName"], Value::Null);
    for name in ["v1", "v2", "v3"] {
        let victim = shop.admin.get("pods", name).unwrap();
        assert_ne!(victim["metadata"]["deletionTimestamp"], Value::Null);
        let condition = &victim["status"]["conditions"][0];
        assert_eq!(condition["type"], "DisruptionTarget");
        assert_eq!(condition["reason"], "PreemptionByScheduler");
        assert_eq!(
            condition["message"],
            "default-scheduler: preempting to accommodate a higher priority pod"
        );
    }
    let event = shop.event("Preempted").await;
    assert_eq!(event["action"], "Preempting");
    assert_eq!(event["type"], "Normal");
    let note = format!("Preempted by pod {} on node one", preemptor.uid);
    assert_eq!(event["message"], note);
    assert_eq!(event["related"]["name"], "preemptor");
}

#[tokio::test]
async fn s4_021_a_victim_that_was_deleted_before_is_no_failure() {
    let mut shop = Shop::open().await;
    let (gone, replaced) = (
        shop.pod("gone", Some("one")),
        shop.pod("again", Some("one")),
    );
    for name in ["gone", "again"] {
        let at_once = json!({"gracePeriodSeconds": 0});
        shop.admin.delete("pods", name, at_once).unwrap();
    }
    shop.pod("again", Some("one"));
    let preemption = shop.preemption(&[&gone, &replaced], Vec::new());
    shop.writer.preempt(preemption);
    assert!(matches!(shop.outcome().await, Outcome::LastVictim { .. }));
    let Outcome::Preempted { failure, .. } = shop.outcome().await else {
        panic!()
    };
    assert_eq!(failure, None);
    let other = shop.admin.get("pods", "again").unwrap();
    assert_eq!(other["metadata"]["deletionTimestamp"], Value::Null);
    assert_eq!(shop.asked("pods"), 0);
}

#[tokio::test]
async fn the_last_victim_is_not_deleted_if_another_one_cannot_be() {
    let mut shop = Shop::open().await;
    let victims = ["v1", "v2"].map(|name| shop.pod(name, Some("one")));
    let preemption = shop.preemption(&victims.each_ref(), Vec::new());
    shop.api.fault(Fault::answer(403).on("delete", "pods"));
    shop.writer.preempt(preemption.clone());
    let Outcome::Preempted { failure, .. } = shop.outcome().await else {
        panic!()
    };
    assert_eq!(failure.unwrap().kind, FailureKind::Refused);
    assert!(shop.written().iter().all(|written| !written.contains("v2")));
    // The preemptor tries again.
    shop.api.clear_faults();
    shop.api
        .fault(Fault::cut_after(0).on("delete", "pods").times(1));
    shop.writer.preempt(preemption);
    assert!(matches!(shop.outcome().await, Outcome::LastVictim { .. }));
    let Outcome::Preempted { failure, .. } = shop.outcome().await else {
        panic!()
    };
    assert_eq!(failure, None);
}

#[tokio::test]
async fn s5_064_a_bound_pod_has_the_event_of_kube_scheduler() {
    let shop = Shop::open().await;
    let pod = shop.pod("a", None);
    shop.events.scheduled("default-scheduler", &pod, "one");
    let event = shop.event("Scheduled").await;
    for (field, expected) in [
        ("type", "Normal"),
        ("action", "Binding"),
        ("message", "Successfully assigned default/a to one"),
        ("reportingComponent", "default-scheduler"),
        ("reportingInstance", "default-scheduler-here"),
    ] {
        assert_eq!(event[field], expected, "{field}");
    }
    assert_eq!(event["involvedObject"]["uid"], *pod.uid);
    assert_eq!(event["metadata"]["namespace"], "default");
}

#[tokio::test]
async fn s5_069_an_unschedulable_pod_gets_one_warning() {
    let shop = Shop::open().await;
    let pod = shop.pod("a", None);
    for _ in 0..3 {
        let message = "0/1 nodes are available: 1 Too many pods.";
        shop.events
            .failed_scheduling("default-scheduler", &pod, message);
    }
    // All four use the same recorder, so that the first three are sent by then.
    shop.events.scheduled("default-scheduler", &pod, "one");
    shop.event("Scheduled").await;
    let event = shop.event("FailedScheduling").await;
    assert_eq!(event["type"], "Warning");
    assert_eq!(event["action"], "Scheduling");
    let message = "0/1 nodes are available: 1 Too many pods.";
    assert_eq!(event["message"], message);
    assert_eq!(shop.admin.list("events").len(), 2);
}
