//! Loads a dump object by object.

use super::items::{Found, Sink};
use super::kind::{Kind, Object, alike};
use super::{DumpError, doubts::Doubts};
use evictd_document::{
    Amount, ENOUGH, Mistake, Mistakes, Place, Wrong, amounts_of_list, amounts_of_pod, mistakes_of,
};
use evictd_placement::{Cluster, SpreadSource};
use evictd_pod::{Node, defaults, wire};
use evictd_preemption::Budget;
use hashbrown::HashSet;
use std::collections::BTreeMap;
use std::fmt::Display;

/// The pod to schedule, by which it is recognised in the dump.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Unique id; empty if unknown.
    pub uid: String,
}

impl Wanted {
    fn is(&self, metadata: &wire::Metadata) -> bool {
        let same_name =
            metadata.namespace_or_default() == self.namespace && metadata.name == self.name;
        let same_uid = !self.uid.is_empty() && *metadata.uid == *self.uid;
        same_name || same_uid
    }
}

/// The content of a dump.
#[derive(Debug)]
pub struct Loaded {
    /// Nodes and the pods on them.
    pub cluster: Cluster,
    /// Budgets.
    pub budgets: Vec<Budget>,
    /// Priority classes.
    pub classes: Vec<wire::PriorityClass>,
    /// The pod to schedule, if the dump contains it.
    pub wanted: Option<wire::Pod>,
    /// Assumptions that were made.
    pub doubts: Doubts,
}

pub(super) struct Loader<'w> {
    wanted: Option<&'w Wanted>,
    loaded: Loaded,
    /// Every unique id.
    ids: HashSet<Box<str>>,
    /// Kind, namespace and name of every object.
    names: HashSet<(Kind, Box<str>)>,
    ignored: BTreeMap<String, usize>,
    mistakes: Vec<Mistake>,
    more: bool,
}

impl<'w> Loader<'w> {
    pub(super) fn new(wanted: Option<&'w Wanted>) -> Self {
        Self {
            wanted,
            loaded: Loaded {
                cluster: Cluster::new(),
                budgets: Vec::new(),
                classes: Vec::new(),
                wanted: None,
                doubts: Doubts::default(),
            },
            ids: HashSet::new(),
            names: HashSet::new(),
            ignored: BTreeMap::new(),
            mistakes: Vec::new(),
            more: false,
        }
    }

    /// The mistakes since the last call, of one source.
    pub(super) fn take_mistakes(&mut self, name: &str) -> Option<Mistakes> {
        let mistakes = std::mem::take(&mut self.mistakes);
        let more = std::mem::take(&mut self.more);
        (!mistakes.is_empty()).then(|| Mistakes {
            name: name.to_owned(),
            mistakes,
            more,
        })
    }

    /// The cluster, after the last object.
    pub(super) fn finish(self, name: &str) -> Result<Loaded, DumpError> {
        let Self {
            mut loaded,
            ignored,
            ..
        } = self;
        if loaded.cluster.nodes().is_empty() {
            let instead = ignored.into_iter();
            let instead = instead.map(|(kind, count)| format!("{count} {kind}"));
            let instead: Vec<String> = instead.collect();
            let ignored = if instead.is_empty() {
                String::new()
            } else {
                format!("; it holds {}", instead.join(", "))
            };
            let name = name.to_owned();
            return Err(DumpError::NoNodes { name, ignored });
        }
        for (kind, count) in ignored {
            let assumption = "objects of kinds that no plan needs are ignored";
            loaded.doubts.add(assumption, || format!("{count} {kind}"));
        }
        let Loaded {
            cluster, doubts, ..
        } = &mut loaded;
        cluster.shrink();
        for (node, pod) in cluster.orphaned_pods() {
            let name = || format!("Pod {} (spec.nodeName {node})", cluster.full_name(pod));
            doubts.add("pods on nodes that are not in the input are left out", name);
        }
        for pod in cluster.nominated().iter().filter(|pod| !pod.identity.tried) {
            let assumption = "nominations without PodScheduled=False are not the scheduler's, and reserve nothing";
            doubts.add(assumption, || format!("Pod {}", cluster.full_name(pod)));
        }
        Ok(loaded)
    }

    /// Adds an object that is well-formed, has a name, and is not a duplicate.
    fn read<T: Object>(&mut self, found: &Found<'_>) -> Option<T> {
        let object: T = match serde_json::from_slice(found.text) {
            Ok(object) => object,
            Err(error) => {
                self.explain::<T>(found, &error);
                return None;
            }
        };
        let metadata = object.metadata();
        if metadata.name.is_empty() {
            let name = format!("{} {}", found.kind, found.position());
            self.wrong(found, name, "metadata.name", "is missing");
            return None;
        }
        let full = metadata.full_name();
        if !self.names.insert((T::KIND, full.into())) {
            let name = || name_of(&object);
            let doubts = &mut self.loaded.doubts;
            doubts.add("of objects with the same name only the first is used", name);
            return None;
        }
        if !metadata.uid.is_empty() && !self.ids.insert((*metadata.uid).into()) {
            let message = format!("{:?} is also the UID of another object", metadata.uid);
            self.wrong(found, name_of(&object), "metadata.uid", message);
            return None;
        }
        Some(object)
    }

    /// Finds every mistake of an object that cannot be read.
    fn explain<T: Object>(&mut self, found: &Found<'_>, error: &serde_json::Error) {
        let place = (found.place)();
        let Ok(text) = std::str::from_utf8(found.text) else {
            let name = format!("{} {}", found.kind, found.position());
            return self.wrong(found, name, "", "is not UTF-8 text");
        };
        let start = place.unwrap_or(Place { line: 1, column: 1 });
        for mut mistake in mistakes_of::<T>(text, start, &found.position(), error) {
            mistake.place = place.and(mistake.place);
            mistake.object = format!("{} {}", found.kind, mistake.object);
            self.refuse(mistake);
        }
    }

    fn wrong(&mut self, found: &Found<'_>, object: String, key: &str, message: impl Display) {
        self.refuse(Mistake {
            place: (found.place)(),
            object,
            key: key.to_owned(),
            message: message.to_string(),
        });
    }

    /// Whether all amounts of an object are possible; doubtful ones are noted.
    fn amounts<T: Object>(&mut self, found: &Found<'_>, object: &T, amounts: Vec<Amount>) -> bool {
        let mut right = true;
        for amount in amounts {
            let Amount {
                key,
                quantity,
                wrong,
                ..
            } = amount;
            match wrong {
                Wrong::Negative => {
                    right = false;
                    let message = format!("{quantity} is negative");
                    self.wrong(found, name_of(object), &key, message);
                }
                Wrong::Absurd => {
                    let name = || format!("{} {key} {quantity}", name_of(object));
                    let assumption = "amounts beyond 2^53 are used exactly as written";
                    self.loaded.doubts.add(assumption, name);
                }
            }
        }
        right
    }

    fn take_node(&mut self, found: &Found<'_>) {
        let Some(node) = self.read::<Node>(found) else {
            return;
        };
        let allocatable = &node.status.allocatable;
        if allocatable.is_empty() {
            let assumption = "nodes without status.allocatable have room for no pod";
            self.loaded.doubts.add(assumption, || name_of(&node));
        }
        if self.amounts(
            found,
            &node,
            amounts_of_list(allocatable, &["status", "allocatable"]),
        ) {
            // Duplicates were rejected above.
            self.loaded.cluster.add_node(&node);
        }
    }

    fn take_pod(&mut self, found: &Found<'_>) {
        let Some(mut pod) = self.read::<wire::Pod>(found) else {
            return;
        };
        if !self.amounts(found, &pod, amounts_of_pod(&pod)) {
            return;
        }
        defaults::complete(&mut pod);
        if self.wanted.is_some_and(|wanted| wanted.is(&pod.metadata)) {
            self.loaded.wanted = Some(pod);
            return;
        }
        let placed = !pod.spec.node_name.is_empty();
        if placed && pod.status.phase.is_empty() {
            let assumption = "pods without status.phase count as running";
            self.loaded.doubts.add(assumption, || name_of(&pod));
        }
        if let Err(mistake) = self.loaded.cluster.add_pod(pod) {
            // The parsed pod was moved; its text, which parsed before, is parsed again.
            let pod = serde_json::from_slice::<wire::Pod>(found.text);
            let name = pod.map_or_else(|_| found.position(), |pod| name_of(&pod));
            self.wrong(found, name, &mistake.field, &mistake.error);
        }
    }

    /// Adds an object of storage; `amounts` are its quantities.
    fn take_storage<T: Object>(
        &mut self,
        found: &Found<'_>,
        amounts: impl FnOnce(&T) -> Vec<Amount>,
        add: impl FnOnce(&mut Cluster, &T) -> Result<(), evictd_placement::InvalidObject>,
    ) {
        let Some(object) = self.read::<T>(found) else {
            return;
        };
        if self.amounts(found, &object, amounts(&object))
            && let Err(mistake) = add(&mut self.loaded.cluster, &object)
        {
            self.wrong(found, name_of(&object), &mistake.field, &mistake.error);
        }
    }

    fn take_budget(&mut self, found: &Found<'_>) {
        let Some(budget) = self.read::<wire::PodDisruptionBudget>(found) else {
            return;
        };
        let doubts = &mut self.loaded.doubts;
        let mut doubt = |assumption| doubts.add(assumption, || name_of(&budget));
        let spec = &budget.spec;
        if spec.min_available.is_some() && spec.max_unavailable.is_some() {
            doubt(
                "of budgets with both spec.minAvailable and spec.maxUnavailable, which the API server refuses, \
                 status.disruptionsAllowed is used as it is",
            );
        }
        if budget.status.disruptions_allowed.is_none() {
            doubt("budgets without status.disruptionsAllowed allow no disruption");
        }
        match Budget::new(&mut self.loaded.cluster, &budget) {
            Ok(compiled) => {
                if compiled.selects_nothing() {
                    let assumption =
                        "budgets with an empty spec.selector cover no pod where preemption asks";
                    self.loaded.doubts.add(assumption, || name_of(&budget));
                }
                self.loaded.budgets.push(compiled);
            }
            Err(error) => self.wrong(found, name_of(&budget), "spec.selector", error),
        }
    }
}

impl Sink for Loader<'_> {
    fn take(&mut self, found: Found<'_>) {
        match Kind::of(found.kind, found.api_version) {
            Some(Kind::Pod) => self.take_pod(&found),
            Some(Kind::Node) => self.take_node(&found),
            Some(Kind::Budget) => self.take_budget(&found),
            Some(Kind::Namespace) => {
                if let Some(namespace) = self.read(&found) {
                    self.loaded.cluster.add_namespace(&namespace);
                }
            }
            Some(Kind::PriorityClass) => {
                let class = self.read(&found);
                self.loaded.classes.extend(class);
            }
            Some(Kind::Claim) => {
                let amounts = |claim: &wire::PersistentVolumeClaim| {
                    let requests = &claim.spec.resources.requests;
                    amounts_of_list(requests, &["spec", "resources", "requests"])
                };
                self.take_storage(&found, amounts, Cluster::add_claim);
            }
            Some(Kind::Volume) => {
                let amounts = |volume: &wire::PersistentVolume| {
                    amounts_of_list(&volume.spec.capacity, &["spec", "capacity"])
                };
                self.take_storage(&found, amounts, Cluster::add_volume);
            }
            Some(Kind::StorageClass) => {
                self.take_storage(&found, |_| Vec::new(), Cluster::add_storage_class);
            }
            Some(Kind::CsiNode) => {
                if let Some(node) = self.read(&found) {
                    self.loaded.cluster.add_csi_node(&node);
                }
            }
            Some(Kind::VolumeAttachment) => {
                if let Some(attachment) = self.read(&found) {
                    self.loaded.cluster.add_volume_attachment(&attachment);
                }
            }
            Some(Kind::CsiDriver) => {
                if let Some(driver) = self.read(&found) {
                    self.loaded.cluster.add_csi_driver(&driver);
                }
            }
            Some(Kind::StorageCapacity) => {
                self.take_storage(&found, |_| Vec::new(), Cluster::add_storage_capacity);
            }
            Some(Kind::Service) => {
                if let Some(service) = self.read(&found) {
                    self.loaded.cluster.add_service(&service);
                }
            }
            Some(Kind::ReplicationController) => {
                if let Some(alike::ReplicationController(own)) = self.read(&found) {
                    self.loaded.cluster.add_replication_controller(&own);
                }
            }
            Some(Kind::ReplicaSet) => {
                self.take_storage(
                    &found,
                    |_| Vec::new(),
                    |cluster, own: &alike::ReplicaSet| {
                        cluster.add_workload(SpreadSource::ReplicaSet, &own.0)
                    },
                );
            }
            Some(Kind::StatefulSet) => {
                self.take_storage(
                    &found,
                    |_| Vec::new(),
                    |cluster, own: &alike::StatefulSet| {
                        cluster.add_workload(SpreadSource::StatefulSet, &own.0)
                    },
                );
            }
            Some(Kind::ResourceClaim) => {
                if let Some(claim) = self.read(&found) {
                    self.loaded.cluster.devices_mut().put_claim(claim);
                }
            }
            Some(Kind::ResourceSlice) => {
                if let Some(slice) = self.read(&found) {
                    self.loaded.cluster.devices_mut().put_slice(slice);
                }
            }
            Some(Kind::DeviceClass) => {
                if let Some(class) = self.read(&found) {
                    self.loaded.cluster.devices_mut().put_class(class);
                }
            }
            None => *self.ignored.entry(found.kind.to_owned()).or_default() += 1,
        }
    }

    fn refuse(&mut self, mistake: Mistake) {
        if self.mistakes.len() < ENOUGH {
            self.mistakes.push(mistake);
        } else {
            self.more = true;
        }
    }

    fn has_enough(&self) -> bool {
        self.more
    }
}

/// Kind, namespace and name.
fn name_of<T: Object>(object: &T) -> String {
    let metadata = object.metadata();
    let kind = T::KIND.as_str();
    if T::KIND.is_namespaced() {
        format!(
            "{kind} {}/{}",
            metadata.namespace_or_default(),
            metadata.name
        )
    } else {
        format!("{kind} {}", metadata.name)
    }
}
