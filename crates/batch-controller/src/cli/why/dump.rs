//! Reads a cluster from files: objects in every form that the scheduler's commands read, or a session as `simulate` reads it.

use super::objects::{ClusterObjects, Object};
use crate::cli::session_file;
use evictd_batch_objects::{Job, NodeMetrics};
use evictd_command::Failure;
use evictd_document::{
    Document, InputFile, InvalidField, LARGE, Loader, Mistake, OtherObject, Receiver, Source,
};
use evictd_manifests as manifests;
use evictd_pod::wire::null_is_default;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use std::io::{Cursor, Read};
use std::path::PathBuf;

/// The fields of Kubernetes objects and lists, which a session does not have.
#[derive(Deserialize)]
struct Shape {
    kind: Option<IgnoredAny>,
    items: Option<IgnoredAny>,
}

/// Further objects in the file of a session.
#[derive(Deserialize)]
struct FurtherObjects {
    #[serde(default, deserialize_with = "null_is_default")]
    jobs: Vec<Job>,
}

pub(super) fn read(files: &[PathBuf]) -> Result<ClusterObjects, Failure> {
    let inputs = files.iter().map(|file| InputFile::at(file));
    let inputs: Result<Vec<_>, _> = inputs.collect();
    let inputs = inputs.map_err(Failure::input)?.concat();
    let mut cluster = match inputs.as_slice() {
        [input] if !input.is_found => {
            let document = Document::read(&input.path, LARGE).map_err(Failure::input)?;
            if is_session(&document) {
                session(&document)?
            } else {
                objects(vec![source(document)])?
            }
        }
        inputs => {
            let sources = inputs.iter().map(|input| {
                if input.is_found {
                    return Ok(input.source().map(|text| Box::new(text) as Box<dyn Read>));
                }
                Document::read(&input.path, LARGE).map(source)
            });
            let sources: Result<Vec<_>, _> = sources.collect();
            objects(sources.map_err(Failure::input)?)?
        }
    };
    let names: Vec<String> = files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    for (what, missing) in [
        ("nodes", cluster.objects.nodes.is_empty()),
        ("queues", cluster.objects.queues.is_empty()),
    ] {
        if missing {
            let warning = format!("{} holds no {what}", names.join(", "));
            cluster.warnings.push(warning);
        }
    }
    Ok(cluster)
}

fn is_session(document: &Document) -> bool {
    let shape = document.parse::<Shape>();
    shape.is_ok_and(|shape| shape.kind.is_none() && shape.items.is_none())
}

fn session(document: &Document) -> Result<ClusterObjects, Failure> {
    let (objects, warnings) = session_file::read(document)?;
    let FurtherObjects { jobs } = document.parse().map_err(Failure::input)?;
    Ok(ClusterObjects {
        objects,
        jobs,
        warnings,
        ..ClusterObjects::default()
    })
}

fn source(document: Document) -> Source<Box<dyn Read>> {
    let name = document.name().to_owned();
    Source::new(name, Box::new(Cursor::new(document.into_text())))
}

fn objects(sources: Vec<Source<Box<dyn Read>>>) -> Result<ClusterObjects, Failure> {
    let mut cluster = ClusterObjects::default();
    let mut loader = Loader::of_cluster(&mut cluster, false);
    for source in sources {
        loader.read(source).map_err(Failure::input)?;
    }
    let read = loader.finish().map_err(Failure::input)?;
    let mut assumptions = read.assumptions;
    assumptions.ignore(&read.ignored, "");
    cluster.warnings.extend(assumptions.lines());
    Ok(cluster)
}

impl Receiver for ClusterObjects {
    fn take(&mut self, object: manifests::Object) -> Result<(), InvalidField> {
        use manifests::Object as Read;
        let object = match object {
            Read::Node(object) => Object::Node(object),
            Read::Pod(manifest) => Object::Pod(Box::new(manifest.pod)),
            Read::PodGroup(object) => Object::UpstreamPodGroup(object),
            Read::PriorityClass(object) => Object::PriorityClass(object),
            Read::Namespace(object) => Object::Namespace(object),
            Read::PersistentVolumeClaim(object) => Object::Claim(object),
            Read::PersistentVolume(object) => Object::Volume(object),
            Read::StorageClass(object) => Object::StorageClass(object),
            Read::CsiNode(object) => Object::CsiNode(object),
            Read::VolumeAttachment(object) => Object::VolumeAttachment(object),
            Read::CsiDriver(object) => Object::CsiDriver(object),
            Read::CsiStorageCapacity(object) => Object::StorageCapacity(object),
            Read::ResourceClaim(object) => Object::ResourceClaim(object),
            Read::ResourceSlice(object) => Object::ResourceSlice(object),
            Read::DeviceClass(object) => Object::DeviceClass(object),
            Read::ReplicaSet(object) | Read::StatefulSet(object) => Object::Owner(object),
            Read::PodDisruptionBudget(object) => {
                self.objects.pod_disruption_budgets.push(*object);
                return Ok(());
            }
            // Sessions know no trees of groups and no spread owners. Answers are those of 1.36, where no taint rule counts, and
            // admission has read the others.
            Read::CompositePodGroup(_)
            | Read::Service(_)
            | Read::ReplicationController(_)
            | Read::DeviceTaintRule(_)
            | Read::ResourceClaimTemplate(_)
            | Read::RuntimeClass(_)
            | Read::LimitRange(_) => return Ok(()),
        };
        self.add(object).map_err(|error| InvalidField {
            field: error.field,
            message: error.error.to_string(),
        })
    }

    fn take_other(&mut self, other: &OtherObject<'_>) -> Option<Result<(), Vec<Mistake>>> {
        fn push<T: DeserializeOwned>(
            other: &OtherObject<'_>,
            to: &mut Vec<T>,
        ) -> Result<(), Vec<Mistake>> {
            to.push(other.read()?);
            Ok(())
        }
        let version = other.api_version();
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let objects = &mut self.objects;
        Some(match (group, other.kind()) {
            ("", "ResourceQuota") => push(other, &mut objects.resource_quotas),
            ("nodeinfo.volcano.sh", "Numatopology") => push(other, &mut objects.numatopologies),
            ("metrics.k8s.io", "NodeMetrics") => other.read::<Value>().map(|node| {
                // The use of a node whose object cannot be read stays unknown.
                objects
                    .node_metrics
                    .extend(NodeMetrics::of_object(node).ok());
            }),
            ("" | "events.k8s.io", "Event") => push(other, &mut self.events),
            ("batch.volcano.sh", "Job") => push(other, &mut self.jobs),
            ("scheduling.volcano.sh", "PodGroup") => push(other, &mut objects.pod_groups),
            ("scheduling.volcano.sh", "Queue") => push(other, &mut objects.queues),
            ("topology.volcano.sh", "HyperNode") => push(other, &mut objects.hyper_nodes),
            ("scheduling.k8s.io", "Workload") => push(other, &mut objects.workloads),
            _ => return None,
        })
    }
}
