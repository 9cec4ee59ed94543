//! A live cluster as a dump: its lists, read page by page.

use evictd_cluster_client::{Access, ApiError, Credentials, Pages, Reader};
use evictd_command::Failure;
use std::{
    io::{self, Cursor, Read},
    time::Duration,
};
use tokio::runtime::{Builder, Runtime};

/// Nodes are first, because pods refer to them.
const LISTS: [&str; 13] = [
    "/api/v1/nodes",
    "/api/v1/namespaces",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/policy/v1/poddisruptionbudgets",
    "/api/v1/persistentvolumeclaims",
    "/api/v1/persistentvolumes",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/apis/storage.k8s.io/v1/csinodes",
    "/apis/storage.k8s.io/v1/volumeattachments",
    "/apis/resource.k8s.io/v1/resourceclaims",
    "/apis/resource.k8s.io/v1/resourceslices",
    "/apis/resource.k8s.io/v1/deviceclasses",
    "/api/v1/pods",
];

/// The further inputs of scores. They are listed before nodes and pods.
const FOR_SCORES: [&str; 6] = [
    "/api/v1/services",
    "/api/v1/replicationcontrollers",
    "/apis/apps/v1/replicasets",
    "/apis/apps/v1/statefulsets",
    "/apis/storage.k8s.io/v1/csidrivers",
    "/apis/storage.k8s.io/v1/csistoragecapacities",
];

/// Lists that may be missing for lack of rights. The plan then reports the checks that it could not do. A missing list of
/// attachments cannot be noticed, because a cluster may have none.
const OPTIONAL: [&str; 8] = [
    LISTS[4], LISTS[5], LISTS[6], LISTS[7], LISTS[8], LISTS[9], LISTS[10], LISTS[11],
];

/// The API server's timeout for a page.
const PAGE_TIMEOUT: Duration = Duration::from_mins(1);

/// The lists of a cluster, one after the other.
pub(crate) struct Live {
    runtime: Runtime,
    reader: Reader,
    /// The remaining lists in reverse order.
    left: Vec<&'static str>,
    pages: Option<(&'static str, Pages)>,
    page: Cursor<String>,
}

impl Live {
    /// Reads the context of the kubeconfig. Nothing is sent yet. `scores`: whether nodes will be scored.
    pub(crate) fn new(context: &str, scores: bool) -> Result<Self, Failure> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let credentials = Credentials {
            kubeconfig: None,
            context: context.to_owned(),
        };
        let reader =
            runtime.block_on(async { Access::find(&credentials).await?.reader(PAGE_TIMEOUT) });
        let reader = reader.map_err(|error| {
            let error = anyhow::Error::new(error);
            Failure::Input(error.context(format!("--context {context}")))
        })?;
        Ok(Self {
            runtime,
            reader,
            left: {
                let more = FOR_SCORES.iter().filter(|_| scores);
                more.chain(&LISTS).rev().copied().collect()
            },
            pages: None,
            page: Cursor::default(),
        })
    }

    /// Gets the next page. Returns false after the last one.
    fn next_page(&mut self) -> Result<bool, ApiError> {
        loop {
            let Some((path, pages)) = &mut self.pages else {
                let Some(path) = self.left.pop() else {
                    return Ok(false);
                };
                self.pages = Some((path, self.reader.pages(path)));
                continue;
            };
            match self.runtime.block_on(pages.next()) {
                Ok(Some(page)) => {
                    self.page = Cursor::new(page);
                    return Ok(true);
                }
                Ok(None) => self.pages = None,
                Err(error) if is_left_out(path, &error) => self.pages = None,
                Err(error) => return Err(error),
            }
        }
    }
}

/// Whether the list may be missing: the user lacks the right to read it, or the server is too old to have devices.
fn is_left_out(path: &str, error: &ApiError) -> bool {
    let is_absent = || error.status().is_some_and(|status| status.code == 404);
    match error {
        ApiError::Forbidden { .. } => OPTIONAL.contains(&path) || FOR_SCORES.contains(&path),
        _ => path.contains("/resource.k8s.io/") && is_absent(),
    }
}

impl Read for Live {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.page.read(buffer)?;
            if count > 0 || buffer.is_empty() || !self.next_page().map_err(io::Error::other)? {
                return Ok(count);
            }
        }
    }
}
