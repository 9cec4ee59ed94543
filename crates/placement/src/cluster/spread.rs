//! Services and workloads, by which pods are spread that say nothing about it, and what profiles compile.

use super::Cluster;
use crate::labels::Labels;
use crate::mistake::Mistake;
use crate::selector::Selector;
use crate::spreaders::{self, Spreader};
use crate::symbol::Symbols;
use evictd_pod::wire;

impl Cluster {
    /// Compiles something that is kept as long as the cluster.
    pub(crate) fn compile_for_good<T>(
        &mut self,
        make: impl FnOnce(&mut Symbols) -> Result<T, Mistake>,
    ) -> Result<T, Mistake> {
        let result = make(&mut self.symbols);
        match result {
            Ok(_) => self.symbols.keep(),
            Err(_) => self.symbols.give_back(),
        }
        result
    }

    /// The same where nothing can be wrong.
    pub(crate) fn keep_for_good<T>(&mut self, make: impl FnOnce(&mut Symbols) -> T) -> T {
        let compiled = make(&mut self.symbols);
        self.symbols.keep();
        compiled
    }

    /// Adds a service, or puts it in the place of the one of that name. One without a selector selects nobody.
    pub fn add_service(&mut self, wire: &wire::Service) {
        self.add_by_labels(Spreader::Service, wire);
    }

    /// Adds a `ReplicationController`, or puts it in the place of the one of that name.
    pub fn add_replication_controller(&mut self, wire: &wire::Service) {
        self.add_by_labels(Spreader::ReplicationController, wire);
    }

    fn add_by_labels(&mut self, kind: Spreader, wire: &wire::Service) {
        let Some(labels) = &wire.spec.selector else {
            self.remove_spreader(kind, &wire.metadata);
            return;
        };
        let selector = spreaders::of_labels(&Labels::new(&mut self.symbols, labels));
        self.add_spreader(kind, &wire.metadata, selector);
    }

    /// Adds a `ReplicaSet` or `StatefulSet`, or puts it in the place of the one of that name.
    pub fn add_workload(&mut self, kind: Spreader, wire: &wire::Workload) -> Result<(), Mistake> {
        match Selector::new(&mut self.symbols, wire.spec.selector.as_ref()) {
            Ok(selector) => {
                self.add_spreader(kind, &wire.metadata, selector);
                Ok(())
            }
            Err(error) => {
                self.symbols.give_back();
                Err(Mistake::new("spec.selector".to_owned(), error))
            }
        }
    }

    /// Adds one whose selector was just compiled.
    fn add_spreader(&mut self, kind: Spreader, metadata: &wire::Metadata, selector: Selector) {
        self.changes.all();
        let symbols = &mut self.symbols;
        let namespace = symbols.intern(metadata.namespace_or_default());
        let name = symbols.intern(&metadata.name);
        let new = self.groups.add_keys(std::iter::once(&selector));
        let old = self
            .spreaders
            .put(symbols, (namespace, kind, name), selector);
        self.groups.remove_keys(old.iter());
        self.regroup(&new);
    }

    /// Removes a service or workload; whether it was there.
    pub fn remove_spreader(&mut self, kind: Spreader, metadata: &wire::Metadata) -> bool {
        self.changes.all();
        let symbols = &mut self.symbols;
        let namespace = symbols.get(metadata.namespace_or_default());
        let Some((namespace, name)) = namespace.zip(symbols.get(&metadata.name)) else {
            return false;
        };
        let old = self.spreaders.remove(symbols, (namespace, kind, name));
        self.groups.remove_keys(old.iter());
        old.is_some()
    }
}
