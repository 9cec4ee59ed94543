//! The objects beside nodes and pods: claims, volumes and storage classes, services and workloads for the default spread
//! constraints, devices, the choices of a gang, and texts that profiles compile.

use super::Cluster;
use super::group_claims::GroupClaims;
use super::sharing::Chosen;
use crate::devices::DeviceChoice;
use crate::id::NodeId;
use crate::invalid_object::InvalidObject;
use crate::labels::Labels;
use crate::pod::Pod;
use crate::selector::Selector;
use crate::spread_sources::{self, SpreadSource};
use crate::storage::Storage;
use crate::symbol::{Symbol, Symbols};
use crate::table::Objects;
use crate::volumes::VolumeChoice;
use evictd_devices::Inventory;
use evictd_pod::compatibility::Gate;
use evictd_pod::wire;

impl Cluster {
    /// Adds a storage object. An invalid object adds nothing.
    fn stored<T>(
        &mut self,
        add: fn(&mut Storage, &mut Symbols, &T) -> Result<(), InvalidObject>,
        wire: &T,
    ) -> Result<(), InvalidObject> {
        self.changes.all();
        let added = add(&mut self.storage, &mut self.symbols, wire);
        if added.is_err() {
            self.symbols.give_back();
        }
        added
    }

    /// Removes a storage object. Returns whether it existed.
    fn removed<T>(&mut self, of: fn(&mut Storage) -> &mut Objects<Symbol, T>, name: &str) -> bool {
        self.changes.all();
        let name = self.symbols.get(name);
        name.is_some_and(|name| of(&mut self.storage).remove(&mut self.symbols, &name))
    }

    /// Removes a storage object in a namespace. Returns whether it existed.
    fn removed_from_namespace<T>(
        &mut self,
        of: fn(&mut Storage) -> &mut Objects<(Symbol, Symbol), T>,
        metadata: &wire::Metadata,
    ) -> bool {
        self.changes.all();
        let symbols = &mut self.symbols;
        let namespace = symbols.get(metadata.namespace_or_default());
        let key = namespace.zip(symbols.get(&metadata.name));
        key.is_some_and(|key| of(&mut self.storage).remove(symbols, &key))
    }

    /// Adds or replaces a claim.
    pub fn add_claim(&mut self, wire: &wire::PersistentVolumeClaim) -> Result<(), InvalidObject> {
        self.stored(Storage::add_claim, wire)
    }

    /// Adds a claim that asks for the same as a known one and has no volume yet. `None` if that is not known, or cannot be copied.
    pub fn new_claim_like(
        &mut self,
        namespace: &str,
        known: &str,
        name: String,
    ) -> Option<wire::Metadata> {
        let key = (self.symbols.get(namespace)?, self.symbols.get(known)?);
        let known = self.storage.claims.get(&key)?;
        let claim = known.like(&self.symbols, name)?;
        let name = self.symbols.get(&claim.metadata.name);
        if name.is_some_and(|name| self.storage.claims.get(&(key.0, name)).is_some()) {
            return None;
        }
        self.add_claim(&claim).ok()?;
        Some(claim.metadata)
    }

    /// Removes a claim. Returns whether it existed.
    pub fn remove_claim(&mut self, metadata: &wire::Metadata) -> bool {
        self.removed_from_namespace(|storage| &mut storage.claims, metadata)
    }

    /// Adds or replaces a volume.
    pub fn add_volume(&mut self, wire: &wire::PersistentVolume) -> Result<(), InvalidObject> {
        self.stored(Storage::add_volume, wire)
    }

    /// Removes a volume. Returns whether it existed.
    pub fn remove_volume(&mut self, name: &str) -> bool {
        self.removed(|storage| &mut storage.volumes, name)
    }

    /// Adds or replaces a storage class.
    pub fn add_storage_class(&mut self, wire: &wire::StorageClass) -> Result<(), InvalidObject> {
        self.stored(Storage::add_class, wire)
    }

    /// Removes a storage class. Returns whether it existed.
    pub fn remove_storage_class(&mut self, name: &str) -> bool {
        self.removed(|storage| &mut storage.classes, name)
    }

    /// Adds or replaces a `CSIStorageCapacity`.
    pub fn add_storage_capacity(
        &mut self,
        wire: &wire::CsiStorageCapacity,
    ) -> Result<(), InvalidObject> {
        self.stored(Storage::add_capacity, wire)
    }

    /// Removes a `CSIStorageCapacity`. Returns whether it existed.
    pub fn remove_storage_capacity(&mut self, metadata: &wire::Metadata) -> bool {
        self.removed_from_namespace(|storage| &mut storage.capacities, metadata)
    }

    /// Adds or replaces a `CSIDriver`.
    pub fn add_csi_driver(&mut self, wire: &wire::CsiDriverObject) {
        self.changes.all();
        self.storage.add_driver(&mut self.symbols, wire);
    }

    /// Removes a `CSIDriver`. Returns whether it existed.
    pub fn remove_csi_driver(&mut self, name: &str) -> bool {
        self.removed(|storage| &mut storage.drivers, name)
    }

    /// Adds or replaces a `CSINode`, which holds the attach limits of a node.
    pub fn add_csi_node(&mut self, wire: &wire::CsiNode) {
        self.changes.all();
        self.storage.add_csi_node(&mut self.symbols, wire);
    }

    /// Removes a `CSINode`. Returns whether it existed.
    pub fn remove_csi_node(&mut self, name: &str) -> bool {
        self.removed(|storage| &mut storage.limits, name)
    }

    /// Adds or replaces a `VolumeAttachment`.
    pub fn add_volume_attachment(&mut self, wire: &wire::VolumeAttachment) {
        // An attachment that moved to another node must not count on the old one.
        self.remove_volume_attachment(&wire.metadata.name);
        self.storage.add_attachment(&mut self.symbols, wire);
        if let Some(id) = self.find_node(&wire.spec.node_name) {
            self.changes.node(id);
        }
    }

    /// Removes a `VolumeAttachment`. Returns whether it existed. Only results on its node depend on it.
    pub fn remove_volume_attachment(&mut self, name: &str) -> bool {
        let Some(name) = self.symbols.get(name) else {
            return false;
        };
        let Some(node) = self.storage.attached_to(name) else {
            return false;
        };
        if let Some(id) = self.node_by_name.get(&node) {
            self.changes.node(*id);
        }
        self.storage
            .remove_attachment(&mut self.symbols, name, node);
        true
    }

    /// Compiles a value that keeps its texts as long as the cluster lives.
    pub(crate) fn compile_for_good<T>(
        &mut self,
        make: impl FnOnce(&mut Symbols) -> Result<T, InvalidObject>,
    ) -> Result<T, InvalidObject> {
        let result = make(&mut self.symbols);
        match result {
            Ok(_) => self.symbols.keep(),
            Err(_) => self.symbols.give_back(),
        }
        result
    }

    /// Like `compile_for_good`, for a value that cannot fail.
    pub(crate) fn keep_for_good<T>(&mut self, make: impl FnOnce(&mut Symbols) -> T) -> T {
        let compiled = make(&mut self.symbols);
        self.symbols.keep();
        compiled
    }

    /// Adds or replaces a service. A service without a selector selects no pod.
    pub fn add_service(&mut self, wire: &wire::Service) {
        self.add_by_labels(SpreadSource::Service, wire);
    }

    /// Adds or replaces a `ReplicationController`.
    pub fn add_replication_controller(&mut self, wire: &wire::Service) {
        self.add_by_labels(SpreadSource::ReplicationController, wire);
    }

    fn add_by_labels(&mut self, kind: SpreadSource, wire: &wire::Service) {
        let Some(labels) = &wire.spec.selector else {
            self.remove_spread_source(kind, &wire.metadata);
            return;
        };
        let selector = spread_sources::of_labels(&Labels::new(&mut self.symbols, labels));
        self.add_spread_source(kind, &wire.metadata, selector);
    }

    /// Adds or replaces a `ReplicaSet` or `StatefulSet`.
    pub fn add_workload(
        &mut self,
        kind: SpreadSource,
        wire: &wire::Workload,
    ) -> Result<(), InvalidObject> {
        match Selector::new(&mut self.symbols, wire.spec.selector.as_ref()) {
            Ok(selector) => {
                self.add_spread_source(kind, &wire.metadata, selector);
                Ok(())
            }
            Err(error) => {
                self.symbols.give_back();
                Err(InvalidObject::new("spec.selector".to_owned(), error))
            }
        }
    }

    /// Adds a source whose selector was just compiled.
    fn add_spread_source(
        &mut self,
        kind: SpreadSource,
        metadata: &wire::Metadata,
        selector: Selector,
    ) {
        self.changes.all();
        let symbols = &mut self.symbols;
        let namespace = symbols.intern(metadata.namespace_or_default());
        let name = symbols.intern(&metadata.name);
        let new = self.groups.add_keys(std::iter::once(&selector));
        // The keys of the new selector are added before those of the old one are removed, so that shared ones stay.
        let old = self
            .spread_sources
            .put(symbols, (namespace, kind, name), selector);
        self.groups.remove_keys(old.iter());
        self.regroup(&new);
    }

    /// Removes a service or workload. Returns whether it existed.
    pub fn remove_spread_source(&mut self, kind: SpreadSource, metadata: &wire::Metadata) -> bool {
        self.changes.all();
        let symbols = &mut self.symbols;
        let namespace = symbols.get(metadata.namespace_or_default());
        let Some((namespace, name)) = namespace.zip(symbols.get(&metadata.name)) else {
            return false;
        };
        let old = self.spread_sources.remove(symbols, (namespace, kind, name));
        self.groups.remove_keys(old.iter());
        old.is_some()
    }

    /// Slices, classes and claims.
    pub const fn devices(&self) -> &Inventory {
        &self.devices
    }

    /// Adds or replaces a pod group, for the claims that its pods share.
    pub fn put_pod_group(&mut self, group: &wire::PodGroup) {
        self.group_claims.put(group);
    }

    /// Removes a pod group.
    pub fn remove_pod_group(&mut self, metadata: &wire::Metadata) {
        self.group_claims.remove(metadata);
    }

    pub(crate) const fn group_claims(&self) -> &GroupClaims {
        &self.group_claims
    }

    /// Adds or replaces a class of devices. It may serve an extended resource, so that cached results end.
    pub fn put_device_class(&mut self, class: wire::DeviceClass) {
        self.devices.put_class(class);
        self.changes.all();
    }

    /// Removes a class of devices.
    pub fn remove_device_class(&mut self, name: &str) {
        self.devices.remove_class(name);
        self.changes.all();
    }

    /// Adds or replaces a rule that taints devices, where its gate is on (S7-192).
    pub fn put_device_taint_rule(&mut self, rule: wire::DeviceTaintRule) {
        if self.compatibility.is_on(Gate::DRADeviceTaintRules) {
            self.devices.put_taint_rule(rule);
        }
    }

    /// Removes a rule that taints devices.
    pub fn remove_device_taint_rule(&mut self, name: &str) {
        self.devices.remove_taint_rule(name);
    }

    /// From now on the devices of terminating and ended pods are kept for the pods that are nominated to their node, from pods
    /// that are not more important. kube-scheduler gives them to any pod.
    pub const fn keep_freed_devices(&mut self) {
        self.keeps_freed_devices = true;
    }

    pub(crate) const fn keeps_freed_devices(&self) -> bool {
        self.keeps_freed_devices
    }

    /// Slices and claims, to update. Cached results of other pods do not depend on them.
    pub const fn devices_mut(&mut self) -> &mut Inventory {
        &mut self.devices
    }

    /// Assumes these devices for a pod, so that no other pod gets them. [`Cluster::remove_pod`] releases them unless
    /// the claims themselves show the allocation.
    pub fn assume_devices(&mut self, pod: &Pod, choices: &[DeviceChoice]) {
        let pod_key = self.pod_key(pod);
        for choice in choices {
            if let Some(allocation) = &choice.allocation {
                let (uid, allocation) = (&choice.uid, allocation.clone());
                self.devices.assume(uid, &pod_key, allocation);
            }
        }
    }

    /// From now on pods see the choices of earlier pods of their gang.
    pub fn begin_sharing(&mut self) {
        self.devices.begin_sharing();
        self.chosen = Some(Chosen::default());
    }

    /// Drops the choices. Pods again see only the API's state and assumed devices.
    pub fn end_sharing(&mut self) {
        self.devices.end_sharing();
        self.chosen = None;
    }

    /// The choices of the current gang, if one is being placed.
    pub(crate) const fn chosen(&self) -> Option<&Chosen> {
        self.chosen.as_ref()
    }

    /// Records the volumes that a pod needs on this node.
    pub fn choose_volumes(&mut self, pod: &Pod, node: NodeId, choices: &[VolumeChoice]) {
        let Some(mut chosen) = self.chosen.take_if(|_| !choices.is_empty()) else {
            return;
        };
        let namespace = self.symbols.text(self.template(pod).namespace);
        chosen.choose(&self.pod_key(pod), namespace, self.node_name(node), choices);
        self.chosen = Some(chosen);
    }

    /// Drops the choices that only this pod made.
    pub(super) fn leave_chosen(&mut self, pod_key: &str) {
        self.devices.withdraw_pod(pod_key);
        if let Some(chosen) = &mut self.chosen {
            chosen.give_back(pod_key);
        }
    }
}
