//! The pod to schedule, after the admission of the API server.

use crate::dump::{Loaded, PodKey, clauses_of_others};
use evictd_document::{Document, DocumentError, Loader, ObjectsError, Source};
use evictd_manifests::{Object, is_workload};
use evictd_pod::wire;
use serde_json::Value;

/// The source of the pod.
#[derive(Debug)]
pub(crate) enum PodSource {
    /// A pod, or a workload with a pod template, and the objects that belong to it.
    Manifest(Document),
    /// A pending pod in the cluster.
    Pending(PodKey),
}

/// Why there is no pod to schedule.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PreemptorError {
    #[error(transparent)]
    Objects(#[from] ObjectsError),
    #[error(transparent)]
    Document(#[from] DocumentError),
    #[error(
        "--pod {0}: is not a file, and no pod of that name is in the input; of a workload its manifest is needed"
    )]
    NotFound(String),
    #[error("--pod {pod}: is already on node {node}")]
    Assigned { pod: String, node: String },
    #[error("{0}")]
    Refused(String),
}

impl PodSource {
    /// Parses `namespace/name`. `None` if no pod can have this name.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        let (namespace, name) = name.split_once('/')?;
        let right = |part: &str| {
            let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
            !part.is_empty() && part.bytes().all(known)
        };
        (right(namespace) && right(name)).then(|| {
            Self::Pending(PodKey {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                uid: String::new(),
            })
        })
    }

    /// The key by which the dump is searched for it.
    pub(crate) fn key(&self) -> PodKey {
        match self {
            Self::Pending(key) => key.clone(),
            // A manifest that cannot be read is refused when it is read as a whole.
            Self::Manifest(document) => document
                .values()
                .unwrap_or_default()
                .iter()
                .find_map(key_of)
                .unwrap_or_default(),
        }
    }

    /// Its text, if it has one.
    pub(crate) fn text(&self) -> Option<Source<&[u8]>> {
        match self {
            Self::Manifest(document) => {
                let text = document.text().as_bytes();
                Some(Source::new(document.name().to_owned(), text))
            }
            Self::Pending(_) => None,
        }
    }

    /// The pod with the defaults of the API server, some of which come from objects of the cluster.
    pub(crate) fn pod(self, loaded: &mut Loaded) -> Result<wire::Pod, PreemptorError> {
        match (self, loaded.preemptor.take()) {
            (Self::Manifest(document), found) => {
                let is_found = found.is_some();
                if let Some(found) = found {
                    let found = Object::Pod(Box::new(found.into()));
                    loaded.objects.forget(&found);
                }
                let pod = admitted(&document, loaded)?;
                if is_found {
                    let assumption = "the pod of --pod is also in the input, where it is ignored";
                    loaded
                        .objects
                        .assumptions
                        .add(assumption, || pod.metadata.full_name());
                }
                Ok(pod)
            }
            (Self::Pending(key), None) => {
                let name = format!("{}/{}", key.namespace, key.name);
                Err(PreemptorError::NotFound(name))
            }
            (Self::Pending(_), Some(pod)) if pod.spec.node_name.is_empty() => Ok(pod),
            (Self::Pending(_), Some(pod)) => Err(PreemptorError::Assigned {
                pod: pod.metadata.full_name(),
                node: pod.spec.node_name.clone(),
            }),
        }
    }
}

/// Why no scheduler tries a pod that names its node.
pub(crate) fn node_named_by(pod: &wire::Pod) -> Option<String> {
    let node = &pod.spec.node_name;
    (!node.is_empty()).then(|| {
        format!("its spec.nodeName is {node}: no scheduler tries it, and the kubelet there decides")
    })
}

/// The key of the first pod or workload of a manifest.
fn key_of(value: &Value) -> Option<PodKey> {
    let items = value.get("items").unwrap_or(value).as_array();
    if let Some(items) = items {
        return items.iter().find_map(key_of);
    }
    let (metadata, kind) = (&value["metadata"], value["kind"].as_str());
    if !matches!(kind, None | Some("Pod")) && !is_workload(value) {
        return None;
    }
    let text = |key: &str| metadata[key].as_str().unwrap_or_default().to_owned();
    let namespace = match text("namespace") {
        namespace if namespace.is_empty() => "default".to_owned(),
        namespace => namespace,
    };
    Some(PodKey {
        namespace,
        name: text("name"),
        uid: text("uid"),
    })
}

/// The pod of a manifest after admission. The other objects of the manifest, and those that are created with the pod, are added
/// to the cluster.
fn admitted(document: &Document, loaded: &mut Loaded) -> Result<wire::Pod, PreemptorError> {
    let mut objects = Vec::new();
    let mut reader = Loader::of_one_pod(&mut objects, std::mem::take(&mut loaded.objects));
    let name = document.name().to_owned();
    reader.read(Source::new(name, document.text().as_bytes()))?;
    loaded.objects = reader.finish()?;
    let ignored = std::mem::take(&mut loaded.objects.ignored);
    let mut pods = Vec::new();
    for object in objects {
        let title = object.to_string();
        match object {
            Object::Pod(manifest) => pods.push(manifest.pod),
            object => loaded.put(object).map_err(|invalid| {
                let (name, field) = (document.name(), &invalid.field);
                PreemptorError::Refused(format!("{name}: {title}: {field}: {}", invalid.message))
            })?,
        }
    }
    let count = pods.len();
    let Ok([pod]) = <[wire::Pod; 1]>::try_from(pods) else {
        let needed =
            "exactly one is needed: a Pod, a list with one, or a workload with a pod template";
        let others = clauses_of_others(&ignored, &loaded.objects.unknown_workloads);
        return Err(document
            .wrong(format!("holds {count} pods; {needed}{others}"))
            .into());
    };
    let unknown = std::mem::take(&mut loaded.objects.unknown_workloads);
    let assumptions = &mut loaded.objects.assumptions;
    unknown
        .lines()
        .into_iter()
        .for_each(|line| assumptions.note(line));
    assumptions.ignore(&ignored, " of --pod");
    if let Some(reason) = node_named_by(&pod) {
        let name = pod.metadata.full_name();
        assumptions.note(format!(
            "{reason}; the answer is that of the filters: Pod {name}"
        ));
    }
    Ok(pod)
}
