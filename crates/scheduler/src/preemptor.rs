//! The pod to schedule, as the API server would have stored it.

use crate::dump::{Loaded, Wanted};
use evictd_document::{Amount, Document, DocumentError, Wrong, amounts_of_pod};
use evictd_pod::{
    pod::{SYSTEM_PRIORITY_CLASSES, system_priority},
    wire,
};
use serde::{Deserialize, de::IgnoredAny};
use wire::null_is_default;

/// Where the pod comes from.
#[derive(Debug)]
pub(crate) enum Asked {
    /// From a manifest.
    Manifest {
        /// The manifest's name in messages.
        name: String,
        /// The pod.
        pod: Box<wire::Pod>,
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
    #[error("{pod}: spec.priorityClassName: {class:?} is not in the input; known are {known}")]
    Class {
        pod: String,
        class: String,
        known: String,
    },
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

/// A pod template of a workload.
#[derive(Default, Deserialize)]
#[serde(default)]
struct PodTemplate {
    #[serde(deserialize_with = "null_is_default")]
    metadata: wire::Metadata,
    #[serde(deserialize_with = "null_is_default")]
    spec: wire::PodSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Workload {
    #[serde(deserialize_with = "null_is_default")]
    metadata: wire::Metadata,
    #[serde(deserialize_with = "null_is_default")]
    spec: WorkloadSpec,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WorkloadSpec {
    template: Option<PodTemplate>,
    job_template: Option<Box<Workload>>,
}

impl Workload {
    /// The pod of the template, under the workload's name, because the pod's own is not known before it exists.
    fn pod(self) -> Option<wire::Pod> {
        let template = match (self.spec.template, self.spec.job_template) {
            (Some(template), _) => template,
            (None, Some(job)) => job.spec.template?,
            (None, None) => return None,
        };
        let wire::Metadata {
            name, namespace, ..
        } = self.metadata;
        Some(wire::Pod {
            metadata: wire::Metadata {
                name,
                namespace,
                ..template.metadata
            },
            spec: template.spec.into(),
            ..wire::Pod::default()
        })
    }
}

impl Asked {
    /// The pod of a manifest: a Pod, a list of one, or a workload's template.
    pub(crate) fn of_manifest(document: &Document) -> Result<Self, PreemptorError> {
        let outline: Outline = document.parse()?;
        let needed = "a Pod, a list with one, or a workload with a pod template is needed";
        let pod = match outline.kind.as_str() {
            "Pod" => document.parse()?,
            "List" | "PodList" => one(document)?,
            "" if outline.items.is_some() => one(document)?,
            "" => {
                let what = format!("is not a Kubernetes object, because it has no kind; {needed}");
                return Err(document.wrong(what).into());
            }
            kind => document.parse::<Workload>()?.pod().ok_or_else(|| {
                document.wrong(format!("is a {kind} without spec.template; {needed}"))
            })?,
        };
        Ok(Self::Manifest {
            name: document.name().to_owned(),
            pod: Box::new(pod),
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
            Self::Manifest { pod, .. } => Wanted {
                namespace: namespace(pod).to_owned(),
                name: pod.metadata.name.clone(),
                uid: pod.metadata.uid.to_string(),
            },
        }
    }

    /// The pod with the fields that the API server would have set, from the objects of the cluster.
    pub(crate) fn pod(self, loaded: &mut Loaded) -> Result<wire::Pod, PreemptorError> {
        let there = loaded.wanted.take();
        let mut pod = match (self, there) {
            (Self::Manifest { name, pod }, there) => {
                check(&name, &pod, loaded)?;
                if there.is_some() {
                    let assumption = "the pod of --pod is also in the input, where it is ignored";
                    loaded.doubts.add(assumption, || full_name(&pod));
                }
                *pod
            }
            (Self::Waiting(wanted), None) => {
                let name = format!("{}/{}", wanted.namespace, wanted.name);
                return Err(PreemptorError::NotThere(name));
            }
            (Self::Waiting(_), Some(pod)) if pod.spec.node_name.is_empty() => pod,
            (Self::Waiting(_), Some(pod)) => {
                return Err(PreemptorError::Placed {
                    pod: full_name(&pod),
                    node: pod.spec.node_name.clone(),
                });
            }
        };
        evictd_pod::defaults::complete(&mut pod);
        resolve_class(&mut pod, &loaded.classes)?;
        Ok(pod)
    }
}

fn one(document: &Document) -> Result<wire::Pod, DocumentError> {
    let list: List = document.parse()?;
    let [pod] = <[wire::Pod; 1]>::try_from(list.items).map_err(|pods| {
        let count = pods.len();
        document.wrong(format!("holds {count} pods; exactly one is needed"))
    })?;
    Ok(pod)
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
                loaded.doubts.add(assumption, || text);
            }
        }
    }
    if negative.is_empty() {
        Ok(())
    } else {
        Err(PreemptorError::Amounts(negative.join("\n")))
    }
}

/// Sets the priority by the pod's class, or the default class.
fn resolve_class(
    pod: &mut wire::Pod,
    classes: &[wire::PriorityClass],
) -> Result<(), PreemptorError> {
    let full_name = full_name(pod);
    let wire::PodSpec {
        priority,
        priority_class_name: name,
        preemption_policy: policy,
        ..
    } = &mut *pod.spec;
    let class = if name.is_empty() {
        // Of several defaults the API server takes the lowest.
        let defaults = classes.iter().filter(|class| class.global_default);
        defaults.min_by_key(|class| class.value)
    } else {
        classes.iter().find(|class| class.metadata.name == *name)
    };
    let built_in = system_priority(name);
    match class {
        Some(class) => {
            priority.get_or_insert(class.value);
            if policy.is_empty() {
                policy.clone_from(&class.preemption_policy);
            }
        }
        None if priority.is_some() || name.is_empty() => {}
        None => {
            let value = built_in.ok_or_else(|| PreemptorError::Class {
                pod: full_name,
                class: name.clone(),
                known: known(classes),
            })?;
            *priority = Some(value);
        }
    }
    Ok(())
}

fn known(classes: &[wire::PriorityClass]) -> String {
    let classes = classes.iter().map(|class| class.metadata.name.as_str());
    let built_in = SYSTEM_PRIORITY_CLASSES.into_iter().map(|(name, _)| name);
    let mut names: Vec<&str> = classes.chain(built_in).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
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
