//! Workloads as the pods that their controllers make.

mod daemon_set;
mod existing;
mod kind;

pub use existing::Existing;

use crate::admission::Admission;
use crate::manifest::{ClaimTemplate, PodManifest};
use crate::object::Object;
use evictd_pod::wire::{self, Metadata, OwnerReference, Selector, TextMap, null_is_default};
use kind::Kind;
use serde::Deserialize;
use serde_json::Value;

/// The most pods of one workload.
const MOST_PODS: u64 = 100_000;

/// The pods of a workload, with the objects that its controller makes beside them.
#[derive(Debug, Clone, Default)]
pub struct Expansion {
    /// The pods that are still to be made; those that exist already count as made.
    pub pods: Vec<PodManifest>,
    /// Claims of a `StatefulSet`'s pods.
    pub volume_claims: Vec<wire::PersistentVolumeClaim>,
    /// The object by which the default spread constraints find the pods.
    pub owner: Option<SpreadOwner>,
    /// Why there are fewer pods than replicas, one line each.
    pub notes: Vec<String>,
}

impl Expansion {
    /// Takes out the objects that are created beside the pods.
    pub fn take_objects(&mut self) -> Vec<Object> {
        let claims = self.volume_claims.drain(..).map(Box::new);
        let owner = self.owner.take().map(SpreadOwner::into_object);
        owner
            .into_iter()
            .chain(claims.map(Object::PersistentVolumeClaim))
            .collect()
    }
}

/// An owner of pods that the default spread constraints look for.
#[derive(Debug, Clone)]
pub enum SpreadOwner {
    /// An `apps/v1` `ReplicaSet`, also that of a Deployment.
    ReplicaSet(wire::Workload),
    /// An `apps/v1` `StatefulSet`.
    StatefulSet(wire::Workload),
    /// A v1 `ReplicationController`, whose selector is that of a Service.
    ReplicationController(wire::Service),
}

impl SpreadOwner {
    /// The owner as an object.
    fn into_object(self) -> Object {
        match self {
            Self::ReplicaSet(workload) => Object::ReplicaSet(Box::new(workload)),
            Self::StatefulSet(workload) => Object::StatefulSet(Box::new(workload)),
            Self::ReplicationController(controller) => {
                Object::ReplicationController(Box::new(controller))
            }
        }
    }
}

/// Why no pods can be made.
#[derive(Debug, thiserror::Error)]
pub enum ExpansionError {
    /// A field has a wrong type.
    #[error(transparent)]
    Malformed(#[from] serde_json::Error),
    /// It has no pod template.
    #[error("{0:?}: a Pod or a workload with a pod template is needed")]
    NoTemplate(String),
    /// It asks for too many.
    #[error("spec.{field}: {count}: at most {MOST_PODS} are simulated")]
    TooMany {
        /// `replicas` or `parallelism`
        field: &'static str,
        /// The number that it asks for.
        count: u64,
    },
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Workload {
    #[serde(deserialize_with = "null_is_default")]
    kind: String,
    #[serde(rename = "apiVersion", deserialize_with = "null_is_default")]
    api_version: String,
    #[serde(deserialize_with = "null_is_default")]
    metadata: Metadata,
    #[serde(deserialize_with = "null_is_default")]
    spec: Spec,
    #[serde(deserialize_with = "null_is_default")]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    replicas: Option<u64>,
    parallelism: Option<u64>,
    completions: Option<u64>,
    #[serde(deserialize_with = "null_is_default")]
    completion_mode: String,
    #[serde(deserialize_with = "null_is_default")]
    suspend: bool,
    /// A `ReplicationController` has a map here, the others a selector.
    selector: Option<Value>,
    template: Option<Value>,
    job_template: Option<JobTemplate>,
    #[serde(deserialize_with = "null_is_default")]
    volume_claim_templates: Vec<ClaimTemplate>,
    #[serde(deserialize_with = "null_is_default")]
    ordinals: Ordinals,
}

#[derive(Deserialize)]
struct JobTemplate {
    spec: Box<Spec>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Ordinals {
    #[serde(deserialize_with = "null_is_default")]
    start: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    #[serde(deserialize_with = "null_is_default")]
    succeeded: u64,
}

/// Whether pods can be made of an object: it has a pod template.
pub fn is_workload(object: &Value) -> bool {
    let spec = &object["spec"];
    let templates = [&spec["template"], &spec["jobTemplate"]["spec"]["template"]];
    templates
        .iter()
        .any(|template| template["spec"].is_object())
}

/// One pod of a workload under the workload's name, with its claims, before admission: the pod of the question whether its
/// pods fit. How many there are, and whether some exist, does not matter.
///
/// # Errors
/// If it has no pod template, or a field has a wrong type.
pub fn expand_one(object: &Value, admission: &Admission) -> Result<Expansion, ExpansionError> {
    let existing = Existing::default();
    let maker = Maker::new(object, &existing, admission)?;
    let mut expansion = Expansion {
        owner: maker.spread_owner()?,
        ..Expansion::default()
    };
    let mut pod = maker.pod(maker.workload.metadata.name.clone());
    match maker.kind {
        Kind::DaemonSet => daemon_set::tolerate(&mut pod.pod.spec),
        Kind::StatefulSet => {
            let first = format!("{}-0", maker.workload.metadata.name);
            maker.claim_volumes(&first, &mut pod, &mut expansion);
        }
        _ => {}
    }
    expansion.pods.push(pod);
    Ok(expansion)
}

/// The pods that a workload's controller has still to make, with their claims, before admission.
///
/// # Errors
/// If it has no pod template, a field has a wrong type, or it asks for more than 100 000 pods.
pub fn expand(
    object: &Value,
    existing: &Existing,
    admission: &Admission,
) -> Result<Expansion, ExpansionError> {
    Maker::new(object, existing, admission)?.expand()
}

/// Makes the pods of one workload.
struct Maker<'e> {
    kind: Kind,
    workload: Workload,
    template: PodManifest,
    /// Stands for the template in names and labels, as controllers use one.
    hash: String,
    existing: &'e Existing,
    admission: &'e Admission,
}

impl<'e> Maker<'e> {
    fn new(
        object: &Value,
        existing: &'e Existing,
        admission: &'e Admission,
    ) -> Result<Self, ExpansionError> {
        let mut workload = Workload::deserialize(object)?;
        let kind = Kind::of(&workload.kind, &workload.api_version);
        if let (Kind::CronJob, Some(job)) = (kind, workload.spec.job_template.take()) {
            // A suspended cron job creates no jobs, whatever its template says.
            workload.spec = Spec {
                suspend: workload.spec.suspend || job.spec.suspend,
                ..*job.spec
            };
        }
        let Some(template) = workload.spec.template.take() else {
            return Err(ExpansionError::NoTemplate(workload.kind));
        };
        Ok(Self {
            kind,
            hash: template_hash(&template),
            template: PodManifest::from_value(&template)?,
            workload,
            existing,
            admission,
        })
    }

    fn expand(self) -> Result<Expansion, ExpansionError> {
        let mut expansion = Expansion::default();
        if let Some(owner) = self.existing.owner_of(&self.workload.metadata) {
            let note = format!("{}: its pods are those of {owner}", self.title());
            expansion.notes.push(note);
            return Ok(expansion);
        }
        if self.workload.spec.suspend {
            expansion
                .notes
                .push(format!("{} is suspended", self.title()));
            return Ok(expansion);
        }
        expansion.owner = self.spread_owner()?;
        match self.kind {
            Kind::DaemonSet => self.one_each_node(&mut expansion),
            Kind::StatefulSet => self.ordinals(&mut expansion)?,
            _ => self.replicas(&mut expansion)?,
        }
        Ok(expansion)
    }

    /// `Deployment shop/web`
    fn title(&self) -> String {
        let Workload { kind, metadata, .. } = &self.workload;
        format!("{kind} {}", metadata.full_name())
    }

    fn replicas(&self, expansion: &mut Expansion) -> Result<(), ExpansionError> {
        let wanted = self.wanted()?;
        let running = self.running();
        if running > 0 {
            let note = format!("{}: {running} of {wanted} pods exist already", self.title());
            expansion.notes.push(note);
        }
        let missing = usize::try_from(wanted.saturating_sub(running)).unwrap_or(usize::MAX);
        let namespace = self.workload.metadata.namespace_or_default();
        let name = |index| format!("{}-{index}", self.workload.metadata.name);
        let free = (0_u64..)
            .map(|index| (index, name(index)))
            .filter(|(_, name)| !self.existing.has_pod(namespace, name));
        for (index, name) in free.take(missing) {
            let mut pod = self.pod(name);
            if self.kind.is_job() && self.workload.spec.completion_mode == "Indexed" {
                let key = "batch.kubernetes.io/job-completion-index";
                let metadata = &mut pod.pod.metadata;
                metadata.annotations.insert(key, index.to_string());
                metadata.labels.insert(key, index.to_string());
            }
            expansion.pods.push(pod);
        }
        Ok(())
    }

    /// Pods of a `StatefulSet` have their names and claims for ever.
    fn ordinals(&self, expansion: &mut Expansion) -> Result<(), ExpansionError> {
        let wanted = self.wanted()?;
        let Workload { metadata, spec, .. } = &self.workload;
        let namespace = metadata.namespace_or_default();
        let first = spec.ordinals.start;
        for ordinal in first..first.saturating_add(wanted) {
            let name = format!("{}-{ordinal}", metadata.name);
            if self.existing.has_pod(namespace, &name) {
                continue;
            }
            let mut pod = self.pod(name.clone());
            self.claim_volumes(&name, &mut pod, expansion);
            let labels = &mut pod.pod.metadata.labels;
            labels.insert("statefulset.kubernetes.io/pod-name", &name);
            labels.insert("apps.kubernetes.io/pod-index", ordinal.to_string());
            expansion.pods.push(pod);
        }
        let exist = usize::try_from(wanted)
            .unwrap_or(usize::MAX)
            .saturating_sub(expansion.pods.len());
        if exist > 0 {
            let note = format!("{}: {exist} of {wanted} pods exist already", self.title());
            expansion.notes.push(note);
        }
        Ok(())
    }

    /// Gives the pod of a `StatefulSet` its claims.
    fn claim_volumes(&self, name: &str, pod: &mut PodManifest, expansion: &mut Expansion) {
        let Workload { metadata, spec, .. } = &self.workload;
        let namespace = metadata.namespace_or_default();
        for template in &spec.volume_claim_templates {
            let claim = format!("{}-{name}", template.metadata.name);
            let claim = self.admission.volume_claim(template, namespace, claim);
            expansion.volume_claims.push(claim);
        }
        mount(&mut pod.pod.spec, &spec.volume_claim_templates, name);
    }

    /// How many pods are to run at a time.
    fn wanted(&self) -> Result<u64, ExpansionError> {
        let spec = &self.workload.spec;
        let (field, count) = if self.kind.is_job() {
            ("parallelism", self.wanted_of_job())
        } else {
            ("replicas", spec.replicas.unwrap_or(1))
        };
        if count > MOST_PODS {
            return Err(ExpansionError::TooMany { field, count });
        }
        Ok(count)
    }

    /// No more pods run than completions are missing.
    fn wanted_of_job(&self) -> u64 {
        let spec = &self.workload.spec;
        let parallelism = spec.parallelism.unwrap_or(1);
        let missing = |completions: u64| completions.saturating_sub(self.workload.status.succeeded);
        spec.completions.map_or(parallelism, |completions| {
            parallelism.min(missing(completions))
        })
    }

    fn running(&self) -> u64 {
        let metadata = &self.workload.metadata;
        let namespace = metadata.namespace_or_default();
        let pods = self
            .existing
            .running(namespace, &self.workload.kind, &metadata.name);
        u64::try_from(pods.len()).unwrap_or(u64::MAX)
    }

    /// A pod of the template with the labels and the owner that its controller sets.
    fn pod(&self, name: String) -> PodManifest {
        let Workload { metadata, kind, .. } = &self.workload;
        let mut made = self.template.clone();
        let labels = &mut made.pod.metadata.labels;
        let (mut owner, mut api_version) = (metadata.name.clone(), &*self.workload.api_version);
        let mut owner_kind = kind.as_str();
        match self.kind {
            Kind::Deployment => {
                labels.insert(POD_TEMPLATE_HASH, &self.hash);
                // Between a Deployment and its pods there is a ReplicaSet.
                owner = self.replica_set_name();
                (owner_kind, api_version) = ("ReplicaSet", "apps/v1");
            }
            Kind::Rollout => labels.insert("rollouts-pod-template-hash", &self.hash),
            Kind::StatefulSet => {
                let revision = format!("{}-{}", metadata.name, self.hash);
                labels.insert(REVISION, revision);
            }
            Kind::DaemonSet => labels.insert(REVISION, &self.hash),
            Kind::Job | Kind::CronJob => {
                labels.insert("batch.kubernetes.io/job-name", &metadata.name);
                // The old name of the label is still set for selectors that use it.
                labels.insert("job-name", &metadata.name);
                owner_kind = "Job";
            }
            Kind::ReplicaSet | Kind::ReplicationController | Kind::Other => {}
        }
        let owner = OwnerReference {
            api_version: api_version.to_owned(),
            kind: owner_kind.to_owned(),
            name: owner,
            controller: true,
            ..OwnerReference::default()
        };
        made.pod.metadata.name = name;
        made.pod.metadata.namespace = metadata.namespace_or_default().into();
        made.pod.metadata.owner_references = vec![owner].into();
        made
    }

    fn replica_set_name(&self) -> String {
        format!("{}-{}", self.workload.metadata.name, self.hash)
    }

    fn spread_owner(&self) -> Result<Option<SpreadOwner>, ExpansionError> {
        let Workload { metadata, spec, .. } = &self.workload;
        let Some(selector) = &spec.selector else {
            return Ok(None);
        };
        let owner = |name: String, selector| wire::Workload {
            metadata: Metadata {
                name,
                namespace: metadata.namespace_or_default().into(),
                ..Metadata::default()
            },
            spec: wire::WorkloadSpec { selector },
        };
        Ok(match self.kind {
            Kind::Deployment => {
                let mut selector = Selector::deserialize(selector)?;
                // Pods of earlier revisions do not count as those of this one.
                selector.match_labels.insert(POD_TEMPLATE_HASH, &self.hash);
                let owner = owner(self.replica_set_name(), Some(selector));
                Some(SpreadOwner::ReplicaSet(owner))
            }
            Kind::ReplicaSet => {
                let selector = Selector::deserialize(selector)?;
                let owner = owner(metadata.name.clone(), Some(selector));
                Some(SpreadOwner::ReplicaSet(owner))
            }
            Kind::StatefulSet => {
                let selector = Selector::deserialize(selector)?;
                let owner = owner(metadata.name.clone(), Some(selector));
                Some(SpreadOwner::StatefulSet(owner))
            }
            Kind::ReplicationController => {
                let selector = TextMap::deserialize(selector)?;
                Some(SpreadOwner::ReplicationController(wire::Service {
                    metadata: owner(metadata.name.clone(), None).metadata,
                    spec: wire::ServiceSpec {
                        selector: Some(selector),
                    },
                }))
            }
            _ => None,
        })
    }
}

const POD_TEMPLATE_HASH: &str = "pod-template-hash";
const REVISION: &str = "controller-revision-hash";

/// Gives a pod the claims of its `StatefulSet` as volumes. A volume of the template with the same name is replaced.
fn mount(spec: &mut wire::PodSpec, templates: &[ClaimTemplate], pod: &str) {
    for template in templates {
        let name = &template.metadata.name;
        spec.volumes.retain(|volume| volume.name != *name);
        spec.volumes.push(wire::Volume {
            name: name.clone(),
            persistent_volume_claim: Some(wire::ClaimReference {
                claim_name: format!("{name}-{pod}"),
            }),
            ..wire::Volume::default()
        });
    }
}

/// A short text that differs where templates differ. Controllers hash a form of the template that only they have, so that
/// theirs is another text.
fn template_hash(template: &Value) -> String {
    // The letters and digits that Kubernetes uses, in which no words can be read.
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    const OFFSET: u32 = 0x811c_9dc5;
    const PRIME: u32 = 0x0100_0193;
    let text = template.to_string();
    let hash = text.bytes().fold(OFFSET, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(PRIME)
    });
    let letter = |digit: u8| char::from(ALPHABET[usize::from(digit - b'0')]);
    hash.to_string().bytes().map(letter).collect()
}

#[cfg(test)]
mod tests;
