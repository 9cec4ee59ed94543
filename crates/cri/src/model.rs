//! The runtime's answers as types of this crate. Strings are kept unchanged: names may be empty or contain any
//! character.

use crate::wire;
use jiff::Timestamp;
use std::collections::BTreeMap;

/// A runtime's name and versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// `containerd`, `cri-o`, `docker`.
    pub runtime: String,
    /// The version of the runtime.
    pub version: String,
    /// The version of CRI, `v1`.
    pub api: String,
}

/// A condition that the runtime reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// For example `RuntimeReady` or `NetworkReady`.
    pub kind: String,
    /// Whether the status is true.
    pub holds: bool,
    /// A reason in one word.
    pub reason: String,
    /// A message.
    pub message: String,
}

/// The manager of the cgroups of containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum CgroupDriver {
    Systemd,
    Cgroupfs,
}

impl CgroupDriver {
    pub(crate) fn new(driver: i32) -> Option<Self> {
        match driver {
            0 => Some(Self::Systemd),
            1 => Some(Self::Cgroupfs),
            _ => None,
        }
    }
}

/// Names and UID of a sandbox's pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodName {
    /// The name of the pod.
    pub name: String,
    /// The namespace of the pod.
    pub namespace: String,
    /// The UID of the pod.
    pub uid: String,
    /// How many earlier sandboxes the pod had.
    pub attempt: u32,
}

/// A pod sandbox, which the pod's containers share. A pod can have several, of which at most one is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    /// The runtime's id.
    pub id: String,
    /// The pod; empty strings if the runtime does not report it.
    pub pod: PodName,
    /// Whether it is ready. Containers run only in a ready sandbox.
    pub ready: bool,
    /// The creation time; `None` if the runtime does not report it.
    pub created: Option<Timestamp>,
    /// Labels of the pod and of the runtime.
    pub labels: BTreeMap<String, String>,
    /// The pod's annotations.
    pub annotations: BTreeMap<String, String>,
    /// The handler of the runtime class; empty for the default.
    pub runtime_handler: String,
}

/// The state of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum ContainerState {
    Created,
    Running,
    Exited,
    Unknown,
}

/// A container in any state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// The runtime's id.
    pub id: String,
    /// The id of its sandbox; empty in a [`ContainerStatus`].
    pub sandbox: String,
    /// Its name in the pod.
    pub name: String,
    /// How many earlier containers of this name the sandbox had.
    pub attempt: u32,
    /// The image name in the pod's spec.
    pub image: String,
    /// The image that the runtime resolved: an id in containerd, a name with a digest elsewhere.
    pub image_ref: String,
    /// The [`Image::id`]; empty if the runtime does not report it (containerd before 2.0).
    pub image_id: String,
    /// The state.
    pub state: ContainerState,
    /// The creation time; `None` if the runtime does not report it.
    pub created: Option<Timestamp>,
    /// Labels of the container; `io.kubernetes.pod.name` holds the pod's name.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the container.
    pub annotations: BTreeMap<String, String>,
}

/// A container with the details of its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerStatus {
    /// The fields of the list, except for the sandbox.
    pub container: Container,
    /// The start time; `None` before the start. If the process exits at once, it may be later than the end.
    pub started: Option<Timestamp>,
    /// The end time; `None` while it has not exited.
    pub finished: Option<Timestamp>,
    /// The exit code; 0 while it has not exited.
    pub exit_code: i32,
    /// The reason of its state in one word: `OOMKilled`, `Error`, `Completed`.
    pub reason: String,
    /// A message about its state.
    pub message: String,
    /// The path of its log; empty without a log.
    pub log_path: String,
    /// Its limits; `None` if the runtime does not report them (containerd before 1.7).
    pub resources: Option<Resources>,
}

/// The resource limits of a container. `None` is no limit, or one that the runtime does not report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resources {
    /// Bytes.
    pub memory_limit: Option<u64>,
    /// The cgroup v1 weight; 1024 is a request of one core.
    pub cpu_shares: Option<u64>,
    /// Microseconds of cpu time per period.
    pub cpu_quota: Option<u64>,
    /// The period in microseconds.
    pub cpu_period: Option<u64>,
    /// The score for the kernel's OOM killer, -1000 to 1000.
    pub oom_score_adj: i64,
}

/// An image on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The runtime's id.
    pub id: String,
    /// Names with tags; may be empty.
    pub tags: Vec<String>,
    /// Names with digests; may be empty.
    pub digests: Vec<String>,
    /// Bytes. Shared layers count in each image.
    pub bytes: u64,
    /// Whether the runtime protects it from garbage collection.
    pub pinned: bool,
    /// The default user of its containers, a number or a name.
    pub user: Option<String>,
}

/// The filesystems of images and writable layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filesystems {
    /// The filesystems of images.
    pub images: Vec<FilesystemUsage>,
    /// The filesystems of writable layers; empty if the runtime does not report them. They usually are those of the
    /// images.
    pub containers: Vec<FilesystemUsage>,
}

/// The runtime's usage of a filesystem, which may hold other files, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilesystemUsage {
    /// A directory on the filesystem, not always its mount point.
    pub mountpoint: String,
    /// Bytes; `None` if unknown.
    pub bytes: Option<u64>,
    /// Inodes; `None` if unknown.
    pub inodes: Option<u64>,
    /// When it was measured; `None` if the runtime does not report it.
    pub at: Option<Timestamp>,
}

/// The usage of a container. Each figure may be unknown, which differs from zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerStats {
    /// The id of the container.
    pub id: String,
    /// Its name in the pod.
    pub name: String,
    /// The usage of its writable layer, without logs and volumes.
    pub writable_layer: Option<FilesystemUsage>,
    /// Cumulative cpu time in nanoseconds.
    pub cpu_nanoseconds: Option<u64>,
    /// Its memory.
    pub memory: Option<Memory>,
}

/// Memory in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Memory that the kernel cannot reclaim easily.
    pub working_set: Option<u64>,
    /// All charged memory, including the page cache.
    pub usage: Option<u64>,
    /// Anonymous memory.
    pub rss: Option<u64>,
    /// When it was measured; `None` if the runtime does not report it.
    pub at: Option<Timestamp>,
}

/// The usage of a sandbox with its containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxStats {
    /// The id of the sandbox.
    pub id: String,
    /// The pod.
    pub pod: PodName,
    /// Cumulative cpu time in nanoseconds.
    pub cpu_nanoseconds: Option<u64>,
    /// Its memory.
    pub memory: Option<Memory>,
    /// The number of processes.
    pub processes: Option<u64>,
    /// The usage of each container.
    pub containers: Vec<ContainerStats>,
}

/// Converts CRI's nanoseconds since 1970; 0 is `None`.
pub(crate) fn timestamp(nanoseconds: i64) -> Option<Timestamp> {
    // The runtime writes zero for a time that it does not know.
    if nanoseconds <= 0 {
        return None;
    }
    Timestamp::from_nanosecond(i128::from(nanoseconds)).ok()
}

fn value(count: Option<wire::Count>) -> Option<u64> {
    count.map(|count| count.value)
}

/// Limits are positive; any other value is no limit.
fn limit(figure: i64) -> Option<u64> {
    // Zero and -1 both mean that there is no limit.
    u64::try_from(figure).ok().filter(|figure| *figure > 0)
}

impl From<wire::VersionResponse> for Version {
    fn from(answer: wire::VersionResponse) -> Self {
        Self {
            runtime: answer.runtime,
            version: answer.version,
            api: answer.api,
        }
    }
}

impl From<wire::RuntimeCondition> for Condition {
    fn from(condition: wire::RuntimeCondition) -> Self {
        Self {
            kind: condition.kind,
            holds: condition.status,
            reason: condition.reason,
            message: condition.message,
        }
    }
}

impl From<wire::SandboxMetadata> for PodName {
    fn from(metadata: wire::SandboxMetadata) -> Self {
        Self {
            name: metadata.name,
            namespace: metadata.namespace,
            uid: metadata.uid,
            attempt: metadata.attempt,
        }
    }
}

impl From<wire::Sandbox> for Sandbox {
    fn from(sandbox: wire::Sandbox) -> Self {
        Self {
            id: sandbox.id,
            pod: sandbox.metadata.unwrap_or_default().into(),
            ready: sandbox.state == 0,
            created: timestamp(sandbox.created_at),
            labels: sandbox.labels,
            annotations: sandbox.annotations,
            runtime_handler: sandbox.runtime_handler,
        }
    }
}

impl From<wire::SandboxStatus> for Sandbox {
    fn from(status: wire::SandboxStatus) -> Self {
        Self {
            id: status.id,
            pod: status.metadata.unwrap_or_default().into(),
            ready: status.state == 0,
            created: timestamp(status.created_at),
            labels: status.labels,
            annotations: status.annotations,
            runtime_handler: status.runtime_handler,
        }
    }
}

impl From<i32> for ContainerState {
    fn from(state: i32) -> Self {
        match state {
            0 => Self::Created,
            1 => Self::Running,
            2 => Self::Exited,
            _ => Self::Unknown,
        }
    }
}

impl From<wire::Container> for Container {
    fn from(container: wire::Container) -> Self {
        let metadata = container.metadata.unwrap_or_default();
        Self {
            id: container.id,
            sandbox: container.sandbox_id,
            name: metadata.name,
            attempt: metadata.attempt,
            image: container.image.unwrap_or_default().image,
            image_ref: container.image_ref,
            image_id: container.image_id,
            state: container.state.into(),
            created: timestamp(container.created_at),
            labels: container.labels,
            annotations: container.annotations,
        }
    }
}

impl From<wire::ContainerStatus> for ContainerStatus {
    fn from(status: wire::ContainerStatus) -> Self {
        let container = wire::Container {
            id: status.id,
            sandbox_id: String::new(),
            metadata: status.metadata,
            image: status.image,
            image_ref: status.image_ref,
            state: status.state,
            created_at: status.created_at,
            labels: status.labels,
            annotations: status.annotations,
            image_id: status.image_id,
        };
        Self {
            container: container.into(),
            started: timestamp(status.started_at),
            finished: timestamp(status.finished_at),
            exit_code: status.exit_code,
            reason: status.reason,
            message: status.message,
            log_path: status.log_path,
            resources: status
                .resources
                .and_then(|resources| resources.linux)
                .map(Resources::from),
        }
    }
}

impl From<wire::LinuxResources> for Resources {
    fn from(resources: wire::LinuxResources) -> Self {
        Self {
            memory_limit: limit(resources.memory_limit_in_bytes),
            cpu_shares: limit(resources.cpu_shares),
            cpu_quota: limit(resources.cpu_quota),
            cpu_period: limit(resources.cpu_period),
            oom_score_adj: resources.oom_score_adj,
        }
    }
}

impl From<wire::Image> for Image {
    fn from(image: wire::Image) -> Self {
        // An image has one of the two: a number, or a name that only its own files can resolve.
        let name = Some(image.username).filter(|name| !name.is_empty());
        Self {
            id: image.id,
            tags: image.repo_tags,
            digests: image.repo_digests,
            bytes: image.size,
            pinned: image.pinned,
            user: image.uid.map(|uid| uid.value.to_string()).or(name),
        }
    }
}

impl From<wire::ImageFsInfo> for Filesystems {
    fn from(info: wire::ImageFsInfo) -> Self {
        let usage = |all: Vec<_>| all.into_iter().map(FilesystemUsage::from).collect();
        Self {
            images: usage(info.images),
            containers: usage(info.containers),
        }
    }
}

impl From<wire::FilesystemUsage> for FilesystemUsage {
    fn from(usage: wire::FilesystemUsage) -> Self {
        Self {
            mountpoint: usage.identifier.unwrap_or_default().mountpoint,
            bytes: value(usage.used_bytes),
            inodes: value(usage.inodes_used),
            at: timestamp(usage.timestamp),
        }
    }
}

impl From<wire::MemoryUsage> for Memory {
    fn from(usage: wire::MemoryUsage) -> Self {
        Self {
            working_set: value(usage.working_set_bytes),
            usage: value(usage.usage_bytes),
            rss: value(usage.rss_bytes),
            at: timestamp(usage.timestamp),
        }
    }
}

impl From<wire::ContainerStats> for ContainerStats {
    fn from(stats: wire::ContainerStats) -> Self {
        let attributes = stats.attributes.unwrap_or_default();
        Self {
            id: attributes.id,
            name: attributes.metadata.unwrap_or_default().name,
            writable_layer: stats.writable_layer.map(FilesystemUsage::from),
            cpu_nanoseconds: stats.cpu.and_then(|cpu| value(cpu.usage_core_nano_seconds)),
            memory: stats.memory.map(Memory::from),
        }
    }
}

impl From<wire::SandboxStats> for SandboxStats {
    fn from(stats: wire::SandboxStats) -> Self {
        let attributes = stats.attributes.unwrap_or_default();
        let linux = stats.linux.unwrap_or_default();
        Self {
            id: attributes.id,
            pod: attributes.metadata.unwrap_or_default().into(),
            cpu_nanoseconds: linux.cpu.and_then(|cpu| value(cpu.usage_core_nano_seconds)),
            memory: linux.memory.map(Memory::from),
            processes: linux
                .process
                .and_then(|process| value(process.process_count)),
            containers: linux
                .containers
                .into_iter()
                .map(ContainerStats::from)
                .collect(),
        }
    }
}
