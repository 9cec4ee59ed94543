//! Extenders over HTTP, with the API extender/v1 of kube-scheduler.
//!
//! Each request is a task beside the scheduling loop, and its response arrives in a channel. A request that hangs ends after
//! the `httpTimeout` of its extender, and delays only its pod.

mod calls;
mod nodes;

use super::api_retry::{Failure, FailureKind};
use super::pod_ref::PodRef;
use crate::http_extender::HttpExtender;
use calls::{bind, filter, prioritize};
use evictd_cluster_client::{Access, Actions, ApiError, CALL_TIMEOUT, Watches};
use evictd_pod::wire;
use evictd_scheduling::config::Extender;
use evictd_scheduling::{ExtenderResponse, NodeVictims, NodesResponse, is_interested};
use hyper::Request;
use nodes::Nodes;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::{debug, warn};

/// The most requests under way. Beyond it no further pod is tried.
const MAX_IN_FLIGHT: usize = 256;

/// The extenders of a configuration. Clones share the requests under way.
#[derive(Clone)]
pub(crate) struct Extenders {
    all: Arc<[HttpExtender]>,
    api: Option<Actions>,
    nodes: Option<Nodes>,
    in_flight: Arc<AtomicUsize>,
    responses: mpsc::UnboundedSender<(Arc<str>, ExtenderResponse)>,
}

/// The responses with the keys of their pods in the queue.
pub(crate) type ExtenderResponses = mpsc::UnboundedReceiver<(Arc<str>, ExtenderResponse)>;

/// A request to agree to victims.
pub(crate) struct PreemptRequest {
    /// The index of the extender.
    pub(crate) extender: usize,
    pub(crate) candidates: Vec<NodeVictims>,
    /// The victims by node, as the extender gets them.
    pub(crate) victims: Value,
}

impl Extenders {
    pub(crate) fn none() -> (Self, ExtenderResponses) {
        let (responses, received) = mpsc::unbounded_channel();
        let none = Self {
            all: Arc::from([]),
            api: None,
            nodes: None,
            in_flight: Arc::default(),
            responses,
        };
        (none, received)
    }

    /// The extenders of a configuration. Follows the nodes if one of them needs whole nodes. Must be called inside the runtime.
    ///
    /// # Errors
    /// A certificate or a key cannot be used.
    pub(crate) async fn start(
        config: &[Extender],
        access: &Access,
        watches: &Watches,
    ) -> Result<(Self, ExtenderResponses), ApiError> {
        let (none, received) = Self::none();
        if config.is_empty() {
            return Ok((none, received));
        }
        let mut extenders = Vec::new();
        for extender in config {
            extenders.push(HttpExtender::connect(extender.clone()).await?);
        }
        let needs_nodes = config.iter().any(|extender| {
            let gets_nodes =
                !extender.filter_verb.is_empty() || !extender.prioritize_verb.is_empty();
            gets_nodes && !extender.node_cache_capable
        });
        let extenders = Self {
            all: extenders.into(),
            api: Some(access.actions()?),
            nodes: needs_nodes.then(|| Nodes::follow(access, watches)),
            ..none
        };
        Ok((extenders, received))
    }

    /// Whether no further pod can be tried now.
    pub(crate) fn is_full(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) >= MAX_IN_FLIGHT
    }

    /// `nodeCacheCapable`: the extender keeps the cluster itself, and gets names and UIDs alone.
    pub(crate) fn is_node_cache_capable(&self, extender: usize) -> bool {
        let extender = self.all.get(extender);
        extender.is_some_and(|extender| extender.config.node_cache_capable)
    }

    /// The extender that binds the pod in place of the scheduler.
    pub(crate) fn binder(&self, pod: &wire::Pod) -> Option<Binder> {
        let mut extenders = self.all.iter();
        let binder = extenders.find(|extender| {
            !extender.config.bind_verb.is_empty() && is_interested(&extender.config, pod)
        });
        binder.cloned().map(Binder)
    }

    /// Asks all extenders to filter these nodes and to score the rest.
    pub(crate) fn filter_and_prioritize(
        &self,
        key: Arc<str>,
        pod: Arc<wire::Pod>,
        nodes: Vec<Arc<str>>,
    ) {
        let extenders = self.clone();
        self.spawn(key, async move {
            ExtenderResponse::Nodes(extenders.nodes_reply(&pod, nodes).await)
        });
    }

    /// Asks one extender to agree to victims.
    pub(crate) fn process_preemption(
        &self,
        key: Arc<str>,
        pod: Arc<wire::Pod>,
        request: PreemptRequest,
    ) {
        let PreemptRequest {
            extender,
            candidates,
            victims,
        } = request;
        let extenders = self.clone();
        self.spawn(key, async move {
            let accepted = async {
                let http = extenders.all.get(extender);
                let http = http.ok_or("it is not known any more")?;
                let pod = extenders.whole_pod(&pod).await?;
                let agreed = http.preempt(pod, victims, &candidates).await;
                agreed.map_err(|error| error.to_string())
            };
            ExtenderResponse::Victims {
                extender,
                accepted: accepted.await,
            }
        });
    }

    fn spawn(
        &self,
        key: Arc<str>,
        response: impl Future<Output = ExtenderResponse> + Send + 'static,
    ) {
        let (in_flight, responses) = (Arc::clone(&self.in_flight), self.responses.clone());
        in_flight.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(async move {
            let response = response.await;
            // Before the response is sent: the engine may send the next request as soon as it has this one's response.
            in_flight.fetch_sub(1, Ordering::Relaxed);
            // The receiver is dropped only when the scheduler ends.
            let _ = responses.send((key, response));
        });
    }

    /// The pod from the API server. The cached one lacks fields that an extender may read.
    async fn whole_pod(&self, pod: &wire::Pod) -> Result<Value, String> {
        let reference = PodRef::of(&pod.metadata);
        let api = self.api.as_ref().ok_or("no API server is known")?;
        let PodRef {
            namespace, name, ..
        } = &reference;
        let request = Request::get(format!("/api/v1/namespaces/{namespace}/pods/{name}"));
        let what = format!("reading pod {reference}");
        let found = api.request(&what, CALL_TIMEOUT, request.body(Vec::new()));
        found.await.map_err(|error| error.to_string())
    }

    /// Sends Filter to one extender after the other, and then Prioritize to all at once (S5-050, S5-055).
    async fn nodes_reply(
        &self,
        pod: &wire::Pod,
        nodes: Vec<Arc<str>>,
    ) -> Result<NodesResponse, String> {
        let whole = self.whole_pod(pod).await?;
        let extenders = self.all.iter();
        let extenders: Vec<&HttpExtender> = extenders
            .filter(|extender| is_interested(&extender.config, pod))
            .collect();
        let mut reply = NodesResponse::default();
        let mut left = nodes;
        for extender in &extenders {
            if left.is_empty() {
                break;
            }
            if extender.config.filter_verb.is_empty() {
                continue;
            }
            match filter(extender, &whole, &left, self.nodes.as_ref()).await {
                Ok((passed, rejected)) => {
                    left = passed;
                    reply.rejected.extend(rejected);
                }
                Err(problem) if extender.config.ignorable => {
                    warn!("{problem}; the extender is ignorable");
                }
                Err(problem) => return Err(problem.to_string()),
            }
        }
        // The only node is chosen whatever its score is.
        if left.len() > 1 {
            let mut requests = JoinSet::new();
            for extender in extenders {
                if !extender.config.prioritize_verb.is_empty() {
                    let (extender, whole, left) = (extender.clone(), whole.clone(), left.clone());
                    let nodes = self.nodes.clone();
                    requests.spawn(async move {
                        prioritize(&extender, &whole, &left, nodes.as_ref()).await
                    });
                }
            }
            while let Some(scores) = requests.join_next().await {
                match scores {
                    Ok(Ok(scores)) => {
                        for (node, score) in scores {
                            let sum = reply.scores.entry(node).or_default();
                            // An extender may answer any number.
                            *sum = sum.saturating_add(score);
                        }
                    }
                    Ok(Err(problem)) => warn!("{problem}; its scores do not count"),
                    Err(lost) => debug!("an extender's scores are lost: {lost}"),
                }
            }
        }
        reply.passed = left.into_iter().collect();
        Ok(reply)
    }
}

/// An extender that binds pods.
#[derive(Clone)]
pub(crate) struct Binder(HttpExtender);

impl Binder {
    pub(super) async fn bind(&self, pod: &PodRef, node: &str) -> Result<(), Failure> {
        bind(&self.0, pod, node).await.map_err(|error| Failure {
            kind: FailureKind::Refused,
            message: error.to_string(),
        })
    }
}
