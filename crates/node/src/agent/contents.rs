//! The figures that are read of a pod before its first signal.

use crate::pods::LocalPod;

/// The containers by their ids, or the names of their cgroups, with their names in the pod.
#[derive(Debug, Default)]
pub(super) struct ContentsRequest {
    pub(super) containers: Vec<(String, String)>,
    /// Command lines are read only where the configuration allows it.
    pub(super) command_lines: bool,
}

/// For this pod, if it is listed.
pub(super) fn request(pod: Option<&LocalPod>, command_lines: bool) -> ContentsRequest {
    let Some((pod, cgroup)) = pod.and_then(|pod| Some((pod, pod.cgroup.as_ref()?))) else {
        return ContentsRequest {
            command_lines,
            ..ContentsRequest::default()
        };
    };
    let named = pod.containers.iter().filter_map(|container| {
        // Groups that a user has named hold one group for each container, called like it.
        let id = Some(&container.name).filter(|_| cgroup.by_annotation);
        Some((
            id.or(container.id.as_ref())?.clone(),
            container.name.clone(),
        ))
    });
    // The processes of the only container may be in the pod's cgroup itself.
    let only = match &pod.containers[..] {
        [only] if cgroup.by_annotation => Some((String::new(), only.name.clone())),
        _ => None,
    };
    ContentsRequest {
        containers: named.chain(only).collect(),
        command_lines,
    }
}
