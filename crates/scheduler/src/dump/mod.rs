//! The cluster of `explain` and `plan`, built from files or from a live cluster.

use evictd_document::{
    Assumptions, InvalidField, Loaded as LoadedObjects, Loader, ObjectsError, Receiver,
};
use evictd_manifests::Object;
use evictd_placement::{Cluster, InvalidObject, SpreadSource};
use evictd_pod::compatibility::{Compatibility, Gate};
use evictd_pod::wire;
use evictd_preemption::Budget;
use evictd_scheduling::PodGroups;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;
use std::io::Read;

/// How long devices may take to be bound, where no profile says so.
const BINDING_TIMEOUT: SignedDuration = SignedDuration::from_mins(10);

pub use evictd_document::Source;

/// Why a dump cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// It cannot be read, or its content is invalid.
    #[error(transparent)]
    Objects(#[from] ObjectsError),
    /// None of its objects is a node.
    #[error("{name}: holds no Node; needed is the output of `evictd-scheduler dump`{ignored}")]
    NoNodes {
        /// The files.
        name: String,
        /// The number of objects by kind.
        ignored: String,
    },
}

/// Identifies the pod to schedule in the dump.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs, reason = "as in the metadata of a pod")]
pub struct PodKey {
    pub namespace: String,
    pub name: String,
    /// Empty if unknown.
    pub uid: String,
}

impl PodKey {
    fn matches(&self, metadata: &wire::Metadata) -> bool {
        let same_name =
            metadata.namespace_or_default() == self.namespace && metadata.name == self.name;
        let same_uid = !self.uid.is_empty() && *metadata.uid == *self.uid;
        same_name || same_uid
    }
}

/// Which pods without a node reserve room on the node that they are nominated to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nominations {
    /// All of them, as in kube-scheduler 1.36.
    All,
    /// Those of pods that the scheduler has tried. In a file only the condition `PodScheduled=False` shows that such a pod
    /// was in its queue (S4-002).
    OfTriedPods,
}

/// The content of a dump.
#[derive(Debug)]
pub struct Loaded {
    /// Nodes, their pods, and storage.
    pub cluster: Cluster,
    /// Disruption budgets.
    pub budgets: Vec<Budget>,
    /// The pod to schedule, if the dump contains it.
    pub preemptor: Option<wire::Pod>,
    /// The groups of the pods. The pod to schedule is not in them yet.
    pub groups: PodGroups,
    /// The objects that admission needs for a pod that no API server has stored, and the assumptions.
    pub objects: LoadedObjects,
}

impl Loaded {
    /// Adds an object that comes with the pod to schedule.
    pub(crate) fn put(&mut self, object: Object) -> Result<(), InvalidField> {
        match object {
            Object::PodDisruptionBudget(budget) => {
                self.budgets.push(compiled(&mut self.cluster, &budget)?);
                Ok(())
            }
            Object::PodGroup(group) => {
                self.cluster.put_pod_group(&group);
                self.groups.add_group(&group);
                Ok(())
            }
            Object::CompositePodGroup(group) => {
                self.groups.add_composite_group(&group);
                Ok(())
            }
            object => add(&mut self.cluster, object),
        }
    }
}

/// Reads a cluster. The pod with the key `preemptor` is not added to the cluster but returned, if the dump contains it.
///
/// # Errors
/// The mistakes of all sources together, at most a hundred of each.
pub fn load<R: Read>(
    sources: impl IntoIterator<Item = Source<R>>,
    preemptor: Option<&PodKey>,
    nominations: Nominations,
    compatibility: Compatibility,
) -> Result<Loaded, DumpError> {
    let mut builder = Builder::new(preemptor, nominations, compatibility);
    let mut names = Vec::new();
    let mut loader = Loader::of_cluster(&mut builder, false);
    for source in sources {
        names.push(source.name.clone());
        loader.read(source).map_err(ObjectsError::from)?;
    }
    let read = loader.finish()?;
    builder.finish(read, &names.join(", "))
}

/// A cluster of objects that were read before.
pub(crate) struct Built {
    pub(crate) cluster: Cluster,
    pub(crate) budgets: Vec<Budget>,
    /// Objects that cannot be used, with the reasons.
    pub(crate) left_out: Vec<String>,
}

/// Builds a cluster from objects.
pub(crate) fn built(
    objects: impl IntoIterator<Item = Object>,
    compatibility: Compatibility,
) -> Built {
    let mut builder = Builder::new(None, Nominations::All, compatibility);
    let mut left_out = Vec::new();
    // The cluster keeps a pod on the node that it has when it is added.
    let (nodes, others): (Vec<_>, Vec<_>) = objects
        .into_iter()
        .partition(|object| matches!(object, Object::Node(_)));
    for object in nodes.into_iter().chain(others) {
        let title = object.to_string();
        if let Err(InvalidField { field, message }) = builder.take(object) {
            left_out.push(format!("{title}: {field}: {message}"));
        }
    }
    Built {
        cluster: builder.cluster,
        budgets: builder.budgets,
        left_out,
    }
}

/// Adds objects to a cluster.
struct Builder<'p> {
    preemptor: Option<&'p PodKey>,
    nominations: Nominations,
    found: Option<wire::Pod>,
    cluster: Cluster,
    budgets: Vec<Budget>,
    groups: PodGroups,
    /// The pods whose nominations were left out.
    not_nominated: Vec<String>,
    /// The names of budgets that cover no pod.
    void_budgets: Vec<String>,
    /// The names of taint rules that do not count.
    void_rules: Vec<String>,
}

impl<'p> Builder<'p> {
    fn new(
        preemptor: Option<&'p PodKey>,
        nominations: Nominations,
        compatibility: Compatibility,
    ) -> Self {
        let mut cluster = Cluster::of(compatibility);
        let before = Timestamp::now().checked_sub(BINDING_TIMEOUT);
        let devices = cluster.devices_mut();
        devices.set_late_before(before.unwrap_or(Timestamp::MIN));
        Self {
            preemptor,
            nominations,
            found: None,
            cluster,
            budgets: Vec::new(),
            groups: PodGroups::default(),
            not_nominated: Vec::new(),
            void_budgets: Vec::new(),
            void_rules: Vec::new(),
        }
    }

    fn finish(self, loaded: LoadedObjects, name: &str) -> Result<Loaded, DumpError> {
        let Self {
            mut cluster,
            budgets,
            found,
            groups,
            not_nominated,
            void_budgets,
            void_rules,
            ..
        } = self;
        let mut objects = loaded;
        let ignored = std::mem::take(&mut objects.ignored);
        let assumptions = &mut objects.assumptions;
        if cluster.nodes().is_empty() {
            let (name, ignored) = (name.to_owned(), counts_of(&ignored));
            return Err(DumpError::NoNodes { name, ignored });
        }
        assumptions.ignore(&ignored, "");
        for budget in void_budgets {
            let assumption =
                "budgets with an empty spec.selector cover no pod where preemption asks";
            assumptions.add(assumption, || budget);
        }
        for rule in void_rules {
            let assumption = "DeviceTaintRules do not count before Kubernetes 1.37 (--emulated-version, --feature-gates DRADeviceTaintRules=true)";
            assumptions.add(assumption, || rule);
        }
        // Tables that have grown by doubling may be half empty.
        cluster.shrink();
        for (node, pod) in cluster.orphaned_pods() {
            let name = || format!("Pod {} (spec.nodeName {node})", cluster.full_name(pod));
            assumptions.add("pods on nodes that are not in the input are left out", name);
        }
        for pod in not_nominated {
            let assumption = "nominations without PodScheduled=False are not the scheduler's, and reserve nothing";
            assumptions.add(assumption, || format!("Pod {pod}"));
        }
        Ok(Loaded {
            cluster,
            budgets,
            preemptor: found,
            groups,
            objects,
        })
    }

    fn is_preemptor(&self, pod: &wire::Pod) -> bool {
        self.preemptor.is_some_and(|key| key.matches(&pod.metadata))
    }

    fn add_pod(&mut self, mut pod: wire::Pod) -> Result<(), InvalidField> {
        self.groups.add_pod(&pod);
        let is_tried = self.nominations == Nominations::All || pod.was_tried();
        if !is_tried && pod.spec.node_name.is_empty() {
            let nominated = std::mem::take(&mut pod.status.nominated_node_name);
            if !nominated.is_empty() {
                self.not_nominated.push(pod.metadata.full_name());
            }
        }
        self.cluster.add_pod(pod).map_err(invalid)
    }

    fn add_budget(&mut self, budget: &wire::PodDisruptionBudget) -> Result<(), InvalidField> {
        let compiled = compiled(&mut self.cluster, budget)?;
        if compiled.selects_nothing() {
            let name = budget.metadata.full_name();
            self.void_budgets
                .push(format!("PodDisruptionBudget {name}"));
        }
        self.budgets.push(compiled);
        Ok(())
    }
}

impl Receiver for Builder<'_> {
    fn places_pods_alone(&self) -> bool {
        true
    }

    fn take(&mut self, object: Object) -> Result<(), InvalidField> {
        match object {
            Object::Pod(manifest) if self.is_preemptor(&manifest.pod) => {
                self.found = Some(manifest.pod);
                Ok(())
            }
            Object::Pod(manifest) => self.add_pod(manifest.pod),
            Object::PodDisruptionBudget(budget) => self.add_budget(&budget),
            Object::PodGroup(group) => {
                self.cluster.put_pod_group(&group);
                self.groups.add_group(&group);
                Ok(())
            }
            Object::CompositePodGroup(group) => {
                self.groups.add_composite_group(&group);
                Ok(())
            }
            object => {
                let gate = Gate::DRADeviceTaintRules;
                if let Object::DeviceTaintRule(_) = object
                    && !self.cluster.compatibility().is_on(gate)
                {
                    self.void_rules.push(object.to_string());
                }
                add(&mut self.cluster, object)
            }
        }
    }
}

/// Adds an object to a cluster. Objects that only other parts need change nothing here.
fn add(cluster: &mut Cluster, object: Object) -> Result<(), InvalidField> {
    match object {
        Object::Pod(manifest) => cluster.add_pod(manifest.pod).map_err(invalid)?,
        Object::Node(node) => {
            cluster.add_node(&node);
        }
        Object::Namespace(namespace) => cluster.add_namespace(&namespace),
        Object::PersistentVolumeClaim(claim) => cluster.add_claim(&claim).map_err(invalid)?,
        Object::PersistentVolume(volume) => cluster.add_volume(&volume).map_err(invalid)?,
        Object::StorageClass(class) => cluster.add_storage_class(&class).map_err(invalid)?,
        Object::CsiNode(node) => cluster.add_csi_node(&node),
        Object::VolumeAttachment(attachment) => cluster.add_volume_attachment(&attachment),
        Object::CsiDriver(driver) => cluster.add_csi_driver(&driver),
        Object::CsiStorageCapacity(capacity) => {
            cluster.add_storage_capacity(&capacity).map_err(invalid)?;
        }
        Object::Service(service) => cluster.add_service(&service),
        Object::ReplicationController(controller) => {
            cluster.add_replication_controller(&controller);
        }
        Object::ReplicaSet(set) => {
            let added = cluster.add_workload(SpreadSource::ReplicaSet, &set);
            added.map_err(invalid)?;
        }
        Object::StatefulSet(set) => {
            let added = cluster.add_workload(SpreadSource::StatefulSet, &set);
            added.map_err(invalid)?;
        }
        Object::ResourceClaim(claim) => cluster.devices_mut().put_claim(*claim),
        Object::ResourceSlice(slice) => cluster.devices_mut().put_slice(*slice),
        Object::DeviceClass(class) => cluster.devices_mut().put_class(*class),
        Object::DeviceTaintRule(rule) => cluster.put_device_taint_rule(*rule),
        // Budgets and groups are read above, and admission reads the others.
        Object::PodDisruptionBudget(_)
        | Object::PriorityClass(_)
        | Object::RuntimeClass(_)
        | Object::LimitRange(_)
        | Object::ResourceClaimTemplate(_)
        | Object::PodGroup(_)
        | Object::CompositePodGroup(_) => {}
    }
    Ok(())
}

fn compiled(
    cluster: &mut Cluster,
    budget: &wire::PodDisruptionBudget,
) -> Result<Budget, InvalidField> {
    Budget::new(cluster, budget).map_err(|error| InvalidField {
        field: "spec.selector".to_owned(),
        message: error.to_string(),
    })
}

fn invalid(error: InvalidObject) -> InvalidField {
    InvalidField {
        field: error.field,
        message: error.error.to_string(),
    }
}

/// The clauses about the objects of manifests without a pod: their number by kind, and workloads whose pods are not known.
pub(crate) fn clauses_of_others(
    ignored: &BTreeMap<String, usize>,
    unknown: &Assumptions,
) -> String {
    let unknown = unknown.lines();
    let unknown: String = unknown.iter().flat_map(|line| ["; ", line]).collect();
    counts_of(ignored) + &unknown
}

fn counts_of(ignored: &BTreeMap<String, usize>) -> String {
    let kinds = ignored.iter();
    let kinds: Vec<String> = kinds
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    if kinds.is_empty() {
        String::new()
    } else {
        format!("; it holds {}", kinds.join(", "))
    }
}
