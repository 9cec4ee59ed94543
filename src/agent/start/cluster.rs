//! Who tells the cluster what happens here, where there is one.

use super::{StartError, node_name};
use crate::{
    agent::Cluster,
    api::{Access, Crowd},
    clock::Clock,
    config::{Effective, EvictMethod, Kubernetes, PodsSource},
    outbox::{EventRecorder, NodeReporter, Outbox, WAITING},
    publish::{Publish, events::Events, metrics::NodeHeartbeat, node::NodePressure},
};
use tokio::sync::{mpsc, oneshot, watch};

/// Whoever names a way to the API server, or has its pods, wants it told of evictions.
pub(super) async fn start(
    config: &Effective,
    pods_source: PodsSource,
    clock: Clock,
    (crowd, heartbeat): (Crowd, NodeHeartbeat),
    publishers: &mut Vec<Box<dyn Publish>>,
) -> Result<Option<Cluster>, StartError> {
    if config.kubernetes == Kubernetes::default() && pods_source != PodsSource::Kubernetes {
        return match config.evict.method {
            EvictMethod::Delete | EvictMethod::Eviction => Err(StartError::NoCluster),
            EvictMethod::Auto | EvictMethod::Cgroup | EvictMethod::Cri => Ok(None),
        };
    }
    let access = Access::find(&config.kubernetes).await?;
    tracing::info!("evictions are told at {access}");
    let (outbox, publications) = Outbox::new(access.actions()?);
    let types = config.conditions.types;
    let reporter = NodeReporter::new(node_name(config), types, access.actions()?, clock);
    let ((wanted, pressure), (is_settled, settled)) = (watch::channel(None), watch::channel(false));
    publishers.push(Box::new(NodePressure::new(wanted, is_settled.clone())));
    let (hush, hushed) = oneshot::channel();
    let reporter = reporter.among(crowd, heartbeat);
    let reports = tokio::spawn(reporter.run(pressure, is_settled, hushed));
    let (send, events) = mpsc::channel(WAITING);
    let recorder = EventRecorder::new(node_name(config), access.actions()?, clock);
    publishers.push(Box::new(Events::new(node_name(config), send)));
    tokio::spawn(recorder.run(events));
    Ok(Some(Cluster {
        outbox,
        settled,
        method: config.evict.method,
        fallback: config.soft_tier_fallback,
        actions: access.actions()?,
        blocked: None,
        publications,
        reports: Some((hush, reports)),
    }))
}
