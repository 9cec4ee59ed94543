//! The input of `simulate --cluster`: a dump of a cluster, pods to add, and nodes to drain.

use evictd_document::{Assumptions, Loader, ObjectsError, Source};
use evictd_manifests::Object;
use evictd_pod::wire;
use evictd_scheduling::config::KubeSchedulerConfiguration;
use evictd_scheduling::simulation::Sequence;
use jiff::Timestamp;
use std::io::Read;

#[derive(Debug)]
pub(crate) struct WhatIf {
    /// The cluster without the drained nodes.
    objects: Vec<Object>,
    /// The pods of the drained nodes, and the added ones.
    pending: Vec<Object>,
    /// Also names the pods that no controller creates again.
    pub(crate) assumptions: Assumptions,
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
            lost: Vec::new(),
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
            lost,
            ..
        } = drain;
        for object in created {
            match object {
                Object::Pod(_) => pending.push(object),
                object => objects.push(object),
            }
        }
        let mut assumptions = known.assumptions;
        for pod in lost {
            let assumption = "pods without a controller are not created again elsewhere";
            assumptions.add(assumption, || pod);
        }
        for (kind, count) in known.ignored {
            let assumption = "objects of kinds that no simulation needs are ignored";
            assumptions.add(assumption, || format!("{count} {kind}"));
        }
        Ok(Self {
            objects,
            pending,
            assumptions,
        })
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
    /// Pods that no controller creates again.
    lost: Vec<String>,
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
        let has_ended = pod.status.phase.has_ended();
        let mut owners = metadata.owner_references.iter();
        let of_node = metadata
            .annotations
            .contains_key(evictd_pod::pod::CONFIG_MIRROR)
            || owners.any(|owner| matches!(owner.kind.as_str(), "DaemonSet" | "Node"));
        if has_ended || of_node || metadata.deletion_timestamp.is_some() {
            return;
        }
        if !metadata
            .owner_references
            .iter()
            .any(|owner| owner.controller)
        {
            self.lost.push(format!("Pod {}", metadata.full_name()));
            return;
        }
        pod.spec.node_name.clear();
        // A nomination or a start time would be that of the old pod.
        pod.status = wire::PodStatus::default().into();
        self.pending.push(Object::Pod(Box::new(pod.into())));
    }
}
