//! Amounts of resources as integers.

use crate::symbol::{Symbol, Symbols};
use evictd_pod::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, units};
use evictd_pod::{Requests, wire::ResourceList};

/// A list of rarer resources, interned; the first is the empty one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ScalarsId(pub(crate) u32);

/// What is asked for, or there. Sums wrap around as kube-scheduler's do, so that adding and taking away always cancel out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Thousandths of a core.
    pub cpu: i64,
    /// Bytes.
    pub memory: i64,
    /// Bytes.
    pub ephemeral_storage: i64,
    /// Everything else but `pods`: huge pages in bytes, extended resources in pieces.
    pub scalars: ScalarsId,
}

impl Amounts {
    /// Adds `times` times what `other` holds of the common resources.
    pub fn add(&mut self, other: &Self, times: i64) {
        let add = |sum: &mut i64, one: i64| *sum = sum.wrapping_add(one.wrapping_mul(times));
        add(&mut self.cpu, other.cpu);
        add(&mut self.memory, other.memory);
        add(&mut self.ephemeral_storage, other.ephemeral_storage);
    }
}

/// What a pod, or a node's pods, count for when nodes are scored: a container that says nothing about a resource counts as
/// wanting a little of it (S5-086).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scored {
    /// Thousandths of a core.
    pub cpu: i64,
    /// Bytes.
    pub memory: i64,
}

impl Scored {
    /// What the containers of a pod count for, or its own resources in their place.
    pub(crate) fn of(requests: &Requests<'_>) -> Self {
        let of = |resource| units(resource, requests.for_scoring(resource));
        Self {
            cpu: of(CPU),
            memory: of(MEMORY),
        }
    }

    /// Adds `times` times what a pod counts for.
    pub(crate) fn add(&mut self, other: Self, times: i64) {
        let add = |sum: &mut i64, one: i64| *sum = sum.wrapping_add(one.wrapping_mul(times));
        add(&mut self.cpu, other.cpu);
        add(&mut self.memory, other.memory);
    }
}

/// A list of rarer resources and how much of each, in the order of their symbols.
pub(crate) type Scalars = Box<[(Symbol, i64)]>;

/// How much of each rarer resource the pods of a node ask for, kept up to date as they come and go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScalarSums(Vec<(Symbol, i64)>);

impl ScalarSums {
    /// The sum of a resource.
    pub fn get(&self, name: Symbol) -> i64 {
        // A node has few of them: looking at each is quicker than halving.
        let sum = self.0.iter().find(|(own, _)| *own == name);
        sum.map_or(0, |(_, sum)| *sum)
    }

    /// Every resource of which something is asked for, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (Symbol, i64)> {
        self.0.iter().copied()
    }

    /// Adds `times` times what a pod asks for.
    pub(crate) fn add(&mut self, list: &[(Symbol, i64)], times: i64) {
        for (name, amount) in list {
            let change = amount.wrapping_mul(times);
            match self.0.iter().position(|(own, _)| own == name) {
                None => self.0.push((*name, change)),
                Some(at) => {
                    let sum = self.0[at].1.wrapping_add(change);
                    self.0[at].1 = sum;
                    // What nobody asks for has no symbol of its own for long.
                    if sum == 0 {
                        self.0.swap_remove(at);
                    }
                }
            }
        }
    }
}

/// The rarer resources of a list, in the order of their symbols, without those of which it holds nothing.
pub(crate) fn scalars(
    symbols: &mut Symbols,
    amounts: impl Iterator<Item = (String, i64)>,
) -> Box<[(Symbol, i64)]> {
    let mut scalars: Vec<_> = amounts
        .filter(|(name, amount)| *amount != 0 && !is_common(name))
        .map(|(name, amount)| (symbols.intern(&name), amount))
        .collect();
    scalars.sort_unstable();
    // Several containers may ask for the same one.
    scalars.dedup();
    scalars.into()
}

/// Whether a resource has a field of its own.
fn is_common(name: &str) -> bool {
    [CPU, MEMORY, EPHEMERAL_STORAGE, PODS].contains(&name)
}

/// How much of a resource a list holds, as an integer.
pub(crate) fn amount(list: &ResourceList, resource: &str) -> i64 {
    list.get(resource)
        .map_or(0, |quantity| units(resource, *quantity))
}
