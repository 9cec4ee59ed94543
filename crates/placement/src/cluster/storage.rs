//! Claims, volumes, classes of storage and what nodes can attach, as they come and go.

use super::Cluster;
use crate::mistake::Mistake;
use crate::storage::Storage;
use crate::symbol::{Symbol, Symbols};
use crate::table::Objects;
use evictd_pod::wire;

impl Cluster {
    /// Adds an object of storage, or nothing if it has a mistake.
    fn stored<T>(
        &mut self,
        add: fn(&mut Storage, &mut Symbols, &T) -> Result<(), Mistake>,
        wire: &T,
    ) -> Result<(), Mistake> {
        self.changes.all();
        let added = add(&mut self.storage, &mut self.symbols, wire);
        if added.is_err() {
            self.symbols.give_back();
        }
        added
    }

    /// Removes an object of storage; whether it was there.
    fn removed<T>(&mut self, of: fn(&mut Storage) -> &mut Objects<Symbol, T>, name: &str) -> bool {
        self.changes.all();
        let name = self.symbols.get(name);
        name.is_some_and(|name| of(&mut self.storage).remove(&mut self.symbols, &name))
    }

    /// The same for one that has a namespace.
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

    /// Adds a claim, or puts it in the place of the one of that name.
    pub fn add_claim(&mut self, wire: &wire::PersistentVolumeClaim) -> Result<(), Mistake> {
        self.stored(Storage::add_claim, wire)
    }

    /// Removes a claim; whether it was there.
    pub fn remove_claim(&mut self, metadata: &wire::Metadata) -> bool {
        self.removed_from_namespace(|storage| &mut storage.claims, metadata)
    }

    /// Adds a volume, or puts it in the place of the one of that name.
    pub fn add_volume(&mut self, wire: &wire::PersistentVolume) -> Result<(), Mistake> {
        self.stored(Storage::add_volume, wire)
    }

    /// Removes a volume; whether it was there.
    pub fn remove_volume(&mut self, name: &str) -> bool {
        self.removed(|storage| &mut storage.volumes, name)
    }

    /// Adds a class of storage, or puts it in the place of the one of that name.
    pub fn add_storage_class(&mut self, wire: &wire::StorageClass) -> Result<(), Mistake> {
        self.stored(Storage::add_class, wire)
    }

    /// Removes a class of storage; whether it was there.
    pub fn remove_storage_class(&mut self, name: &str) -> bool {
        self.removed(|storage| &mut storage.classes, name)
    }

    /// Adds how much room a storage class has somewhere, or puts it in the place of what it had.
    pub fn add_storage_capacity(&mut self, wire: &wire::CsiStorageCapacity) -> Result<(), Mistake> {
        self.stored(Storage::add_capacity, wire)
    }

    /// Removes how much room there is; whether it was there.
    pub fn remove_storage_capacity(&mut self, metadata: &wire::Metadata) -> bool {
        self.removed_from_namespace(|storage| &mut storage.capacities, metadata)
    }

    /// Adds what a storage driver wants, or puts it in the place of what it wanted.
    pub fn add_csi_driver(&mut self, wire: &wire::CsiDriverObject) {
        self.changes.all();
        self.storage.add_driver(&mut self.symbols, wire);
    }

    /// Removes what a storage driver wants; whether it was there.
    pub fn remove_csi_driver(&mut self, name: &str) -> bool {
        self.removed(|storage| &mut storage.drivers, name)
    }

    /// Adds what a node can attach, or puts it in the place of what it could.
    pub fn add_csi_node(&mut self, wire: &wire::CsiNode) {
        self.changes.all();
        self.storage.add_csi_node(&mut self.symbols, wire);
    }

    /// Removes what a node can attach; whether it was there.
    pub fn remove_csi_node(&mut self, name: &str) -> bool {
        self.removed(|storage| &mut storage.limits, name)
    }

    /// Adds that a volume is attached to a node, or puts it in the place of the attachment of that name.
    pub fn add_volume_attachment(&mut self, wire: &wire::VolumeAttachment) {
        self.remove_volume_attachment(&wire.metadata.name);
        self.storage.add_attachment(&mut self.symbols, wire);
        if let Some(id) = self.find_node(&wire.spec.node_name) {
            self.changes.node(id);
        }
    }

    /// Removes an attachment of a volume; whether it was there. Only answers about its node depend on it.
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
