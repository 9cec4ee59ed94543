//! Claims, volumes, classes of storage and what nodes can attach, as they come and go.

use super::Cluster;
use crate::mistake::Mistake;
use crate::storage::Storage;
use crate::symbol::Symbols;
use evictd_pod::wire;

impl Cluster {
    /// Adds what a storage driver wants, or puts it in the place of what it wanted.
    pub fn add_csi_driver(&mut self, wire: &wire::CsiDriverObject) {
        self.changes.all();
        self.storage.add_driver(&mut self.symbols, wire);
    }

    /// Adds how much room a storage class has somewhere, or puts it in the place of what it had.
    pub fn add_storage_capacity(&mut self, wire: &wire::CsiStorageCapacity) -> Result<(), Mistake> {
        self.stored(Storage::add_capacity, wire)
    }

    /// Removes what a storage driver wants; whether it was there.
    pub fn remove_csi_driver(&mut self, name: &str) -> bool {
        self.changes.all();
        let name = self.symbols.get(name);
        name.is_some_and(|name| self.storage.drivers.remove(&mut self.symbols, &name))
    }

    /// Removes how much room there is; whether it was there.
    pub fn remove_storage_capacity(&mut self, metadata: &wire::Metadata) -> bool {
        self.changes.all();
        let symbols = &mut self.symbols;
        let namespace = symbols.get(metadata.namespace_or_default());
        let key = namespace.zip(symbols.get(&metadata.name));
        key.is_some_and(|key| self.storage.capacities.remove(symbols, &key))
    }

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

    /// Adds a claim, or puts it in the place of the one of that name.
    pub fn add_claim(&mut self, wire: &wire::PersistentVolumeClaim) -> Result<(), Mistake> {
        self.stored(Storage::add_claim, wire)
    }

    /// Adds a volume, or puts it in the place of the one of that name.
    pub fn add_volume(&mut self, wire: &wire::PersistentVolume) -> Result<(), Mistake> {
        self.stored(Storage::add_volume, wire)
    }

    /// Adds a class of storage, or puts it in the place of the one of that name.
    pub fn add_storage_class(&mut self, wire: &wire::StorageClass) -> Result<(), Mistake> {
        self.stored(Storage::add_class, wire)
    }

    /// Adds what a node can attach, or puts it in the place of what it could.
    pub fn add_csi_node(&mut self, wire: &wire::CsiNode) {
        self.changes.all();
        self.storage.add_csi_node(&mut self.symbols, wire);
    }

    /// Adds that a volume is attached to a node, or puts it in the place of the attachment of that name.
    pub fn add_volume_attachment(&mut self, wire: &wire::VolumeAttachment) {
        self.storage.add_attachment(&mut self.symbols, wire);
        self.changed_attachments(&wire.spec.node_name);
    }

    /// Removes an attachment of a volume; whether it was there.
    pub fn remove_volume_attachment(&mut self, wire: &wire::VolumeAttachment) -> bool {
        self.changed_attachments(&wire.spec.node_name);
        let name = &wire.metadata.name;
        self.storage.remove_attachment(&mut self.symbols, name)
    }

    /// Only answers about this node depend on them.
    fn changed_attachments(&mut self, node: &str) {
        if let Some(id) = self.find_node(node) {
            self.changes.node(id);
        }
    }

    /// Removes a claim; whether it was there.
    pub fn remove_claim(&mut self, metadata: &wire::Metadata) -> bool {
        self.changes.all();
        let symbols = &mut self.symbols;
        let namespace = symbols.get(metadata.namespace_or_default());
        let key = namespace.zip(symbols.get(&metadata.name));
        key.is_some_and(|key| self.storage.claims.remove(symbols, &key))
    }

    /// Removes a volume; whether it was there.
    pub fn remove_volume(&mut self, name: &str) -> bool {
        self.changes.all();
        let name = self.symbols.get(name);
        name.is_some_and(|name| self.storage.volumes.remove(&mut self.symbols, &name))
    }

    /// Removes a class of storage; whether it was there.
    pub fn remove_storage_class(&mut self, name: &str) -> bool {
        self.changes.all();
        let name = self.symbols.get(name);
        name.is_some_and(|name| self.storage.classes.remove(&mut self.symbols, &name))
    }

    /// Removes what a node can attach; whether it was there.
    pub fn remove_csi_node(&mut self, name: &str) -> bool {
        self.changes.all();
        let name = self.symbols.get(name);
        name.is_some_and(|name| self.storage.limits.remove(&mut self.symbols, &name))
    }
}
