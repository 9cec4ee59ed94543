//! The measured use of nodes, as `kubectl top nodes` shows it, for plugins of batch sessions.

use super::watches::{BatchChange, WatchEvent};
use evictd_batch_objects::NodeMetrics;
use evictd_cluster_client::{Access, ApiError, NewsSender, Reader};
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

/// The source: the API of metrics-server and its like.
const PATH: &str = "/apis/metrics.k8s.io/v1beta1/nodes";

/// An answer that takes longer fails, and the figures get older.
const WITHIN: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    items: Vec<Value>,
}

/// Reads the use of all nodes after each period while a plugin needs it, and reports it until the receiver is dropped. A
/// failure leaves the last figures, which count as unknown once they are too old.
pub(super) async fn follow(
    access: Access,
    mut periods: watch::Receiver<Option<Duration>>,
    events: NewsSender<WatchEvent>,
) {
    let mut failed = false;
    while !events.is_closed() {
        let Some(period) = *periods.borrow_and_update() else {
            // Without such a plugin nothing is read.
            if periods.changed().await.is_err() {
                return;
            }
            continue;
        };
        match nodes(&access).await {
            Ok(nodes) => {
                if failed {
                    info!("{PATH}: the use of nodes is known again");
                }
                failed = false;
                let change = BatchChange::NodeUse(nodes);
                events.send(WatchEvent::Batch(change));
            }
            Err(error) if failed => debug!("{PATH}: {error}"),
            Err(error) => {
                failed = true;
                warn!(
                    "{PATH}: the use of nodes is unknown, so that plugins usage and rescheduling count on none: {error}"
                );
            }
        }
        // A change of the configuration counts at once.
        if let Ok(Err(_)) = timeout(period, periods.changed()).await {
            sleep(period).await;
        }
    }
}

async fn nodes(access: &Access) -> Result<Vec<(String, NodeMetrics)>, ApiError> {
    let reader: Reader = access.reader(WITHIN)?;
    let mut pages = reader.pages(PATH);
    let mut nodes = Vec::new();
    while let Some(text) = pages.next().await? {
        let page: Page = reader.parsed(PATH, &text)?;
        for item in page.items {
            match NodeMetrics::of_object(item) {
                Ok(node) => nodes.push(node),
                // The use of this node stays unknown.
                Err(error) => debug!("{PATH}: {error}"),
            }
        }
    }
    Ok(nodes)
}
