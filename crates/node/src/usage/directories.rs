//! Where the files of pods are.

use evictd_kernel::walk::DiskUsage;
use evictd_pod::Pod;
use std::path::PathBuf;

/// Where the kubelet and the runtime keep the files of pods.
#[derive(Debug, Clone)]
pub struct DiskRoots {
    /// The kubelet's directory, for volumes: `<this>/pods/<uid>/volumes/<plugin>/<name>`.
    pub kubelet: PathBuf,
    /// Logs: `<this>/<namespace>_<name>_<uid>/<container>`.
    pub logs: PathBuf,
    /// `/proc` on a real machine; it lists the mounted volumes.
    pub proc: PathBuf,
}

/// One directory of a pod.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) kind: PartKind,
    pub(super) path: PathBuf,
    /// None if there is no such directory.
    pub(super) measured: Option<DiskUsage>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PartKind {
    /// Logs of the container of this name.
    Logs(String),
    /// The writable layer of the container of this name.
    Layer(String),
    /// The volume of this name that lives and dies with the pod; without a name, all such volumes of one kind.
    Volume(String),
    /// The volume of this name that is a directory of the node.
    HostPath(String),
}

impl DiskRoots {
    /// The directory that contains a directory for each pod, named by UID.
    pub(super) fn pods(&self) -> PathBuf {
        self.kubelet.join("pods")
    }

    /// The directories that the kubelet removes after a pod's end. A directory of the node stays.
    pub(super) fn removed_with(&self, pod: &Pod) -> Vec<PathBuf> {
        let parts = self.parts(pod).into_iter();
        let volumes = parts.filter(|part| matches!(part.kind, PartKind::Volume(_)));
        let volumes = volumes.map(|part| part.path);
        volumes.chain([self.logs_of(pod)]).collect()
    }

    fn logs_of(&self, pod: &Pod) -> PathBuf {
        let name = format!("{}_{}_{}", pod.namespace, pod.name, pod.uid);
        self.logs.join(name)
    }

    /// The directories of a pod that count as its local storage (S1-067).
    pub(super) fn parts(&self, pod: &Pod) -> Vec<Part> {
        let part = |kind, path| Part {
            kind,
            path,
            measured: None,
        };
        let volumes = self.pods().join(&pod.uid).join("volumes");
        let of_volumes = pod.volumes.iter().filter_map(|volume| {
            let name = volume.name.clone();
            match (volume.plugin_directory, &volume.host_path) {
                (Some(plugin), _) => {
                    let path = volumes.join(plugin).join(&name);
                    Some(part(PartKind::Volume(name), path))
                }
                (None, Some(path)) => Some(part(PartKind::HostPath(name), PathBuf::from(path))),
                (None, None) => None,
            }
        });
        let logs = self.logs_of(pod);
        let of_containers = pod.containers.iter().map(|container| {
            part(
                PartKind::Logs(container.name.clone()),
                logs.join(&container.name),
            )
        });
        of_volumes.chain(of_containers).collect()
    }
}
