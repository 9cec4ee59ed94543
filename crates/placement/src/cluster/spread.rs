//! Services and workloads for the default spread constraints, and texts that profiles compile.

use super::Cluster;
use crate::invalid_object::InvalidObject;
use crate::labels::Labels;
use crate::selector::Selector;
use crate::spread_sources::{self, SpreadSource};
use crate::symbol::Symbols;
use evictd_pod::wire;

impl Cluster {
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
}
