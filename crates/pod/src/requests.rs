//! The requests of a pod. Every crate that compares requests calls [`Requests`], so that ranking, admission, placement
//! and batch count a pod alike, also during a resize.
//!
//! ```
//! use evictd_pod::{Quantity, requests::{Counted, Requests}, wire};
//!
//! let pod: wire::Pod = serde_json::from_str(r#"{
//!     "spec": {"containers": [{"name": "app"}], "resources": {"requests": {"memory": "64Gi"}}},
//!     "status": {
//!         "allocatedResources": {"memory": "1Gi"}, "resources": {"requests": {"memory": "1Gi"}},
//!         "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
//!     }
//! }"#)?;
//! let memory = |counted| Requests::of(&pod, counted).get("memory");
//! assert_eq!(memory(Counted::Desired), Quantity::bytes(64 << 30));
//! assert_eq!(memory(Counted::Scheduled), Quantity::bytes(1 << 30));
//! # Ok::<(), serde_json::Error>(())
//! ```

mod amounts;
mod limits;

use crate::{
    Quantity,
    compatibility::Release,
    quantity::Format,
    resources::{CPU, MEMORY, is_sidecar},
    wire::{Container, Pod, PodSpec, ResourceList, ResourceRequirements},
};
use amounts::{changes, pending};
pub use amounts::{differs, has_pod_level, may_be_resized, settle};
pub use limits::limits;
use std::borrow::Cow;

/// Which amounts count of a pod that is being resized in place: at container level, and at pod level for those resources
/// that can be set there. For a pod that is not being resized they are all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// The requests in the spec.
    Desired,
    /// The allocated amounts, by which the kubelet ranks pods (S1-068).
    Allocated,
    /// The larger of allocated and actual amounts, by which the kubelet checks whether a pod fits.
    InUse,
    /// The largest of the desired, the reserved and the running amounts of each container; the desired ones are left out once
    /// the node has reported that they are infeasible. By these kube-scheduler 1.36 fills nodes (S4-040).
    Scheduled,
    /// The largest of three sums over the containers: of the desired, the reserved and the running amounts. By these
    /// kube-scheduler 1.37 fills nodes (S7-225). A pod in which one container grows and another one shrinks counts less.
    ScheduledSums,
}

impl Counted {
    /// As the scheduler of this release counts.
    pub fn scheduled(release: Release) -> Self {
        if release >= Release::V1_37 {
            Self::ScheduledSums
        } else {
            Self::Scheduled
        }
    }
}

/// The requests of one pod.
#[derive(Debug, Clone)]
pub struct Requests<'a> {
    /// With the amounts that count.
    spec: Cow<'a, PodSpec>,
    /// Whether the resources of the pod as a whole count.
    pod_level: bool,
}

impl<'a> Requests<'a> {
    /// Of this pod, by these of its amounts.
    pub fn of(pod: &'a Pod, counted: Counted) -> Self {
        let mut spec = Cow::Borrowed(&*pod.spec);
        // The spec is copied only where the status differs from it, which is rare.
        for change in changes(pod, counted) {
            change.apply(spec.to_mut());
        }
        let pod_level = true;
        Self { spec, pod_level }
    }

    /// Of a pod that will be made from this spec.
    pub fn of_spec(spec: &'a PodSpec) -> Self {
        Self {
            spec: Cow::Borrowed(spec),
            pod_level: true,
        }
    }

    /// The same without the resources of the pod as a whole.
    #[must_use]
    pub fn without_pod_level(self) -> Self {
        Self {
            pod_level: false,
            ..self
        }
    }

    /// The amount allocated for the pod (S1-068, S4-041). A pod-level value replaces the containers' sum for its own
    /// resource only, and the overhead is always added.
    pub fn get(&self, resource: &str) -> Quantity {
        self.get_or(resource, Quantity::default())
    }

    /// The request by which nodes are scored (S5-086): a container that says nothing about cpu counts as 100m, about
    /// memory as 200Mi.
    pub fn for_scoring(&self, resource: &str) -> Quantity {
        let missing = match resource {
            CPU => Quantity::milli(100),
            MEMORY => Quantity::new(200 << 20, Format::BinarySi),
            _ => Quantity::default(),
        };
        self.get_or(resource, missing)
    }

    /// The request as the kubelet counts it for ranking and for choosing victims (S1-068): the resources at pod level alone
    /// if there are any, else those of the containers. Overhead is added only to a request above zero.
    pub(crate) fn of_kubelet(&self, resource: &str) -> Quantity {
        let pod_level = self.spec.resources.as_ref().filter(|resources| {
            self.pod_level && !(resources.requests.is_empty() && resources.limits.is_empty())
        });
        let request = match pod_level {
            Some(resources) => amount(&resources.requests, resource),
            None => containers_request(&self.spec, resource, Quantity::default()),
        };
        // The kubelet adds the overhead only to a resource that some container requests.
        if request.is_zero() {
            request
        } else {
            request + amount(&self.spec.overhead, resource)
        }
    }

    /// All requests, sorted by name. One pass over all lists is enough, because a pod may have many containers with
    /// different resources.
    pub fn list(&self) -> ResourceList {
        self.each().into_iter().collect()
    }

    /// The same without copies of the names.
    pub fn each(&self) -> Vec<(&str, Quantity)> {
        let requests = amounts(&self.spec, |resources| &resources.requests, self.pod_level);
        sums(requests, |sum| Some(sum.whole()))
    }

    fn get_or(&self, resource: &str, missing: Quantity) -> Quantity {
        let pod_level = self.spec.resources.as_ref().filter(|_| self.pod_level);
        let request = pod_level
            .and_then(|resources| resources.requests.get(resource).copied())
            .unwrap_or_else(|| containers_request(&self.spec, resource, missing));
        request + amount(&self.spec.overhead, resource)
    }
}

/// All amounts that a pod lists, of its requests or of its limits.
fn amounts(
    spec: &PodSpec,
    list: fn(&ResourceRequirements) -> &ResourceList,
    pod_level: bool,
) -> Vec<(&str, Amount)> {
    type Kind = fn(Quantity) -> Amount;
    let running = spec.containers.iter();
    let running = running.map(|container| (Amount::Running as Kind, list(&container.resources)));
    let init = spec.init_containers.iter().map(|container| {
        let kind = if is_sidecar(container) {
            Amount::Sidecar as Kind
        } else {
            Amount::Starting
        };
        (kind, list(&container.resources))
    });
    let pod_level = spec.resources.iter().filter(|_| pod_level);
    let others = pod_level
        .map(|resources| (Amount::PodLevel as Kind, list(resources)))
        .chain([(Amount::Overhead as Kind, &spec.overhead)]);
    let lists = running.chain(init).chain(others);
    lists
        .flat_map(|(kind, list)| list.iter().map(move |(name, amount)| (name, kind(*amount))))
        .collect()
}

/// The sum of each resource, sorted by name.
fn sums(
    mut amounts: Vec<(&str, Amount)>,
    total: fn(&Sum) -> Option<Quantity>,
) -> Vec<(&str, Quantity)> {
    // The containers stay in their order.
    amounts.sort_by_key(|(name, _)| *name);
    let by_name = amounts.chunk_by(|(one, _), (other, _)| one == other);
    let sums = by_name.filter_map(|entries| {
        let mut sum = Sum::default();
        for (_, amount) in entries {
            sum.add(*amount);
        }
        Some((entries.first()?.0, total(&sum)?))
    });
    sums.collect()
}

fn amount(list: &ResourceList, resource: &str) -> Quantity {
    list.get(resource).copied().unwrap_or_default()
}

/// The request of the containers: the larger of two amounts. One is the sum of all that run side by side; the other is the
/// most that is needed while the pod starts, by an init container and the sidecars that were started before it.
///
/// A container that says nothing about the resource counts as `missing`.
pub(crate) fn containers_request(spec: &PodSpec, resource: &str, missing: Quantity) -> Quantity {
    let wanted = |container: &Container| {
        let requests = &container.resources.requests;
        requests.get(resource).copied().unwrap_or(missing)
    };
    let mut sum = Sum::default();
    for container in &spec.containers {
        sum.add(Amount::Running(wanted(container)));
    }
    for container in &spec.init_containers {
        let amount = wanted(container);
        sum.add(if is_sidecar(container) {
            Amount::Sidecar(amount)
        } else {
            Amount::Starting(amount)
        });
    }
    sum.of_containers()
}

/// An amount of one resource, by where it is listed.
#[derive(Debug, Clone, Copy)]
enum Amount {
    Running(Quantity),
    Sidecar(Quantity),
    /// Of an init container that ends.
    Starting(Quantity),
    PodLevel(Quantity),
    Overhead(Quantity),
}

/// The sum of one resource over a pod's lists, in their order.
#[derive(Debug, Default)]
struct Sum {
    running: Quantity,
    /// Of those that were started before the next init container.
    sidecars: Quantity,
    at_start: Quantity,
    pod_level: Option<Quantity>,
    overhead: Quantity,
}

impl Sum {
    fn add(&mut self, amount: Amount) {
        match amount {
            Amount::Running(amount) => self.running += amount,
            Amount::Sidecar(amount) => {
                self.running += amount;
                self.sidecars += amount;
                // A sidecar keeps running while the init containers after it start.
                self.at_start = self.sidecars.max(self.at_start);
            }
            Amount::Starting(amount) => self.at_start = (self.sidecars + amount).max(self.at_start),
            Amount::PodLevel(amount) => self.pod_level = Some(amount),
            Amount::Overhead(amount) => self.overhead = amount,
        }
    }

    fn of_containers(&self) -> Quantity {
        self.at_start.max(self.running)
    }

    fn whole(&self) -> Quantity {
        // An amount of the whole pod replaces the amounts of its containers.
        self.pod_level.unwrap_or_else(|| self.of_containers()) + self.overhead
    }
}

/// How far a resize has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ResizeState {
    /// The node has not said anything about it yet.
    Pending,
    /// The node has no room for it now, and tries again.
    Deferred,
    /// The node can never have room for it.
    Infeasible,
}

impl ResizeState {
    /// `is infeasible`, as a sentence about the resize ends.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Deferred => "deferred",
            Self::Infeasible => "infeasible",
        }
    }
}

/// A resize of which the node has not reserved the amounts.
#[derive(Debug, Clone)]
pub struct Resize {
    /// How far it has come.
    pub state: ResizeState,
    /// The requests that the spec asks for.
    desired: ResourceList,
}

impl Resize {
    /// The resize that a pod waits for.
    pub(crate) fn of(pod: &Pod) -> Option<Self> {
        // A condition alone is no resize: it may be left from one that has been granted meanwhile.
        if changes(pod, Counted::Allocated).is_empty() {
            return None;
        }
        let state = match pending(&pod.status).map(|condition| &*condition.reason) {
            Some("Infeasible") => ResizeState::Infeasible,
            Some("Deferred") => ResizeState::Deferred,
            _ => ResizeState::Pending,
        };
        let desired = Requests::of(pod, Counted::Desired).list();
        Some(Self { state, desired })
    }

    /// The request of one resource in the spec.
    pub fn desired(&self, resource: &str) -> Quantity {
        amount(&self.desired, resource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::EPHEMERAL_STORAGE;

    fn spec(json: &str) -> PodSpec {
        serde_json::from_str(json).unwrap()
    }

    fn kubelet(spec: &PodSpec, resource: &str) -> Quantity {
        Requests::of_spec(spec).of_kubelet(resource)
    }

    const SIDECAR: &str = r#"{"containers":[{"resources":{"requests":{"memory":"100Mi"}}},{"resources":{"requests":{"memory":"50Mi"}}}],
        "initContainers":[{"restartPolicy":"Always","resources":{"requests":{"memory":"30Mi"}}},{"resources":{"requests":{"memory":"MAX"}}}],
        "overhead":{"memory":"5Mi","cpu":"10m"}}"#;

    #[test]
    fn s1_068_containers_and_sidecars_against_the_largest_init_container() {
        let memory = |max: &str| kubelet(&spec(&SIDECAR.replace("MAX", max)), MEMORY).to_string();
        assert_eq!(memory("10Mi"), "185Mi");
        assert_eq!(memory("500Mi"), "535Mi");
    }

    #[test]
    fn s1_068_overhead_never_makes_a_request_out_of_nothing() {
        assert!(kubelet(&spec(SIDECAR.replace("MAX", "1").as_str()), CPU).is_zero());
    }

    #[test]
    fn s1_068_pod_level_resources_hide_the_containers() {
        let pod = r#"{"containers":[{"resources":{"requests":{"memory":"1Gi","ephemeral-storage":"1Gi"}}}],"resources":{"limits":{"memory":"2Gi"},"requests":{"cpu":"1"}}}"#;
        assert!(kubelet(&spec(pod), MEMORY).is_zero());
        assert!(kubelet(&spec(pod), EPHEMERAL_STORAGE).is_zero());
        assert_eq!(kubelet(&spec(pod), CPU).to_string(), "1");
        let empty = pod.replace(r#""limits":{"memory":"2Gi"},"requests":{"cpu":"1"}"#, "");
        assert_eq!(kubelet(&spec(&empty), MEMORY).to_string(), "1Gi");
    }

    #[test]
    fn s1_068_an_init_container_starts_beside_earlier_sidecars_only() {
        let request = |json: &str| kubelet(&spec(json), MEMORY).to_string();
        let (sidecar, starter) = (
            r#"{"restartPolicy":"Always","resources":{"requests":{"memory":"10Mi"}}}"#,
            r#"{"resources":{"requests":{"memory":"128Mi"}}}"#,
        );
        let pod = |init: [&str; 2]| format!(r#"{{"initContainers":[{}]}}"#, init.join(","));
        assert_eq!(request(&pod([sidecar, starter])), "138Mi");
        assert_eq!(request(&pod([starter, sidecar])), "128Mi");
    }

    #[test]
    fn s1_068_the_scheduler_takes_pod_level_values_one_by_one_and_always_adds_overhead() {
        let pod = spec(
            r#"{"containers":[{"resources":{"requests":{"memory":"1Gi","cpu":"3"}}}],
            "resources":{"requests":{"cpu":"1"}},"overhead":{"memory":"1Mi","ephemeral-storage":"2Mi"}}"#,
        );
        let request = |resource| Requests::of_spec(&pod).get(resource).to_string();
        assert_eq!(request(CPU), "1");
        assert_eq!(request(MEMORY), "1025Mi");
        assert_eq!(request(EPHEMERAL_STORAGE), "2Mi");
    }
}
