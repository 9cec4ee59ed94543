//! The cluster: nodes, the pods on them, and what they refer to.

use crate::labels::Labels;
use crate::mistake::Mistake;
use crate::node::{Node, NodeId, Taint};
use crate::pod::{Identity, NO_START, Pod};
use crate::resources::{Amounts, ScalarsId, amount, scalars};
use crate::selector::Selector;
use crate::storage::Storage;
use crate::symbol::{Symbol, Symbols};
use crate::template::{Template, TemplateId};
use evictd_pod::resources::{
    CPU, EPHEMERAL_STORAGE, MEMORY, PODS, scheduler_request, scheduler_resources, units,
    use_resized,
};
use evictd_pod::{selector::SelectorError, wire};
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use jiff::Timestamp;
use std::hash::{BuildHasher, Hash};

/// A list of rarer resources and how much of each, in the order of their symbols.
type Scalars = Box<[(Symbol, i64)]>;

/// A cluster, to be asked by [`crate::Checks`]. Objects may come in any order.
#[derive(Debug)]
pub struct Cluster {
    symbols: Symbols,
    cordon: Taint,
    /// The label that every namespace has its own name in.
    namespace_name: Symbol,
    nodes: Vec<Node>,
    node_by_name: HashMap<Symbol, NodeId>,
    namespaces: HashMap<Symbol, Labels>,
    storage: Storage,
    templates: Table<Template>,
    scalars: Table<Scalars>,
    /// Pods without a node that one is being freed for.
    nominated: Vec<Pod>,
    /// Pods whose node has not come yet, by its name.
    early: HashMap<Symbol, Vec<Pod>>,
}

impl Default for Cluster {
    fn default() -> Self {
        let mut symbols = Symbols::default();
        Self {
            cordon: Taint {
                key: symbols.intern("node.kubernetes.io/unschedulable"),
                value: symbols.intern(""),
                effect: symbols.intern("NoSchedule"),
                forbids: true,
            },
            namespace_name: symbols.intern("kubernetes.io/metadata.name"),
            symbols,
            nodes: Vec::new(),
            node_by_name: HashMap::new(),
            namespaces: HashMap::new(),
            storage: Storage::default(),
            templates: Table::default(),
            scalars: Table::default(),
            nominated: Vec::new(),
            early: HashMap::new(),
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
        let symbols = &mut self.symbols;
        let name = symbols.intern(&wire.metadata.name);
        if self.node_by_name.contains_key(&name) {
            return false;
        }
        let taints = wire.spec.taints.iter().map(|taint| Taint {
            key: symbols.intern(&taint.key),
            value: symbols.intern(&taint.value),
            effect: symbols.intern(&taint.effect),
            forbids: matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"),
        });
        let taints = taints.collect();
        let labels = Labels::new(symbols, &wire.metadata.labels);
        let list = &wire.status.allocatable;
        let named = list
            .iter()
            .map(|(name, quantity)| (name.to_owned(), units(name, *quantity)));
        let rare = scalars(symbols, named);
        let node = Node {
            name,
            labels,
            unschedulable: wire.spec.unschedulable,
            taints,
            allocatable: Amounts {
                cpu: amount(list, CPU),
                memory: amount(list, MEMORY),
                ephemeral_storage: amount(list, EPHEMERAL_STORAGE),
                scalars: ScalarsId(self.scalars.intern(rare)),
            },
            allowed_pods: amount(list, PODS),
            requested: Amounts::default(),
            pods: Vec::new(),
        };
        // Each node takes more than a byte.
        let id = NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.nodes.push(node);
        self.node_by_name.insert(name, id);
        for pod in self.early.remove(&name).unwrap_or_default() {
            self.place(id, pod);
        }
        true
    }

    /// Adds a namespace's labels.
    pub fn add_namespace(&mut self, wire: &wire::Namespace) {
        let name = self.symbols.intern(&wire.metadata.name);
        let labels = Labels::new(&mut self.symbols, &wire.metadata.labels);
        self.namespaces.insert(name, labels);
    }

    /// Adds a claim.
    pub fn add_claim(&mut self, wire: &wire::PersistentVolumeClaim) -> Result<(), Mistake> {
        self.storage.add_claim(&mut self.symbols, wire)
    }

    /// Adds a volume.
    pub fn add_volume(&mut self, wire: &wire::PersistentVolume) -> Result<(), Mistake> {
        self.storage.add_volume(&mut self.symbols, wire)
    }

    /// Adds a class of storage.
    pub fn add_storage_class(&mut self, wire: &wire::StorageClass) -> Result<(), Mistake> {
        self.storage.add_class(&mut self.symbols, wire)
    }

    /// Adds what a node can attach.
    pub fn add_csi_node(&mut self, wire: &wire::CsiNode) {
        self.storage.add_csi_node(&mut self.symbols, wire);
    }

    /// Adds a pod to its node, or to the nominated ones. Pods that have ended take no room, and pods that wait take
    /// none either, so they are left out.
    pub fn add_pod(&mut self, wire: wire::Pod) -> Result<(), Mistake> {
        if matches!(wire.status.phase.as_str(), "Succeeded" | "Failed") {
            return Ok(());
        }
        if wire.spec.node_name.is_empty() {
            let pod = self.pod(wire)?;
            if pod.identity.nominated.is_some() {
                self.nominated.push(pod);
            }
            return Ok(());
        }
        let node = self.symbols.intern(&wire.spec.node_name);
        let pod = self.compile(wire, true)?;
        match self.node_by_name.get(&node) {
            Some(id) => self.place(*id, pod),
            None => self.early.entry(node).or_default().push(pod),
        }
        Ok(())
    }

    /// A pod on its way to a node.
    pub fn pod(&mut self, wire: wire::Pod) -> Result<Pod, Mistake> {
        self.compile(wire, false)
    }

    fn compile(&mut self, mut wire: wire::Pod, placed: bool) -> Result<Pod, Mistake> {
        let template = Template::new(&mut self.symbols, &wire, placed)?;
        let template = TemplateId(self.templates.intern(template));
        use_resized(&mut wire);
        let amounts = self.amounts(&wire.spec);
        let conditions = || wire.status.conditions.iter();
        let scheduler = match wire.spec.scheduler_name.as_str() {
            "" => "default-scheduler",
            name => name,
        };
        let nominated = &wire.status.nominated_node_name;
        Ok(Pod {
            priority: wire.spec.priority.unwrap_or(0),
            template,
            start: wire
                .status
                .start_time
                .map_or(NO_START, Timestamp::as_second),
            amounts,
            terminating: wire.metadata.deletion_timestamp.is_some(),
            preempted: conditions().any(|condition| {
                condition.kind == "DisruptionTarget"
                    && condition.status == "True"
                    && condition.reason == "PreemptionByScheduler"
            }),
            identity: Box::new(Identity {
                nominated: (!nominated.is_empty()).then(|| self.symbols.intern(nominated)),
                scheduler: self.symbols.intern(scheduler),
                tried: conditions().any(|condition| {
                    condition.kind == "PodScheduled" && condition.status == "False"
                }),
                never_preempts: wire.spec.preemption_policy == "Never",
                name: wire.metadata.name.into(),
                uid: wire.metadata.uid.into(),
            }),
        })
    }

    fn amounts(&mut self, spec: &wire::PodSpec) -> Amounts {
        let of = |resource: &str| units(resource, scheduler_request(spec, resource));
        let named = scheduler_resources(spec).map(|name| (name.to_owned(), of(name)));
        let rare = scalars(&mut self.symbols, named);
        Amounts {
            cpu: of(CPU),
            memory: of(MEMORY),
            ephemeral_storage: of(EPHEMERAL_STORAGE),
            scalars: ScalarsId(self.scalars.intern(rare)),
        }
    }

    fn place(&mut self, id: NodeId, pod: Pod) {
        let (symbols, templates) = (&self.symbols, &self.templates);
        let place = |pod: &Pod| symbols.text(templates.get(pod.template.0).namespace);
        let node = &mut self.nodes[id.index()];
        node.requested.add(&pod.amounts, 1);
        let at = node.pods.partition_point(|other| {
            let by_name = || (place(other), other.name()) < (place(&pod), pod.name());
            let order = other.importance().cmp(&pod.importance());
            order.is_lt() || (order.is_eq() && by_name())
        });
        node.pods.insert(at, pod);
    }

    /// Pods whose node never came, with its name; they count for nothing.
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

    /// A node's name.
    pub fn node_name(&self, id: NodeId) -> &str {
        self.symbols.text(self.node(id).name)
    }

    /// A pod's template.
    pub fn template(&self, pod: &Pod) -> &Template {
        self.templates.get(pod.template.0)
    }

    /// Every template, by [`TemplateId::index`].
    pub fn templates(&self) -> &[Template] {
        &self.templates.items
    }

    /// A list of rarer resources, in the order of their symbols.
    pub fn scalars(&self, id: ScalarsId) -> &[(Symbol, i64)] {
        self.scalars
            .items
            .get(id.0 as usize)
            .map_or(&[], |list| list)
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

    /// Compiles a selector against this cluster's texts.
    pub fn selector(&mut self, wire: Option<&wire::Selector>) -> Result<Selector, SelectorError> {
        Selector::new(&mut self.symbols, wire)
    }

    /// The namespace of an object.
    pub fn namespace_of(&mut self, metadata: &wire::Metadata) -> Symbol {
        self.symbols.intern(metadata.namespace_or_default())
    }
}

/// Things that repeat, each kept once.
#[derive(Debug)]
struct Table<T> {
    items: Vec<T>,
    known: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            known: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
        }
    }
}

impl<T: Hash + Eq> Table<T> {
    fn intern(&mut self, item: T) -> u32 {
        let Self {
            items,
            known,
            hasher,
        } = self;
        let hash = hasher.hash_one(&item);
        if let Some(index) = known.find(hash, |index| items[*index as usize] == item) {
            return *index;
        }
        // Each takes more than a byte.
        let index = u32::try_from(items.len()).unwrap_or(u32::MAX);
        items.push(item);
        known.insert_unique(hash, index, |index| {
            hasher.hash_one(&items[*index as usize])
        });
        index
    }

    fn get(&self, index: u32) -> &T {
        &self.items[index as usize]
    }
}
