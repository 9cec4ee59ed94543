//! The client and its calls.

use crate::codec::Bounded;
use crate::error::{Asked, Error, lost};
use crate::socket::Socket;
use crate::wire;
use crate::{
    CgroupDriver, Condition, Container, ContainerStats, ContainerStatus, Filesystems, Image,
    Sandbox, SandboxStats, Version,
};
use http::uri::PathAndQuery;
use prost::Message;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};

const RUNTIME: &str = "runtime.v1.RuntimeService";
const IMAGE: &str = "runtime.v1.ImageService";
const EVENTS: &str = "GetContainerEvents";

/// The runtime's socket and the limits of calls.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `unix:///path` or a path. By default the first existing socket of [`usual_sockets`](crate::usual_sockets).
    pub endpoint: Option<String>,
    /// The deadline of a query, including the connect.
    pub question: Duration,
    /// The deadline of a call that changes something. `StopContainer` adds the grace period.
    pub change: Duration,
    /// The maximum size of an answer. The default of 16 MiB is the runtimes' own limit.
    pub message_bytes: usize,
    /// The maximum length of every list in an answer. The default, 20 000, is a hundred times what a full node has.
    pub entries: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            endpoint: None,
            question: Duration::from_secs(2),
            change: Duration::from_secs(30),
            message_bytes: 16 << 20,
            entries: 20_000,
        }
    }
}

/// The container runtime of this node. Clones share one connection, which the first call opens and later calls reopen.
/// All calls must run in the same tokio runtime.
#[derive(Debug, Clone)]
pub struct Client {
    socket: Arc<Socket>,
    settings: Arc<Settings>,
}

impl Client {
    /// Creates a client without connecting.
    ///
    /// # Errors
    /// [`Error::NotASocket`] if the configured endpoint is neither `unix://` with an absolute path nor an absolute
    /// path.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        Ok(Self {
            socket: Arc::new(Socket::new(settings.endpoint.as_deref())?),
            settings: Arc::new(settings),
        })
    }

    /// The configured or found socket; `None` until a call finds one.
    pub fn socket(&self) -> Option<&Path> {
        self.socket.path()
    }

    /// The runtime's name and version.
    pub async fn version(&self) -> Result<Version, Error> {
        let request = wire::VersionRequest {
            version: "v1".to_owned(),
        };
        let answer: wire::VersionResponse = self.question("Version", RUNTIME, request).await?;
        Ok(answer.into())
    }

    /// The conditions that the runtime reports, such as `RuntimeReady` and `NetworkReady`.
    pub async fn status(&self) -> Result<Vec<Condition>, Error> {
        let answer: wire::StatusResponse = self.question("Status", RUNTIME, wire::Empty {}).await?;
        let conditions = answer.status.unwrap_or_default().conditions;
        Ok(conditions.into_iter().map(Condition::from).collect())
    }

    /// The runtime's information beyond CRI as JSON documents. containerd's configuration is `config`.
    pub async fn info(&self) -> Result<BTreeMap<String, String>, Error> {
        let request = wire::StatusRequest { verbose: true };
        let answer: wire::StatusResponse = self.question("Status", RUNTIME, request).await?;
        Ok(answer.info)
    }

    /// The cgroup driver; `None` if the runtime does not report it (containerd before 2.0).
    pub async fn cgroup_driver(&self) -> Result<Option<CgroupDriver>, Error> {
        let answer: Option<wire::RuntimeConfigResponse> = optional(
            self.question("RuntimeConfig", RUNTIME, wire::Empty {})
                .await,
        )?;
        let linux = answer.and_then(|answer| answer.linux);
        Ok(linux.and_then(|linux| CgroupDriver::new(linux.cgroup_driver)))
    }

    /// All sandboxes in any state.
    pub async fn sandboxes(&self) -> Result<Vec<Sandbox>, Error> {
        let list: wire::Sandboxes = self
            .question("ListPodSandbox", RUNTIME, wire::Empty {})
            .await?;
        Ok(list.items.into_iter().map(Sandbox::from).collect())
    }

    /// All containers in any state.
    pub async fn containers(&self) -> Result<Vec<Container>, Error> {
        let list: wire::Containers = self
            .question("ListContainers", RUNTIME, wire::Empty {})
            .await?;
        Ok(list.items.into_iter().map(Container::from).collect())
    }

    /// The usage of each running sandbox; `None` if the runtime does not support it.
    pub async fn sandbox_stats(&self) -> Result<Option<Vec<SandboxStats>>, Error> {
        let list: Option<wire::SandboxStatsList> = optional(
            self.question("ListPodSandboxStats", RUNTIME, wire::Empty {})
                .await,
        )?;
        Ok(list.map(|list| list.items.into_iter().map(SandboxStats::from).collect()))
    }

    /// The usage of each container, with exited ones where the runtime lists them; `None` if it does not support it.
    pub async fn container_stats(&self) -> Result<Option<Vec<ContainerStats>>, Error> {
        let list: Option<wire::ContainerStatsList> = optional(
            self.question("ListContainerStats", RUNTIME, wire::Empty {})
                .await,
        )?;
        Ok(list.map(|list| list.items.into_iter().map(ContainerStats::from).collect()))
    }

    /// The status of one container; `None` if the runtime has no such container.
    pub async fn container(&self, id: &str) -> Result<Option<ContainerStatus>, Error> {
        let answer: Option<wire::ContainerStatusResponse> =
            found(self.question("ContainerStatus", RUNTIME, by(id)).await)?;
        Ok(answer
            .and_then(|answer| answer.status)
            .map(ContainerStatus::from))
    }

    /// The status of one sandbox; `None` if the runtime has no such sandbox.
    pub async fn sandbox(&self, id: &str) -> Result<Option<Sandbox>, Error> {
        let answer: Option<wire::SandboxStatusResponse> =
            found(self.question("PodSandboxStatus", RUNTIME, by(id)).await)?;
        Ok(answer.and_then(|answer| answer.status).map(Sandbox::from))
    }

    /// All images.
    pub async fn images(&self) -> Result<Vec<Image>, Error> {
        let list: wire::Images = self.question("ListImages", IMAGE, wire::Empty {}).await?;
        Ok(list.items.into_iter().map(Image::from).collect())
    }

    /// The filesystems of images and writable layers; `None` if the runtime does not support it.
    pub async fn filesystems(&self) -> Result<Option<Filesystems>, Error> {
        let answer: Option<wire::ImageFsInfo> =
            optional(self.question("ImageFsInfo", IMAGE, wire::Empty {}).await)?;
        Ok(answer.map(Filesystems::from))
    }

    /// Removes an image by id or name. Removing the id removes all its names. Layers in use stay on the disk.
    pub async fn remove_image(&self, image: &str) -> Result<(), Error> {
        let image = Some(wire::ImageSpec {
            image: image.to_owned(),
        });
        let request = wire::RemoveImageRequest { image };
        self.change("RemoveImage", IMAGE, request, Duration::ZERO)
            .await
    }

    /// Removes a container and its writable layer. A running container is killed first. A missing container counts as
    /// success.
    pub async fn remove_container(&self, id: &str) -> Result<(), Error> {
        self.change("RemoveContainer", RUNTIME, by(id), Duration::ZERO)
            .await
    }

    /// Removes a sandbox and all its containers. A missing sandbox counts as success.
    pub async fn remove_sandbox(&self, id: &str) -> Result<(), Error> {
        self.change("RemovePodSandbox", RUNTIME, by(id), Duration::ZERO)
            .await
    }

    /// Sends the stop signal to a container and kills it after `grace`, rounded up to whole seconds. Returns when it
    /// has exited.
    pub async fn stop_container(&self, id: &str, grace: Duration) -> Result<(), Error> {
        let seconds = grace
            .as_secs()
            .saturating_add(u64::from(grace.subsec_nanos() > 0));
        // At most a century, because the runtimes count nanoseconds and would overflow.
        let seconds = seconds.min(100 * 365 * 86_400);
        let request = wire::StopContainerRequest {
            id: id.to_owned(),
            timeout: i64::try_from(seconds).unwrap_or(i64::MAX),
        };
        self.change(
            "StopContainer",
            RUNTIME,
            request,
            Duration::from_secs(seconds),
        )
        .await
    }

    /// Kills the processes of a sandbox and releases its network.
    pub async fn stop_sandbox(&self, id: &str) -> Result<(), Error> {
        self.change("StopPodSandbox", RUNTIME, by(id), Duration::ZERO)
            .await
    }

    async fn question<Answer>(
        &self,
        call: &'static str,
        service: &str,
        request: impl Message + Clone + 'static,
    ) -> Result<Answer, Error>
    where
        Answer: Message + Default + 'static,
    {
        self.unary(call, service, request, self.settings.question)
            .await
    }

    async fn change(
        &self,
        call: &'static str,
        service: &str,
        request: impl Message + Clone + 'static,
        grace: Duration,
    ) -> Result<(), Error> {
        // The runtime answers after the grace period, so its time to answer begins then.
        let deadline = self.settings.change.saturating_add(grace);
        let answer: Result<wire::Empty, Error> = self.unary(call, service, request, deadline).await;
        answer.map(|_| ())
    }

    async fn unary<Answer>(
        &self,
        call: &'static str,
        service: &str,
        request: impl Message + Clone + 'static,
        deadline: Duration,
    ) -> Result<Answer, Error>
    where
        Answer: Message + Default + 'static,
    {
        let (socket, channel) = self.socket.channel(call)?;
        let asked = self.asked(call, socket, deadline);
        let answer = async {
            let status = match self.once(channel, &asked, service, request.clone()).await {
                // The runtime has restarted since the last call. Repeating these calls is safe.
                Err(status) if lost(&status) => self.once(channel, &asked, service, request).await,
                answer => answer,
            };
            match status {
                Ok(answer) => Ok(answer.into_inner()),
                Err(status) if status.code() == Code::Unimplemented => {
                    Err(self.unimplemented(channel, &asked, &status).await)
                }
                Err(status) => Err(asked.error(&status)),
            }
        };
        match tokio::time::timeout(deadline, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(asked.timed_out()),
        }
    }

    pub(crate) fn asked<'a>(
        &'a self,
        call: &'static str,
        socket: &'a Path,
        deadline: Duration,
    ) -> Asked<'a> {
        Asked {
            call,
            socket,
            deadline,
            message_bytes: self.settings.message_bytes,
            entries: self.settings.entries,
            foreign: self.socket.foreign(),
        }
    }

    async fn once<Answer>(
        &self,
        channel: &Channel,
        asked: &Asked<'_>,
        service: &str,
        request: impl Message + 'static,
    ) -> Result<Response<Answer>, Status>
    where
        Answer: Message + Default + 'static,
    {
        let mut grpc = tonic::client::Grpc::new(channel.clone())
            .max_decoding_message_size(asked.message_bytes);
        grpc.ready()
            .await
            .map_err(|error| Status::from_error(Box::new(error)))?;
        let mut request = Request::new(request);
        // The runtime then gives up, too.
        request.set_timeout(asked.deadline);
        grpc.unary(
            request,
            path(service, asked.call)?,
            Bounded::new(asked.entries),
        )
        .await
    }

    /// Opens the event stream. Returns after the first event.
    pub(crate) async fn stream(&self) -> Result<tonic::Streaming<wire::ContainerEvent>, Error> {
        let (socket, channel) = self.socket.channel(EVENTS)?;
        let asked = self.asked(EVENTS, socket, self.settings.question);
        let mut grpc = tonic::client::Grpc::new(channel.clone())
            .max_decoding_message_size(asked.message_bytes);
        let opened = async {
            grpc.ready()
                .await
                .map_err(|error| Status::from_error(Box::new(error)))?;
            let codec = Bounded::<wire::Empty, _>::new(asked.entries);
            let request = Request::new(wire::Empty {});
            grpc.server_streaming(request, path(RUNTIME, EVENTS)?, codec)
                .await
        };
        match opened.await {
            Ok(answer) => Ok(answer.into_inner()),
            Err(status) => Err(self.refused(&status).await),
        }
    }

    /// Why there is no event stream.
    pub(crate) async fn refused(&self, status: &Status) -> Error {
        let (socket, channel) = match self.socket.channel(EVENTS) {
            Ok(there) => there,
            Err(error) => return error,
        };
        let asked = self.asked(EVENTS, socket, self.settings.question);
        if status.code() != Code::Unimplemented {
            return asked.error(status);
        }
        let why = self.unimplemented(channel, &asked, status);
        match tokio::time::timeout(asked.deadline, why).await {
            Ok(error) => error,
            Err(_) => asked.timed_out(),
        }
    }

    /// Whether the runtime lacks only this call or all of CRI v1.
    async fn unimplemented(&self, channel: &Channel, asked: &Asked<'_>, status: &Status) -> Error {
        let version = Asked {
            call: "Version",
            ..*asked
        };
        let mut answers = false;
        for (service, old) in [(RUNTIME, false), ("runtime.v1alpha2.RuntimeService", true)] {
            let request = wire::VersionRequest::default();
            let answer: Result<Response<wire::VersionResponse>, Status> =
                self.once(channel, &version, service, request).await;
            match answer {
                Ok(_) if old => {
                    return Error::OldVersion {
                        call: asked.call,
                        socket: asked.socket.into(),
                    };
                }
                Ok(_) => answers = true,
                Err(status) if status.code() == Code::Unimplemented => {}
                Err(status) => return asked.error(&status),
            }
            // It speaks the API, so it is this one call that it lacks.
            if answers {
                return asked.error(status);
            }
        }
        match asked.error(status) {
            error @ Error::NotCri { .. } => error,
            _ => asked.not_cri("it speaks gRPC, but not runtime.v1; in containerd, is the plugin \"cri\" disabled?"),
        }
    }
}

fn path(service: &str, call: &str) -> Result<PathAndQuery, Status> {
    PathAndQuery::try_from(format!("/{service}/{call}"))
        .map_err(|error| Status::internal(error.to_string()))
}

fn by(id: &str) -> wire::ById {
    wire::ById { id: id.to_owned() }
}

/// Maps an unsupported call to `None`.
pub(crate) fn optional<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    unless(Code::Unimplemented, answer)
}

/// Maps a missing object to `None`.
fn found<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    unless(Code::NotFound, answer)
}

fn unless<T>(none: Code, answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(Error::Runtime { code, .. }) if code == none => Ok(None),
        Err(error) => Err(error),
    }
}
