//! The messages of CRI v1 that the double answers with and the driver sends, by their names in `runtime/v1/api.proto`.
#![allow(missing_docs, reason = "they are explained where CRI is")]

use prost::Message;
use std::collections::BTreeMap;

pub type Words = BTreeMap<String, String>;

/// An answer without fields that are used.
#[derive(Clone, PartialEq, Message)]
pub struct Empty {}

/// A question that names one object by its id.
#[derive(Clone, PartialEq, Message)]
pub struct ById {
    #[prost(string, tag = "1")]
    pub id: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct VersionRequest {
    #[prost(string, tag = "1")]
    pub version: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct VersionResponse {
    #[prost(string, tag = "2")]
    pub runtime_name: String,
    #[prost(string, tag = "3")]
    pub runtime_version: String,
    #[prost(string, tag = "4")]
    pub runtime_api_version: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct StatusRequest {
    #[prost(bool, tag = "1")]
    pub verbose: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub status: Option<RuntimeStatus>,
    #[prost(btree_map = "string, string", tag = "2")]
    pub info: Words,
}

#[derive(Clone, PartialEq, Message)]
pub struct RuntimeStatus {
    #[prost(message, repeated, tag = "1")]
    pub conditions: Vec<RuntimeCondition>,
}

#[derive(Clone, PartialEq, Message)]
pub struct RuntimeCondition {
    #[prost(string, tag = "1")]
    pub kind: String,
    #[prost(bool, tag = "2")]
    pub status: bool,
    #[prost(string, tag = "3")]
    pub reason: String,
    #[prost(string, tag = "4")]
    pub message: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct RuntimeConfigResponse {
    #[prost(message, optional, tag = "1")]
    pub linux: Option<LinuxRuntimeConfiguration>,
}

#[derive(Clone, PartialEq, Message)]
pub struct LinuxRuntimeConfiguration {
    #[prost(int32, tag = "1")]
    pub cgroup_driver: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct Sandboxes {
    #[prost(message, repeated, tag = "1")]
    pub items: Vec<Sandbox>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SandboxMetadata {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub uid: String,
    #[prost(string, tag = "3")]
    pub namespace: String,
    #[prost(uint32, tag = "4")]
    pub attempt: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct Sandbox {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(message, optional, tag = "2")]
    pub metadata: Option<SandboxMetadata>,
    #[prost(int32, tag = "3")]
    pub state: i32,
    #[prost(int64, tag = "4")]
    pub created_at: i64,
    #[prost(btree_map = "string, string", tag = "5")]
    pub labels: Words,
    #[prost(btree_map = "string, string", tag = "6")]
    pub annotations: Words,
    #[prost(string, tag = "7")]
    pub runtime_handler: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct SandboxStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub status: Option<SandboxStatus>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SandboxStatus {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(message, optional, tag = "2")]
    pub metadata: Option<SandboxMetadata>,
    #[prost(int32, tag = "3")]
    pub state: i32,
    #[prost(int64, tag = "4")]
    pub created_at: i64,
    #[prost(btree_map = "string, string", tag = "7")]
    pub labels: Words,
    #[prost(btree_map = "string, string", tag = "8")]
    pub annotations: Words,
    #[prost(string, tag = "9")]
    pub runtime_handler: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Containers {
    #[prost(message, repeated, tag = "1")]
    pub items: Vec<Container>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ContainerMetadata {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(uint32, tag = "2")]
    pub attempt: u32,
}

/// How an image was asked for.
#[derive(Clone, PartialEq, Message)]
pub struct ImageSpec {
    #[prost(string, tag = "1")]
    pub image: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Container {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(string, tag = "2")]
    pub sandbox_id: String,
    #[prost(message, optional, tag = "3")]
    pub metadata: Option<ContainerMetadata>,
    #[prost(message, optional, tag = "4")]
    pub image: Option<ImageSpec>,
    #[prost(string, tag = "5")]
    pub image_ref: String,
    #[prost(int32, tag = "6")]
    pub state: i32,
    #[prost(int64, tag = "7")]
    pub created_at: i64,
    #[prost(btree_map = "string, string", tag = "8")]
    pub labels: Words,
    #[prost(btree_map = "string, string", tag = "9")]
    pub annotations: Words,
    #[prost(string, tag = "10")]
    pub image_id: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct ContainerStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub status: Option<ContainerStatus>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ContainerStatus {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(message, optional, tag = "2")]
    pub metadata: Option<ContainerMetadata>,
    #[prost(int32, tag = "3")]
    pub state: i32,
    #[prost(int64, tag = "4")]
    pub created_at: i64,
    #[prost(int64, tag = "5")]
    pub started_at: i64,
    #[prost(int64, tag = "6")]
    pub finished_at: i64,
    #[prost(int32, tag = "7")]
    pub exit_code: i32,
    #[prost(message, optional, tag = "8")]
    pub image: Option<ImageSpec>,
    #[prost(string, tag = "9")]
    pub image_ref: String,
    #[prost(string, tag = "10")]
    pub reason: String,
    #[prost(string, tag = "11")]
    pub message: String,
    #[prost(btree_map = "string, string", tag = "12")]
    pub labels: Words,
    #[prost(btree_map = "string, string", tag = "13")]
    pub annotations: Words,
    #[prost(string, tag = "15")]
    pub log_path: String,
    #[prost(message, optional, tag = "16")]
    pub resources: Option<ContainerResources>,
    #[prost(string, tag = "17")]
    pub image_id: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct ContainerResources {
    #[prost(message, optional, tag = "1")]
    pub linux: Option<LinuxResources>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct LinuxResources {
    #[prost(int64, tag = "1")]
    pub cpu_period: i64,
    #[prost(int64, tag = "2")]
    pub cpu_quota: i64,
    #[prost(int64, tag = "3")]
    pub cpu_shares: i64,
    #[prost(int64, tag = "4")]
    pub memory_limit_in_bytes: i64,
    #[prost(int64, tag = "5")]
    pub oom_score_adj: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct SandboxStatsList {
    #[prost(message, repeated, tag = "1")]
    pub items: Vec<SandboxStats>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SandboxStats {
    #[prost(message, optional, tag = "1")]
    pub attributes: Option<SandboxAttributes>,
    #[prost(message, optional, tag = "2")]
    pub linux: Option<LinuxSandboxStats>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SandboxAttributes {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(message, optional, tag = "2")]
    pub metadata: Option<SandboxMetadata>,
}

#[derive(Clone, PartialEq, Message)]
pub struct LinuxSandboxStats {
    #[prost(message, optional, tag = "1")]
    pub cpu: Option<CpuUsage>,
    #[prost(message, optional, tag = "2")]
    pub memory: Option<MemoryUsage>,
    #[prost(message, optional, tag = "4")]
    pub process: Option<ProcessUsage>,
    #[prost(message, repeated, tag = "5")]
    pub containers: Vec<ContainerStats>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct ProcessUsage {
    #[prost(message, optional, tag = "2")]
    pub process_count: Option<Count>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ContainerStatsList {
    #[prost(message, repeated, tag = "1")]
    pub items: Vec<ContainerStats>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ContainerStats {
    #[prost(message, optional, tag = "1")]
    pub attributes: Option<ContainerAttributes>,
    #[prost(message, optional, tag = "2")]
    pub cpu: Option<CpuUsage>,
    #[prost(message, optional, tag = "3")]
    pub memory: Option<MemoryUsage>,
    #[prost(message, optional, tag = "4")]
    pub writable_layer: Option<FilesystemUsage>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ContainerAttributes {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(message, optional, tag = "2")]
    pub metadata: Option<ContainerMetadata>,
}

/// A figure that may be missing, which zero does not say.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Count {
    #[prost(uint64, tag = "1")]
    pub value: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct CpuUsage {
    #[prost(int64, tag = "1")]
    pub timestamp: i64,
    #[prost(message, optional, tag = "2")]
    pub usage_core_nano_seconds: Option<Count>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct MemoryUsage {
    #[prost(int64, tag = "1")]
    pub timestamp: i64,
    #[prost(message, optional, tag = "2")]
    pub working_set_bytes: Option<Count>,
    #[prost(message, optional, tag = "4")]
    pub usage_bytes: Option<Count>,
    #[prost(message, optional, tag = "5")]
    pub rss_bytes: Option<Count>,
}

#[derive(Clone, PartialEq, Message)]
pub struct FilesystemUsage {
    #[prost(int64, tag = "1")]
    pub timestamp: i64,
    #[prost(message, optional, tag = "2")]
    pub identifier: Option<FilesystemIdentifier>,
    #[prost(message, optional, tag = "3")]
    pub used_bytes: Option<Count>,
    #[prost(message, optional, tag = "4")]
    pub inodes_used: Option<Count>,
}

#[derive(Clone, PartialEq, Message)]
pub struct FilesystemIdentifier {
    #[prost(string, tag = "1")]
    pub mountpoint: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct ImageFsInfo {
    #[prost(message, repeated, tag = "1")]
    pub images: Vec<FilesystemUsage>,
    #[prost(message, repeated, tag = "2")]
    pub containers: Vec<FilesystemUsage>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Images {
    #[prost(message, repeated, tag = "1")]
    pub items: Vec<Image>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct Uid {
    #[prost(int64, tag = "1")]
    pub value: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Image {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(string, repeated, tag = "2")]
    pub repo_tags: Vec<String>,
    #[prost(string, repeated, tag = "3")]
    pub repo_digests: Vec<String>,
    #[prost(uint64, tag = "4")]
    pub size: u64,
    #[prost(message, optional, tag = "5")]
    pub uid: Option<Uid>,
    #[prost(string, tag = "6")]
    pub username: String,
    #[prost(bool, tag = "8")]
    pub pinned: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct RemoveImageRequest {
    #[prost(message, optional, tag = "1")]
    pub image: Option<ImageSpec>,
}

#[derive(Clone, PartialEq, Message)]
pub struct StopContainerRequest {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(int64, tag = "2")]
    pub timeout: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct ContainerEvent {
    #[prost(string, tag = "1")]
    pub container_id: String,
    #[prost(int32, tag = "2")]
    pub kind: i32,
    #[prost(int64, tag = "3")]
    pub created_at: i64,
    #[prost(message, optional, tag = "4")]
    pub sandbox: Option<SandboxStatus>,
    #[prost(message, repeated, tag = "5")]
    pub containers: Vec<ContainerStatus>,
}

#[derive(Clone, PartialEq, Message)]
pub struct NamespaceOption {
    #[prost(int32, tag = "1")]
    pub network: i32,
    #[prost(int32, tag = "2")]
    pub pid: i32,
    #[prost(int32, tag = "3")]
    pub ipc: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct SandboxSecurity {
    #[prost(message, optional, tag = "1")]
    pub namespaces: Option<NamespaceOption>,
}

#[derive(Clone, PartialEq, Message)]
pub struct LinuxSandboxConfig {
    #[prost(string, tag = "1")]
    pub cgroup_parent: String,
    #[prost(message, optional, tag = "2")]
    pub security: Option<SandboxSecurity>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SandboxConfig {
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<SandboxMetadata>,
    #[prost(string, tag = "2")]
    pub hostname: String,
    #[prost(string, tag = "3")]
    pub log_directory: String,
    #[prost(btree_map = "string, string", tag = "6")]
    pub labels: Words,
    #[prost(btree_map = "string, string", tag = "7")]
    pub annotations: Words,
    #[prost(message, optional, tag = "8")]
    pub linux: Option<LinuxSandboxConfig>,
}

#[derive(Clone, PartialEq, Message)]
pub struct RunSandboxRequest {
    #[prost(message, optional, tag = "1")]
    pub config: Option<SandboxConfig>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Mount {
    #[prost(string, tag = "1")]
    pub container_path: String,
    #[prost(string, tag = "2")]
    pub host_path: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct ContainerSecurity {
    #[prost(message, optional, tag = "3")]
    pub namespaces: Option<NamespaceOption>,
}

#[derive(Clone, PartialEq, Message)]
pub struct LinuxContainerConfig {
    #[prost(message, optional, tag = "1")]
    pub resources: Option<LinuxResources>,
    #[prost(message, optional, tag = "2")]
    pub security: Option<ContainerSecurity>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ContainerConfig {
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<ContainerMetadata>,
    #[prost(message, optional, tag = "2")]
    pub image: Option<ImageSpec>,
    #[prost(string, repeated, tag = "3")]
    pub command: Vec<String>,
    #[prost(message, repeated, tag = "7")]
    pub mounts: Vec<Mount>,
    #[prost(btree_map = "string, string", tag = "9")]
    pub labels: Words,
    #[prost(btree_map = "string, string", tag = "10")]
    pub annotations: Words,
    #[prost(string, tag = "11")]
    pub log_path: String,
    #[prost(message, optional, tag = "15")]
    pub linux: Option<LinuxContainerConfig>,
}

#[derive(Clone, PartialEq, Message)]
pub struct CreateContainerRequest {
    #[prost(string, tag = "1")]
    pub sandbox_id: String,
    #[prost(message, optional, tag = "2")]
    pub config: Option<ContainerConfig>,
    #[prost(message, optional, tag = "3")]
    pub sandbox_config: Option<SandboxConfig>,
}
