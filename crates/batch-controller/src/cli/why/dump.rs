//! Reads a cluster from a file: a list of objects as `kubectl get -o json` prints it, or a session as `simulate` reads it.

use super::objects::{ClusterObjects, Object};
use evictd_batch::session::Objects;
use evictd_batch_objects::Job;
use evictd_command::Failure;
use evictd_document::{Document, LARGE};
use evictd_pod::wire::null_is_default;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use std::path::Path;

/// The field that distinguishes the two kinds of files.
#[derive(Deserialize)]
struct Shape {
    items: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct List {
    items: Vec<Value>,
}

/// Further objects in the file of a session.
#[derive(Deserialize)]
struct FurtherObjects {
    #[serde(default, deserialize_with = "null_is_default")]
    jobs: Vec<Job>,
}

pub(super) fn read(file: &Path) -> Result<ClusterObjects, Failure> {
    let document = Document::read(file, LARGE).map_err(Failure::input)?;
    let shape: Shape = document.parse().map_err(Failure::input)?;
    let mut cluster = if shape.items.is_some() {
        list(&document)?
    } else {
        let objects: Objects = document.parse().map_err(Failure::input)?;
        let FurtherObjects { jobs } = document.parse().map_err(Failure::input)?;
        ClusterObjects {
            objects,
            jobs,
            ..ClusterObjects::default()
        }
    };
    for (what, missing) in [
        ("nodes", cluster.objects.nodes.is_empty()),
        ("queues", cluster.objects.queues.is_empty()),
    ] {
        if missing {
            let warning = format!("{} holds no {what}", document.name());
            cluster.warnings.push(warning);
        }
    }
    Ok(cluster)
}

fn list(document: &Document) -> Result<ClusterObjects, Failure> {
    let List { items } = document.parse().map_err(Failure::input)?;
    let mut cluster = ClusterObjects::default();
    let mut mistakes = Vec::new();
    for (index, item) in items.into_iter().enumerate() {
        let name = item["metadata"]["name"].as_str().unwrap_or_default();
        let kind = item["kind"].as_str().unwrap_or_default();
        let title = format!("{kind} {name}");
        let added = match object(item) {
            Ok(None) => Ok(()),
            Ok(Some(object)) => cluster.add(object).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        // All mistakes are reported at once.
        if let Err(message) = added {
            mistakes.push((format!("items[{index}]"), format!("{title}: {message}")));
        }
    }
    if mistakes.is_empty() {
        return Ok(cluster);
    }
    Err(Failure::input(document.wrong_fields(mistakes)))
}

/// Parses an object; `None` if its kind is not used.
fn object(item: Value) -> Result<Option<Object>, serde_json::Error> {
    fn of<T: DeserializeOwned>(
        item: Value,
        variant: fn(Box<T>) -> Object,
    ) -> Result<Option<Object>, serde_json::Error> {
        serde_json::from_value(item)
            .map(Box::new)
            .map(variant)
            .map(Some)
    }
    let text = |key: &str| item[key].as_str().unwrap_or_default().to_owned();
    let (kind, version) = (text("kind"), text("apiVersion"));
    let group = version.split_once('/').map_or("", |(group, _)| group);
    match (group, kind.as_str()) {
        ("", "Node") => of(item, Object::Node),
        ("", "Pod") => of(item, Object::Pod),
        ("" | "events.k8s.io", "Event") => of(item, Object::Event),
        ("", "Namespace") => of(item, Object::Namespace),
        ("", "PersistentVolumeClaim") => of(item, Object::Claim),
        ("", "PersistentVolume") => of(item, Object::Volume),
        ("batch.volcano.sh", "Job") => of(item, Object::Job),
        ("scheduling.volcano.sh", "PodGroup") => of(item, Object::PodGroup),
        ("scheduling.volcano.sh", "Queue") => of(item, Object::Queue),
        ("scheduling.k8s.io", "PodGroup") => of(item, Object::UpstreamPodGroup),
        ("scheduling.k8s.io", "Workload") => of(item, Object::Workload),
        ("scheduling.k8s.io", "PriorityClass") => of(item, Object::PriorityClass),
        ("storage.k8s.io", "StorageClass") => of(item, Object::StorageClass),
        ("storage.k8s.io", "CSINode") => of(item, Object::CsiNode),
        ("storage.k8s.io", "VolumeAttachment") => of(item, Object::VolumeAttachment),
        ("storage.k8s.io", "CSIDriver") => of(item, Object::CsiDriver),
        ("storage.k8s.io", "CSIStorageCapacity") => of(item, Object::StorageCapacity),
        ("resource.k8s.io", "ResourceClaim") => of(item, Object::ResourceClaim),
        ("resource.k8s.io", "ResourceSlice") => of(item, Object::ResourceSlice),
        ("resource.k8s.io", "DeviceClass") => of(item, Object::DeviceClass),
        _ => Ok(None),
    }
}
