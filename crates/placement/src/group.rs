//! Groups of pods with equal properties for other pods. A scheduling decision visits all groups but never all
//! templates, because pods with an own label, claim or node name have a template each.

use crate::id::NodeId;
use crate::labels::Labels;
use crate::selector::Selector;
use crate::symbol::{Symbol, Symbols};
use crate::table::Table;
use crate::template::{PodTerm, Template};
use hashbrown::HashMap;

/// A group's index in [`crate::Cluster::groups`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct GroupId(pub(crate) u32);

impl GroupId {
    /// The index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Pods that no selector in use distinguishes and that have equal affinity terms.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Group {
    /// Namespace.
    pub namespace: Symbol,
    /// The labels that some selector names. Pods added before a selector was removed may keep more.
    pub labels: Labels,
    /// Whether they have any label at all.
    pub has_labels: bool,
    /// Required anti-affinity terms.
    pub anti_affinity: Box<[PodTerm]>,
    /// Required affinity terms.
    pub affinity: Box<[PodTerm]>,
    /// Preferred terms; anti-affinity has a negative weight.
    pub preferred: Box<[(i64, PodTerm)]>,
}

/// How many pods of a group are on a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) running: i64,
    pub(crate) terminating: i64,
}

/// All groups, and how many compiled selectors name each key.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    pub(crate) table: Table<Group>,
    /// For each group, its pods per node.
    nodes: Vec<HashMap<NodeId, Counts>>,
    keys: HashMap<Symbol, usize>,
}

impl Groups {
    /// The group of a pod of this template with these labels; adds a reference. The group needs no references to
    /// symbols, because its pods and templates hold them.
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

    /// The pod's labels that some selector names.
    pub(crate) fn named(&self, labels: &Labels) -> Labels {
        labels.only(|key| self.keys.contains_key(&key))
    }

    /// Adds a pod of a group to a node (`times` 1) or removes it (-1).
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

    /// The nodes of a group's pods, by the group's index.
    pub(crate) fn nodes(&self, index: usize) -> impl Iterator<Item = (NodeId, Counts)> {
        let nodes = self.nodes.get(index).into_iter().flatten();
        nodes.map(|(id, counts)| (*id, *counts))
    }

    /// Counts selectors. Returns the keys that no earlier selector names.
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

    /// Removes selectors. Groups that their keys have split stay split.
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
