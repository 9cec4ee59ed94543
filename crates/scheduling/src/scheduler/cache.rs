//! The objects of the cluster that decisions depend on, kept up to date by watch events.

use crate::change::{Change, Delta, is_assigned};
use evictd_placement::{Cluster, InvalidObject, SpreadSource};
use evictd_pod::wire;
use evictd_pod::wire::PodPhase;
use evictd_preemption::Budget;

/// The cluster with its assumed pods, and the disruption budgets.
pub(super) struct Cache {
    pub(super) cluster: Cluster,
    pub(super) budgets: Vec<Budget>,
    /// Errors of objects that were left out, a line each.
    invalid_objects: Vec<String>,
}

impl Cache {
    pub(super) const fn new(cluster: Cluster) -> Self {
        Self {
            cluster,
            budgets: Vec::new(),
            invalid_objects: Vec::new(),
        }
    }

    pub(super) fn take_invalid_objects(&mut self) -> Vec<String> {
        std::mem::take(&mut self.invalid_objects)
    }

    fn on_service(&mut self, kind: SpreadSource, delta: &Delta<wire::Service>) {
        match (&delta.old, &delta.new) {
            (_, Some(new)) if kind == SpreadSource::Service => self.cluster.add_service(new),
            (_, Some(new)) => self.cluster.add_replication_controller(new),
            (Some(old), None) => {
                self.cluster.remove_spread_source(kind, &old.metadata);
            }
            (None, None) => {}
        }
    }

    fn on_workload(&mut self, kind: SpreadSource, delta: &Delta<wire::Workload>) {
        match (&delta.old, &delta.new) {
            (_, Some(new)) => {
                let added = self.cluster.add_workload(kind, new);
                self.note(&new.metadata, added);
            }
            (Some(old), None) => {
                self.cluster.remove_spread_source(kind, &old.metadata);
            }
            (None, None) => {}
        }
    }

    /// Budgets wake no pod.
    pub(super) fn on_budget(&mut self, delta: &Delta<wire::PodDisruptionBudget>) {
        if let Some(old) = &delta.old {
            let name = old.metadata.full_name();
            // A budget with an invalid selector was not added.
            let known = self.budgets.iter().position(|budget| budget.name == name);
            if let Some(index) = known {
                self.budgets.remove(index).release(&mut self.cluster);
            }
        }
        if let Some(new) = &delta.new {
            match Budget::new(&mut self.cluster, new) {
                Ok(budget) => self.budgets.push(budget),
                Err(error) => {
                    let name = new.metadata.full_name();
                    let message = format!("{name}: spec.selector: {error}");
                    self.invalid_objects.push(message);
                }
            }
        }
    }

    /// Keeps the error of an object that was not added.
    fn note(&mut self, metadata: &wire::Metadata, added: Result<(), InvalidObject>) {
        if let Err(invalid) = added {
            let message = format!("{}: {invalid}", metadata.full_name());
            self.invalid_objects.push(message);
        }
    }

    /// Applies a change of an object that may wake waiting pods.
    pub(super) fn apply(&mut self, change: &Change) {
        let cluster = &mut self.cluster;
        match change {
            Change::Pod(pods) => self.apply_pod(pods),
            Change::Node(Delta { new: Some(new), .. }) => cluster.update_node(new),
            Change::Node(Delta { old: Some(old), .. }) => {
                cluster.remove_node(&old.metadata.name);
            }
            Change::PersistentVolumeClaim(Delta { new: Some(new), .. }) => {
                let added = cluster.add_claim(new);
                self.note(&new.metadata, added);
            }
            Change::PersistentVolumeClaim(Delta { old: Some(old), .. }) => {
                cluster.remove_claim(&old.metadata);
            }
            Change::PersistentVolume(Delta { new: Some(new), .. }) => {
                let added = cluster.add_volume(new);
                self.note(&new.metadata, added);
            }
            Change::PersistentVolume(Delta { old: Some(old), .. }) => {
                cluster.remove_volume(&old.metadata.name);
            }
            Change::StorageClass(Delta { new: Some(new), .. }) => {
                let added = cluster.add_storage_class(new);
                self.note(&new.metadata, added);
            }
            Change::StorageClass(Delta { old: Some(old), .. }) => {
                cluster.remove_storage_class(&old.metadata.name);
            }
            Change::CsiNode(Delta { new: Some(new), .. }) => cluster.add_csi_node(new),
            Change::CsiNode(Delta { old: Some(old), .. }) => {
                cluster.remove_csi_node(&old.metadata.name);
            }
            Change::VolumeAttachment(Delta { new: Some(new), .. }) => {
                cluster.add_volume_attachment(new);
            }
            Change::VolumeAttachment(Delta { old: Some(old), .. }) => {
                cluster.remove_volume_attachment(&old.metadata.name);
            }
            Change::CsiDriver(Delta { new: Some(new), .. }) => cluster.add_csi_driver(new),
            Change::CsiDriver(Delta { old: Some(old), .. }) => {
                cluster.remove_csi_driver(&old.metadata.name);
            }
            Change::CsiStorageCapacity(Delta { new: Some(new), .. }) => {
                let added = cluster.add_storage_capacity(new);
                self.note(&new.metadata, added);
            }
            Change::CsiStorageCapacity(Delta { old: Some(old), .. }) => {
                cluster.remove_storage_capacity(&old.metadata);
            }
            Change::ResourceClaim(delta) => self.apply_resource_claim(delta),
            Change::ResourceSlice(Delta { new: Some(new), .. }) => {
                cluster.devices_mut().put_slice((**new).clone());
            }
            Change::ResourceSlice(Delta { old: Some(old), .. }) => {
                cluster.devices_mut().remove_slice(&old.metadata.name);
            }
            Change::DeviceClass(Delta { new: Some(new), .. }) => {
                cluster.put_device_class((**new).clone());
            }
            Change::DeviceClass(Delta { old: Some(old), .. }) => {
                cluster.remove_device_class(&old.metadata.name);
            }
            Change::DeviceTaintRule(Delta { new: Some(new), .. }) => {
                cluster.put_device_taint_rule((**new).clone());
            }
            Change::DeviceTaintRule(Delta { old: Some(old), .. }) => {
                cluster.remove_device_taint_rule(&old.metadata.name);
            }
            Change::Namespace(Delta { new: Some(new), .. }) => cluster.add_namespace(new),
            Change::Namespace(Delta { old: Some(old), .. }) => {
                cluster.remove_namespace(&old.metadata.name);
            }
            Change::Service(delta) => self.on_service(SpreadSource::Service, delta),
            Change::ReplicationController(delta) => {
                self.on_service(SpreadSource::ReplicationController, delta);
            }
            Change::ReplicaSet(delta) => self.on_workload(SpreadSource::ReplicaSet, delta),
            Change::StatefulSet(delta) => self.on_workload(SpreadSource::StatefulSet, delta),
            Change::FailedPod(Delta { new: Some(new), .. }) => cluster.add_evicted(new),
            Change::FailedPod(Delta { old: Some(old), .. }) => {
                cluster.remove_evicted(&old.metadata);
            }
            _ => {}
        }
    }

    fn apply_resource_claim(&mut self, delta: &Delta<wire::ResourceClaim>) {
        let devices = self.cluster.devices_mut();
        match (&delta.old, &delta.new) {
            (_, Some(new)) => devices.put_claim((**new).clone()),
            (Some(old), None) => {
                let metadata = &old.metadata;
                devices.remove_claim(metadata.namespace_or_default(), &metadata.name);
            }
            (None, None) => {}
        }
    }

    /// Only pods with a node are kept, and the others noted. An assumed pod is confirmed on the node that it has now (S5-068).
    fn apply_pod(&mut self, pods: &Delta<wire::Pod>) {
        if let (Some(old), Some(new)) = (&pods.old, &pods.new)
            && old.metadata.uid != new.metadata.uid
        {
            self.cluster.remove_pod(&old.metadata);
        }
        match (&pods.old, &pods.new) {
            (_, Some(new)) if is_assigned(new) => {
                let added = self.cluster.add_pod((**new).clone());
                self.note(&new.metadata, added);
            }
            (Some(old), new) if new.is_none() || is_assigned(old) => {
                if old.status.phase == PodPhase::Failed {
                    self.cluster.remove_evicted(&old.metadata);
                }
                self.cluster.remove_pod(&old.metadata);
                if let Some(new) = new {
                    self.cluster.note_pod(new);
                }
            }
            (_, Some(new)) => self.cluster.note_pod(new),
            _ => {}
        }
    }

    /// Nominates a node for a pod without a node. `None` withdraws the nomination.
    pub(super) fn set_nomination(&mut self, pod: &wire::Pod, node: Option<&str>) {
        let Some(node) = node else {
            self.cluster.remove_nominated(&pod.metadata);
            return;
        };
        // The status may not show the nomination yet.
        let mut nominated = pod.clone();
        node.clone_into(&mut nominated.status.nominated_node_name);
        let added = self.cluster.add_pod(nominated);
        self.note(&pod.metadata, added);
    }
}
