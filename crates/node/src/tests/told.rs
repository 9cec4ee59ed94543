//! Of which pods' ends the API server is told first.

use crate::cgroup_support::TestCgroup;
use crate::delivery::{DeliveryQueue, Notice, Way};
use crate::evict::{ClusterEvictor, Evict, LocalEvictor, Urgency};
use crate::evictor_support::{evictor, victim};
use evictd_cluster_client::Access;
use evictd_kernel::kill::{GraceCut, Method};
use evictd_node_config::Tell;
use evictd_testkit::{ApiServer, Fault};
use jiff::SignedDuration;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

const LONG: Duration = Duration::from_mins(1);
const SLEEPER: &str = "echo ready; exec sleep 600";

/// An API server with the pod of this notice.
fn a_notice() -> (ApiServer, Notice) {
    let api = ApiServer::start().unwrap();
    let admin = api.actor("test");
    let space = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } });
    admin.create(space).unwrap();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web", "namespace": "shop" },
        "spec": { "nodeName": "one", "containers": [{ "name": "main", "image": "none" }] },
    });
    let made = admin.create(pod).unwrap();
    let notice = Notice {
        id: "d-1".into(),
        namespace: "shop".into(),
        name: "web".into(),
        uid: made["metadata"]["uid"].as_str().unwrap().into(),
        generation: None,
        reason: "Evicted".into(),
        message: "low".into(),
        disruption_target: None,
        way: Way::Status,
        record: "{}".into(),
        time: jiff::Timestamp::UNIX_EPOCH,
    };
    (api, notice)
}

#[tokio::test]
async fn a_hard_victim_is_asked_by_its_kubelet_alone_once_that_is_told() {
    let test = "a_hard_victim_is_asked_by_its_kubelet_alone";
    for (kubelet, away) in [(true, false), (true, true), (false, false)] {
        let Some(mut group) = TestCgroup::new(test, &["memory"]) else {
            return;
        };
        group.script("pod/app", SLEEPER);
        let (api, notice) = a_notice();
        let config = kube::Config::new(api.url().parse().unwrap());
        let access = Access::new("a test".into(), config);
        let settled = watch::channel(true).1;
        let (delivery_queue, _publications) =
            DeliveryQueue::new(access.actions().unwrap(), settled);
        if away {
            api.go_away();
        }
        let evictor = ClusterEvictor {
            local: LocalEvictor {
                cgroups: Arc::new(evictor(&group)),
                runtime: None,
            },
            delivery_queue,
            notice,
            again: false,
            urgency: Urgency::Hard(LONG),
            tell: Tell::Together,
            kubelet,
        };
        let (grace, cut) = (Duration::from_secs(1), GraceCut::default());
        let termination = evictor.evict(&victim(&group), grace, &cut).await.unwrap();
        // The kubelet that is left to ask it does not exist here, so that the end of the grace finds it alive.
        let asked = termination.method == Method::Terminated;
        assert_eq!(asked, !kubelet || away, "{kubelet} {away}: {termination:?}");
        assert_eq!(termination.killed_at.is_none(), asked, "{termination:?}");
        assert!(termination.gone_at.is_some());
    }
}

#[tokio::test]
async fn a_hard_kill_waits_for_no_answer_unless_it_is_to_be_told_first() {
    let test = "a_hard_kill_waits_for_no_answer";
    for tell in [Tell::Together, Tell::First] {
        let Some(mut group) = TestCgroup::new(test, &["memory"]) else {
            return;
        };
        group.script("pod/app", SLEEPER);
        let (api, notice) = a_notice();
        let hang = Fault::delay(Duration::from_mins(10));
        api.fault(hang.on("patch", "pods/status"));
        let config = kube::Config::new(api.url().parse().unwrap());
        let access = Access::new("a test".into(), config);
        let settled = watch::channel(true).1;
        let (delivery_queue, _publications) =
            DeliveryQueue::new(access.actions().unwrap(), settled);
        let evictor = ClusterEvictor {
            local: LocalEvictor {
                cgroups: Arc::new(evictor(&group)),
                runtime: None,
            },
            delivery_queue: delivery_queue.clone(),
            notice,
            again: false,
            urgency: Urgency::Hard(Duration::from_secs(2)),
            tell,
            kubelet: true,
        };
        let began = evictor.local.cgroups.clock.now();
        let (grace, cut) = (Duration::ZERO, GraceCut::default());
        let termination = evictor.evict(&victim(&group), grace, &cut).await.unwrap();
        let took = evictor.local.cgroups.clock.now().duration_since(began);
        let waited = took >= SignedDuration::from_secs(2);
        assert_eq!(waited, tell == Tell::First, "{tell:?}: {took:?}");
        assert!(termination.killed_at.is_some() && termination.gone_at.is_some());
        assert_eq!(delivery_queue.pending_count(), 1, "it is still being told");
    }
}
