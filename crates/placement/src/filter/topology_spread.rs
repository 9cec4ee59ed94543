//! `PodTopologySpread`: how many more of its like a place may have than the emptiest (S5-090).

use super::{Filter, Here, Inclusion, Rejection};
use crate::cluster::Cluster;
use crate::id::NodeId;
use crate::labels::Labels;
use crate::places::Places;
use crate::pod::Pod;
use crate::template::Spread;
use std::sync::Arc;

struct TopologySpread {
    constraints: Box<[Constraint]>,
    /// Whether pods of a group count: a row of every constraint for each group.
    counts: Box<[bool]>,
}

struct Constraint {
    max_skew: i64,
    min_domains: usize,
    places: Arc<Places>,
    /// Of each node, whether its pods count.
    counted: Box<[bool]>,
    /// Pods of each place.
    pods: Box<[i64]>,
    /// Of each place, whether it has a node that counts.
    is_domain: Box<[bool]>,
    domains: usize,
    /// The two emptiest domains and their pods. Only one node changes at a time, and with it one place, so that the
    /// emptiest of the others is always one of them.
    emptiest: [(usize, i64); 2],
    /// An empty selector counts nobody to begin with, though it selects everybody who comes or goes (S5-090).
    counts_all: bool,
    /// 1 if the pod itself would count.
    itself: i64,
    here: Option<usize>,
    /// Pods of this place when the node was entered.
    settled: i64,
    counted_here: bool,
    emptiest_elsewhere: i64,
}

/// The emptiest of no places.
const NONE: (usize, i64) = (usize::MAX, i64::MAX);

/// For these constraints, which are the pod's own or the default ones.
pub(crate) fn new(cluster: &Cluster, pod: &Pod, spread: &[Spread]) -> Option<Box<dyn Filter>> {
    let own = cluster.template(pod);
    if spread.is_empty() {
        return None;
    }
    let counts = |namespace, labels: &Labels, spread: &Spread| {
        namespace == own.namespace && spread.selector.matches(cluster.symbols(), labels)
    };
    let rows = cluster.groups().iter();
    let rows = rows.flat_map(|other| {
        let spread = spread.iter();
        spread.map(|spread| counts(other.namespace, &other.labels, spread))
    });
    let constraints = spread.iter().map(|spread| {
        let places = cluster.places(spread.topology_key);
        Constraint {
            max_skew: spread.max_skew,
            min_domains: spread.min_domains,
            counted: vec![false; cluster.nodes().len()].into(),
            pods: vec![0; places.count].into(),
            is_domain: vec![false; places.count].into(),
            domains: 0,
            emptiest: [NONE; 2],
            counts_all: spread.selector.is_everything(),
            itself: i64::from(counts(own.namespace, pod.labels(), spread)),
            here: None,
            settled: 0,
            counted_here: false,
            emptiest_elsewhere: 0,
            places,
        }
    });
    let mut filter = TopologySpread {
        constraints: constraints.collect(),
        counts: rows.collect(),
    };
    filter.find_domains(&Inclusion::new(cluster, pod, spread), spread);
    filter.count(cluster);
    for constraint in &mut filter.constraints {
        constraint.find_emptiest();
    }
    Some(Box::new(filter))
}

impl TopologySpread {
    /// Finds the nodes that count and their places. Only nodes with the labels of all constraints count, each for those
    /// constraints that it is not left out of.
    fn find_domains(&mut self, inclusion: &Inclusion, spread: &[Spread]) {
        let mut all = self.constraints.iter();
        if inclusion.is_all() && all.all(|constraint| constraint.places.cover_all()) {
            for constraint in &mut self.constraints {
                constraint.counted.fill(true);
                let nodes = constraint.places.nodes.iter();
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
            if all.any(|constraint| constraint.places.of(id).is_none()) {
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

    /// Counts the pods of the nodes that count.
    fn count(&mut self, cluster: &Cluster) {
        let rows = self.counts.chunks_exact(self.constraints.len()).enumerate();
        for (group, row) in rows.filter(|(_, row)| row.contains(&true)) {
            for (id, pods) in cluster.nodes_of(group) {
                for (constraint, counts) in self.constraints.iter_mut().zip(row) {
                    if *counts && !constraint.counts_all && constraint.counted[id.index()] {
                        constraint.add(constraint.places.of(id), pods.running);
                    }
                }
            }
        }
    }

    /// The first constraint that is broken here.
    fn broken(&self) -> Option<&Constraint> {
        let mut constraints = self.constraints.iter();
        constraints.find(|constraint| {
            constraint
                .skew()
                .is_none_or(|skew| skew > constraint.max_skew)
        })
    }
}

impl Constraint {
    /// Makes a node's place a domain.
    fn open(&mut self, id: NodeId) {
        if let Some(place) = self.places.of(id)
            && !self.is_domain[place]
        {
            self.is_domain[place] = true;
            self.domains += 1;
        }
    }

    fn add(&mut self, place: Option<usize>, times: i64) {
        if let Some(place) = place {
            self.pods[place] += times;
        }
    }

    fn find_emptiest(&mut self) {
        self.emptiest = [NONE; 2];
        let places = self.pods.iter().enumerate();
        for (place, pods) in places.filter(|(place, _)| self.is_domain[*place]) {
            let [first, second] = self.emptiest;
            if *pods < first.1 {
                self.emptiest = [(place, *pods), first];
            } else if *pods < second.1 {
                self.emptiest[1] = (place, *pods);
            }
        }
    }

    fn enter(&mut self, id: NodeId) {
        // Not everybody may have come back to the node before.
        if self
            .here
            .is_some_and(|place| self.pods[place] != self.settled)
        {
            self.find_emptiest();
        }
        self.here = self.places.of(id);
        self.settled = self.here.map_or(0, |place| self.pods[place]);
        self.counted_here = self.counted[id.index()];
        let [first, second] = self.emptiest;
        let first_is_here = self.here == Some(first.0);
        self.emptiest_elsewhere = if first_is_here { second.1 } else { first.1 };
    }

    fn too_few_domains(&self) -> bool {
        self.domains < self.min_domains
    }

    /// By how many pods this place would exceed the emptiest; `None` where the node is in no place.
    fn skew(&self) -> Option<i64> {
        let place = self.here?;
        let own = self.pods[place];
        let emptiest = match (self.too_few_domains(), self.is_domain[place]) {
            (true, _) => 0,
            (false, true) => self.emptiest_elsewhere.min(own),
            (false, false) => self.emptiest_elsewhere,
        };
        Some((own + self.itself).saturating_sub(emptiest))
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

    /// Counts terminating pods too, though they were not counted to begin with: so does kube-scheduler.
    fn change(&mut self, _here: Here<'_>, pod: &Pod, times: i64) {
        let width = self.constraints.len();
        let row = &self.counts[pod.group.index() * width..][..width];
        for (constraint, counts) in self.constraints.iter_mut().zip(row) {
            if *counts && constraint.counted_here {
                constraint.add(constraint.here, times);
            }
        }
    }

    fn check(&self, _here: Here<'_>) -> Result<(), Rejection> {
        match self.broken() {
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
        let constraint = self.broken()?;
        let text = |symbol| here.cluster.symbols().text(symbol);
        let key = text(constraint.places.key);
        let Some(value) = here.node.labels.get(constraint.places.key) else {
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
}
