//! The pod to schedule, after the admission of the API server.

use crate::dump::{Loaded, PodKey};
use evictd_document::{Amount, Document, DocumentError, InvalidField, Wrong, amounts_of_pod};
use evictd_manifests::{PodManifest, Refusal, expand_one, is_workload};
use evictd_pod::wire;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use std::fmt::Display;
use wire::null_is_default;

/// The source of the pod.
#[derive(Debug)]
pub(crate) enum PodSource {
    Manifest {
        /// The manifest's name in messages.
        name: String,
        /// A pod, or a workload with a pod template.
        object: Box<Value>,
    },
    /// A pending pod in the cluster.
    Pending(PodKey),
}

/// Why there is no pod to schedule.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PreemptorError {
    #[error(transparent)]
    Document(#[from] DocumentError),
    #[error("--pod {0}: is not a file, and no pod of that name is in the input")]
    NotFound(String),
    #[error("--pod {pod}: is already on node {node}")]
    Assigned { pod: String, node: String },
    #[error(transparent)]
    Admission(Refusal),
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Amounts(String),
}

#[derive(Deserialize)]
struct Outline {
    #[serde(default, deserialize_with = "null_is_default")]
    kind: String,
    #[serde(default)]
    items: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct List {
    #[serde(default, deserialize_with = "null_is_default")]
    items: Vec<wire::Pod>,
}

impl PodSource {
    /// Reads a manifest: a Pod, a list of one, or a workload with a pod template.
    pub(crate) fn of_manifest(document: &Document) -> Result<Self, PreemptorError> {
        let outline: Outline = document.parse()?;
        let needed = "a Pod, a list with one, or a workload with a pod template is needed";
        let object = match outline.kind.as_str() {
            "Pod" => whole::<wire::Pod>(document)?,
            "List" | "PodList" => one(document)?,
            "" if outline.items.is_some() => one(document)?,
            "" => {
                let what = format!("is not a Kubernetes object, because it has no kind; {needed}");
                return Err(document.wrong(what).into());
            }
            kind => {
                let object = document.parse::<Value>()?;
                if !is_workload(&object) {
                    let what = format!("is a {kind} without spec.template; {needed}");
                    return Err(document.wrong(what).into());
                }
                object
            }
        };
        Ok(Self::Manifest {
            name: document.name().to_owned(),
            object: Box::new(object),
        })
    }

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
            Self::Manifest { object, .. } => {
                let metadata = &object["metadata"];
                let text = |key: &str| metadata[key].as_str().unwrap_or_default().to_owned();
                let namespace = match text("namespace") {
                    namespace if namespace.is_empty() => "default".to_owned(),
                    namespace => namespace,
                };
                PodKey {
                    namespace,
                    name: text("name"),
                    uid: text("uid"),
                }
            }
        }
    }

    /// The pod with the defaults of the API server, some of which come from objects of the cluster.
    pub(crate) fn pod(self, loaded: &mut Loaded) -> Result<wire::Pod, PreemptorError> {
        match (self, loaded.preemptor.take()) {
            (Self::Manifest { name, object }, found) => {
                let pod = admitted(&name, &object, loaded)?;
                if found.is_some() {
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

/// The pod of a manifest after admission. Objects that are created with it are added to the cluster.
fn admitted(name: &str, object: &Value, loaded: &mut Loaded) -> Result<wire::Pod, PreemptorError> {
    let refused = |error: &dyn Display| PreemptorError::Refused(format!("{name}: {error}"));
    let (manifest, mut created) = if is_workload(object) {
        let mut expansion =
            expand_one(object, &loaded.objects.admission).map_err(|error| refused(&error))?;
        let created = expansion.take_objects();
        (expansion.pods.pop().unwrap_or_default(), created)
    } else {
        let manifest = PodManifest::from_value(object).map_err(|error| refused(&error))?;
        (manifest, Vec::new())
    };
    check(name, &manifest.pod, loaded)?;
    let mut admitted = loaded
        .objects
        .admission
        .admit(manifest)
        .map_err(PreemptorError::Admission)?;
    created.extend(admitted.take_claims());
    for note in admitted.notes {
        loaded.objects.assumptions.add(note, || {
            format!("Pod {}", admitted.pod.metadata.full_name())
        });
    }
    for object in created {
        let title = object.to_string();
        loaded.add(object).map_err(|invalid| {
            let InvalidField { field, message } = invalid;
            refused(&format!("{title}: {field}: {message}"))
        })?;
    }
    Ok(admitted.pod)
}

/// A document as a value. Its mistakes as a `T` are errors.
fn whole<T: DeserializeOwned>(document: &Document) -> Result<Value, DocumentError> {
    document.parse::<T>()?;
    document.parse()
}

fn one(document: &Document) -> Result<Value, DocumentError> {
    let list: List = document.parse()?;
    if list.items.len() != 1 {
        let count = list.items.len();
        return Err(document.wrong(format!("holds {count} pods; exactly one is needed")));
    }
    let mut list: Value = document.parse()?;
    Ok(list["items"][0].take())
}

/// Checks the amounts of a manifest, as the loader checks those of a dump.
fn check(name: &str, pod: &wire::Pod, loaded: &mut Loaded) -> Result<(), PreemptorError> {
    let pod_name = pod.metadata.full_name();
    let mut negative = Vec::new();
    for amount in amounts_of_pod(pod) {
        let Amount {
            key,
            quantity,
            wrong,
            ..
        } = amount;
        let text = format!("{pod_name}: {key}: {quantity}");
        match wrong {
            Wrong::Negative => negative.push(format!("{name}: {text} is negative")),
            Wrong::Absurd => {
                let assumption = "amounts beyond 2^53 are used exactly as written";
                loaded.objects.assumptions.add(assumption, || text);
            }
        }
    }
    if negative.is_empty() {
        Ok(())
    } else {
        Err(PreemptorError::Amounts(negative.join("\n")))
    }
}
