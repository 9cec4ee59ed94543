//! The cluster that `explain` and `plan` ask about, built from files or from a live cluster.

use evictd_document::{InvalidField, Loaded as LoadedObjects, Loader, ObjectsError, Receiver};
use evictd_manifests::Object;
use evictd_placement::{Cluster, InvalidObject, SpreadSource};
use evictd_pod::wire;
use evictd_preemption::Budget;
use std::collections::BTreeMap;
use std::io::Read;

pub use evictd_document::Source;

/// Why a dump cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// It cannot be read, or its content is wrong.
    #[error(transparent)]
    Objects(#[from] ObjectsError),
    /// None of its objects is a node.
    #[error(
        "{name}: holds no Node; what is needed is what `kubectl get nodes,ns,pods,pdb,pc -A -o json` prints{ignored}"
    )]
    NoNodes {
        /// The files.
        name: String,
        /// Their content.
        ignored: String,
    },
}

/// The pod to schedule, by which it is recognised in the dump.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Unique id; empty if unknown.
    pub uid: String,
}

impl Wanted {
    fn is(&self, metadata: &wire::Metadata) -> bool {
        let same_name =
            metadata.namespace_or_default() == self.namespace && metadata.name == self.name;
        let same_uid = !self.uid.is_empty() && *metadata.uid == *self.uid;
        same_name || same_uid
    }
}

/// The content of a dump.
#[derive(Debug)]
pub struct Loaded {
    /// Nodes and the pods on them.
    pub cluster: Cluster,
    /// Budgets.
    pub budgets: Vec<Budget>,
    /// The pod to schedule, if the dump contains it.
    pub wanted: Option<wire::Pod>,
    /// The knowledge that completes a pod that no API server has stored, and the assumptions that were made.
    pub objects: LoadedObjects,
}

impl Loaded {
    /// Adds an object that comes into being with the pod to schedule, unless it is there already.
    pub(crate) fn add(&mut self, object: Object) -> Result<(), InvalidField> {
        if self.objects.holds(&object) {
            return Ok(());
        }
        add(&mut self.cluster, object)
    }
}

/// Reads a whole cluster. `wanted` is the pod to schedule: it is not added to the cluster; if the dump contains it, it is
/// returned.
///
/// # Errors
/// Every mistake of every source together, at most a hundred of each.
pub fn load<R: Read>(
    sources: impl IntoIterator<Item = Source<R>>,
    wanted: Option<&Wanted>,
) -> Result<Loaded, DumpError> {
    let mut builder = Builder::new(wanted);
    let mut names = Vec::new();
    let mut loader = Loader::of_cluster(&mut builder, false);
    for source in sources {
        names.push(source.name.clone());
        loader.read(source).map_err(ObjectsError::from)?;
    }
    let loaded = loader.finish()?;
    builder.finish(loaded, &names.join(", "))
}

/// Adds objects to a cluster.
struct Builder<'w> {
    wanted: Option<&'w Wanted>,
    found: Option<wire::Pod>,
    cluster: Cluster,
    budgets: Vec<Budget>,
    /// Budgets that cover no pod, by name.
    void_budgets: Vec<String>,
}

impl<'w> Builder<'w> {
    fn new(wanted: Option<&'w Wanted>) -> Self {
        Self {
            wanted,
            found: None,
            cluster: Cluster::new(),
            budgets: Vec::new(),
            void_budgets: Vec::new(),
        }
    }

    fn finish(self, loaded: LoadedObjects, name: &str) -> Result<Loaded, DumpError> {
        let Self {
            mut cluster,
            budgets,
            found,
            void_budgets,
            ..
        } = self;
        let mut objects = loaded;
        let ignored = std::mem::take(&mut objects.ignored);
        let doubts = &mut objects.doubts;
        if cluster.nodes().is_empty() {
            let (name, ignored) = (name.to_owned(), held_instead(&ignored));
            return Err(DumpError::NoNodes { name, ignored });
        }
        for (kind, count) in ignored {
            let assumption = "objects of kinds that no plan needs are ignored";
            doubts.add(assumption, || format!("{count} {kind}"));
        }
        for budget in void_budgets {
            let assumption =
                "budgets with an empty spec.selector cover no pod where preemption asks";
            doubts.add(assumption, || budget);
        }
        cluster.shrink();
        for (node, pod) in cluster.orphaned_pods() {
            let name = || format!("Pod {} (spec.nodeName {node})", cluster.full_name(pod));
            doubts.add("pods on nodes that are not in the input are left out", name);
        }
        for pod in cluster.nominated().iter().filter(|pod| !pod.identity.tried) {
            let assumption = "nominations without PodScheduled=False are not the scheduler's, and reserve nothing";
            doubts.add(assumption, || format!("Pod {}", cluster.full_name(pod)));
        }
        Ok(Loaded {
            cluster,
            budgets,
            wanted: found,
            objects,
        })
    }

    fn is_wanted(&self, pod: &wire::Pod) -> bool {
        self.wanted.is_some_and(|wanted| wanted.is(&pod.metadata))
    }

    fn add_budget(&mut self, budget: &wire::PodDisruptionBudget) -> Result<(), InvalidField> {
        let compiled = Budget::new(&mut self.cluster, budget).map_err(|error| InvalidField {
            field: "spec.selector".to_owned(),
            message: error.to_string(),
        })?;
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
    fn take(&mut self, object: Object) -> Result<(), InvalidField> {
        match object {
            Object::Pod(manifest) if self.is_wanted(&manifest.pod) => {
                self.found = Some(manifest.pod);
                Ok(())
            }
            Object::PodDisruptionBudget(budget) => self.add_budget(&budget),
            object => add(&mut self.cluster, object),
        }
    }
}

/// Adds an object to a cluster. Some are needed elsewhere, and change nothing here.
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
        // Budgets are compiled apart, admission has read the next four, and only `simulate` places groups.
        Object::PodDisruptionBudget(_)
        | Object::PriorityClass(_)
        | Object::RuntimeClass(_)
        | Object::LimitRange(_)
        | Object::ResourceClaimTemplate(_)
        | Object::PodGroup(_) => {}
    }
    Ok(())
}

fn invalid(error: InvalidObject) -> InvalidField {
    InvalidField {
        field: error.field,
        message: error.error.to_string(),
    }
}

fn held_instead(ignored: &BTreeMap<String, usize>) -> String {
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
