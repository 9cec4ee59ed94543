//! Adds and removes claims, volumes, storage classes and attach limits.

use super::Cluster;
use crate::invalid_object::InvalidObject;
use crate::storage::Storage;
use crate::symbol::{Symbol, Symbols};
use crate::table::Objects;
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
}
