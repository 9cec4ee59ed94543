//! The state of the double, and how calls change it.

use super::grpc::{Refusal, UNIMPLEMENTED};
use super::wire;
use prost::Message;
use prost::bytes::Bytes;
use std::collections::BTreeMap;

/// Nanoseconds between two counts of writable layers.
const COUNTING: u128 = 10_000_000_000;
const NOT_FOUND: u8 = 5;
const INVALID: u8 = 3;

/// The state of a runtime, as the messages of its answers. Calls that stop and remove change it.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub struct State {
    pub version: wire::VersionResponse,
    pub conditions: Vec<wire::RuntimeCondition>,
    pub config: wire::RuntimeConfigResponse,
    /// Of `Status`, if it is asked for.
    pub info: BTreeMap<String, String>,
    pub sandboxes: Vec<wire::Sandbox>,
    pub containers: Vec<wire::Container>,
    /// The fields that only a container's status has; the others come from the list.
    pub statuses: Vec<wire::ContainerStatus>,
    pub sandbox_stats: Vec<wire::SandboxStats>,
    pub container_stats: Vec<wire::ContainerStats>,
    pub images: Vec<wire::Image>,
    pub filesystems: wire::ImageFsInfo,
    /// The grace period in seconds of each `StopContainer`, by container.
    pub stopped: Vec<(String, i64)>,
}

fn read<M: Message + Default>(bytes: Bytes) -> Result<M, Refusal> {
    M::decode(bytes).map_err(|error| (INVALID, error.to_string()))
}

fn none(what: &str, id: &str) -> Refusal {
    (NOT_FOUND, format!("no {what} {id}"))
}

impl State {
    pub(crate) fn answer(&mut self, call: &str, request: Bytes) -> Result<Vec<u8>, Refusal> {
        let nothing = Ok(Vec::new());
        Ok(match call {
            "Version" => self.version.encode_to_vec(),
            "Status" => {
                let conditions = self.conditions.clone();
                let status = Some(wire::RuntimeStatus { conditions });
                let verbose = read::<wire::StatusRequest>(request)?.verbose;
                let info = if verbose {
                    self.info.clone()
                } else {
                    BTreeMap::default()
                };
                wire::StatusResponse { status, info }.encode_to_vec()
            }
            "RuntimeConfig" => self.config.encode_to_vec(),
            "ListPodSandbox" => {
                let items = self.sandboxes.clone();
                wire::Sandboxes { items }.encode_to_vec()
            }
            "ListContainers" => {
                let items = self.containers.clone();
                wire::Containers { items }.encode_to_vec()
            }
            "ListPodSandboxStats" => {
                let items = self.sandbox_stats.clone();
                wire::SandboxStatsList { items }.encode_to_vec()
            }
            "ListContainerStats" => {
                let items = self.counted();
                wire::ContainerStatsList { items }.encode_to_vec()
            }
            "ListImages" => {
                let items = self.images.clone();
                wire::Images { items }.encode_to_vec()
            }
            "ImageFsInfo" => self.filesystems.encode_to_vec(),
            "ContainerStatus" => self.container(&read::<wire::ById>(request)?.id)?,
            "PodSandboxStatus" => self.sandbox(&read::<wire::ById>(request)?.id)?,
            "StopContainer" => return self.stop(read(request)?),
            "StopPodSandbox" => {
                let id = read::<wire::ById>(request)?.id;
                self.end(|container| container.sandbox_id == id);
                for sandbox in self.sandboxes.iter_mut().filter(|sandbox| sandbox.id == id) {
                    sandbox.state = 1;
                }
                return nothing;
            }
            "RemoveContainer" => {
                let id = read::<wire::ById>(request)?.id;
                self.containers.retain(|container| container.id != id);
                self.statuses.retain(|status| status.id != id);
                return nothing;
            }
            "RemovePodSandbox" => {
                let id = read::<wire::ById>(request)?.id;
                self.containers
                    .retain(|container| container.sandbox_id != id);
                self.sandboxes.retain(|sandbox| sandbox.id != id);
                return nothing;
            }
            "RemoveImage" => {
                let name = read::<wire::RemoveImageRequest>(request)?
                    .image
                    .unwrap_or_default()
                    .image;
                self.images
                    .retain(|image| image.id != name && !image.repo_tags.contains(&name));
                return nothing;
            }
            _ => return Err((UNIMPLEMENTED, format!("unknown method {call}"))),
        })
    }

    /// As containerd, which counts every 10 s: of a younger container it knows no layer, and says so with zeros.
    fn counted(&self) -> Vec<wire::ContainerStats> {
        let now = u128::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap_or(0);
        let is_young = |stats: &wire::ContainerStats| {
            let id = stats.attributes.as_ref().map(|attributes| &attributes.id);
            let listed = self.containers.iter().find(|one| Some(&one.id) == id);
            listed.is_some_and(|one| {
                u128::try_from(one.created_at).is_ok_and(|created| created + COUNTING > now)
            })
        };
        let mut all = self.container_stats.clone();
        for stats in all.iter_mut().filter(|stats| is_young(stats)) {
            if let Some(layer) = &mut stats.writable_layer {
                layer.timestamp = 0;
                layer.used_bytes = Some(wire::Count { value: 0 });
                layer.inodes_used = Some(wire::Count { value: 0 });
            }
        }
        all
    }

    fn container(&self, id: &str) -> Result<Vec<u8>, Refusal> {
        let found = self.containers.iter().find(|container| container.id == id);
        let listed = found.ok_or_else(|| none("container", id))?.clone();
        let known = self.statuses.iter().find(|status| status.id == id);
        let status = Some(wire::ContainerStatus {
            id: listed.id,
            metadata: listed.metadata,
            state: listed.state,
            created_at: listed.created_at,
            image: listed.image,
            image_ref: listed.image_ref,
            image_id: listed.image_id,
            labels: listed.labels,
            annotations: listed.annotations,
            ..known.cloned().unwrap_or_default()
        });
        Ok(wire::ContainerStatusResponse { status }.encode_to_vec())
    }

    fn sandbox(&self, id: &str) -> Result<Vec<u8>, Refusal> {
        let found = self.sandboxes.iter().find(|sandbox| sandbox.id == id);
        let listed = found.ok_or_else(|| none("sandbox", id))?.clone();
        let status = Some(wire::SandboxStatus {
            id: listed.id,
            metadata: listed.metadata,
            state: listed.state,
            created_at: listed.created_at,
            labels: listed.labels,
            annotations: listed.annotations,
            runtime_handler: listed.runtime_handler,
        });
        Ok(wire::SandboxStatusResponse { status }.encode_to_vec())
    }

    fn stop(&mut self, request: wire::StopContainerRequest) -> Result<Vec<u8>, Refusal> {
        if !self
            .containers
            .iter()
            .any(|container| container.id == request.id)
        {
            return Err(none("container", &request.id));
        }
        self.end(|container| container.id == request.id);
        self.stopped.push((request.id, request.timeout));
        Ok(Vec::new())
    }

    fn end(&mut self, which: impl Fn(&wire::Container) -> bool) {
        for container in self
            .containers
            .iter_mut()
            .filter(|container| which(container))
        {
            container.state = 2;
        }
    }
}
