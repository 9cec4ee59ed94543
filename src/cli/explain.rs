//! `evictd explain`: one cycle over the captured state of a real node.

mod fetch;
mod freed;
mod html;
mod huge_pages;
mod layout;
mod page;
mod report;
mod taints;
mod verdict;

use super::{
    mistakes::Mistakes,
    table::{duration, moment},
};
use anyhow::anyhow;
use clap::{Args, builder::PossibleValuesParser};
use evictd_cluster_client::Credentials;
use evictd_command::{Failure, PageOutput};
use evictd_document::{Assumptions, Document, DocumentError, LARGE, ObjectsError, SMALL, pods_at};
use evictd_kernel::clock::Clock;
use evictd_node_config::{self as config, Effective, Kind, Loaded, MemoryAvailable};
use evictd_pod::{Node, Pod, node::Lease};
use evictd_signals::Signal;
use evictd_usage::Summary;
use huge_pages::MemoryFigure;
use jiff::Timestamp;
use std::{collections::HashSet, path::PathBuf};

const EXAMPLE: &str = "Examples:
  evictd explain node-1 --context prod
  kubectl evictd explain node-1    # the same as a plugin of kubectl

Without access to the cluster, from files:
  kubectl get pods -A --field-selector spec.nodeName=node-1 -o json > pods.json
  kubectl get --raw /api/v1/nodes/node-1/proxy/stats/summary > summary.json
  kubectl get --raw /api/v1/nodes/node-1/proxy/configz > kubelet.json
  kubectl get -n kube-node-lease node/node-1 lease/node-1 -o json > node.json
  evictd explain --pods pods.json --summary summary.json \\
    --config kubelet.json --node node.json";

/// Which pod a node would evict next, and why: one cycle over the state of a real node, fetched or read from files.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// A node of the cluster, whose state is fetched; nothing is changed. Default: this machine, or the only node.
    #[arg(value_name = "NODE", value_parser = node_name, conflicts_with_all = ["pods", "summary", "node"])]
    node_name: Option<String>,
    /// The cluster, as a context of the kubeconfig. Default: the current context.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["pods", "summary", "node"])]
    context: Option<String>,
    /// The kubeconfig. Default: the one that kubectl would use.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pods", "summary", "node"])]
    kubeconfig: Option<PathBuf>,
    /// The node's pods: a list as kubectl or the kubelet prints it, JSON or YAML; - is stdin, and of a directory all such
    /// files are read.
    #[arg(long, value_name = "FILE", requires = "summary")]
    pods: Option<PathBuf>,
    /// The node's figures: the kubelet's /stats/summary; - is stdin.
    #[arg(long, value_name = "FILE", requires = "pods")]
    summary: Option<PathBuf>,
    /// Thresholds and rules: a configuration of the kubelet or of evictd. Default: that of the node's kubelet if it is
    /// fetched, else the kubelet's defaults.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The v1 Node: adds its taints, and which pods they remove and when. In a List with the node's Lease, also whether
    /// the node has stopped reporting.
    #[arg(long, value_name = "FILE", requires = "pods")]
    node: Option<PathBuf>,
    /// The images have a filesystem of their own. Without this and --split-container-fs, the figures decide.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    dedicated_image_fs: Option<bool>,
    /// The containers' writable layers are not on the filesystem of the images.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    split_container_fs: Option<bool>,
    /// Rank the pods for this signal. Default: the one that acts or is crossed, else memory.available.
    #[arg(long, value_name = "SIGNAL", value_parser = PossibleValuesParser::new(Signal::ALL.map(Signal::as_str)))]
    signal: Option<String>,
    /// The time of the capture (2026-11-21T00:12:20Z), to which ages and times to come refer. Default: now.
    #[arg(long, value_name = "TIME", value_parser = time)]
    now: Option<Timestamp>,
    #[command(flatten)]
    output: PageOutput,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let now = self.now.unwrap_or_else(|| Clock::start().now());
        let sources = match (&self.pods, &self.summary) {
            (Some(pods), Some(summary)) => self.read(pods, summary)?,
            _ => self.asked().fetch()?,
        };
        let Captured {
            pods,
            mut summary,
            node,
            freed,
            loaded,
            rules_from,
        } = sources.understood()?;
        let kind = loaded.effective.kind;
        let memory = node
            .as_ref()
            .and_then(|(node, _)| huge_pages::subtract(&mut summary, node, kind));
        if let Some(counts @ MemoryFigure::Counts { .. }) = &memory {
            warn(&counts.to_string());
        }
        // A captured list is often that of the whole cluster.
        let pods = on_this_node(pods, &summary);
        warn_of_mismatches(&pods, &summary);
        let assumed = layout::assume(&summary, self.dedicated_image_fs, self.split_container_fs);
        let mut rules = loaded.effective.rules();
        rules.layout = assumed.layout;
        if let Some(version) = node
            .as_ref()
            .and_then(|(node, _)| node.status.node_info.kubelet())
        {
            rules.follow_kubelet(version);
        }
        let period = rules.pressure_transition_period;
        let signal = self.signal.as_deref().and_then(Signal::parse);
        let mut report = report::explain(now, &pods, &summary, rules, signal);
        report.freed = freed;
        report.assumed = vec![
            rules_in_words(&loaded.effective, &rules_from),
            format!("{}: {}", layout_in_words(&assumed), assumed.because),
            age(&summary, now),
        ];
        report
            .assumed
            .extend(memory.map(|figure| figure.to_string()));
        if let Some((node, lease)) = &node {
            let shown = &report.step.node_conditions;
            let figures = taints::Shown {
                conditions: shown,
                at: newest(&summary).unwrap_or(now),
                period,
            };
            report.node = Some(taints::report(node, lease.as_ref(), &figures, &pods, now));
        }
        self.output.print(&report, page::page, html::html)
    }
}

/// The texts that were read or fetched, each with the name that mistakes in it are reported under.
struct Sources {
    pods: Result<(Vec<Pod>, Assumptions), ObjectsError>,
    summary: Result<Document, DocumentError>,
    node: Option<Result<Document, DocumentError>>,
    freed: Vec<freed::Freed>,
    loaded: Result<Loaded, config::Refused>,
    /// The origin of the rules, as it follows "the kubelet's rules ".
    rules_from: String,
}

/// The parsed input.
struct Captured {
    pods: Vec<Pod>,
    summary: Summary,
    node: Option<(Node, Option<Lease>)>,
    freed: Vec<freed::Freed>,
    loaded: Loaded,
    rules_from: String,
}

impl Arguments {
    fn asked(&self) -> fetch::Asked<'_> {
        fetch::Asked {
            credentials: Credentials {
                kubeconfig: self.kubeconfig.clone(),
                context: self.context.clone().unwrap_or_default(),
            },
            node: self.node_name.as_deref(),
            config: self.config.as_deref(),
        }
    }

    fn read(&self, pods: &PathBuf, summary: &PathBuf) -> Result<Sources, Failure> {
        let named = [
            Some(pods),
            Some(summary),
            self.config.as_ref(),
            self.node.as_ref(),
        ];
        let stdin = named
            .into_iter()
            .flatten()
            .filter(|path| path.as_os_str() == "-");
        if stdin.count() > 1 {
            return Err(Failure::Input(anyhow!("only one file can be - (stdin)")));
        }
        let (loaded, rules_from) = match self.config.as_deref() {
            Some(file) => (config::open(file), format!("from {}", file.display())),
            None => (
                kubelet_defaults(),
                "with its default thresholds, because --config is missing".to_owned(),
            ),
        };
        let node = self.node.as_deref();
        Ok(Sources {
            pods: pods_at(pods),
            summary: Document::read(summary, LARGE),
            node: node.map(|file| Document::read(file, SMALL)),
            freed: Vec::new(),
            loaded,
            rules_from,
        })
    }
}

impl Sources {
    /// The parsed input, or the mistakes of all sources together.
    fn understood(self) -> Result<Captured, Failure> {
        let node = self.node.map(|read| read?.node_and_lease()).transpose();
        let mut mistakes = Mistakes::default();
        let pods = mistakes.keep(self.pods);
        let summary = mistakes.keep(self.summary.and_then(|document| summary(&document)));
        let node = mistakes.keep(node);
        let loaded = mistakes.keep(self.loaded);
        let all = pods.zip(summary).zip(node.zip(loaded));
        let (((pods, assumptions), summary), (node, loaded)) = mistakes.finish(all)?;
        let warnings = loaded.warnings.iter().map(ToString::to_string);
        for warning in assumptions.lines().into_iter().chain(warnings) {
            warn(&warning);
        }
        Ok(Captured {
            pods,
            summary,
            node,
            freed: self.freed,
            loaded,
            rules_from: self.rules_from,
        })
    }
}

fn rules_in_words(effective: &Effective, from: &str) -> String {
    match effective.kind {
        Kind::Kubelet => format!("the kubelet's rules {from}"),
        Kind::Evictd if effective.memory_available == MemoryAvailable::MemAvailable => format!(
            "evictd's rules {from}; memory.available is the kubelet's figure, which counts page cache as used"
        ),
        Kind::Evictd => format!("evictd's rules {from}"),
    }
}

/// It becomes part of a path.
fn node_name(text: &str) -> Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    let named = text.starts_with(|first: char| first.is_ascii_alphanumeric());
    if named && text.bytes().all(fits) {
        return Ok(text.to_owned());
    }
    Err("not the name of a node; letters, digits, - and . are allowed".to_owned())
}

fn time(text: &str) -> Result<Timestamp, String> {
    let needed = "a time in the format of RFC 3339 is needed, such as 2026-11-21T00:12:20Z or 2026-11-21T01:12:20+01:00";
    text.parse().map_err(|_| needed.to_owned())
}

/// The kubelet's defaults, without warnings, because no user has written them.
fn kubelet_defaults() -> Result<Loaded, config::Refused> {
    let loaded = config::parse("the kubelet's defaults", "kind: KubeletConfiguration");
    loaded.map(|loaded| Loaded {
        warnings: Vec::new(),
        ..loaded
    })
}

/// A summary with at least one figure; a document without any is of another kind.
fn summary(document: &Document) -> Result<Summary, DocumentError> {
    let summary: Summary = document.parse()?;
    if summary.pods.is_empty() && summary.observations().iter().next().is_none() {
        let needed = "holds no figures of a node or its pods; a kubelet's /stats/summary is needed";
        return Err(document.wrong(needed));
    }
    Ok(summary)
}

/// The pods on the node of the summary; all pods if none names that node.
fn on_this_node(mut pods: Vec<Pod>, summary: &Summary) -> Vec<Pod> {
    pods.retain(|pod| !pod.terminal);
    let name = &summary.node.node_name;
    let here = |pod: &Pod| pod.node_name.is_empty() || pod.node_name == *name;
    let elsewhere = pods.iter().filter(|pod| !here(pod)).count();
    if name.is_empty() || elsewhere == 0 {
        return pods;
    }
    // The summary may come from a copy of the node under another name, so the pods are kept.
    if elsewhere == pods.len() {
        warn(&format!(
            "no pod of the list runs on {name}, where the summary comes from"
        ));
        return pods;
    }
    warn(&format!(
        "{elsewhere} pods of the list run on other nodes than {name} and are left out"
    ));
    pods.retain(here);
    pods
}

/// Warns where the pods and the summary do not match.
fn warn_of_mismatches(pods: &[Pod], summary: &Summary) {
    let nameless = pods
        .iter()
        .filter(|pod| pod.uid.is_empty())
        .map(Pod::full_name);
    warn_of(
        nameless,
        "pods without metadata.uid, to which no figures can be assigned",
    );
    let measured: HashSet<&str> = summary
        .pods
        .iter()
        .map(|stats| stats.pod_ref.uid.as_str())
        .collect();
    let unmeasured = pods
        .iter()
        .filter(|pod| !pod.uid.is_empty() && !measured.contains(pod.uid.as_str()));
    warn_of(
        unmeasured.map(Pod::full_name),
        "pods that are not in the summary, so that their usage is unknown",
    );
    let listed: HashSet<&str> = pods.iter().map(|pod| pod.uid.as_str()).collect();
    let unlisted = summary
        .pods
        .iter()
        .map(|stats| &stats.pod_ref)
        .filter(|pod| !listed.contains(pod.uid.as_str()));
    warn_of(
        unlisted.map(|pod| format!("{}/{}", pod.namespace, pod.name)),
        "pods that are only in the summary, and are not ranked",
    );
}

/// `pods that ... (4): a, b, c, ...`
fn warn_of(pods: impl Iterator<Item = String>, what: &str) {
    let pods: Vec<String> = pods.collect();
    if pods.is_empty() {
        return;
    }
    let rest = if pods.len() > 3 { ", ..." } else { "" };
    let named = pods.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
    warn(&format!("{what} ({}): {named}{rest}", pods.len()));
}

fn warn(what: &str) {
    evictd_command::warn("evictd", what);
}

fn layout_in_words(assumed: &layout::Assumed) -> &'static str {
    match (
        assumed.layout.dedicated_image_fs,
        assumed.layout.split_container_fs,
    ) {
        (true, true) => "images on a filesystem of their own, containers on the node's",
        (true, false) => "images and containers on a filesystem of their own",
        (false, _) => "one filesystem for everything",
    }
}

/// When the newest of the figures was measured.
fn newest(summary: &Summary) -> Option<Timestamp> {
    let times = summary.observations();
    times.iter().filter_map(|(_, observed)| observed.time).max()
}

/// The age of the figures.
fn age(summary: &Summary, now: Timestamp) -> String {
    match newest(summary) {
        None => "the figures do not say when they were measured".to_owned(),
        Some(time) if time > now => format!("figures from {}, after now", moment(time)),
        Some(time) => format!(
            "figures from {}, {} ago",
            moment(time),
            duration(now.duration_since(time))
        ),
    }
}
