//! The used fields of CRI v1's messages; prost skips all others.
//!
//! Field numbers are those of `runtime/v1/api.proto` in `k8s.io/cri-api`. Every list has its entries in field 1.

use prost::Message;
use std::collections::BTreeMap;

pub(crate) type Words = BTreeMap<String, String>;

/// An answer without used fields.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Empty {}

/// A request with an object's id.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ById {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct VersionRequest {
    #[prost(string, tag = "1")]
    pub(crate) version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct VersionResponse {
    #[prost(string, tag = "2")]
    pub(crate) runtime: String,
    #[prost(string, tag = "3")]
    pub(crate) version: String,
    #[prost(string, tag = "4")]
    pub(crate) api: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusRequest {
    #[prost(bool, tag = "1")]
    pub(crate) verbose: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<RuntimeStatus>,
    /// Present only on request.
    #[prost(btree_map = "string, string", tag = "2")]
    pub(crate) info: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RuntimeStatus {
    #[prost(message, repeated, tag = "1")]
    pub(crate) conditions: Vec<RuntimeCondition>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RuntimeCondition {
    #[prost(string, tag = "1")]
    pub(crate) kind: String,
    #[prost(bool, tag = "2")]
    pub(crate) status: bool,
    #[prost(string, tag = "3")]
    pub(crate) reason: String,
    #[prost(string, tag = "4")]
    pub(crate) message: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RuntimeConfigResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) linux: Option<LinuxRuntimeConfiguration>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LinuxRuntimeConfiguration {
    #[prost(int32, tag = "1")]
    pub(crate) cgroup_driver: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Sandboxes {
    #[prost(message, repeated, tag = "1")]
    pub(crate) items: Vec<Sandbox>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SandboxMetadata {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) uid: String,
    #[prost(string, tag = "3")]
    pub(crate) namespace: String,
    #[prost(uint32, tag = "4")]
    pub(crate) attempt: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Sandbox {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) metadata: Option<SandboxMetadata>,
    #[prost(int32, tag = "3")]
    pub(crate) state: i32,
    #[prost(int64, tag = "4")]
    pub(crate) created_at: i64,
    #[prost(btree_map = "string, string", tag = "5")]
    pub(crate) labels: Words,
    #[prost(btree_map = "string, string", tag = "6")]
    pub(crate) annotations: Words,
    #[prost(string, tag = "7")]
    pub(crate) runtime_handler: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SandboxStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<SandboxStatus>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SandboxStatus {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) metadata: Option<SandboxMetadata>,
    #[prost(int32, tag = "3")]
    pub(crate) state: i32,
    #[prost(int64, tag = "4")]
    pub(crate) created_at: i64,
    #[prost(btree_map = "string, string", tag = "7")]
    pub(crate) labels: Words,
    #[prost(btree_map = "string, string", tag = "8")]
    pub(crate) annotations: Words,
    #[prost(string, tag = "9")]
    pub(crate) runtime_handler: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Containers {
    #[prost(message, repeated, tag = "1")]
    pub(crate) items: Vec<Container>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerMetadata {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(uint32, tag = "2")]
    pub(crate) attempt: u32,
}

/// The image name of a request.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ImageSpec {
    #[prost(string, tag = "1")]
    pub(crate) image: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Container {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(string, tag = "2")]
    pub(crate) sandbox_id: String,
    #[prost(message, optional, tag = "3")]
    pub(crate) metadata: Option<ContainerMetadata>,
    #[prost(message, optional, tag = "4")]
    pub(crate) image: Option<ImageSpec>,
    #[prost(string, tag = "5")]
    pub(crate) image_ref: String,
    #[prost(int32, tag = "6")]
    pub(crate) state: i32,
    #[prost(int64, tag = "7")]
    pub(crate) created_at: i64,
    #[prost(btree_map = "string, string", tag = "8")]
    pub(crate) labels: Words,
    #[prost(btree_map = "string, string", tag = "9")]
    pub(crate) annotations: Words,
    #[prost(string, tag = "10")]
    pub(crate) image_id: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<ContainerStatus>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerStatus {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) metadata: Option<ContainerMetadata>,
    #[prost(int32, tag = "3")]
    pub(crate) state: i32,
    #[prost(int64, tag = "4")]
    pub(crate) created_at: i64,
    #[prost(int64, tag = "5")]
    pub(crate) started_at: i64,
    #[prost(int64, tag = "6")]
    pub(crate) finished_at: i64,
    #[prost(int32, tag = "7")]
    pub(crate) exit_code: i32,
    #[prost(message, optional, tag = "8")]
    pub(crate) image: Option<ImageSpec>,
    #[prost(string, tag = "9")]
    pub(crate) image_ref: String,
    #[prost(string, tag = "10")]
    pub(crate) reason: String,
    #[prost(string, tag = "11")]
    pub(crate) message: String,
    #[prost(btree_map = "string, string", tag = "12")]
    pub(crate) labels: Words,
    #[prost(btree_map = "string, string", tag = "13")]
    pub(crate) annotations: Words,
    #[prost(string, tag = "15")]
    pub(crate) log_path: String,
    #[prost(message, optional, tag = "16")]
    pub(crate) resources: Option<ContainerResources>,
    #[prost(string, tag = "17")]
    pub(crate) image_id: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerResources {
    #[prost(message, optional, tag = "1")]
    pub(crate) linux: Option<LinuxResources>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct LinuxResources {
    #[prost(int64, tag = "1")]
    pub(crate) cpu_period: i64,
    #[prost(int64, tag = "2")]
    pub(crate) cpu_quota: i64,
    #[prost(int64, tag = "3")]
    pub(crate) cpu_shares: i64,
    #[prost(int64, tag = "4")]
    pub(crate) memory_limit_in_bytes: i64,
    #[prost(int64, tag = "5")]
    pub(crate) oom_score_adj: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SandboxStatsList {
    #[prost(message, repeated, tag = "1")]
    pub(crate) items: Vec<SandboxStats>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SandboxStats {
    #[prost(message, optional, tag = "1")]
    pub(crate) attributes: Option<SandboxAttributes>,
    #[prost(message, optional, tag = "2")]
    pub(crate) linux: Option<LinuxSandboxStats>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SandboxAttributes {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) metadata: Option<SandboxMetadata>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LinuxSandboxStats {
    #[prost(message, optional, tag = "1")]
    pub(crate) cpu: Option<CpuUsage>,
    #[prost(message, optional, tag = "2")]
    pub(crate) memory: Option<MemoryUsage>,
    #[prost(message, optional, tag = "4")]
    pub(crate) process: Option<ProcessUsage>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) containers: Vec<ContainerStats>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct ProcessUsage {
    #[prost(message, optional, tag = "2")]
    pub(crate) process_count: Option<Count>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerStatsList {
    #[prost(message, repeated, tag = "1")]
    pub(crate) items: Vec<ContainerStats>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerStats {
    #[prost(message, optional, tag = "1")]
    pub(crate) attributes: Option<ContainerAttributes>,
    #[prost(message, optional, tag = "2")]
    pub(crate) cpu: Option<CpuUsage>,
    #[prost(message, optional, tag = "3")]
    pub(crate) memory: Option<MemoryUsage>,
    #[prost(message, optional, tag = "4")]
    pub(crate) writable_layer: Option<FilesystemUsage>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerAttributes {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) metadata: Option<ContainerMetadata>,
}

/// A figure whose absence differs from zero.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Count {
    #[prost(uint64, tag = "1")]
    pub(crate) value: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct CpuUsage {
    #[prost(int64, tag = "1")]
    pub(crate) timestamp: i64,
    #[prost(message, optional, tag = "2")]
    pub(crate) usage_core_nano_seconds: Option<Count>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct MemoryUsage {
    #[prost(int64, tag = "1")]
    pub(crate) timestamp: i64,
    #[prost(message, optional, tag = "2")]
    pub(crate) working_set_bytes: Option<Count>,
    #[prost(message, optional, tag = "4")]
    pub(crate) usage_bytes: Option<Count>,
    #[prost(message, optional, tag = "5")]
    pub(crate) rss_bytes: Option<Count>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FilesystemUsage {
    #[prost(int64, tag = "1")]
    pub(crate) timestamp: i64,
    #[prost(message, optional, tag = "2")]
    pub(crate) identifier: Option<FilesystemIdentifier>,
    #[prost(message, optional, tag = "3")]
    pub(crate) used_bytes: Option<Count>,
    #[prost(message, optional, tag = "4")]
    pub(crate) inodes_used: Option<Count>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FilesystemIdentifier {
    #[prost(string, tag = "1")]
    pub(crate) mountpoint: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ImageFsInfo {
    #[prost(message, repeated, tag = "1")]
    pub(crate) images: Vec<FilesystemUsage>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) containers: Vec<FilesystemUsage>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Images {
    #[prost(message, repeated, tag = "1")]
    pub(crate) items: Vec<Image>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Uid {
    #[prost(int64, tag = "1")]
    pub(crate) value: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Image {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(string, repeated, tag = "2")]
    pub(crate) repo_tags: Vec<String>,
    #[prost(string, repeated, tag = "3")]
    pub(crate) repo_digests: Vec<String>,
    #[prost(uint64, tag = "4")]
    pub(crate) size: u64,
    #[prost(message, optional, tag = "5")]
    pub(crate) uid: Option<Uid>,
    #[prost(string, tag = "6")]
    pub(crate) username: String,
    #[prost(bool, tag = "8")]
    pub(crate) pinned: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RemoveImageRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) image: Option<ImageSpec>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StopContainerRequest {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(int64, tag = "2")]
    pub(crate) timeout: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerEvent {
    #[prost(string, tag = "1")]
    pub(crate) container_id: String,
    #[prost(int32, tag = "2")]
    pub(crate) kind: i32,
    #[prost(int64, tag = "3")]
    pub(crate) created_at: i64,
    #[prost(message, optional, tag = "4")]
    pub(crate) sandbox: Option<SandboxStatus>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) containers: Vec<ContainerStatus>,
}
