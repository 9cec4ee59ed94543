//! Services and workloads whose selectors serve default spread constraints, as for kube-scheduler's `DefaultSelector`
//! (S5-101).

use crate::labels::Labels;
use crate::selector::{Requirement, Selector};
use crate::symbol::{Held, Symbol, Symbols};
use crate::template::Template;
use hashbrown::HashMap;

/// The kind of object whose selector groups pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SpreadSource {
    /// A service groups all pods that it selects.
    Service,
    /// A `ReplicationController` groups the pods it controls.
    ReplicationController,
    /// A `ReplicaSet` groups the pods it controls.
    ReplicaSet,
    /// A `StatefulSet` groups the pods it controls.
    StatefulSet,
}

impl SpreadSource {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Service => "Service",
            Self::ReplicationController => "ReplicationController",
            Self::ReplicaSet => "ReplicaSet",
            Self::StatefulSet => "StatefulSet",
        }
    }
}

/// The sources of one namespace, by kind and name.
type OfNamespace = HashMap<(SpreadSource, Symbol), (Selector, Held)>;

/// All sources by namespace.
#[derive(Debug, Default)]
pub(crate) struct SpreadSources(HashMap<Symbol, OfNamespace>);

impl SpreadSources {
    /// Adds or replaces a source whose selector was just compiled. Returns the selector that it replaces.
    pub(crate) fn put(
        &mut self,
        symbols: &mut Symbols,
        (namespace, kind, name): (Symbol, SpreadSource, Symbol),
        selector: Selector,
    ) -> Option<Selector> {
        let all = self.0.entry(namespace).or_default();
        let (old, held) = all.insert((kind, name), (selector, symbols.hold()))?;
        symbols.release_held(&held);
        Some(old)
    }

    /// Removes a source. Returns its selector, if it existed.
    pub(crate) fn remove(
        &mut self,
        symbols: &mut Symbols,
        (namespace, kind, name): (Symbol, SpreadSource, Symbol),
    ) -> Option<Selector> {
        let all = self.0.get_mut(&namespace)?;
        let (selector, held) = all.remove(&(kind, name))?;
        if all.is_empty() {
            self.0.remove(&namespace);
        }
        symbols.release_held(&held);
        Some(selector)
    }

    /// The default selector of a pod with this template and labels. It joins the selectors of all services that select
    /// the pod and of its owner. `None` if there is none.
    pub(crate) fn selector(
        &self,
        symbols: &Symbols,
        template: &Template,
        labels: &Labels,
    ) -> Option<Selector> {
        let all = self.0.get(&template.namespace)?;
        let selects = |selector: &Selector| selector.matches(symbols, labels);
        let is_owner = |kind: SpreadSource, name: Symbol| {
            let owner = template.owner;
            owner.is_some_and(|owner| {
                owner.name == name && symbols.text(owner.kind) == kind.as_str()
            })
        };
        let mut found: Vec<Requirement> = Vec::new();
        for ((kind, name), (selector, _)) in all {
            let counts = match kind {
                SpreadSource::Service => selects(selector),
                _ => is_owner(*kind, *name),
            };
            if counts && let Selector::All(all) = selector {
                found.extend(all.iter().cloned());
            }
        }
        (!found.is_empty()).then(|| Selector::All(found.into()))
    }
}

/// Converts a map of labels to a selector.
pub(crate) fn of_labels(labels: &Labels) -> Selector {
    let all = labels.iter();
    Selector::All(
        all.map(|(key, value)| Requirement::equals(key, value))
            .collect(),
    )
}
