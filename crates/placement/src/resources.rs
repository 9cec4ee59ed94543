//! Amounts of resources as integers.

use crate::symbol::{Symbol, Symbols};
use evictd_pod::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, units};
use evictd_pod::{Quantity, Requests, wire::ResourceList};

/// The id of an interned list of scalar resources. The first list is empty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ScalarsId(pub(crate) u32);

/// Amounts of resources. Sums wrap around as in kube-scheduler, so that subtracting undoes adding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Thousandths of a core.
    pub cpu: i64,
    /// Bytes.
    pub memory: i64,
    /// Bytes.
    pub ephemeral_storage: i64,
    /// Everything else except `pods`: huge pages in bytes, extended resources in units.
    pub scalars: ScalarsId,
}

impl Amounts {
    /// Adds the common resources of `other` `times` times.
    pub fn add(&mut self, other: &Self, times: i64) {
        let add = |sum: &mut i64, one: i64| *sum = sum.wrapping_add(one.wrapping_mul(times));
        add(&mut self.cpu, other.cpu);
        add(&mut self.memory, other.memory);
        add(&mut self.ephemeral_storage, other.ephemeral_storage);
    }
}

/// Requests for scoring, with kube-scheduler's defaults for containers that request nothing (S5-086).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scored {
    /// Thousandths of a core.
    pub cpu: i64,
    /// Bytes.
    pub memory: i64,
}

impl Scored {
    /// The sum over a pod's containers, or its pod-level requests.
    pub(crate) fn of(requests: &Requests<'_>) -> Self {
        let of = |resource| units(resource, requests.for_scoring(resource));
        Self {
            cpu: of(CPU),
            memory: of(MEMORY),
        }
    }

    /// Adds a pod's amounts `times` times.
    pub(crate) fn add(&mut self, other: Self, times: i64) {
        let add = |sum: &mut i64, one: i64| *sum = sum.wrapping_add(one.wrapping_mul(times));
        add(&mut self.cpu, other.cpu);
        add(&mut self.memory, other.memory);
    }
}

/// A list of scalar resources, sorted by symbol.
pub(crate) type Scalars = Box<[(Symbol, i64)]>;

/// A resource's amount in a sorted list.
pub(crate) fn find(list: &[(Symbol, i64)], name: Symbol) -> i64 {
    let at = list.binary_search_by_key(&name, |(known, _)| *known);
    at.map_or(0, |at| list[at].1)
}

/// Lists up to this length are added name by name.
const SHORT: usize = 8;

/// The scalar resources that the pods of a node request, sorted by symbol and updated with each pod. A pod on a node
/// may request any number of resources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScalarSums(Vec<(Symbol, i64)>);

impl ScalarSums {
    /// The sum of a resource.
    pub fn get(&self, name: Symbol) -> i64 {
        find(&self.0, name)
    }

    /// All resources with a sum, sorted by symbol.
    pub fn iter(&self) -> impl Iterator<Item = (Symbol, i64)> {
        self.0.iter().copied()
    }

    /// Adds a pod's requests `times` times. Zero requests are left out, because their symbols may be released.
    pub(crate) fn add(&mut self, list: &[(Symbol, i64)], times: i64) {
        if list.len() > SHORT {
            self.merge(list, times);
            return;
        }
        for (name, amount) in list {
            let change = amount.wrapping_mul(times);
            match self.0.binary_search_by_key(name, |(known, _)| *known) {
                Err(at) => self.0.insert(at, (*name, change)),
                Ok(at) => {
                    let sum = self.0[at].1.wrapping_add(change);
                    self.0[at].1 = sum;
                    if sum == 0 {
                        self.0.remove(at);
                    }
                }
            }
        }
    }

    /// Adds a long list in one pass over both, because each insertion moves all later entries.
    fn merge(&mut self, list: &[(Symbol, i64)], times: i64) {
        let mut merged = Vec::with_capacity(self.0.len() + list.len());
        let mut sums = self.0.iter().copied().peekable();
        for (name, amount) in list {
            while let Some(before) = sums.next_if(|(known, _)| known < name) {
                merged.push(before);
            }
            let change = amount.wrapping_mul(times);
            let Some((_, sum)) = sums.next_if(|(known, _)| known == name) else {
                merged.push((*name, change));
                continue;
            };
            let sum = sum.wrapping_add(change);
            if sum != 0 {
                merged.push((*name, sum));
            }
        }
        merged.extend(sums);
        merged.shrink_to_fit();
        self.0 = merged;
    }
}

/// The scalar resources of a list, sorted by symbol, without zero amounts.
pub(crate) fn scalars<'l>(
    symbols: &mut Symbols,
    list: impl Iterator<Item = (&'l str, Quantity)>,
) -> Scalars {
    let amounts = list.map(|(name, quantity)| (name, units(name, quantity)));
    let mut scalars: Vec<_> = amounts
        .filter(|(name, amount)| *amount != 0 && !is_common(name))
        .map(|(name, amount)| (symbols.intern(name), amount))
        .collect();
    scalars.sort_unstable();
    scalars.into()
}

/// Whether a resource has its own field.
fn is_common(name: &str) -> bool {
    [CPU, MEMORY, EPHEMERAL_STORAGE, PODS].contains(&name)
}

/// A resource's amount in a list, as an integer.
pub(crate) fn amount(list: &ResourceList, resource: &str) -> i64 {
    list.get(resource)
        .map_or(0, |quantity| units(resource, *quantity))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_adds_up_like_single_entries_and_removing_it_leaves_nothing() {
        let mut symbols = Symbols::default();
        let names: Vec<String> = (0..60_000)
            .map(|number| format!("example.com/r{number}"))
            .collect();
        let list = |symbols: &mut Symbols, names: &[String]| {
            scalars(
                symbols,
                names.iter().map(|name| (name.as_str(), Quantity::count(2))),
            )
        };
        let all = list(&mut symbols, &names);
        let some = list(&mut symbols, &names[100..130]);
        let mut sums = ScalarSums::default();
        sums.add(&some, 1);
        sums.add(&all, 1);
        let mut one_by_one = ScalarSums::default();
        one_by_one.add(&all, 1);
        for entry in &some {
            one_by_one.add(std::slice::from_ref(entry), 1);
        }
        assert_eq!(sums, one_by_one);
        let first = some[0].0;
        assert_eq!((sums.get(first), sums.iter().count()), (4, 60_000));
        sums.add(&all, -1);
        assert_eq!(sums.iter().collect::<Vec<_>>(), *some);
        sums.add(&some[..3], -1);
        assert_eq!((sums.get(first), sums.iter().count()), (0, 27));
    }
}
