//! The pods that the API server or the kubelet told of, by their UIDs there, and what to publish of them.

use super::{Listed, Listing, Stale, Warning, kept::kept};
use evictd_eviction::record;
use evictd_pod::{Pod, pod::CONFIG_MIRROR, wire};
use jiff::Timestamp;
use serde::Deserialize;
use std::{borrow::Cow, collections::BTreeMap};

/// A second copy of the whole object, environment included, which nobody here needs.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The pods as last told.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    pods: BTreeMap<String, Listed>,
    /// While a list is under way: what has been in it so far.
    listing: Option<BTreeMap<String, Listed>>,
    /// Pods whose objects are not understood: what is wrong with them, and whether an earlier one is in use.
    unreadable: BTreeMap<String, (String, bool)>,
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

impl Identity<'_> {
    fn full_name(&self) -> String {
        match (self.namespace.as_ref(), self.name.as_ref()) {
            (_, "") => "without a name".to_owned(),
            ("", name) => format!("default/{name}"),
            (namespace, name) => format!("{namespace}/{name}"),
        }
    }
}

impl Catalog {
    /// A list begins; until it is whole the pods stay as they are.
    pub(super) fn begin(&mut self) {
        self.listing = Some(BTreeMap::new());
        self.unreadable.clear();
    }

    /// The list is whole, if one was under way; true then.
    pub(super) fn finish(&mut self) -> bool {
        let listed = self.listing.take();
        let was_listing = listed.is_some();
        self.pods = listed.unwrap_or_else(|| std::mem::take(&mut self.pods));
        was_listing
    }

    /// Whether a list is under way.
    pub(super) fn is_listing(&self) -> bool {
        self.listing.is_some()
    }

    /// A pod as it is now. One that is not understood stays as it was.
    pub(super) fn apply(&mut self, object: &str) {
        let head: Head<'_> = serde_json::from_str(object).unwrap_or_default();
        let (name, uid) = (head.metadata.full_name(), head.metadata.uid.into_owned());
        match read(object) {
            Ok(listed) if !uid.is_empty() => {
                self.unreadable.remove(&name);
                let pods = self.listing.as_mut().unwrap_or(&mut self.pods);
                pods.insert(uid, listed);
            }
            wrong => {
                let problem = wrong.err().map(|error| error.to_string());
                let problem = problem.unwrap_or_else(|| "it has no metadata.uid".to_owned());
                let earlier = self.pods.get(&uid).cloned();
                self.unreadable.insert(name, (problem, earlier.is_some()));
                if let (Some(earlier), Some(listing)) = (earlier, &mut self.listing) {
                    listing.insert(uid, earlier);
                }
            }
        }
    }

    /// A pod is gone.
    pub(super) fn delete(&mut self, object: &str) {
        let head: Head<'_> = serde_json::from_str(object).unwrap_or_default();
        self.pods.remove(head.metadata.uid.as_ref());
        self.unreadable.remove(&head.metadata.full_name());
    }

    /// What to publish.
    pub(super) fn listing(&self, stale: Option<Stale>) -> Listing {
        let unreadable = self.unreadable.iter();
        let unreadable = unreadable.map(|(pod, (problem, earlier_in_use))| Warning::Pod {
            pod: pod.clone(),
            problem: problem.clone(),
            earlier_in_use: *earlier_in_use,
        });
        let warnings = stale.iter().cloned().map(Warning::Stale);
        Listing {
            pods: self.pods.values().cloned().collect(),
            warnings: warnings.chain(unreadable).collect(),
            stale,
        }
    }
}

/// A pod of the wire as the node knows it: a static pod's image in the API has another UID than the pod itself.
fn read(object: &str) -> serde_json::Result<Listed> {
    let mut pod: wire::Pod = serde_json::from_str(object)?;
    pod.metadata.annotations.remove(LAST_APPLIED);
    pod.spec.affinity = None;
    pod.spec.topology_spread_constraints.clear();
    let (evicted, evicted_at) = (is_evicted(&pod), evicted_at(&pod));
    let wire = kept(&pod);
    if let Some(uid) = pod.metadata.annotations.get(CONFIG_MIRROR) {
        pod.metadata.uid.clone_from(uid);
    }
    Ok(Listed {
        pod: Pod::from_wire(pod),
        manifest: None,
        wire: Some(wire),
        evicted,
        evicted_at,
    })
}

/// By the kubelet: evictd leaves its own mark on those that it ends.
fn is_evicted(pod: &wire::Pod) -> bool {
    let status = &pod.status;
    let target = |condition: &evictd_pod::node::Condition| {
        condition.kind == "DisruptionTarget"
            && condition.status == "True"
            && condition.reason == "TerminationByKubelet"
    };
    let evicted = status.phase == "Failed" && status.reason == "Evicted";
    let ours = pod.metadata.annotations.contains_key(record::ANNOTATION);
    (evicted || status.conditions.iter().any(target)) && !ours
}

/// By evictd. Where all containers ended well the kubelet has emptied the reason; a mark that is older than the pod was
/// copied from another one.
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
    use evictd_pod::Critical;
    use serde_json::{Value, json};

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
        catalog.apply(&pod("a", "1").to_string());
        catalog.begin();
        catalog.apply(&pod("b", "2").to_string());
        assert_eq!(names(&catalog), ["shop/a 1"]);
        catalog.finish();
        assert_eq!(names(&catalog), ["shop/b 2"]);
        catalog.delete(&pod("b", "2").to_string());
        assert_eq!(names(&catalog), [""; 0]);
    }

    #[test]
    fn an_object_that_is_not_understood_leaves_the_pod_as_it_was() {
        let mut catalog = Catalog::default();
        let mut bad = pod("a", "1");
        bad["spec"]["priority"] = json!("high");
        catalog.apply(&bad.to_string());
        assert_eq!(names(&catalog), [""; 0]);
        assert!(warnings(&catalog)[0].starts_with("pod shop/a is not understood"));
        assert!(warnings(&catalog)[0].ends_with("it is never chosen"));
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
    fn a_static_pods_image_has_the_uid_of_the_static_pod() {
        let mut catalog = Catalog::default();
        let mut mirror = pod("etcd", "1");
        mirror["metadata"]["annotations"] = json!({
            "kubernetes.io/config.hash": "cafe", "kubernetes.io/config.mirror": "cafe",
        });
        catalog.apply(&mirror.to_string());
        assert_eq!(names(&catalog), ["shop/etcd cafe"]);
        let listing = catalog.listing(None);
        assert_eq!(listing.pods[0].pod.critical, Some(Critical::Mirror));
        catalog.delete(&mirror.to_string());
        assert_eq!(names(&catalog), [""; 0]);
    }

    #[test]
    fn what_is_kept_of_a_pod_says_the_same_and_holds_no_secrets() {
        let mut full = pod("a", "1");
        full["metadata"]["annotations"] = json!({LAST_APPLIED: "secret", "x": "y"});
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
