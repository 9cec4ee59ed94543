//! Whether gangs could be placed, each beside those before it. It is counted how many pods fit on each node; what pods of
//! one gang say of each other is not asked, so that a gang is never said not to fit that does.

use super::dispatch::Taking;
use super::gang::{Gang, Part};
use super::judge::{Judge, View};
use super::packing::{Bin, Packed, Size, pack};
use super::resource::{Dim, EPSILON, Resource};
use super::within::Within;
use evictd_placement::NodeId;
use hashbrown::HashMap;

/// Those who could go for the jobs of a queue that have this priority.
pub(crate) type Others = (Taking, usize, i32);

/// Pods that are alike: by the class of a task, or by what they ask for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Kind {
    Class(usize),
    Request(Vec<(Dim, u64)>),
}

/// What was found out for pods of a kind. Room only becomes less, so that it holds on.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// The rank of the first node that may have room.
    from: usize,
    /// So many fitted when not all did.
    most: Option<usize>,
}

/// So many pods with this request on a node.
struct Taken<'g> {
    node: usize,
    request: &'g Resource,
    count: usize,
}

/// What is left on nodes when those are placed that were asked for before.
#[derive(Debug, Default)]
pub(crate) struct Rooms {
    /// By node; below zero where others have to go.
    free: Vec<Resource>,
    /// The most that any node had of each resource.
    largest: Resource,
    /// By node, what those hold who could go.
    others: HashMap<Others, Vec<Resource>>,
    seen: HashMap<Key, Seen>,
}

/// Pods of a kind, who could go for them, whether nodes are kept from them, and the domain that they have to be in.
type Key = (Kind, Option<Others>, bool, Option<Within>);

/// The gang of a job, and the domain that it has to be in.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'g> {
    pub(crate) job: usize,
    pub(crate) gang: &'g Gang,
    pub(crate) within: Option<Within>,
}

/// Who asks for room, and whom it counts as gone.
#[derive(Clone, Copy)]
struct Asking<'v> {
    view: View<'v>,
    others: Option<Others>,
    /// Whether nodes are kept from it for another job.
    barred: bool,
    within: Option<Within>,
}

impl<'v> Asking<'v> {
    fn of(view: View<'v>, asked: Asked<'_>, others: Option<Others>) -> Self {
        Self {
            view,
            others,
            barred: view.model.jobs[asked.job].barred,
            within: asked.within,
        }
    }

    /// Whether a node is in the domain that the gang has to be in.
    fn reaches(self, node: usize) -> bool {
        self.view.domains.reaches(self.within, node)
    }
}

impl Rooms {
    /// All that is free, or becomes free when those have gone that are going.
    pub(crate) fn new(view: View<'_>) -> Self {
        let nodes = view.model.nodes.iter();
        let free: Vec<Resource> = nodes.map(super::model::Node::future_idle).collect();
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

    /// Whether it is known what those hold who could go.
    pub(crate) fn knows(&self, others: Others) -> bool {
        self.others.contains_key(&others)
    }

    /// What those hold who could go, by node.
    pub(crate) fn learn(&mut self, others: Others, held: Vec<Resource>) {
        self.others.insert(others, held);
    }

    /// Places a gang, if all of it fits. As an error the place of the part that does not.
    pub(crate) fn place(
        &mut self,
        judge: &mut Judge,
        view: View<'_>,
        asked: Asked<'_>,
        others: Option<Others>,
    ) -> Result<(), usize> {
        let asking = Asking::of(view, asked, others);
        let parts = match asked.gang {
            Gang::Nothing => return Ok(()),
            Gang::Sum(need, members) => return self.place_sum(asking, need, *members).ok_or(0),
            Gang::Parts(parts) => parts,
        };
        let (mut taken, mut seen) = (Vec::new(), Vec::new());
        for (at, part) in parts.iter().enumerate() {
            let Some(kind) = self.place_part(judge, asking, part, &mut taken) else {
                let alone = at == 0;
                for own in taken {
                    self.change(own.node, own.request, own.count, 1.0);
                }
                return if alone {
                    Err(at)
                } else {
                    self.pack(judge, asking, parts)
                };
            };
            seen.push(kind);
        }
        self.seen.extend(seen);
        Ok(())
    }

    /// How many pods of a gang find room, each beside those before it; nothing is placed.
    pub(crate) fn count(&mut self, judge: &mut Judge, view: View<'_>, asked: Asked<'_>) -> usize {
        let asking = Asking::of(view, asked, None);
        let Gang::Parts(parts) = asked.gang else {
            return 0;
        };
        let mut taken: Vec<(usize, &Resource, usize)> = Vec::new();
        for part in parts {
            let mut left = part.count;
            for node in view.model.by_rank.iter().copied() {
                let count = self.fitting(asking, node, &part.request).min(left);
                if count > 0 && takes(judge, asking, part, node) {
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

    /// Places pods that are alike on the first nodes with room for them. Returns what was found out for their kind.
    fn place_part<'g>(
        &mut self,
        judge: &mut Judge,
        asking: Asking<'_>,
        part: &'g Part,
        taken: &mut Vec<Taken<'g>>,
    ) -> Option<(Key, Seen)> {
        let view = asking.view;
        if asking.others.is_none() && times(&part.request, |dim| self.largest.get(dim)) == 0 {
            return None;
        }
        let class = part.task.and_then(|task| judge.class(view, task));
        let kind = class.map_or_else(|| Kind::Request(bits(&part.request)), Kind::Class);
        let key = (kind, asking.others, asking.barred, asking.within);
        let mut seen = self.seen.get(&key).copied().unwrap_or_default();
        if seen.most.is_some_and(|most| most < part.count) {
            return None;
        }
        let alone = taken.is_empty();
        let mut left = part.count;
        for rank in seen.from..view.model.by_rank.len() {
            let node = view.model.by_rank[rank];
            let count = self.fitting(asking, node, &part.request).min(left);
            if count == 0 || !takes(judge, asking, part, node) {
                continue;
            }
            if left == part.count {
                seen.from = rank;
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
                seen.from = rank;
                return Some((key, seen));
            }
        }
        if alone {
            seen.most = Some(part.count - left);
            self.seen.insert(key, seen);
        }
        None
    }

    /// Places pods of several sizes otherwise than the first that is asked on the first node. Where that is too much to try
    /// they count as placed, and as holding nothing.
    fn pack(&mut self, judge: &mut Judge, asking: Asking<'_>, parts: &[Part]) -> Result<(), usize> {
        let (mut nodes, mut bins) = (Vec::new(), Vec::new());
        for node in asking.view.model.by_rank.iter().copied() {
            let takes = parts.iter().map(|part| {
                self.fitting(asking, node, &part.request) > 0 && takes(judge, asking, part, node)
            });
            let takes: Vec<bool> = takes.collect();
            if takes.contains(&true) {
                let mut room = self.free[node].clone();
                if let Some(held) = asking.others.and_then(|others| self.others.get(&others)) {
                    room.add(&held[node]);
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

    /// Places what is needed wherever there is some of it, if all nodes together have so much and one of them has room for
    /// an average pod: one of the pods asks for at least so much.
    fn place_sum(&mut self, asking: Asking<'_>, need: &Resource, members: i32) -> Option<()> {
        let nodes = 0..self.free.len();
        let open = |node: &usize| is_open(asking, *node);
        let nodes: Vec<usize> = nodes.filter(open).collect();
        for (dim, need) in need.iter().filter(|(_, need)| *need >= EPSILON) {
            let rooms = nodes.iter().map(|node| self.room(asking, *node, dim));
            let sum: f64 = rooms.clone().map(|room| room.max(0.0)).sum();
            let largest = rooms.fold(0.0, f64::max);
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
                part.set(dim, self.room(asking, node, dim).clamp(0.0, need));
            }
            left.sub(&part);
            self.free[node].sub(&part);
        }
        Some(())
    }

    fn room(&self, asking: Asking<'_>, node: usize, dim: Dim) -> f64 {
        let others = asking.others.and_then(|others| self.others.get(&others));
        self.free[node].get(dim) + others.map_or(0.0, |held| held[node].get(dim))
    }

    /// How many pods fit on a node.
    fn fitting(&self, asking: Asking<'_>, node: usize, request: &Resource) -> usize {
        if !asking.reaches(node) {
            return 0;
        }
        times(request, |dim| self.room(asking, node, dim))
    }

    fn change(&mut self, node: usize, request: &Resource, count: usize, sign: f64) {
        let mut change = request.clone();
        #[expect(clippy::cast_precision_loss, reason = "there are not so many pods")]
        change.scale(count as f64 * sign);
        self.free[node].add(&change);
    }
}

/// Whether a node might take pods, its room aside. Of pods that are not made yet it is not known what they say of nodes.
fn takes(judge: &mut Judge, asking: Asking<'_>, part: &Part, node: usize) -> bool {
    let view = asking.view;
    match part.task {
        Some(task) => judge.might_take(view, task, node, asking.others.is_some()),
        None => is_open(asking, node),
    }
}

/// Whether a node is neither cordoned nor kept from who asks.
fn is_open(asking: Asking<'_>, node: usize) -> bool {
    let view = asking.view;
    let kept = asking.barred && view.is_kept(node);
    !kept && asking.reaches(node) && !view.cluster.node(NodeId::of(node)).unschedulable
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
