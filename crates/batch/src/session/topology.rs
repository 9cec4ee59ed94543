//! The domain of the cluster that all pods of a group have to be in.

use evictd_placement::{Cluster, Domains, NodeId};

/// A domain, by the labels that it follows from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct DomainId {
    labels: usize,
    domain: usize,
}

/// The domains of this session's nodes, by labels. They are worked out when a group first asks for them.
#[derive(Debug, Default)]
pub(crate) struct TopologyDomains(Vec<(Vec<Box<str>>, Domains)>);

impl TopologyDomains {
    /// The domains by these labels among which a group has the choice that has pods on these nodes.
    pub(crate) fn choice(
        &mut self,
        cluster: &Cluster,
        labels: &[Box<str>],
        taken: impl Iterator<Item = NodeId>,
    ) -> Vec<DomainId> {
        let at = self.by_labels(cluster, labels);
        let choice = self.0[at].1.choice(taken).into_iter();
        let within = choice.map(|domain| DomainId {
            labels: at,
            domain: domain.index(),
        });
        within.collect()
    }

    fn by_labels(&mut self, cluster: &Cluster, labels: &[Box<str>]) -> usize {
        if let Some(at) = self.0.iter().position(|(known, _)| known == labels) {
            return at;
        }
        let domains = Domains::new(cluster, labels.iter().map(AsRef::as_ref));
        self.0.push((labels.to_vec(), domains));
        self.0.len() - 1
    }

    /// Whether a pod may be on a node that has to be in a domain, if it has to be in one.
    pub(crate) fn reaches(&self, within: Option<DomainId>, node: NodeId) -> bool {
        within.is_none_or(|within| self.contains(within, node))
    }

    /// Whether a node is in a domain.
    fn contains(&self, within: DomainId, node: NodeId) -> bool {
        let domain = self.0[within.labels].1.get(within.domain);
        domain.contains(node)
    }

    /// Which of these domains, all by the same labels, a node is in.
    pub(crate) fn position(&self, choice: &[DomainId], node: NodeId) -> Option<usize> {
        let labels = choice.first()?.labels;
        let domain = self.0[labels].1.at(node)?;
        // They are in the order of their indices.
        choice
            .binary_search_by_key(&domain, |within| within.domain)
            .ok()
    }

    /// `rack=1`.
    pub(crate) fn words(&self, within: DomainId) -> String {
        self.0[within.labels].1.get(within.domain).to_string()
    }
}
