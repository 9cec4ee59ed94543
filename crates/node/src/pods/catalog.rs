//! The pods that the API server or the kubelet reported, by UID, and the listing to publish.

use super::{DeletedPod, Listed, Listing, Stale, Warning, trim::trim};
use evictd_cluster_client::{Parsed, Unparsable};
use evictd_eviction::{record, rules::DEFAULT_GRACE_PERIOD_SECONDS};
use evictd_pod::{Pod, wire};
use jiff::Timestamp;
use serde::Deserialize;
use std::{
    borrow::Cow,
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
    known: KnownPods,
    /// While a list is being received: its pods so far.
    listing: Option<KnownPods>,
    /// The latest pods that are no longer listed.
    deleted: VecDeque<Arc<DeletedPod>>,
}

#[derive(Debug, Default)]
struct KnownPods {
    pods: BTreeMap<String, Listed>,
    /// Pods whose objects cannot be parsed: the error, and whether an earlier version is used.
    unreadable: BTreeMap<String, (String, bool)>,
}

impl KnownPods {
    /// Whether both are equal in everything that is kept of a pod.
    fn is_same_as(&self, other: &Self) -> bool {
        let kept = |known: &Self| -> Vec<Option<Arc<str>>> {
            let pods = known.pods.values();
            pods.map(|listed| listed.wire.clone()).collect()
        };
        self.unreadable == other.unreadable
            && self.pods.keys().eq(other.pods.keys())
            && kept(self) == kept(other)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Head<'a> {
    #[serde(borrow)]
    metadata: Identity<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Identity<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    uid: Cow<'a, str>,
}

impl<'a> Identity<'a> {
    /// Read from an object that cannot be parsed otherwise; empty where even this fails.
    fn of(text: &'a str) -> Self {
        let head: Head<'a> = serde_json::from_str(text).unwrap_or_default();
        head.metadata
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

    /// A list begins; the known pods stay until it is complete.
    pub(super) fn begin(&mut self) {
        self.listing = Some(KnownPods::default());
    }

    /// The list is complete, if one was begun; true if it changed anything.
    pub(super) fn finish(&mut self, now: Timestamp) -> bool {
        let Some(known) = self.listing.take() else {
            return false;
        };
        if known.is_same_as(&self.known) {
            return false;
        }
        let before = std::mem::replace(&mut self.known, known);
        for (uid, gone) in before.pods {
            let is_ending = gone.pod.deletion_timestamp.is_some();
            if !self.known.pods.contains_key(&uid) && (self.lists_are_whole || is_ending) {
                // A server that lags behind may list this pod again.
                self.note_deletion(gone.pod, now, DEFAULT_GRACE_PERIOD_SECONDS);
            }
        }
        true
    }

    /// Notes that a pod is no longer listed. Its kubelet has the grace period of the deletion to end it, or else the pod's own, at
    /// least `least` seconds.
    fn note_deletion(&mut self, mut pod: Arc<Pod>, now: Timestamp, least: i64) {
        let asked = pod
            .deletion_timestamp
            .and(pod.deletion_grace_period_seconds);
        let grace = asked.unwrap_or_else(|| {
            let own = pod.termination_grace_period_seconds;
            own.unwrap_or(DEFAULT_GRACE_PERIOD_SECONDS).max(least)
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

    /// Whether a list is being received.
    pub(super) fn is_listing(&self) -> bool {
        self.listing.is_some()
    }

    /// A pod was added or changed. If it cannot be parsed, the earlier version stays.
    pub(super) fn apply(&mut self, object: Parsed<'_, wire::Pod>) {
        let (name, uid, problem) = match object {
            Ok(pod) if pod.metadata.uid.is_empty() => {
                let name = full_name(&pod.metadata.namespace, &pod.metadata.name);
                (name, String::new(), "it has no metadata.uid".to_owned())
            }
            Ok(pod) => return self.take(pod),
            Err(Unparsable { text, error }) => {
                let identity = Identity::of(text);
                let name = full_name(&identity.namespace, &identity.name);
                (name, identity.uid.into_owned(), error.to_string())
            }
        };
        let earlier = self.known.pods.get(&uid).cloned();
        let known = self.listing.as_mut().unwrap_or(&mut self.known);
        known.unreadable.insert(name, (problem, earlier.is_some()));
        known.pods.extend(earlier.map(|earlier| (uid, earlier)));
    }

    fn take(&mut self, pod: wire::Pod) {
        let name = full_name(&pod.metadata.namespace, &pod.metadata.name);
        let uid = pod.metadata.uid.to_string();
        let listed = listed(pod, &self.labels);
        let known = self.listing.as_mut().unwrap_or(&mut self.known);
        known.unreadable.remove(&name);
        known.pods.insert(uid, listed);
    }

    /// A pod was deleted.
    pub(super) fn delete(&mut self, object: Parsed<'_, wire::Pod>, now: Timestamp) {
        let (name, removed, last) = match object {
            Ok(pod) => {
                let name = full_name(&pod.metadata.namespace, &pod.metadata.name);
                let removed = self.known.pods.remove(&*pod.metadata.uid);
                (name, removed, Some(listed(pod, &self.labels)))
            }
            Err(Unparsable { text, .. }) => {
                let identity = Identity::of(text);
                let name = full_name(&identity.namespace, &identity.name);
                (name, self.known.pods.remove(identity.uid.as_ref()), None)
            }
        };
        self.known.unreadable.remove(&name);
        if let Some(removed) = removed {
            // The deletion's grace period may only be known from this last version.
            self.note_deletion(last.unwrap_or(removed).pod, now, 0);
        }
    }

    /// The listing to publish.
    pub(super) fn listing(&self, stale: Option<Stale>) -> Listing {
        let unreadable = self
            .known
            .unreadable
            .iter()
            .map(|(pod, (problem, earlier_in_use))| Warning::Pod {
                pod: pod.clone(),
                problem: problem.clone(),
                earlier_in_use: *earlier_in_use,
            });
        let warnings = stale.iter().cloned().map(Warning::Stale);
        Listing {
            pods: self.known.pods.values().cloned().collect(),
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
        condition.kind == "DisruptionTarget"
            && condition.status == "True"
            && condition.reason == "TerminationByKubelet"
    };
    let evicted = status.phase == "Failed" && status.reason == "Evicted";
    let ours = pod.metadata.annotations.contains_key(record::ANNOTATION);
    (evicted || status.conditions.iter().any(target)) && !ours
}

/// When evictd evicted it. If all containers exited with 0 the kubelet has cleared the reason, so the annotation
/// decides. An annotation older than the pod was copied from another pod.
fn evicted_at(pod: &wire::Pod) -> Option<Timestamp> {
    let status = &pod.status;
    let mark = pod.metadata.annotations.get(record::ANNOTATION)?;
    let time = record::time(mark)?;
    let evicted = status.phase == "Failed" && matches!(status.reason.as_str(), "" | "Evicted");
    let copied = status.start_time.is_some_and(|start| start > time);
    (evicted && !copied).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_cluster_client::parse;
    use evictd_pod::Critical;
    use serde_json::{Value, json};

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn read(object: &str) -> serde_json::Result<Listed> {
        Ok(listed(serde_json::from_str(object)?, &BTreeSet::new()))
    }

    fn pod(name: &str, uid: &str) -> Value {
        json!({
            "metadata": {"name": name, "namespace": "shop", "uid": uid},
            "spec": {"containers": [{"name": "main"}]},
        })
    }

    fn names(catalog: &Catalog) -> Vec<String> {
        let listing = catalog.listing(None);
        let name = |listed: &Listed| format!("{} {}", listed.pod, listed.pod.uid);
        listing.pods.iter().map(name).collect()
    }

    fn warnings(catalog: &Catalog) -> Vec<String> {
        let listing = catalog.listing(None);
        listing.warnings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_list_replaces_the_pods_once_it_is_whole() {
        let mut catalog = Catalog::default();
        catalog.apply(parse(&pod("a", "1").to_string()));
        catalog.begin();
        catalog.apply(parse(&pod("b", "2").to_string()));
        assert_eq!(names(&catalog), ["shop/a 1"]);
        assert!(catalog.finish(NOW));
        assert_eq!(names(&catalog), ["shop/b 2"]);
        // The same list again changes nothing.
        catalog.begin();
        catalog.apply(parse(&pod("b", "2").to_string()));
        assert!(!catalog.finish(NOW));
        catalog.delete(parse(&pod("b", "2").to_string()), NOW);
        assert_eq!(names(&catalog), [""; 0]);
    }

    #[test]
    fn an_object_that_is_not_understood_leaves_the_pod_as_it_was() {
        let mut catalog = Catalog::default();
        let mut bad = pod("a", "1");
        bad["spec"]["priority"] = json!("high");
        catalog.apply(parse(&bad.to_string()));
        assert_eq!(names(&catalog), [""; 0]);
        assert!(warnings(&catalog)[0].starts_with("pod shop/a cannot be read"));
        assert!(warnings(&catalog)[0].ends_with("it is never evicted"));
        catalog.apply(parse(&pod("a", "1").to_string()));
        assert_eq!(warnings(&catalog), [""; 0]);
        for listing in [false, true] {
            if listing {
                catalog.begin();
            }
            catalog.apply(parse(&bad.to_string()));
            catalog.finish(NOW);
            assert_eq!(names(&catalog), ["shop/a 1"], "{listing}");
            assert!(warnings(&catalog)[0].ends_with("it stays as it was"));
        }
        for garbage in ["7", "{}", "\"x\"", r#"{"metadata": {"uid": 3}}"#] {
            catalog.apply(parse(garbage));
            catalog.delete(parse(garbage), NOW);
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
    fn who_is_listed_no_more_has_departed_with_the_grace_of_its_deletion() {
        let deleted = |catalog: &Catalog| {
            let listing = catalog.listing(None);
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
            let mut catalog = Catalog::new(BTreeSet::new(), whole);
            for object in [
                with("a", 5, None),
                with("b", 5, None),
                with("c", 5, Some(7)),
            ] {
                catalog.apply(parse(&object));
            }
            catalog.delete(parse(&with("a", 5, Some(0))), NOW);
            catalog.delete(parse(&with("never seen", 5, None)), NOW);
            catalog.begin();
            catalog.apply(parse(&with("d", 5, None)));
            catalog.finish(NOW);
            let mut expected = vec![("c", 7), ("b", 30), ("a", 0)];
            if !whole {
                // A restarted kubelet reports its pods one after the other.
                expected.remove(1);
            }
            let expected: Vec<_> = expected
                .into_iter()
                .map(|(uid, grace)| (uid.to_owned(), grace))
                .collect();
            assert_eq!(deleted(&catalog), expected);
            catalog.delete(parse(&with("d", 5, None)), NOW);
            assert_eq!(deleted(&catalog)[0], ("d".to_owned(), 5));
            for number in 0..2 * MAX_DELETED {
                let object = with(&number.to_string(), 5, None);
                catalog.apply(parse(&object));
                catalog.delete(parse(&object), NOW);
            }
            assert_eq!(deleted(&catalog).len(), MAX_DELETED);
        }
    }

    #[test]
    fn what_is_kept_of_a_pod_says_the_same_and_holds_no_secrets() {
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
    fn who_was_ended_by_the_kubelet() {
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
    fn who_was_ended_by_evictd() {
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
