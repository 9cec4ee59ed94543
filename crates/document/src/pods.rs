//! The objects of one node as its kubelet sees them: nothing is defaulted, and several pods may have one name.

use crate::directory::InputFile;
use crate::document::{Document, LARGE};
use crate::error::DocumentError;
use crate::finder::Finder;
use crate::mistake::Mistake;
use crate::objects::{
    Assumptions, InvalidField, Loader, ObjectsError, OtherObject, Receiver, Source,
};
use evictd_manifests::Object;
use evictd_pod::compatibility::Release;
use evictd_pod::node::Lease;
use evictd_pod::pod::system_priority;
use evictd_pod::{Node, Pod, wire};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

#[derive(Debug, Default)]
struct NodeObjects {
    /// It gives a pod without a status its QoS class.
    release: Release,
    pods: Vec<Pod>,
    nodes: Vec<Node>,
    leases: Vec<Lease>,
    /// How many objects there are, by kind.
    counts: BTreeMap<String, usize>,
}

impl Receiver for NodeObjects {
    fn take(&mut self, object: Object) -> Result<(), InvalidField> {
        self.count(object.kind().as_str());
        match object {
            Object::Pod(manifest) => self.pods.push(convert(manifest.pod, self.release)),
            Object::Node(node) => self.nodes.push(*node),
            _ => {}
        }
        Ok(())
    }

    fn take_other(&mut self, other: &OtherObject<'_>) -> Option<Result<(), Vec<Mistake>>> {
        self.count(other.kind());
        let version = other.api_version();
        let is_lease = version.is_empty() || version.starts_with("coordination.k8s.io/");
        let lease = (other.kind() == "Lease" && is_lease).then(|| other.read());
        Some(lease.map_or(Ok(()), |lease| {
            self.leases.push(lease?);
            Ok(())
        }))
    }
}

impl NodeObjects {
    fn count(&mut self, kind: &str) {
        *self.counts.entry(kind.to_owned()).or_default() += 1;
    }

    /// `holds no Pod; it holds 2 Node`
    fn lack(&self, kind: &str) -> String {
        let counts = self.counts.iter();
        let counts: Vec<String> = counts
            .map(|(kind, count)| format!("{count} {kind}"))
            .collect();
        let counts = match counts.as_slice() {
            [] => "nothing".to_owned(),
            counts => counts.join(", "),
        };
        format!("holds no {kind}; it holds {counts}")
    }
}

impl Document {
    fn node_objects(&self, release: Release) -> Result<NodeObjects, DocumentError> {
        let mut objects = NodeObjects {
            release,
            ..NodeObjects::default()
        };
        let mut loader = Loader::of_kubelet(&mut objects);
        let name = self.name().to_owned();
        if self.is_json() {
            let text = self.text().as_bytes();
            loader.read(Source::new(name, text))?;
        } else {
            loader.read_document(self)?;
        }
        match loader.finish() {
            Ok(_) => Ok(objects),
            Err(ObjectsError::Document(error)) => Err(error),
            Err(ObjectsError::Mistakes(found)) => {
                let found = found.into_iter().next();
                Err(DocumentError::Mistakes(found.unwrap_or_default()))
            }
        }
    }

    /// Reads the pods of `kubectl get pods -o json`, of a kubelet's `/pods`, or of manifests, in any form that a [`Loader`] reads.
    /// Other objects are left out.
    ///
    /// # Errors
    /// All mistakes that one pass finds, with place, pod and key; and if there are only other objects.
    pub fn pods(&self) -> Result<Vec<Pod>, DocumentError> {
        self.pods_of_release(Release::default())
    }

    fn pods_of_release(&self, release: Release) -> Result<Vec<Pod>, DocumentError> {
        let objects = self.node_objects(release)?;
        if objects.pods.is_empty() && !objects.counts.is_empty() {
            return Err(self.wrong(objects.lack("Pod")));
        }
        Ok(without_forged_mirrors(objects.pods))
    }

    /// Reads the only pod of a manifest or list.
    ///
    /// # Errors
    /// As for [`Self::pods`], and unless there is exactly one pod.
    pub fn pod(&self) -> Result<Pod, DocumentError> {
        self.pod_of_release(Release::default())
    }

    /// Reads the only pod as [`Self::pod`] does. The release gives it a QoS class if its status has none.
    ///
    /// # Errors
    /// As for [`Self::pod`].
    pub fn pod_of_release(&self, release: Release) -> Result<Pod, DocumentError> {
        let pods = self.pods_of_release(release)?;
        let [pod] = <[Pod; 1]>::try_from(pods).map_err(|pods| {
            let count = pods.len();
            self.wrong(format!("holds {count} pods; exactly one is needed"))
        })?;
        Ok(pod)
    }

    /// Reads a node, and its lease if that is there, too.
    ///
    /// # Errors
    /// All mistakes that one pass finds, and unless there is exactly one node.
    pub fn node_and_lease(&self) -> Result<(Node, Option<Lease>), DocumentError> {
        let mut objects = self.node_objects(Release::default())?;
        let node = match objects.nodes.len() {
            1 => objects.nodes.pop(),
            _ => None,
        };
        let Some(node) = node else {
            return Err(self.wrong(match objects.nodes.len() {
                0 => objects.lack("Node"),
                count => format!("holds {count} nodes; exactly one is needed"),
            }));
        };
        let mut leases = objects.leases.into_iter();
        let lease = leases.find(|lease| lease.metadata.name == node.metadata.name);
        Ok((node, lease))
    }
}

/// Reads the pods of a file as [`Document::pods`] does, or those of all JSON and YAML files of a directory and its folders.
/// There a pod that is in several files counts once, and the assumptions name the objects and files that are left out.
///
/// # Errors
/// If a file or folder cannot be read, all mistakes of all files, and if there are only other objects.
pub fn pods_at(path: &Path) -> Result<(Vec<Pod>, Assumptions), ObjectsError> {
    let files = InputFile::at(path)?;
    if files.iter().all(|file| !file.is_found) {
        let pods = Document::read(path, LARGE)?.pods()?;
        return Ok((pods, Assumptions::default()));
    }
    let mut objects = NodeObjects::default();
    let mut loader = Loader::of_kubelet(&mut objects);
    for file in &files {
        loader.read(file.source())?;
    }
    let assumptions = loader.finish()?.assumptions;
    if objects.pods.is_empty() {
        let mut finder = Finder::new(&path.display().to_string());
        finder.add("", objects.lack("Pod"));
        return Err(finder.into_error().into());
    }
    Ok((without_forged_mirrors(objects.pods), assumptions))
}

/// A manifest names only the priority class. The API server resolves its value, which is known for built-in classes.
fn convert(mut pod: wire::Pod, release: Release) -> Pod {
    let class = &pod.spec.priority_class_name;
    // The API server resolves other classes; of a file only the two built-in ones are known.
    pod.spec.priority = pod.spec.priority.or_else(|| system_priority(class));
    Pod::of_release(pod, release)
}

/// A UID that the API server has given to another pod cannot belong to a static pod. A pod that claims such a UID is no
/// mirror pod.
fn without_forged_mirrors(mut pods: Vec<Pod>) -> Vec<Pod> {
    let forged: Vec<usize> = {
        // Only a static pod has a mirror. A tenant may write the annotation on any pod to seem protected.
        let others = pods.iter().filter(|pod| !pod.is_static());
        let uids: HashSet<&str> = others.map(|pod| pod.uid.as_str()).collect();
        let mirrors = pods.iter().enumerate().filter(|(_, pod)| pod.is_mirror());
        let claims = mirrors.filter_map(|(index, pod)| Some((index, pod.mirror_of()?)));
        let forged = claims.filter(|(_, claimed)| uids.contains(claimed));
        forged.map(|(index, _)| index).collect()
    };
    for index in forged {
        pods[index].deny_mirror();
    }
    pods
}
