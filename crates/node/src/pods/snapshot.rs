//! The pods as last known, in a file in the runtime directory: a restarted agent works with them until its source
//! answers.

use super::Listing;
use crate::{regular_file, whole_file};
use evictd_kernel::clock::Clock;
use evictd_pod::wire;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use std::{collections::BTreeSet, io, path::PathBuf, sync::Arc, time::Duration};
use tokio::{sync::watch, task::spawn_blocking, time::timeout};

/// File name in the runtime directory.
const FILE: &str = "pods.json";
/// Changes within this time are written together.
const SETTLING: Duration = Duration::from_secs(1);
/// Without changes the file is rewritten this often, so that its age shows when the pods were last certain.
const RENEWAL: Duration = Duration::from_mins(1);

/// The content of the file.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    /// The pods in their API form, each a separate JSON document.
    pub(super) pods: Vec<Box<RawValue>>,
    /// When the pods were certain.
    pub(super) as_of: Option<Timestamp>,
}

/// A v1 `PodList` with its time and node.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    as_of: Timestamp,
    node: String,
    items: Vec<Box<RawValue>>,
}

/// The file; `directory` is created if it does not exist.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotFile {
    directory: PathBuf,
    node: String,
    labels: BTreeSet<String>,
}

impl SnapshotFile {
    /// In this directory, for the pods of this node; `labels` are the label keys that selectors use.
    pub(crate) fn new(directory: PathBuf, node: String, labels: BTreeSet<String>) -> Self {
        Self {
            directory,
            node,
            labels,
        }
    }

    /// Label keys that are kept however many labels a pod has.
    pub(super) fn labels(&self) -> BTreeSet<String> {
        self.labels.clone()
    }

    pub(super) fn path(&self) -> PathBuf {
        self.directory.join(FILE)
    }

    /// Whether the file exists.
    pub(crate) fn exists(&self) -> bool {
        self.path().exists()
    }

    /// The content; empty if there is no file. `Err` says why the file cannot be used.
    pub(super) fn read(&self) -> Result<Snapshot, String> {
        let text = match regular_file::read(&self.path()) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Snapshot::default()),
            Err(error) => return Err(error.to_string()),
        };
        let document: Document = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        if document.node != self.node {
            return Err(format!("it is about node {}", document.node));
        }
        Ok(Snapshot {
            pods: document.items,
            as_of: Some(document.as_of),
        })
    }

    /// Writes every listing that is certain until the source ends. A failure to write is logged once.
    pub(super) async fn follow(self, mut listings: watch::Receiver<Arc<Listing>>, clock: Clock) {
        let mut logged = None;
        loop {
            if let Ok(Err(_)) = timeout(RENEWAL, listings.changed()).await {
                return;
            }
            tokio::time::sleep(SETTLING).await;
            let listing = Arc::clone(&listings.borrow_and_update());
            if listing.stale.is_some() {
                continue;
            }
            let text = self.document(&listing, clock.now());
            drop(listing);
            let keep = self.clone();
            // The file is usually in memory, but may be on a disk that hangs.
            let written = spawn_blocking(move || {
                whole_file::write(&keep.directory, FILE, 0o600, text.as_bytes())
            })
            .await;
            let problem = written
                .ok()
                .and_then(Result::err)
                .map(|error| error.to_string());
            if let Some(problem) = problem
                .as_ref()
                .filter(|problem| logged.as_ref() != Some(*problem))
            {
                tracing::warn!(
                    "cannot save the pods in {} for a restart: {problem}",
                    self.path().display()
                );
            }
            logged = problem;
        }
    }

    fn document(&self, listing: &Listing, as_of: Timestamp) -> String {
        let pods: Vec<&str> = listing
            .pods
            .iter()
            .filter_map(|listed| listed.wire.as_deref())
            .collect();
        let (node, items) = (Value::from(self.node.as_str()), pods.join(",\n"));
        format!(
            "{{\"apiVersion\":\"v1\",\"kind\":\"PodList\",\"asOf\":\"{as_of}\",\"node\":{node},\"items\":[\n{items}\n]}}\n"
        )
    }
}

/// The part of a pod that is kept: only the fields that evictd uses, so that secrets and large texts are not stored.
pub(super) fn kept(pod: &wire::Pod) -> Arc<str> {
    let mut value = serde_json::to_value(pod).unwrap_or_default();
    prune(&mut value);
    value.to_string().into()
}

/// Removes empty values: empty texts and lists mean the same as absent ones. Empty maps stay, because they may have
/// a meaning.
fn prune(value: &mut Value) {
    match value {
        Value::Object(entries) => {
            entries.retain(|_, value| {
                prune(value);
                let empty =
                    value.as_str() == Some("") || value.as_array().is_some_and(Vec::is_empty);
                !value.is_null() && !empty
            });
        }
        Value::Array(items) => items.iter_mut().for_each(prune),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    #[test]
    fn a_pipe_at_pods_json_does_not_hang_the_start() {
        let place = tempfile::tempdir().unwrap();
        mkfifo(&place.path().join(FILE), Mode::S_IRWXU).unwrap();
        let directory = place.path().to_owned();
        let file = SnapshotFile::new(directory, "n".to_owned(), BTreeSet::new());
        assert!(file.read().unwrap_err().contains("not a regular file"));
    }
}
