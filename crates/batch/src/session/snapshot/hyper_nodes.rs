//! Groups of near nodes as a session sees them: the tree of HyperNodes, and one above all of them (S6-172, S6-173).

use evictd_hyper_nodes::{HyperNode, Order, Tree};
use evictd_placement::{Cluster, NodeId};
use evictd_pod::wire::Metadata;
use hashbrown::HashMap;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The name of the group of all nodes.
pub(crate) const TOP: &str = "<cluster-top-hypernode>";

/// A HyperNode by its place; the one above all others is the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HyperNodeId(u32);

impl HyperNodeId {
    fn of(index: usize) -> Self {
        // A tree has not so many.
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A group of near nodes.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) name: Arc<str>,
    pub(crate) tier: i32,
    tier_name: String,
    pub(crate) parent: Option<HyperNodeId>,
    pub(crate) children: Vec<HyperNodeId>,
    /// Its nodes in the order of their names.
    pub(crate) nodes: Vec<NodeId>,
    /// Whether each node is one of them, by index, 64 in a number.
    bits: Box<[u64]>,
    /// Whether the object exists, so that its tier counts.
    exists: bool,
}

/// All groups.
#[derive(Debug, Default)]
pub(crate) struct HyperNodes {
    groups: Vec<Group>,
    /// The groups of each node.
    of_node: Vec<Vec<HyperNodeId>>,
    /// The tiers of all groups, the lowest first.
    tiers: Vec<i32>,
    pub(crate) ready: bool,
    /// The mistakes in the tree.
    pub(crate) mistakes: Vec<String>,
}

impl HyperNodes {
    /// The groups of the nodes of a cluster; `by_rank` has them in the order of their names.
    pub(crate) fn build(
        cluster: &Cluster,
        by_rank: &[NodeId],
        objects: &[&HyperNode],
        order: Order,
    ) -> Self {
        let nodes: Vec<Metadata> = if objects.is_empty() {
            Vec::new()
        } else {
            by_rank.iter().map(|id| metadata(cluster, *id)).collect()
        };
        let nodes: Vec<&Metadata> = nodes.iter().collect();
        let tree = Tree::build(objects, &nodes, order);
        let words = (cluster.nodes().len()).div_ceil(64);
        let mut groups: Vec<Group> = Vec::new();
        let top = HyperNodeId::of(tree.entries().len());
        let id = |id: evictd_hyper_nodes::HyperNodeId| HyperNodeId::of(id.index());
        let ranks: HashMap<&str, usize> = (0..by_rank.len())
            .map(|rank| (cluster.node_name(by_rank[rank]), rank))
            .collect();
        for entry in tree.entries() {
            let of_group = entry.nodes.iter();
            let of_group = of_group.filter_map(|name| ranks.get(name.as_str()).copied());
            let mut of_group: Vec<usize> = of_group.collect();
            of_group.sort_unstable();
            let of_group = of_group.into_iter().map(|rank| by_rank[rank]);
            groups.push(Group {
                name: entry.name.as_str().into(),
                tier: entry.tier,
                tier_name: entry.tier_name.clone(),
                parent: Some(entry.parent.map_or(top, id)),
                children: entry.children.iter().map(|child| id(*child)).collect(),
                nodes: of_group.collect(),
                bits: vec![0; words].into(),
                exists: entry.exists,
            });
        }
        let tiers = groups.iter().filter(|group| group.exists);
        let mut tiers: BTreeSet<i32> = tiers.map(|group| group.tier).collect();
        let highest = tiers.last().copied().unwrap_or(0).max(0);
        let tier = highest.saturating_add(1);
        tiers.insert(tier);
        let children = groups.iter().enumerate();
        let children = children.filter(|(_, group)| group.parent == Some(top));
        groups.push(Group {
            name: TOP.into(),
            tier,
            tier_name: String::new(),
            parent: None,
            children: children.map(|(index, _)| HyperNodeId::of(index)).collect(),
            nodes: by_rank.to_vec(),
            bits: vec![0; words].into(),
            exists: true,
        });
        let mut of_node = vec![Vec::new(); cluster.nodes().len()];
        for (index, group) in groups.iter_mut().enumerate() {
            for node in &group.nodes {
                group.bits[node.index() / 64] |= 1 << (node.index() % 64);
                of_node[node.index()].push(HyperNodeId::of(index));
            }
        }
        Self {
            groups,
            of_node,
            tiers: tiers.into_iter().collect(),
            ready: tree.is_ready(),
            mistakes: tree.mistakes().iter().map(ToString::to_string).collect(),
        }
    }

    /// Whether there is no HyperNode, so that only the group of all nodes is left.
    pub(crate) fn is_flat(&self) -> bool {
        self.groups.len() <= 1
    }

    /// The group of all nodes.
    pub(crate) fn top(&self) -> HyperNodeId {
        HyperNodeId::of(self.groups.len().saturating_sub(1))
    }

    pub(crate) fn at(&self, id: HyperNodeId) -> &Group {
        &self.groups[id.index()]
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = HyperNodeId> + use<> {
        (0..self.groups.len()).map(HyperNodeId::of)
    }

    pub(crate) fn tiers(&self) -> &[i32] {
        &self.tiers
    }

    /// The groups that a node is in.
    pub(crate) fn of_node(&self, node: NodeId) -> &[HyperNodeId] {
        self.of_node.get(node.index()).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn contains(&self, id: HyperNodeId, node: NodeId) -> bool {
        let bits = self.groups[id.index()].bits.get(node.index() / 64);
        bits.is_some_and(|bits| bits >> (node.index() % 64) & 1 == 1)
    }

    /// Whether the tier of a group counts: its object exists.
    pub(crate) fn exists(&self, id: HyperNodeId) -> bool {
        self.groups[id.index()].exists
    }

    /// The tier of a name.
    pub(crate) fn tier_of_name(&self, name: &str) -> Option<i32> {
        let mut named = self.groups.iter().rev();
        named
            .find(|group| group.tier_name == name && group.exists)
            .map(|group| group.tier)
    }

    /// The names of tiers, sorted.
    pub(crate) fn tier_names(&self) -> BTreeSet<&str> {
        let names = self.groups.iter().map(|group| group.tier_name.as_str());
        names.filter(|name| !name.is_empty()).collect()
    }

    /// The group of a node in the lowest tier that there is; none for a node that is in no such group.
    pub(crate) fn lowest_of(&self, node: NodeId) -> Option<HyperNodeId> {
        let lowest = *self.tiers.first()?;
        let mut groups = self.of_node(node).iter().copied();
        groups.find(|id| self.exists(*id) && self.at(*id).tier == lowest)
    }

    /// A group and those above it. Circles end.
    pub(crate) fn ancestors(&self, id: HyperNodeId) -> Vec<HyperNodeId> {
        let mut ancestors = vec![id];
        let mut current = id;
        while let Some(parent) = self.at(current).parent {
            if ancestors.contains(&parent) {
                break;
            }
            ancestors.push(parent);
            current = parent;
        }
        ancestors
    }

    /// The lowest group above both; either of them if the other is unknown.
    pub(crate) fn common(
        &self,
        one: Option<HyperNodeId>,
        other: Option<HyperNodeId>,
    ) -> Option<HyperNodeId> {
        let (Some(left), Some(right)) = (one, other) else {
            return one.or(other);
        };
        let above = self.ancestors(left);
        self.ancestors(right)
            .into_iter()
            .find(|ancestor| above.contains(ancestor))
    }

    /// A group and all below it.
    pub(crate) fn below(&self, root: HyperNodeId) -> Vec<HyperNodeId> {
        let mut all = vec![root];
        let mut seen = vec![false; self.groups.len()];
        seen[root.index()] = true;
        let mut at = 0;
        while let Some(id) = all.get(at).copied() {
            for child in &self.at(id).children {
                if !std::mem::replace(&mut seen[child.index()], true) {
                    all.push(*child);
                }
            }
            at += 1;
        }
        all
    }
}

/// Name and labels of a node.
fn metadata(cluster: &Cluster, id: NodeId) -> Metadata {
    let symbols = cluster.symbols();
    let labels = cluster.node(id).labels.iter();
    Metadata {
        name: cluster.node_name(id).to_owned(),
        labels: labels
            .map(|(key, value)| (symbols.text(key), symbols.text(value)))
            .collect(),
        ..Metadata::default()
    }
}
