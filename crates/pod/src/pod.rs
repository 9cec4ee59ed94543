//! The pod with everything that decisions need, computed once from the API object.

use crate::{
    Quantity,
    compatibility::Release,
    defaults,
    requests::{self, Counted, Requests, Resize, ResizeState},
    resources::{self, QosClass},
    wire::{self, OwnerReference, PodSpec, ResourceList, Shared, TextMap, Toleration},
};
use jiff::Timestamp;
use std::{fmt, sync::Arc};

/// Pods with at least this priority are critical (S1-046); it is that of `system-cluster-critical`.
pub const CRITICAL_PRIORITY: i32 = 2_000_000_000;
/// The built-in priority classes.
pub const SYSTEM_PRIORITY_CLASSES: [(&str, i32); 2] = [
    ("system-cluster-critical", CRITICAL_PRIORITY),
    ("system-node-critical", CRITICAL_PRIORITY + 1000),
];

/// The priority of a built-in class.
pub fn system_priority(class: &str) -> Option<i32> {
    let mut classes = SYSTEM_PRIORITY_CLASSES.into_iter();
    classes.find_map(|(name, priority)| (name == class).then_some(priority))
}

/// Annotation in which the kubelet notes where a pod comes from: `api`, `file` or `http`.
pub const CONFIG_SOURCE: &str = "kubernetes.io/config.source";
/// Annotation of a mirror pod: the UID of its static pod on the node.
pub const CONFIG_MIRROR: &str = "kubernetes.io/config.mirror";

/// Why a pod is critical, so that it is never evicted (S1-046).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Critical {
    /// It comes from a file or URL of the node, not from the API.
    Static,
    /// It is the mirror pod of a static pod.
    Mirror,
    /// Its priority is at least [`CRITICAL_PRIORITY`].
    Priority,
}

/// A pod. Clones share the large parts.
#[derive(Debug, Clone)]
pub struct Pod {
    /// Namespace; `default` where the object names none.
    pub namespace: String,
    /// Name within the namespace.
    pub name: String,
    /// UID; a later pod of the same name has another one.
    pub uid: String,
    /// The generation of its spec, which conditions name.
    pub generation: wire::Generation,
    /// Labels, by which selectors find the pod.
    pub labels: Arc<TextMap>,
    /// Annotations, of which evictd reads its own and the kubelet's.
    pub annotations: Arc<TextMap>,
    /// The owner that manages it, if there is one.
    pub controller: Option<OwnerReference>,
    /// The priority in the spec; a missing one counts as 0 in the ranking (S1-063).
    pub spec_priority: Option<i32>,
    /// Why it is critical, if it is.
    pub critical: Option<Critical>,
    /// QoS class: the one in the status, else the one that follows from requests and limits (S2-025).
    pub qos: QosClass,
    /// Request of memory in bytes, as the kubelet counts it (S1-068).
    pub memory_request: Quantity,
    /// Request of node-local disk in bytes, as the kubelet counts it (S1-068).
    pub ephemeral_storage_request: Quantity,
    /// Limit of node-local disk, where any container has one (S1-070).
    pub ephemeral_storage_limit: Option<Quantity>,
    /// The memory request of the pod as a whole, which messages show separately (S1-056).
    pub pod_level_memory_request: Option<Quantity>,
    /// Containers, then init containers.
    pub containers: Arc<[Container]>,
    /// All volumes, in the order of the spec.
    pub volumes: Arc<[Volume]>,
    /// The taints that it tolerates.
    pub tolerations: Arc<[Toleration]>,
    /// The grace period that its spec asks for, in seconds.
    pub termination_grace_period_seconds: Option<i64>,
    /// Whether its phase is Succeeded or Failed, so that it does not run any more (S1-042).
    pub terminal: bool,
    /// When its kubelet accepted it, rounded down to a second.
    pub start_time: Option<Timestamp>,
    /// When its deletion was requested; `None` if it is not being deleted.
    pub deletion_timestamp: Option<Timestamp>,
    /// The grace period of its deletion, in seconds.
    pub deletion_grace_period_seconds: Option<i64>,
    /// Name of the node that it is bound to; empty while it is pending.
    pub node_name: String,
    /// The allocated memory and node-local disk.
    reserved: [Quantity; 2],
    fit_requests: Arc<ResourceList>,
    resize: Option<Arc<Resize>>,
    /// With the requests that the node has reserved.
    spec: Shared<PodSpec>,
    name_in_full: Arc<str>,
}

/// A container of a pod, as messages and limits need it.
#[derive(Debug, Clone)]
pub struct Container {
    /// Name within the pod.
    pub name: String,
    /// Whether it belongs to `initContainers`.
    pub init: bool,
    /// Whether it is an init container that runs on beside the others.
    pub sidecar: bool,
    /// Request of memory in bytes.
    pub memory_request: Quantity,
    /// Request of node-local disk in bytes.
    pub ephemeral_storage_request: Quantity,
    /// Limit of node-local disk, unless absent or zero (S1-071).
    pub ephemeral_storage_limit: Option<Quantity>,
    /// The runtime's id without its scheme, if the status has one.
    pub id: Option<String>,
}

/// A volume of a pod, as local-storage accounting needs it.
#[derive(Debug, Clone)]
pub struct Volume {
    /// Name within the pod.
    pub name: String,
    /// Whether its content counts as the pod's local storage (S1-067).
    pub local: bool,
    /// For an emptyDir: its size limit, if that is above zero (S1-069).
    pub empty_dir_limit: Option<Quantity>,
    /// For a disk-backed emptyDir, configMap or gitRepo: its directory below the pod's `volumes` directory.
    pub plugin_directory: Option<&'static str>,
    /// For a hostPath: the path on the node.
    pub host_path: Option<String>,
}

impl Pod {
    /// Compiles an API object. Defaults are set first. During an in-place resize the allocated requests replace those
    /// of the spec (S1-068).
    pub fn from_wire(pod: wire::Pod) -> Self {
        Self::of_release(pod, Release::default())
    }

    /// Compiles an API object as [`Self::from_wire`] does, with the QoS class that a release gives to it if its status has
    /// none (S7-226).
    pub fn of_release(mut pod: wire::Pod, release: Release) -> Self {
        defaults::complete(&mut pod);
        // A resize never changes the class, but reserved requests and desired limits together would.
        let qos = QosClass::of_pod(&pod, release);
        let resize = Resize::of(&pod).map(Arc::new);
        // Before the requests are settled below: fitting counts what is in use, ranking what is allocated.
        let fit_requests = Arc::new(Requests::of(&pod, Counted::InUse).list());
        requests::settle(&mut pod, Counted::Allocated);
        let wire::Pod {
            metadata,
            mut spec,
            status,
        } = pod;
        // Of the affinity only the part is kept that the node itself checks.
        spec.affinity = spec
            .affinity
            .take()
            .and_then(|affinity| affinity.required_of_node());
        // They concern schedulers, and an agent keeps many pods.
        spec.topology_spread_constraints = Vec::new();
        let critical = critical(&metadata, spec.priority);
        let namespace = metadata.namespace_or_default().to_owned();
        let name_in_full: Arc<str> = [&namespace, "/", &metadata.name].concat().into();
        let of_kubelet = |resource| Requests::of_spec(&spec).of_kubelet(resource);
        Self {
            namespace,
            name: metadata.name,
            uid: (*metadata.uid).to_owned(),
            labels: Arc::new(metadata.labels),
            annotations: Arc::new(metadata.annotations),
            controller: metadata
                .owner_references
                .iter()
                .find(|owner| owner.controller)
                .cloned(),
            spec_priority: spec.priority,
            critical,
            qos,
            memory_request: of_kubelet(resources::MEMORY),
            ephemeral_storage_request: of_kubelet(resources::EPHEMERAL_STORAGE),
            reserved: [resources::MEMORY, resources::EPHEMERAL_STORAGE]
                .map(|resource| Requests::of_spec(&spec).get(resource)),
            fit_requests,
            resize,
            ephemeral_storage_limit: resources::ephemeral_storage_limit(&spec),
            pod_level_memory_request: spec
                .resources
                .as_ref()
                .and_then(|resources| resources.requests.get(resources::MEMORY).copied()),
            containers: containers(&spec, &status).into(),
            volumes: spec.volumes.iter().map(Volume::from_wire).collect(),
            tolerations: spec.tolerations.clone().into(),
            termination_grace_period_seconds: spec.termination_grace_period_seconds,
            generation: metadata.generation,
            terminal: status.phase.has_ended(),
            start_time: status.start_time,
            deletion_timestamp: metadata.deletion_timestamp.map(wire::Time::timestamp),
            deletion_grace_period_seconds: metadata.deletion_grace_period_seconds.map(i64::from),
            node_name: spec.node_name.clone(),
            spec,
            name_in_full,
        }
    }

    /// Priority for the ranking; a missing one is 0 (S1-063).
    pub fn priority(&self) -> i32 {
        self.spec_priority.unwrap_or(0)
    }

    /// Whether it comes from a file or URL of the node, not from the API server.
    pub fn is_static(&self) -> bool {
        self.critical == Some(Critical::Static)
    }

    /// Whether it is the mirror pod of a static pod.
    pub fn is_mirror(&self) -> bool {
        self.critical == Some(Critical::Mirror)
    }

    /// The UID of the static pod whose mirror pod it claims to be. Everyone who may annotate the pod can write this claim.
    pub fn mirror_of(&self) -> Option<&str> {
        self.annotations.get(CONFIG_MIRROR)
    }

    /// Whether a kubelet runs it from a file or URL of the node: a static pod or its mirror. It is started again
    /// whatever becomes of its object in the API.
    pub fn is_from_file(&self) -> bool {
        self.is_static() || self.is_mirror()
    }

    /// Ignores its claim to be a mirror pod: then only its priority can make it critical.
    pub fn deny_mirror(&mut self) {
        if self.is_mirror() {
            self.critical = critical_by(self.spec_priority);
        }
    }

    /// Whether its controller would start it on this same node again.
    pub fn returns_to_this_node(&self) -> bool {
        self.controller
            .as_ref()
            .is_some_and(|owner| owner.kind == "DaemonSet")
    }

    /// Request of any resource as the kubelet counts it (S1-068); `pods` is always 1 (S2-015).
    pub fn request(&self, resource: &str) -> Quantity {
        match resource {
            resources::PODS => Quantity::count(1),
            resources::MEMORY => self.memory_request,
            resources::EPHEMERAL_STORAGE => self.ephemeral_storage_request,
            _ => Requests::of_spec(&self.spec).of_kubelet(resource),
        }
    }

    /// The allocated amount of a resource (S4-041). As in the kubelet, a pod with pod-level resources counts those
    /// only, even for a resource that cannot be set at pod level.
    pub fn reserved(&self, resource: &str) -> Quantity {
        let [memory, ephemeral_storage] = self.reserved;
        match resource {
            resources::PODS => Quantity::count(1),
            resources::MEMORY => memory,
            resources::EPHEMERAL_STORAGE => ephemeral_storage,
            _ => Requests::of_spec(&self.spec).get(resource),
        }
    }

    /// Sets its memory request, where only that is known of the pod.
    pub fn set_memory_request(&mut self, request: Quantity) {
        self.memory_request = request;
        self.reserved[0] = request;
    }

    /// Request of any resource as it counts in the check whether the pod fits: until a resize is done the larger of the
    /// reserved amount and the one that the pod runs with.
    pub fn fit_request(&self, resource: &str) -> Quantity {
        let request = self.fit_requests.get(resource);
        request.copied().unwrap_or_default()
    }

    /// Every resource name that the pod requests anywhere, sorted, each once.
    pub fn requested_resources(&self) -> Vec<&str> {
        self.fit_requests.keys().collect()
    }

    /// The state of a pending in-place resize and the desired request of this resource. `None` if the resize does not
    /// change it.
    pub fn pending_resize(&self, resource: &str) -> Option<(ResizeState, Quantity)> {
        let resize = self.resize.as_ref()?;
        let desired = resize.desired(resource);
        (desired != self.reserved(resource)).then_some((resize.state, desired))
    }

    /// The part of its spec that decides whether it may run on a node.
    pub(crate) fn spec(&self) -> &PodSpec {
        &self.spec
    }

    /// `namespace/name` as a shared text, so that a ranking of thousands of pods copies none.
    pub fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.name_in_full)
    }

    /// `namespace/name`.
    pub fn full_name(&self) -> String {
        self.name_in_full.as_ref().to_owned()
    }
}

impl fmt::Display for Pod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The kubelet writes the source of a pod into an annotation. On a pod that an API server has stored anyone may have written
/// it, and the pod comes from the API.
fn is_static(metadata: &wire::Metadata) -> bool {
    let source = metadata.annotations.get(CONFIG_SOURCE);
    // Whatever the API server has stored is no static pod, even if its annotation says so.
    metadata.resource_version.is_empty() && source.is_some_and(|source| source != "api")
}

fn critical(metadata: &wire::Metadata, priority: Option<i32>) -> Option<Critical> {
    if is_static(metadata) {
        Some(Critical::Static)
    } else if metadata.annotations.contains_key(CONFIG_MIRROR) {
        Some(Critical::Mirror)
    } else {
        critical_by(priority)
    }
}

fn critical_by(priority: Option<i32>) -> Option<Critical> {
    let critical = priority.is_some_and(|priority| priority >= CRITICAL_PRIORITY);
    critical.then_some(Critical::Priority)
}

fn containers(spec: &PodSpec, status: &wire::PodStatus) -> Vec<Container> {
    let convert = |init: bool, statuses: &[wire::ContainerStatus], container: &wire::Container| {
        let id = statuses
            .iter()
            .find(|status| status.name == container.name)
            .and_then(|status| status.container_id.split_once("://"))
            .map(|(_, id)| id.to_owned());
        let request = |resource: &str| {
            let requests = &container.resources.requests;
            requests.get(resource).copied().unwrap_or_default()
        };
        let limit = container.resources.limits.get(resources::EPHEMERAL_STORAGE);
        Container {
            name: container.name.clone(),
            init,
            sidecar: init && resources::is_sidecar(container),
            memory_request: request(resources::MEMORY),
            ephemeral_storage_request: request(resources::EPHEMERAL_STORAGE),
            // The kubelet takes a limit of zero for none.
            ephemeral_storage_limit: limit.filter(|limit| !limit.is_zero()).copied(),
            id,
        }
    };
    let regular = spec
        .containers
        .iter()
        .map(|c| convert(false, &status.container_statuses, c));
    let init = spec
        .init_containers
        .iter()
        .map(|c| convert(true, &status.init_container_statuses, c));
    regular.chain(init).collect()
}

impl Volume {
    fn from_wire(volume: &wire::Volume) -> Self {
        let disk_empty_dir = volume
            .empty_dir
            .as_ref()
            // With a medium it is in memory or huge pages and takes no disk.
            .is_some_and(|dir| dir.medium.is_empty());
        let plugin_directory = if disk_empty_dir {
            Some("kubernetes.io~empty-dir")
        } else if volume.config_map.is_some() {
            Some("kubernetes.io~configmap")
        } else if volume.git_repo.is_some() {
            Some("kubernetes.io~git-repo")
        } else {
            None
        };
        Self {
            name: volume.name.clone(),
            local: plugin_directory.is_some() || volume.host_path.is_some(),
            empty_dir_limit: volume
                .empty_dir
                .as_ref()
                .and_then(|dir| dir.size_limit)
                .filter(Quantity::is_positive),
            plugin_directory,
            host_path: volume.host_path.as_ref().map(|host| host.path.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(json: &str) -> Pod {
        Pod::from_wire(serde_json::from_str(json).unwrap())
    }

    #[test]
    fn s1_046_a_pod_is_critical_by_source_or_priority() {
        let table = [
            ("{}", None),
            (
                r#"{"metadata":{"annotations":{"kubernetes.io/config.source":"api"}}}"#,
                None,
            ),
            (
                r#"{"metadata":{"annotations":{"kubernetes.io/config.source":"file"}}}"#,
                Some(Critical::Static),
            ),
            (
                r#"{"metadata":{"annotations":{"kubernetes.io/config.source":""}}}"#,
                Some(Critical::Static),
            ),
            (
                r#"{"metadata":{"resourceVersion":"7","annotations":{"kubernetes.io/config.source":"file"}}}"#,
                None,
            ),
            (
                r#"{"metadata":{"annotations":{"kubernetes.io/config.mirror":"x"}}}"#,
                Some(Critical::Mirror),
            ),
            (
                r#"{"metadata":{"resourceVersion":"7","annotations":{
                    "kubernetes.io/config.source":"file","kubernetes.io/config.mirror":"x"}}}"#,
                Some(Critical::Mirror),
            ),
            (r#"{"spec":{"priority":1999999999}}"#, None),
            (
                r#"{"spec":{"priority":2000000000}}"#,
                Some(Critical::Priority),
            ),
        ];
        for (json, critical) in table {
            assert_eq!(pod(json).critical, critical, "{json}");
        }
    }

    #[test]
    fn s1_067_which_volumes_are_local() {
        let table = [
            (r#"{"name":"v","emptyDir":{}}"#, true),
            (r#"{"name":"v","emptyDir":{"medium":"Memory"}}"#, false),
            (r#"{"name":"v","hostPath":{"path":"/x"}}"#, true),
            (r#"{"name":"v","configMap":{"name":"x"}}"#, true),
            (r#"{"name":"v","gitRepo":{"repository":"x"}}"#, true),
            (r#"{"name":"v","secret":{"secretName":"x"}}"#, false),
            (
                r#"{"name":"v","persistentVolumeClaim":{"claimName":"x"}}"#,
                false,
            ),
        ];
        for (volume, local) in table {
            assert_eq!(
                pod(&format!(r#"{{"spec":{{"volumes":[{volume}]}}}}"#)).volumes[0].local,
                local,
                "{volume}"
            );
        }
    }

    #[test]
    fn s1_068_allocated_resources_replace_requests() {
        let resized = pod(
            r#"{"spec":{"containers":[{"name":"c","resources":{"requests":{"memory":"1Gi"}}}]},
            "status":{"containerStatuses":[{"name":"c","containerID":"containerd://ab","allocatedResources":{"memory":"2Gi"}}]}}"#,
        );
        assert_eq!(resized.memory_request.to_string(), "2Gi");
        assert_eq!(resized.containers[0].id.as_deref(), Some("ab"));
    }

    #[test]
    fn nulls_count_as_absent() {
        let empty = pod(
            r#"{"metadata":{"annotations":null,"name":null,"labels":{"a":null},"ownerReferences":[{"name":null}]},"spec":{"containers":null,"volumes":null,"overhead":{"cpu":null},"nodeSelector":{"a":null}},"status":null}"#,
        );
        assert_eq!(empty.qos, QosClass::BestEffort);
        assert_eq!(empty.full_name(), "default/");
    }
}
