//! Extenders asked over HTTP, beside the thread that decides (extender/v1 of kube-scheduler).
//!
//! Each question is a task; its answer arrives in a channel. One that hangs is given up after its `httpTimeout`, and holds
//! up only the pods about which it is asked.

mod nodes;
mod talk;

use super::attempts::{Failure, FailureKind};
use super::pod_ref::PodRef;
use evictd_cluster_client::{Access, Actions, ApiError, CALL_TIMEOUT, Watches};
use evictd_pod::wire;
use evictd_scheduling::config::{Extender, Tls};
use evictd_scheduling::{ExtenderResponse, NodeVictims, NodesResponse, is_interested};
use hyper::Request;
use nodes::Nodes;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use talk::{Peer, bind, filter, preempt, prioritize};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::{debug, warn};

/// So many pods are asked about at a time; then no further pod is decided about until some answers are there.
const AT_A_TIME: usize = 256;

/// The extenders of a configuration. Clones share what is asked.
#[derive(Clone)]
pub struct Extenders {
    peers: Arc<[Peer]>,
    api: Option<Actions>,
    nodes: Option<Nodes>,
    asked: Arc<AtomicUsize>,
    replies: mpsc::UnboundedSender<(Arc<str>, ExtenderResponse)>,
}

/// What the extenders have said, with what the queue knows the pod by.
pub type Replies = mpsc::UnboundedReceiver<(Arc<str>, ExtenderResponse)>;

impl Extenders {
    /// No extenders.
    pub fn none() -> (Self, Replies) {
        let (replies, received) = mpsc::unbounded_channel();
        let none = Self {
            peers: Arc::from([]),
            api: None,
            nodes: None,
            asked: Arc::default(),
            replies,
        };
        (none, received)
    }

    /// Those of a configuration. Follows the nodes if one of them has to be sent whole nodes. Must be called inside the
    /// runtime.
    ///
    /// # Errors
    /// A certificate or a key cannot be used.
    pub async fn start(
        config: &[Extender],
        access: &Access,
        watches: &Watches,
    ) -> Result<(Self, Replies), ApiError> {
        let (none, received) = Self::none();
        if config.is_empty() {
            return Ok((none, received));
        }
        let mut peers = Vec::new();
        for extender in config {
            let origin = format!("extender {}", extender.url_prefix);
            let (cluster, user) = kubeconfig(extender);
            let access = Access::to_server(&origin, &cluster, &user).await?;
            peers.push(Peer {
                config: extender.clone(),
                actions: access.actions()?,
            });
        }
        let looks = |own: &Extender| !own.filter_verb.is_empty() || !own.prioritize_verb.is_empty();
        let whole = |own: &Extender| !own.node_cache_capable && looks(own);
        let extenders = Self {
            peers: peers.into(),
            api: Some(access.actions()?),
            nodes: config
                .iter()
                .any(whole)
                .then(|| Nodes::follow(access, watches)),
            ..none
        };
        Ok((extenders, received))
    }

    /// Whether no further pod can be asked about now.
    pub fn is_full(&self) -> bool {
        self.asked.load(Ordering::Relaxed) >= AT_A_TIME
    }

    /// Whether one of them knows nodes and pods by their names.
    pub fn knows_cluster(&self, extender: usize) -> bool {
        let peer = self.peers.get(extender);
        peer.is_some_and(|own| own.config.node_cache_capable)
    }

    /// Who binds a pod in place of the scheduler.
    pub fn binder(&self, pod: &wire::Pod) -> Option<Binder> {
        let mut peers = self.peers.iter();
        let binds =
            |own: &&Peer| !own.config.bind_verb.is_empty() && is_interested(&own.config, pod);
        peers.find(binds).cloned().map(Binder)
    }

    /// Asks which of these nodes will do for a pod, and how good they are.
    pub fn ask_nodes(&self, key: Arc<str>, pod: Arc<wire::Pod>, nodes: Vec<Arc<str>>) {
        let own = self.clone();
        self.spawn(key, async move {
            ExtenderResponse::Nodes(own.nodes_reply(&pod, nodes).await)
        });
    }

    /// Asks one of them which of these victims may go. `victims` is what it is sent of them.
    pub fn ask_victims(
        &self,
        key: Arc<str>,
        pod: Arc<wire::Pod>,
        (extender, candidates, victims): (usize, Vec<NodeVictims>, Value),
    ) {
        let own = self.clone();
        self.spawn(key, async move {
            let accepted = async {
                let peer = own.peers.get(extender).ok_or("it is not known any more")?;
                let pod = own.whole(&pod).await?;
                preempt(peer, pod, victims, &candidates).await
            };
            ExtenderResponse::Victims {
                extender,
                accepted: accepted.await,
            }
        });
    }

    fn spawn(&self, key: Arc<str>, reply: impl Future<Output = ExtenderResponse> + Send + 'static) {
        let (asked, replies) = (Arc::clone(&self.asked), self.replies.clone());
        asked.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(async move {
            let reply = reply.await;
            asked.fetch_sub(1, Ordering::Relaxed);
            // The receiver is dropped only when the scheduler ends.
            let _ = replies.send((key, reply));
        });
    }

    /// The pod with everything that the API server knows of it.
    async fn whole(&self, pod: &wire::Pod) -> Result<Value, String> {
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

    /// Asks one filter after the other, and then all that score at once (S5-050, S5-055).
    async fn nodes_reply(
        &self,
        pod: &wire::Pod,
        nodes: Vec<Arc<str>>,
    ) -> Result<NodesResponse, String> {
        let whole = self.whole(pod).await?;
        let peers = self.peers.iter();
        let peers: Vec<&Peer> = peers
            .filter(|own| is_interested(&own.config, pod))
            .collect();
        let mut reply = NodesResponse::default();
        let mut left = nodes;
        for peer in &peers {
            if left.is_empty() {
                break;
            }
            if peer.config.filter_verb.is_empty() {
                continue;
            }
            match filter(peer, &whole, &left, self.nodes.as_ref()).await {
                Ok((passed, rejected)) => {
                    left = passed;
                    reply.rejected.extend(rejected);
                }
                Err(problem) if peer.config.ignorable => {
                    warn!("{problem}; it may be passed over");
                }
                Err(problem) => return Err(problem),
            }
        }
        if left.len() > 1 {
            let mut asked = JoinSet::new();
            for peer in peers {
                if !peer.config.prioritize_verb.is_empty() {
                    let (peer, whole, left) = (peer.clone(), whole.clone(), left.clone());
                    let nodes = self.nodes.clone();
                    asked.spawn(
                        async move { prioritize(&peer, &whole, &left, nodes.as_ref()).await },
                    );
                }
            }
            while let Some(scores) = asked.join_next().await {
                match scores {
                    Ok(Ok(scores)) => {
                        for (node, score) in scores {
                            let sum = reply.scores.entry(node).or_default();
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

/// An extender that binds a pod.
#[derive(Clone)]
pub struct Binder(Peer);

impl Binder {
    /// Gives a pod its node.
    pub(super) async fn bind(&self, pod: &PodRef, node: &str) -> Result<(), Failure> {
        bind(&self.0, pod, node).await.map_err(|message| Failure {
            kind: FailureKind::Refused,
            message,
        })
    }
}

impl Peer {
    fn timeout(&self) -> Duration {
        Duration::try_from(self.config.timeout).unwrap_or(CALL_TIMEOUT)
    }
}

/// Keys of `cluster` and `user` of a kubeconfig that mean the same.
fn kubeconfig(extender: &Extender) -> (Value, Value) {
    let some = |text: &String| (!text.is_empty()).then(|| text.clone());
    let tls = extender.tls.clone().unwrap_or_default();
    let Tls {
        insecure,
        server_name,
        cert_file,
        key_file,
        ca_file,
        cert_data,
        key_data,
        ca_data,
    } = &tls;
    // As in kube-scheduler, HTTPS without an authority to check by is not checked.
    let unchecked = extender.enable_https && ca_file.is_empty() && ca_data.is_empty();
    let cluster = json!({
        "server": extender.url_prefix.trim_end_matches('/'), "tls-server-name": some(server_name),
        "certificate-authority": some(ca_file), "certificate-authority-data": some(ca_data),
        "insecure-skip-tls-verify": *insecure || unchecked,
    });
    let user = json!({
        "client-certificate": some(cert_file), "client-certificate-data": some(cert_data),
        "client-key": some(key_file), "client-key-data": some(key_data),
    });
    (cluster, user)
}
