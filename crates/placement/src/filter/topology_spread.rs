//! `PodTopologySpread`: a domain may exceed the global minimum of matching pods by `maxSkew` (S5-090).

use super::{Filter, Here, Inclusion, Rejection};
use crate::cluster::Cluster;
use crate::cost::{Meter, of_spread};
use crate::id::NodeId;
use crate::labels::Labels;
use crate::pod::Pod;
use crate::symbol::Symbol;
use crate::template::Spread;
use crate::topology::TopologyDomains;
use std::collections::BTreeMap;
use std::sync::Arc;

struct TopologySpread {
    constraints: Box<[Constraint]>,
    /// Whether pods of a group count: a row of all constraints for each group.
    counts: Box<[bool]>,
}

struct Constraint {
    max_skew: i64,
    min_domains: usize,
    topology: Arc<TopologyDomains>,
    /// For each node, whether its pods count.
    counted: Box<[bool]>,
    /// Matching pods in each domain.
    pods: Box<[i64]>,
    /// Whether a domain has a node that counts.
    is_domain: Box<[bool]>,
    domains: usize,
    /// The two smallest domains and their pods. A trial changes one domain at a time, so the smallest of the others is
    /// always among the two.
    critical_paths: [(usize, i64); 2],
    /// As in kube-scheduler, an empty selector counts no pod at first but every pod that is added or removed (S5-090).
    counts_all: bool,
    /// 1 if the pod matches its own selector.
    self_match: i64,
    here: Option<usize>,
    /// Matching pods in this domain when the node was entered.
    matching_on_enter: i64,
    counted_here: bool,
    min_elsewhere: i64,
}

/// How the pods that a constraint selects are spread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpreadCounts {
    /// The topology key.
    pub topology_key: String,
    /// The maximum skew.
    pub max_skew: i64,
    /// The pods in each domain, by the value of the key.
    pub domains: BTreeMap<String, i64>,
    /// Whether there are fewer domains than `minDomains`, so that the minimum is 0.
    pub too_few_domains: bool,
}

/// The minimum over no domains.
const NONE: (usize, i64) = (usize::MAX, i64::MAX);

/// Compiles these constraints, which are the pod's own or the default ones.
pub(crate) fn new(cluster: &Cluster, pod: &Pod, spread: &[Spread]) -> Option<Box<dyn Filter>> {
    let template = cluster.template(pod);
    if spread.is_empty() {
        return None;
    }
    let counts =
        |spread: &Spread, labels: &Labels| spread.selector.matches(cluster.symbols(), labels);
    let rows = selected_groups(cluster, template.namespace, spread, counts);
    let constraints = spread.iter().map(|spread| {
        let topology = cluster.topology(spread.topology_key);
        Constraint {
            max_skew: spread.max_skew,
            min_domains: spread.min_domains,
            counted: vec![false; cluster.nodes().len()].into(),
            pods: vec![0; topology.count].into(),
            is_domain: vec![false; topology.count].into(),
            domains: 0,
            critical_paths: [NONE; 2],
            counts_all: spread.selector.is_everything(),
            self_match: i64::from(counts(spread, pod.labels())),
            here: None,
            matching_on_enter: 0,
            counted_here: false,
            min_elsewhere: 0,
            topology,
        }
    });
    let mut filter = TopologySpread {
        constraints: constraints.collect(),
        counts: rows,
    };
    filter.find_domains(&Inclusion::new(cluster, pod, spread), spread);
    filter.count(cluster);
    for constraint in &mut filter.constraints {
        constraint.find_critical_paths();
    }
    Some(Box::new(filter))
}

/// Whether each constraint selects each group: a row of all constraints for each group. They select pods of the pod's own
/// namespace only.
pub(crate) fn selected_groups(
    cluster: &Cluster,
    namespace: Symbol,
    spread: &[Spread],
    selects: impl Fn(&Spread, &Labels) -> bool,
) -> Box<[bool]> {
    let mut selected = vec![false; cluster.groups().len() * spread.len()];
    let steps = spread.iter().map(of_spread).sum();
    let mut meter = Meter::new(cluster);
    for group in cluster.groups_of_namespace(namespace) {
        let row = &mut selected[group * spread.len()..][..spread.len()];
        let labels = &cluster.groups()[group].labels;
        for (selected, constraint) in row.iter_mut().zip(spread) {
            *selected = selects(constraint, labels);
        }
        if !meter.goes_on(steps) {
            break;
        }
    }
    selected.into()
}

impl TopologySpread {
    /// Finds the nodes that count and their domains. A node must have the labels of all constraints. Its inclusion
    /// policy is evaluated per constraint.
    fn find_domains(&mut self, inclusion: &Inclusion, spread: &[Spread]) {
        // The usual case needs no pass over the nodes.
        let mut all = self.constraints.iter();
        if inclusion.is_all() && all.all(|constraint| constraint.topology.cover_all()) {
            for constraint in &mut self.constraints {
                constraint.counted.fill(true);
                let nodes = constraint.topology.nodes.iter();
                constraint.is_domain = nodes.map(|nodes| *nodes > 0).collect();
                let domains = constraint.is_domain.iter().filter(|is| **is);
                constraint.domains = domains.count();
            }
            return;
        }
        let nodes = self
            .constraints
            .first()
            .map_or(0, |first| first.counted.len());
        for id in (0..nodes).map(NodeId::of) {
            let mut all = self.constraints.iter();
            if all.any(|constraint| constraint.topology.of(id).is_none()) {
                continue;
            }
            for (constraint, spread) in self.constraints.iter_mut().zip(spread) {
                if inclusion.contains(id, spread) {
                    constraint.counted[id.index()] = true;
                    constraint.open(id);
                }
            }
        }
    }

    /// Counts matching pods on the nodes that count.
    fn count(&mut self, cluster: &Cluster) {
        let rows = self.counts.chunks_exact(self.constraints.len()).enumerate();
        for (group, row) in rows.filter(|(_, row)| row.contains(&true)) {
            for (id, pods) in cluster.nodes_of(group) {
                for (constraint, counts) in self.constraints.iter_mut().zip(row) {
                    if *counts && !constraint.counts_all && constraint.counted[id.index()] {
                        constraint.add(constraint.topology.of(id), pods.running);
                    }
                }
            }
        }
    }

    /// The first violated constraint.
    fn violated(&self) -> Option<&Constraint> {
        let mut constraints = self.constraints.iter();
        constraints.find(|constraint| {
            constraint
                .skew()
                .is_none_or(|skew| skew > constraint.max_skew)
        })
    }
}

impl Constraint {
    /// Opens the domain of a node.
    fn open(&mut self, id: NodeId) {
        if let Some(domain) = self.topology.of(id)
            && !self.is_domain[domain]
        {
            self.is_domain[domain] = true;
            self.domains += 1;
        }
    }

    fn add(&mut self, domain: Option<usize>, times: i64) {
        if let Some(domain) = domain {
            self.pods[domain] += times;
        }
    }

    fn find_critical_paths(&mut self) {
        self.critical_paths = [NONE; 2];
        let domains = self.pods.iter().enumerate();
        for (domain, pods) in domains.filter(|(domain, _)| self.is_domain[*domain]) {
            let [first, second] = self.critical_paths;
            if *pods < first.1 {
                self.critical_paths = [(domain, *pods), first];
            } else if *pods < second.1 {
                self.critical_paths[1] = (domain, *pods);
            }
        }
    }

    fn enter(&mut self, id: NodeId) {
        // A trial may have left the previous node with pods removed.
        if self
            .here
            .is_some_and(|domain| self.pods[domain] != self.matching_on_enter)
        {
            self.find_critical_paths();
        }
        self.here = self.topology.of(id);
        self.matching_on_enter = self.here.map_or(0, |domain| self.pods[domain]);
        self.counted_here = self.counted[id.index()];
        self.find_min_elsewhere();
    }

    fn find_min_elsewhere(&mut self) {
        let [first, second] = self.critical_paths;
        let first_is_here = self.here == Some(first.0);
        self.min_elsewhere = if first_is_here { second.1 } else { first.1 };
    }

    fn too_few_domains(&self) -> bool {
        self.domains < self.min_domains
    }

    fn counts(&self, cluster: &Cluster) -> SpreadCounts {
        let text = |symbol| cluster.symbols().text(symbol).to_owned();
        let counted = cluster.node_ids().filter(|id| self.counted[id.index()]);
        let domains = counted.filter_map(|id| {
            let value = cluster.node(id).labels.get(self.topology.key)?;
            Some((text(value), self.pods[self.topology.of(id)?]))
        });
        SpreadCounts {
            topology_key: text(self.topology.key),
            max_skew: self.max_skew,
            domains: domains.collect(),
            too_few_domains: self.too_few_domains(),
        }
    }

    /// The skew of this domain with the pod; `None` if the node lacks the label.
    fn skew(&self) -> Option<i64> {
        let domain = self.here?;
        let matching = self.pods[domain];
        let minimum = match (self.too_few_domains(), self.is_domain[domain]) {
            (true, _) => 0,
            (false, true) => self.min_elsewhere.min(matching),
            // A domain without a counted node takes no part in the global minimum.
            (false, false) => self.min_elsewhere,
        };
        Some((matching + self.self_match).saturating_sub(minimum))
    }
}

impl Filter for TopologySpread {
    fn changes(&self) -> bool {
        true
    }

    fn enter(&mut self, here: Here<'_>) {
        for constraint in &mut self.constraints {
            constraint.enter(here.id);
        }
    }

    /// Counts terminating pods here though they were not counted at first, as kube-scheduler does.
    fn change(&mut self, _here: Here<'_>, pod: &Pod, times: i64) {
        let width = self.constraints.len();
        let row = &self.counts[pod.group.index() * width..][..width];
        for (constraint, counts) in self.constraints.iter_mut().zip(row) {
            if *counts && constraint.counted_here {
                constraint.add(constraint.here, times);
            }
        }
    }

    fn change_elsewhere(&mut self, pods: &[(NodeId, &Pod)], times: i64) {
        let width = self.constraints.len();
        for (index, constraint) in self.constraints.iter_mut().enumerate() {
            let counts = |pod: &Pod| self.counts[pod.group.index() * width + index];
            let mut changed = false;
            for (id, _) in pods.iter().filter(|(_, pod)| counts(pod)) {
                if constraint.counted[id.index()] {
                    constraint.add(constraint.topology.of(*id), times);
                    changed = true;
                }
            }
            if changed {
                constraint.find_critical_paths();
                constraint.find_min_elsewhere();
            }
        }
    }

    fn check(&self, _here: Here<'_>) -> Result<(), Rejection> {
        match self.violated() {
            None => Ok(()),
            Some(constraint) if constraint.here.is_none() => Err(Rejection::unresolvable(
                "node(s) didn't match pod topology spread constraints (missing required label)",
            )),
            Some(_) => Err(Rejection::unschedulable(
                "node(s) didn't match pod topology spread constraints",
            )),
        }
    }

    fn obstacle(&self, here: Here<'_>, _away: &dyn Fn(usize) -> bool) -> Option<String> {
        let constraint = self.violated()?;
        let text = |symbol| here.cluster.symbols().text(symbol);
        let key = text(constraint.topology.key);
        let Some(value) = here.node.labels.get(constraint.topology.key) else {
            return Some(format!("the node has no label {key}"));
        };
        let (value, skew, allowed) = (text(value), constraint.skew()?, constraint.max_skew);
        let against = if constraint.too_few_domains() {
            let (domains, wanted) = (constraint.domains, constraint.min_domains);
            format!("zero, for there are {domains} places and not {wanted}")
        } else {
            "the emptiest".to_owned()
        };
        Some(format!(
            "would put {value} {skew} pods above {against}; {allowed} allowed ({key})"
        ))
    }

    fn spread(&self, cluster: &Cluster) -> Vec<SpreadCounts> {
        let constraints = self.constraints.iter();
        constraints.map(|one| one.counts(cluster)).collect()
    }
}
