//! Reads a list while it arrives.

use super::body::{next_data, open, unparsable, watch_error};
use super::follow::parsed;
use super::health::Handle;
use super::incoming::{Arrived, Incoming, TooLong};
use super::split::{Items, Piece, Split};
use super::{Follow, Unreadable, WatchError, Watches};
use crate::message::Peer;
use kube::Client;
use kube::client::Body;
use serde::Deserialize;

/// Passes every object of the list at this path to the follower as it arrives; the caller then reports the end of
/// the list.
pub(crate) async fn read_list(
    client: Client,
    path: &str,
    follower: &mut impl Follow,
) -> Result<(), WatchError> {
    let request = hyper::Request::get(path)
        .body(Vec::new())
        .map_err(|error| watch_error(&error))?;
    let body = open(&client, request, Peer::Kubelet).await?;
    let health = Watches::default().add(path, "");
    objects(body, &health, follower).await.map(drop)
}

/// Passes on the objects of a list; returns the list without them.
pub(super) async fn objects<F: Follow>(
    mut body: Body,
    health: &Handle,
    follower: &mut F,
) -> Result<ListEnd, WatchError> {
    follower.begin();
    let mut items = Items::default();
    let mut incoming = Incoming::<F::Object>::new(false, health.budget());
    while let Some(data) = next_data(&mut body, &incoming).await? {
        let data = data.map_err(|error| watch_error(&error))?;
        let mut bytes = &*data;
        while let Some(piece) = items.next(&mut bytes) {
            match piece {
                Piece::Part(part) => incoming.push(part).await,
                Piece::End => {
                    let (object, length) = match incoming.end().await {
                        Arrived::Short(text) => {
                            let (object, length) = (parsed(&text), text.len());
                            incoming.recycle(text);
                            (object, length)
                        }
                        Arrived::Long(length, object) => (object.map_err(Unreadable::from), length),
                    };
                    if object.is_err() {
                        health.skipped();
                    }
                    follower.applied(object, length);
                    follower.room().await;
                }
            }
        }
    }
    serde_json::from_slice::<List>(items.rest())
        .map(|list| list.metadata)
        .map_err(|error| unparsable(&error))
}

impl From<TooLong> for Unreadable {
    fn from(object: TooLong) -> Self {
        Self {
            outline: object.outline,
            problem: object.problem,
        }
    }
}

/// A list without its items.
#[derive(Deserialize)]
struct List {
    #[serde(default)]
    metadata: ListEnd,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ListEnd {
    pub(super) resource_version: String,
}
