use super::*;
use crate::pods::{Listed, Stale};
use evictd_cluster_client::Access;
use evictd_pod::{Pod, wire};
use evictd_testkit::{Actor, ApiServer, Fault};
use jiff::SignedDuration;
use serde_json::{Value, json};

const WAIT: Duration = Duration::from_secs(30);

/// An API server with evicted pods, and a garbage collector that keeps one of each owner.
struct Floor {
    api: ApiServer,
    admin: Actor,
    now: jiff::Timestamp,
    listings: watch::Sender<Arc<Listing>>,
    dry_run: watch::Sender<bool>,
    known: watch::Sender<BTreeSet<String>>,
}

impl Floor {
    fn new(dry_run: bool) -> Self {
        let api = ApiServer::start().unwrap();
        let config = kube::Config::new(api.url().parse().unwrap());
        let actions = Access::new("a test".into(), config).actions().unwrap();
        let retention = Retention {
            keep_per_owner: Some(1),
            ..Retention::default()
        };
        let clock = Clock::start();
        let (listings, listed) = watch::channel(Arc::default());
        let (dry_run, dry) = watch::channel(dry_run);
        let (known, evicted) = watch::channel(BTreeSet::new());
        tokio::spawn(PodGarbageCollector::new(retention, evicted, actions, clock).run(listed, dry));
        Self {
            admin: api.actor("test"),
            api,
            now: clock.now(),
            listings,
            dry_run,
            known,
        }
    }

    /// A pod of this owner that was evicted so many minutes ago.
    fn evicted(&self, name: &str, owner: &str, minutes: i64) -> Listed {
        let owner = json!({ "apiVersion": "v1", "kind": "Thing", "name": owner, "uid": owner, "controller": true });
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "ownerReferences": [owner] },
            "spec": { "nodeName": "one", "containers": [{ "name": "main", "image": "none" }] },
            "status": { "phase": "Failed", "reason": "Evicted" },
        });
        let made = self.admin.create(pod).unwrap();
        let pod: wire::Pod = serde_json::from_value(made).unwrap();
        Listed {
            pod: Arc::new(Pod::from_wire(pod)),
            manifest: None,
            wire: None,
            evicted: false,
            evicted_at: Some(self.now - SignedDuration::from_mins(minutes)),
        }
    }

    /// These pods, of which the history knows that they were evicted here.
    fn list(&self, pods: &[Listed], stale: Option<Stale>) {
        let uids = pods.iter().map(|listed| listed.pod.uid.clone());
        self.known.send_modify(|known| known.extend(uids));
        self.list_marked(pods, stale);
    }

    /// These pods, of which only their own marks tell so.
    fn list_marked(&self, pods: &[Listed], stale: Option<Stale>) {
        let pods = pods.to_vec();
        let listing = Listing {
            pods,
            stale,
            ..Listing::default()
        };
        self.listings.send_replace(Arc::new(listing));
    }

    fn names(admin: &Actor) -> Vec<String> {
        let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
        admin.list("pods").iter().map(name).collect()
    }

    /// Waits until deletions were asked for and answered so, and these are left.
    async fn deleted(&self, expected: &[(&str, u16)], left: &[&str]) {
        let expected: Vec<_> = expected
            .iter()
            .map(|(name, code)| ((*name).to_owned(), *code))
            .collect();
        let done = |_: &Actor| (self.deletions() == expected).then_some(());
        let found = self.admin.wait(WAIT, done).await;
        assert!(found.is_some(), "{:?}", self.deletions());
        assert_eq!(Self::names(&self.admin), left);
    }

    /// Not for longer than it takes to delete one and the next.
    async fn nothing_is_deleted(&self) {
        let deleted = |_: &Actor| (!self.deletions().is_empty()).then_some(());
        assert_eq!(self.admin.wait(PAUSE * 2, deleted).await, None);
    }

    fn deletions(&self) -> Vec<(String, u16)> {
        let log = self.api.log().into_iter();
        let deletions = log.filter(|entry| entry.verb == "delete");
        let name = |path: &str| {
            let last = path.rsplit('/').next().unwrap_or_default();
            last.trim_end_matches('?').to_owned()
        };
        deletions
            .map(|entry| (name(&entry.path), entry.status))
            .collect()
    }
}

#[tokio::test]
async fn the_oldest_are_deleted_first_and_a_refusal_delays_no_other() {
    let floor = Floor::new(false);
    let pods = [
        floor.evicted("a1", "a", 9),
        floor.evicted("a2", "a", 8),
        floor.evicted("a3", "a", 1),
        floor.evicted("b1", "b", 7),
        floor.evicted("b2", "b", 1),
    ];
    floor
        .api
        .fault(Fault::answer(500).on("delete", "pods").times(1));
    floor.list(&pods, None);
    let order = [("a1", 500), ("a2", 200), ("b1", 200), ("a1", 200)];
    floor.deleted(&order, &["a3", "b2"]).await;
}

#[tokio::test]
async fn a_new_pod_with_the_same_name_stays_and_is_not_asked_for_twice() {
    let floor = Floor::new(false);
    let mut pods = vec![
        floor.evicted("replaced", "a", 9),
        floor.evicted("gone", "a", 8),
        floor.evicted("kept", "a", 1),
    ];
    Arc::make_mut(&mut pods[0].pod).uid = "that of before".to_owned();
    let now = json!({ "gracePeriodSeconds": 0 });
    floor.admin.delete("pods", "default/gone", now).unwrap();
    floor.list(&pods, None);
    let order = [("replaced", 409), ("gone", 404), ("later", 200)];
    floor.deleted(&order[..2], &["kept", "replaced"]).await;
    // They are still listed when there is work again.
    pods.push(floor.evicted("later", "b", 3));
    pods.push(floor.evicted("newer", "b", 2));
    floor.list(&pods, None);
    floor.deleted(&order, &["kept", "newer", "replaced"]).await;
}

#[tokio::test]
async fn a_mark_alone_has_no_pod_deleted() {
    let floor = Floor::new(false);
    let pods = [floor.evicted("old", "a", 9), floor.evicted("new", "a", 1)];
    floor.list_marked(&pods, None);
    floor.nothing_is_deleted().await;
    floor.list(&pods, None);
    floor.deleted(&[("old", 200)], &["new"]).await;
}

#[tokio::test]
async fn nothing_is_deleted_in_a_dry_run_or_while_the_pods_are_those_of_a_while_ago() {
    let floor = Floor::new(true);
    let pods = [floor.evicted("old", "a", 9), floor.evicted("new", "a", 1)];
    let stale = Stale {
        server: "nobody",
        problem: "away".to_owned(),
        as_of: None,
    };
    floor.list(&pods, None);
    floor.nothing_is_deleted().await;
    floor.list(&pods, Some(stale));
    floor.dry_run.send_replace(false);
    floor.nothing_is_deleted().await;
    floor.list(&pods, None);
    floor.deleted(&[("old", 200)], &["new"]).await;
}
