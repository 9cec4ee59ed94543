//! Parts of a cluster in one of which all pods of a group have to be.

use crate::cluster::Cluster;
use crate::id::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The nodes of a cluster by the values of some labels: those with the same value of each are one domain. Nodes without
/// one of the labels are in none. Without any label all nodes are one domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domains {
    keys: Vec<Box<str>>,
    /// The values of each domain, in alphabetical order.
    values: Vec<Vec<Box<str>>>,
    /// By [`NodeId::index`]; empty without labels.
    of: Vec<Option<usize>>,
}

/// One of them.
#[derive(Debug, Clone, Copy)]
pub struct Domain<'d> {
    domains: &'d Domains,
    index: usize,
}

impl Domains {
    /// Those of a cluster by these labels.
    pub fn new<'k>(cluster: &Cluster, keys: impl IntoIterator<Item = &'k str>) -> Self {
        let keys: Vec<Box<str>> = keys.into_iter().map(Box::from).collect();
        if keys.is_empty() {
            return Self {
                keys,
                values: vec![Vec::new()],
                of: Vec::new(),
            };
        }
        let symbols = cluster.symbols();
        let values = |id: NodeId| -> Option<Vec<&str>> {
            let labels = &cluster.node(id).labels;
            let values = keys.iter().map(|key| labels.get(symbols.get(key)?));
            values.map(|own| Some(symbols.text(own?))).collect()
        };
        let of_nodes: Vec<Option<Vec<&str>>> = cluster.node_ids().map(values).collect();
        let found: BTreeSet<&Vec<&str>> = of_nodes.iter().flatten().collect();
        let indices = found.iter().enumerate();
        let indices: BTreeMap<&Vec<&str>, usize> =
            indices.map(|(index, own)| (*own, index)).collect();
        let of = of_nodes.iter().map(|own| {
            let own = own.as_ref()?;
            indices.get(own).copied()
        });
        let owned = |values: &&Vec<&str>| values.iter().map(|own| Box::from(*own)).collect();
        Self {
            of: of.collect(),
            values: found.iter().map(owned).collect(),
            keys,
        }
    }

    /// The labels.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.keys.iter().map(AsRef::as_ref)
    }

    /// How many there are.
    pub const fn count(&self) -> usize {
        self.values.len()
    }

    /// The domain of a node.
    pub fn at(&self, node: NodeId) -> Option<usize> {
        if self.keys.is_empty() {
            return Some(0);
        }
        self.of.get(node.index()).copied().flatten()
    }

    /// The domain with this index.
    pub const fn get(&self, index: usize) -> Domain<'_> {
        Domain {
            domains: self,
            index,
        }
    }

    /// The domains among which a group has the choice, by the values of its labels in alphabetical order. Where some of its
    /// pods have nodes already, only theirs is left.
    pub fn choice(&self, taken: impl IntoIterator<Item = NodeId>) -> Vec<Domain<'_>> {
        let taken = taken.into_iter().filter_map(|node| self.at(node));
        let taken: BTreeSet<usize> = taken.collect();
        if taken.is_empty() {
            return (0..self.count()).map(|index| self.get(index)).collect();
        }
        taken.into_iter().map(|index| self.get(index)).collect()
    }
}

impl Domain<'_> {
    /// Its index among those by the same labels.
    pub const fn index(&self) -> usize {
        self.index
    }

    /// Whether a node is in it.
    pub fn contains(&self, node: NodeId) -> bool {
        self.domains.at(node) == Some(self.index)
    }
}

/// `zone=a, rack=1`.
impl fmt::Display for Domain<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self.domains.values.get(self.index).into_iter().flatten();
        for (at, (key, value)) in self.domains.keys.iter().zip(values).enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            write!(formatter, "{comma}{key}={value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Nodes `0`, `1` and so on with these labels.
    fn cluster(labels: &[&[(&str, &str)]]) -> Cluster {
        let mut cluster = Cluster::new();
        for (index, labels) in labels.iter().enumerate() {
            let labels: BTreeMap<&str, &str> = labels.iter().copied().collect();
            let node = json!({"metadata": {"name": index.to_string(), "labels": labels}});
            assert!(cluster.add_node(&serde_json::from_value(node).unwrap()));
        }
        cluster
    }

    /// Each domain that there is the choice of, with the nodes in it.
    fn choice(domains: &Domains, nodes: usize, taken: &[usize]) -> Vec<(String, Vec<usize>)> {
        let taken = taken.iter().map(|node| NodeId::of(*node));
        let choice = domains.choice(taken).into_iter();
        let nodes = |own: &Domain<'_>| {
            let nodes = (0..nodes).filter(|node| own.contains(NodeId::of(*node)));
            nodes.collect()
        };
        choice.map(|own| (own.to_string(), nodes(&own))).collect()
    }

    fn named(domains: &[(&str, &[usize])]) -> Vec<(String, Vec<usize>)> {
        let domains = domains.iter();
        let domains = domains.map(|(name, nodes)| ((*name).to_owned(), nodes.to_vec()));
        domains.collect()
    }

    #[test]
    fn nodes_with_the_same_values_are_one_domain_and_those_without_a_label_are_in_none() {
        let cluster = cluster(&[
            &[("zone", "b"), ("rack", "1")],
            &[("zone", "a"), ("rack", "2")],
            &[("zone", "a"), ("rack", "1")],
            &[("zone", "a")],
            &[],
            &[("zone", "b"), ("rack", "1")],
        ]);
        let by = |keys: &[&str], taken: &[usize]| {
            choice(&Domains::new(&cluster, keys.iter().copied()), 6, taken)
        };
        let zones: &[(&str, &[usize])] = &[("zone=a", &[1, 2, 3]), ("zone=b", &[0, 5])];
        assert_eq!(by(&["zone"], &[]), named(zones));
        assert_eq!(
            by(&["zone", "rack"], &[]),
            named(&[
                ("zone=a, rack=1", &[2]),
                ("zone=a, rack=2", &[1]),
                ("zone=b, rack=1", &[0, 5]),
            ])
        );
        // Where pods are their domains are left; a node that is in none says nothing.
        assert_eq!(by(&["zone"], &[4, 5]), named(&zones[1..]));
        assert_eq!(by(&["zone"], &[4]), named(zones));
        assert_eq!(by(&["zone"], &[0, 1]), named(zones));
        assert_eq!(by(&["row"], &[]), named(&[]));
        assert_eq!(by(&[], &[3]), named(&[("", &[0, 1, 2, 3, 4, 5])]));
    }
}
