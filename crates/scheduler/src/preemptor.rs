//! The pod to schedule, as the API server would have stored it.

use crate::dump::{Loaded, Wanted};
use evictd_document::{Amount, Document, DocumentError, InvalidField, Wrong, amounts_of_pod};
use evictd_manifests::{
    Expansion, Object, PodManifest, Refusal, SpreadOwner, expand_one, is_workload,
};
use evictd_pod::wire;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use wire::null_is_default;

/// Where the pod comes from.
#[derive(Debug)]
pub(crate) enum Asked {
    /// From a manifest.
    Manifest {
        /// The manifest's name in messages.
        name: String,
        /// The pod, or a workload whose pod is meant.
        object: Box<Value>,
    },
    /// A pending pod in the cluster.
    Waiting(Wanted),
}

/// Why there is no pod to schedule.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PreemptorError {
    #[error(transparent)]
    Document(#[from] DocumentError),
    #[error("--pod {0}: is not a file, and no pod of that name is in the input")]
    NotThere(String),
    #[error("--pod {pod}: is already on node {node}")]
    Placed { pod: String, node: String },
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

impl Asked {
    /// The pod of a manifest: a Pod, a list of one, or a workload's template.
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

    /// A pod of the cluster by `namespace/name`.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        let (namespace, name) = name.split_once('/')?;
        let right = |part: &str| {
            let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
            !part.is_empty() && part.bytes().all(known)
        };
        (right(namespace) && right(name)).then(|| {
            Self::Waiting(Wanted {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                uid: String::new(),
            })
        })
    }

    /// How it is recognised in the dump.
    pub(crate) fn wanted(&self) -> Wanted {
        match self {
            Self::Waiting(wanted) => wanted.clone(),
            Self::Manifest { object, .. } => {
                let metadata = &object["metadata"];
                let text = |key: &str| metadata[key].as_str().unwrap_or_default().to_owned();
                let namespace = match text("namespace") {
                    namespace if namespace.is_empty() => "default".to_owned(),
                    namespace => namespace,
                };
                Wanted {
                    namespace,
                    name: text("name"),
                    uid: text("uid"),
                }
            }
        }
    }

    /// The pod with the fields that the API server would have set, from the objects of the cluster.
    pub(crate) fn pod(self, loaded: &mut Loaded) -> Result<wire::Pod, PreemptorError> {
        match (self, loaded.wanted.take()) {
            (Self::Manifest { name, object }, there) => {
                let pod = admitted(&name, &object, loaded)?;
                if there.is_some() {
                    let assumption = "the pod of --pod is also in the input, where it is ignored";
                    loaded.objects.doubts.add(assumption, || full_name(&pod));
                }
                Ok(pod)
            }
            (Self::Waiting(wanted), None) => {
                let name = format!("{}/{}", wanted.namespace, wanted.name);
                Err(PreemptorError::NotThere(name))
            }
            (Self::Waiting(_), Some(pod)) if pod.spec.node_name.is_empty() => Ok(pod),
            (Self::Waiting(_), Some(pod)) => Err(PreemptorError::Placed {
                pod: full_name(&pod),
                node: pod.spec.node_name.clone(),
            }),
        }
    }
}

/// The pod of a manifest after admission. Objects that come into being with it join the cluster.
fn admitted(name: &str, object: &Value, loaded: &mut Loaded) -> Result<wire::Pod, PreemptorError> {
    let expansion = if is_workload(object) {
        let expansion = expand_one(object, &loaded.objects.admission);
        expansion.map_err(|error| PreemptorError::Refused(format!("{name}: {error}")))?
    } else {
        let pod = PodManifest::from_value(object);
        let pod = pod.map_err(|error| PreemptorError::Refused(format!("{name}: {error}")))?;
        Expansion {
            pods: vec![pod],
            ..Expansion::default()
        }
    };
    let Expansion {
        pods,
        volume_claims,
        owner,
        ..
    } = expansion;
    let claims = volume_claims.into_iter().map(Box::new);
    let made: Vec<Object> = owner
        .map(SpreadOwner::into_object)
        .into_iter()
        .chain(claims.map(Object::PersistentVolumeClaim))
        .collect();
    let manifest = pods.into_iter().next().unwrap_or_default();
    check(name, &manifest.pod, loaded)?;
    let admitted = loaded
        .objects
        .admission
        .admit(manifest)
        .map_err(PreemptorError::Admission)?;
    let pod = admitted.pod;
    for note in admitted.notes {
        loaded
            .objects
            .doubts
            .add(note, || format!("Pod {}", full_name(&pod)));
    }
    let volumes = admitted.volume_claims.into_iter().map(Box::new);
    let devices = admitted.resource_claims.into_iter().map(Box::new);
    let claims = volumes
        .map(Object::PersistentVolumeClaim)
        .chain(devices.map(Object::ResourceClaim));
    for object in made.into_iter().chain(claims) {
        let title = object.to_string();
        loaded.add(object).map_err(|invalid| {
            let InvalidField { field, message } = invalid;
            PreemptorError::Refused(format!("{name}: {title}: {field}: {message}"))
        })?;
    }
    Ok(pod)
}

/// A document as a value, after its mistakes as a `T` were looked for.
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

/// Checks a manifest as objects of a dump are checked.
fn check(name: &str, pod: &wire::Pod, loaded: &mut Loaded) -> Result<(), PreemptorError> {
    let pod_name = full_name(pod);
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
                loaded.objects.doubts.add(assumption, || text);
            }
        }
    }
    if negative.is_empty() {
        Ok(())
    } else {
        Err(PreemptorError::Amounts(negative.join("\n")))
    }
}

fn namespace(pod: &wire::Pod) -> &str {
    match pod.metadata.namespace.as_str() {
        "" => "default",
        namespace => namespace,
    }
}

pub(crate) fn full_name(pod: &wire::Pod) -> String {
    format!("{}/{}", namespace(pod), pod.metadata.name)
}
