//! The shortage on a node where claims cannot be allocated: for each request the devices that do not serve it, with the
//! claims that hold them.

use super::{STEPS_OF_UNIT, Search, Stop, constraints};
use crate::capacity;
use crate::claim::{At, Claim, Count, ResolvedSubrequest};
use crate::gather::gather;
use crate::inventory::Inventory;
use crate::limits::{Limits, Problem};
use crate::pool::{Pool, State};
use crate::slice::Node;
use crate::without::Without;
use evictd_pod::Quantity;
use evictd_pod::quantity::Format;
use evictd_pod::wire::{Allocation, Device};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The most devices, claims and pods that are named of one kind.
const NAMED: usize = 4;
/// The most reasons of one request, and the most requests.
const REASONS: usize = 6;
/// The most bytes of the whole text.
const LONGEST: usize = 2000;
/// The most constraints that are left out to see which one is in the way.
const CONSTRAINTS: usize = 4;

/// One line about a node on which the claims cannot be allocated. `None` if it cannot be found out.
pub(crate) fn shortage(
    claims: &[Arc<Claim>],
    known: &Inventory,
    node: &dyn Node,
    limits: &Limits<'_>,
) -> Option<String> {
    let without = Without::default();
    let pools = gather(known, &without, node);
    let mut search = Search::new((claims, limits), known, &pools, node).ok()?;
    let holders = Holders::new(known, &pools);
    let mut lines = Vec::new();
    for (index, claim) in claims.iter().enumerate() {
        for request in 0..claim.requests.len() {
            if limits.is_spent() {
                return None;
            }
            let found = search.short_request((index, request), &pools, &holders);
            lines.extend(found.ok()?);
        }
    }
    let count = lines.len();
    lines.truncate(REASONS);
    if count > REASONS {
        lines.push(format!("and {} more requests", count - REASONS));
    }
    if lines.is_empty() {
        lines.push(together(claims, known, (&pools, node), limits)?);
    }
    lines.extend(unready(&pools));
    Some(shortened(lines.join("; ")))
}

/// Names may have 253 bytes each, so that the numbers of names do not bound the text.
fn shortened(mut text: String) -> String {
    const END: &str = " ...";
    if text.len() > LONGEST {
        text.truncate(text.floor_char_boundary(LONGEST - END.len()));
        text.push_str(END);
    }
    text
}

/// The pools whose devices are not used.
fn unready(pools: &[Pool<'_>]) -> Option<String> {
    let unready = pools.iter().filter(|pool| pool.state != State::Ready);
    let mut names = Names::default();
    for pool in unready {
        let state = match pool.state {
            State::Invalid => "is invalid",
            _ => "is incomplete",
        };
        names.add(format!("pool {}/{} {state}", pool.driver, pool.name));
    }
    (names.count > 0).then(|| names.text())
}

/// Why all requests cannot be served, each of which could be served alone.
fn together(
    claims: &[Arc<Claim>],
    known: &Inventory,
    (pools, node): (&[Pool<'_>], &dyn Node),
    limits: &Limits<'_>,
) -> Option<String> {
    let places = claims.iter().enumerate().flat_map(|(claim, of)| {
        let count = constraints(of).len();
        (0..count).map(move |constraint| (claim, constraint))
    });
    for (claim, constraint) in places.take(CONSTRAINTS) {
        if limits.is_spent() {
            return None;
        }
        let mut search = Search::new((claims, limits), known, pools, node).ok()?;
        let left_out = search.constraints[claim].remove(constraint);
        match search.claim(0) {
            Ok(true) => {
                let name = claims[claim].full_name();
                let wanted = left_out.wanted();
                return Some(format!(
                    "claim {name}: enough devices are free, but not with {wanted}"
                ));
            }
            Ok(false) | Err(Stop::TooMany) => {}
            Err(Stop::Problem(_)) => return None,
        }
    }
    let names: Vec<String> = claims.iter().map(|claim| claim.full_name()).collect();
    let names = names.join(", ");
    Some(format!(
        "claims {names}: each request could be served alone, but not all together"
    ))
}

/// Some names, and how many there are.
#[derive(Default)]
struct Names {
    first: Vec<String>,
    count: usize,
}

impl Names {
    fn add(&mut self, name: String) {
        self.count += 1;
        if self.first.len() < NAMED {
            self.first.push(name);
        }
    }

    fn text(&self) -> String {
        let first = self.first.join(", ");
        match self.count - self.first.len() {
            0 => first,
            more => format!("{first} and {more} more"),
        }
    }
}

impl FromIterator<String> for Names {
    fn from_iter<I: IntoIterator<Item = String>>(names: I) -> Self {
        let mut all = Self::default();
        names.into_iter().for_each(|name| all.add(name));
        all
    }
}

/// The claims that use devices of some pools, in words.
struct Holders<'i>(BTreeMap<(&'i str, &'i str, &'i str), BTreeSet<String>>);

impl<'i> Holders<'i> {
    fn new(known: &'i Inventory, pools: &[Pool<'_>]) -> Self {
        let pools: BTreeSet<(&str, &str)> =
            pools.iter().map(|pool| (pool.driver, pool.name)).collect();
        let mut holders = Self(BTreeMap::new());
        for claim in known.claims() {
            if let Some(allocation) = &claim.status.allocation {
                holders.add(allocation, &pools, || {
                    let name = claim.metadata.full_name();
                    let reserved = &claim.status.reserved_for;
                    if let [group] = reserved.as_slice()
                        && group.is_group(&group.name)
                    {
                        let group = &group.name;
                        return format!("claim {name} until PodGroup {group} is deleted");
                    }
                    let pods: Names = reserved.iter().map(|pod| pod.name.clone()).collect();
                    match pods.count {
                        0 => format!("claim {name}, which no pod uses, until it is deallocated"),
                        1 => format!("claim {name} until pod {} ends", pods.text()),
                        _ => format!("claim {name} until pods {} end", pods.text()),
                    }
                });
            }
        }
        for allocation in known.assumed() {
            let being = || "a claim that is being allocated".to_owned();
            holders.add(allocation, &pools, being);
        }
        holders
    }

    fn add(
        &mut self,
        allocation: &'i Allocation,
        pools: &BTreeSet<(&str, &str)>,
        words: impl Fn() -> String,
    ) {
        let results = allocation.devices.results.iter();
        for result in results.filter(|result| result.admin_access != Some(true)) {
            if pools.contains(&(&*result.driver, &*result.pool)) {
                let device = (&*result.driver, &*result.pool, &*result.device);
                self.0.entry(device).or_default().insert(words());
            }
        }
    }

    /// The claims that use one of the devices.
    fn of<'d>(&self, pool: &Pool<'_>, devices: impl Iterator<Item = &'d str>) -> String {
        let held = devices.filter_map(|device| self.0.get(&(pool.driver, pool.name, device)));
        let held: BTreeSet<&String> = held.flatten().collect();
        let names: Names = held.into_iter().cloned().collect();
        if names.count == 0 {
            return String::new();
        }
        format!(", held by {}", names.text())
    }
}

impl Search<'_> {
    /// Why a request cannot be served even alone. `None` if it can.
    fn short_request(
        &mut self,
        (claim, request): (usize, usize),
        pools: &[Pool<'_>],
        holders: &Holders<'_>,
    ) -> Result<Option<String>, Problem> {
        let mut parts = Vec::new();
        let count = self.claims[claim].requests[request].subrequests.len();
        for subrequest in 0..count {
            // Every alternative is looked at, because one that can be had ends the question.
            match self.short_subrequest((claim, request, subrequest), pools, holders)? {
                Some(part) if parts.len() < REASONS => parts.push(part),
                Some(_) => {}
                None => return Ok(None),
            }
        }
        if count > REASONS {
            parts.push(format!("{} more alternatives", count - REASONS));
        }
        let name = self.claims[claim].full_name();
        Ok(Some(format!("claim {name}, {}", parts.join("; or "))))
    }

    fn short_subrequest(
        &mut self,
        at: At,
        pools: &[Pool<'_>],
        holders: &Holders<'_>,
    ) -> Result<Option<String>, Problem> {
        let devices = self.candidates.all.len() as u64;
        self.limits.charge(1 + devices / STEPS_OF_UNIT);
        let ResolvedSubrequest { subrequest, class } = self.resolved(at);
        let mut reasons: BTreeMap<String, Names> = BTreeMap::new();
        let (mut free, mut of_other_class, mut not_selected) = (0, 0, 0);
        for index in 0..self.candidates.all.len() {
            let candidate = &self.candidates.all[index];
            let (slice, device) = (candidate.slice, candidate.device);
            if !slice.allows(device, self.node) {
                continue;
            }
            let of_class = || format!("class {}", class.name);
            if !self.all_select(&class.selectors, index, of_class)? {
                of_other_class += 1;
            } else if !self.is_selected(at, index)? {
                not_selected += 1;
            } else if let Some(reason) = self.reason(at, index, pools, holders) {
                reasons.entry(reason).or_default().add(device.name.clone());
            } else {
                free += 1;
            }
        }
        let (wanted, is_enough) = match subrequest.count {
            Count::Exactly(count) => (count.to_string(), free >= count),
            _ => (
                "all".to_owned(),
                free > 0 && reasons.is_empty() && self.count(at) > 0,
            ),
        };
        if is_enough {
            return Ok(None);
        }
        let head = format!(
            "request {} wants {wanted} of class {} and can have {free}",
            subrequest.name, class.name
        );
        let mut parts = Vec::new();
        let count = reasons.len();
        let named = reasons.iter().take(REASONS);
        parts.extend(named.map(|(reason, devices)| format!("{} {reason}", devices.text())));
        if count > REASONS {
            parts.push(format!("{} more reasons", count - REASONS));
        }
        if not_selected > 0 {
            parts.push(format!(
                "{not_selected} of the class do not match the selectors of the request"
            ));
        }
        if of_other_class > 0 {
            parts.push(format!("{of_other_class} are not of the class"));
        }
        if parts.is_empty() {
            return Ok(Some(head));
        }
        Ok(Some(format!("{head} ({})", parts.join("; "))))
    }

    /// Why a selected device cannot serve the request.
    fn reason(
        &self,
        at: At,
        index: usize,
        pools: &[Pool<'_>],
        holders: &Holders<'_>,
    ) -> Option<String> {
        let subrequest = self.resolved(at).subrequest;
        let candidate = &self.candidates.all[index];
        let (device, pool) = (candidate.device, &pools[candidate.pool]);
        let held = || holders.of(pool, std::iter::once(device.name.as_str()));
        if !candidate.is_free(at, subrequest) {
            return Some(format!("in use{}", held()));
        }
        if let Some((place, taint)) = super::untolerated_taint(device, subrequest) {
            let equals = if taint.value.is_empty() { "" } else { "=" };
            let (key, value, effect) = (&taint.key, &taint.value, &taint.effect);
            let rule = candidate.slice.rule_of((candidate.at, place));
            let rule = rule.map(|rule| format!(" of DeviceTaintRule {rule}"));
            let rule = rule.unwrap_or_default();
            return Some(format!(
                "with the taint {key}{equals}{value}:{effect}{rule}"
            ));
        }
        if candidate.share(subrequest).is_none() {
            return Some(self.short_capacity(at, index, &held));
        }
        let (counter, left) = self.candidates.short_counter(index)?;
        let counters = self.candidates.counters[candidate.pool].pool?;
        let (set, name) = counters.names.get(counter)?;
        let consumed = counters.of(&device.name).iter();
        let consumed = consumed.filter(|(index, _)| *index == counter);
        let wanted: i128 = consumed.map(|(_, amount)| amount).sum();
        let like = Format::BinarySi;
        let (left, wanted) = (amount(left, like), amount(wanted, like));
        let users = pool.entry.into_iter().flat_map(|entry| {
            let slices = entry.slices.values();
            let devices = slices.flat_map(|slice| &slice.spec.devices);
            devices
                .filter(|device| entry.usage(&device.name).is_some() && consumes(device, set, name))
        });
        let held = holders.of(pool, users.map(|device| device.name.as_str()));
        Some(format!(
            "short of counter {set}/{name}, {wanted} wanted and {left} left{held}"
        ))
    }

    fn short_capacity(&self, at: At, index: usize, held: &dyn Fn() -> String) -> String {
        let subrequest = self.resolved(at).subrequest;
        let candidate = &self.candidates.all[index];
        let device = candidate.device;
        let mut asked = subrequest.capacity.keys();
        if let Some(name) = asked.find(|name| !device.capacity.contains_key(*name)) {
            return format!("without capacity {name}");
        }
        let Some(share) = candidate.consumption_of(subrequest) else {
            return "whose policy allows no such share".to_owned();
        };
        let short = capacity::shortage(device, &share, &candidate.used());
        let Some((name, left)) = short else {
            return "without enough capacity".to_owned();
        };
        let format = device.capacity.get(name).map(|known| known.value.format());
        let like = format.unwrap_or(Format::BinarySi);
        let wanted = share.get(name).map_or(0, Quantity::nano_value);
        let (wanted, left) = (amount(wanted, like), amount(left, like));
        format!(
            "short of capacity {name}, {wanted} wanted and {left} left{}",
            held()
        )
    }
}

fn consumes(device: &Device, set: &str, counter: &str) -> bool {
    let mut consumed = device.consumes_counters.iter();
    consumed.any(|of| of.counter_set == set && of.counters.contains_key(counter))
}

/// An amount in billionths, as a quantity.
fn amount(nano: i128, like: Format) -> String {
    const NANO: i128 = 1_000_000_000;
    let whole = i64::try_from(nano / NANO).unwrap_or(i64::MAX);
    if nano % NANO == 0 {
        return Quantity::new(whole, like).to_string();
    }
    // Rounded, because only people read it.
    Quantity::milli(i64::try_from(nano / 1_000_000).unwrap_or(i64::MAX)).to_string()
}
