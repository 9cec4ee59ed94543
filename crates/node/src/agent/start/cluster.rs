//! Starts everything that informs the cluster, if there is one.

use super::{StartError, node_name, pods::Started};
use crate::{
    agent::Cluster,
    config::{Effective, EvictMethod, PodsSource},
    delivery::{DeliveryQueue, NodeReporter, PodGarbageCollector},
    history,
    metrics::NodeHeartbeat,
    pause::Pause,
    publish::{
        Publish, dry_run::DryRunPublisher, events::Events, evicted::Evicted, node::NodePressure,
    },
};
use evictd_cluster_client::{
    Access, Actions, Credentials, Fleet,
    events::{EventRecorder, MAX_PENDING, Recorders},
};
use evictd_daemon::tasks::Daemon;
use evictd_kernel::clock::Clock;
use evictd_pod::Node;
use std::{collections::BTreeSet, sync::Arc};
use tokio::sync::{Mutex, oneshot, watch};

/// The data read from the Node.
pub(super) struct ReadNode {
    /// The whole object, once it was read.
    pub(super) node: watch::Receiver<Option<Arc<Node>>>,
    /// The pause in its annotation.
    pub(super) paused: watch::Receiver<Option<Pause>>,
}

/// Starts the tasks that inform the cluster: if the configuration gives access to an API server, or the pods come from
/// it. Also returns the data read from the Node.
pub(super) async fn start(
    config: &Effective,
    pods: &Started,
    (daemon, clock): (&Daemon, Clock),
    (fleet, heartbeat, recorders): (Fleet, NodeHeartbeat, &Recorders),
    publishers: &mut Vec<Box<dyn Publish>>,
) -> Result<Option<(Cluster, ReadNode)>, StartError> {
    if config.kubernetes == Credentials::default() && pods.source != PodsSource::Kubernetes {
        return match config.evict.method {
            EvictMethod::Delete | EvictMethod::Eviction => Err(StartError::NoCluster),
            EvictMethod::Auto | EvictMethod::Cgroup | EvictMethod::Cri => {
                if config.evicted_pods.is_limited() {
                    tracing::warn!(
                        "evictedPods has no effect: no API server is named under kubernetes"
                    );
                }
                Ok(None)
            }
        };
    }
    let access = Access::find(&config.kubernetes).await?;
    tracing::info!("evictions are reported to {access}");
    let types = config.conditions.types;
    let reporter = NodeReporter::new(node_name(config), types, access.actions()?, clock);
    let node = ReadNode {
        node: reporter.node(),
        paused: reporter.paused(),
    };
    let ((wanted, pressure), (is_settled, settled)) = (watch::channel(None), watch::channel(false));
    let (delivery_queue, publications) = DeliveryQueue::new(access.actions()?, settled);
    publishers.push(Box::new(NodePressure::new(wanted, is_settled.clone())));
    let (stop, stopped) = oneshot::channel();
    let reporter = reporter.sharing(fleet, heartbeat);
    let reports = tokio::spawn(reporter.run(pressure, is_settled, stopped));
    let recorder = EventRecorder::new(node_name(config), access.actions()?, move || clock.now());
    let events = recorders.start(recorder, MAX_PENDING);
    publishers.push(Box::new(Events::new(node_name(config), events)));
    start_pod_gc(daemon, config, pods, (access.actions()?, clock), publishers);
    let cluster = Cluster {
        delivery_queue,
        method: config.evict.method,
        tell: config.evict.tell,
        fallback: config.soft_tier_fallback,
        actions: access.actions()?,
        blocked: None,
        publications,
        reports: Arc::new(Mutex::new(Some((stop, reports)))),
    };
    Ok(Some((cluster, node)))
}

/// Deletes evicted pods. This needs pods from the cluster, because only that source lists evicted ones.
fn start_pod_gc(
    daemon: &Daemon,
    config: &Effective,
    pods: &Started,
    (actions, clock): (Actions, Clock),
    publishers: &mut Vec<Box<dyn Publish>>,
) {
    if !config.evicted_pods.is_limited() {
        return;
    }
    if pods.source == PodsSource::Manifests {
        tracing::warn!("evictedPods has no effect: the pods come from manifests");
        return;
    }
    let (dry_run, rehearsal) = watch::channel(config.is_dry(pods.source));
    publishers.push(Box::new(DryRunPublisher(dry_run)));
    let known = history::evicted(&config.state_directory).unwrap_or_else(|error| {
        tracing::warn!("pods that were evicted earlier are not deleted: {error}");
        BTreeSet::new()
    });
    let (known, evicted) = watch::channel(known);
    publishers.push(Box::new(Evicted(known)));
    let pod_gc = PodGarbageCollector::new(config.evicted_pods, evicted, actions, clock);
    daemon.spawn(pod_gc.run(pods.listings.clone(), rehearsal));
}
