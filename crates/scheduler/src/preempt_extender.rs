//! The preempt verb of an extender that `plan` asks (S3-024, S4-020).

use crate::http_extender::{HttpExtender, pod_of, victims_of};
use evictd_cluster_client::ApiError;
use evictd_placement::{Cluster, Pod};
use evictd_preemption::{ExtenderError, Offer, Victim};
use evictd_scheduling::NodeVictims;
use evictd_scheduling::config::Extender;
use hyper::Uri;
use jiff::SignedDuration;
use std::io;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};

/// The default timeout of kube-scheduler.
const TIMEOUT: SignedDuration = SignedDuration::from_secs(5);

/// An extender, by the URL of its preempt verb.
pub(crate) struct PreemptExtender {
    url: String,
    http: HttpExtender,
    /// The planner is not async: this is its only call over a network.
    runtime: Runtime,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum UrlError {
    #[error("--extender {url}: {problem}")]
    Malformed { url: String, problem: String },
    #[error("--extender {0}: only http:// is supported")]
    Scheme(String),
    #[error("--extender {url}: {source}")]
    Client { url: String, source: Box<ApiError> },
    #[error(transparent)]
    Runtime(#[from] io::Error),
}

impl PreemptExtender {
    /// `nodeCacheCapable`: it caches the cluster itself and gets only UIDs.
    pub(crate) fn new(url: String, node_cache_capable: bool) -> Result<Self, UrlError> {
        let uri: Uri = match url.parse() {
            Ok(uri) => uri,
            Err(error) => {
                let problem = format!("{error}");
                return Err(UrlError::Malformed { url, problem });
            }
        };
        if uri.scheme_str() != Some("http") || uri.host().is_none() {
            return Err(UrlError::Scheme(url));
        }
        let config = Extender {
            timeout: TIMEOUT,
            node_cache_capable,
            ..at(&uri)
        };
        let runtime = Builder::new_current_thread().enable_all().build()?;
        match runtime.block_on(HttpExtender::connect(config)) {
            Ok(http) => Ok(Self { url, http, runtime }),
            Err(source) => Err(UrlError::Client {
                url,
                source: Box::new(source),
            }),
        }
    }
}

/// The extender of a preempt verb: the verb is the last part of the path.
fn at(uri: &Uri) -> Extender {
    let whole = uri.to_string();
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let origin = whole.strip_suffix(path).unwrap_or(&whole);
    let (prefix, verb) = path.rsplit_once('/').unwrap_or(("", path));
    Extender {
        url_prefix: format!("{origin}{prefix}"),
        preempt_verb: verb.to_owned(),
        ..Extender::default()
    }
}

impl evictd_preemption::Extender for PreemptExtender {
    fn name(&self) -> &str {
        &self.url
    }

    fn is_interested(&self, _cluster: &Cluster, _preemptor: &Pod) -> bool {
        true
    }

    fn is_ignorable(&self) -> bool {
        false
    }

    fn process(
        &mut self,
        cluster: &Cluster,
        preemptor: &Pod,
        offers: &[Offer],
    ) -> Result<Vec<Offer>, ExtenderError> {
        let offered: Vec<NodeVictims> = offers.iter().map(|offer| named(cluster, offer)).collect();
        let victims = victims_of(cluster, &offered, self.http.config.node_cache_capable);
        let pod = pod_of(cluster, preemptor, "");
        let accepted = self.http.preempt(pod, victims, &offered);
        let accepted = self.runtime.block_on(accepted)?;
        let accepted = accepted.into_iter();
        accepted
            .map(|accepted| {
                let name = self.url.clone();
                offer(cluster, &accepted).map_err(|problem| ExtenderError { name, problem })
            })
            .collect()
    }
}

/// An offer with the names that an extender knows.
fn named(cluster: &Cluster, offer: &Offer) -> NodeVictims {
    let victims = offer.victims.iter();
    NodeVictims {
        node: cluster.node_name(offer.node).into(),
        victims: victims
            .map(|victim| cluster.pod_key(victim.pod(cluster)))
            .collect(),
        violations: offer.violations,
    }
}

/// The candidate that the extender agrees to on one node.
fn offer(cluster: &Cluster, accepted: &NodeVictims) -> Result<Offer, String> {
    let name = &accepted.node;
    let node = cluster.find_node(name);
    let node = node.ok_or_else(|| format!("there is no node \"{name}\""))?;
    // Pods of a group may be on other nodes. Only those that were offered are accepted later.
    let find = |uid: &Arc<str>| {
        let found = cluster.find_pod(uid);
        let victim = found.map(|(id, index)| Victim::new(id, index));
        victim.ok_or_else(|| format!("there is no pod with the UID \"{uid}\" on node \"{name}\""))
    };
    Ok(Offer {
        node,
        victims: accepted
            .victims
            .iter()
            .map(find)
            .collect::<Result<_, _>>()?,
        violations: accepted.violations,
    })
}
