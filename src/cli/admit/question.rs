//! Reads the question of `evictd admit` from its options and files.

use super::Arguments;
use crate::cli::{Failure, mistakes::Mistakes};
use evictd_admission::{Failure as Finding, Insufficient, Outcome, fit};
use evictd_command::warn;
use evictd_document::{Document, DocumentError, SMALL, pods_at};
use evictd_pod::compatibility::Release;
use evictd_pod::wire::ConditionStatus;
use evictd_pod::{Node, Pod, Quantity, resources};
use evictd_signals::NodeCondition;
use std::path::Path;

/// May this pod be admitted beside those pods on that node?
pub(super) struct Question {
    pod: Pod,
    /// The pods on the node.
    pub(super) pods: Vec<Pod>,
    /// The pods of the list that have ended or belong to another node.
    others: Vec<Pod>,
    conditions: Vec<NodeCondition>,
    findings: Vec<Finding>,
}

impl Arguments {
    /// Whether any option gives the state to answer from, so that the daemon is not asked.
    pub(super) fn are_offline(&self) -> bool {
        let lists = [&self.conditions, &self.insufficient, &self.failed];
        self.pods.is_some() || self.node.is_some() || lists.iter().any(|list| list.is_some())
    }

    /// Reads all files, and returns all mistakes together.
    pub(super) fn question(&self) -> Result<Question, Failure> {
        let mut mistakes = Mistakes::default();
        let files = [Some(&self.pod), self.pods.as_ref(), self.node.as_ref()];
        if files
            .into_iter()
            .flatten()
            .filter(|file| is_stdin(file))
            .count()
            > 1
        {
            mistakes.keep(Err::<(), _>(
                "only one of --pod, --pods and --node can be standard input",
            ));
            return mistakes.finish(None);
        }
        let node = self.node.as_ref().map(|file| node(file)).transpose();
        let release = node.as_ref().ok().and_then(Option::as_ref);
        let release = release.map(|node| node.status.node_info.release());
        let pod = mistakes.keep(pod(&self.pod, release.unwrap_or_default()));
        let pods = self.pods.as_deref().map(pods_at).transpose();
        let (pods, assumptions) = mistakes.keep(pods).flatten().unwrap_or_default();
        for assumption in assumptions.lines() {
            warn("evictd", &assumption);
        }
        let node = mistakes.keep(node).flatten();
        let conditions = each(&mut mistakes, self.conditions.as_ref(), condition);
        let missing = each(&mut mistakes, self.insufficient.as_ref(), missing);
        let failed = each(&mut mistakes, self.failed.as_ref(), |name| {
            Ok::<_, String>(failed(name))
        });

        // The amounts of `--missing` come from a complete check made elsewhere, so the Node is not checked again.
        let unchecked = node.as_ref().filter(|_| missing.is_none());
        let conditions = match unchecked {
            _ if missing.is_some() => Vec::new(),
            Some(node) => conditions.unwrap_or_else(|| pressure_of(node)),
            None => conditions.unwrap_or_default(),
        };
        let question = pod.map(|pod| {
            let found = unchecked.map(|node| fit::failures(&pod, &pods, node));
            let findings = [missing, found, failed].into_iter().flatten().flatten();
            let findings = findings.collect();
            let is_here = |pod: &Pod| node.as_ref().is_none_or(|node| fit::is_here(pod, node));
            let (pods, others) = pods.into_iter().partition(is_here);
            Question {
                pod,
                pods,
                others,
                conditions,
                findings,
            }
        });
        mistakes.finish(question)
    }
}

impl Question {
    pub(super) fn answer(&self) -> Outcome {
        let Self {
            pod,
            pods,
            conditions,
            findings,
            ..
        } = self;
        let mut outcome = evictd_admission::admit(pod, pods, conditions, findings).named(pods);
        let others = self.others.iter();
        let qos = others.map(|pod| (pod.full_name(), pod.qos.as_str().to_owned()));
        outcome.qos.extend(qos);
        outcome
    }
}

fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == "-"
}

pub(super) fn pod(file: &Path, release: Release) -> Result<Pod, DocumentError> {
    Document::read(file, SMALL)?.pod_of_release(release)
}

fn node(file: &Path) -> Result<Node, DocumentError> {
    let (node, _) = Document::read(file, SMALL)?.node_and_lease()?;
    Ok(node)
}

/// Every entry of a list option except blank ones; `None` if the option is not given.
fn each<T, E: std::fmt::Display>(
    mistakes: &mut Mistakes,
    list: Option<&Vec<String>>,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Option<Vec<T>> {
    let entries = list?.iter().map(|entry| entry.trim());
    let entries = entries.filter(|entry| !entry.is_empty());
    Some(
        entries
            .filter_map(|entry| mistakes.keep(parse(entry)))
            .collect(),
    )
}

fn condition(name: &str) -> Result<NodeCondition, String> {
    NodeCondition::parse(name).ok_or_else(|| {
        let known = NodeCondition::ALL.map(NodeCondition::as_str).join(", ");
        format!("--conditions: {name} is not a condition that admission knows: {known}")
    })
}

fn pressure_of(node: &Node) -> Vec<NodeCondition> {
    let conditions = node.status.conditions.iter();
    conditions
        .filter(|condition| condition.status == ConditionStatus::True)
        .filter_map(|condition| NodeCondition::parse(&condition.kind))
        .collect()
}

/// `cpu=446m`
fn missing(entry: &str) -> Result<Finding, String> {
    let (resource, amount) = entry
        .split_once('=')
        .filter(|(resource, _)| !resource.is_empty())
        .ok_or_else(|| format!("--insufficient: {entry} is not of the form RESOURCE=AMOUNT"))?;
    let amount: Quantity = amount
        .parse()
        .map_err(|error| format!("--insufficient: {entry}: {error}"))?;
    if amount.is_negative() {
        return Err(format!(
            "--insufficient: {entry}: the missing amount is negative"
        ));
    }
    let units = resources::units(resource, amount);
    Ok(Finding::Insufficient(Insufficient::missing(
        resource.to_owned(),
        units,
    )))
}

fn failed(name: &str) -> Finding {
    Finding::Predicate {
        name: name.to_owned(),
        why: "named by --failed".to_owned(),
    }
}
