//! Topology domains for a gang whose pods must all be in one of them.

use crate::cluster::Cluster;
use crate::id::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The nodes grouped by the values of some labels. Nodes with the same values form a domain. A node that lacks a label
/// is in no domain. Without labels all nodes form one domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domains {
    keys: Vec<Box<str>>,
    /// The label values of each domain, sorted.
    values: Vec<Vec<Box<str>>>,
    /// The domain of each node, by [`NodeId::index`]; empty without labels.
    of: Vec<Option<usize>>,
}

/// One domain.
#[derive(Debug, Clone, Copy)]
pub struct Domain<'d> {
    domains: &'d Domains,
    index: usize,
}

impl Domains {
    /// Groups the nodes of a cluster by these labels.
    pub fn new<'k>(cluster: &Cluster, keys: impl IntoIterator<Item = &'k str>) -> Self {
        let keys: Vec<Box<str>> = keys.into_iter().map(Box::from).collect();
        // Without keys the whole cluster is one domain.
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
            values.map(|value| Some(symbols.text(value?))).collect()
        };
        let of_nodes: Vec<Option<Vec<&str>>> = cluster.node_ids().map(values).collect();
        // Sorted by their values, so that the index of a domain does not depend on the order of nodes.
        let found: BTreeSet<&Vec<&str>> = of_nodes.iter().flatten().collect();
        let indices = found.iter().enumerate();
        let indices: BTreeMap<&Vec<&str>, usize> =
            indices.map(|(index, values)| (*values, index)).collect();
        let of = of_nodes.iter().map(|values| {
            let values = values.as_ref()?;
            indices.get(values).copied()
        });
        let owned = |values: &&Vec<&str>| values.iter().map(|value| Box::from(*value)).collect();
        Self {
            of: of.collect(),
            values: found.iter().map(owned).collect(),
            keys,
        }
    }

    /// The label keys.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.keys.iter().map(AsRef::as_ref)
    }

    /// The number of domains.
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

    /// The domains that a gang of a batch session may use, sorted by label values. If some of its pods are on nodes already,
    /// only the domains of these nodes remain.
    pub fn choice(&self, taken: impl IntoIterator<Item = NodeId>) -> Vec<Domain<'_>> {
        let taken = taken.into_iter().filter_map(|node| self.at(node));
        let taken: BTreeSet<usize> = taken.collect();
        if taken.is_empty() {
            return (0..self.count()).map(|index| self.get(index)).collect();
        }
        taken.into_iter().map(|index| self.get(index)).collect()
    }

    /// The domains that a group may use, sorted by label values. If some of its pods have a node already, only the domain of
    /// these nodes remains.
    ///
    /// # Errors
    /// Those pods are in several domains, or one of them is in none (S7-090).
    pub fn of_group<'p>(
        &self,
        cluster: &Cluster,
        scheduled: impl IntoIterator<Item = (&'p str, &'p str)>,
    ) -> Result<Vec<Domain<'_>>, String> {
        const START: &str = "cannot determine domain for already scheduled pods:";
        let mut taken: Option<usize> = None;
        for (pod, node) in scheduled {
            // A deleted node has no known domain.
            let Some(node) = cluster.find_node(node) else {
                continue;
            };
            let Some(found) = self.at(node) else {
                return Err(format!("{START} no topology domain found for pod {pod}"));
            };
            if let Some(before) = taken.filter(|before| *before != found) {
                let [one, other] = [before, found].map(|index| self.values[index].join(","));
                return Err(format!(
                    "{START} more than 1 domain found for pod group: {one}, {other}"
                ));
            }
            taken = Some(found);
        }
        Ok(match taken {
            Some(index) => vec![self.get(index)],
            None => (0..self.count()).map(|index| self.get(index)).collect(),
        })
    }
}

impl Domain<'_> {
    /// Its index in [`Domains`].
    pub const fn index(&self) -> usize {
        self.index
    }

    /// Whether a node is in the domain.
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

    /// Nodes named `0`, `1` and so on with these labels.
    fn cluster(labels: &[&[(&str, &str)]]) -> Cluster {
        let mut cluster = Cluster::new();
        for (index, labels) in labels.iter().enumerate() {
            let labels: BTreeMap<&str, &str> = labels.iter().copied().collect();
            let node = json!({"metadata": {"name": index.to_string(), "labels": labels}});
            assert!(cluster.add_node(&serde_json::from_value(node).unwrap()));
        }
        cluster
    }

    /// The possible domains and their nodes, for a group with pods on nodes of these names.
    fn choice(
        domains: &Domains,
        cluster: &Cluster,
        taken: &[&str],
    ) -> Result<Vec<(String, Vec<usize>)>, String> {
        let taken = taken.iter().map(|node| ("train-0", *node));
        let choice = domains.of_group(cluster, taken)?.into_iter();
        let nodes = |domain: &Domain<'_>| {
            let nodes = (0..6).filter(|node| domain.contains(NodeId::of(*node)));
            nodes.collect()
        };
        Ok(choice
            .map(|domain| (domain.to_string(), nodes(&domain)))
            .collect())
    }

    fn named(domains: &[(&str, &[usize])]) -> Vec<(String, Vec<usize>)> {
        let domains = domains.iter();
        let domains = domains.map(|(name, nodes)| ((*name).to_owned(), nodes.to_vec()));
        domains.collect()
    }

    #[test]
    fn s7_090_nodes_with_equal_values_form_a_domain_and_running_pods_fix_it() {
        let cluster = cluster(&[
            &[("zone", "b"), ("rack", "1")],
            &[("zone", "a"), ("rack", "2")],
            &[("zone", "a"), ("rack", "1")],
            &[("zone", "a")],
            &[],
            &[("zone", "b"), ("rack", "1")],
        ]);
        let by = |keys: &[&str], taken: &[&str]| {
            let domains = Domains::new(&cluster, keys.iter().copied());
            choice(&domains, &cluster, taken)
        };
        let zones: &[(&str, &[usize])] = &[("zone=a", &[1, 2, 3]), ("zone=b", &[0, 5])];
        assert_eq!(by(&["zone"], &[]), Ok(named(zones)));
        assert_eq!(
            by(&["zone", "rack"], &[]),
            Ok(named(&[
                ("zone=a, rack=1", &[2]),
                ("zone=a, rack=2", &[1]),
                ("zone=b, rack=1", &[0, 5]),
            ]))
        );
        // Only the domain of running pods remains. A deleted node adds no restriction.
        assert_eq!(by(&["zone"], &["0", "5"]), Ok(named(&zones[1..])));
        assert_eq!(by(&["zone"], &["gone"]), Ok(named(zones)));
        let start = "cannot determine domain for already scheduled pods:";
        assert_eq!(
            by(&["zone"], &["4"]),
            Err(format!("{start} no topology domain found for pod train-0"))
        );
        assert_eq!(
            by(&["zone"], &["0", "1"]),
            Err(format!(
                "{start} more than 1 domain found for pod group: b, a"
            ))
        );
        assert_eq!(by(&["row"], &[]), Ok(named(&[])));
        assert_eq!(by(&[], &["3"]), Ok(named(&[("", &[0, 1, 2, 3, 4, 5])])));
    }
}
