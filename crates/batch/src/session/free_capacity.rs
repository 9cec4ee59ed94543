//! The free capacity of nodes for gangs, each beside the ones before it. Pods per node are counted; affinities within
//! one gang are ignored, so a gang that fits is never rejected.

use super::evaluate::{Evaluator, TaskKind, View};
use super::eviction_kind::EvictionKind;
use super::gang::{Gang, Part};
use super::packing::{Bin, Packed, Size, pack};
use crate::session::snapshot::ids::{DomainId, JobId, QueueId};
use crate::session::snapshot::resource::{Dim, EPSILON, Resource};
use evictd_placement::NodeId;
use hashbrown::HashMap;

/// A victim pool: the candidates for eviction for jobs of a queue with a priority.
pub(crate) type VictimPool = (EvictionKind, QueueId, i32);

/// Pods that are alike; by their request where they are not made.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Kind {
    Task(TaskKind),
    Request(Vec<(Dim, u64)>),
}

/// The result for pods of a kind. Capacity only shrinks, so it stays valid.
#[derive(Debug, Clone, Copy, Default)]
struct KindResult {
    /// The rank of the first node that may have room.
    from: usize,
    /// So many fitted when not all did.
    most: Option<usize>,
}

/// So many pods with this request on a node.
struct Taken<'g> {
    node: NodeId,
    request: &'g Resource,
    count: usize,
}

/// The free capacity of nodes beside the gangs placed so far.
#[derive(Debug, Default)]
pub(crate) struct FreeCapacity {
    /// By node; negative if evictions are needed.
    free: Vec<Resource>,
    /// The most that any node had of each resource.
    largest: Resource,
    /// By node, the requests of the victim pools.
    pool: HashMap<VictimPool, Vec<Resource>>,
    results: HashMap<KindKey, KindResult>,
}

/// The kind of pods, their victim pool, whether reserved nodes are excluded, and the topology domain.
type KindKey = (Kind, Option<VictimPool>, bool, Option<DomainId>);

/// The gang of a job, and the domain that it has to be in.
#[derive(Clone, Copy)]
pub(crate) struct GangQuery<'g> {
    pub(crate) job: JobId,
    pub(crate) gang: &'g Gang,
    pub(crate) within: Option<DomainId>,
}

/// The job that asks for room, and its victim pool.
#[derive(Clone, Copy)]
struct Query<'v> {
    view: View<'v>,
    pool: Option<VictimPool>,
    /// Whether nodes are reserved from it for another job.
    excluded: bool,
    within: Option<DomainId>,
}

impl<'v> Query<'v> {
    fn of(view: View<'v>, gang_query: GangQuery<'_>, pool: Option<VictimPool>) -> Self {
        Self {
            view,
            pool,
            excluded: view.snapshot.jobs[gang_query.job].excluded,
            within: gang_query.within,
        }
    }

    /// Whether a node is in the domain that the gang has to be in.
    fn reaches(self, node: NodeId) -> bool {
        self.view.domains.reaches(self.within, node)
    }
}

impl FreeCapacity {
    /// The idle amounts after pending evictions.
    pub(crate) fn new(view: View<'_>) -> Self {
        let nodes = view.snapshot.nodes.iter();
        let free: Vec<Resource> = nodes.map(super::snapshot::Node::future_idle).collect();
        let mut largest = Resource::default();
        for free in &free {
            largest.raise_to(free);
        }
        Self {
            free,
            largest,
            ..Self::default()
        }
    }

    pub(crate) fn knows(&self, pool: VictimPool) -> bool {
        self.pool.contains_key(&pool)
    }

    /// Records the requests of a victim pool by node.
    pub(crate) fn learn(&mut self, pool: VictimPool, held: Vec<Resource>) {
        self.pool.insert(pool, held);
    }

    /// Places a gang, if all of it fits. As an error the place of the part that does not.
    pub(crate) fn place(
        &mut self,
        evaluator: &mut Evaluator,
        view: View<'_>,
        gang_query: GangQuery<'_>,
        pool: Option<VictimPool>,
    ) -> Result<(), usize> {
        let query = Query::of(view, gang_query, pool);
        let parts = match gang_query.gang {
            Gang::Nothing | Gang::Unknown => return Ok(()),
            Gang::Sum(need, members) => return self.place_sum(query, need, *members).ok_or(0),
            Gang::Parts(parts) => parts,
        };
        let (mut taken, mut results) = (Vec::new(), Vec::new());
        for (at, part) in parts.iter().enumerate() {
            let Some(kind) = self.place_part(evaluator, query, part, &mut taken) else {
                let alone = at == 0;
                for taken in taken {
                    self.change(taken.node, taken.request, taken.count, 1.0);
                }
                // The greedy order has failed, but another one may fit. With a single part there is no other order.
                return if alone {
                    Err(at)
                } else {
                    self.pack(evaluator, query, parts)
                };
            };
            results.push(kind);
        }
        self.results.extend(results);
        Ok(())
    }

    /// How many pods of a gang find room, each beside the earlier ones. Nothing is placed.
    pub(crate) fn count(
        &mut self,
        evaluator: &mut Evaluator,
        view: View<'_>,
        gang_query: GangQuery<'_>,
    ) -> usize {
        let query = Query::of(view, gang_query, None);
        // A sum of amounts has no pods that could be counted.
        let Gang::Parts(parts) = gang_query.gang else {
            return 0;
        };
        let mut taken: Vec<(NodeId, &Resource, usize)> = Vec::new();
        for part in parts {
            let mut left = part.count;
            for node in view.snapshot.by_rank.iter().copied() {
                let count = self.fitting(query, node, &part.request).min(left);
                if count > 0 && takes(evaluator, query, part, node) {
                    self.change(node, &part.request, count, -1.0);
                    taken.push((node, &part.request, count));
                    left -= count;
                }
            }
        }
        for (node, request, count) in &taken {
            self.change(*node, request, *count, 1.0);
        }
        taken.iter().map(|(_, _, count)| count).sum()
    }

    /// Places pods that are alike on the first nodes with room. Returns the result for their kind.
    fn place_part<'g>(
        &mut self,
        evaluator: &mut Evaluator,
        query: Query<'_>,
        part: &'g Part,
        taken: &mut Vec<Taken<'g>>,
    ) -> Option<(KindKey, KindResult)> {
        let view = query.view;
        // No node can take one such pod, which saves the scan.
        if query.pool.is_none() && times(&part.request, |dim| self.largest.get(dim)) == 0 {
            return None;
        }
        let kind = part.task.and_then(|task| evaluator.kind(view, task));
        let kind = kind.map_or_else(|| Kind::Request(bits(&part.request)), Kind::Task);
        let key = (kind, query.pool, query.excluded, query.within);
        let mut results = self.results.get(&key).copied().unwrap_or_default();
        if results.most.is_some_and(|most| most < part.count) {
            return None;
        }
        let alone = taken.is_empty();
        let mut left = part.count;
        for rank in results.from..view.snapshot.by_rank.len() {
            let node = view.snapshot.by_rank[rank];
            let count = self.fitting(query, node, &part.request).min(left);
            if count == 0 || !takes(evaluator, query, part, node) {
                continue;
            }
            // Earlier nodes have no room for this kind, now or later.
            if left == part.count {
                results.from = rank;
            }
            self.change(node, &part.request, count, -1.0);
            let request = &part.request;
            taken.push(Taken {
                node,
                request,
                count,
            });
            left -= count;
            if left == 0 {
                results.from = rank;
                return Some((key, results));
            }
        }
        if alone {
            // Beside other parts the result says nothing about the kind alone.
            results.most = Some(part.count - left);
            self.results.insert(key, results);
        }
        None
    }

    /// Places pods of several sizes by search. If the search is too large they count as placed, without using room.
    fn pack(
        &mut self,
        evaluator: &mut Evaluator,
        query: Query<'_>,
        parts: &[Part],
    ) -> Result<(), usize> {
        let (mut nodes, mut bins) = (Vec::new(), Vec::new());
        for node in query.view.snapshot.by_rank.iter().copied() {
            let takes = parts.iter().map(|part| {
                self.fitting(query, node, &part.request) > 0 && takes(evaluator, query, part, node)
            });
            let takes: Vec<bool> = takes.collect();
            if takes.contains(&true) {
                let mut room = self.free[node.index()].clone();
                if let Some(held) = query.pool.and_then(|pool| self.pool.get(&pool)) {
                    room.add(&held[node.index()]);
                }
                bins.push(Bin { room, takes });
                nodes.push(node);
            }
        }
        let sizes = parts.iter().map(|part| Size {
            request: &part.request,
            count: part.count,
        });
        let sizes: Vec<Size<'_>> = sizes.collect();
        match pack(&mut bins, &sizes, |request, room| {
            times(request, |dim| room.get(dim))
        }) {
            Packed::Fits(pods) => {
                for (size, bin) in pods {
                    self.change(nodes[bin], &parts[size].request, 1, -1.0);
                }
                Ok(())
            }
            Packed::TooMany(at) => Err(at),
            Packed::Unknown => Ok(()),
        }
    }

    /// Spreads an amount over all nodes, if they have it together and one of them has room for an average pod: at least
    /// one pod requests that much.
    fn place_sum(&mut self, query: Query<'_>, need: &Resource, members: i32) -> Option<()> {
        let nodes = query.view.snapshot.node_ids();
        // The pods do not exist, so that only properties of the nodes count.
        let open = |node: &NodeId| is_open(query, *node);
        let nodes: Vec<NodeId> = nodes.filter(open).collect();
        // Each dimension alone: a necessary condition, so that a gang that fits is never rejected.
        for (dim, need) in need.iter().filter(|(_, need)| *need >= EPSILON) {
            let free = nodes.iter().map(|node| self.room(query, *node, dim));
            let sum: f64 = free.clone().map(|room| room.max(0.0)).sum();
            let largest = free.fold(0.0, f64::max);
            let average = need / f64::from(members.max(1));
            let pods = dim == Dim::PODS;
            if sum + EPSILON < need || (!pods && largest + EPSILON < average) {
                return None;
            }
        }
        let mut left = need.clone();
        for node in nodes {
            let mut part = Resource::default();
            for (dim, need) in left.iter().filter(|(_, need)| *need > 0.0) {
                part.set(dim, self.room(query, node, dim).clamp(0.0, need));
            }
            left.sub(&part);
            self.free[node.index()].sub(&part);
        }
        Some(())
    }

    fn room(&self, query: Query<'_>, node: NodeId, dim: Dim) -> f64 {
        let pool = query.pool.and_then(|pool| self.pool.get(&pool));
        self.free[node.index()].get(dim) + pool.map_or(0.0, |held| held[node.index()].get(dim))
    }

    /// How many pods fit on a node.
    fn fitting(&self, query: Query<'_>, node: NodeId, request: &Resource) -> usize {
        if !query.reaches(node) {
            return 0;
        }
        times(request, |dim| self.room(query, node, dim))
    }

    fn change(&mut self, node: NodeId, request: &Resource, count: usize, sign: f64) {
        let mut change = request.clone();
        #[expect(clippy::cast_precision_loss, reason = "there are not so many pods")]
        change.scale(count as f64 * sign);
        self.free[node.index()].add(&change);
    }
}

/// Whether a node might take pods, apart from its room. Pods that do not exist yet have no constraints.
fn takes(evaluator: &mut Evaluator, query: Query<'_>, part: &Part, node: NodeId) -> bool {
    let view = query.view;
    match part.task {
        Some(task) => evaluator.might_take(view, task, node, query.pool.is_some()),
        None => is_open(query, node),
    }
}

/// Whether a node is schedulable and not reserved for another job.
fn is_open(query: Query<'_>, node: NodeId) -> bool {
    let view = query.view;
    let reserved = query.excluded && view.is_reserved(node);
    !reserved && query.reaches(node) && !view.cluster.node(node).unschedulable
}

fn bits(request: &Resource) -> Vec<(Dim, u64)> {
    let amounts = request.iter();
    amounts
        .map(|(dim, amount)| (dim, amount.to_bits()))
        .collect()
}

/// How often a request fits into a room.
pub(crate) fn times(request: &Resource, room: impl Fn(Dim) -> f64) -> usize {
    let most = request.iter().map(|(dim, amount)| {
        // The tolerance of Volcano's comparisons, so that both agree about what fits.
        let room = room(dim) + EPSILON;
        if amount < EPSILON {
            return if room > 0.0 { f64::INFINITY } else { 0.0 };
        }
        (room / amount).floor().max(0.0)
    });
    let most = most.fold(f64::INFINITY, f64::min);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is not below zero, and what is too large becomes the largest"
    )]
    let most = most as usize;
    most
}
