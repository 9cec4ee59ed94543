//! The cluster: nodes, the pods on them, and what they refer to.

mod devices;
mod pods;
mod sharing;
mod spread;
mod statement;
mod storage;
mod told;

pub(crate) use devices::Seen;
use sharing::Chosen;
pub(crate) use sharing::ChosenVolume;
pub use statement::Statement;

use crate::changes::Changes;
use crate::evicted::Evicted;
use crate::features::Features;
use crate::group::{Counts, Group, Groups};
use crate::id::NodeId;
use crate::images::Images;
use crate::interrupt::Interrupt;
use crate::labels::Labels;
use crate::name_ranks::NameRanks;
use crate::node::{Node, Taint};
use crate::places::{Places, Topologies};
use crate::pod::Pod;
use crate::pressure::Pressure;
use crate::resources::{Amounts, ScalarSums, Scalars, ScalarsId, Scored, amount, scalars};
use crate::selector::Selector;
use crate::spreaders::Spreaders;
use crate::storage::Storage;
use crate::symbol::{Held, Symbol, Symbols};
use crate::table::{Objects, Table};
use crate::template::Template;
use evictd_devices::Inventory;
use evictd_pod::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS};
use evictd_pod::{selector::SelectorError, wire};
use hashbrown::HashMap;
use std::sync::Arc;

/// A cluster, to be asked by [`crate::Checks`]. Objects may come, change and go in any order; what it holds afterwards is
/// what one holds that was only told of those that are left.
#[derive(Debug)]
pub struct Cluster {
    symbols: Symbols,
    cordon: Taint,
    /// The label that every namespace has its own name in.
    namespace_name: Symbol,
    nodes: Vec<Node>,
    node_by_name: HashMap<Symbol, NodeId>,
    name_ranks: NameRanks,
    namespaces: Objects<Symbol, Labels>,
    storage: Storage,
    devices: Inventory,
    chosen: Option<Chosen>,
    images: Images,
    topologies: Topologies,
    spreaders: Spreaders,
    templates: Table<Template>,
    groups: Groups,
    scalars: Table<Scalars>,
    /// Pods without a node that one is being freed for.
    nominated: Vec<Pod>,
    /// Pods whose node is not there, by its name.
    early: HashMap<Symbol, Vec<Pod>>,
    /// What has changed, so that answers can be kept.
    changes: Changes,
    evicted: Evicted,
    interrupt: Interrupt,
    /// Where each pod is, by its unique id; by `namespace/name` where the input has none.
    places: HashMap<Arc<str>, Place>,
}

/// Where a pod is kept.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// On the node of that name, or among the early ones while there is none. A reference to the name is held.
    Node(Symbol),
    Nominated,
}

/// How much a cluster keeps: bounded by the objects that are in it, whatever came and went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Nodes.
    pub nodes: usize,
    /// Pods on nodes, on nodes that are not there, and nominated ones.
    pub pods: usize,
    /// Different texts.
    pub symbols: usize,
    /// Different templates.
    pub templates: usize,
    /// Different lists of rarer resources.
    pub scalars: usize,
}

/// A selector of the pods of one namespace, compiled by [`Cluster::pod_selector`].
#[derive(Debug, PartialEq, Eq)]
pub struct PodSelector {
    /// The namespace.
    pub namespace: Symbol,
    /// Which of its pods.
    pub selector: Selector,
    held: Held,
}

impl Default for Cluster {
    fn default() -> Self {
        let mut symbols = Symbols::default();
        let mut scalars: Table<Scalars> = Table::default();
        let cordon = Taint {
            key: symbols.intern("node.kubernetes.io/unschedulable"),
            value: symbols.intern(""),
            effect: symbols.intern("NoSchedule"),
            forbids: true,
        };
        let namespace_name = symbols.intern("kubernetes.io/metadata.name");
        symbols.keep();
        // The empty list is the first and stays.
        scalars.intern(&mut symbols, Scalars::default());
        // So does the group of pods that the cluster does not keep.
        let mut groups = Groups::default();
        groups.of(&mut symbols, &Template::default(), &Labels::default());
        Self {
            cordon,
            namespace_name,
            symbols,
            nodes: Vec::new(),
            node_by_name: HashMap::new(),
            name_ranks: NameRanks::default(),
            namespaces: Objects::default(),
            storage: Storage::default(),
            devices: Inventory::default(),
            chosen: None,
            images: Images::default(),
            topologies: Topologies::default(),
            spreaders: Spreaders::default(),
            templates: Table::default(),
            groups,
            scalars,
            nominated: Vec::new(),
            early: HashMap::new(),
            changes: Changes::default(),
            evicted: Evicted::default(),
            interrupt: Interrupt::default(),
            places: HashMap::new(),
        }
    }
}

impl Cluster {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a node, with the pods that came before it. False, and nothing changes, if one of that name is there.
    pub fn add_node(&mut self, wire: &evictd_pod::Node) -> bool {
        if self.find_node(&wire.metadata.name).is_some() {
            return false;
        }
        let node = self.compile_node(wire);
        let name = node.name;
        // Each node takes more than a byte.
        let id = NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.topologies.put(id, &node.labels);
        self.changes.all();
        self.name_ranks.reset();
        self.nodes.push(node);
        self.node_by_name.insert(name, id);
        for pod in self.early.remove(&name).unwrap_or_default() {
            self.place(id, pod);
        }
        true
    }

    /// Puts a node in the place of the one of that name, whose pods stay on it; adds it if there is none.
    pub fn update_node(&mut self, wire: &evictd_pod::Node) {
        let Some(id) = self.find_node(&wire.metadata.name) else {
            self.add_node(wire);
            return;
        };
        let mut new = self.compile_node(wire);
        let old = &mut self.nodes[id.index()];
        if new.says_the_same(old) {
            // Its kubelet has only shown that it lives: what is known of it still holds.
            self.release_node(&new);
            return;
        }
        self.changes.all();
        new.pods = std::mem::take(&mut old.pods);
        new.requested = old.requested;
        new.requested_scalars = std::mem::take(&mut old.requested_scalars);
        new.scored = old.scored;
        new.volumes = old.volumes;
        let old = std::mem::replace(old, new);
        self.topologies.put(id, &self.nodes[id.index()].labels);
        self.release_node(&old);
    }

    /// Removes a node; whether it was there. Its pods are kept aside until it comes back or they are removed, too. The
    /// last node takes its place, and thereby its [`NodeId`].
    pub fn remove_node(&mut self, name: &str) -> bool {
        let Some(id) = self.find_node(name) else {
            return false;
        };
        self.changes.all();
        self.name_ranks.reset();
        let mut node = self.nodes.swap_remove(id.index());
        self.node_by_name.remove(&node.name);
        for pod in &node.pods {
            self.groups.count(pod.counted(), id, -1);
        }
        if let Some(moved) = self.nodes.get(id.index()) {
            self.node_by_name.insert(moved.name, id);
            // Each node takes more than a byte.
            let last = NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
            for pod in &moved.pods {
                self.groups.count(pod.counted(), last, -1);
                self.groups.count(pod.counted(), id, 1);
            }
        }
        let left = || self.nodes.iter().map(|node| &node.labels);
        self.topologies.swap_remove(id, left);
        let pods = std::mem::take(&mut node.pods);
        if !pods.is_empty() {
            self.early.insert(node.name, pods);
        }
        self.release_node(&node);
        true
    }

    fn compile_node(&mut self, wire: &evictd_pod::Node) -> Node {
        let symbols = &mut self.symbols;
        let name = symbols.intern(&wire.metadata.name);
        let taints = wire.spec.taints.iter().map(|taint| Taint {
            key: symbols.intern(&taint.key),
            value: symbols.intern(&taint.value),
            effect: symbols.intern(&taint.effect),
            forbids: matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"),
        });
        let taints = taints.collect();
        let labels = Labels::new(symbols, &wire.metadata.labels);
        let images = wire.status.images.iter();
        let images =
            images.flat_map(|image| image.names.iter().map(|name| (name, image.size_bytes)));
        let images = images.map(|(name, size)| (symbols.intern(name), size));
        let images = self.images.add(images);
        let held = symbols.hold();
        let list = &wire.status.allocatable;
        let rare = scalars(symbols, list.iter().map(|(name, own)| (name, *own)));
        Node {
            name,
            labels,
            unschedulable: wire.spec.unschedulable,
            taints,
            features: Features::of_node(&wire.status.declared_features),
            allocatable: Amounts {
                cpu: amount(list, CPU),
                memory: amount(list, MEMORY),
                ephemeral_storage: amount(list, EPHEMERAL_STORAGE),
                scalars: ScalarsId(self.scalars.intern(symbols, rare)),
            },
            allowed_pods: amount(list, PODS),
            requested: Amounts::default(),
            requested_scalars: ScalarSums::default(),
            scored: Scored::default(),
            volumes: 0,
            unknown_pods: 0,
            pressure: Pressure::of(wire),
            images,
            pods: Vec::new(),
            held,
        }
    }

    fn release_node(&mut self, node: &Node) {
        self.images.remove(&node.images);
        self.symbols.release_held(&node.held);
        let scalars = node.allocatable.scalars;
        self.scalars.release(&mut self.symbols, scalars.0);
    }

    /// Adds a namespace's labels, or puts them in the place of those it had.
    pub fn add_namespace(&mut self, wire: &wire::Namespace) {
        self.changes.all();
        let name = self.symbols.intern(&wire.metadata.name);
        let labels = Labels::new(&mut self.symbols, &wire.metadata.labels);
        self.namespaces.put(&mut self.symbols, name, labels);
    }

    /// Removes a namespace's labels; whether it was there.
    pub fn remove_namespace(&mut self, name: &str) -> bool {
        self.changes.all();
        let name = self.symbols.get(name);
        name.is_some_and(|name| self.namespaces.remove(&mut self.symbols, &name))
    }

    /// How much it keeps.
    pub fn sizes(&self) -> Sizes {
        Sizes {
            nodes: self.nodes.len(),
            pods: self.places.len(),
            symbols: self.symbols.count(),
            templates: self.templates.count(),
            scalars: self.scalars.count(),
        }
    }

    /// Pods whose node is not there, with its name; they count for nothing until it comes.
    pub fn lost(&self) -> impl Iterator<Item = (&str, &Pod)> {
        let early = self.early.iter();
        early.flat_map(|(node, pods)| pods.iter().map(|pod| (self.symbols.text(*node), pod)))
    }

    /// Gives back the room that was kept for growth.
    pub fn shrink(&mut self) {
        self.nodes.shrink_to_fit();
        for node in &mut self.nodes {
            node.pods.shrink_to_fit();
        }
    }

    /// Every text.
    pub const fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// Claims, volumes and what is known of them.
    pub(crate) const fn storage(&self) -> &Storage {
        &self.storage
    }

    /// When something changed that every answer may depend on, and when each node did.
    pub const fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Whether the attempt that is under way is to end.
    pub const fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// The same, for the caller that begins and ends attempts.
    pub const fn interrupt_mut(&mut self) -> &mut Interrupt {
        &mut self.interrupt
    }

    /// The places of a label.
    pub(crate) fn places(&self, key: Symbol) -> Arc<Places> {
        self.topologies.of(key, self.nodes.len())
    }

    /// A label whose values are places as long as the cluster is there.
    pub(crate) fn keep_topology(&mut self, key: Symbol) {
        let labels = self.nodes.iter().map(|node| &node.labels);
        self.topologies.add(key, labels);
    }

    /// Where the pods of a group are, by its index.
    pub(crate) fn nodes_of(&self, group: usize) -> impl Iterator<Item = (NodeId, Counts)> {
        self.groups.nodes(group)
    }

    /// Images and how many nodes have them.
    pub(crate) const fn images(&self) -> &Images {
        &self.images
    }

    /// Services and workloads, by which pods are spread that say nothing about it.
    pub(crate) const fn spreaders(&self) -> &Spreaders {
        &self.spreaders
    }

    /// The taint that being cordoned stands for.
    pub(crate) const fn cordon(&self) -> &Taint {
        &self.cordon
    }

    /// Every node, by [`NodeId::index`].
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// A node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// Every node's id, in the order they came.
    pub fn node_ids(&self) -> impl ExactSizeIterator<Item = NodeId> + use<> {
        // Ids are given out as 32 bits.
        (0..u32::try_from(self.nodes.len()).unwrap_or(u32::MAX)).map(NodeId)
    }

    /// The node of that name.
    pub fn find_node(&self, name: &str) -> Option<NodeId> {
        self.node_by_name.get(&self.symbols.get(name)?).copied()
    }

    /// Of some nodes the one whose name comes first.
    pub fn first_by_name(&self, nodes: &[NodeId]) -> Option<NodeId> {
        let name = |id| self.node_name(id);
        let ranks = self.name_ranks.get(self.nodes.len(), name);
        nodes.iter().copied().min_by_key(|id| ranks[id.index()])
    }

    /// Of some nodes the one with the fewest pods, and of several the one whose name comes first.
    pub fn first_of_fewest_pods(&self, nodes: &[NodeId]) -> Option<NodeId> {
        let name = |id| self.node_name(id);
        let ranks = self.name_ranks.get(self.nodes.len(), name);
        let pods = |id: NodeId| self.node(id).pods.len();
        let nodes = nodes.iter().copied();
        nodes.min_by_key(|id| (pods(*id), ranks[id.index()]))
    }

    /// A node's name.
    pub fn node_name(&self, id: NodeId) -> &str {
        self.symbols.text(self.node(id).name)
    }

    /// A pod's template.
    pub fn template(&self, pod: &Pod) -> &Template {
        &self.templates.items()[pod.template.index()]
    }

    /// Those of a pod's labels that some selector names. Pods of one template that do not differ in them are judged alike;
    /// whether they have any label at all apart (S5-101).
    pub fn labels_as_judged(&self, pod: &Pod) -> Labels {
        self.groups.named(pod.labels())
    }

    /// Every template, by [`crate::TemplateId::index`]; those that are free ask for nothing.
    pub fn templates(&self) -> &[Template] {
        self.templates.items()
    }

    /// Every group of pods, by [`crate::GroupId::index`]; those that are free have no labels and ask for nothing.
    pub fn groups(&self) -> &[Group] {
        self.groups.table.items()
    }

    /// A list of rarer resources, in the order of their symbols.
    pub fn scalars(&self, id: ScalarsId) -> &[(Symbol, i64)] {
        let lists = self.scalars.items();
        lists.get(id.0 as usize).map_or(&[], |list| list)
    }

    /// Pods without a node that one is being freed for.
    pub fn nominated(&self) -> &[Pod] {
        &self.nominated
    }

    /// A namespace's labels; `None` if the cluster was not told of it.
    pub fn namespace(&self, name: Symbol) -> Option<&Labels> {
        self.namespaces.get(&name)
    }

    /// Whether a selector of namespaces means this one. Of one that the cluster was not told of, only the name is known.
    pub(crate) fn namespace_matches(&self, selector: &Selector, name: Symbol) -> bool {
        if let Some(labels) = self.namespaces.get(&name) {
            return selector.matches(&self.symbols, labels);
        }
        !selector.is_nothing()
            && selector.matches(&self.symbols, &Labels::one(self.namespace_name, name))
    }

    /// `namespace/name` of a pod.
    pub fn full_name(&self, pod: &Pod) -> String {
        let namespace = self.symbols.text(self.template(pod).namespace);
        format!("{namespace}/{}", pod.name())
    }

    /// Compiles a selector of the pods in the namespace of an object. It counts as a part of the cluster until
    /// [`Cluster::release_selector`] gets it back.
    pub fn pod_selector(
        &mut self,
        metadata: &wire::Metadata,
        selector: Option<&wire::Selector>,
    ) -> Result<PodSelector, SelectorError> {
        let symbols = &mut self.symbols;
        let namespace = symbols.intern(metadata.namespace_or_default());
        let selector = match Selector::new(symbols, selector) {
            Ok(selector) => selector,
            Err(error) => {
                symbols.give_back();
                return Err(error);
            }
        };
        let held = symbols.hold();
        let new = self.groups.add_keys(std::iter::once(&selector));
        self.regroup(&new);
        Ok(PodSelector {
            namespace,
            selector,
            held,
        })
    }

    /// Takes back a selector that is used no more.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "nobody may use it afterwards"
    )]
    pub fn release_selector(&mut self, selector: PodSelector) {
        let keys = std::iter::once(&selector.selector);
        self.groups.remove_keys(keys);
        self.symbols.release_held(&selector.held);
    }
}
