//! Fetches the inputs of `explain` from a cluster; by hand that takes four calls of kubectl.

use super::{
    Sources,
    freed::{self, Freed},
    kubelet_defaults, warn,
};
use anyhow::{Context, anyhow};
use evictd_cluster_client::{Access, ApiError, Credentials, Reader};
use evictd_command::Failure;
use evictd_document::{Assumptions, Document, DocumentError};
use evictd_node_config::{self as config, Loaded, Refused};
use std::{collections::HashSet, path::Path, time::Duration};
use sysinfo::System;

/// The kubelet measures for the request, which takes long on a node under pressure.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// The most nodes that are named if the user must choose one.
const NAMES_SHOWN: usize = 10;

/// The cluster and the node to fetch.
pub(super) struct Asked<'a> {
    pub(super) credentials: Credentials,
    /// `None`: the only one, or this machine.
    pub(super) node: Option<&'a str>,
    /// A configuration that replaces the kubelet's own.
    pub(super) config: Option<&'a Path>,
}

/// The answers of the API server.
struct Answers {
    pods: Result<String, ApiError>,
    summary: Result<String, ApiError>,
    /// `None`: not asked for.
    configz: Option<Result<String, ApiError>>,
    node: Result<String, ApiError>,
    lease: Result<String, ApiError>,
    events: Result<String, ApiError>,
}

impl Asked<'_> {
    /// Fetches everything, or names all missing rights together. Continues with a warning without the Node, its Lease and
    /// the kubelet's configuration.
    pub(super) fn fetch(&self) -> Result<Sources, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the runtime")?;
        runtime.block_on(async {
            let access = Access::find(&self.credentials).await;
            let access = access.map_err(|error| match error {
                ApiError::Unknown => Failure::Input(anyhow!(
                    "no API server is known: not in a cluster, no $KUBECONFIG, no ~/.kube/config; name one with \
                     --kubeconfig, or read captured files: --pods FILE --summary FILE (see --help)"
                )),
                other => Failure::input(other),
            })?;
            let server = access.server();
            let cluster = Cluster {
                reader: access
                    .reader(ANSWER_TIMEOUT)
                    .map_err(|error| failure(&server, vec![error], &[]))?,
                server,
            };
            let node = match self.node {
                Some(name) => name.to_owned(),
                None => cluster.choose().await?,
            };
            let answers = Box::pin(cluster.answers(&node, self.config.is_none())).await;
            self.sources(&cluster, &node, answers).await
        })
    }

    async fn sources(
        &self,
        cluster: &Cluster,
        node: &str,
        answers: Answers,
    ) -> Result<Sources, Failure> {
        // A misspelt name: all other answers would be empty, and the reason would not be seen.
        if answers.node.as_ref().is_err_and(not_found) {
            return Err(cluster.no_such_node(node).await);
        }
        let (pods, summary) = match (answers.pods, answers.summary) {
            (Ok(pods), Ok(summary)) => (pods, summary),
            (pods, summary) => {
                let needed = [pods.err(), summary.err()].into_iter().flatten().collect();
                let others = [
                    answers.node.err(),
                    answers.lease.err(),
                    answers.events.err(),
                ];
                let configz = answers.configz.and_then(Result::err);
                let others: Vec<ApiError> = others.into_iter().chain([configz]).flatten().collect();
                // All refusals at once, so that missing rights need not be found one after the other.
                return Err(failure(&cluster.server, needed, &others));
            }
        };
        let (loaded, rules_from) = match (self.config, answers.configz) {
            (Some(file), _) => (config::open(file), format!("from {}", file.display())),
            (None, configz) => rules(node, configz),
        };
        let pods = Document::new(format!("the pods of {node}"), pods);
        let pods = pods.and_then(|document| document.pods());
        Ok(Sources {
            pods: pods
                .map(|pods| (pods, Assumptions::default()))
                .map_err(Into::into),
            summary: Document::new(format!("the summary of {node}"), summary),
            node: node_and_lease(node, answers.node, answers.lease),
            freed: freed(answers.events),
            loaded,
            rules_from,
        })
    }
}

/// The kubelet's own configuration, else its defaults.
fn rules(
    node: &str,
    configz: Option<Result<String, ApiError>>,
) -> (Result<Loaded, Refused>, String) {
    match configz {
        Some(Ok(text)) => {
            let name = format!("the configz of {node}");
            let loaded = config::parse(&name, &text);
            (loaded, format!("from {node} (configz)"))
        }
        other => {
            if let Some(Err(error)) = other {
                warn(&format!(
                    "{error}; the kubelet's default thresholds are used (--config sets others)"
                ));
            }
            // The proxy to a kubelet needs a right of its own, which many users lack.
            let why = "with its default thresholds, because its configz could not be read";
            (kubelet_defaults(), why.to_owned())
        }
    }
}

fn node_and_lease(
    name: &str,
    node: Result<String, ApiError>,
    lease: Result<String, ApiError>,
) -> Option<Result<Document, DocumentError>> {
    let node = node.map_err(|error| warn(&format!("{error}; its taints are left out")));
    let node = node.ok()?;
    let lease = lease.map_err(|error| {
        warn(&format!(
            "{error}; whether the node has stopped reporting is left out"
        ));
    });
    // Both as one document, which is also the form of captured files.
    let items: Vec<String> = [Ok(node), lease].into_iter().flatten().collect();
    let list = format!(r#"{{"kind":"List","items":[{}]}}"#, items.join(","));
    Some(Document::new(format!("the Node {name}"), list))
}

fn freed(events: Result<String, ApiError>) -> Vec<Freed> {
    let events = events.map_err(|error| error.to_string());
    let freed = events.and_then(|text| freed::parse(&text).map_err(|error| error.to_string()));
    freed.unwrap_or_else(|error| {
        warn(&format!("{error}; what evictd freed there is left out"));
        Vec::new()
    })
}

/// A cluster that is asked.
struct Cluster {
    reader: Reader,
    server: String,
}

impl Cluster {
    async fn answers(&self, node: &str, configz: bool) -> Answers {
        let pods = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}");
        let itself = format!("/api/v1/nodes/{node}");
        let summary = format!("{itself}/proxy/stats/summary");
        let config = format!("{itself}/proxy/configz");
        let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
        let lease = format!("{leases}/{node}");
        let events = freed::path(node);
        let get = |path| self.reader.get(path);
        let configz = async {
            if configz {
                Some(get(&config).await)
            } else {
                None
            }
        };
        // At the same time, so that they describe the same moment as nearly as possible.
        let (pods, summary, configz, node, lease, events) = tokio::join!(
            get(&pods),
            get(&summary),
            configz,
            get(&itself),
            get(&lease),
            get(&events)
        );
        Answers {
            pods,
            summary,
            configz,
            node,
            lease,
            events,
        }
    }

    /// The cluster's only node, or the one that this machine is.
    async fn choose(&self) -> Result<String, Failure> {
        let names = self.names().await;
        let mut names = names.map_err(|error| failure(&self.server, vec![error], &[]))?;
        let host = System::host_name().unwrap_or_default().to_lowercase();
        // A kubelet registers its node by the lower-case host name unless it is told another one.
        if names.contains(&host) {
            return Ok(host);
        }
        if names.len() == 1 {
            return Ok(names.remove(0));
        }
        let (server, known) = (&self.server, listed(&names));
        Err(Failure::Input(anyhow!(
            "{server}: NODE is needed, because this machine, {host}, is not one of its nodes: {known}"
        )))
    }

    async fn no_such_node(&self, node: &str) -> Failure {
        let known = match self.names().await {
            Ok(names) => format!("; its nodes are {}", listed(&names)),
            // The list of nodes is only a help.
            Err(_) => String::new(),
        };
        let server = &self.server;
        Failure::Input(anyhow!("{server}: there is no node {node}{known}"))
    }

    async fn names(&self) -> Result<Vec<String>, ApiError> {
        self.reader.pages("/api/v1/nodes").names().await
    }
}

/// `a, b, c, ... and 7 more`
fn listed(names: &[String]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    let shown = names.iter().take(NAMES_SHOWN).cloned();
    let shown = shown.collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES_SHOWN) {
        0 => shown,
        more => format!("{shown}, ... and {more} more"),
    }
}

fn not_found(error: &ApiError) -> bool {
    error.status().is_some_and(|status| status.code == 404)
}

/// Why nothing can be explained: all missing rights together, so that they can be granted at once; else the first error.
fn failure(server: &str, needed: Vec<ApiError>, others: &[ApiError]) -> Failure {
    let missing = |error: &ApiError| match error {
        ApiError::Forbidden { right, .. } => Some(right.brief()),
        _ => None,
    };
    if needed.iter().any(|error| missing(error).is_some()) {
        let mut rights: Vec<String> = needed.iter().chain(others).filter_map(missing).collect();
        // The summary and the configuration take the same.
        let mut seen = HashSet::new();
        rights.retain(|right| seen.insert(right.clone()));
        return Failure::NotPermitted(anyhow!(
            "{server}: not permitted; these RBAC verbs are missing: {}",
            rights.join(", ")
        ));
    }
    let first = needed.into_iter().next().map(anyhow::Error::new);
    let first = first.unwrap_or_else(|| anyhow!("nothing was answered"));
    Failure::Work(first.context(server.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_testkit::{ApiServer, Fault};

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_answer_in_time_is_told_and_is_no_bad_input() {
        let api = ApiServer::start().unwrap();
        api.fault(Fault::delay(Duration::from_hours(1)));
        let config = kube::Config::new(api.url().parse().unwrap());
        let access = Access::new("a test".into(), config);
        let cluster = Cluster {
            reader: access.reader(ANSWER_TIMEOUT).unwrap(),
            server: access.server(),
        };
        let asked = Asked {
            credentials: Credentials::default(),
            node: Some("one"),
            config: None,
        };
        let answers = Box::pin(cluster.answers("one", true)).await;
        let failure = asked.sources(&cluster, "one", answers).await.err();
        let told = format!(
            "{}: GET /api/v1/pods?fieldSelector=spec.nodeName%3Done: no answer within 15 s",
            api.url()
        );
        assert!(matches!(failure, Some(Failure::Work(_))), "{failure:?}");
        assert_eq!(failure.unwrap().to_string(), told);
        let failure = cluster.choose().await.unwrap_err();
        assert!(failure.to_string().contains("no answer within 15 s"));
    }
}
