//! The input of `simulate --cluster`: a dump of a cluster, pods to add, and nodes to drain.

use super::new_nodes::NewNodes;
use crate::dump::{self, Built, clauses_of_others};
use crate::preemptor::node_named_by;
use evictd_document::{Assumptions, Loaded, Loader, ObjectsError, Source};
use evictd_manifests::Object;
use evictd_placement::{Cluster, Pod};
use evictd_pod::compatibility::Compatibility;
use evictd_pod::wire;
use evictd_preemption::{Budget, Compat, breaking, budgets_of};
use evictd_scheduling::config::KubeSchedulerConfiguration;
use evictd_scheduling::simulation::{RunningPod, Sequence, SequenceOutcome};
use jiff::Timestamp;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

#[derive(Debug)]
pub(crate) struct WhatIf {
    /// The cluster without the drained nodes.
    objects: Vec<Object>,
    /// The pods of the drained nodes, and the added ones.
    pending: Vec<Object>,
    /// The pods of drained nodes that do not move, and why.
    cannot_move: BTreeMap<String, String>,
    /// The pods of drained nodes that are created again.
    moved: BTreeSet<String>,
    /// The names of the added nodes.
    added: Vec<String>,
    /// The added pods that name their node, which no scheduler tries, and why.
    assigned: BTreeMap<String, String>,
    /// One of the added pods of each workload: it is counted how many more of them fit.
    counted: Vec<String>,
    pub(crate) assumptions: Assumptions,
}

/// The result of a simulation, and of the drain before it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WhatIfOutcome {
    #[serde(flatten)]
    pub(crate) outcome: SequenceOutcome,
    /// The objects that keep unschedulable pods from every node.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) blockers: BTreeMap<String, Vec<String>>,
    /// How many more pods like these fit beside all placed ones, one pod of each added workload.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) more_fit: BTreeMap<String, usize>,
    /// The added nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) added_nodes: Vec<String>,
    /// The pods of drained nodes that cannot move, with the reasons.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) cannot_move: BTreeMap<String, String>,
}

impl WhatIfOutcome {
    /// The added nodes without a pod of the simulation.
    pub(super) fn unused_nodes(&self) -> Vec<&str> {
        let used: BTreeSet<&String> = self.outcome.placed.values().collect();
        let added = self.added_nodes.iter();
        let unused = added.filter(|node| !used.contains(node));
        unused.map(String::as_str).collect()
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum WhatIfError {
    #[error(transparent)]
    Objects(#[from] ObjectsError),
    #[error("{0}: holds no Node")]
    NoNodes(String),
    #[error("{names}: holds 0 pods; needed are pods, or workloads with a pod template{others}")]
    NoPods { names: String, others: String },
    #[error("{file}: {flag} {node}: there is no such node")]
    UnknownNode {
        file: String,
        flag: &'static str,
        node: String,
    },
}

impl WhatIf {
    /// `without`: the nodes to drain. Their pods are created again, except those that belong to their node. `new_nodes`: the nodes
    /// to add.
    pub(crate) fn new<R: Read>(
        clusters: Vec<Source<R>>,
        manifests: Vec<Source<R>>,
        without: &[String],
        new_nodes: Option<&NewNodes>,
    ) -> Result<Self, WhatIfError> {
        let names: Vec<String> = clusters.iter().map(|source| source.name.clone()).collect();
        let mut cluster = Vec::new();
        let mut loader = Loader::of_cluster(&mut cluster, true);
        for source in clusters {
            loader.read(source).map_err(ObjectsError::from)?;
        }
        let mut known = match loader.finish() {
            Ok(known) => known,
            Err(error) => return Err(error.with_those_of(manifests).into()),
        };
        let names = names.join(", ");
        let asked = without.iter().map(|node| ("--without", node));
        let asked = asked.chain(new_nodes.map(|new| ("--like", &new.like)));
        check_nodes(&cluster, asked, names)?;
        // A pod of --pods may be in the cluster, too. The question is about the one of --pods.
        let pods = cluster.iter();
        let pods = pods.filter(|object| matches!(object, Object::Pod(_)));
        known.replaceable = pods.map(|pod| pod.metadata().full_name()).collect();
        let added = new_nodes.map(|new| new.add_to(&mut cluster, &mut known));
        let mut drain = Drain {
            without,
            objects: Vec::new(),
            pending: Vec::new(),
            cannot_move: blocked(&cluster, without),
        };
        for object in cluster {
            drain.take(object);
        }
        let (created, mut known) = manifests_of(manifests, known)?;
        let Drain {
            mut objects,
            mut pending,
            cannot_move,
            ..
        } = drain;
        let is_replaced = |object: &Object| {
            matches!(object, Object::Pod(_))
                && known.replaced.contains(&object.metadata().full_name())
        };
        objects.retain(|object| !is_replaced(object));
        pending.retain(|object| !is_replaced(object));
        for name in std::mem::take(&mut known.replaced) {
            let assumption = "the pod of --pods is also in the input, where it is ignored";
            known.assumptions.add(assumption, || name);
        }
        let counted = counted(&created);
        let assigned = assigned(&created);
        let moved = pending
            .iter()
            .map(|pod| pod.metadata().full_name())
            .collect();
        for object in created {
            match object {
                Object::Pod(_) => pending.push(object),
                object => objects.push(object),
            }
        }
        let mut assumptions = known.assumptions;
        assumptions.ignore(&known.ignored, "");
        Ok(Self {
            objects,
            pending,
            cannot_move,
            moved,
            added: added.unwrap_or_default(),
            assigned,
            counted,
            assumptions,
        })
    }

    /// The cluster, and its running pods with the reasons why they cannot move.
    pub(crate) fn running(self, compatibility: Compatibility) -> (Built, Vec<RunningPod>) {
        let pods = self.objects.iter().filter_map(|object| match object {
            Object::Pod(manifest) => Some(&manifest.pod),
            _ => None,
        });
        let runs = |pod: &&wire::Pod| {
            let has_ended = pod.status.phase.has_ended();
            let is_deleted = pod.metadata.deletion_timestamp.is_some();
            !pod.spec.node_name.is_empty() && !has_ended && !is_deleted
        };
        let pods: Vec<wire::Pod> = pods.filter(runs).cloned().collect();
        let built = dump::built(self.objects, compatibility);
        let mut refused = BTreeMap::new();
        for pod in built.cluster.nodes().iter().flat_map(|node| &node.pods) {
            // One pod is evicted at a time, so that each is asked about alone.
            if breaking(&built.cluster, &built.budgets, std::iter::once(pod)).contains(&true) {
                let reason = refusal(&built.cluster, &built.budgets, pod);
                refused.insert(built.cluster.full_name(pod), reason);
            }
        }
        let pods = pods.into_iter().map(|pod| RunningPod {
            stays: why_it_stays(&pod)
                .map(str::to_owned)
                .or_else(|| refused.remove(&pod.metadata.full_name())),
            pod,
        });
        let pods = pods.collect();
        (built, pods)
    }

    /// Adds the drained pods that cannot move, and the pods that were not tried because they name their node.
    pub(crate) fn outcome(&self, mut outcome: SequenceOutcome) -> WhatIfOutcome {
        outcome.not_tried.extend(self.assigned.clone());
        let mut cannot_move = self.cannot_move.clone();
        let stuck = outcome.unschedulable.iter();
        for (pod, message) in stuck.filter(|(pod, _)| self.moved.contains(*pod)) {
            let fits_nowhere = format!("it fits on no other node: {message}");
            cannot_move.insert(pod.clone(), fits_nowhere);
        }
        WhatIfOutcome {
            blockers: outcome.blockers.clone(),
            more_fit: outcome.more_fit.clone(),
            outcome,
            added_nodes: self.added.clone(),
            cannot_move,
        }
    }

    /// The simulation with this configuration.
    pub(crate) fn sequence(
        &self,
        config: Option<KubeSchedulerConfiguration>,
        compatibility: Compatibility,
    ) -> Sequence {
        Sequence {
            now: Timestamp::now(),
            config,
            objects: self.objects.clone(),
            pending: self.pending.clone(),
            driver: Vec::new(),
            retries: None,
            counted: self.counted.clone(),
            compatibility,
        }
    }
}

/// Reads the pods to schedule and the objects beside them.
fn manifests_of<R: Read>(
    manifests: Vec<Source<R>>,
    cluster: Loaded,
) -> Result<(Vec<Object>, Loaded), WhatIfError> {
    let names: Vec<String> = manifests.iter().map(|source| source.name.clone()).collect();
    let of_cluster = cluster.ignored.clone();
    let mut created = Vec::new();
    let mut loader = Loader::of_manifests(&mut created, cluster);
    for source in manifests {
        loader.read(source).map_err(ObjectsError::from)?;
    }
    let mut known = loader.finish()?;
    let unknown = std::mem::take(&mut known.unknown_workloads);
    if !names.is_empty() && created.is_empty() && known.questions == 0 {
        let mut ignored = known.ignored;
        for (kind, count) in of_cluster {
            ignored.entry(kind).and_modify(|all| *all -= count);
        }
        ignored.retain(|_, count| *count > 0);
        return Err(WhatIfError::NoPods {
            names: names.join(", "),
            others: clauses_of_others(&ignored, &unknown),
        });
    }
    let assumptions = &mut known.assumptions;
    for line in unknown.lines() {
        assumptions.note(line);
    }
    Ok((created, known))
}

/// The most workloads of which further pods are counted.
const MOST_COUNTED: usize = 16;

/// The last pod of each workload, and each pod without one. Pods of daemon sets are one for each node.
fn counted(created: &[Object]) -> Vec<String> {
    let mut last = BTreeMap::new();
    for object in created {
        let Object::Pod(manifest) = object else {
            continue;
        };
        let metadata = &manifest.pod.metadata;
        let mut owners = metadata.owner_references.iter();
        let owner = owners.find(|owner| owner.controller);
        if owner.is_some_and(|owner| owner.kind == "DaemonSet") {
            continue;
        }
        let namespace = metadata.namespace_or_default().to_owned();
        let workload = owner.map_or((String::new(), metadata.name.clone()), |owner| {
            (owner.kind.clone(), owner.name.clone())
        });
        last.insert((namespace, workload), metadata.full_name());
    }
    last.into_values().take(MOST_COUNTED).collect()
}

/// The pods that name their node, with the reason why no scheduler tries them.
fn assigned(created: &[Object]) -> BTreeMap<String, String> {
    let pods = created.iter().filter_map(|object| match object {
        Object::Pod(manifest) => Some(&manifest.pod),
        _ => None,
    });
    let assigned = pods.filter_map(|pod| Some((pod.metadata.full_name(), node_named_by(pod)?)));
    assigned.collect()
}

/// Checks that the nodes of these flags exist.
fn check_nodes<'n>(
    cluster: &[Object],
    mut asked: impl Iterator<Item = (&'static str, &'n String)>,
    file: String,
) -> Result<(), WhatIfError> {
    let nodes = cluster.iter().filter_map(|object| match object {
        Object::Node(node) => Some(node.metadata.name.as_str()),
        _ => None,
    });
    let nodes: BTreeSet<&str> = nodes.collect();
    if nodes.is_empty() {
        return Err(WhatIfError::NoNodes(file));
    }
    match asked.find(|(_, name)| !nodes.contains(name.as_str())) {
        None => Ok(()),
        Some((flag, node)) => Err(WhatIfError::UnknownNode {
            file,
            flag,
            node: node.clone(),
        }),
    }
}

/// Removes nodes from a cluster.
struct Drain<'w> {
    without: &'w [String],
    objects: Vec<Object>,
    /// Pods that their controllers create again.
    pending: Vec<Object>,
    cannot_move: BTreeMap<String, String>,
}

impl Drain<'_> {
    fn take(&mut self, object: Object) {
        match object {
            Object::Node(node) if self.without.contains(&node.metadata.name) => {}
            Object::Pod(manifest) if self.without.contains(&manifest.pod.spec.node_name) => {
                self.evict(manifest.pod);
            }
            object => self.objects.push(object),
        }
    }

    fn evict(&mut self, mut pod: wire::Pod) {
        let metadata = &pod.metadata;
        if pod.status.phase.has_ended() || metadata.deletion_timestamp.is_some() {
            return;
        }
        if let Some(reason) = why_it_stays(&pod) {
            self.cannot_move
                .insert(metadata.full_name(), reason.to_owned());
            return;
        }
        pod.spec.node_name.clear();
        // A nomination or a start time would be that of the old pod.
        pod.status = wire::PodStatus::default().into();
        self.pending.push(Object::Pod(Box::new(pod.into())));
    }
}

/// The pods of drained nodes that budgets do not let go now. They are simulated as if the budgets allowed it later.
fn blocked(objects: &[Object], without: &[String]) -> BTreeMap<String, String> {
    let of_drain = objects.iter().filter(|object| match object {
        Object::Node(node) => without.contains(&node.metadata.name),
        Object::Pod(manifest) => without.contains(&manifest.pod.spec.node_name),
        Object::Namespace(_) | Object::PodDisruptionBudget(_) => true,
        _ => false,
    });
    // An invalid object is reported where it is scheduled.
    let Built {
        cluster, budgets, ..
    } = dump::built(of_drain.cloned(), Compatibility::default());
    let pods = || {
        let pods = cluster.nodes().iter().flat_map(|node| &node.pods);
        pods.filter(|pod| !pod.terminating)
    };
    let broken = pods().zip(breaking(&cluster, &budgets, pods()));
    let broken = broken.filter(|(_, breaks)| *breaks);
    broken
        .map(|(pod, _)| (cluster.full_name(pod), refusal(&cluster, &budgets, pod)))
        .collect()
}

/// That budgets do not let a pod go.
pub(super) fn refusal(cluster: &Cluster, budgets: &[Budget], pod: &Pod) -> String {
    let names = budgets_of(cluster, budgets, pod, Compat::V1_36);
    let names = names.join(", ");
    format!("PodDisruptionBudget {names} does not allow its eviction now")
}

/// Why a pod cannot move to another node, whatever the other nodes have.
pub(super) fn why_it_stays(pod: &wire::Pod) -> Option<&'static str> {
    let metadata = &pod.metadata;
    let owners = || metadata.owner_references.iter();
    let owned_by = |kind: &str| owners().any(|owner| owner.kind == kind);
    let is_mirror = metadata
        .annotations
        .contains_key(evictd_pod::pod::CONFIG_MIRROR);
    if is_mirror || owned_by("Node") {
        Some("the kubelet of its node runs it")
    } else if owned_by("DaemonSet") {
        Some("its DaemonSet runs it on this node only")
    } else if !owners().any(|owner| owner.controller) {
        Some("no controller creates it again elsewhere")
    } else {
        None
    }
}
