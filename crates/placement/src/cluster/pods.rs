//! Adds, updates and removes pods.

use super::{Cluster, PodLocation};
use crate::evicted::Evicted;
use crate::extended_requests::may_use_devices;
use crate::group::GroupId;
use crate::id::NodeId;
use crate::invalid_object::InvalidObject;
use crate::labels::Labels;
use crate::pod::{Identity, NO_START, Pod};
use crate::resources::{Amounts, ScalarsId, Scored, scalars};
use crate::symbol::Symbol;
use crate::template::{Template, TemplateId};
use evictd_pod::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, units};
use evictd_pod::{Counted, Quantity, Requests, TooManyResources, wire};
use jiff::Timestamp;
use std::sync::Arc;

impl Cluster {
    /// Whether a pod exists that a claim is reserved for, also if it has no node.
    pub(crate) fn has_device_user(&self, uid: &str) -> bool {
        self.locations.contains_key(uid) || self.device_users.contains(uid)
    }

    /// Notes a pod that has no node: while it exists, the devices of its claims are not free.
    pub fn note_pod(&mut self, wire: &wire::Pod) {
        let uid = &wire.metadata.uid;
        if wire.status.phase.has_ended() {
            self.device_users.remove(uid);
        } else if !uid.is_empty() && may_use_devices(&wire.spec) && !self.device_users.contains(uid)
        {
            self.device_users.insert(Arc::clone(uid));
        }
    }

    /// Adds a pod to its node or to the nominated pods. It replaces the pod of the same UID, or of the same name
    /// without UIDs. A pod on an unknown node is orphaned until the node is added. Finished pods and pending pods
    /// without a nomination are left out.
    ///
    /// An error only notes the pod, as [`Cluster::note_pod`] does.
    pub fn add_pod(&mut self, wire: wire::Pod) -> Result<(), InvalidObject> {
        let ended = wire.status.phase.has_ended();
        if ended {
            self.remove_pod(&wire.metadata);
            self.add_evicted(&wire);
            return Ok(());
        }
        self.note_pod(&wire);
        let named = wire.metadata.key();
        let is_known = self.locations.contains_key(&*named);
        // A new pod with a UID can have no entry under its name.
        let named = (is_known || wire.metadata.uid.is_empty()).then_some(named);
        let node = (!wire.spec.node_name.is_empty()).then(|| {
            let name = self.symbols.intern(&wire.spec.node_name);
            self.symbols.keep();
            name
        });
        let mut pod = match self.compile(wire, node.is_some()) {
            Ok(pod) => pod,
            Err(invalid) => {
                node.inspect(|name| self.symbols.release(*name));
                return Err(invalid);
            }
        };
        let pod_key: Arc<str> = named.unwrap_or_else(|| Arc::clone(&pod.identity.uid));
        self.join_group(&mut pod);
        if is_known {
            let at = node.and_then(|name| self.unchanged_location(&pod_key, name, &pod));
            if let (Some(name), Some((id, at))) = (node, at) {
                let old = std::mem::replace(&mut self.nodes[id.index()].pods[at], pod);
                self.release_kept(old);
                self.symbols.release(name);
                return Ok(());
            }
            self.remove_by_key(&pod_key);
        }
        let location = match node {
            Some(name) => {
                match self.node_by_name.get(&name) {
                    Some(id) => self.place(*id, pod),
                    None => self.orphaned.entry(name).or_default().push(pod),
                }
                PodLocation::Node(name)
            }
            None if pod.identity.nominated.is_some() => {
                self.changes.all();
                self.nominated.push(pod);
                PodLocation::Nominated
            }
            None => {
                self.release_kept(pod);
                return Ok(());
            }
        };
        self.locations.insert(pod_key, location);
        Ok(())
    }

    /// Assumes that a pod from [`Cluster::pod`] is on a node before the API server shows it. A later
    /// [`Cluster::add_pod`] replaces it, and [`Cluster::forget_pod`] withdraws it.
    pub fn assume(&mut self, mut pod: Pod, node: NodeId) {
        let pod_key = self.pod_key(&pod);
        // A nomination or an older assumption of the same pod must not count beside it.
        self.remove_by_key(&pod_key);
        self.join_group(&mut pod);
        let name = self.nodes[node.index()].name;
        // The place of the pod refers to the name, also while the node is removed.
        self.symbols.hold_again(name);
        self.place(node, pod);
        self.locations.insert(pod_key, PodLocation::Node(name));
    }

    /// Removes a pod by UID, or by name without one. Returns whether it existed.
    pub fn remove_pod(&mut self, metadata: &wire::Metadata) -> bool {
        self.device_users.remove(&metadata.uid);
        self.forget_pod(metadata)
    }

    /// Withdraws an assumption or a nomination of a pod that still exists. Returns whether there was one.
    pub fn forget_pod(&mut self, metadata: &wire::Metadata) -> bool {
        let pod_key = metadata.key();
        self.devices.withdraw_pod(&pod_key);
        self.remove_by_key(&pod_key)
    }

    /// Changes whether a pod on a node is being deleted, before the API server shows it.
    pub fn set_terminating(&mut self, metadata: &wire::Metadata, terminating: bool) {
        let pod_key = metadata.key();
        let Some(PodLocation::Node(name)) = self.locations.get(&*pod_key) else {
            return;
        };
        let Some(id) = self.node_by_name.get(name).copied() else {
            return;
        };
        if let Some(at) = self.find(&self.node(id).pods, &pod_key) {
            let mut pod = self.remove_from_node(id, at);
            pod.terminating = terminating;
            self.place(id, pod);
        }
    }

    /// Whether a pod is kept only for its nomination. Then it counts on that node for other pods.
    pub fn is_nominated(&self, pod: &Pod) -> bool {
        !self.nominated.is_empty()
            && matches!(
                self.locations.get(&*self.pod_key(pod)),
                Some(PodLocation::Nominated)
            )
    }

    /// Removes a pod that is kept only for its nomination. Returns whether it existed.
    pub fn remove_nominated(&mut self, metadata: &wire::Metadata) -> bool {
        let key = metadata.key();
        let is_nominated = !self.nominated.is_empty()
            && matches!(self.locations.get(&*key), Some(PodLocation::Nominated));
        is_nominated && self.forget_pod(metadata)
    }

    /// Records an evicted pod that has finished, if it has a controller.
    pub fn add_evicted(&mut self, pod: &wire::Pod) {
        if self.evicted.put(&pod.metadata.key(), pod) {
            self.changes.all();
        }
    }

    /// Forgets a deleted pod that was evicted. [`Cluster::remove_pod`] releases its resources separately.
    pub fn remove_evicted(&mut self, metadata: &wire::Metadata) {
        if self.evicted.remove(&metadata.key()) {
            self.changes.all();
        }
    }

    /// The evicted pods that still exist.
    pub(crate) const fn evicted(&self) -> &Evicted {
        &self.evicted
    }

    /// Compiles a pod to be placed. [`Cluster::release`] must take it back.
    pub fn pod(&mut self, wire: wire::Pod) -> Result<Pod, InvalidObject> {
        self.compile(wire, false)
    }

    /// Clears the nomination of a pod from [`Cluster::pod`].
    pub fn forget_nomination(&mut self, pod: &mut Pod) {
        if let Some(node) = pod.identity.nominated.take() {
            self.symbols.release(node);
        }
    }

    /// Releases a pod from [`Cluster::pod`] and everything that only it referred to.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "the value must not be used afterwards"
    )]
    pub fn release(&mut self, pod: Pod) {
        let symbols = &mut self.symbols;
        let template = &self.templates.items()[pod.template.index()];
        self.groups.remove_keys(template.selectors());
        for key in template.topology_keys() {
            self.topologies.remove(key);
        }
        symbols.release(pod.identity.scheduler);
        if let Some(requests) = &pod.identity.of_containers {
            self.scalars.release(symbols, requests.0.scalars.0);
        }
        pod.identity
            .nominated
            .inspect(|node| symbols.release(*node));
        self.templates.release(symbols, pod.template.0);
        pod.labels().release(symbols);
        self.scalars.release(symbols, pod.amounts.scalars.0);
    }

    /// Adds a pod to the group of pods that count alike.
    pub(super) fn join_group(&mut self, pod: &mut Pod) {
        let before = self.groups.count_used();
        let template = &self.templates.items()[pod.template.index()];
        pod.group = self.groups.of(&mut self.symbols, template, pod.labels());
        if self.groups.count_used() != before {
            self.changes.all();
        }
    }

    /// Releases a pod that has a group.
    pub(super) fn release_kept(&mut self, pod: Pod) {
        let before = self.groups.count_used();
        self.groups.release(&mut self.symbols, pod.group);
        if self.groups.count_used() != before {
            self.changes.all();
        }
        self.release(pod);
    }

    /// Regroups all pods after selectors name new label keys. This visits every pod once per key, which is affordable
    /// because selectors share few keys.
    pub(super) fn regroup(&mut self, keys: &[Symbol]) {
        if keys.is_empty() {
            return;
        }
        self.changes.all();
        let Self {
            symbols,
            templates,
            groups,
            ..
        } = self;
        let nodes = self.nodes.iter_mut().zip(0..);
        let nodes = nodes
            .flat_map(|(node, id)| node.pods.iter_mut().map(move |pod| (Some(NodeId(id)), pod)));
        let orphaned = self.orphaned.values_mut().flatten();
        let others = orphaned.chain(&mut self.nominated).map(|pod| (None, pod));
        for (node, pod) in nodes.chain(others) {
            if keys.iter().any(|key| pod.labels().get(*key).is_some()) {
                let template = &templates.items()[pod.template.index()];
                // The counts of the old group must be right as long as any pod is in it.
                node.inspect(|node| groups.count(pod.counted(), *node, -1));
                let new = groups.of(symbols, template, pod.labels());
                let old = std::mem::replace(&mut pod.group, new);
                groups.release(symbols, old);
                node.inspect(|node| groups.count(pod.counted(), *node, 1));
            }
        }
    }

    fn remove_by_key(&mut self, pod_key: &str) -> bool {
        let Some(location) = self.locations.remove(pod_key) else {
            return false;
        };
        let pod = match location {
            PodLocation::Nominated => {
                self.changes.all();
                let at = self.find(&self.nominated, pod_key);
                at.map(|at| self.nominated.remove(at))
            }
            PodLocation::Node(name) => self.unplace(name, pod_key),
        };
        if let Some(pod) = pod {
            self.release_kept(pod);
        }
        if let PodLocation::Node(name) = location {
            self.symbols.release(name);
        }
        true
    }

    /// The pod's location if it was on this node already and no filter or score sees a difference. Every assumed pod
    /// takes this path when its binding is observed.
    fn unchanged_location(
        &self,
        pod_key: &str,
        name: Symbol,
        pod: &Pod,
    ) -> Option<(NodeId, usize)> {
        let PodLocation::Node(before) = self.locations.get(pod_key)? else {
            return None;
        };
        let id = *self.node_by_name.get(&name).filter(|_| *before == name)?;
        let pods = &self.node(id).pods;
        let at = self.find(pods, pod_key)?;
        let same = pods[at].counts_as(pod)
            && (pods[at].template == pod.template
                || self.template(&pods[at]).as_placed() == self.template(pod).as_placed());
        same.then_some((id, at))
    }

    /// The index of a pod in a list.
    pub(super) fn find(&self, pods: &[Pod], pod_key: &str) -> Option<usize> {
        pods.iter().position(|pod| match pod.uid() {
            "" => self.full_name(pod) == pod_key,
            uid => uid == pod_key,
        })
    }

    /// Compiles a pod. A pod without a node may request a bounded number of resources, because filters compare each on
    /// every node. A pod on a node already holds its resources, so all of them count.
    fn compile(&mut self, wire: wire::Pod, placed: bool) -> Result<Pod, InvalidObject> {
        let counted = Counted::scheduled(self.compatibility().release());
        let requests = Requests::of(&wire, counted);
        let each = requests.each();
        if !placed {
            TooManyResources::check(each.len())
                .map_err(|error| InvalidObject::new("spec.containers".to_owned(), error))?;
        }
        let labels = Labels::new(&mut self.symbols, &wire.metadata.labels);
        self.symbols.keep();
        let template = match Template::new(&mut self.symbols, &wire, &labels, placed) {
            Ok(template) => template,
            Err(invalid) => {
                self.symbols.give_back();
                labels.release(&mut self.symbols);
                return Err(invalid);
            }
        };
        let template = TemplateId(self.templates.intern(&mut self.symbols, template));
        let amounts = self.amounts(&each);
        let scored = Scored::of(&requests);
        let of_containers = (wire.spec.resources.is_some() && !placed).then(|| {
            let requests = requests.without_pod_level();
            Box::new((self.amounts(&requests.each()), Scored::of(&requests)))
        });
        let conditions = || wire.status.conditions.iter();
        let scheduler = wire.spec.scheduler_name_or_default();
        let nominated = &wire.status.nominated_node_name;
        let generation = wire.metadata.generation;
        let pod = Pod {
            priority: wire.spec.priority.unwrap_or(0),
            template,
            group: GroupId::default(),
            start: wire
                .status
                .start_time
                .map_or(NO_START, Timestamp::as_second),
            amounts,
            scored,
            terminating: wire.metadata.deletion_timestamp.is_some(),
            preempted: conditions().any(|condition| {
                condition.holds("DisruptionTarget") && condition.reason == "PreemptionByScheduler"
            }),
            unknown: wire.spec.unreadable.is_some(),
            identity: Box::new(Identity {
                nominated: (!nominated.is_empty()).then(|| self.symbols.intern(nominated)),
                scheduler: self.symbols.intern(scheduler),
                generation: generation.and_then(|generation| generation.try_into().ok()),
                never_preempts: wire.spec.preemption_policy == "Never",
                of_containers,
                name: wire.metadata.name.into(),
                uid: wire.metadata.uid,
                labels,
            }),
        };
        // The pod itself holds references to its scheduler, nominated node and labels.
        self.symbols.keep();
        let template = &self.templates.items()[template.index()];
        let new = self.groups.add_keys(template.selectors());
        for key in template.topology_keys() {
            let labels = self.nodes.iter().map(|node| &node.labels);
            self.topologies.add(key, labels);
        }
        self.regroup(&new);
        Ok(pod)
    }

    fn amounts(&mut self, each: &[(&str, Quantity)]) -> Amounts {
        let of = |resource: &str| {
            let entry = each.iter().find(|(name, _)| *name == resource);
            entry.map_or(0, |(name, amount)| units(name, *amount))
        };
        let rare = scalars(&mut self.symbols, each.iter().copied());
        Amounts {
            cpu: of(CPU),
            memory: of(MEMORY),
            ephemeral_storage: of(EPHEMERAL_STORAGE),
            scalars: ScalarsId(self.scalars.intern(&mut self.symbols, rare)),
        }
    }

    /// Inserts a pod on a node after all pods that are at least as important.
    pub(super) fn place(&mut self, id: NodeId, pod: Pod) {
        let (symbols, templates) = (&self.symbols, self.templates.items());
        // Ties are broken by name, so that the order depends on the pods alone and not on their arrival.
        let namespace = |pod: &Pod| symbols.text(templates[pod.template.index()].namespace);
        self.groups.count(pod.counted(), id, 1);
        self.changes.node(id);
        let node = &mut self.nodes[id.index()];
        let template = &templates[pod.template.index()];
        node.request(&pod, template, self.scalars.items(), 1);
        let at = node.pods.partition_point(|other| {
            let by_name = || (namespace(other), other.name()) < (namespace(&pod), pod.name());
            let order = other.importance().cmp(&pod.importance());
            order.is_lt() || (order.is_eq() && by_name())
        });
        node.pods.insert(at, pod);
    }

    /// Removes a pod from the node of this name, or from its orphaned pods.
    fn unplace(&mut self, node: Symbol, pod_key: &str) -> Option<Pod> {
        if let Some(id) = self.node_by_name.get(&node).copied() {
            let at = self.find(&self.node(id).pods, pod_key)?;
            return Some(self.remove_from_node(id, at));
        }
        let at = self.find(self.orphaned.get(&node)?, pod_key)?;
        let orphaned = self.orphaned.get_mut(&node)?;
        // The order of orphaned pods has no meaning.
        let pod = orphaned.swap_remove(at);
        if orphaned.is_empty() {
            self.orphaned.remove(&node);
        }
        Some(pod)
    }

    /// Removes a pod from a node by its index.
    pub(super) fn remove_from_node(&mut self, id: NodeId, index: usize) -> Pod {
        let node = &mut self.nodes[id.index()];
        let pod = node.pods.remove(index);
        let template = &self.templates.items()[pod.template.index()];
        node.request(&pod, template, self.scalars.items(), -1);
        self.groups.count(pod.counted(), id, -1);
        self.changes.node(id);
        pod
    }

    /// Removes a pod from its location without releasing anything.
    pub(super) fn detach(&mut self, pod_key: &str) -> Option<(PodLocation, usize, Pod)> {
        let location = self.locations.remove(pod_key)?;
        let (index, pod) = match location {
            PodLocation::Nominated => {
                self.changes.all();
                let index = self.find(&self.nominated, pod_key)?;
                (index, self.nominated.remove(index))
            }
            PodLocation::Node(name) => {
                if let Some(id) = self.node_by_name.get(&name).copied() {
                    let index = self.find(&self.node(id).pods, pod_key)?;
                    (index, self.remove_from_node(id, index))
                } else {
                    let index = self.find(self.orphaned.get(&name)?, pod_key)?;
                    let orphaned = self.orphaned.get_mut(&name)?;
                    (index, orphaned.remove(index))
                }
            }
        };
        Some((location, index, pod))
    }

    /// Puts back a pod that [`Cluster::detach`] removed.
    pub(super) fn reattach(
        &mut self,
        pod_key: Arc<str>,
        location: PodLocation,
        index: usize,
        pod: Pod,
    ) {
        match location {
            PodLocation::Nominated => {
                self.changes.all();
                self.nominated.insert(index, pod);
            }
            PodLocation::Node(name) => match self.node_by_name.get(&name).copied() {
                Some(id) => self.place(id, pod),
                None => self.orphaned.entry(name).or_default().insert(index, pod),
            },
        }
        self.locations.insert(pod_key, location);
    }

    /// Releases all references of a pod that is no longer in a list.
    pub(super) fn forget(&mut self, location: PodLocation, pod: Pod) {
        self.release_kept(pod);
        if let PodLocation::Node(name) = location {
            self.symbols.release(name);
        }
    }

    /// Removes a pod from its group.
    pub(super) fn leave_group(&mut self, pod: &mut Pod) {
        let before = self.groups.count_used();
        // The default group holds no reference, so a second release of the pod frees nothing twice.
        let group = std::mem::take(&mut pod.group);
        self.groups.release(&mut self.symbols, group);
        if self.groups.count_used() != before {
            self.changes.all();
        }
    }

    /// The key of a pod: its UID, or `namespace/name` without one.
    pub fn pod_key(&self, pod: &Pod) -> Arc<str> {
        match pod.uid() {
            "" => Arc::from(self.full_name(pod)),
            _ => Arc::clone(&pod.identity.uid),
        }
    }

    /// The node of a pod by its key, and its index among the pods there. `None` for a pod without a known node.
    pub fn find_pod(&self, pod_key: &str) -> Option<(NodeId, usize)> {
        let PodLocation::Node(name) = self.locations.get(pod_key)? else {
            return None;
        };
        let id = *self.node_by_name.get(name)?;
        Some((id, self.find(&self.node(id).pods, pod_key)?))
    }
}
