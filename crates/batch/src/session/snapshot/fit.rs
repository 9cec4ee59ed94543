//! Why nodes refuse a task; each set of reasons is stored once (S6-140).

use crate::conf::PluginName;
use evictd_placement::NodeId;
use hashbrown::HashMap;
use std::sync::Arc;

/// A set of reasons; [`NO_REASON`] means that the node does not refuse.
pub(crate) type ReasonId = u32;

pub(crate) const NO_REASON: ReasonId = 0;

/// The most reasons that a message names. Taints and labels may make one for each node.
const MOST_REASONS: usize = 3;

/// The reasons of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Refusal {
    pub(crate) texts: Vec<String>,
    /// Evictions cannot change it (S6-135).
    pub(crate) unresolvable: bool,
    /// The plugin cannot judge the node. No pod is evicted there, but a later action asks again.
    pub(crate) is_error: bool,
    /// The plugin that refuses; `None` for the filters of kube-scheduler.
    pub(crate) plugin: Option<PluginName>,
}

/// Every different refusal.
#[derive(Debug)]
pub(crate) struct Reasons {
    refusals: Vec<Refusal>,
    ids: HashMap<Refusal, ReasonId>,
}

impl Default for Reasons {
    fn default() -> Self {
        Self {
            refusals: vec![Refusal::default()],
            ids: HashMap::new(),
        }
    }
}

impl Reasons {
    pub(crate) fn intern(&mut self, refusal: Refusal) -> ReasonId {
        if let Some(id) = self.ids.get(&refusal) {
            return *id;
        }
        // Each takes many bytes.
        let id = ReasonId::try_from(self.refusals.len()).unwrap_or(ReasonId::MAX);
        self.refusals.push(refusal.clone());
        self.ids.insert(refusal, id);
        id
    }

    pub(crate) fn of(&self, id: ReasonId) -> &Refusal {
        &self.refusals[id as usize]
    }

    pub(crate) fn is_unresolvable(&self, id: ReasonId) -> bool {
        self.of(id).unresolvable
    }

    /// Whether no eviction from the node helps now.
    pub(crate) fn excludes(&self, id: ReasonId) -> bool {
        let refusal = self.of(id);
        refusal.unresolvable || refusal.is_error
    }

    /// The most frequent of these reasons, each with the number of nodes and the plugin.
    pub(crate) fn most_frequent<'r>(&self, ids: impl Iterator<Item = &'r ReasonId>) -> String {
        // Many nodes share few refusals, so that each text is made once.
        let mut by_id: HashMap<ReasonId, usize> = HashMap::new();
        for id in ids {
            *by_id.entry(*id).or_default() += 1;
        }
        let mut counts: HashMap<String, usize> = HashMap::new();
        for (id, nodes) in by_id {
            let refusal = self.of(id);
            let plugin = refusal.plugin.map(PluginName::as_str);
            let plugin = plugin.map_or_else(String::new, |plugin| format!("plugin {plugin}: "));
            for text in &refusal.texts {
                *counts.entry(format!("{plugin}{text}")).or_default() += nodes;
            }
        }
        let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
        counts.sort_by(|one, other| (other.1, &one.0).cmp(&(one.1, &other.0)));
        let others = counts.len().saturating_sub(MOST_REASONS);
        let named = counts.iter().take(MOST_REASONS);
        let named = named.map(|(text, count)| format!("{count} {text}"));
        let mut named: Vec<String> = named.collect();
        if others > 0 {
            named.push(format!("and {others} further reasons"));
        }
        named.join(", ")
    }
}

/// Why a task fits nowhere.
#[derive(Debug, Clone)]
pub(crate) enum FitError {
    /// In these words.
    Words(Arc<str>),
    /// By node.
    Nodes(Arc<NodesFit>),
}

#[derive(Debug)]
pub(crate) struct NodesFit {
    /// `0/3 nodes are unavailable: ...`
    pub(crate) text: Box<str>,
    /// By node, whether evictions cannot help; empty if no node is so.
    pub(crate) unresolvable: Box<[bool]>,
}

impl FitError {
    /// Summarizes the reasons of all nodes.
    pub(crate) fn of_nodes(reasons: &Reasons, nodes: &[ReasonId]) -> Self {
        let mut counts: Vec<u32> = vec![0; reasons.refusals.len()];
        for id in nodes {
            counts[*id as usize] += 1;
        }
        let mut texts: HashMap<&str, u32> = HashMap::new();
        let mut any_unresolvable = false;
        for (refusal, count) in reasons.refusals.iter().zip(&counts).skip(1) {
            if *count == 0 {
                continue;
            }
            any_unresolvable |= refusal.unresolvable;
            for text in &refusal.texts {
                *texts.entry(text).or_default() += count;
            }
        }
        let mut lines: Vec<String> = texts
            .into_iter()
            .map(|(text, count)| format!("{count} {text}"))
            .collect();
        lines.sort_unstable();
        let count: u32 = counts.iter().skip(1).sum();
        let mut text = format!("0/{count} nodes are unavailable");
        if count > 0 {
            text = format!("{text}: {}.", lines.join(", "));
        }
        let unresolvable = if any_unresolvable {
            nodes
                .iter()
                .map(|id| reasons.is_unresolvable(*id))
                .collect()
        } else {
            Box::default()
        };
        Self::Nodes(Arc::new(NodesFit {
            text: text.into(),
            unresolvable,
        }))
    }

    /// The same for the nodes of a group; the others have the reason `elsewhere`.
    pub(crate) fn of_nodes_in(
        reasons: &Reasons,
        nodes: &[ReasonId],
        elsewhere: ReasonId,
        group: &str,
    ) -> Self {
        let inside: Vec<ReasonId> = nodes
            .iter()
            .copied()
            .filter(|id| *id != elsewhere)
            .collect();
        let Self::Nodes(fit) = Self::of_nodes(reasons, &inside) else {
            return Self::of_nodes(reasons, nodes);
        };
        let unresolvable = nodes.iter().map(|id| reasons.is_unresolvable(*id));
        Self::Nodes(Arc::new(NodesFit {
            text: format!("In hyperNode {group}: {}", fit.text).into(),
            unresolvable: unresolvable.collect(),
        }))
    }

    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Words(words) => words,
            Self::Nodes(nodes) => &nodes.text,
        }
    }

    /// Whether evictions from a node cannot help.
    pub(crate) fn is_unresolvable(&self, node: NodeId) -> bool {
        match self {
            Self::Words(_) => false,
            Self::Nodes(nodes) => nodes
                .unresolvable
                .get(node.index())
                .copied()
                .unwrap_or(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s6_140_reasons_are_counted_and_sorted_as_texts() {
        let mut reasons = Reasons::default();
        let refusal = |texts: &[&str], unresolvable: bool| Refusal {
            texts: texts.iter().map(|text| (*text).to_owned()).collect(),
            unresolvable,
            ..Refusal::default()
        };
        let cpu = reasons.intern(refusal(&["Insufficient cpu"], false));
        let two = reasons.intern(refusal(&["Insufficient cpu", "a port is taken"], false));
        let taint = reasons.intern(refusal(&["a taint"], true));
        let error = FitError::of_nodes(&reasons, &[cpu, two, taint, cpu]);
        assert_eq!(
            error.text(),
            "0/4 nodes are unavailable: 1 a port is taken, 1 a taint, 3 Insufficient cpu."
        );
        assert!(error.is_unresolvable(NodeId::of(2)) && !error.is_unresolvable(NodeId::of(0)));
        assert_eq!(
            FitError::of_nodes(&reasons, &[]).text(),
            "0/0 nodes are unavailable"
        );
    }
}
