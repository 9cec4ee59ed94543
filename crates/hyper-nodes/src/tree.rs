//! The hierarchy of all HyperNodes (S6-171, S6-172).

use super::object::{HyperNode, MemberKind};
use super::selection::names;
use evictd_pod::wire::Metadata;
use std::collections::{BTreeMap, BTreeSet};

/// The most HyperNodes of a tree. Further ones are left out, and the tree is not ready.
pub const MOST_HYPER_NODES: usize = 10_000;

/// The most levels of a tree.
const MOST_LEVELS: usize = 64;

/// A HyperNode by its place in the tree, which is the order of the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HyperNodeId(u32);

impl HyperNodeId {
    /// The place.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// In which order HyperNodes are put into the tree. It matters only where the tree is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// By name, and one mistake is enough for a tree that is not ready.
    ByName,
    /// As they came, and the last one decides whether the tree is ready, as in Volcano.
    AsTheyCame,
}

/// A HyperNode in the tree.
#[derive(Debug, Clone, Default)]
pub struct TreeEntry {
    /// The name.
    pub name: String,
    /// The tier; 0 for one that does not exist.
    pub tier: i32,
    /// The name of the tier, or nothing.
    pub tier_name: String,
    /// The HyperNode of which it is a member.
    pub parent: Option<HyperNodeId>,
    /// The HyperNodes that are its members.
    pub children: BTreeSet<HyperNodeId>,
    /// The names of its nodes, and of those below it. Some of them may not exist.
    pub nodes: BTreeSet<String>,
    /// Whether the HyperNode exists. If not, another one names it as its member.
    pub exists: bool,
}

/// A mistake in a tree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TreeMistake {
    /// A HyperNode is below itself.
    #[error(
        "cyclic dependency detected: HyperNode {name} is already in the ancestor chain [{}]",
        .chain.join(" ")
    )]
    Circle {
        /// The HyperNode.
        name: String,
        /// It and those between.
        chain: Vec<String>,
    },
    /// A HyperNode is a member of two others.
    #[error(
        "HyperNode {member} already has a parent {parent}, and cannot set another parent {other}"
    )]
    TwoParents {
        /// The member.
        member: String,
        /// The one that it belongs to.
        parent: String,
        /// The other one.
        other: String,
    },
    /// There are too many levels.
    #[error("HyperNode {name} is more than {MOST_LEVELS} levels below the top")]
    TooDeep {
        /// The HyperNode.
        name: String,
    },
    /// There are too many HyperNodes.
    #[error("there are {count} HyperNodes, and at most {MOST_HYPER_NODES} are read")]
    TooMany {
        /// How many there are.
        count: usize,
    },
}

/// The hierarchy.
#[derive(Debug, Clone)]
pub struct Tree {
    entries: Vec<TreeEntry>,
    mistakes: Vec<TreeMistake>,
    ready: bool,
}

impl Default for Tree {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            mistakes: Vec::new(),
            ready: true,
        }
    }
}

impl Tree {
    /// The tree of these HyperNodes over these nodes.
    pub fn build(hyper_nodes: &[&HyperNode], nodes: &[&Metadata], order: Order) -> Self {
        let mut sorted = hyper_nodes.to_vec();
        sorted.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
        sorted.dedup_by(|one, other| one.metadata.name == other.metadata.name);
        let count = sorted.len();
        sorted.truncate(MOST_HYPER_NODES);
        let mut builder = Builder::new(&sorted, nodes);
        let mut mistakes = builder.put_all(&sorted);
        if count > MOST_HYPER_NODES {
            mistakes.push(TreeMistake::TooMany { count });
        }
        // Without a mistake the order does not matter, and each HyperNode is built only once.
        if order == Order::ByName || mistakes.is_empty() || count > MOST_HYPER_NODES {
            return Self {
                ready: mistakes.is_empty(),
                entries: builder.entries,
                mistakes,
            };
        }
        let mut builder = Builder::new(hyper_nodes, nodes);
        let mut mistakes = Vec::new();
        let mut ready = true;
        for hyper_node in hyper_nodes {
            match builder.put(hyper_node) {
                // One without members that another one names changes nothing.
                Ok(built) => ready |= built,
                Err(mistake) => {
                    ready = false;
                    mistakes.push(mistake);
                }
            }
        }
        Self {
            entries: builder.entries,
            mistakes,
            ready,
        }
    }

    /// Whether jobs can be placed by it.
    pub const fn is_ready(&self) -> bool {
        self.ready
    }

    /// Its mistakes, in the order in which they were found.
    pub fn mistakes(&self) -> &[TreeMistake] {
        &self.mistakes
    }

    /// The HyperNodes, in the order of their names.
    pub fn entries(&self) -> &[TreeEntry] {
        &self.entries
    }

    /// The places of all HyperNodes.
    pub fn ids(&self) -> impl Iterator<Item = HyperNodeId> + use<> {
        (0..u32::try_from(self.entries.len()).unwrap_or(u32::MAX)).map(HyperNodeId)
    }

    /// The HyperNode at a place of this tree.
    pub fn at(&self, id: HyperNodeId) -> &TreeEntry {
        &self.entries[id.index()]
    }

    /// The place of the HyperNode of this name.
    pub fn find(&self, name: &str) -> Option<HyperNodeId> {
        find(&self.entries, name)
    }
}

fn find(entries: &[TreeEntry], name: &str) -> Option<HyperNodeId> {
    let at = entries.binary_search_by(|entry| entry.name.as_str().cmp(name));
    at.ok()
        .and_then(|at| u32::try_from(at).ok())
        .map(HyperNodeId)
}

/// A tree that is being built, one HyperNode after the other.
struct Builder<'b> {
    entries: Vec<TreeEntry>,
    /// By place, the object once it came.
    objects: Vec<Option<&'b HyperNode>>,
    /// By place, whether some HyperNode that came has it as its member.
    named: Vec<bool>,
    /// By place, the HyperNodes that have it as their member.
    claimers: Vec<Vec<HyperNodeId>>,
    nodes: &'b [&'b Metadata],
}

impl<'b> Builder<'b> {
    fn new(hyper_nodes: &[&'b HyperNode], nodes: &'b [&'b Metadata]) -> Self {
        let mut all: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for hyper_node in hyper_nodes {
            let name = hyper_node.metadata.name.as_str();
            all.entry(name).or_default();
            for child in children(hyper_node) {
                all.entry(child).or_default().push(name);
            }
        }
        let entries: Vec<TreeEntry> = all
            .keys()
            .map(|name| TreeEntry {
                name: (*name).to_owned(),
                ..TreeEntry::default()
            })
            .collect();
        let claimers = all.into_values().map(|names| {
            let ids: BTreeSet<HyperNodeId> = names
                .iter()
                .filter_map(|name| find(&entries, name))
                .collect();
            ids.into_iter().collect()
        });
        let claimers = claimers.collect();
        Self {
            objects: vec![None; entries.len()],
            named: vec![false; entries.len()],
            claimers,
            entries,
            nodes,
        }
    }

    fn at(&mut self, id: HyperNodeId) -> &mut TreeEntry {
        &mut self.entries[id.index()]
    }

    /// All of them came: each is built once. Returns the mistakes.
    fn put_all(&mut self, hyper_nodes: &[&'b HyperNode]) -> Vec<TreeMistake> {
        let ids: Vec<HyperNodeId> = hyper_nodes
            .iter()
            .filter_map(|hyper_node| self.enter(hyper_node))
            .collect();
        let mut built = BTreeSet::new();
        let results = ids
            .iter()
            .map(|id| self.build(*id, None, &mut built, &mut Vec::new()));
        let mut mistakes: Vec<TreeMistake> = Vec::new();
        for mistake in results.filter_map(Result::err) {
            // Each HyperNode of a circle finds it.
            let is_known = mistakes.iter().any(|known| match (known, &mistake) {
                (TreeMistake::Circle { chain, .. }, TreeMistake::Circle { chain: other, .. }) => {
                    chain == other
                }
                _ => false,
            });
            if !is_known {
                mistakes.push(mistake);
            }
        }
        for id in ids {
            if self.ancestors(id).len() > MOST_LEVELS {
                mistakes.push(TreeMistake::TooDeep {
                    name: self.name(id),
                });
                break;
            }
        }
        mistakes
    }

    /// Enters the object of a HyperNode.
    fn enter(&mut self, hyper_node: &'b HyperNode) -> Option<HyperNodeId> {
        let id = find(&self.entries, &hyper_node.metadata.name)?;
        self.objects[id.index()] = Some(hyper_node);
        let entry = self.at(id);
        entry.exists = true;
        entry.tier = hyper_node.spec.tier;
        entry.tier_name.clone_from(&hyper_node.spec.tier_name);
        Some(id)
    }

    /// A HyperNode came: it and those above it are built again. Returns whether that was needed.
    fn put(&mut self, hyper_node: &'b HyperNode) -> Result<bool, TreeMistake> {
        let Some(id) = self.enter(hyper_node) else {
            return Ok(false);
        };
        if hyper_node.spec.members.is_empty() && self.named[id.index()] {
            return Ok(false);
        }
        let ancestors = self.ancestors(id);
        for ancestor in &ancestors {
            let entry = self.at(*ancestor);
            entry.nodes.clear();
            entry.parent = None;
            entry.children.clear();
        }
        let mut built = BTreeSet::new();
        for ancestor in &ancestors {
            self.build(*ancestor, Some(&ancestors), &mut built, &mut Vec::new())?;
        }
        Ok(true)
    }

    /// A HyperNode and those above it. One that is in no other one yet may be claimed by one of a higher tier.
    fn ancestors(&self, id: HyperNodeId) -> Vec<HyperNodeId> {
        let mut ancestors = vec![id];
        let mut current = id;
        loop {
            let entry = &self.entries[current.index()];
            let tier = if entry.exists || self.named[current.index()] {
                entry.tier
            } else {
                -1
            };
            let mut claimers = self.claimers[current.index()].iter().copied();
            let claimer = claimers.find(|claimer| {
                let entry = &self.entries[claimer.index()];
                entry.exists && entry.tier > tier
            });
            match entry.parent.or(claimer) {
                Some(parent) if !ancestors.contains(&parent) => {
                    ancestors.push(parent);
                    current = parent;
                }
                _ => return ancestors,
            }
        }
    }

    /// Builds a HyperNode, those below it first; with `ancestors` only those among them.
    fn build(
        &mut self,
        id: HyperNodeId,
        ancestors: Option<&[HyperNodeId]>,
        built: &mut BTreeSet<HyperNodeId>,
        chain: &mut Vec<HyperNodeId>,
    ) -> Result<(), TreeMistake> {
        if chain.contains(&id) {
            let mut names: Vec<String> = chain.iter().map(|id| self.name(*id)).collect();
            names.sort();
            let name = self.name(id);
            return Err(TreeMistake::Circle { name, chain: names });
        }
        if built.contains(&id) || ancestors.is_some_and(|among| !among.contains(&id)) {
            return Ok(());
        }
        if chain.len() >= MOST_LEVELS {
            return Err(TreeMistake::TooDeep {
                name: self.name(id),
            });
        }
        chain.push(id);
        let members = self.objects[id.index()].map_or(&[][..], |object| &object.spec.members);
        for member in members {
            match member.kind {
                MemberKind::Node => {
                    let found = names(&member.selector, self.nodes);
                    self.at(id).nodes.extend(found);
                }
                MemberKind::HyperNode => {
                    // HyperNodes are members by name only.
                    let exact = member.selector.exact_match.as_ref();
                    let Some(child) = exact.and_then(|exact| find(&self.entries, &exact.name))
                    else {
                        continue;
                    };
                    self.adopt(id, child)?;
                    self.build(child, ancestors, built, chain)?;
                    let nodes = self.at(child).nodes.clone();
                    self.at(id).nodes.extend(nodes);
                }
                MemberKind::Unknown => {}
            }
        }
        chain.pop();
        built.insert(id);
        Ok(())
    }

    /// Makes a HyperNode a member of another one.
    fn adopt(&mut self, parent: HyperNodeId, child: HyperNodeId) -> Result<(), TreeMistake> {
        self.named[child.index()] = true;
        if let Some(known) = self.at(child).parent.filter(|known| *known != parent) {
            return Err(TreeMistake::TwoParents {
                member: self.name(child),
                parent: self.name(known),
                other: self.name(parent),
            });
        }
        self.at(child).parent = Some(parent);
        self.at(parent).children.insert(child);
        Ok(())
    }

    fn name(&self, id: HyperNodeId) -> String {
        self.entries[id.index()].name.clone()
    }
}

/// The names of the HyperNodes that are members of this one.
fn children(hyper_node: &HyperNode) -> impl Iterator<Item = &str> {
    let members = hyper_node.spec.members.iter();
    let members = members.filter(|member| member.kind == MemberKind::HyperNode);
    let exact = members.filter_map(|member| member.selector.exact_match.as_ref());
    exact
        .map(|exact| exact.name.as_str())
        .filter(|name| !name.is_empty())
}
