//! Queueing hints of the default plugins: the events that each registers, and whether an event may make a pod schedulable that
//! the plugin rejected. A file for each family of plugins.

mod devices;
mod inter_pod_affinity;
mod nodes;
mod overlooked;
mod pods;
mod selection;
mod topology_spread;
mod volumes;

use crate::change::{Change, is_same};
use crate::events::{ClusterEvent, Kind, label_of_waking};
use crate::plugins::PluginName::{
    self, DefaultPreemption, DynamicResources, InterPodAffinity, NodeAffinity,
    NodeDeclaredFeatures, NodeName, NodePorts, NodeResourcesFit, NodeUnschedulable,
    NodeVolumeLimits, Other, PodTopologySpread, SchedulingGates, TaintToleration, VolumeBinding,
    VolumeRestrictions, VolumeZone,
};
use crate::plugins::PluginSet;
use evictd_placement::Features;
use evictd_pod::selector::SelectorError;
use evictd_pod::wire;

/// The result of a hint. An error counts as true (S5-032).
type Hint = Result<bool, SelectorError>;

/// Plugins for which every change of a taint wakes the pod (S5-035).
const WOKEN_BY_TAINTS: [PluginName; 10] = [
    NodeName,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    VolumeBinding,
    VolumeZone,
    InterPodAffinity,
    DynamicResources,
    NodeDeclaredFeatures,
];

/// The events that may wake a pod that these plugins rejected, each with the plugins that registered it.
pub fn waking_events(rejectors: PluginSet) -> Vec<(&'static str, Vec<&'static str>)> {
    let others = [Other].into_iter().collect();
    Kind::ALL
        .into_iter()
        .filter_map(|kind| {
            let names: Vec<_> = registered(kind)
                .or(others)
                .and(rejectors)
                .iter()
                .map(PluginName::as_str)
                .collect();
            (!names.is_empty()).then(|| (label_of_waking(kind), names))
        })
        .collect()
}

/// The plugins that the event may wake a pod for.
pub(crate) fn registered(kind: Kind) -> PluginSet {
    registered_in_kube_scheduler(kind).or(overlooked::registered(kind))
}

/// The plugins of kube-scheduler's default profile that registered the event (`EventsToRegister`).
pub(crate) fn registered_in_kube_scheduler(kind: Kind) -> PluginSet {
    let plugins: &[PluginName] = match kind {
        Kind::PodAdd => &[PodTopologySpread, InterPodAffinity],
        Kind::PodDelete => &[
            NodePorts,
            NodeResourcesFit,
            VolumeRestrictions,
            NodeVolumeLimits,
            PodTopologySpread,
            InterPodAffinity,
            DefaultPreemption,
        ],
        Kind::PodLabel => &[PodTopologySpread, InterPodAffinity, NodeDeclaredFeatures],
        Kind::PodScaleDown => &[NodeResourcesFit, NodeDeclaredFeatures],
        Kind::PodGatesEliminated => &[SchedulingGates, NodeDeclaredFeatures],
        Kind::PodToleration => &[
            NodeUnschedulable,
            TaintToleration,
            PodTopologySpread,
            NodeDeclaredFeatures,
        ],
        Kind::PodGeneratedClaim => &[DynamicResources, NodeDeclaredFeatures],
        Kind::PodUpdate | Kind::NodeDeclaredFeature => &[NodeDeclaredFeatures],
        Kind::NodeAdd => &[
            NodeUnschedulable,
            TaintToleration,
            PodTopologySpread,
            NodeName,
            NodeAffinity,
            NodePorts,
            NodeResourcesFit,
            VolumeRestrictions,
            VolumeBinding,
            VolumeZone,
            InterPodAffinity,
            DynamicResources,
            NodeDeclaredFeatures,
        ],
        Kind::NodeDelete => &[PodTopologySpread],
        Kind::NodeAllocatable => &[NodeResourcesFit, DynamicResources],
        Kind::NodeLabel => &[
            NodeAffinity,
            VolumeBinding,
            VolumeZone,
            PodTopologySpread,
            InterPodAffinity,
            DynamicResources,
        ],
        Kind::NodeTaint => {
            return [NodeUnschedulable, TaintToleration, PodTopologySpread]
                .into_iter()
                .chain(WOKEN_BY_TAINTS)
                .collect();
        }
        Kind::NodeCondition
        | Kind::NodeAnnotation
        | Kind::Namespace
        | Kind::Service
        | Kind::ReplicationController
        | Kind::ReplicaSet
        | Kind::StatefulSet
        | Kind::FailedPod
        | Kind::CsiDriverAdd
        | Kind::StorageDelete
        | Kind::SliceDelete => &[],
        Kind::ClaimAdd => &[
            VolumeRestrictions,
            NodeVolumeLimits,
            VolumeBinding,
            VolumeZone,
        ],
        Kind::ClaimUpdate | Kind::VolumeAdd | Kind::VolumeUpdate | Kind::ClassAdd => {
            &[VolumeBinding, VolumeZone]
        }
        Kind::ClassUpdate | Kind::CsiDriverUpdate | Kind::CapacityAdd | Kind::CapacityUpdate => {
            &[VolumeBinding]
        }
        Kind::CsiNodeAdd | Kind::CsiNodeUpdate => &[VolumeBinding, NodeVolumeLimits],
        Kind::AttachmentDelete => &[NodeVolumeLimits],
        Kind::DeviceClaimAdd
        | Kind::DeviceClaimUpdate
        | Kind::SliceAdd
        | Kind::SliceUpdate
        | Kind::DeviceClassAdd
        | Kind::DeviceClassUpdate => &[DynamicResources],
    };
    plugins.iter().copied().collect()
}

/// Whether the event may make a pod schedulable that this plugin rejected. The plugin must have registered the event. Unlike
/// kube-scheduler this overlooks no event.
pub(crate) fn wakes(plugin: PluginName, pod: &wire::Pod, event: &ClusterEvent) -> bool {
    wakes_in_kube_scheduler(plugin, pod, event) || overlooked::wakes(plugin, pod, event)
}

/// As [`wakes`], with the hints of kube-scheduler 1.36.
pub(crate) fn wakes_in_kube_scheduler(
    plugin: PluginName,
    pod: &wire::Pod,
    event: &ClusterEvent,
) -> bool {
    let woken_by_taints = event.kind == Kind::NodeTaint && WOKEN_BY_TAINTS.contains(&plugin);
    if woken_by_taints || plugin == Other {
        return true;
    }
    // Only `overlooked` has hints for them.
    if event.kind.is_overlooked() {
        return false;
    }
    let hint = match &event.change {
        Change::Pod(delta) => match (delta.old.as_deref(), delta.new.as_deref()) {
            (None, Some(new)) => on_new_pod(plugin, pod, new),
            (Some(old), None) => on_deleted_pod(plugin, pod, old),
            (Some(old), Some(new)) => on_changed_pod(plugin, pod, old, new),
            (None, None) => Ok(false),
        },
        Change::Node(delta) => match (plugin, delta.old.as_deref(), delta.new.as_deref()) {
            (PodTopologySpread, old, new) => topology_spread::on_node(pod, old, new),
            (NodeUnschedulable, old, Some(new)) => Ok(nodes::uncordoned(old, new)),
            (TaintToleration, old, Some(new)) => Ok(nodes::tolerated(pod, old, new)),
            (NodeAffinity, old, Some(new)) => Ok(nodes::affine(pod, old, new)),
            (NodeResourcesFit, old, Some(new)) => Ok(nodes::large_enough(pod, old, new)),
            (InterPodAffinity, old, Some(new)) => Ok(inter_pod_affinity::on_node(pod, old, new)),
            _ => Ok(true),
        },
        Change::ResourceClaim(delta) => Ok(devices::on_claim(pod, delta)),
        change => Ok(volumes::on_storage(plugin, pod, change)),
    };
    hint.unwrap_or(true)
}

fn on_new_pod(plugin: PluginName, pod: &wire::Pod, new: &wire::Pod) -> Hint {
    match plugin {
        PodTopologySpread => topology_spread::on_other_pod(pod, new),
        InterPodAffinity => inter_pod_affinity::on_new_pod(pod, new),
        _ => Ok(true),
    }
}

fn on_deleted_pod(plugin: PluginName, pod: &wire::Pod, old: &wire::Pod) -> Hint {
    match plugin {
        NodePorts => Ok(pods::frees_port(pod, old)),
        NodeResourcesFit => Ok(crate::change::takes_room(old)),
        VolumeRestrictions => Ok(volumes::frees_disk(pod, old)),
        NodeVolumeLimits => Ok(volumes::frees_attachment(old)),
        PodTopologySpread => topology_spread::on_other_pod(pod, old),
        InterPodAffinity => inter_pod_affinity::on_deleted_pod(pod, old),
        // The hints of the plugins that rejected the pod before its preemption decide (S5-112).
        DefaultPreemption => Ok(false),
        _ => Ok(true),
    }
}

fn on_changed_pod(plugin: PluginName, pod: &wire::Pod, old: &wire::Pod, new: &wire::Pod) -> Hint {
    let is_same_pod = is_same(&pod.metadata, &new.metadata);
    match plugin {
        NodeUnschedulable => Ok(is_same_pod && nodes::tolerates_cordon(new)),
        NodeDeclaredFeatures => {
            Ok(is_same_pod && Features::of_pod(&old.spec) != Features::of_pod(&new.spec))
        }
        NodeResourcesFit => Ok(is_same_pod || pods::frees_resource(pod, old, new)),
        PodTopologySpread => topology_spread::on_changed_pod(pod, old, new),
        InterPodAffinity => inter_pod_affinity::on_changed_pod(pod, old, new),
        _ => Ok(is_same_pod),
    }
}
