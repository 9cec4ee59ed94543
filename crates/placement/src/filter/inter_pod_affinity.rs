//! `InterPodAffinity`: required affinity and anti-affinity of the pod, and anti-affinity of existing pods against it
//! (S5-088).

use super::{Filter, Here, Rejection};
use crate::cluster::Cluster;
use crate::cost::{Meter, of_term};
use crate::id::NodeId;
use crate::labels::Labels;
use crate::pod::Pod;
use crate::pod_terms::KnownTerm;
use crate::symbol::Symbol;
use crate::template::{PodTerm, Template};
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
    let existing = existing_terms(cluster, pod);
    let columns = columns(template, &existing);
    if columns.is_empty() {
        return None;
    }
    let counted = counted(cluster, template, &columns, &existing);
    let width = columns.len();
    let mut counts = vec![false; cluster.groups().len() * width];
    for (group, column) in &counted {
        counts[group * width + column] = true;
    }
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
        counts: counts.into(),
        tallies: tallies.collect(),
        selects_itself: all_select(
            cluster,
            &template.affinity,
            template.namespace,
            pod.labels(),
        ),
    };
    filter.count(cluster, &counted);
    // As in kube-scheduler, nominated pods do not count if no existing pod matches any term.
    let mut tallies = filter.tallies.iter();
    let any = tallies.any(|tally| tally.rule != Rule::ExistingAntiAffinity || tally.all > 0);
    any.then(|| Box::new(filter) as _)
}

/// A required anti-affinity term of existing pods that selects the pod.
struct ExistingTerm {
    /// The group of the pods that have it.
    group: usize,
    /// Its position among the terms of the group.
    position: usize,
    topology_key: Symbol,
}

/// The anti-affinity of existing pods against the pod, in the order of the groups and their terms.
fn existing_terms(cluster: &Cluster, pod: &Pod) -> Vec<ExistingTerm> {
    let mut existing = Vec::new();
    for known in terms_selecting(cluster, pod) {
        for (group, uses) in &known.uses {
            existing.extend(uses.anti_affinity.map(|position| ExistingTerm {
                group: *group as usize,
                position,
                topology_key: known.term.topology_key,
            }));
        }
    }
    existing.sort_unstable_by_key(|term| (term.group, term.position));
    existing
}

/// The terms of existing pods that select the pod.
pub(crate) fn terms_selecting<'c>(
    cluster: &'c Cluster,
    pod: &Pod,
) -> impl Iterator<Item = &'c KnownTerm> {
    let namespace = cluster.template(pod).namespace;
    let labels = pod.labels();
    let known = cluster.terms_about(pod);
    #[cfg(test)]
    let known = known.inspect(|_| super::tests::visit_term());
    known.filter(move |known| selects(cluster, &known.term, namespace, labels))
}

/// Every rule and label with pods to count.
fn columns(template: &Template, existing: &[ExistingTerm]) -> Vec<(Rule, Symbol)> {
    let keys = |terms: &[PodTerm]| -> Vec<Symbol> {
        let keys = terms.iter().map(|term| term.topology_key);
        keys.collect()
    };
    let existing: Vec<Symbol> = existing.iter().map(|term| term.topology_key).collect();
    let mut columns = Vec::new();
    for (rule, keys) in [
        (Rule::Affinity, keys(&template.affinity)),
        (Rule::AntiAffinity, keys(&template.anti_affinity)),
        (Rule::ExistingAntiAffinity, existing),
    ] {
        for column in keys.into_iter().map(|key| (rule, key)) {
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
    }
    columns
}

/// The groups whose pods count, each with a column, in order.
fn counted(
    cluster: &Cluster,
    template: &Template,
    columns: &[(Rule, Symbol)],
    existing: &[ExistingTerm],
) -> Vec<(usize, usize)> {
    let columns_of = |rule, key: Option<Symbol>| {
        let columns = columns.iter().enumerate();
        let columns = columns
            .filter(move |(_, column)| column.0 == rule && key.is_none_or(|key| column.1 == key));
        columns.map(|(index, _)| index)
    };
    let mut counted = Vec::new();
    let mut meter = Meter::new(cluster);
    if let Some((first, more)) = template.affinity.split_first() {
        for_each_selected(cluster, first, &mut meter, |group| {
            let other = &cluster.groups()[group];
            if more.is_empty() || all_select(cluster, more, other.namespace, &other.labels) {
                let columns = columns_of(Rule::Affinity, None);
                counted.extend(columns.map(|column| (group, column)));
            }
            // The other terms are compared only with groups that the first one selects.
            more.iter().map(of_term).sum()
        });
    }
    for term in &template.anti_affinity {
        for_each_selected(cluster, term, &mut meter, |group| {
            let columns = columns_of(Rule::AntiAffinity, Some(term.topology_key));
            counted.extend(columns.map(|column| (group, column)));
            0
        });
    }
    for term in existing {
        let columns = columns_of(Rule::ExistingAntiAffinity, Some(term.topology_key));
        counted.extend(columns.map(|column| (term.group, column)));
    }
    counted.sort_unstable();
    counted.dedup();
    counted
}

/// Calls a function with each group of pods that a term selects. It returns how many more steps it has taken.
pub(crate) fn for_each_selected(
    cluster: &Cluster,
    term: &PodTerm,
    meter: &mut Meter<'_>,
    mut selected: impl FnMut(usize) -> usize,
) {
    let steps = of_term(term);
    let compare = |group: usize| {
        let other = &cluster.groups()[group];
        let more = if selects(cluster, term, other.namespace, &other.labels) {
            selected(group)
        } else {
            0
        };
        meter.goes_on(steps.saturating_add(more))
    };
    if term.namespace_selector.is_nothing() {
        // A group is in one namespace, so no other group can be selected.
        let mut namespaces = term.namespaces.to_vec();
        namespaces.sort_unstable();
        namespaces.dedup();
        let mut groups = namespaces
            .into_iter()
            .flat_map(|namespace| cluster.groups_of_namespace(namespace));
        groups.all(compare);
    } else {
        (0..cluster.groups().len()).all(compare);
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
    /// Counts the pods of all nodes, by group and tally.
    fn count(&mut self, cluster: &Cluster, counted: &[(usize, usize)]) {
        for of_group in counted.chunk_by(|one, next| one.0 == next.0) {
            let group = of_group.first().map_or(0, |(group, _)| *group);
            for (id, pods) in cluster.nodes_of(group) {
                for (_, tally) in of_group {
                    let tally = &mut self.tallies[*tally];
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

    /// A pod anywhere that counts in a tally, with its node and what will become of both.
    fn peer(&self, cluster: &Cluster, wanted: &Tally) -> Option<String> {
        let mut tallies = self.tallies.iter();
        let column = tallies.position(|tally| std::ptr::eq(tally, wanted))?;
        let counts = |pod: &Pod| self.counts[pod.group.index() * self.tallies.len() + column];
        cluster.node_ids().find_map(|id| {
            let node = cluster.node(id);
            let pod = node.pods.iter().find(|pod| counts(pod))?;
            let terminates = if pod.terminating {
                ", which terminates"
            } else {
                ""
            };
            let cordoned = if node.unschedulable {
                " (cordoned)"
            } else {
                ""
            };
            let (name, node) = (cluster.full_name(pod), cluster.node_name(id));
            Some(format!("{name} on {node}{cordoned}{terminates}"))
        })
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

    fn change_elsewhere(&mut self, pods: &[(NodeId, &Pod)], times: i64) {
        let width = self.tallies.len();
        for (id, pod) in pods {
            let row = &self.counts[pod.group.index() * width..][..width];
            for (tally, counts) in self.tallies.iter_mut().zip(row) {
                if *counts {
                    tally.add(tally.topology.of(*id), times);
                }
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
                let elsewhere = self.peer(here.cluster, tally);
                let elsewhere =
                    elsewhere.map_or(String::new(), |peer| format!("; there is {peer}"));
                Some(format!("no pod that it must be near in {value}{elsewhere}"))
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
