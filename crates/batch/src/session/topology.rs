//! The domain of the cluster that all pods of a group have to be in.

use super::snapshot::hyper_nodes::HyperNodes;
use super::snapshot::ids::DomainId;
use evictd_placement::{Cluster, Domains, NodeId};
use std::sync::Arc;

/// The domains of this session's nodes, by labels. They are worked out when a group first asks for them.
#[derive(Debug)]
pub(crate) struct TopologyDomains {
    by_labels: Vec<(Vec<Box<str>>, Domains)>,
    groups: Arc<HyperNodes>,
}

impl TopologyDomains {
    pub(crate) fn new(groups: &Arc<HyperNodes>) -> Self {
        Self {
            by_labels: Vec::new(),
            groups: Arc::clone(groups),
        }
    }

    /// The domains by these labels among which a group has the choice that has pods on these nodes.
    pub(crate) fn choice(
        &mut self,
        cluster: &Cluster,
        labels: &[Box<str>],
        taken: impl Iterator<Item = NodeId>,
    ) -> Vec<DomainId> {
        let at = self.by_labels(cluster, labels);
        let choice = self.by_labels[at].1.choice(taken).into_iter();
        let within = choice.map(|domain| DomainId::Labels {
            labels: at,
            domain: domain.index(),
        });
        within.collect()
    }

    fn by_labels(&mut self, cluster: &Cluster, labels: &[Box<str>]) -> usize {
        if let Some(at) = self.by_labels.iter().position(|(known, _)| known == labels) {
            return at;
        }
        let domains = Domains::new(cluster, labels.iter().map(AsRef::as_ref));
        self.by_labels.push((labels.to_vec(), domains));
        self.by_labels.len() - 1
    }

    /// Whether a pod may be on a node that has to be in a domain, if it has to be in one.
    pub(crate) fn reaches(&self, within: Option<DomainId>, node: NodeId) -> bool {
        within.is_none_or(|within| self.contains(within, node))
    }

    /// Whether a node is in a domain.
    fn contains(&self, within: DomainId, node: NodeId) -> bool {
        match within {
            DomainId::Labels { labels, domain } => {
                self.by_labels[labels].1.get(domain).contains(node)
            }
            DomainId::Group(group) => self.groups.contains(group, node),
        }
    }

    /// Which of these domains, all of one kind, a node is in.
    pub(crate) fn positions(&self, choice: &[DomainId], node: NodeId) -> Vec<usize> {
        match choice.first() {
            None => Vec::new(),
            Some(DomainId::Labels { labels, .. }) => {
                let at = self.by_labels[*labels].1.at(node).and_then(|at| {
                    let wanted = DomainId::Labels {
                        labels: *labels,
                        domain: at,
                    };
                    // They are in the order of their places.
                    choice
                        .binary_search_by_key(&place(wanted), |within| place(*within))
                        .ok()
                });
                at.into_iter().collect()
            }
            Some(DomainId::Group(_)) => {
                let all = choice.iter().enumerate();
                let holding = all.filter(|(_, within)| self.contains(**within, node));
                holding.map(|(at, _)| at).collect()
            }
        }
    }

    /// `rack=1`, or the name of a HyperNode.
    pub(crate) fn words(&self, within: DomainId) -> String {
        match within {
            DomainId::Labels { labels, domain } => self.by_labels[labels].1.get(domain).to_string(),
            DomainId::Group(group) => self.groups.at(group).name.to_string(),
        }
    }

    /// The name of a domain, if there is one.
    pub(crate) fn words_of(&self, within: Option<DomainId>) -> String {
        within.map_or_else(String::new, |within| self.words(within))
    }

    /// The tier of a group of near nodes; 0 for a domain by labels.
    pub(crate) fn tier(&self, within: DomainId) -> i32 {
        match within {
            DomainId::Labels { .. } => 0,
            DomainId::Group(group) => self.groups.at(group).tier,
        }
    }
}

const fn place(within: DomainId) -> usize {
    match within {
        DomainId::Labels { domain, .. } => domain,
        DomainId::Group(group) => group.index(),
    }
}
