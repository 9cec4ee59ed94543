//! Searches devices on one node by backtracking: each request takes the first matching device, or the next one if the
//! rest then fails. The first solution wins, as in kube-scheduler's allocator.

mod shortage;

pub(crate) use shortage::shortage;

use crate::MOST_DEVICES;
use crate::allocation::{self, Given};
use crate::candidate::{Candidate, Candidates};
use crate::claim::{At, Claim, Count, ResolvedSubrequest, Subrequest};
use crate::constraint::Constraint;
use crate::gather::gather;
use crate::inventory::Inventory;
use crate::limits::{Limits, Problem};
use crate::pool::{Pool, State};
use crate::selectors::{Selector, Selectors};
use crate::slice::Node;
use crate::without::Without;
use evictd_pod::Quantity;
use evictd_pod::compatibility::Release;
use evictd_pod::wire::{Allocation, Device, Taint};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The maximum cost of a search on one node, in units of selector cost. Cached results count in full, so that the
/// answer does not depend on earlier searches. Equal devices are tried once. Only costly selectors, or constraints
/// between hundreds of different devices, reach the limit.
const MOST_UNITS: u64 = 5_000_000;
/// The cost of searching for a device, and of looking at one.
const SEARCH: u64 = 100;
const LOOK: u64 = 10;
/// Looking at this many devices takes about as long as one unit.
const STEPS_OF_UNIT: u64 = 32;

/// Allocates all claims on a node, in their order.
pub(crate) fn search(
    claims: &[Arc<Claim>],
    (known, without): (&Inventory, &Without),
    node: &dyn Node,
    limits: &Limits<'_>,
) -> Result<Vec<Allocation>, Problem> {
    let pools = gather(known, without, node);
    let mut search = Search::new((claims, limits), known, &pools, node)?;
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

/// Why the search ends here.
enum Stop {
    /// A claim would exceed its maximum number of devices.
    TooMany,
    Problem(Problem),
}

type Step = Result<bool, Stop>;

/// A device that the search has taken.
struct Taken {
    at: At,
    /// The candidate.
    index: usize,
    /// The consumed amounts of its capacities.
    share: BTreeMap<String, Quantity>,
}

struct Search<'a> {
    limits: &'a Limits<'a>,
    selectors: &'a Selectors,
    release: Release,
    claims: &'a [Arc<Claim>],
    node: &'a dyn Node,
    candidates: Candidates<'a>,
    /// By claim, request and alternative.
    resolved: Vec<Vec<Vec<ResolvedSubrequest<'a>>>>,
    /// The devices of subrequests for all devices.
    all: HashMap<At, Vec<usize>>,
    /// Whether a candidate is selected, as far as evaluated.
    selected: HashMap<(At, usize), bool>,
    /// By claim.
    constraints: Vec<Vec<Constraint<'a>>>,
    /// By claim: its devices, each with its subrequest.
    results: Vec<Vec<Taken>>,
    /// By claim and request: the chosen alternative.
    chosen: Vec<Vec<usize>>,
    /// The states from which no allocation was found.
    failed: HashSet<Vec<usize>>,
    /// Whether a subrequest has admin access.
    has_admin: bool,
    spent: u64,
}

impl<'a> Search<'a> {
    fn new(
        (claims, limits): (&'a [Arc<Claim>], &'a Limits<'a>),
        known: &'a Inventory,
        pools: &'a [Pool<'a>],
        node: &'a dyn Node,
    ) -> Result<Self, Problem> {
        let candidates = Candidates::new(pools, known.release());
        limits.charge(candidates.all.len() as u64 / STEPS_OF_UNIT);
        let mut search = Self {
            limits,
            selectors: known.selectors(),
            release: known.release(),
            claims,
            node,
            candidates,
            resolved: Vec::new(),
            all: HashMap::new(),
            selected: HashMap::new(),
            constraints: claims.iter().map(|claim| constraints(claim)).collect(),
            results: claims.iter().map(|_| Vec::new()).collect(),
            chosen: claims
                .iter()
                .map(|claim| vec![0; claim.requests.len()])
                .collect(),
            failed: HashSet::new(),
            has_admin: claims.iter().any(|claim| claim.has_admin()),
            spent: 0,
        };
        search.prepare(known)?;
        search.gather_all(pools)?;
        search.limit_devices()?;
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
            let all = self.all_of(at, pools)?;
            self.all.insert(at, all);
        }
        Ok(())
    }

    /// The devices that a subrequest for all devices gets. The first pool decides that has an error.
    fn all_of(&mut self, at: At, pools: &[Pool<'_>]) -> Result<Vec<usize>, Problem> {
        let subrequest = self.resolved(at).subrequest;
        // In 1.36 a device that has too little left is not one of those that can serve the request (S7-156).
        let takes_full = self.release >= Release::V1_37;
        let (mut all, mut next) = (Vec::new(), 0);
        for (number, pool) in pools.iter().enumerate() {
            if pool.state != State::Ready {
                let state = match pool.state {
                    State::Invalid => "invalid",
                    _ => "being updated",
                };
                return Err(Problem::PoolInUpdate(format!(
                    "claim {}, request {}: asks for all devices, but resource pool {}/{} is currently {state}",
                    self.claims[at.0].full_name(),
                    subrequest.short_name(),
                    pool.driver,
                    pool.name
                )));
            }
            while self
                .candidates
                .all
                .get(next)
                .is_some_and(|one| one.pool == number)
            {
                let is_selected = self.is_selected(at, next)?;
                let candidate = &self.candidates.all[next];
                if is_selected && (takes_full || candidate.share(subrequest).is_some()) {
                    all.push(next);
                }
                next += 1;
            }
        }
        Ok(all)
    }

    /// Checks that no claim needs too many devices, whatever alternatives it gets.
    fn limit_devices(&self) -> Result<(), Problem> {
        for (index, claim) in self.claims.iter().enumerate() {
            let requests = claim.requests.iter().enumerate().map(|(request, wanted)| {
                let subrequests = 0..wanted.subrequests.len();
                subrequests
                    .map(|subrequest| self.count((index, request, subrequest)))
                    .min()
                    .unwrap_or(0)
            });
            let least = requests.fold(0, usize::saturating_add);
            if least > MOST_DEVICES {
                let name = claim.full_name();
                return Err(Problem::Claim(format!(
                    "claim {name}: number of requested devices {least} exceeds the claim limit of {MOST_DEVICES}"
                )));
            }
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
        let Candidate { slice, device, .. } = self.candidates.all[index];
        let selected = selected && slice.allows(device, self.node);
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
            Problem::Selector(format!("{}: selector #{number}: {error}", whose()))
        };
        for (number, selector) in selectors.iter().enumerate() {
            let unknown = || wrong(number, "CEL expression empty (unsupported selector type?)");
            let selector = selector.as_deref().ok_or_else(unknown)?;
            if let Some(error) = selector.error() {
                return Err(wrong(number, &format!("CEL compile error: {error}")));
            }
            let evaluated_cost = self.limits.evaluated_cost;
            let Candidate { slice, at, .. } = self.candidates.all[index];
            let may_evaluate = evaluated_cost.load(Ordering::Relaxed) < self.limits.evaluated;
            let uncached = self.selectors.evaluate(selector, slice, at, may_evaluate);
            let (verdict, cost) = uncached.ok_or(Problem::Interrupted)?;
            evaluated_cost.fetch_add(cost, Ordering::Relaxed);
            self.limits.charge(cost);
            self.spend(verdict.cost)?;
            let failed = |error: Arc<str>| wrong(number, &format!("CEL runtime error: {error}"));
            if !verdict.selects.map_err(failed)? {
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
                Some(device) => Ok(self.take(at, device)? && self.allocate_rest(at, from)?),
                None => Ok(false),
            };
        }
        // In another order the same devices fail, too.
        let last = self.results[claim].last().filter(|_| from > 0);
        let first = last.map_or(0, |last| last.index + 1);
        let state = self.state(at, first);
        if self.failed.contains(&state) {
            return Ok(false);
        }
        let mut failed_kinds = HashSet::new();
        self.limits
            .charge(self.candidates.all.len() as u64 / STEPS_OF_UNIT);
        for index in first..self.candidates.all.len() {
            self.spend(LOOK).map_err(Stop::Problem)?;
            let candidate = &self.candidates.all[index];
            let (kind, is_special) = (candidate.kind, candidate.is_special());
            // A device equal to one that failed fails, too, unless admin access ignores who uses it.
            let known = !subrequest.is_admin && !is_special && failed_kinds.contains(&kind);
            if known || !candidate.is_free(at, subrequest) {
                continue;
            }
            let selected = self.is_selected(at, index).map_err(Stop::Problem)?;
            if selected && self.take(at, index)? && self.allocate_rest(at, from)? {
                return Ok(true);
            }
            if !is_special {
                failed_kinds.insert(kind);
            }
        }
        self.failed.insert(state);
        Ok(false)
    }

    /// The state that decides whether the rest can be allocated: the request, the device from which it searches, and the kinds
    /// of the taken devices. It does not matter which earlier claim has a device, because the constraints of that claim are met.
    /// Before the first device of a request without constraints, it does not matter which request of this claim has a device.
    fn state(&self, at: At, first: usize) -> Vec<usize> {
        let (claim, request, subrequest) = at;
        let is_alike = first == 0 && self.constraints[claim].is_empty();
        let mut state = vec![claim, request, subrequest, first];
        let taken = self.results[..=claim].iter().flatten();
        let taken = taken.map(|taken| {
            let candidate = &self.candidates.all[taken.index];
            if candidate.device.allow_multiple_allocations {
                // Shares of equal devices may differ.
                return (taken.at, 2 * self.candidates.all.len() + taken.index);
            }
            // Two claims may have one device with admin access, so that equal devices are not alike then.
            let kind = if self.has_admin {
                taken.index
            } else {
                candidate.kind
            };
            let at = match taken.at.0 {
                earlier if earlier < claim => (0, 0, 0),
                _ if is_alike => (1, 0, 0),
                _ => (1, taken.at.1 + 1, taken.at.2),
            };
            (at, kind)
        });
        let mut taken: Vec<(At, usize)> = taken.collect();
        taken.sort_unstable();
        let taken = taken.iter();
        state.extend(taken.flat_map(|(at, kind)| [at.0, at.1, at.2, *kind]));
        state
    }

    /// Allocates the rest, or releases this device if that fails.
    fn allocate_rest(&mut self, at: At, from: usize) -> Step {
        let done = self.devices(at, from + 1);
        if !matches!(done, Ok(true)) {
            self.give_back(at);
        }
        done
    }

    /// Takes a selected device if it is free and untainted, has enough left, and is within the constraints.
    fn take(&mut self, at: At, index: usize) -> Step {
        let claim = at.0;
        let subrequest = self.resolved(at).subrequest;
        let candidate = &self.candidates.all[index];
        if !candidate.is_free(at, subrequest)
            || untolerated_taint(candidate.device, subrequest).is_some()
        {
            return Ok(false);
        }
        let Some(share) = candidate.share(subrequest) else {
            return Ok(false);
        };
        if self.candidates.short_counter(index).is_some() {
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
                    subrequest.short_name(),
                    candidate.slice.spec.pool.name,
                    device.name
                ))));
            }
            return Ok(false);
        }
        self.candidates.take(at, index, &share);
        self.results[claim].push(Taken { at, index, share });
        Ok(true)
    }

    /// Releases the device that was taken last.
    fn give_back(&mut self, at: At) {
        let subrequest = self.resolved(at).subrequest;
        for constraint in &mut self.constraints[at.0] {
            constraint.remove(&subrequest.name);
        }
        if let Some(taken) = self.results[at.0].pop() {
            self.candidates.give_back(taken.index, &taken.share);
        }
    }

    fn allocations(&self) -> Vec<Allocation> {
        let claims = self.claims.iter().enumerate();
        let allocations = claims.map(|(index, claim)| {
            let given = self.results[index].iter().map(|taken| {
                let Candidate { slice, device, .. } = &self.candidates.all[taken.index];
                let is_shared = device.allow_multiple_allocations;
                Given {
                    subrequest: self.resolved(taken.at).subrequest,
                    slice,
                    device,
                    share: is_shared.then(|| taken.share.clone()),
                }
            });
            let requests = self.resolved[index].iter().zip(&self.chosen[index]);
            let chosen =
                requests.filter_map(|(subrequests, chosen)| subrequests.get(*chosen).copied());
            allocation::of(
                claim,
                &chosen.collect::<Vec<_>>(),
                &given.collect::<Vec<_>>(),
                (self.node.name(), self.release),
            )
        });
        allocations.collect()
    }
}

fn constraints(claim: &Claim) -> Vec<Constraint<'_>> {
    let constraints = claim.wire.spec.devices.constraints.iter();
    constraints.filter_map(Constraint::new).collect()
}

/// The first taint that keeps the device from the subrequest, with its index.
fn untolerated_taint<'d>(
    device: &'d Device,
    subrequest: &Subrequest,
) -> Option<(usize, &'d Taint)> {
    let mut taints = device.taints.iter().enumerate();
    taints.find(|(_, taint)| {
        matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
            && !taint.is_tolerated(&subrequest.tolerations)
    })
}
