//! Where the files of pods are.

use super::parts::{Part, PartKind};
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

impl DiskRoots {
    /// The directory that contains a directory for each pod, named by UID.
    pub(super) fn pods(&self) -> PathBuf {
        self.kubelet.join("pods")
    }

    /// The same, without their kinds. The logs are one directory, because the containers of an ended pod are not kept.
    pub(super) fn directories_of(&self, pod: &Pod) -> Vec<PathBuf> {
        let parts = self.parts(pod).into_iter();
        let leave = |part: &Part| matches!(part.kind, PartKind::Volume(_) | PartKind::KubeletFiles);
        let volumes = parts.filter(leave);
        let volumes = volumes.map(|part| part.path);
        volumes.chain([self.logs_of(pod)]).collect()
    }

    fn logs_of(&self, pod: &Pod) -> PathBuf {
        let name = format!("{}_{}_{}", pod.namespace, pod.name, pod.uid);
        self.logs.join(name)
    }

    /// The directories of a pod that count as its local storage (S1-067), and those of the node that it mounts.
    pub(super) fn parts(&self, pod: &Pod) -> Vec<Part> {
        let directory = self.pods().join(&pod.uid);
        let volumes = directory.join("volumes");
        let of_volumes = pod.volumes.iter().filter_map(|volume| {
            let name = volume.name.clone();
            match (volume.plugin_directory, &volume.host_path) {
                (Some(plugin), _) => {
                    let path = volumes.join(plugin).join(&name);
                    Some(Part::new(PartKind::Volume(name), path))
                }
                (None, Some(path)) => Some(Part::new(PartKind::HostPath, PathBuf::from(path))),
                (None, None) => None,
            }
        });
        // Logs are outside the directory of the pod, below one for all pods.
        let logs = self.logs_of(pod);
        let of_containers = pod.containers.iter().map(|container| {
            Part::new(
                PartKind::Logs(container.name.clone()),
                logs.join(&container.name),
            )
        });
        let of_kubelet = Part::new(PartKind::KubeletFiles, directory.join("containers"));
        of_volumes
            .chain(of_containers)
            .chain([of_kubelet])
            .collect()
    }
}
