//! The preempt verb of an extender over HTTP, with the API extender/v1 of kube-scheduler (S3-024, S4-020).

use evictd_placement::{Cluster, NodeId, Pod};
use evictd_preemption::{Extender, ExtenderError, Offer};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, Uri, header};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::Builder;

/// The default timeout of kube-scheduler.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The largest response in bytes.
const LARGEST: usize = 64 << 20;

/// An extender, by the URL of its preempt verb.
pub(crate) struct PreemptExtender {
    url: String,
    uri: Uri,
    /// `nodeCacheCapable`: it caches the cluster itself and gets only UIDs.
    caches_nodes: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum UrlError {
    #[error("--extender {url}: {problem}")]
    Malformed { url: String, problem: String },
    #[error("--extender {0}: only http:// is supported")]
    Scheme(String),
}

/// `ExtenderPreemptionArgs`. The keys are the names of Go fields.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Arguments {
    pod: Value,
    node_name_to_victims: Option<BTreeMap<String, Victims>>,
    node_name_to_meta_victims: Option<BTreeMap<String, Victims>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Victims {
    pods: Vec<Value>,
    #[serde(rename = "NumPDBViolations")]
    violations: usize,
}

#[derive(Deserialize)]
struct Response {
    #[serde(rename = "NodeNameToMetaVictims", alias = "nodeNameToMetaVictims")]
    nodes: Option<BTreeMap<String, Option<MetaVictims>>>,
}

#[derive(Default, Deserialize)]
struct MetaVictims {
    #[serde(rename = "Pods", alias = "pods", default)]
    pods: Option<Vec<MetaPod>>,
    #[serde(rename = "NumPDBViolations", alias = "numPDBViolations", default)]
    violations: usize,
}

#[derive(Deserialize)]
struct MetaPod {
    #[serde(rename = "UID", alias = "uid")]
    uid: String,
}

impl PreemptExtender {
    pub(crate) fn new(url: String, caches_nodes: bool) -> Result<Self, UrlError> {
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
        Ok(Self {
            url,
            uri,
            caches_nodes,
        })
    }

    fn arguments(&self, cluster: &Cluster, preemptor: &Pod, offers: &[Offer]) -> Arguments {
        let victims = |describe: &dyn Fn(&Pod, &str) -> Value| {
            let node = |offer: &Offer| {
                let pods = &cluster.node(offer.node).pods;
                let name = cluster.node_name(offer.node);
                let victims = offer.victims.iter();
                let victims = Victims {
                    pods: victims
                        .map(|index| describe(&pods[*index as usize], name))
                        .collect(),
                    violations: offer.violations,
                };
                (name.to_owned(), victims)
            };
            offers.iter().map(node).collect()
        };
        let whole = |pod: &Pod, node: &str| pod_of(cluster, pod, node);
        let id = |pod: &Pod, _: &str| json!({ "UID": pod.uid() });
        Arguments {
            pod: pod_of(cluster, preemptor, ""),
            node_name_to_victims: (!self.caches_nodes).then(|| victims(&whole)),
            node_name_to_meta_victims: self.caches_nodes.then(|| victims(&id)),
        }
    }

    /// Sends the request and waits for the response.
    async fn exchange(&self, body: Vec<u8>) -> anyhow::Result<Bytes> {
        let host = self.uri.host().unwrap_or_default();
        let port = self.uri.port_u16().unwrap_or(80);
        let path = self.uri.path_and_query().map_or("/", |path| path.as_str());
        // An IPv6 address has brackets in a URL and none in an address.
        let address = host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((address, port)).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // The connection makes progress only while it is polled.
        tokio::spawn(connection);
        let request = Request::post(path)
            .header(header::HOST, format!("{host}:{port}"))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))?;
        let response = sender.send_request(request).await?;
        let code = response.status();
        anyhow::ensure!(code.is_success(), "answered {code}");
        let body = Limited::new(response.into_body(), LARGEST).collect();
        let body = body.await.map_err(|error| anyhow::anyhow!(error))?;
        Ok(body.to_bytes())
    }

    fn send(&self, arguments: &Arguments) -> anyhow::Result<Response> {
        let body = serde_json::to_vec(arguments)?;
        // The planner is not async: this is its only call over a network.
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let response = runtime.block_on(async {
            let exchange = tokio::time::timeout(TIMEOUT, self.exchange(body));
            let seconds = TIMEOUT.as_secs();
            exchange
                .await
                .map_err(|_| anyhow::anyhow!("did not answer within {seconds} s"))?
        })?;
        Ok(serde_json::from_slice(&response)?)
    }
}

impl Extender for PreemptExtender {
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
        let wrong = |problem| ExtenderError {
            name: self.url.clone(),
            problem,
        };
        let arguments = self.arguments(cluster, preemptor, offers);
        let response = self.send(&arguments);
        let response = response.map_err(|error| wrong(format!("{error:#}")))?;
        let nodes = response.nodes.unwrap_or_default().into_iter();
        nodes
            .map(|(name, victims)| {
                let id = cluster.find_node(&name);
                let id = id.ok_or_else(|| wrong(format!("there is no node \"{name}\"")))?;
                offer(cluster, id, victims.unwrap_or_default()).map_err(&wrong)
            })
            .collect()
    }
}

/// The candidate that the extender agrees to on one node.
fn offer(cluster: &Cluster, node: NodeId, agreed: MetaVictims) -> Result<Offer, String> {
    let pods = &cluster.node(node).pods;
    let find = |victim: MetaPod| {
        let index = pods.iter().position(|pod| pod.uid() == victim.uid);
        // A node's pods are counted in 32 bits.
        let index = index.and_then(|index| u32::try_from(index).ok());
        index.ok_or_else(|| {
            let (uid, name) = (victim.uid, cluster.node_name(node));
            format!("there is no pod with the UID \"{uid}\" on node \"{name}\"")
        })
    };
    let victims: Result<_, String> = agreed
        .pods
        .unwrap_or_default()
        .into_iter()
        .map(find)
        .collect();
    Ok(Offer {
        node,
        victims: victims?,
        violations: agreed.violations,
    })
}

/// A v1 Pod with the fields that a plan needs.
pub(crate) fn pod_of(cluster: &Cluster, pod: &Pod, node: &str) -> Value {
    let symbols = cluster.symbols();
    let template = cluster.template(pod);
    let labels = pod.labels().iter();
    let labels: BTreeMap<&str, &str> = labels
        .map(|(key, value)| (symbols.text(key), symbols.text(value)))
        .collect();
    let amounts = &pod.amounts;
    let mut requests = json!({
        "cpu": format!("{}m", amounts.cpu),
        "memory": amounts.memory.to_string(),
        "ephemeral-storage": amounts.ephemeral_storage.to_string(),
    });
    for (name, amount) in cluster.scalars(amounts.scalars) {
        requests[symbols.text(*name)] = json!(amount.to_string());
    }
    json!({
        "metadata": {
            "namespace": symbols.text(template.namespace), "name": pod.name(),
            "uid": pod.uid(), "labels": labels,
        },
        "spec": {
            "priority": pod.priority, "nodeName": node,
            "schedulerName": symbols.text(pod.identity.scheduler),
            // One container with the sum of all requests, because single containers are not kept.
            "containers": [{ "name": "all", "resources": { "requests": requests } }],
        },
    })
}
