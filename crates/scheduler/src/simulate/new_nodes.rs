//! `simulate --add-nodes`: new nodes like one of the cluster.

use evictd_document::Loaded;
use evictd_manifests::Object;
use evictd_pod::wire::{self, Metadata};

/// Nodes to add.
#[derive(Debug)]
pub(crate) struct NewNodes {
    pub(crate) count: u32,
    /// The name of the node that they are like.
    pub(crate) like: String,
}

/// Taints of a node that is not ready yet, is drained or is about to be removed. A new node soon has none of them.
fn passes(taint: &wire::Taint) -> bool {
    const OF_REMOVAL: [&str; 2] = [
        "ToBeDeletedByClusterAutoscaler",
        "DeletionCandidateOfClusterAutoscaler",
    ];
    taint.key.starts_with("node.kubernetes.io/")
        || taint.key.starts_with("node.cloudprovider.kubernetes.io/")
        || OF_REMOVAL.contains(&&*taint.key)
}

impl NewNodes {
    /// Adds them, with their devices and attach limits, and with copies of the pods that each such node runs. Returns their names.
    pub(super) fn add_to(&self, objects: &mut Vec<Object>, known: &mut Loaded) -> Vec<String> {
        let mut names = Vec::new();
        for number in 1.. {
            if names.len() == self.count as usize {
                break;
            }
            let name = format!("{}-new-{number}", self.like);
            let is_taken = |object: &Object| matches!(object, Object::Node(node) if node.metadata.name == name);
            if !objects.iter().any(is_taken) {
                names.push(name);
            }
        }
        let mut added = Vec::new();
        for name in &names {
            added.extend(objects.iter().filter_map(|object| self.copy(object, name)));
        }
        let mut daemons: Vec<String> = Vec::new();
        for object in &objects[..] {
            if let Object::Pod(manifest) = object
                && self.runs_everywhere(&manifest.pod)
            {
                daemons.push(manifest.pod.metadata.full_name());
            }
        }
        let like = &self.like;
        let assumptions = &mut known.assumptions;
        assumptions.note(format!(
            "new nodes are like {like}, without its cordon, images and the taints of its state"
        ));
        for daemon in daemons {
            let assumption = format!("new nodes run copies of the daemons of {like}");
            assumptions.add(assumption, || format!("Pod {daemon}"));
        }
        for object in &added {
            known.existing.learn(object);
        }
        objects.extend(added);
        names
    }

    /// Whether each such node runs a pod like this: one of a `DaemonSet`, or a static one.
    fn runs_everywhere(&self, pod: &wire::Pod) -> bool {
        let mut owners = pod.metadata.owner_references.iter();
        let has_ended = pod.status.phase.has_ended() || pod.metadata.deletion_timestamp.is_some();
        pod.spec.node_name == self.like
            && !has_ended
            && owners.any(|owner| matches!(&*owner.kind, "DaemonSet" | "Node"))
    }

    /// The object that the new node has where `like` has this one.
    fn copy(&self, object: &Object, name: &str) -> Option<Object> {
        let like = &self.like;
        Some(match object {
            Object::Node(node) if node.metadata.name == *like => {
                let mut node = node.clone();
                node.metadata = renamed(&node.metadata, like, name);
                node.spec.unschedulable = false;
                node.spec.taints.retain(|taint| !passes(taint));
                node.status.images.clear();
                node.status.conditions.clear();
                Object::Node(node)
            }
            Object::CsiNode(node) if node.metadata.name == *like => {
                let mut node = node.clone();
                node.metadata = renamed(&node.metadata, like, name);
                Object::CsiNode(node)
            }
            Object::ResourceSlice(slice) if slice.spec.node_name == *like => {
                let mut slice = slice.clone();
                slice.metadata = renamed(&slice.metadata, like, name);
                name.clone_into(&mut slice.spec.node_name);
                // Pools of other nodes must not get the copied devices.
                slice.spec.pool.name = new_name(&slice.spec.pool.name, like, name);
                Object::ResourceSlice(slice)
            }
            Object::Pod(manifest) if self.runs_everywhere(&manifest.pod) => {
                let mut pod = manifest.pod.clone();
                pod.metadata = renamed(&pod.metadata, like, name);
                name.clone_into(&mut pod.spec.node_name);
                Object::Pod(Box::new(pod.into()))
            }
            _ => return None,
        })
    }
}

/// The name of an object of the new node.
fn new_name(old: &str, like: &str, name: &str) -> String {
    if old == like {
        return name.to_owned();
    }
    match old.strip_suffix(like) {
        Some(front) => format!("{front}{name}"),
        None => format!("{old}-{name}"),
    }
}

/// The metadata of a copy. Labels whose value is the node's name get the new one.
fn renamed(metadata: &Metadata, like: &str, name: &str) -> Metadata {
    let mut copy = metadata.clone();
    copy.name = new_name(&metadata.name, like, name);
    copy.uid = match &*metadata.uid {
        "" => "".into(),
        uid => format!("{uid}-{name}").into(),
    };
    copy.deletion_timestamp = None;
    let labels = metadata.labels.iter();
    copy.labels = labels
        .map(|(key, value)| (key, if value == like { name } else { value }))
        .collect();
    copy
}
