//! Shares of a device's capacities.

use evictd_pod::Quantity;
use evictd_pod::compatibility::Release;
use evictd_pod::quantity::Format;
use evictd_pod::wire::{CapacityPolicy, CapacityRange, Device, DeviceCapacity};
use std::collections::BTreeMap;

/// Amounts of capacities by name, in billionths.
pub(crate) type Amounts = BTreeMap<String, i128>;

/// The amount that a request consumes of each capacity of a device. `None` if it asks for a capacity that the device lacks, or for
/// a share that the policy forbids.
pub(crate) fn consumed(
    requested: &BTreeMap<String, Quantity>,
    device: &Device,
    release: Release,
) -> Option<BTreeMap<String, Quantity>> {
    if requested
        .keys()
        .any(|name| !device.capacity.contains_key(name))
    {
        return None;
    }
    let capacities = device.capacity.iter();
    let consumed = capacities.map(|(name, capacity)| {
        let share = share(requested.get(name).copied(), capacity, release);
        let policy = capacity.request_policy.as_deref();
        is_allowed(share, policy, release).then(|| (name.clone(), share))
    });
    consumed.collect()
}

/// The share that serves a request of this amount.
fn share(requested: Option<Quantity>, capacity: &DeviceCapacity, release: Release) -> Quantity {
    let policy = capacity.request_policy.as_deref();
    let Some(requested) = requested else {
        return policy
            .and_then(|policy| policy.default)
            .unwrap_or(capacity.value);
    };
    let Some(policy) = policy else {
        return requested;
    };
    if let Some((range, min)) = policy
        .valid_range
        .and_then(|range| Some((range, range.min?)))
    {
        return in_range(requested, range, min, release);
    }
    let mut larger = policy.valid_values.iter();
    let larger = larger.find(|value| requested <= **value);
    larger.copied().unwrap_or(requested)
}

/// The smallest share of the range that is not less. A rounded one is binary, as kube-scheduler writes it.
fn in_range(
    requested: Quantity,
    range: CapacityRange,
    min: Quantity,
    release: Release,
) -> Quantity {
    if requested < min {
        return min;
    }
    let step = range.step.map_or(0, |step| precise(step, release));
    if step <= 0 {
        return requested;
    }
    let (min, requested) = (precise(min, release), precise(requested, release));
    let steps = (requested - min + step - 1).div_euclid(step);
    let share = min.saturating_add(steps.saturating_mul(step));
    let whole = i64::try_from(share / NANO).unwrap_or(i64::MAX);
    match i64::try_from(share / (NANO / 1000)) {
        Ok(milli) if share % NANO != 0 => Quantity::milli(milli),
        _ => Quantity::new(whole, Format::BinarySi),
    }
}

/// An amount in billionths, as the steps of a range see it: 1.36 rounds up to whole units, 1.37 counts fractions (S7-155).
fn precise(amount: Quantity, release: Release) -> i128 {
    match release {
        Release::V1_36 => i128::from(amount.value()) * NANO,
        Release::V1_37 => amount.nano_value(),
    }
}

/// Billionths of a unit.
const NANO: i128 = 1_000_000_000;

fn is_allowed(share: Quantity, policy: Option<&CapacityPolicy>, release: Release) -> bool {
    let Some(policy) = policy else {
        return true;
    };
    if policy.default == Some(share) {
        return true;
    }
    if let Some(range) = &policy.valid_range {
        let min = range.min.map_or(0, |min| precise(min, release));
        let step = range.step.map(|step| precise(step, release));
        let above = precise(share, release) - min;
        let is_step = step.is_none_or(|step| step > 0 && above % step == 0);
        return range.max.is_none_or(|max| share <= max) && is_step;
    }
    policy.valid_values.is_empty() || policy.valid_values.contains(&share)
}

/// Adds amounts, or removes them.
pub(crate) fn add<'q>(
    to: &mut Amounts,
    amounts: impl IntoIterator<Item = (&'q String, &'q Quantity)>,
    sign: i128,
) {
    for (name, amount) in amounts {
        let sum = to.entry(name.clone()).or_default();
        *sum = sum.saturating_add(sign * amount.nano_value());
        if *sum == 0 {
            to.remove(name);
        }
    }
}

/// The first capacity of which too little is left, with the amount that is left.
pub(crate) fn shortage<'d>(
    device: &'d Device,
    consumed: &BTreeMap<String, Quantity>,
    used: &[&Amounts],
) -> Option<(&'d str, i128)> {
    let mut capacities = device.capacity.iter();
    capacities.find_map(|(name, capacity)| {
        let used = used.iter().filter_map(|used| used.get(name));
        let used: i128 = used.sum();
        let left = capacity.value.nano_value() - used;
        let wanted = consumed.get(name).map_or(0, Quantity::nano_value);
        (wanted > left).then_some((name.as_str(), left))
    })
}
