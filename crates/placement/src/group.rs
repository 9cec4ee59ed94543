//! Groups of pods with equal properties for other pods. A scheduling decision visits all groups but never all
//! templates, because pods with an own label, claim or node name have a template each.

use crate::id::NodeId;
use crate::labels::Labels;
use crate::pod_terms::{KnownTerm, PodTerms, TermsOf};
use crate::selector::Selector;
use crate::symbol::{Symbol, Symbols};
use crate::table::Table;
use crate::template::{PodTerm, Template};
use hashbrown::HashMap;
use std::collections::BTreeSet;

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

impl Group {
    fn terms(&self) -> TermsOf<'_> {
        TermsOf {
            anti_affinity: &self.anti_affinity,
            affinity: &self.affinity,
            preferred: &self.preferred,
        }
    }
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
    table: Table<Group>,
    /// The groups of each namespace.
    namespaces: HashMap<Symbol, BTreeSet<u32>>,
    terms: PodTerms,
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
        let before = self.table.count();
        let index = self.table.intern(symbols, group);
        if self.table.count() != before {
            let group = &self.table.items()[index as usize];
            let groups = self.namespaces.entry(group.namespace).or_default();
            groups.insert(index);
            self.terms.add(index, group.terms());
        }
        GroupId(index)
    }

    /// Releases a reference that [`Groups::of`] added.
    pub(crate) fn release(&mut self, symbols: &mut Symbols, id: GroupId) {
        if self.table.is_last(id.0) {
            let group = &self.table.items()[id.index()];
            if let Some(groups) = self.namespaces.get_mut(&group.namespace) {
                groups.remove(&id.0);
                if groups.is_empty() {
                    self.namespaces.remove(&group.namespace);
                }
            }
            self.terms.remove(id.0, group.terms());
        }
        self.table.release(symbols, id.0);
    }

    /// All groups by index; a free entry is the default group.
    pub(crate) fn items(&self) -> &[Group] {
        self.table.items()
    }

    /// How many groups have pods.
    pub(crate) fn count_used(&self) -> usize {
        self.table.count()
    }

    /// The groups of a namespace, by index.
    pub(crate) fn of_namespace(&self, namespace: Symbol) -> impl Iterator<Item = usize> {
        let groups = self.namespaces.get(&namespace);
        groups.into_iter().flatten().map(|index| *index as usize)
    }

    /// The terms of pods that can select a pod of this namespace with these labels; they need not match.
    pub(crate) fn terms_about<'t>(
        &'t self,
        namespace: Symbol,
        namespace_labels: &Labels,
        labels: &Labels,
    ) -> impl Iterator<Item = &'t KnownTerm> + use<'t> {
        self.terms.about(namespace, namespace_labels, labels)
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
