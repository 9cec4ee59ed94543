//! `InterPodAffinity`: required affinity and anti-affinity of the pod, and anti-affinity of existing pods against it
//! (S5-088).

use super::{Filter, Here, Rejection};
use crate::cluster::Cluster;
use crate::group::Group;
use crate::id::NodeId;
use crate::labels::Labels;
use crate::pod::Pod;
use crate::symbol::Symbol;
use crate::template::PodTerm;
use crate::topology::TopologyDomains;
use std::sync::Arc;

/// The rules in the order of kube-scheduler's checks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// Affinity: a matching pod must be in the domain.
    Affinity,
    /// Anti-affinity: no matching pod may be in the domain.
    AntiAffinity,
    /// Anti-affinity of existing pods against the incoming one.
    ExistingAntiAffinity,
}

/// The pods that one rule counts in each domain of one label. Terms with the same rule and label share a tally. A pod
/// counts for affinity only if all terms select it, and for anti-affinity if any term does.
struct Tally {
    rule: Rule,
    topology: Arc<TopologyDomains>,
    /// Pods in each domain.
    pods: Box<[i64]>,
    /// Pods in all domains.
    all: i64,
    /// A node with such a pod in each domain.
    example: Box<[Option<NodeId>]>,
    /// The domain of the current node.
    here: Option<usize>,
}

impl Tally {
    fn add(&mut self, domain: Option<usize>, times: i64) {
        if let Some(domain) = domain {
            self.pods[domain] += times;
            self.all += times;
        }
    }

    fn is_empty_here(&self) -> bool {
        self.here.is_none_or(|domain| self.pods[domain] <= 0)
    }
}

struct InterPodAffinity {
    /// In the order of their rules.
    tallies: Box<[Tally]>,
    /// Whether pods of a group count in a tally: a row of all tallies for each group.
    counts: Box<[bool]>,
    /// Whether the pod matches its own affinity terms, so that it may be the first of its kind.
    selects_itself: bool,
}

pub(crate) fn new(cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
    let template = cluster.template(pod);
    let columns = columns(cluster, pod);
    if columns.is_empty() {
        return None;
    }
    let rows = cluster.groups().iter();
    let counts = rows.flat_map(|other| {
        let columns = columns.iter();
        columns.map(|(rule, key)| counts(cluster, *rule, *key, pod, other))
    });
    let tallies = columns.iter().map(|(rule, key)| {
        let topology = cluster.topology(*key);
        Tally {
            rule: *rule,
            pods: vec![0; topology.count].into(),
            all: 0,
            example: vec![None; topology.count].into(),
            here: None,
            topology,
        }
    });
    let mut filter = InterPodAffinity {
        counts: counts.collect(),
        tallies: tallies.collect(),
        selects_itself: all_select(
            cluster,
            &template.affinity,
            template.namespace,
            pod.labels(),
        ),
    };
    filter.count(cluster);
    // As in kube-scheduler, nominated pods do not count if no existing pod matches any term.
    let mut tallies = filter.tallies.iter();
    let any = tallies.any(|tally| tally.rule != Rule::ExistingAntiAffinity || tally.all > 0);
    any.then(|| Box::new(filter) as _)
}

/// Every rule and label with pods to count.
fn columns(cluster: &Cluster, pod: &Pod) -> Vec<(Rule, Symbol)> {
    let template = cluster.template(pod);
    let affinity = template.affinity.iter().map(|term| (Rule::Affinity, term));
    let away = template
        .anti_affinity
        .iter()
        .map(|term| (Rule::AntiAffinity, term));
    let others = cluster.groups().iter();
    let others = others.flat_map(|other| &other.anti_affinity);
    let existing_anti_affinity = others
        .filter(|term| selects(cluster, term, template.namespace, pod.labels()))
        .map(|term| (Rule::ExistingAntiAffinity, term));
    let mut columns = Vec::new();
    for (rule, term) in affinity.chain(away).chain(existing_anti_affinity) {
        let column = (rule, term.topology_key);
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    columns
}

/// Whether pods of a group count for a rule and label.
fn counts(cluster: &Cluster, rule: Rule, key: Symbol, pod: &Pod, other: &Group) -> bool {
    let template = cluster.template(pod);
    let any = |terms: &[PodTerm], namespace, labels: &Labels| {
        let mut terms = terms.iter().filter(|term| term.topology_key == key);
        terms.any(|term| selects(cluster, term, namespace, labels))
    };
    match rule {
        Rule::Affinity => all_select(cluster, &template.affinity, other.namespace, &other.labels),
        Rule::AntiAffinity => any(&template.anti_affinity, other.namespace, &other.labels),
        Rule::ExistingAntiAffinity => any(&other.anti_affinity, template.namespace, pod.labels()),
    }
}

fn all_select(cluster: &Cluster, terms: &[PodTerm], namespace: Symbol, labels: &Labels) -> bool {
    let mut all = terms.iter();
    !terms.is_empty() && all.all(|term| selects(cluster, term, namespace, labels))
}

/// Whether a term selects pods of a namespace with these labels.
pub(crate) fn selects(
    cluster: &Cluster,
    term: &PodTerm,
    namespace: Symbol,
    labels: &Labels,
) -> bool {
    term.selector.matches(cluster.symbols(), labels)
        && (term.namespaces.contains(&namespace)
            || cluster.namespace_matches(&term.namespace_selector, namespace))
}

impl InterPodAffinity {
    /// Counts the pods of all nodes.
    fn count(&mut self, cluster: &Cluster) {
        let Self {
            tallies, counts, ..
        } = self;
        let width = tallies.len();
        let rows = counts.chunks_exact(width).enumerate();
        for (group, row) in rows.filter(|(_, row)| row.contains(&true)) {
            for (id, pods) in cluster.nodes_of(group) {
                for (tally, _) in tallies.iter_mut().zip(row).filter(|(_, counts)| **counts) {
                    if let Some(domain) = tally.topology.of(id) {
                        tally.add(Some(domain), pods.running + pods.terminating);
                        tally.example[domain] = Some(id);
                    }
                }
            }
        }
    }

    /// The tally of the first violated rule.
    fn violated(&self) -> Option<&Tally> {
        self.tallies.iter().find(|tally| match tally.rule {
            Rule::Affinity => tally.here.is_none() || tally.is_empty_here() && !self.is_first(),
            Rule::AntiAffinity | Rule::ExistingAntiAffinity => !tally.is_empty_here(),
        })
    }

    /// Whether the pod may be the first of those that have affinity to each other.
    fn is_first(&self) -> bool {
        let affinity = self.tallies.iter();
        let mut affinity = affinity.filter(|tally| tally.rule == Rule::Affinity);
        self.selects_itself && affinity.all(|tally| tally.all == 0)
    }

    /// A pod that counts in a tally here, with its node if that is another one.
    fn example_pod(
        &self,
        here: Here<'_>,
        away: &dyn Fn(usize) -> bool,
        wanted: &Tally,
    ) -> Option<String> {
        let cluster = here.cluster;
        let column = self
            .tallies
            .iter()
            .position(|tally| std::ptr::eq(tally, wanted))?;
        let counts = |pod: &Pod| self.counts[pod.group.index() * self.tallies.len() + column];
        let name = |pod: &Pod| {
            let name = cluster.full_name(pod);
            format!("{name} (priority {})", pod.priority)
        };
        let mut pods = here.node.pods.iter().enumerate();
        if let Some((_, pod)) = pods.find(|(index, pod)| !away(*index) && counts(pod)) {
            return Some(name(pod));
        }
        let domain = wanted.here?;
        // The recorded node is tried first, because its pod may be the only one in a large domain.
        let others = cluster.node_ids();
        let others = others.filter(|id| wanted.topology.of(*id) == Some(domain));
        wanted.example[domain]
            .into_iter()
            .chain(others)
            .filter(|id| *id != here.id)
            .find_map(|id| {
                let mut pods = cluster.node(id).pods.iter();
                let pod = pods.find(|pod| counts(pod))?;
                Some(format!("{} on {}", name(pod), cluster.node_name(id)))
            })
    }
}

impl Filter for InterPodAffinity {
    fn changes(&self) -> bool {
        true
    }

    fn enter(&mut self, here: Here<'_>) {
        for tally in &mut self.tallies {
            tally.here = tally.topology.of(here.id);
        }
    }

    fn change(&mut self, _here: Here<'_>, pod: &Pod, times: i64) {
        let width = self.tallies.len();
        let row = &self.counts[pod.group.index() * width..][..width];
        for (tally, counts) in self.tallies.iter_mut().zip(row) {
            if *counts {
                tally.add(tally.here, times);
            }
        }
    }

    fn check(&self, _here: Here<'_>) -> Result<(), Rejection> {
        let Some(tally) = self.violated() else {
            return Ok(());
        };
        Err(match tally.rule {
            Rule::Affinity => Rejection::unresolvable("node(s) didn't match pod affinity rules"),
            Rule::AntiAffinity => {
                Rejection::unschedulable("node(s) didn't match pod anti-affinity rules")
            }
            Rule::ExistingAntiAffinity => {
                Rejection::unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")
            }
        })
    }

    fn obstacle(&self, here: Here<'_>, away: &dyn Fn(usize) -> bool) -> Option<String> {
        let tally = self.violated()?;
        let text = |symbol| here.cluster.symbols().text(symbol);
        let key = tally.topology.key;
        let example_pod = || self.example_pod(here, away, tally);
        match (tally.rule, here.node.labels.get(key)) {
            (Rule::Affinity, None) => Some(format!("the node has no label {}", text(key))),
            (Rule::Affinity, Some(value)) => {
                let value = text(value);
                Some(format!("no pod that it must be near in {value}"))
            }
            (Rule::AntiAffinity, _) => {
                Some(format!("required anti-affinity with {}", example_pod()?))
            }
            (Rule::ExistingAntiAffinity, _) => {
                Some(format!("required anti-affinity of {}", example_pod()?))
            }
        }
    }
}
