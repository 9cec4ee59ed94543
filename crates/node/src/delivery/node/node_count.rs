//! Counts the nodes, because the agents of all of them share the API server.

use super::{NodeReporter, nodes};
use evictd_cluster_client::ApiError;
use jiff::SignedDuration;
use kube::api::ListParams;
use serde::{Deserialize, de::IgnoredAny};

/// How long a count is used.
const VALID: SignedDuration = SignedDuration::from_hours(1);

/// One page of names; the remaining names are only counted.
#[derive(Deserialize)]
struct Page {
    metadata: Head,
    items: Vec<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    #[serde(rename = "continue", default)]
    more: String,
    remaining_item_count: Option<u64>,
}

impl Page {
    /// The number of nodes; `None` if the server does not report it.
    fn nodes(&self) -> Option<u64> {
        let rest = match self.metadata.more.as_str() {
            "" => 0,
            _ => self.metadata.remaining_item_count?,
        };
        Some(self.items.len() as u64 + rest)
    }
}

impl NodeReporter {
    /// Counts the nodes if the last count is old. The count only decides how soon this agent returns to a server
    /// that failed.
    pub(super) async fn count(&mut self) {
        let now = self.clock.now();
        if self
            .counted
            .is_some_and(|then| now.duration_since(then) < VALID)
        {
            return;
        }
        self.counted = Some(now);
        match self.page().await {
            Ok(page) => {
                if let Some(nodes) = page.nodes() {
                    self.fleet.set_nodes(nodes);
                }
            }
            Err(error) => tracing::debug!("the nodes of the cluster could not be counted: {error}"),
        }
    }

    async fn page(&self) -> Result<Page, ApiError> {
        // No resourceVersion: a server that answers from its cache would ignore the limit.
        let one = ListParams {
            limit: Some(1),
            ..ListParams::default()
        };
        let what = "counting the nodes, as the agent of node";
        self.ask(what, nodes().list_metadata(&one)).await
    }
}
