//! `PodTopologySpread`: the fewer of its like are near, the better (S5-091).

use crate::cluster::Cluster;
use crate::filter::{Here, allows, tolerates};
use crate::node::NodeId;
use crate::places::Places;
use crate::plugin::{MAX_SCORE, Score};
use crate::pod::Pod;
use crate::template::Spread;

struct TopologySpread {
    constraints: Box<[Constraint]>,
    /// Whether pods of a group count: a row of every constraint for each group.
    counts: Box<[bool]>,
    /// Of each compared node, whether it is left out because it lacks a label.
    ignored: Box<[bool]>,
    /// Whether nodes are left out that lack the label of any constraint.
    all_keys: bool,
}

struct Constraint {
    places: Places,
    /// Places of one node each: its own pods are what counts.
    is_hostname: bool,
    /// Pods of each place.
    pods: Box<[i64]>,
    /// How much a pod counts: more where there are more places.
    weight: f64,
    allowance: f64,
}

/// `all_keys` tells whether a node that lacks one of the labels is left out.
pub(crate) fn new(
    cluster: &Cluster,
    pod: &Pod,
    nodes: &[NodeId],
    spread: &[Spread],
    all_keys: bool,
) -> Option<Box<dyn Score>> {
    if spread.is_empty() || nodes.is_empty() {
        return None;
    }
    let places = spread
        .iter()
        .map(|own| Places::new(cluster, own.topology_key));
    let places: Vec<Places> = places.collect();
    let lacks = |id: NodeId| all_keys && places.iter().any(|places| places.of(id).is_none());
    let ignored: Box<[bool]> = nodes.iter().map(|id| lacks(*id)).collect();
    let compared = || nodes.iter().zip(&ignored).filter(|(_, ignored)| !**ignored);
    let hostname = cluster.symbols().get("kubernetes.io/hostname");
    let constraints = spread.iter().zip(&places).map(|(own, places)| {
        let is_hostname = hostname == Some(own.topology_key);
        let mut known = vec![false; places.count];
        let mut size = 0;
        for (id, _) in compared() {
            match places.of(*id) {
                _ if is_hostname => size += 1,
                Some(place) if !std::mem::replace(&mut known[place], true) => size += 1,
                _ => {}
            }
        }
        (is_hostname, known, size)
    });
    let sized: Vec<(bool, Vec<bool>, u32)> = constraints.collect();
    let namespace = cluster.template(pod).namespace;
    let rows = cluster.groups().iter().flat_map(|group| {
        spread.iter().map(move |own| {
            // An empty selector counts nobody here, though it selects everybody.
            group.namespace == namespace
                && !own.selector.is_empty()
                && own.selector.matches(cluster.symbols(), &group.labels)
        })
    });
    let counts: Box<[bool]> = rows.collect();
    let mut pods: Vec<Vec<i64>> = places.iter().map(|own| vec![0; own.count]).collect();
    for id in cluster.node_ids().filter(|id| !lacks(*id)) {
        count(
            Here::new(cluster, id),
            pod,
            spread,
            (&places, &sized, &counts),
            &mut pods,
        );
    }
    let parts = places.into_iter().zip(sized).zip(pods).zip(spread);
    let constraints = parts.map(
        |(((places, (is_hostname, _, size)), pods), own)| Constraint {
            places,
            is_hostname,
            pods: pods.into(),
            weight: f64::from(size + 2).ln(),
            #[expect(clippy::cast_precision_loss, reason = "a skew is 32 bits wide")]
            allowance: (own.max_skew - 1) as f64,
        },
    );
    Some(Box::new(TopologySpread {
        constraints: constraints.collect(),
        counts,
        ignored,
        all_keys,
    }))
}

/// Counts the pods of one node in the places that are compared.
fn count(
    here: Here<'_>,
    pod: &Pod,
    spread: &[Spread],
    (places, sized, counts): (&[Places], &[(bool, Vec<bool>, u32)], &[bool]),
    pods: &mut [Vec<i64>],
) {
    let reachable = allows(here, pod.template);
    let tolerated = tolerates(here, pod.template);
    let place_of = |index: usize| {
        let own: &Spread = &spread[index];
        let (is_hostname, known, _) = &sized[index];
        let included = (reachable || !own.honors_affinity) && (tolerated || !own.honors_taints);
        let place = places[index].of(here.id)?;
        (included && !is_hostname && known[place]).then_some(place)
    };
    let width = spread.len();
    for index in 0..width {
        let Some(place) = place_of(index) else {
            continue;
        };
        let own = here.node.pods.iter().filter(|other| !other.terminating);
        let counted = own.filter(|other| counts[other.group.index() * width + index]);
        // A node's pods fit into memory.
        pods[index][place] += i64::try_from(counted.count()).unwrap_or(i64::MAX);
    }
}

impl Score for TopologySpread {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "as kube-scheduler computes it"
    )]
    fn raw(&self, here: Here<'_>) -> i64 {
        let lacks = |own: &Constraint| own.places.of(here.id).is_none();
        if self.all_keys && self.constraints.iter().any(lacks) {
            return 0;
        }
        let width = self.constraints.len();
        let mut sum = 0.0;
        for (index, own) in self.constraints.iter().enumerate() {
            let Some(place) = own.places.of(here.id) else {
                continue;
            };
            let pods = if own.is_hostname {
                let pods = here.node.pods.iter().filter(|other| !other.terminating);
                let counted = pods.filter(|other| self.counts[other.group.index() * width + index]);
                counted.count() as f64
            } else {
                own.pods[place] as f64
            };
            sum += pods * own.weight + own.allowance;
        }
        sum.round() as i64
    }

    fn normalize(&self, scores: &mut [i64]) {
        let compared = || {
            scores
                .iter()
                .zip(&self.ignored)
                .filter(|(_, ignored)| !**ignored)
        };
        let least = compared().map(|(score, _)| *score).min().unwrap_or(0);
        let most = compared().map(|(score, _)| *score).max().unwrap_or(0);
        for (score, ignored) in scores.iter_mut().zip(&self.ignored) {
            *score = match most {
                _ if *ignored => 0,
                0 => MAX_SCORE,
                _ => MAX_SCORE * (most + least - *score) / most,
            };
        }
    }
}
