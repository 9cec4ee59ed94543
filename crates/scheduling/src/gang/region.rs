//! The nodes that a group of a tree may use: a topology domain inside those of its parents.

use evictd_placement::{Cluster, Domain, Domains, NodeId};
use std::collections::BTreeSet;

/// The nodes that are in all of these domains. Without a domain these are all nodes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Region<'d>(Vec<Domain<'d>>);

impl<'d> Region<'d> {
    pub(crate) fn contains(&self, node: NodeId) -> bool {
        self.0.iter().all(|domain| domain.contains(node))
    }

    /// The regions that a group with these domains may use, sorted by label values. Pods that have a node already fix the region
    /// (S7-090).
    ///
    /// # Errors
    /// Those pods are in several domains, or one of them is in none.
    pub(crate) fn inside<'p>(
        &self,
        cluster: &Cluster,
        domains: &'d Domains,
        scheduled: impl Iterator<Item = (&'p str, &'p str)>,
    ) -> Result<Vec<Self>, String> {
        if domains.keys().len() == 0 {
            return Ok(vec![self.clone()]);
        }
        let mut found = domains.of_group(cluster, scheduled)?;
        if !self.0.is_empty() {
            cluster.interrupt().charge_steps(cluster.nodes().len());
            let nodes = cluster.node_ids().filter(|node| self.contains(*node));
            let reachable: BTreeSet<usize> = nodes.filter_map(|node| domains.at(node)).collect();
            found.retain(|domain| reachable.contains(&domain.index()));
        }
        let region = |domain| Self([&*self.0, &[domain]].concat());
        Ok(found.into_iter().map(region).collect())
    }
}
