//! The unallocated claims of a pod, and their devices on a node.

use crate::allocation;
use crate::claim::Claim;
use crate::inventory::Inventory;
use crate::limits::{Limits, Problem};
use crate::search::{search, shortage};
use crate::selectors::Selectors;
use crate::slice::Node;
use crate::verdicts::NodeVerdicts;
use crate::without::Without;
use evictd_pod::wire::{self, Allocation};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The maximum cost of uncached selectors over all nodes of an attempt; the last evaluation may exceed it. The next
/// attempt starts with the cached results.
const MOST_EVALUATED: u64 = 4_000_000;

/// The unallocated claims of a pod.
#[derive(Debug)]
pub struct Demand {
    claims: Vec<Arc<Claim>>,
    /// Why no node can serve them.
    mistake: Option<String>,
    /// Cached verdicts about nodes.
    verdicts: Arc<NodeVerdicts>,
    /// The cost of the uncached selectors so far.
    evaluated_cost: AtomicU64,
}

impl Demand {
    /// The claims of a namespace, in order. Unknown names are left out.
    ///
    /// # Errors
    /// The class that one of them needs and that does not exist.
    pub fn new<'n>(
        known: &Inventory,
        namespace: &str,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Result<Self, String> {
        let claims = names.into_iter();
        let claims = claims.filter_map(|name| known.compiled(namespace, name).cloned());
        let claims: Vec<_> = claims.collect();
        let has_class = |name: &str| known.has_class(name);
        match claims
            .iter()
            .find_map(|claim| claim.missing_class(&has_class))
        {
            Some(missing) => Err(missing),
            None => Ok(Self::of(known, claims, 0)),
        }
    }

    /// The same claims and one more, which need not be stored.
    #[must_use]
    pub fn with(&self, known: &Inventory, claim: wire::ResourceClaim) -> Self {
        let mut claims = self.claims.clone();
        // Its requests have no selectors, which would have to be known to the inventory.
        claims.push(Arc::new(Claim::new(claim, &mut Selectors::default())));
        Self::of(known, claims, self.evaluated_cost.load(Ordering::Relaxed))
    }

    fn of(known: &Inventory, claims: Vec<Arc<Claim>>, evaluated_cost: u64) -> Self {
        let kinds = claims.iter().map(|claim| claim.kind());
        Self {
            verdicts: known.verdicts(kinds.collect()),
            mistake: claims.iter().find_map(|claim| claim.mistake()),
            claims,
            evaluated_cost: AtomicU64::new(evaluated_cost),
        }
    }

    /// Whether a claim has alternatives, so that its allocations differ in their score.
    pub fn has_alternatives(&self) -> bool {
        let mut requests = self.claims.iter().flat_map(|claim| &claim.requests);
        requests.any(|request| request.has_alternatives)
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

    /// What is short on a node where [`Self::allocate`] finds too few devices, and which claims hold it. `None` if that
    /// cannot be found out at a cost of about `left` units. Returns the cost, too.
    pub fn shortage(&self, known: &Inventory, node: &dyn Node, left: u64) -> (Option<String>, u64) {
        let limits = Limits {
            evaluated: left.min(MOST_EVALUATED + 1),
            evaluated_cost: &AtomicU64::new(0),
            spent: Cell::new(0),
        };
        let found = shortage(&self.claims, known, node, &limits);
        (found, limits.spent.get())
    }

    /// Whether all claims can be allocated on a node, and the cost of the search. It need not search where nothing has changed
    /// since a pod with the same requests was tried.
    pub fn fits_within(
        &self,
        known: &Inventory,
        node: &dyn Node,
        left: u64,
    ) -> (Result<(), Problem>, u64) {
        let mut spent = 0;
        let search = || {
            let (found, cost) = self.allocate_within(known, node, left);
            spent = cost;
            found.map(|_| ())
        };
        let found = self.verdicts.get(known.versions(), node.name(), search);
        (found, spent)
    }

    /// [`Self::allocate`] while uncached selectors cost no more than `left` units; the last evaluation may exceed it. Returns the
    /// result and the cost of the search, without cached results.
    pub fn allocate_within(
        &self,
        known: &Inventory,
        node: &dyn Node,
        left: u64,
    ) -> (Result<Vec<Allocation>, Problem>, u64) {
        self.allocate_without(known, &Without::default(), node, left)
    }

    /// [`Self::allocate_within`] as if some claims had no devices.
    pub fn allocate_without(
        &self,
        known: &Inventory,
        without: &Without,
        node: &dyn Node,
        left: u64,
    ) -> (Result<Vec<Allocation>, Problem>, u64) {
        let evaluated = self.evaluated_cost.load(Ordering::Relaxed);
        let limits = Limits {
            evaluated: evaluated.saturating_add(left).min(MOST_EVALUATED + 1),
            evaluated_cost: &self.evaluated_cost,
            spent: Cell::new(0),
        };
        let found = match &self.mistake {
            Some(mistake) => Err(Problem::Claim(mistake.clone())),
            None => search(&self.claims, (known, without), node, &limits),
        };
        (found, limits.spent.get())
    }
}
