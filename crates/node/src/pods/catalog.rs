//! The pods that the API server or the kubelet reported, by UID, and the listing to publish.

use super::{DeletedPod, Listed, Listing, Stale, Warning, trim::trim};
use evictd_cluster_client::{Key, Keyed, Outline};
use evictd_decision::record;
use evictd_eviction::rules::DEFAULT_GRACE_PERIOD_SECONDS;
use evictd_pod::{Pod, wire};
use jiff::Timestamp;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

/// The most pods remembered after they are no longer listed, until the pod cache has checked whether they still run.
const MAX_DELETED: usize = 128;

/// The pods as last reported.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    /// Label keys that selectors use.
    labels: BTreeSet<String>,
    /// Whether a pod that is missing in a list was deleted. A kubelet that was restarted does not know all its pods
    /// at first.
    lists_are_whole: bool,
    /// By UID.
    pods: BTreeMap<String, Listed>,
    /// Pods whose objects cannot be read: the error, and whether an earlier version is used.
    unreadable: BTreeMap<String, (String, bool)>,
    /// The latest pods that are no longer listed.
    deleted: VecDeque<Arc<DeletedPod>>,
    /// Whether anything has changed since this was last asked.
    changed: bool,
}

/// The keys by which a pod is found.
#[derive(Debug)]
pub(super) struct PodName {
    uid: String,
    namespace: String,
    name: String,
}

impl PodName {
    pub(super) fn of(pod: &wire::Pod) -> Self {
        Self {
            uid: pod.metadata.uid.to_string(),
            namespace: pod.metadata.namespace.to_string(),
            name: pod.metadata.name.clone(),
        }
    }

    fn full(&self) -> String {
        full_name(&self.namespace, &self.name)
    }
}

impl From<&Outline> for PodName {
    fn from(outline: &Outline) -> Self {
        Self {
            uid: outline.uid.clone(),
            namespace: outline.namespace.clone(),
            name: outline.name.clone(),
        }
    }
}

/// By its UID, or by its name if it has none: a runtime may still have a pod whose successor of the same name runs.
pub(super) fn key<'k>(uid: &'k str, name: &'k str) -> Key<'k> {
    if uid.is_empty() {
        ["", name]
    } else {
        [uid, ""]
    }
}

impl Keyed for PodName {
    fn key(&self) -> Key<'_> {
        key(&self.uid, &self.name)
    }
}

fn full_name(namespace: &str, name: &str) -> String {
    match (namespace, name) {
        (_, "") => "without a name".to_owned(),
        ("", name) => format!("default/{name}"),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

impl Catalog {
    /// A catalog without pods.
    pub(super) fn new(labels: BTreeSet<String>, lists_are_whole: bool) -> Self {
        Self {
            labels,
            lists_are_whole,
            ..Self::default()
        }
    }

    /// Whether anything has changed since the last call.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Notes that a pod is no longer listed. Its kubelet has the grace period of the deletion to end it, or else the pod's own, at
    /// least `least` seconds.
    fn note_deletion(&mut self, mut pod: Arc<Pod>, now: Timestamp, least: i64) {
        let asked = pod
            .deletion_timestamp
            .and(pod.deletion_grace_period_seconds);
        let grace = asked.unwrap_or_else(|| {
            let requested = pod.termination_grace_period_seconds;
            requested.unwrap_or(DEFAULT_GRACE_PERIOD_SECONDS).max(least)
        });
        // If it has a cgroup at all, that cgroup has the pod's own UID, not the one of a static pod.
        Arc::make_mut(&mut pod).deny_mirror();
        self.deleted.truncate(MAX_DELETED - 1);
        self.deleted.push_front(Arc::new(DeletedPod {
            pod,
            at: now,
            grace: Duration::from_secs(u64::try_from(grace).unwrap_or(0)),
        }));
    }

    /// A pod was added or changed.
    pub(super) fn apply(&mut self, pod: wire::Pod) -> PodName {
        let name = PodName::of(&pod);
        if name.uid.is_empty() {
            self.refuse(&name, "it has no metadata.uid");
            return name;
        }
        let listed = listed(pod, &self.labels);
        let before = self.pods.get(&name.uid);
        self.changed |= before.is_none_or(|before| before.wire != listed.wire);
        self.changed |= self.unreadable.remove(&name.full()).is_some();
        self.pods.insert(name.uid.clone(), listed);
        name
    }

    /// A pod cannot be read. Its earlier version stays.
    pub(super) fn refuse(&mut self, name: &PodName, problem: &str) {
        let earlier = self.pods.contains_key(&name.uid);
        let why = (problem.to_owned(), earlier);
        let before = self.unreadable.insert(name.full(), why.clone());
        self.changed |= before != Some(why);
    }

    /// A pod was deleted, and this was its last state, if that can be read.
    pub(super) fn delete(&mut self, name: &PodName, last: Option<wire::Pod>, now: Timestamp) {
        self.changed |= self.unreadable.remove(&name.full()).is_some();
        if let Some(removed) = self.pods.remove(&name.uid) {
            self.changed = true;
            let last = last.map(|pod| listed(pod, &self.labels));
            // The deletion's grace period may only be known from this last version.
            self.note_deletion(last.unwrap_or(removed).pod, now, 0);
        }
    }

    /// A list does not name a pod any more.
    pub(super) fn unlist(&mut self, name: &PodName, now: Timestamp) {
        self.changed |= self.unreadable.remove(&name.full()).is_some();
        let Some(gone) = self.pods.remove(&name.uid) else {
            return;
        };
        self.changed = true;
        let is_ending = gone.pod.deletion_timestamp.is_some();
        if self.lists_are_whole || is_ending {
            // A server that lags behind may list this pod again.
            self.note_deletion(gone.pod, now, DEFAULT_GRACE_PERIOD_SECONDS);
        }
    }

    /// The listing to publish.
    pub(super) fn listing(&self, stale: Option<Stale>) -> Listing {
        let unreadable = self
            .unreadable
            .iter()
            .map(|(pod, (problem, earlier_in_use))| Warning::Pod {
                pod: pod.clone(),
                problem: problem.clone(),
                earlier_in_use: *earlier_in_use,
            });
        let warnings = stale.iter().cloned().map(Warning::Stale);
        Listing {
            pods: self.pods.values().cloned().collect(),
            warnings: warnings.chain(unreadable).collect(),
            stale,
            deleted: self.deleted.iter().cloned().collect(),
        }
    }
}

fn listed(mut pod: wire::Pod, labels: &BTreeSet<String>) -> Listed {
    let (evicted, evicted_at) = (is_evicted(&pod), evicted_at(&pod));
    let wire = trim(&mut pod, labels);
    Listed {
        pod: Arc::new(Pod::from_wire(pod)),
        manifest: None,
        wire: Some(wire),
        evicted,
        evicted_at,
    }
}

/// Whether the kubelet evicted it; a pod that evictd evicted has evictd's annotation.
fn is_evicted(pod: &wire::Pod) -> bool {
    let status = &pod.status;
    let target = |condition: &wire::Condition| {
        condition.holds("DisruptionTarget") && condition.reason == "TerminationByKubelet"
    };
    let evicted = status.phase == wire::PodPhase::Failed && status.reason == "Evicted";
    let ours = pod.metadata.annotations.contains_key(record::ANNOTATION);
    (evicted || status.conditions.iter().any(target)) && !ours
}

/// When evictd evicted it. If all containers exited with 0 the kubelet has cleared the reason, so the annotation
/// decides. An annotation older than the pod was copied from another pod.
fn evicted_at(pod: &wire::Pod) -> Option<Timestamp> {
    let status = &pod.status;
    let mark = pod.metadata.annotations.get(record::ANNOTATION)?;
    let time = record::time(mark)?;
    let evicted =
        status.phase == wire::PodPhase::Failed && matches!(status.reason.as_str(), "" | "Evicted");
    let copied = status.start_time.is_some_and(|start| start > time);
    (evicted && !copied).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::super::remote::testing::Followed;
    use super::*;
    use evictd_pod::Critical;
    use serde_json::{Value, json};

    fn read(object: &str) -> serde_json::Result<Listed> {
        Ok(listed(serde_json::from_str(object)?, &BTreeSet::new()))
    }

    fn pod(name: &str, uid: &str) -> Value {
        json!({
            "metadata": {"name": name, "namespace": "shop", "uid": uid},
            "spec": {"containers": [{"name": "main"}]},
        })
    }

    fn names(followed: &Followed) -> Vec<String> {
        let listing = followed.listing();
        let name = |listed: &Listed| format!("{} {}", listed.pod, listed.pod.uid);
        listing.pods.iter().map(name).collect()
    }

    fn warnings(followed: &Followed) -> Vec<String> {
        let listing = followed.listing();
        let warnings = listing.warnings.iter();
        let warnings = warnings.filter(|warning| matches!(warning, Warning::Pod { .. }));
        warnings.map(ToString::to_string).collect()
    }

    #[test]
    fn a_list_replaces_the_pods_once_it_is_whole() {
        let mut catalog = Followed::new(true);
        catalog.apply(&pod("a", "1").to_string());
        catalog.begin();
        catalog.apply(&pod("b", "2").to_string());
        assert_eq!(names(&catalog), ["shop/a 1"]);
        assert!(catalog.finish());
        assert_eq!(names(&catalog), ["shop/b 2"]);
        // The same list again changes nothing.
        catalog.begin();
        catalog.apply(&pod("b", "2").to_string());
        assert!(!catalog.finish());
        catalog.delete(&pod("b", "2").to_string());
        assert_eq!(names(&catalog), [""; 0]);
    }

    #[test]
    fn an_object_that_is_not_understood_leaves_the_pod_as_it_was() {
        let mut catalog = Followed::new(true);
        let mut bad = pod("a", "1");
        bad["spec"]["priority"] = json!("high");
        catalog.apply(&bad.to_string());
        assert_eq!(names(&catalog), [""; 0]);
        assert!(warnings(&catalog)[0].starts_with("pod shop/a cannot be read"));
        assert!(warnings(&catalog)[0].ends_with("it is never evicted"));
        catalog.apply(&pod("a", "1").to_string());
        assert_eq!(warnings(&catalog), [""; 0]);
        for listing in [false, true] {
            if listing {
                catalog.begin();
            }
            catalog.apply(&bad.to_string());
            catalog.finish();
            assert_eq!(names(&catalog), ["shop/a 1"], "{listing}");
            assert!(warnings(&catalog)[0].ends_with("it stays as it was"));
        }
        for garbage in ["7", "{}", "\"x\"", r#"{"metadata": {"uid": 3}}"#] {
            catalog.apply(garbage);
            catalog.delete(garbage);
        }
        assert_eq!(names(&catalog), ["shop/a 1"]);
    }

    #[test]
    fn a_pod_of_the_api_is_not_static_whatever_it_says() {
        let mut forged = pod("hog", "1");
        forged["metadata"]["annotations"] = json!({"kubernetes.io/config.source": "file"});
        let critical = |pod: &Value| read(&pod.to_string()).unwrap().pod.critical;
        assert_eq!(
            critical(&forged),
            Some(Critical::Static),
            "the kubelet's word"
        );
        forged["metadata"]["resourceVersion"] = json!("7");
        assert_eq!(critical(&forged), None);
        // Nor is it one after a restart.
        let kept = read(&forged.to_string()).unwrap().wire.unwrap();
        assert_eq!(read(&kept).unwrap().pod.critical, None);
    }

    #[test]
    fn a_pod_that_is_no_longer_listed_is_deleted_with_its_grace_period() {
        let deleted = |catalog: &Followed| {
            let listing = catalog.listing();
            let one = |one: &Arc<DeletedPod>| (one.pod.uid.clone(), one.grace.as_secs());
            listing.deleted.iter().map(one).collect::<Vec<_>>()
        };
        let with = |uid: &str, grace: i64, deleted: Option<i64>| {
            let mut pod = pod(uid, uid);
            pod["spec"]["terminationGracePeriodSeconds"] = json!(grace);
            if let Some(seconds) = deleted {
                pod["metadata"]["deletionTimestamp"] = json!("2026-11-21T00:00:00Z");
                pod["metadata"]["deletionGracePeriodSeconds"] = json!(seconds);
            }
            pod.to_string()
        };
        for whole in [true, false] {
            let mut catalog = Followed::new(whole);
            for object in [
                with("a", 5, None),
                with("b", 5, None),
                with("c", 5, Some(7)),
            ] {
                catalog.apply(&object);
            }
            catalog.delete(&with("a", 5, Some(0)));
            catalog.delete(&with("never seen", 5, None));
            catalog.begin();
            catalog.apply(&with("d", 5, None));
            catalog.finish();
            let mut expected = vec![("a", 0), ("b", 30), ("c", 7)];
            if !whole {
                // A restarted kubelet reports its pods one after the other.
                expected.remove(1);
            }
            let expected: Vec<_> = expected
                .into_iter()
                .map(|(uid, grace)| (uid.to_owned(), grace))
                .collect();
            // A list leaves them out in no order.
            let mut departed = deleted(&catalog);
            departed.sort();
            assert_eq!(departed, expected);
            catalog.delete(&with("d", 5, None));
            assert_eq!(deleted(&catalog)[0], ("d".to_owned(), 5));
            for number in 0..2 * MAX_DELETED {
                let object = with(&number.to_string(), 5, None);
                catalog.apply(&object);
                catalog.delete(&object);
            }
            assert_eq!(deleted(&catalog).len(), MAX_DELETED);
        }
    }

    #[test]
    fn the_kept_part_of_a_pod_decides_the_same_and_holds_no_secrets() {
        let mut full = pod("a", "1");
        full["metadata"]["annotations"] =
            json!({"kubectl.kubernetes.io/last-applied-configuration": "secret", "x": "y"});
        full["metadata"]["managedFields"] = json!([{"manager": "secret"}]);
        full["metadata"]["deletionTimestamp"] = json!("2026-11-21T00:00:00Z");
        full["spec"]["containers"][0]["env"] = json!([{"name": "PASSWORD", "value": "secret"}]);
        full["spec"]["containers"][0]["resources"] = json!({"requests": {"memory": "64Mi"}});
        full["spec"]["volumes"] =
            json!([{"name": "d", "emptyDir": {}}, {"name": "c", "configMap": {}}]);
        full["spec"]["priority"] = json!(7);
        full["status"] = json!({"qosClass": "Burstable", "containerStatuses":
            [{"name": "main", "containerID": "containerd://ab"}]});
        let first = read(&full.to_string()).unwrap();
        let kept = first.wire.clone().unwrap();
        assert!(!kept.contains("secret") && !kept.contains("null"), "{kept}");
        let again = read(&kept).unwrap();
        assert_eq!(format!("{:?}", first.pod), format!("{:?}", again.pod));
        assert_eq!(again.wire.unwrap(), kept);
    }

    #[test]
    fn pods_that_the_kubelet_evicted_are_recognised() {
        let condition = |kind: &str, status: &str, reason: &str| json!({"conditions": [{"type": kind, "status": status, "reason": reason}]});
        let table = [
            (json!({}), false),
            (json!({"phase": "Failed", "reason": "Evicted"}), true),
            (json!({"phase": "Failed", "reason": "OOMKilled"}), false),
            (json!({"phase": "Running", "reason": "Evicted"}), false),
            (
                condition("DisruptionTarget", "True", "TerminationByKubelet"),
                true,
            ),
            (
                condition("DisruptionTarget", "False", "TerminationByKubelet"),
                false,
            ),
            (
                condition("DisruptionTarget", "True", "PreemptionByScheduler"),
                false,
            ),
            (condition("Ready", "True", "TerminationByKubelet"), false),
        ];
        for (status, evicted) in table {
            let mut pod = pod("a", "1");
            pod["status"] = status.clone();
            assert_eq!(read(&pod.to_string()).unwrap().evicted, evicted, "{status}");
            pod["metadata"]["annotations"] = json!({record::ANNOTATION: "{}"});
            assert!(!read(&pod.to_string()).unwrap().evicted, "{status}");
        }
    }

    #[test]
    fn pods_that_evictd_evicted_are_recognised() {
        let at = "2026-11-21T12:00:00Z";
        let mark = json!({ "time": at }).to_string();
        let table = [
            (
                json!({"phase": "Failed", "reason": "Evicted"}),
                mark.as_str(),
                true,
            ),
            (json!({"phase": "Failed"}), &mark, true),
            (
                json!({"phase": "Failed", "startTime": "2026-11-21T11:59:59Z"}),
                &mark,
                true,
            ),
            (
                json!({"phase": "Failed", "startTime": "2026-11-21T12:00:01Z"}),
                &mark,
                false,
            ),
            (
                json!({"phase": "Failed", "reason": "NodeLost"}),
                &mark,
                false,
            ),
            (
                json!({"phase": "Running", "reason": "Evicted"}),
                &mark,
                false,
            ),
            (json!({"phase": "Failed", "reason": "Evicted"}), "{}", false),
            (
                json!({"phase": "Failed", "reason": "Evicted"}),
                "yes",
                false,
            ),
        ];
        for (status, mark, evicted) in table {
            let mut pod = pod("a", "1");
            pod["status"] = status.clone();
            let time = |pod: &Value| read(&pod.to_string()).unwrap().evicted_at;
            assert_eq!(time(&pod), None, "no mark, {status}");
            pod["metadata"]["annotations"] = json!({record::ANNOTATION: mark});
            let expected = evicted.then(|| at.parse().unwrap());
            assert_eq!(time(&pod), expected, "{mark} {status}");
        }
    }
}
