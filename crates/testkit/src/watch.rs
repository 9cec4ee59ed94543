//! Watches: the objects that exist, if requested, and then every change.

use crate::body::{self, Cut, Lines};
use crate::call::Call;
use crate::cluster::Cluster;
use crate::event;
use crate::read::{known_version, selection};
use crate::resource::Resource;
use crate::select::Selection;
use crate::status::Status;
use hyper::body::Bytes;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// A watch that names no time ends after this.
const LONGEST: Duration = Duration::from_mins(30);

/// One watch on its way.
#[derive(Debug)]
pub(crate) struct Watch {
    resource: &'static Resource,
    namespace: String,
    selection: Selection,
    /// Everything up to this version was sent.
    version: u64,
    bookmarks: bool,
    /// Sent before any change.
    first: Vec<Bytes>,
    ends: Instant,
    /// Bytes after which the connection is cut.
    cut: Option<usize>,
}

impl Watch {
    pub(crate) fn new(cluster: &Cluster, call: &Call, cut: Option<usize>) -> Result<Self, Status> {
        let selection = selection(call)?;
        let streaming = checked_streaming(cluster, call)?;
        let store = cluster.store();
        let asked = known_version(&store, call)?;
        let bookmarks = call.asks("allowWatchBookmarks");
        let mut watch = Self {
            resource: call.resource,
            namespace: call.namespace.clone(),
            selection,
            version: if asked == 0 || streaming {
                store.version
            } else {
                asked
            },
            bookmarks,
            first: Vec::new(),
            cut,
            ends: Instant::now()
                + call
                    .number("timeoutSeconds")?
                    .map_or(LONGEST, Duration::from_secs),
        };
        // Without a version a watch begins with the objects that exist.
        if streaming || (asked == 0 && call.option("sendInitialEvents") != "false") {
            for (_, object) in store.list(watch.resource.stored, &watch.namespace) {
                if watch.selection.matches(object) {
                    watch.first.push(watch.line("ADDED", object));
                }
            }
        }
        // This bookmark ends the initial list of a streaming client.
        if streaming && bookmarks {
            let annotations = json!({"k8s.io/initial-events-end": "true"});
            watch.first.push(watch.bookmark(&annotations));
        }
        Ok(watch)
    }

    fn line(&self, kind: &str, object: &Value) -> Bytes {
        let object = event::shown(object, self.resource);
        encoded(kind, &object)
    }

    fn bookmark(&self, annotations: &Value) -> Bytes {
        let mut metadata = json!({"resourceVersion": self.version.to_string()});
        if !annotations.is_null() {
            metadata["annotations"] = annotations.clone();
        }
        let object = json!({
            "kind": self.resource.kind, "apiVersion": self.resource.api_version(), "metadata": metadata,
        });
        encoded("BOOKMARK", &object)
    }

    /// The changes since the last call; `Err` holds the last line of a watch that is too far behind.
    fn news(&mut self, cluster: &Cluster) -> Result<Vec<Bytes>, Bytes> {
        let store = cluster.store();
        let Some(changes) = store.since(self.version) else {
            let message = format!(
                "too old resource version: {} ({})",
                self.version,
                store.compacted + 1
            );
            return Err(encoded("ERROR", &Status::expired(message).object()));
        };
        let mut lines = Vec::new();
        for change in changes {
            let key = &change.key;
            let here = self.namespace.is_empty() || self.namespace == key.namespace;
            if key.stored == self.resource.stored && here {
                // A change of labels may move the object into or out of the selection.
                let seen = change.seen(&self.selection);
                lines.extend(seen.map(|(kind, object)| self.line(kind, &object)));
            }
        }
        self.version = store.version;
        Ok(lines)
    }

    /// Sends until the watch's time is over, the receiver is dropped, or watches are cut.
    pub(crate) async fn run(mut self, cluster: &Cluster, lines: &Lines) {
        let mut stirred = cluster.stirred();
        let mut cuts = cluster.cuts.subscribe();
        let mut next = std::mem::take(&mut self.first);
        loop {
            for line in next {
                let length = line.len();
                cluster.count(|counters| counters.bytes += length as u64);
                if lines.send(Ok(line)).await.is_err() {
                    return;
                }
                // Only whole lines are cut off, so that the client fails on the connection and not on half an event.
                self.cut = self.cut.map(|left| left.saturating_sub(length));
                if self.cut == Some(0) {
                    let _ = lines.send(Err(Cut)).await;
                    return;
                }
            }
            next = match self.news(cluster) {
                Ok(news) if !news.is_empty() => news,
                Err(last) => {
                    let _ = lines.send(Ok(last)).await;
                    return;
                }
                Ok(_) => {
                    let interval = cluster.settings().bookmark_interval;
                    tokio::select! {
                        changed = stirred.changed() => match changed {
                            Ok(()) => Vec::new(),
                            Err(_) => return,
                        },
                        () = lines.closed() => return,
                        _ = cuts.changed() => {
                            let _ = lines.send(Err(Cut)).await;
                            return;
                        }
                        () = tokio::time::sleep_until(self.ends) => {
                            // It lets the next watch begin where this one ends.
                            if self.bookmarks {
                                let _ = lines.send(Ok(self.bookmark(&Value::Null))).await;
                            }
                            return;
                        }
                        () = tokio::time::sleep(interval), if self.bookmarks => {
                            vec![self.bookmark(&Value::Null)]
                        }
                    }
                }
            };
        }
    }
}

fn encoded(kind: &str, object: &Value) -> Bytes {
    let event = json!({"type": kind, "object": object});
    format!("{}\n", body::encoded(&event)).into()
}

/// Whether the watch asks for a streaming list, and may.
fn checked_streaming(cluster: &Cluster, call: &Call) -> Result<bool, Status> {
    let asked = call.option("sendInitialEvents");
    let refused = |field: &str, why: &str| {
        let message = format!("ListOptions.meta.k8s.io \"\" is invalid: {field}: Forbidden: {why}");
        Err(Status::new(422, "Invalid", message))
    };
    if asked.is_empty() {
        if !call.option("resourceVersionMatch").is_empty() {
            return refused(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            );
        }
        return Ok(false);
    }
    if !cluster.settings().streaming_lists {
        return refused(
            "sendInitialEvents",
            "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
        );
    }
    if cluster.settings().old_etcd {
        let message = "a watch stream was requested by the client but the required storage feature \
                       RequestWatchProgress is disabled";
        return Err(Status::new(500, "InternalError", message));
    }
    if call.option("resourceVersionMatch") != "NotOlderThan" {
        return refused(
            "resourceVersionMatch",
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        );
    }
    Ok(asked == "true")
}
