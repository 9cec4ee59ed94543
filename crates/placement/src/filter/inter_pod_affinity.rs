//! `InterPodAffinity`: pods that a pod must be near, pods it must be away from, and pods that want it away from them
//! (S5-088).

use super::{Filter, Here, Rejection};
use crate::cluster::Cluster;
use crate::group::Group;
use crate::id::NodeId;
use crate::labels::Labels;
use crate::places::Places;
use crate::pod::Pod;
use crate::symbol::Symbol;
use crate::template::PodTerm;
use std::sync::Arc;

/// How counted pods decide, in the order in which it is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// The pod must be where there is one.
    Near,
    /// It must be where there is none.
    Away,
    /// They do not want it where they are.
    Unwanted,
}

/// Pods that matter under one rule, counted by the places of one label. Terms with the same rule and label share it: a
/// pod counts for affinity only if all terms select it, and against anti-affinity if any does.
struct Tally {
    rule: Rule,
    places: Arc<Places>,
    /// Pods of each place.
    pods: Box<[i64]>,
    /// Pods of all places.
    all: i64,
    /// Of each place, a node that has such a pod.
    example: Box<[Option<NodeId>]>,
    /// The place of the node that is asked.
    here: Option<usize>,
}

impl Tally {
    fn add(&mut self, place: Option<usize>, times: i64) {
        if let Some(place) = place {
            self.pods[place] += times;
            self.all += times;
        }
    }

    fn is_empty_here(&self) -> bool {
        self.here.is_none_or(|place| self.pods[place] <= 0)
    }
}

struct InterPodAffinity {
    /// In the order of their rules.
    tallies: Box<[Tally]>,
    /// Whether pods of a group count in a tally: a row of every tally for each group.
    counts: Box<[bool]>,
    /// Whether the pod would count for its own affinity, so that it may be the first of its like.
    selects_itself: bool,
}

pub(crate) fn new(cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
    let own = cluster.template(pod);
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
        let places = cluster.places(*key);
        Tally {
            rule: *rule,
            pods: vec![0; places.count].into(),
            all: 0,
            example: vec![None; places.count].into(),
            here: None,
            places,
        }
    });
    let mut filter = InterPodAffinity {
        counts: counts.collect(),
        tallies: tallies.collect(),
        selects_itself: all_select(cluster, &own.affinity, own.namespace, pod.labels()),
    };
    filter.count(cluster);
    // Where nobody on a node matters, kube-scheduler does not ask about pods that are on their way either.
    let mut tallies = filter.tallies.iter();
    let any = tallies.any(|tally| tally.rule != Rule::Unwanted || tally.all > 0);
    any.then(|| Box::new(filter) as _)
}

/// Every rule and label under which pods have to be counted.
fn columns(cluster: &Cluster, pod: &Pod) -> Vec<(Rule, Symbol)> {
    let own = cluster.template(pod);
    let near = own.affinity.iter().map(|term| (Rule::Near, term));
    let away = own.anti_affinity.iter().map(|term| (Rule::Away, term));
    let others = cluster.groups().iter();
    let others = others.flat_map(|other| &other.anti_affinity);
    let unwanted = others
        .filter(|term| selects(cluster, term, own.namespace, pod.labels()))
        .map(|term| (Rule::Unwanted, term));
    let mut columns = Vec::new();
    for (rule, term) in near.chain(away).chain(unwanted) {
        let column = (rule, term.topology_key);
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    columns
}

/// Whether pods of a group count.
fn counts(cluster: &Cluster, rule: Rule, key: Symbol, pod: &Pod, other: &Group) -> bool {
    let own = cluster.template(pod);
    let any = |terms: &[PodTerm], namespace, labels: &Labels| {
        let mut terms = terms.iter().filter(|term| term.topology_key == key);
        terms.any(|term| selects(cluster, term, namespace, labels))
    };
    match rule {
        Rule::Near => all_select(cluster, &own.affinity, other.namespace, &other.labels),
        Rule::Away => any(&own.anti_affinity, other.namespace, &other.labels),
        Rule::Unwanted => any(&other.anti_affinity, own.namespace, pod.labels()),
    }
}

fn all_select(cluster: &Cluster, terms: &[PodTerm], namespace: Symbol, labels: &Labels) -> bool {
    let mut all = terms.iter();
    !terms.is_empty() && all.all(|term| selects(cluster, term, namespace, labels))
}

/// Whether a term means pods of a namespace with these labels.
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
    /// Counts the pods of every node.
    fn count(&mut self, cluster: &Cluster) {
        let Self {
            tallies, counts, ..
        } = self;
        let width = tallies.len();
        let rows = counts.chunks_exact(width).enumerate();
        for (group, row) in rows.filter(|(_, row)| row.contains(&true)) {
            for (id, pods) in cluster.nodes_of(group) {
                for (tally, _) in tallies.iter_mut().zip(row).filter(|(_, counts)| **counts) {
                    if let Some(place) = tally.places.of(id) {
                        tally.add(Some(place), pods.running + pods.terminating);
                        tally.example[place] = Some(id);
                    }
                }
            }
        }
    }

    /// The tally of the first rule that is broken here.
    fn broken(&self) -> Option<&Tally> {
        self.tallies.iter().find(|tally| match tally.rule {
            Rule::Near => tally.here.is_none() || tally.is_empty_here() && !self.is_first(),
            Rule::Away | Rule::Unwanted => !tally.is_empty_here(),
        })
    }

    /// Whether the pod is the first of those that want to be near each other.
    fn is_first(&self) -> bool {
        let near = self.tallies.iter();
        let mut near = near.filter(|tally| tally.rule == Rule::Near);
        self.selects_itself && near.all(|tally| tally.all == 0)
    }

    /// A pod that counts in a tally here, with its node if that is another one.
    fn somebody(
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
        let mut own = here.node.pods.iter().enumerate();
        if let Some((_, pod)) = own.find(|(index, pod)| !away(*index) && counts(pod)) {
            return Some(name(pod));
        }
        let place = wanted.here?;
        let others = cluster.node_ids();
        let others = others.filter(|id| wanted.places.of(*id) == Some(place));
        wanted.example[place]
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
            tally.here = tally.places.of(here.id);
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
        let Some(tally) = self.broken() else {
            return Ok(());
        };
        Err(match tally.rule {
            Rule::Near => Rejection::unresolvable("node(s) didn't match pod affinity rules"),
            Rule::Away => Rejection::unschedulable("node(s) didn't match pod anti-affinity rules"),
            Rule::Unwanted => {
                Rejection::unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")
            }
        })
    }

    fn obstacle(&self, here: Here<'_>, away: &dyn Fn(usize) -> bool) -> Option<String> {
        let tally = self.broken()?;
        let text = |symbol| here.cluster.symbols().text(symbol);
        let key = tally.places.key;
        let somebody = || self.somebody(here, away, tally);
        match (tally.rule, here.node.labels.get(key)) {
            (Rule::Near, None) => Some(format!("the node has no label {}", text(key))),
            (Rule::Near, Some(value)) => {
                let value = text(value);
                Some(format!("no pod that it must be near in {value}"))
            }
            (Rule::Away, _) => Some(format!("required anti-affinity with {}", somebody()?)),
            (Rule::Unwanted, _) => Some(format!("required anti-affinity of {}", somebody()?)),
        }
    }
}
