//! Services and workloads whose pods are spread evenly where they say nothing about it themselves (S5-101).

use crate::labels::Labels;
use crate::selector::{Requirement, Selector};
use crate::symbol::{Held, Symbol, Symbols};
use crate::template::Template;
use hashbrown::HashMap;

/// What kind of object tells which pods belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Spreader {
    /// A service: every pod that it selects.
    Service,
    /// A `ReplicationController`: its own pods.
    ReplicationController,
    /// A `ReplicaSet`: its own pods.
    ReplicaSet,
    /// A `StatefulSet`: its own pods.
    StatefulSet,
}

impl Spreader {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Service => "Service",
            Self::ReplicationController => "ReplicationController",
            Self::ReplicaSet => "ReplicaSet",
            Self::StatefulSet => "StatefulSet",
        }
    }
}

/// Those of one namespace, by kind and name.
type OfNamespace = HashMap<(Spreader, Symbol), (Selector, Held)>;

/// Services and workloads by namespace.
#[derive(Debug, Default)]
pub(crate) struct Spreaders(HashMap<Symbol, OfNamespace>);

impl Spreaders {
    /// Adds one that was just built from these symbols, or puts it in the place of the one of that name, whose selector it
    /// returns.
    pub(crate) fn put(
        &mut self,
        symbols: &mut Symbols,
        (namespace, kind, name): (Symbol, Spreader, Symbol),
        selector: Selector,
    ) -> Option<Selector> {
        let all = self.0.entry(namespace).or_default();
        let (old, held) = all.insert((kind, name), (selector, symbols.hold()))?;
        symbols.release_held(&held);
        Some(old)
    }

    /// Removes one; its selector, if it was there.
    pub(crate) fn remove(
        &mut self,
        symbols: &mut Symbols,
        (namespace, kind, name): (Symbol, Spreader, Symbol),
    ) -> Option<Selector> {
        let all = self.0.get_mut(&namespace)?;
        let (selector, held) = all.remove(&(kind, name))?;
        if all.is_empty() {
            self.0.remove(&namespace);
        }
        symbols.release_held(&held);
        Some(selector)
    }

    /// Which pods count as the like of one with this template and these labels: those that every service selects that selects it, and its
    /// owner. `None` if nothing says so.
    pub(crate) fn selector(
        &self,
        symbols: &Symbols,
        template: &Template,
        labels: &Labels,
    ) -> Option<Selector> {
        let all = self.0.get(&template.namespace)?;
        let selects = |selector: &Selector| selector.matches(symbols, labels);
        let is_owner = |kind: Spreader, name: Symbol| {
            let owner = template.owner;
            owner.is_some_and(|owner| {
                owner.name == name && symbols.text(owner.kind) == kind.as_str()
            })
        };
        let mut found: Vec<Requirement> = Vec::new();
        for ((kind, name), (selector, _)) in all {
            let counts = match kind {
                Spreader::Service => selects(selector),
                _ => is_owner(*kind, *name),
            };
            if counts && let Selector::All(all) = selector {
                found.extend(all.iter().cloned());
            }
        }
        (!found.is_empty()).then(|| Selector::All(found.into()))
    }
}

/// A map of labels as a selector.
pub(crate) fn of_labels(labels: &Labels) -> Selector {
    let all = labels.iter();
    Selector::All(
        all.map(|(key, value)| Requirement::equals(key, value))
            .collect(),
    )
}
