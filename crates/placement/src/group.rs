//! What placed pods offer to others. A decision looks at every group and never at every template, of which pods with a
//! label, a claim or a node name of their own have one each.

use crate::id::NodeId;
use crate::labels::Labels;
use crate::selector::Selector;
use crate::symbol::{Symbol, Symbols};
use crate::table::Table;
use crate::template::{PodTerm, Template};
use hashbrown::HashMap;

/// A group's place in [`crate::Cluster::groups`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct GroupId(pub(crate) u32);

impl GroupId {
    /// The index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Pods that no selector in use tells apart, and that want the same pods near them and away from them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Group {
    /// Namespace.
    pub namespace: Symbol,
    /// Those of their labels that some selector names; of pods that came before a selector went perhaps some more.
    pub labels: Labels,
    /// Whether they have any label at all.
    pub has_labels: bool,
    /// Pods that they must be away from.
    pub anti_affinity: Box<[PodTerm]>,
    /// Pods that they must be near.
    pub affinity: Box<[PodTerm]>,
    /// Pods that they would rather be near, and, with a negative weight, away from.
    pub preferred: Box<[(i64, PodTerm)]>,
}

/// How many pods of a group are on a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) running: i64,
    pub(crate) terminating: i64,
}

/// Every group, and how many compiled selectors name each key.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    pub(crate) table: Table<Group>,
    /// Of each group, how many of its pods are where.
    nodes: Vec<HashMap<NodeId, Counts>>,
    keys: HashMap<Symbol, usize>,
}

impl Groups {
    /// The group of a pod of this template with these labels, with one more reference to it. It needs no references to
    /// symbols of its own: its pods and their templates hold them.
    pub(crate) fn of(
        &mut self,
        symbols: &mut Symbols,
        template: &Template,
        labels: &Labels,
    ) -> GroupId {
        let group = Group {
            namespace: template.namespace,
            labels: self.named(labels),
            has_labels: !labels.is_empty(),
            anti_affinity: template.anti_affinity.clone(),
            affinity: template.affinity.clone(),
            preferred: template.preferred.clone(),
        };
        GroupId(self.table.intern(symbols, group))
    }

    /// Those of a pod's labels that some selector names.
    pub(crate) fn named(&self, labels: &Labels) -> Labels {
        labels.only(|key| self.keys.contains_key(&key))
    }

    /// A pod of a group came to a node (`times` 1) or left it (-1).
    pub(crate) fn count(
        &mut self,
        (group, terminating): (GroupId, bool),
        node: NodeId,
        times: i64,
    ) {
        let index = group.index();
        if self.nodes.len() <= index {
            self.nodes.resize_with(index + 1, HashMap::new);
        }
        let counts = self.nodes[index].entry(node).or_default();
        if terminating {
            counts.terminating += times;
        } else {
            counts.running += times;
        }
        if *counts == Counts::default() {
            self.nodes[index].remove(&node);
        }
    }

    /// Where the pods of a group are, by its index.
    pub(crate) fn nodes(&self, index: usize) -> impl Iterator<Item = (NodeId, Counts)> {
        let nodes = self.nodes.get(index).into_iter().flatten();
        nodes.map(|(id, counts)| (*id, *counts))
    }

    /// Counts selectors; those of their keys that no other one names.
    pub(crate) fn add_keys<'s>(
        &mut self,
        selectors: impl Iterator<Item = &'s Selector>,
    ) -> Vec<Symbol> {
        let mut new = Vec::new();
        for key in selectors.flat_map(Selector::keys) {
            let count = self.keys.entry(key).or_insert(0);
            *count += 1;
            if *count == 1 {
                new.push(key);
            }
        }
        new
    }

    /// Selectors are used no more. Who was told apart by their keys stays so.
    pub(crate) fn remove_keys<'s>(&mut self, selectors: impl Iterator<Item = &'s Selector>) {
        for key in selectors.flat_map(Selector::keys) {
            if let Some(count) = self.keys.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    self.keys.remove(&key);
                }
            }
        }
    }
}
