//! Cluster events: the changes of objects that plugins can register for (S5-022, S5-026, S5-031). A change that no plugin can
//! register for is no event.

use crate::change::{Change, Delta, is_assigned};
use evictd_pod::requests::may_be_resized;
use evictd_pod::wire::{self, Condition};
use evictd_pod::{Counted, Node, Requests, ResourceList, resources};
use std::collections::BTreeMap;

/// The resource and the action of an event (`ClusterEvent` in kube-scheduler).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    PodAdd,
    PodDelete,
    PodLabel,
    PodScaleDown,
    PodGatesEliminated,
    PodToleration,
    PodGeneratedClaim,
    /// Any other update.
    PodUpdate,
    NodeAdd,
    NodeDelete,
    NodeAllocatable,
    NodeLabel,
    NodeTaint,
    NodeCondition,
    NodeAnnotation,
    NodeDeclaredFeature,
    ClaimAdd,
    ClaimUpdate,
    VolumeAdd,
    VolumeUpdate,
    ClassAdd,
    ClassUpdate,
    CsiNodeAdd,
    CsiNodeUpdate,
    CsiDriverUpdate,
    CapacityAdd,
    CapacityUpdate,
    AttachmentDelete,
    DeviceClaimAdd,
    DeviceClaimUpdate,
    SliceAdd,
    SliceUpdate,
    DeviceClassAdd,
    DeviceClassUpdate,
    Namespace,
    Service,
    ReplicationController,
    ReplicaSet,
    StatefulSet,
    FailedPod,
    CsiDriverAdd,
    /// A storage object was deleted.
    StorageDelete,
    SliceDelete,
}

impl Kind {
    /// Whether kube-scheduler has no such event: its pods wait for the flush after five minutes.
    pub(crate) const fn is_overlooked(self) -> bool {
        matches!(
            self,
            Self::Namespace
                | Self::Service
                | Self::ReplicationController
                | Self::ReplicaSet
                | Self::StatefulSet
                | Self::FailedPod
                | Self::CsiDriverAdd
                | Self::StorageDelete
                | Self::SliceDelete
        )
    }

    pub(crate) const ALL: [Self; 43] = [
        Self::PodAdd,
        Self::PodDelete,
        Self::PodLabel,
        Self::PodScaleDown,
        Self::PodGatesEliminated,
        Self::PodToleration,
        Self::PodGeneratedClaim,
        Self::PodUpdate,
        Self::NodeAdd,
        Self::NodeDelete,
        Self::NodeAllocatable,
        Self::NodeLabel,
        Self::NodeTaint,
        Self::NodeCondition,
        Self::NodeAnnotation,
        Self::NodeDeclaredFeature,
        Self::ClaimAdd,
        Self::ClaimUpdate,
        Self::VolumeAdd,
        Self::VolumeUpdate,
        Self::ClassAdd,
        Self::ClassUpdate,
        Self::CsiNodeAdd,
        Self::CsiNodeUpdate,
        Self::CsiDriverUpdate,
        Self::CapacityAdd,
        Self::CapacityUpdate,
        Self::AttachmentDelete,
        Self::DeviceClaimAdd,
        Self::DeviceClaimUpdate,
        Self::SliceAdd,
        Self::SliceUpdate,
        Self::DeviceClassAdd,
        Self::DeviceClassUpdate,
        Self::Namespace,
        Self::Service,
        Self::ReplicationController,
        Self::ReplicaSet,
        Self::StatefulSet,
        Self::FailedPod,
        Self::CsiDriverAdd,
        Self::StorageDelete,
        Self::SliceDelete,
    ];
}

/// An event with the change that caused it.
#[derive(Debug, Clone)]
pub(crate) struct ClusterEvent {
    pub(crate) kind: Kind,
    pub(crate) change: Change,
}

impl ClusterEvent {
    /// Its name in metrics. A pod event begins with `AssignedPod` or `UnschedulablePod`.
    pub(crate) fn label(&self) -> &'static str {
        let waits =
            |pods: &Delta<wire::Pod>| pods.new.as_deref().is_some_and(|pod| !is_assigned(pod));
        match &self.change {
            Change::Pod(pods) if waits(pods) => label_of_waiting(self.kind),
            _ => label(self.kind),
        }
    }
}

/// The events of a change, in the order of kube-scheduler. For pods only updates have events here: the caller knows which pods
/// are added, bound and deleted.
pub(crate) fn of(change: &Change) -> Vec<ClusterEvent> {
    let kinds = match change {
        Change::Pod(pods) => pods
            .both()
            .map_or(Vec::new(), |(old, new)| of_pod(old, new)),
        Change::Node(nodes) => match (nodes.old.as_deref(), nodes.new.as_deref()) {
            (None, Some(_)) => vec![Kind::NodeAdd],
            (Some(_), None) => vec![Kind::NodeDelete],
            (Some(old), Some(new)) => of_node(old, new),
            (None, None) => Vec::new(),
        },
        Change::PersistentVolumeClaim(delta) => {
            of_storage(delta, Kind::ClaimAdd, Kind::ClaimUpdate)
        }
        Change::PersistentVolume(delta) => of_storage(delta, Kind::VolumeAdd, Kind::VolumeUpdate),
        Change::StorageClass(delta) => of_storage(delta, Kind::ClassAdd, Kind::ClassUpdate),
        Change::CsiNode(delta) => of_storage(delta, Kind::CsiNodeAdd, Kind::CsiNodeUpdate),
        Change::CsiDriver(delta) => of_storage(delta, Kind::CsiDriverAdd, Kind::CsiDriverUpdate),
        Change::CsiStorageCapacity(delta) => {
            of_storage(delta, Kind::CapacityAdd, Kind::CapacityUpdate)
        }
        Change::VolumeAttachment(delta) => {
            let is_gone = delta.old.is_some() && delta.new.is_none();
            is_gone
                .then_some(Kind::AttachmentDelete)
                .into_iter()
                .collect()
        }
        // The watch may have missed the update that deallocated the devices.
        Change::ResourceClaim(Delta {
            old: Some(_),
            new: None,
        }) => vec![Kind::DeviceClaimUpdate],
        Change::ResourceClaim(delta) => {
            of_other(delta, Kind::DeviceClaimAdd, Kind::DeviceClaimUpdate)
        }
        Change::ResourceSlice(Delta {
            old: Some(_),
            new: None,
        }) => vec![Kind::SliceDelete],
        Change::ResourceSlice(delta) => of_other(delta, Kind::SliceAdd, Kind::SliceUpdate),
        Change::DeviceClass(delta) => {
            of_other(delta, Kind::DeviceClassAdd, Kind::DeviceClassUpdate)
        }
        // Kubernetes' scheduler sees the slices change (S7-192). A new rule wakes no pod, because it only adds a taint. A controller
        // writes the status of rules often, which changes no slice.
        Change::DeviceTaintRule(Delta { old: None, .. }) => Vec::new(),
        Change::DeviceTaintRule(delta) => {
            where_changed(delta, Kind::SliceUpdate, |rule| &rule.spec)
        }
        Change::Namespace(delta) => where_changed(delta, Kind::Namespace, |namespace| {
            &namespace.metadata.labels
        }),
        Change::Service(delta) => {
            where_changed(delta, Kind::Service, |service| &service.spec.selector)
        }
        Change::ReplicationController(delta) => {
            where_changed(delta, Kind::ReplicationController, |controller| {
                &controller.spec.selector
            })
        }
        Change::ReplicaSet(delta) => {
            where_changed(delta, Kind::ReplicaSet, |set| &set.spec.selector)
        }
        Change::StatefulSet(delta) => {
            where_changed(delta, Kind::StatefulSet, |set| &set.spec.selector)
        }
        Change::FailedPod(_) => vec![Kind::FailedPod],
    };
    kinds
        .into_iter()
        .map(|kind| ClusterEvent {
            kind,
            change: change.clone(),
        })
        .collect()
}

fn of_other<T>(delta: &Delta<T>, add: Kind, update: Kind) -> Vec<Kind> {
    match (&delta.old, &delta.new) {
        (None, Some(_)) => vec![add],
        (Some(_), Some(_)) => vec![update],
        _ => Vec::new(),
    }
}

fn of_storage<T>(delta: &Delta<T>, add: Kind, update: Kind) -> Vec<Kind> {
    if delta.old.is_some() && delta.new.is_none() {
        return vec![Kind::StorageDelete];
    }
    of_other(delta, add, update)
}

/// The event if the object was added or deleted, or the part that filters read has changed.
fn where_changed<T, P: PartialEq>(
    delta: &Delta<T>,
    kind: Kind,
    part: impl Fn(&T) -> &P,
) -> Vec<Kind> {
    let same = delta
        .both()
        .is_some_and(|(old, new)| part(old) == part(new));
    if same { Vec::new() } else { vec![kind] }
}

/// S5-026.
fn of_pod(old: &wire::Pod, new: &wire::Pod) -> Vec<Kind> {
    let found: Vec<Kind> = [
        (old.metadata.labels != new.metadata.labels, Kind::PodLabel),
        (is_smaller(old, new), Kind::PodScaleDown),
        (
            !old.spec.scheduling_gates.is_empty() && new.spec.scheduling_gates.is_empty(),
            Kind::PodGatesEliminated,
        ),
        (
            old.spec.tolerations.len() != new.spec.tolerations.len(),
            Kind::PodToleration,
        ),
        (
            old.status.resource_claim_statuses != new.status.resource_claim_statuses,
            Kind::PodGeneratedClaim,
        ),
    ]
    .into_iter()
    .filter(|(changed, _)| *changed)
    .map(|(_, kind)| kind)
    .collect();
    // As kube-scheduler: an update without a specific event still is one.
    if found.is_empty() {
        vec![Kind::PodUpdate]
    } else {
        found
    }
}

/// Whether the pod requests less of any resource than before.
fn is_smaller(old: &wire::Pod, new: &wire::Pod) -> bool {
    let is_smaller = |[old, new]: [Units; 2]| {
        old.iter()
            .any(|(name, amount)| new.get(name).is_none_or(|now| now < amount))
    };
    counted_both(old, new).any(is_smaller)
}

/// Requests in units, by resource.
type Units = BTreeMap<String, i64>;

/// The requests of a pending pod.
pub(crate) fn counted(pod: &wire::Pod) -> Units {
    counted_as(pod, Counted::Scheduled)
}

fn counted_as(pod: &wire::Pod, counted: Counted) -> Units {
    Requests::of(pod, counted)
        .list()
        .iter()
        .map(|(name, amount)| (name.to_owned(), resources::units(name, *amount)))
        .collect()
}

/// The requests of two states of a pod, as each release counts them during an in-place resize. An event that helps by one of
/// these counts does no harm by the other.
pub(crate) fn counted_both<'p>(
    old: &'p wire::Pod,
    new: &'p wire::Pod,
) -> impl Iterator<Item = [Units; 2]> + 'p {
    let may_differ = may_be_resized(old) || may_be_resized(new);
    let counts = [
        Some(Counted::Scheduled),
        may_differ.then_some(Counted::ScheduledSums),
    ];
    counts
        .into_iter()
        .flatten()
        .map(move |counted| [old, new].map(|pod| counted_as(pod, counted)))
}

/// S5-022, S5-023: one event for each changed property. An uncordoned node counts as one that has lost a taint.
fn of_node(old: &Node, new: &Node) -> Vec<Kind> {
    let (before, after) = (&old.metadata, &new.metadata);
    [
        (
            old.spec.unschedulable && !new.spec.unschedulable,
            Kind::NodeTaint,
        ),
        (
            differ(&old.status.allocatable, &new.status.allocatable),
            Kind::NodeAllocatable,
        ),
        (before.labels != after.labels, Kind::NodeLabel),
        (old.spec.taints != new.spec.taints, Kind::NodeTaint),
        (
            conditions(&old.status.conditions) != conditions(&new.status.conditions),
            Kind::NodeCondition,
        ),
        (
            before.annotations != after.annotations,
            Kind::NodeAnnotation,
        ),
        (
            old.status.declared_features != new.status.declared_features,
            Kind::NodeDeclaredFeature,
        ),
    ]
    .into_iter()
    .filter(|(changed, _)| *changed)
    .map(|(_, kind)| kind)
    .collect()
}

fn differ(old: &ResourceList, new: &ResourceList) -> bool {
    let units = |list: &ResourceList| -> BTreeMap<String, i64> {
        list.iter()
            .map(|(name, amount)| (name.to_owned(), resources::units(name, *amount)))
            .collect()
    };
    units(old) != units(new)
}

/// The statuses by type. Heartbeat times do not count as a change.
fn conditions(conditions: &[Condition]) -> BTreeMap<&str, &str> {
    conditions
        .iter()
        .map(|condition| (&*condition.kind, condition.status.as_str()))
        .collect()
}

pub(crate) const fn label(kind: Kind) -> &'static str {
    match kind {
        Kind::PodAdd => "AssignedPodAdd",
        Kind::PodDelete => "AssignedPodDelete",
        Kind::PodLabel => "AssignedPodUpdatePodLabel",
        Kind::PodScaleDown => "AssignedPodUpdatePodScaleDown",
        Kind::PodGatesEliminated => "AssignedPodUpdatePodSchedulingGatesEliminated",
        Kind::PodToleration => "AssignedPodUpdatePodToleration",
        Kind::PodGeneratedClaim => "AssignedPodUpdatePodGeneratedResourceClaim",
        Kind::PodUpdate => "AssignedPodUpdate",
        Kind::NodeAdd => "NodeAdd",
        Kind::NodeDelete => "NodeDelete",
        Kind::NodeAllocatable => "NodeUpdateNodeAllocatable",
        Kind::NodeLabel => "NodeUpdateNodeLabel",
        Kind::NodeTaint => "NodeUpdateNodeTaint",
        Kind::NodeCondition => "NodeUpdateNodeCondition",
        Kind::NodeAnnotation => "NodeUpdateNodeAnnotation",
        Kind::NodeDeclaredFeature => "NodeUpdateNodeDeclaredFeature",
        Kind::ClaimAdd => "PersistentVolumeClaimAdd",
        Kind::ClaimUpdate => "PersistentVolumeClaimUpdate",
        Kind::VolumeAdd => "PersistentVolumeAdd",
        Kind::VolumeUpdate => "PersistentVolumeUpdate",
        Kind::ClassAdd => "storage.k8s.io/StorageClassAdd",
        Kind::ClassUpdate => "storage.k8s.io/StorageClassUpdate",
        Kind::CsiNodeAdd => "storage.k8s.io/CSINodeAdd",
        Kind::CsiNodeUpdate => "storage.k8s.io/CSINodeUpdate",
        Kind::CsiDriverUpdate => "storage.k8s.io/CSIDriverUpdate",
        Kind::CapacityAdd => "storage.k8s.io/CSIStorageCapacityAdd",
        Kind::CapacityUpdate => "storage.k8s.io/CSIStorageCapacityUpdate",
        Kind::AttachmentDelete => "storage.k8s.io/VolumeAttachmentDelete",
        Kind::DeviceClaimAdd => "resource.k8s.io/ResourceClaimAdd",
        Kind::DeviceClaimUpdate => "resource.k8s.io/ResourceClaimUpdate",
        Kind::SliceAdd => "resource.k8s.io/ResourceSliceAdd",
        Kind::SliceUpdate => "resource.k8s.io/ResourceSliceUpdate",
        Kind::DeviceClassAdd => "resource.k8s.io/DeviceClassAdd",
        Kind::DeviceClassUpdate => "resource.k8s.io/DeviceClassUpdate",
        Kind::Namespace => "NamespaceUpdate",
        Kind::Service => "ServiceUpdate",
        Kind::ReplicationController => "ReplicationControllerUpdate",
        Kind::ReplicaSet => "apps/ReplicaSetUpdate",
        Kind::StatefulSet => "apps/StatefulSetUpdate",
        Kind::FailedPod => "FailedPodUpdate",
        Kind::CsiDriverAdd => "storage.k8s.io/CSIDriverAdd",
        Kind::StorageDelete => "StorageDelete",
        Kind::SliceDelete => "resource.k8s.io/ResourceSliceDelete",
    }
}

/// The label under which the event wakes a waiting pod: some changes count only on that pod itself.
pub(crate) const fn label_of_waking(kind: Kind) -> &'static str {
    match kind {
        Kind::PodToleration | Kind::PodGatesEliminated | Kind::PodGeneratedClaim => {
            label_of_waiting(kind)
        }
        other => label(other),
    }
}

/// The labels of events of pods without a node.
const fn label_of_waiting(kind: Kind) -> &'static str {
    match kind {
        Kind::PodLabel => "UnschedulablePodUpdatePodLabel",
        Kind::PodScaleDown => "UnschedulablePodUpdatePodScaleDown",
        Kind::PodGatesEliminated => "UnschedulablePodUpdatePodSchedulingGatesEliminated",
        Kind::PodToleration => "UnschedulablePodUpdatePodToleration",
        Kind::PodGeneratedClaim => "UnschedulablePodUpdatePodGeneratedResourceClaim",
        Kind::PodUpdate => "UnschedulablePodUpdate",
        other => label(other),
    }
}
