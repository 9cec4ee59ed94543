//! The shared counters of a pool of partitionable devices.

use crate::slice::Slice;
use std::collections::{HashMap, HashSet};

/// The counters of one generation of a pool.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// The amount of each counter that the devices in use leave, in billionths.
    pub(crate) left: Vec<i128>,
    /// Counter set and counter.
    pub(crate) names: Vec<(String, String)>,
    /// The consumption of each device, as index and amount. Devices that consume nothing are left out.
    consumption: HashMap<String, Vec<(usize, i128)>>,
    /// Whether two slices define a set, or a device consumes an unknown counter.
    pub(crate) is_invalid: bool,
}

impl Counters {
    /// `slices` are all slices of the generation. `is_in_use` says whether a device has an owner.
    pub(crate) fn new<'s>(
        slices: impl Iterator<Item = &'s Slice> + Clone,
        is_in_use: &dyn Fn(&str) -> bool,
    ) -> Self {
        let mut counters = Self::default();
        let mut sets: HashSet<&str> = HashSet::new();
        let mut known: HashMap<(&str, &str), usize> = HashMap::new();
        for set in slices.clone().flat_map(|slice| &slice.spec.shared_counters) {
            counters.is_invalid |= !sets.insert(&set.name);
            for (name, counter) in &set.counters {
                known.insert((&set.name, name), counters.left.len());
                counters.left.push(counter.value.nano_value());
                counters.names.push((set.name.clone(), name.clone()));
            }
        }
        let devices = slices.filter(|slice| !slice.has_counters());
        for device in devices.flat_map(|slice| &slice.spec.devices) {
            let mut consumption = Vec::new();
            for consumed in &device.consumes_counters {
                for (name, counter) in &consumed.counters {
                    match known.get(&(consumed.counter_set.as_str(), name.as_str())) {
                        Some(index) => consumption.push((*index, counter.value.nano_value())),
                        None => counters.is_invalid = true,
                    }
                }
                counters.is_invalid |= !sets.contains(consumed.counter_set.as_str());
            }
            if consumption.is_empty() {
                continue;
            }
            if is_in_use(&device.name) {
                counters.consume(&consumption);
            }
            counters
                .consumption
                .insert(device.name.clone(), consumption);
        }
        counters
    }

    fn consume(&mut self, consumption: &[(usize, i128)]) {
        for (index, amount) in consumption {
            self.left[*index] -= amount;
        }
    }

    pub(crate) fn of(&self, device: &str) -> &[(usize, i128)] {
        self.consumption.get(device).map_or(&[], Vec::as_slice)
    }
}
