//! The cluster: nodes, pods and the objects that they refer to.

mod devices;
mod group_claims;
mod objects;
mod pods;
mod sharing;
mod statement;
mod to_wire;

pub(crate) use devices::NodeView;
use group_claims::GroupClaims;
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
use crate::pod::Pod;
use crate::pod_terms::KnownTerm;
use crate::pressure::Pressure;
use crate::resources::{Amounts, ScalarSums, Scalars, ScalarsId, Scored, amount, scalars};
use crate::selector::Selector;
use crate::spread_sources::SpreadSources;
use crate::storage::Storage;
use crate::symbol::{Held, Symbol, Symbols};
use crate::table::{Objects, Table};
use crate::template::Template;
use crate::topology::{Topologies, TopologyDomains};
use evictd_devices::Inventory;
use evictd_pod::compatibility::Compatibility;
use evictd_pod::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS};
use evictd_pod::{selector::SelectorError, wire};
use hashbrown::{HashMap, HashSet};
use std::sync::Arc;

/// The cluster that [`crate::Checks`] filters. Objects may be added, changed and removed in any order. The state
/// depends only on the objects that remain.
#[derive(Debug)]
pub struct Cluster {
    symbols: Symbols,
    cordon: Taint,
    /// The label key that holds every namespace's name.
    namespace_name: Symbol,
    nodes: Vec<Node>,
    node_by_name: HashMap<Symbol, NodeId>,
    name_ranks: NameRanks,
    namespaces: Objects<Symbol, Labels>,
    storage: Storage,
    devices: Inventory,
    group_claims: GroupClaims,
    chosen: Option<Chosen>,
    images: Images,
    topologies: Topologies,
    spread_sources: SpreadSources,
    templates: Table<Template>,
    groups: Groups,
    scalars: Table<Scalars>,
    /// Pods without a node that have a nominated node.
    nominated: Vec<Pod>,
    /// Pods by the name of a node that does not exist.
    orphaned: HashMap<Symbol, Vec<Pod>>,
    /// When nodes changed, for callers that cache results.
    changes: Changes,
    evicted: Evicted,
    interrupt: Interrupt,
    compatibility: Compatibility,
    /// Whether devices of victims are kept for their preemptors.
    keeps_freed_devices: bool,
    /// Where each pod is kept, by UID, or by `namespace/name` without a UID.
    locations: HashMap<Arc<str>, PodLocation>,
    /// The UIDs of the existing pods that claims may be reserved for, also of pods that are kept nowhere.
    device_users: HashSet<Arc<str>>,
}

/// Where a pod is kept.
#[derive(Debug, Clone, Copy)]
enum PodLocation {
    /// On the node of that name, or among the orphaned pods while it does not exist. Holds a reference to the name.
    Node(Symbol),
    Nominated,
}

/// The number of kept objects. Removed objects leave nothing behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Nodes.
    pub nodes: usize,
    /// Pods on nodes, orphaned pods and nominated pods.
    pub pods: usize,
    /// Different texts.
    pub symbols: usize,
    /// Different templates.
    pub templates: usize,
    /// Different lists of scalar resources.
    pub scalars: usize,
}

/// A selector of the pods of one namespace, compiled by [`Cluster::pod_selector`].
#[derive(Debug, PartialEq, Eq)]
pub struct PodSelector {
    /// The namespace.
    pub namespace: Symbol,
    /// The selector of pods in the namespace.
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
        // The empty list comes first and is never released.
        scalars.intern(&mut symbols, Scalars::default());
        // The group of pods that are not kept comes first, too.
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
            group_claims: GroupClaims::default(),
            chosen: None,
            images: Images::default(),
            topologies: Topologies::default(),
            spread_sources: SpreadSources::default(),
            templates: Table::default(),
            groups,
            scalars,
            nominated: Vec::new(),
            orphaned: HashMap::new(),
            changes: Changes::default(),
            evicted: Evicted::default(),
            interrupt: Interrupt::default(),
            compatibility: Compatibility::default(),
            keeps_freed_devices: false,
            locations: HashMap::new(),
            device_users: HashSet::new(),
        }
    }
}

impl Cluster {
    /// An empty cluster.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty cluster whose pods are scheduled as in this release of Kubernetes.
    pub fn of(compatibility: Compatibility) -> Self {
        let mut new = Self::default();
        new.set_compatibility(compatibility);
        new
    }

    /// Changes the release of Kubernetes, before any object is added.
    pub fn set_compatibility(&mut self, compatibility: Compatibility) {
        self.compatibility = compatibility;
        self.devices.set_release(compatibility.release());
    }

    /// The release of Kubernetes, and its feature gates.
    pub const fn compatibility(&self) -> Compatibility {
        self.compatibility
    }

    /// Adds a node and its orphaned pods. Returns false without a change if a node of that name exists.
    pub fn add_node(&mut self, wire: &evictd_pod::Node) -> bool {
        if self.find_node(&wire.metadata.name).is_some() {
            return false;
        }
        let node = self.compile_node(wire);
        let name = node.name;
        // The cluster cannot hold 2^32 nodes in memory, so the fallback is never used.
        let id = NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.topologies.put(id, &node.labels);
        self.changes.all();
        self.name_ranks.reset();
        self.nodes.push(node);
        self.node_by_name.insert(name, id);
        for pod in self.orphaned.remove(&name).unwrap_or_default() {
            self.place(id, pod);
        }
        true
    }

    /// Replaces the node of that name and keeps its pods. Adds the node if there is none.
    pub fn update_node(&mut self, wire: &evictd_pod::Node) {
        let Some(id) = self.find_node(&wire.metadata.name) else {
            self.add_node(wire);
            return;
        };
        let mut new = self.compile_node(wire);
        let old = &mut self.nodes[id.index()];
        if new.has_equal_properties(old) {
            // A heartbeat of the kubelet changes nothing here, so cached results stay valid.
            self.release_node(&new);
            return;
        }
        // Its labels or taints differ now, and filters of every pod may depend on them.
        self.changes.all();
        new.take_pods(old);
        let old = std::mem::replace(old, new);
        self.topologies.put(id, &self.nodes[id.index()].labels);
        self.release_node(&old);
    }

    /// Removes a node. Returns whether it existed. Its pods become orphaned until it returns or they are removed. The
    /// last node takes over the index and the [`NodeId`].
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
        // The last node has taken the free index, and with it its pods are counted under another id.
        if let Some(moved) = self.nodes.get(id.index()) {
            self.node_by_name.insert(moved.name, id);
            // See `add_node`.
            let last = NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
            for pod in &moved.pods {
                self.groups.count(pod.counted(), last, -1);
                self.groups.count(pod.counted(), id, 1);
            }
        }
        let left = || self.nodes.iter().map(|node| &node.labels);
        self.topologies.swap_remove(id, left);
        // The pods may still exist: the node's object was deleted, and a kubelet may register it again.
        let pods = std::mem::take(&mut node.pods);
        if !pods.is_empty() {
            self.orphaned.insert(node.name, pods);
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
        let capacity = [CPU, MEMORY].map(|name| match amount(&wire.status.capacity, name) {
            0 => amount(list, name),
            there => there,
        });
        let rare = scalars(symbols, list.iter().map(|(name, amount)| (name, *amount)));
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
            capacity,
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

    /// Adds or replaces a namespace's labels.
    pub fn add_namespace(&mut self, wire: &wire::Namespace) {
        self.changes.all();
        let name = self.symbols.intern(&wire.metadata.name);
        let labels = Labels::new(&mut self.symbols, &wire.metadata.labels);
        self.namespaces.put(&mut self.symbols, name, labels);
    }

    /// Removes a namespace's labels. Returns whether it existed.
    pub fn remove_namespace(&mut self, name: &str) -> bool {
        self.changes.all();
        let name = self.symbols.get(name);
        name.is_some_and(|name| self.namespaces.remove(&mut self.symbols, &name))
    }

    /// How many objects are kept.
    pub fn sizes(&self) -> Sizes {
        Sizes {
            nodes: self.nodes.len(),
            pods: self.locations.len(),
            symbols: self.symbols.count(),
            templates: self.templates.count(),
            scalars: self.scalars.count(),
        }
    }

    /// Pods on a node that does not exist, with its name. They do not count until the node is added.
    pub fn orphaned_pods(&self) -> impl Iterator<Item = (&str, &Pod)> {
        let orphaned = self.orphaned.iter();
        orphaned.flat_map(|(node, pods)| pods.iter().map(|pod| (self.symbols.text(*node), pod)))
    }

    /// Frees spare capacity of the node lists.
    pub fn shrink(&mut self) {
        self.nodes.shrink_to_fit();
        for node in &mut self.nodes {
            node.pods.shrink_to_fit();
        }
        self.device_users.shrink_to_fit();
    }

    /// The interned texts.
    pub const fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// Claims, volumes and related objects.
    pub(crate) const fn storage(&self) -> &Storage {
        &self.storage
    }

    /// When the cluster and each node last changed.
    pub const fn changes(&self) -> &Changes {
        &self.changes
    }

    /// The interrupt of the current attempt.
    pub const fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// The interrupt, for the caller that begins and ends attempts.
    pub const fn interrupt_mut(&mut self) -> &mut Interrupt {
        &mut self.interrupt
    }

    /// The topology domains of a label.
    pub(crate) fn topology(&self, key: Symbol) -> Arc<TopologyDomains> {
        self.topologies.of(key, self.nodes.len())
    }

    /// Keeps the topology domains of a label as long as the cluster lives.
    pub(crate) fn keep_topology(&mut self, key: Symbol) {
        let labels = self.nodes.iter().map(|node| &node.labels);
        self.topologies.add(key, labels);
    }

    /// The groups of a namespace, by index.
    pub(crate) fn groups_of_namespace(&self, namespace: Symbol) -> impl Iterator<Item = usize> {
        self.groups.of_namespace(namespace)
    }

    /// The terms of pods that can select a pod; they need not match.
    pub(crate) fn terms_about<'t>(
        &'t self,
        pod: &Pod,
    ) -> impl Iterator<Item = &'t KnownTerm> + use<'t> {
        let namespace = self.template(pod).namespace;
        let only_name;
        let labels = if let Some(labels) = self.namespaces.get(&namespace) {
            labels
        } else {
            only_name = Labels::one(self.namespace_name, namespace);
            &only_name
        };
        self.groups.terms_about(namespace, labels, pod.labels())
    }

    /// Nodes with pods of a group, and how many.
    pub(crate) fn nodes_of(&self, group: usize) -> impl Iterator<Item = (NodeId, Counts)> {
        self.groups.nodes(group)
    }

    /// The images of all nodes.
    pub(crate) const fn images(&self) -> &Images {
        &self.images
    }

    /// Services and workloads for the default spread constraints.
    pub(crate) const fn spread_sources(&self) -> &SpreadSources {
        &self.spread_sources
    }

    /// The taint that a cordoned node counts as having.
    pub(crate) const fn cordon(&self) -> &Taint {
        &self.cordon
    }

    /// All nodes, by [`NodeId::index`].
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// A node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// The `Node` object that [`Cluster::update_node`] would compile to this node: its name, labels, taints, cordon,
    /// allocatable resources, images and pressure.
    pub fn node_to_wire(&self, id: NodeId) -> evictd_pod::Node {
        let node = self.node(id);
        let scalars = self.scalars(node.allocatable.scalars);
        node.to_wire(&self.symbols, &self.images, scalars)
    }

    /// All node ids in the order of [`Cluster::nodes`].
    pub fn node_ids(&self) -> impl ExactSizeIterator<Item = NodeId> + use<> {
        // `add_node` gives out 32-bit ids.
        (0..u32::try_from(self.nodes.len()).unwrap_or(u32::MAX)).map(NodeId)
    }

    /// Finds a node by name.
    pub fn find_node(&self, name: &str) -> Option<NodeId> {
        self.node_by_name.get(&self.symbols.get(name)?).copied()
    }

    /// The node whose name sorts first.
    pub fn first_by_name(&self, nodes: &[NodeId]) -> Option<NodeId> {
        let name = |id| self.node_name(id);
        let ranks = self.name_ranks.get(self.nodes.len(), name);
        nodes.iter().copied().min_by_key(|id| ranks[id.index()])
    }

    /// The node with the fewest pods. The name breaks ties.
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

    /// The pod's labels that some selector names. Pods of one template with equal such labels get the same result,
    /// unless one of them has no labels at all (S5-101).
    pub fn selected_labels(&self, pod: &Pod) -> Labels {
        self.groups.named(pod.labels())
    }

    /// All templates, by [`crate::TemplateId::index`]. Free entries request nothing.
    pub fn templates(&self) -> &[Template] {
        self.templates.items()
    }

    /// All groups, by [`crate::GroupId::index`]. Free entries have no labels and no terms.
    pub fn groups(&self) -> &[Group] {
        self.groups.items()
    }

    /// A list of scalar resources, sorted by symbol.
    pub fn scalars(&self, id: ScalarsId) -> &[(Symbol, i64)] {
        let lists = self.scalars.items();
        lists.get(id.0 as usize).map_or(&[], |list| list)
    }

    /// Pods without a node that have a nominated node.
    pub fn nominated(&self) -> &[Pod] {
        &self.nominated
    }

    /// The nominated node of a pod, while victims of lower priority terminate there.
    pub(crate) fn node_of_ending_victims(&self, pod: &Pod) -> Option<NodeId> {
        let id = self.find_node(self.symbols().text(pod.identity.nominated?))?;
        let mut pods = self.node(id).pods.iter();
        pods.any(|victim| victim.terminating && victim.preempted && victim.priority < pod.priority)
            .then_some(id)
    }

    /// A namespace's labels; `None` if the input does not hold the namespace.
    pub fn namespace(&self, name: Symbol) -> Option<&Labels> {
        self.namespaces.get(&name)
    }

    /// Whether a selector selects a namespace. Only the name is known of a namespace that the input does not hold.
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

    /// Compiles a selector of pods in the object's namespace. [`Cluster::release_selector`] must take it back.
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

    /// Releases a selector that [`Cluster::pod_selector`] compiled.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "the value must not be used afterwards"
    )]
    pub fn release_selector(&mut self, selector: PodSelector) {
        let keys = std::iter::once(&selector.selector);
        self.groups.remove_keys(keys);
        self.symbols.release_held(&selector.held);
    }
}
