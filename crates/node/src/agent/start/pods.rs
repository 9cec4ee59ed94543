//! Starts the source of pods.

use super::node_name;
use crate::{
    config::{Effective, PodsSource, PriorityUnknown},
    pods::{
        Cri, Kubelet, Kubernetes, Listing, ManifestDirectory, ManifestRules, Manifests, PodSource,
        SnapshotFile,
    },
};
use evictd_cluster_client::{
    Access, ApiError, Fleet, Follow, KubeletClient, Parsed, WatchError, Watches,
};
use evictd_cri::Client;
use evictd_kernel::clock::Clock;
use kube::{api::GetParams, core::Request};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::sync::watch;

/// A source that does not answer within this time at start counts as absent.
const TIMEOUT: Duration = Duration::from_secs(3);

/// A source of pods that was started.
pub(super) struct Started {
    pub(super) source: PodsSource,
    pub(super) why: String,
    pub(super) listings: watch::Receiver<Arc<Listing>>,
}

impl Started {
    /// Its name in the configuration.
    pub(super) fn name(&self) -> &'static str {
        match self.source {
            PodsSource::Kubernetes => "kubernetes",
            PodsSource::Kubelet => "kubelet",
            PodsSource::Cri => "cri",
            _ => "manifests",
        }
    }
}

/// Starts the configured source; `auto` tries which sources are there and takes the one that knows most about pods.
pub(super) async fn start(
    config: &Effective,
    (fleet, runtime): (Fleet, &Client),
    (clock, watches): (Clock, Watches),
) -> Started {
    let (source, why) = match config.pods.source {
        PodsSource::Auto => find(config).await,
        configured => (configured, "configured".to_owned()),
    };
    let node = node_name(config);
    let listings = match source {
        PodsSource::Kubelet => {
            let source = Kubelet::new(
                config.kubelet.access.clone(),
                node,
                snapshot_file(config),
                clock,
            );
            source.start().await
        }
        PodsSource::Kubernetes => {
            let settings = config.kubernetes.clone();
            let source = {
                let rest = (clock, watches);
                Kubernetes::new(settings, node, fleet, snapshot_file(config), rest)
            };
            source.start().await
        }
        PodsSource::Cri => {
            let source = Cri::new(runtime.clone(), node, snapshot_file(config), clock);
            Box::pin(source.start()).await
        }
        PodsSource::Auto | PodsSource::Manifests => manifests(config).start().await,
    };
    Started {
        source,
        why,
        listings,
    }
}

/// The gaps of this source, for `status` and the log.
pub(super) fn what_is_unknown(config: &Effective, source: PodsSource) -> Vec<String> {
    if source != PodsSource::Cri {
        return Vec::new();
    }
    let so = match config.priority_unknown {
        PriorityUnknown::DryRun => {
            "so this is a dry run. Set priorityUnknown: accept to evict all the same, or take the pods from kubernetes or kubelet"
        }
        PriorityUnknown::Accept => {
            "so every pod counts as priority 0 and as using more than it requests (priorityUnknown: accept)"
        }
    };
    vec![format!(
        "pods.source: cri tells neither the priorities of pods nor their memory requests, {so}"
    )]
}

async fn find(config: &Effective) -> (PodsSource, String) {
    let no_server = match kubernetes(config).await {
        Ok(why) => return (PodsSource::Kubernetes, why),
        Err(why_not) => why_not,
    };
    match kubelet(config).await {
        Ok(why) => (PodsSource::Kubelet, format!("{why}; {no_server}")),
        Err(why_not) => (PodsSource::Manifests, format!("{no_server}; {why_not}")),
    }
}

/// Makes the request and ignores the answer: only whether there is one matters.
struct Discard;

impl Follow for Discard {
    type Object = serde::de::IgnoredAny;

    fn version(_: &Self::Object) -> &'static str {
        ""
    }

    fn begin(&mut self) {}
    fn applied(&mut self, _: Parsed<Self::Object>, _: usize) {}
    fn deleted(&mut self, _: Parsed<Self::Object>) {}
    fn up_to_date(&mut self) {}
}

/// Why the kubelet is used as the source, or why not.
async fn kubelet(config: &Effective) -> Result<String, String> {
    let url = KubeletClient::url(&config.kubelet.access);
    if !KubeletClient::is_listening(&config.kubelet.access).await {
        return Err(format!("no kubelet listens at {url}"));
    }
    let kubelet = KubeletClient::find(&config.kubelet.access, &node_name(config)).await;
    let answer = match kubelet {
        Ok(kubelet) => kubelet.list("/pods", &mut Discard).await,
        Err(error) => Err(WatchError {
            problem: error.to_string(),
            ..WatchError::default()
        }),
    };
    match answer.map_err(|broken| broken.problem) {
        Ok(()) => Ok(format!("the kubelet at {url} answers")),
        Err(error) => Err(format!("the kubelet cannot be used ({error})")),
    }
}

/// Why the API server is used as the source, or why not.
async fn kubernetes(config: &Effective) -> Result<String, String> {
    let access = match Access::find(&config.kubernetes).await {
        Ok(access) => access,
        Err(ApiError::Unknown) => return Err("no API server is known".to_owned()),
        Err(error) => return Err(error.to_string()),
    };
    let node = node_name(config);
    match server_knows_node(&access, &node).await {
        Ok(()) => Ok(format!("{access}, answers and knows this node, {node}")),
        Err(error) => match error.status().map(|status| status.code) {
            Some(404) => Err(format!("{access}, has no node {node}")),
            Some(_) => Ok(format!("{access}, answers ({error})")),
            // The API server was the source before: that it does not answer now does not mean that the node has no
            // pods.
            None if access.is_in_cluster() || snapshot_file(config).exists() => Ok(format!(
                "{access}, was the source before and will be again ({error})"
            )),
            None => Err(format!("{access}, does not answer ({error})")),
        },
    }
}

async fn server_knows_node(access: &Access, node: &str) -> Result<(), ApiError> {
    let actions = access.actions()?;
    let client = actions.client();
    let request = Request::new("/api/v1/nodes").get(node, &GetParams::default());
    let ask = async {
        let request = request.map_err(kube::Error::BuildRequest)?;
        client.request_text(request).await
    };
    let what = format!("node {node}");
    actions.call(&what, TIMEOUT, ask).await.map(drop)
}

fn snapshot_file(config: &Effective) -> SnapshotFile {
    let mut labels = BTreeSet::new();
    for selector in &config.protect.selectors {
        labels.extend(selector.match_labels.keys().cloned());
        let demands = selector.match_expressions.iter();
        labels.extend(demands.map(|demand| demand.key.clone()));
    }
    SnapshotFile::new(config.runtime_directory.clone(), node_name(config), labels)
}

fn manifests(config: &Effective) -> Manifests {
    let directory = ManifestDirectory {
        path: config.pods.manifests.clone(),
        static_pods: false,
    };
    let kubelets = config
        .pods
        .static_pod_path
        .clone()
        .map(|path| ManifestDirectory {
            path,
            static_pods: true,
        });
    let rules = ManifestRules {
        node_name: node_name(config),
        priority_classes: config.priority_classes.clone(),
    };
    Manifests::new(std::iter::once(directory).chain(kubelets).collect(), rules)
}
