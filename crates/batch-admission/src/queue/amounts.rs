//! The amounts by which queues are compared: cpu in thousandths, memory in bytes, pods as numbers, all else in
//! thousandths. Only resources that a container or a node can have count.

use crate::template::resources::is_scalar;
use evictd_pod::Quantity;
use evictd_pod::wire::ResourceList;
use std::collections::BTreeMap;
use std::fmt;

/// An amount below this is none.
const NOTHING: f64 = 0.1;

#[derive(Debug, Clone, Default)]
pub(super) struct Amounts {
    cpu: f64,
    memory: f64,
    others: BTreeMap<String, f64>,
}

impl Amounts {
    pub(super) fn of(list: &ResourceList) -> Self {
        let mut amounts = Self::default();
        for (name, quantity) in list.iter() {
            match name {
                "cpu" => amounts.cpu += float(quantity.milli_value()),
                "memory" => amounts.memory += float(quantity.value()),
                "pods" => amounts.add_other(name, float(quantity.value())),
                _ if name == "ephemeral-storage" || is_scalar(name) => {
                    amounts.add_other(name, float(quantity.milli_value()));
                }
                _ => {}
            }
        }
        amounts
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.cpu += other.cpu;
        self.memory += other.memory;
        for (name, amount) in &other.others {
            self.add_other(name, *amount);
        }
    }

    /// The resources of which there is some, cpu and memory first.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let others = self.others.keys().map(String::as_str);
        let all = ["cpu", "memory"].into_iter().chain(others);
        all.filter(|name| self.get(name) >= NOTHING)
    }

    pub(super) fn get(&self, name: &str) -> f64 {
        match name {
            "cpu" => self.cpu,
            "memory" => self.memory,
            _ => self.others.get(name).copied().unwrap_or_default(),
        }
    }

    /// Whether `other` has more of anything, or anything that is not here.
    pub(super) fn is_exceeded_by(&self, other: &Self) -> bool {
        let absent = |name: &String| !self.others.contains_key(name);
        self.cpu < other.cpu
            || self.memory < other.memory
            || other.others.keys().any(absent)
            || self
                .others
                .iter()
                .any(|(name, amount)| *amount < other.get(name))
    }

    fn add_other(&mut self, name: &str, amount: f64) {
        *self.others.entry(name.to_owned()).or_default() += amount;
    }
}

/// `cpu 1000.00, memory 1024.00, pods 3.00`
impl fmt::Display for Amounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cpu {:.2}, memory {:.2}", self.cpu, self.memory)?;
        let mut others = self.others.iter();
        others.try_for_each(|(name, amount)| write!(f, ", {name} {amount:.2}"))
    }
}

/// One amount of a resource, as a manifest has it where the resource is cpu or memory.
#[allow(clippy::cast_possible_truncation, reason = "amounts are whole and fit")]
pub(super) fn shown(name: &str, amount: f64) -> String {
    match name {
        "cpu" => Quantity::milli(amount as i64).to_string(),
        "memory" => Quantity::bytes(amount as i64).to_string(),
        _ => format!("{amount:.2}"),
    }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "the real one compares floats, too"
)]
fn float(amount: i64) -> f64 {
    amount as f64
}
