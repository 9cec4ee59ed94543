//! The search for devices on one node: request by request the first device that will do, and another one where that leads
//! nowhere. The first solution is taken, as kube-scheduler's allocator does.

use crate::MOST_DEVICES;
use crate::allocation::{self, Given};
use crate::claim::{Ask, Asked, Claim, Count};
use crate::constraint::Constraint;
use crate::inventory::Inventory;
use crate::pool::{Pool, State, gather};
use crate::selectors::{Selector, Selectors};
use crate::slice::{Node, Slice};
use evictd_pod::wire::{Allocation, Device};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// So much may a search on one node cost, in units of cost of selectors. What selectors have said before counts as if they were
/// asked again, so that an answer does not depend on who has asked before. Devices that are alike are tried once: only claims whose
/// constraints set hundreds of different devices against each other come to it, and those with very costly selectors.
const MOST_UNITS: u64 = 5_000_000;
/// What it costs to look for a device, and to look at one.
const SEARCH: u64 = 100;
const LOOK: u64 = 10;
/// So much may selectors cost on all nodes together that have to be asked, or so much and one evaluation more. What was found out
/// is known to the next attempt.
const MOST_ASKED: u64 = 4_000_000;

/// Claims of a pod that have no devices yet.
#[derive(Debug)]
pub struct Demand {
    claims: Vec<Arc<Claim>>,
    /// What selectors have cost that had to be asked.
    asked: AtomicU64,
}

/// Why claims cannot have devices on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// There are not enough that will do.
    NotEnough,
    /// There are not enough, and a pool could not be used.
    InvalidPools,
    /// All devices are asked for, and it is not known which those are.
    PoolInUpdate(String),
    /// All devices are asked for, and they must not be together.
    Constraint(String),
    /// A selector, or an attribute of a device, cannot be evaluated.
    Selector(String),
    /// The search was given up, because it costs too much.
    TooHard,
    /// Selectors have cost too much in this attempt. The next one goes on from there.
    GoesOn,
}

impl Demand {
    /// Claims by namespace and names, in their order; those that are not known are left out.
    ///
    /// # Errors
    /// What keeps one of them from having devices on any node.
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
                asked: AtomicU64::new(0),
            }),
        }
    }

    #[cfg(test)]
    pub(crate) fn units_asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// How well these allocations, one for each claim, suit them; see [`allocation::preference`].
    pub fn preference(&self, allocations: &[Allocation]) -> i64 {
        let claims = self.claims.iter().zip(allocations);
        claims
            .map(|(claim, own)| allocation::preference(&claim.wire, own))
            .sum()
    }

    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    /// What each claim can have on a node, in their order.
    ///
    /// # Errors
    /// Why they cannot all have something.
    pub fn allocate(&self, known: &Inventory, node: &dyn Node) -> Result<Vec<Allocation>, Problem> {
        let pools = gather(known, node);
        let mut search = Search::new(self, known, &pools)?;
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

/// A device that can be used on the node.
struct Candidate<'a> {
    slice: &'a Slice,
    /// Its place in the slice.
    at: usize,
    device: &'a Device,
    /// Another claim has it.
    in_use: bool,
    /// Candidates with the same number are alike.
    kind: usize,
    /// The claims of the demand that have it, as indices.
    taken_by: Vec<usize>,
}

/// Which of a request's asks is meant: the claim, the request and the ask, as indices.
type At = (usize, usize, usize);

/// Why the search does not go on here.
enum Stop {
    /// A claim would have more devices than it can.
    TooMany,
    Problem(Problem),
}

type Step = Result<bool, Stop>;

struct Search<'a> {
    demand: &'a Demand,
    selectors: &'a Selectors,
    claims: &'a [Arc<Claim>],
    candidates: Vec<Candidate<'a>>,
    /// By claim, request and ask.
    asked: Vec<Vec<Vec<Asked<'a>>>>,
    /// The devices of asks that want all of them.
    all: HashMap<At, Vec<usize>>,
    /// Whether a candidate is selected, as far as it is known.
    selected: HashMap<(At, usize), bool>,
    /// By claim.
    constraints: Vec<Vec<Constraint<'a>>>,
    /// By claim: the devices that it has, each with what asked for it.
    results: Vec<Vec<(At, usize)>>,
    /// By claim and request: the ask that was met.
    chosen: Vec<Vec<usize>>,
    spent: u64,
}

impl<'a> Search<'a> {
    fn new(demand: &'a Demand, known: &'a Inventory, pools: &[Pool<'a>]) -> Result<Self, Problem> {
        let claims = &demand.claims;
        let mut search = Self {
            demand,
            selectors: known.selectors(),
            claims,
            candidates: candidates(known, pools),
            asked: Vec::new(),
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
        // It was there a moment ago.
        let gone = Problem::NotEnough;
        for claim in self.claims {
            let requests = claim.requests.iter().map(|request| {
                let asks = request.asks.iter().map(|ask| {
                    let class = known.class(&ask.class)?;
                    Some(Asked { ask, class })
                });
                asks.collect::<Option<Vec<_>>>()
            });
            let requests: Option<Vec<_>> = requests.collect();
            self.asked.push(requests.ok_or_else(|| gone.clone())?);
        }
        Ok(())
    }

    /// Finds the devices of asks that want all of them.
    fn gather_all(&mut self, pools: &[Pool<'_>]) -> Result<(), Problem> {
        let places = self.asked.iter().enumerate();
        let places = places.flat_map(|(claim, requests)| {
            let requests = requests.iter().enumerate();
            requests.flat_map(move |(request, asks)| {
                (0..asks.len()).map(move |ask| (claim, request, ask))
            })
        });
        let places: Vec<At> = places.collect();
        for at in places {
            let ask = self.asked(at).ask;
            if ask.count != Count::All {
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
                    ask.name,
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
        let (Asked { ask, class }, claims) = (self.asked(at), self.claims);
        let selected = self
            .all_select(&class.selectors, index, || format!("class {}", class.name))?
            && self.all_select(&ask.selectors, index, || {
                format!("claim {}", claims[at.0].full_name())
            })?;
        self.selected.insert((at, index), selected);
        Ok(selected)
    }

    /// Pays for what comes next.
    fn spend(&mut self, units: u64) -> Result<(), Problem> {
        self.spent = self.spent.saturating_add(units);
        if self.spent > MOST_UNITS {
            return Err(Problem::TooHard);
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
            let asked = &self.demand.asked;
            let Candidate { slice, at, .. } = self.candidates[index];
            let may_ask = asked.load(Ordering::Relaxed) <= MOST_ASKED;
            let judged = self.selectors.judge(selector, slice, at, may_ask);
            let (verdict, cost) = judged.ok_or(Problem::GoesOn)?;
            asked.fetch_add(cost, Ordering::Relaxed);
            self.spend(verdict.cost)?;
            if !verdict.selects.map_err(|error| wrong(number, &error))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Devices for this claim and those after it.
    fn claim(&mut self, claim: usize) -> Step {
        if claim == self.claims.len() {
            return Ok(true);
        }
        self.request((claim, 0))
    }

    /// Devices for this request of a claim and what comes after it.
    fn request(&mut self, (claim, request): (usize, usize)) -> Step {
        let Some(own) = self.claims[claim].requests.get(request) else {
            return match self.claim(claim + 1) {
                // A claim before may have fewer by another choice.
                Err(Stop::TooMany) => Ok(false),
                other => other,
            };
        };
        if !own.has_choice {
            return self.devices((claim, request, 0), 0);
        }
        let mut always_too_many = true;
        for ask in 0..own.asks.len() {
            self.chosen[claim][request] = ask;
            match self.devices((claim, request, ask), 0) {
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

    fn asked(&self, (claim, request, ask): At) -> Asked<'a> {
        self.asked[claim][request][ask]
    }

    /// How many devices an ask wants.
    fn count(&self, at: At) -> usize {
        match self.asked(at).ask.count {
            Count::Exactly(count) => count,
            Count::All | Count::Unknown(_) => self.all.get(&at).map_or(0, Vec::len),
        }
    }

    fn is_free(&self, claim: usize, ask: &Ask, index: usize) -> bool {
        let candidate = &self.candidates[index];
        if ask.is_admin {
            !candidate.taken_by.contains(&claim)
        } else {
            !candidate.in_use && candidate.taken_by.is_empty()
        }
    }

    /// The devices of an ask from the given one on, and what comes after it.
    fn devices(&mut self, at: At, from: usize) -> Step {
        self.spend(SEARCH).map_err(Stop::Problem)?;
        let (claim, request, _) = at;
        let (count, ask) = (self.count(at), self.asked(at).ask);
        let takes_all = ask.count == Count::All;
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
                Some(device) => Ok(self.take(at, device)? && self.go_on(at, from, device)?),
                None => Ok(false),
            };
        }
        let mut in_vain = HashSet::new();
        for index in 0..self.candidates.len() {
            self.spend(LOOK).map_err(Stop::Problem)?;
            let kind = self.candidates[index].kind;
            // What came of one comes of all that are alike, as long as they are free for everybody.
            let known = !ask.is_admin && in_vain.contains(&kind);
            if known || !self.is_free(claim, ask, index) {
                continue;
            }
            let selected = self.is_selected(at, index).map_err(Stop::Problem)?;
            if selected && self.take(at, index)? && self.go_on(at, from, index)? {
                return Ok(true);
            }
            in_vain.insert(kind);
        }
        Ok(false)
    }

    /// Goes on with the next device; if that leads nowhere, this one is given back.
    fn go_on(&mut self, at: At, from: usize, device: usize) -> Step {
        let done = self.devices(at, from + 1);
        if !matches!(done, Ok(true)) {
            self.give_back(at, device);
        }
        done
    }

    /// Takes a device that is selected, if nothing speaks against it.
    fn take(&mut self, at: At, index: usize) -> Step {
        let claim = at.0;
        let ask = self.asked(at).ask;
        let candidate = &self.candidates[index];
        if !self.is_free(claim, ask, index)
            || !is_understood(candidate.device)
            || has_untolerated_taint(candidate.device, ask)
        {
            return Ok(false);
        }
        let (driver, device) = (candidate.slice.spec.driver.as_str(), candidate.device);
        let constraints = &mut self.constraints[claim];
        let failed = constraints
            .iter_mut()
            .position(|own| !own.add(&ask.name, driver, device));
        if let Some(failed) = failed {
            for own in &mut constraints[..failed] {
                own.remove(&ask.name);
            }
            if ask.count == Count::All {
                return Err(Stop::Problem(Problem::Constraint(format!(
                    "claim {}, request {}: cannot add device {driver}/{}/{} because a claim constraint would not be satisfied",
                    self.claims[claim].full_name(),
                    ask.name,
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

    /// The last device that was taken is free again.
    fn give_back(&mut self, at: At, index: usize) {
        let ask = self.asked(at).ask;
        for own in &mut self.constraints[at.0] {
            own.remove(&ask.name);
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
                    ask: self.asked(*at).ask,
                    slice,
                    device,
                }
            });
            let requests = self.asked[index].iter().zip(&self.chosen[index]);
            let chosen = requests.filter_map(|(asks, chosen)| asks.get(*chosen).copied());
            allocation::of(
                claim,
                &chosen.collect::<Vec<_>>(),
                &given.collect::<Vec<_>>(),
            )
        });
        allocations.collect()
    }
}

/// The devices of the pools that are ready, in their order.
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
                let kind = alike.find(|other| are_alike(other.device, device));
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

/// Whether two devices of a pool differ in nothing but their names.
fn are_alike(one: &Device, other: &Device) -> bool {
    one.attributes == other.attributes
        && one.capacity == other.capacity
        && one.taints == other.taints
        && is_understood(one) == is_understood(other)
}

/// Whether to have a device takes nothing of others, leaves nothing of it, and nobody has to wait for it: nothing else is given.
const fn is_understood(device: &Device) -> bool {
    device.consumes_counters.is_empty()
        && !device.allow_multiple_allocations
        && device.binding_conditions.is_empty()
}

fn constraints(claim: &Claim) -> Vec<Constraint<'_>> {
    let constraints = claim.wire.spec.devices.constraints.iter();
    constraints.filter_map(Constraint::new).collect()
}

fn has_untolerated_taint(device: &Device, ask: &Ask) -> bool {
    let mut taints = device.taints.iter();
    taints.any(|taint| {
        matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
            && !taint.is_tolerated(&ask.tolerations)
    })
}
