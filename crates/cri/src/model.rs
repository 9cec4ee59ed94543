//! What the runtime says, in types of this crate. Texts are kept as they come: names may be empty or hold any character.

use crate::wire;
use jiff::Timestamp;
use std::collections::BTreeMap;

/// A runtime's name and versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// `containerd`, `cri-o`, `docker`.
    pub runtime: String,
    /// Of the runtime.
    pub version: String,
    /// Of CRI, `v1`.
    pub api: String,
}

/// A condition that the runtime reports of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// `RuntimeReady`, `NetworkReady` and others.
    pub kind: String,
    /// Whether it holds.
    pub holds: bool,
    /// One word.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

/// Who makes the control groups of containers.
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

/// Names and uid of the pod that a sandbox was made for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodName {
    /// Of the pod.
    pub name: String,
    /// Of the pod.
    pub namespace: String,
    /// Of the pod.
    pub uid: String,
    /// How many sandboxes the pod had before this one.
    pub attempt: u32,
}

/// What the containers of one pod share. A pod can have several, of which at most one is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    /// By which the runtime knows it.
    pub id: String,
    /// The pod; its texts are empty if the runtime does not say.
    pub pod: PodName,
    /// Whether it is ready; containers can run in no other.
    pub ready: bool,
    /// When it was made; `None` if the runtime does not say.
    pub created: Option<Timestamp>,
    /// The pod's labels, and the runtime's.
    pub labels: BTreeMap<String, String>,
    /// The pod's annotations.
    pub annotations: BTreeMap<String, String>,
    /// The runtime class's handler; empty for the usual one.
    pub runtime_handler: String,
}

/// What a container is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum ContainerState {
    Created,
    Running,
    Exited,
    Unknown,
}

/// A container, running or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// By which the runtime knows it.
    pub id: String,
    /// Of its sandbox; empty in a [`ContainerStatus`], which does not say.
    pub sandbox: String,
    /// Its name in the pod.
    pub name: String,
    /// How many containers of this name the sandbox had before.
    pub attempt: u32,
    /// The image as the pod names it.
    pub image: String,
    /// The image as the runtime resolved it: an id in containerd, a name with a digest elsewhere.
    pub image_ref: String,
    /// [`Image::id`]; empty if the runtime does not say, as containerd before 2.0.
    pub image_id: String,
    /// What it is doing.
    pub state: ContainerState,
    /// When it was made; `None` if the runtime does not say.
    pub created: Option<Timestamp>,
    /// Of the container, among them the pod's name in `io.kubernetes.pod.name`.
    pub labels: BTreeMap<String, String>,
    /// Of the container.
    pub annotations: BTreeMap<String, String>,
}

/// A container, and what only its status says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerStatus {
    /// What the list says too, but for the sandbox.
    pub container: Container,
    /// When its process began; `None` if it has not. Of one that ended at once this can be later than its end.
    pub started: Option<Timestamp>,
    /// When its process ended; `None` if it has not.
    pub finished: Option<Timestamp>,
    /// Of the process; 0 as long as it has not ended.
    pub exit_code: i32,
    /// Why it is in this state, in one word: `OOMKilled`, `Error`, `Completed`.
    pub reason: String,
    /// Why it is in this state.
    pub message: String,
    /// Where its log is; empty if it has none.
    pub log_path: String,
    /// Its limits; `None` if the runtime does not say (containerd before 1.7).
    pub resources: Option<Resources>,
}

/// What a container was given. `None` is no limit, or none that the runtime tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resources {
    /// In bytes.
    pub memory_limit: Option<u64>,
    /// The weight in cgroup v1's scale, of which 1024 is one core requested.
    pub cpu_shares: Option<u64>,
    /// Microseconds of processor time in each period.
    pub cpu_quota: Option<u64>,
    /// The period in microseconds.
    pub cpu_period: Option<u64>,
    /// For the kernel's OOM killer, -1000 to 1000.
    pub oom_score_adj: i64,
}

/// An image on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// By which the runtime knows it.
    pub id: String,
    /// Names with tags; an image can have none.
    pub tags: Vec<String>,
    /// Names with digests; an image can have none.
    pub digests: Vec<String>,
    /// In bytes. Layers that images share are counted in each.
    pub bytes: u64,
    /// Whether the runtime wants it kept.
    pub pinned: bool,
    /// As whom its containers run, a number or a name, if nobody else decides.
    pub user: Option<String>,
}

/// Where images and writable layers lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filesystems {
    /// Of images.
    pub images: Vec<FilesystemUsage>,
    /// Of writable layers; empty if the runtime does not say, which is as with the images' as a rule.
    pub containers: Vec<FilesystemUsage>,
}

/// What the runtime has on a filesystem, which others may use too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilesystemUsage {
    /// A directory on that filesystem, not always its mount point.
    pub mountpoint: String,
    /// In bytes; `None` if the runtime does not know.
    pub bytes: Option<u64>,
    /// Inodes; `None` if the runtime does not know.
    pub inodes: Option<u64>,
    /// When it was counted; `None` if the runtime does not say.
    pub at: Option<Timestamp>,
}

/// What a container uses. Every figure can be missing; none is not zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerStats {
    /// Of the container.
    pub id: String,
    /// Its name in the pod.
    pub name: String,
    /// What it wrote into its own layer; logs and volumes are not in it.
    pub writable_layer: Option<FilesystemUsage>,
    /// Processor time since its start, in nanoseconds.
    pub cpu_nanoseconds: Option<u64>,
    /// Its memory.
    pub memory: Option<Memory>,
}

/// Memory in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// What the kernel cannot take back easily.
    pub working_set: Option<u64>,
    /// All that is charged, the page cache included.
    pub usage: Option<u64>,
    /// Anonymous memory.
    pub rss: Option<u64>,
    /// When it was counted; `None` if the runtime does not say.
    pub at: Option<Timestamp>,
}

/// What a sandbox uses, its containers included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxStats {
    /// Of the sandbox.
    pub id: String,
    /// The pod.
    pub pod: PodName,
    /// Processor time since its start, in nanoseconds.
    pub cpu_nanoseconds: Option<u64>,
    /// Its memory.
    pub memory: Option<Memory>,
    /// How many processes it has.
    pub processes: Option<u64>,
    /// What each container uses.
    pub containers: Vec<ContainerStats>,
}

/// CRI's times are in nanoseconds since 1970, and 0 is none.
pub(crate) fn timestamp(nanoseconds: i64) -> Option<Timestamp> {
    if nanoseconds <= 0 {
        return None;
    }
    Timestamp::from_nanosecond(i128::from(nanoseconds)).ok()
}

fn value(count: Option<wire::Count>) -> Option<u64> {
    count.map(|count| count.value)
}

/// Limits are never negative or zero.
fn limit(figure: i64) -> Option<u64> {
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
