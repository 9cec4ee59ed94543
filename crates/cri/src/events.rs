//! Container events.

use crate::client::{Client, optional};
use crate::wire;
use crate::{ContainerStatus, Error, Sandbox};
use jiff::Timestamp;
use std::fmt;
use std::pin::Pin;
use tonic::{Status, Streaming};

type Opening = Pin<Box<dyn Future<Output = Result<Streaming<wire::ContainerEvent>, Error>> + Send>>;

/// A container event.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The id of the container or sandbox.
    pub container: String,
    /// The kind of event.
    pub kind: EventKind,
    /// The time; `None` if the runtime does not report it.
    pub at: Option<Timestamp>,
    /// The sandbox after the event, unless it was removed.
    pub sandbox: Option<Sandbox>,
    /// The sandbox's containers after the event.
    pub containers: Vec<ContainerStatus>,
}

/// The kinds of container events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum EventKind {
    Created,
    Started,
    Stopped,
    Deleted,
    /// A kind that is newer than this crate.
    Other(i32),
}

/// The event stream. After an error the next call reopens it. Events in between are lost, so list the containers again.
pub struct Events {
    client: Client,
    state: State,
}

enum State {
    Closed,
    /// A runtime may send its first answer with the first event, which can be days later.
    Opening(Opening),
    Open(Box<Streaming<wire::ContainerEvent>>),
}

impl Client {
    /// Subscribes to container events. The first [`Events::next`] connects.
    pub fn events(&self) -> Events {
        Events {
            client: self.clone(),
            state: State::Closed,
        }
    }
}

impl Events {
    /// Waits for the next event without a deadline. Dropping the future loses no event. `None` if the runtime has no
    /// events (containerd before 1.7).
    ///
    /// # Errors
    /// Those of every call; [`Error::Unavailable`] if the runtime closed the stream.
    pub async fn next(&mut self) -> Result<Option<Event>, Error> {
        loop {
            match &mut self.state {
                // The state outlives this future, which a caller drops whenever something else happens first.
                State::Closed => {
                    let client = self.client.clone();
                    self.state = State::Opening(Box::pin(async move { client.stream().await }));
                }
                State::Opening(opening) => {
                    // Closed before the result is looked at, so that an error leads to another attempt.
                    let opened = opening.await;
                    self.state = State::Closed;
                    match optional(opened)? {
                        Some(stream) => self.state = State::Open(Box::new(stream)),
                        None => return Ok(None),
                    }
                }
                State::Open(stream) => {
                    let message = stream.message().await;
                    if let Ok(Some(event)) = message {
                        return Ok(Some(event.into()));
                    }
                    self.state = State::Closed;
                    let ended = || Status::unavailable("it ended the stream of events");
                    let status = message.err().unwrap_or_else(ended);
                    let none: Option<Event> = optional(Err(self.client.refused(&status).await))?;
                    return Ok(none);
                }
            }
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Events")
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}

impl From<wire::ContainerEvent> for Event {
    fn from(event: wire::ContainerEvent) -> Self {
        Self {
            container: event.container_id,
            kind: match event.kind {
                0 => EventKind::Created,
                1 => EventKind::Started,
                2 => EventKind::Stopped,
                3 => EventKind::Deleted,
                other => EventKind::Other(other),
            },
            at: crate::timestamp(event.created_at),
            sandbox: event.sandbox.map(Sandbox::from),
            containers: event
                .containers
                .into_iter()
                .map(ContainerStatus::from)
                .collect(),
        }
    }
}
