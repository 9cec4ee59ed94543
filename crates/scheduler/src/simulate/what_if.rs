//! The input of `simulate --cluster`: a dump of a cluster, pods to add, and nodes to drain.

use evictd_document::{Assumptions, Loader, ObjectsError, Source};
use evictd_manifests::Object;
use evictd_placement::{Cluster, Pod};
use evictd_pod::wire;
use evictd_preemption::{Budget, Compat, breaking, budgets_of};
use evictd_scheduling::config::KubeSchedulerConfiguration;
use evictd_scheduling::simulation::{Sequence, SequenceOutcome};
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
    pub(crate) assumptions: Assumptions,
}

/// The result of a simulation, and of the drain before it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WhatIfOutcome {
    #[serde(flatten)]
    pub(crate) outcome: SequenceOutcome,
    /// The pods of drained nodes that cannot move, with the reasons.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) cannot_move: BTreeMap<String, String>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum WhatIfError {
    #[error(transparent)]
    Objects(#[from] ObjectsError),
    #[error("{0}: holds no Node")]
    NoNodes(String),
    #[error("{file}: --without {node}: there is no such node")]
    UnknownNode { file: String, node: String },
}

impl WhatIf {
    /// `without`: the nodes to drain. Their pods are created again, except those that belong to their node.
    pub(crate) fn new<R: Read>(
        clusters: Vec<Source<R>>,
        manifests: Vec<Source<R>>,
        without: &[String],
    ) -> Result<Self, WhatIfError> {
        let names: Vec<String> = clusters.iter().map(|source| source.name.clone()).collect();
        let mut cluster = Vec::new();
        let mut loader = Loader::of_cluster(&mut cluster, true);
        for source in clusters {
            loader.read(source).map_err(ObjectsError::from)?;
        }
        let known = loader.finish()?;
        let names = names.join(", ");
        check_nodes(&cluster, without, names)?;
        let mut drain = Drain {
            without,
            objects: Vec::new(),
            pending: Vec::new(),
            cannot_move: blocked(&cluster, without),
        };
        for object in cluster {
            drain.take(object);
        }
        let mut created = Vec::new();
        let mut loader = Loader::of_manifests(&mut created, known);
        for source in manifests {
            loader.read(source).map_err(ObjectsError::from)?;
        }
        let known = loader.finish()?;
        let Drain {
            mut objects,
            mut pending,
            cannot_move,
            ..
        } = drain;
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
            assumptions,
        })
    }

    /// Adds the drained pods that cannot move.
    pub(crate) fn outcome(&self, outcome: SequenceOutcome) -> WhatIfOutcome {
        let mut cannot_move = self.cannot_move.clone();
        let stuck = outcome.unschedulable.iter();
        for (pod, message) in stuck.filter(|(pod, _)| self.moved.contains(*pod)) {
            let fits_nowhere = format!("it fits on no other node: {message}");
            cannot_move.insert(pod.clone(), fits_nowhere);
        }
        WhatIfOutcome {
            outcome,
            cannot_move,
        }
    }

    /// The simulation with this configuration.
    pub(crate) fn sequence(&self, config: Option<KubeSchedulerConfiguration>) -> Sequence {
        Sequence {
            now: Timestamp::UNIX_EPOCH,
            config,
            objects: self.objects.clone(),
            pending: self.pending.clone(),
        }
    }
}

fn check_nodes(cluster: &[Object], without: &[String], file: String) -> Result<(), WhatIfError> {
    let nodes = || {
        cluster.iter().filter_map(|object| match object {
            Object::Node(node) => Some(node.metadata.name.as_str()),
            _ => None,
        })
    };
    if nodes().next().is_none() {
        return Err(WhatIfError::NoNodes(file));
    }
    match without
        .iter()
        .find(|name| !nodes().any(|node| node == **name))
    {
        None => Ok(()),
        Some(node) => Err(WhatIfError::UnknownNode {
            file,
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
        let annotations = &metadata.annotations;
        let owned_by = |kind: &str| {
            metadata
                .owner_references
                .iter()
                .any(|owner| owner.kind == kind)
        };
        let mut owners = metadata.owner_references.iter();
        let reason = if annotations.contains_key(evictd_pod::pod::CONFIG_MIRROR) || owned_by("Node")
        {
            Some("the kubelet of its node runs it")
        } else if owned_by("DaemonSet") {
            Some("its DaemonSet runs it on this node only")
        } else if !owners.any(|owner| owner.controller) {
            Some("no controller creates it again elsewhere")
        } else {
            None
        };
        if let Some(reason) = reason {
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
    let mut cluster = Cluster::new();
    for object in objects {
        match object {
            Object::Node(node) if without.contains(&node.metadata.name) => {
                cluster.add_node(node);
            }
            Object::Namespace(namespace) => cluster.add_namespace(namespace),
            _ => {}
        }
    }
    for object in objects {
        if let Object::Pod(manifest) = object
            && without.contains(&manifest.pod.spec.node_name)
        {
            // An invalid pod is reported where it is scheduled.
            let _ = cluster.add_pod(manifest.pod.clone());
        }
    }
    let budgets = objects.iter().filter_map(|object| match object {
        Object::PodDisruptionBudget(budget) => Budget::new(&mut cluster, budget).ok(),
        _ => None,
    });
    let budgets: Vec<Budget> = budgets.collect();
    let pods = || {
        let pods = cluster.nodes().iter().flat_map(|node| &node.pods);
        pods.filter(|pod| !pod.terminating)
    };
    let broken = pods().zip(breaking(&cluster, &budgets, pods()));
    let reason = |pod: &Pod| {
        let names = budgets_of(&cluster, &budgets, pod, Compat::V1_36);
        format!(
            "PodDisruptionBudget {} does not allow its eviction now",
            names.join(", ")
        )
    };
    let broken = broken.filter(|(_, breaks)| *breaks);
    broken
        .map(|(pod, _)| (cluster.full_name(pod), reason(pod)))
        .collect()
}
