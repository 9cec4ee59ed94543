//! Searches devices on one node by backtracking: each request takes the first matching device, or the next one if the
//! rest then fails. The first solution wins, as in kube-scheduler's allocator.

use crate::MOST_DEVICES;
use crate::allocation::{self, Given};
use crate::claim::{Claim, Count, ResolvedSubrequest, Subrequest};
use crate::constraint::Constraint;
use crate::inventory::Inventory;
use crate::pool::{Pool, State, gather};
use crate::selectors::{Selector, Selectors};
use crate::slice::{Node, Slice};
use evictd_pod::wire::{Allocation, Device};
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The maximum cost of a search on one node, in units of selector cost. Cached results count in full, so that the
/// answer does not depend on earlier searches. Equal devices are tried once. Only costly selectors, or constraints
/// between hundreds of different devices, reach the limit.
const MOST_UNITS: u64 = 5_000_000;
/// The cost of searching for a device, and of looking at one.
const SEARCH: u64 = 100;
const LOOK: u64 = 10;
/// The maximum cost of uncached selectors over all nodes of an attempt; the last evaluation may exceed it. The next
/// attempt starts with the cached results.
const MOST_EVALUATED: u64 = 4_000_000;

/// Looking at this many devices takes about as long as one unit.
const STEPS_OF_UNIT: u64 = 32;

/// The unallocated claims of a pod.
#[derive(Debug)]
pub struct Demand {
    claims: Vec<Arc<Claim>>,
    /// The cost of the uncached selectors so far.
    evaluated_cost: AtomicU64,
}

/// Why the claims cannot be allocated on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// Too few devices match.
    NotEnough,
    /// Too few devices match, and an invalid pool was skipped.
    InvalidPools,
    /// A request for all devices needs a pool that is incomplete or invalid.
    PoolInUpdate(String),
    /// A request for all devices violates a constraint.
    Constraint(String),
    /// A selector fails, or a device has an unsupported attribute.
    Selector(String),
    /// The search was given up at its cost limit.
    TooExpensive,
    /// The attempt reached the limit for uncached selectors. The next attempt continues.
    Interrupted,
}

impl Demand {
    /// The claims of a namespace, in order. Unknown names are left out.
    ///
    /// # Errors
    /// Why one of them cannot be allocated on any node.
    pub fn new<'n>(
        known: &Inventory,
        namespace: &str,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Result<Self, String> {
        let claims = names.into_iter();
        let claims = claims.filter_map(|name| known.compiled(namespace, name).cloned());
        let claims: Vec<_> = claims.collect();
        match claims
            .iter()
            .find_map(|claim| claim.mistake(&|name| known.class(name)))
        {
            Some(mistake) => Err(mistake),
            None => Ok(Self {
                claims,
                evaluated_cost: AtomicU64::new(0),
            }),
        }
    }

    #[cfg(test)]
    pub(crate) fn units_asked(&self) -> u64 {
        self.evaluated_cost.load(Ordering::Relaxed)
    }

    /// The score of these allocations, one for each claim; see [`allocation::preference`].
    pub fn preference(&self, allocations: &[Allocation]) -> i64 {
        let claims = self.claims.iter().zip(allocations);
        claims
            .map(|(claim, allocation)| allocation::preference(&claim.wire, allocation))
            .sum()
    }

    /// Whether there is no claim to allocate.
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    /// Allocates all claims on a node, in their order.
    ///
    /// # Errors
    /// Why that is impossible.
    pub fn allocate(&self, known: &Inventory, node: &dyn Node) -> Result<Vec<Allocation>, Problem> {
        self.allocate_within(known, node, u64::MAX).0
    }

    /// The same while uncached selectors cost no more than `left` units; the last evaluation may exceed it. Returns the
    /// result and what the search cost, without cached results.
    pub fn allocate_within(
        &self,
        known: &Inventory,
        node: &dyn Node,
        left: u64,
    ) -> (Result<Vec<Allocation>, Problem>, u64) {
        let evaluated = self.evaluated_cost.load(Ordering::Relaxed);
        let limits = Limits {
            evaluated: evaluated.saturating_add(left).min(MOST_EVALUATED + 1),
            spent: Cell::new(0),
        };
        let found = self.search(known, node, &limits);
        (found, limits.spent.get())
    }

    fn search(
        &self,
        known: &Inventory,
        node: &dyn Node,
        limits: &Limits,
    ) -> Result<Vec<Allocation>, Problem> {
        let pools = gather(known, node);
        let mut search = Search::new((self, limits), known, &pools)?;
        match search.claim(0) {
            Ok(true) => Ok(search.allocations()),
            Err(Stop::Problem(problem)) => Err(problem),
            Ok(false) | Err(Stop::TooMany) => {
                let invalid = pools.iter().any(|pool| pool.state == State::Invalid);
                Err(if invalid {
                    Problem::InvalidPools
                } else {
                    Problem::NotEnough
                })
            }
        }
    }
}

/// The limit of a search, and its cost so far without cached results.
struct Limits {
    /// A further uncached selector is evaluated while those of the demand have cost less than this.
    evaluated: u64,
    spent: Cell<u64>,
}

impl Limits {
    fn charge(&self, units: u64) {
        self.spent.set(self.spent.get().saturating_add(units));
    }
}

/// A device that the node can use.
struct Candidate<'a> {
    slice: &'a Slice,
    /// Its index in the slice.
    at: usize,
    device: &'a Device,
    /// Whether another claim uses it.
    in_use: bool,
    /// Equal devices have the same kind.
    kind: usize,
    /// The claims of this demand that use it, as indices.
    taken_by: Vec<usize>,
}

/// A subrequest by the indices of claim, request and alternative.
type At = (usize, usize, usize);

/// Why the search ends here.
enum Stop {
    /// A claim would exceed its maximum number of devices.
    TooMany,
    Problem(Problem),
}

type Step = Result<bool, Stop>;

struct Search<'a> {
    demand: &'a Demand,
    limits: &'a Limits,
    selectors: &'a Selectors,
    claims: &'a [Arc<Claim>],
    candidates: Vec<Candidate<'a>>,
    /// By claim, request and alternative.
    resolved: Vec<Vec<Vec<ResolvedSubrequest<'a>>>>,
    /// The devices of subrequests for all devices.
    all: HashMap<At, Vec<usize>>,
    /// Whether a candidate is selected, as far as evaluated.
    selected: HashMap<(At, usize), bool>,
    /// By claim.
    constraints: Vec<Vec<Constraint<'a>>>,
    /// By claim: its devices, each with its subrequest.
    results: Vec<Vec<(At, usize)>>,
    /// By claim and request: the chosen alternative.
    chosen: Vec<Vec<usize>>,
    spent: u64,
}

impl<'a> Search<'a> {
    fn new(
        (demand, limits): (&'a Demand, &'a Limits),
        known: &'a Inventory,
        pools: &[Pool<'a>],
    ) -> Result<Self, Problem> {
        let claims = &demand.claims;
        let candidates = candidates(known, pools);
        limits.charge(candidates.len() as u64 / STEPS_OF_UNIT);
        let mut search = Self {
            demand,
            limits,
            selectors: known.selectors(),
            claims,
            candidates,
            resolved: Vec::new(),
            all: HashMap::new(),
            selected: HashMap::new(),
            constraints: claims.iter().map(|claim| constraints(claim)).collect(),
            results: vec![Vec::new(); claims.len()],
            chosen: claims
                .iter()
                .map(|claim| vec![0; claim.requests.len()])
                .collect(),
            spent: 0,
        };
        search.prepare(known)?;
        search.gather_all(pools)?;
        Ok(search)
    }

    fn prepare(&mut self, known: &'a Inventory) -> Result<(), Problem> {
        // `Demand::new` has found every class, so this error is not expected.
        let gone = Problem::NotEnough;
        for claim in self.claims {
            let requests = claim.requests.iter().map(|request| {
                let subrequests = request.subrequests.iter().map(|subrequest| {
                    let class = known.class(&subrequest.class)?;
                    Some(ResolvedSubrequest { subrequest, class })
                });
                subrequests.collect::<Option<Vec<_>>>()
            });
            let requests: Option<Vec<_>> = requests.collect();
            self.resolved.push(requests.ok_or_else(|| gone.clone())?);
        }
        Ok(())
    }

    /// Gathers the devices of subrequests for all devices.
    fn gather_all(&mut self, pools: &[Pool<'_>]) -> Result<(), Problem> {
        let places = self.resolved.iter().enumerate();
        let places = places.flat_map(|(claim, requests)| {
            let requests = requests.iter().enumerate();
            requests.flat_map(move |(request, subrequests)| {
                (0..subrequests.len()).map(move |subrequest| (claim, request, subrequest))
            })
        });
        let places: Vec<At> = places.collect();
        for at in places {
            let subrequest = self.resolved(at).subrequest;
            if subrequest.count != Count::All {
                continue;
            }
            if let Some(pool) = pools.iter().find(|pool| pool.state != State::Ready) {
                let state = match pool.state {
                    State::Invalid => "invalid",
                    _ => "being updated",
                };
                return Err(Problem::PoolInUpdate(format!(
                    "claim {}, request {}: asks for all devices, but resource pool {}/{} is currently {state}",
                    self.claims[at.0].full_name(),
                    subrequest.name,
                    pool.driver,
                    pool.name
                )));
            }
            let mut all = Vec::new();
            for index in 0..self.candidates.len() {
                if self.is_selected(at, index)? {
                    all.push(index);
                }
            }
            self.all.insert(at, all);
        }
        Ok(())
    }

    fn is_selected(&mut self, at: At, index: usize) -> Result<bool, Problem> {
        if let Some(known) = self.selected.get(&(at, index)) {
            return Ok(*known);
        }
        let (ResolvedSubrequest { subrequest, class }, claims) = (self.resolved(at), self.claims);
        let selected = self
            .all_select(&class.selectors, index, || format!("class {}", class.name))?
            && self.all_select(&subrequest.selectors, index, || {
                format!("claim {}", claims[at.0].full_name())
            })?;
        self.selected.insert((at, index), selected);
        Ok(selected)
    }

    /// Charges the next step.
    fn spend(&mut self, units: u64) -> Result<(), Problem> {
        self.spent = self.spent.saturating_add(units);
        if self.spent > MOST_UNITS {
            return Err(Problem::TooExpensive);
        }
        Ok(())
    }

    fn all_select(
        &mut self,
        selectors: &[Option<Arc<Selector>>],
        index: usize,
        whose: impl Fn() -> String,
    ) -> Result<bool, Problem> {
        let wrong = |number: usize, error: &str| {
            Problem::Selector(format!(
                "{}: selector #{number}: CEL runtime error: {error}",
                whose()
            ))
        };
        for (number, selector) in selectors.iter().enumerate() {
            let unknown = || wrong(number, "unsupported selector type");
            let selector = selector.as_deref().ok_or_else(unknown)?;
            let evaluated_cost = &self.demand.evaluated_cost;
            let Candidate { slice, at, .. } = self.candidates[index];
            let may_evaluate = evaluated_cost.load(Ordering::Relaxed) < self.limits.evaluated;
            let uncached = self.selectors.evaluate(selector, slice, at, may_evaluate);
            let (verdict, cost) = uncached.ok_or(Problem::Interrupted)?;
            evaluated_cost.fetch_add(cost, Ordering::Relaxed);
            self.limits.charge(cost);
            self.spend(verdict.cost)?;
            if !verdict.selects.map_err(|error| wrong(number, &error))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Allocates this claim and the later ones.
    fn claim(&mut self, claim: usize) -> Step {
        if claim == self.claims.len() {
            return Ok(true);
        }
        self.request((claim, 0))
    }

    /// Allocates this request and the later ones.
    fn request(&mut self, (claim, request): (usize, usize)) -> Step {
        let Some(wanted) = self.claims[claim].requests.get(request) else {
            return match self.claim(claim + 1) {
                // An earlier request may use fewer devices with another alternative.
                Err(Stop::TooMany) => Ok(false),
                other => other,
            };
        };
        if !wanted.has_alternatives {
            return self.devices((claim, request, 0), 0);
        }
        let mut always_too_many = true;
        for subrequest in 0..wanted.subrequests.len() {
            self.chosen[claim][request] = subrequest;
            match self.devices((claim, request, subrequest), 0) {
                Ok(true) => return Ok(true),
                Ok(false) => always_too_many = false,
                Err(Stop::TooMany) => {}
                Err(stop) => return Err(stop),
            }
        }
        if always_too_many {
            return Err(Stop::TooMany);
        }
        Ok(false)
    }

    fn resolved(&self, (claim, request, subrequest): At) -> ResolvedSubrequest<'a> {
        self.resolved[claim][request][subrequest]
    }

    /// How many devices a subrequest needs.
    fn count(&self, at: At) -> usize {
        match self.resolved(at).subrequest.count {
            Count::Exactly(count) => count,
            Count::All | Count::Unknown(_) => self.all.get(&at).map_or(0, Vec::len),
        }
    }

    fn is_free(&self, claim: usize, subrequest: &Subrequest, index: usize) -> bool {
        let candidate = &self.candidates[index];
        if subrequest.is_admin {
            !candidate.taken_by.contains(&claim)
        } else {
            !candidate.in_use && candidate.taken_by.is_empty()
        }
    }

    /// Allocates the devices of a subrequest from an index on, and all later requests.
    fn devices(&mut self, at: At, from: usize) -> Step {
        self.spend(SEARCH).map_err(Stop::Problem)?;
        self.limits.charge(1);
        let (claim, request, _) = at;
        let (count, subrequest) = (self.count(at), self.resolved(at).subrequest);
        let takes_all = subrequest.count == Count::All;
        if takes_all && count == 0 {
            return Ok(false);
        }
        if from >= count {
            return self.request((claim, request + 1));
        }
        if self.results[claim].len().saturating_add(count - from) > MOST_DEVICES {
            return Err(Stop::TooMany);
        }
        if takes_all {
            let device = self.all.get(&at).and_then(|all| all.get(from)).copied();
            return match device {
                Some(device) => Ok(self.take(at, device)? && self.allocate_rest(at, from, device)?),
                None => Ok(false),
            };
        }
        let mut failed_kinds = HashSet::new();
        self.limits
            .charge(self.candidates.len() as u64 / STEPS_OF_UNIT);
        for index in 0..self.candidates.len() {
            self.spend(LOOK).map_err(Stop::Problem)?;
            let kind = self.candidates[index].kind;
            // A device equal to one that failed fails, too, unless admin access ignores who uses it.
            let known = !subrequest.is_admin && failed_kinds.contains(&kind);
            if known || !self.is_free(claim, subrequest, index) {
                continue;
            }
            let selected = self.is_selected(at, index).map_err(Stop::Problem)?;
            if selected && self.take(at, index)? && self.allocate_rest(at, from, index)? {
                return Ok(true);
            }
            failed_kinds.insert(kind);
        }
        Ok(false)
    }

    /// Allocates the rest, or releases this device if that fails.
    fn allocate_rest(&mut self, at: At, from: usize, device: usize) -> Step {
        let done = self.devices(at, from + 1);
        if !matches!(done, Ok(true)) {
            self.give_back(at, device);
        }
        done
    }

    /// Takes a selected device if it is free, untainted and within the constraints.
    fn take(&mut self, at: At, index: usize) -> Step {
        let claim = at.0;
        let subrequest = self.resolved(at).subrequest;
        let candidate = &self.candidates[index];
        if !self.is_free(claim, subrequest, index)
            || !is_supported(candidate.device)
            || has_untolerated_taint(candidate.device, subrequest)
        {
            return Ok(false);
        }
        let (driver, device) = (candidate.slice.spec.driver.as_str(), candidate.device);
        let constraints = &mut self.constraints[claim];
        let failed = constraints
            .iter_mut()
            .position(|constraint| !constraint.add(&subrequest.name, driver, device));
        if let Some(failed) = failed {
            for constraint in &mut constraints[..failed] {
                constraint.remove(&subrequest.name);
            }
            if subrequest.count == Count::All {
                return Err(Stop::Problem(Problem::Constraint(format!(
                    "claim {}, request {}: cannot add device {driver}/{}/{} because a claim constraint would not be satisfied",
                    self.claims[claim].full_name(),
                    subrequest.name,
                    candidate.slice.spec.pool.name,
                    device.name
                ))));
            }
            return Ok(false);
        }
        self.candidates[index].taken_by.push(claim);
        self.results[claim].push((at, index));
        Ok(true)
    }

    /// Releases the device that was taken last.
    fn give_back(&mut self, at: At, index: usize) {
        let subrequest = self.resolved(at).subrequest;
        for constraint in &mut self.constraints[at.0] {
            constraint.remove(&subrequest.name);
        }
        self.candidates[index].taken_by.pop();
        self.results[at.0].pop();
    }

    fn allocations(&self) -> Vec<Allocation> {
        let claims = self.claims.iter().enumerate();
        let allocations = claims.map(|(index, claim)| {
            let given = self.results[index].iter().map(|(at, device)| {
                let Candidate { slice, device, .. } = &self.candidates[*device];
                Given {
                    subrequest: self.resolved(*at).subrequest,
                    slice,
                    device,
                }
            });
            let requests = self.resolved[index].iter().zip(&self.chosen[index]);
            let chosen =
                requests.filter_map(|(subrequests, chosen)| subrequests.get(*chosen).copied());
            allocation::of(
                claim,
                &chosen.collect::<Vec<_>>(),
                &given.collect::<Vec<_>>(),
            )
        });
        allocations.collect()
    }
}

/// The devices of complete pools, in order.
fn candidates<'a>(known: &'a Inventory, pools: &[Pool<'a>]) -> Vec<Candidate<'a>> {
    let mut candidates: Vec<Candidate<'_>> = Vec::new();
    for pool in pools {
        let taken = known.taken(pool.driver, pool.name);
        let first = candidates.len();
        for slice in &pool.slices {
            for (at, device) in slice.spec.devices.iter().enumerate() {
                let in_use = taken.is_some_and(|taken| taken.contains_key(&device.name));
                let alike = candidates[first..].iter();
                let mut alike = alike.filter(|other| other.in_use == in_use);
                let kind = alike.find(|other| are_equal(other.device, device));
                candidates.push(Candidate {
                    slice,
                    at,
                    device,
                    in_use,
                    kind: kind.map_or(candidates.len(), |other| other.kind),
                    taken_by: Vec::new(),
                });
            }
        }
    }
    candidates
}

/// Whether two devices of a pool differ only by name.
fn are_equal(one: &Device, other: &Device) -> bool {
    one.attributes == other.attributes
        && one.capacity == other.capacity
        && one.taints == other.taints
        && is_supported(one) == is_supported(other)
}

/// Whether the device needs none of the unsupported features: shared counters, shared capacity or binding conditions.
const fn is_supported(device: &Device) -> bool {
    device.consumes_counters.is_empty()
        && !device.allow_multiple_allocations
        && device.binding_conditions.is_empty()
}

fn constraints(claim: &Claim) -> Vec<Constraint<'_>> {
    let constraints = claim.wire.spec.devices.constraints.iter();
    constraints.filter_map(Constraint::new).collect()
}

fn has_untolerated_taint(device: &Device, subrequest: &Subrequest) -> bool {
    let mut taints = device.taints.iter();
    taints.any(|taint| {
        matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
            && !taint.is_tolerated(&subrequest.tolerations)
    })
}
