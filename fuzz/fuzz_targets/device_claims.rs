//! Slices, classes, taint rules and claims of whatever shape: each claim finds devices or does not, and the same twice. No device
//! has two owners, no capacity is exceeded, and devices that are given back are found again.
#![no_main]

use evictd_devices::{Demand, Inventory, Node, Problem};
use evictd_pod::wire::{AllocatedDevice, Allocation, DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice};
use libfuzzer_sys::fuzz_target;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

struct One;

impl Node for One {
    fn name(&self) -> &str {
        "one"
    }

    fn label(&self, key: &str) -> Option<&str> {
        (key == "zone").then_some("a")
    }
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Scene {
    slices: Vec<ResourceSlice>,
    classes: Vec<DeviceClass>,
    rules: Vec<DeviceTaintRule>,
    claims: Vec<ResourceClaim>,
    /// Names of slices that the driver withdraws after the first round.
    withdrawn: Vec<String>,
}

fn text(found: &Result<Vec<Allocation>, Problem>) -> String {
    match found {
        Ok(allocations) => serde_json::to_string(allocations).unwrap(),
        Err(problem) => format!("{problem:?}"),
    }
}

/// Allocates the claims one after the other. Returns the allocations, and each answer as text.
fn round(known: &mut Inventory, claims: &BTreeSet<(String, String)>) -> (Vec<Allocation>, Vec<String>) {
    let (mut given, mut answers) = (Vec::new(), Vec::new());
    for (namespace, name) in claims {
        let Some(claim) = known.claim(namespace, name) else { continue };
        if claim.status.allocation.is_some() {
            continue;
        }
        let demand = match Demand::new(known, namespace, [name.as_str()]) {
            Err(problem) => {
                answers.push(problem);
                continue;
            }
            Ok(demand) => demand,
        };
        let found = demand.allocate(known, &One);
        assert_eq!(text(&found), text(&demand.allocate(known, &One)));
        answers.push(text(&found));
        for allocation in found.into_iter().flatten() {
            known.assume(&format!("{namespace}/{name}"), "pod", allocation.clone());
            given.push(allocation);
        }
    }
    (given, answers)
}

fn key(result: &AllocatedDevice) -> (&str, &str, &str) {
    (&result.driver, &result.pool, &result.device)
}

/// Checks the devices that were given away beside those that were allocated before.
fn check(known: &Inventory, scene: &Scene, given: &[Allocation]) {
    let results = |allocation: &Allocation| allocation.devices.results.clone();
    let new: Vec<AllocatedDevice> = given.iter().flat_map(results).collect();
    let old = known.claims().filter_map(|claim| claim.status.allocation.as_ref());
    let old: Vec<AllocatedDevice> = old.flat_map(results).collect();
    let counts = |result: &&AllocatedDevice| result.admin_access != Some(true);
    let alone = |result: &&AllocatedDevice| result.share_id.is_none();
    let mut owned: BTreeSet<_> = old.iter().filter(counts).filter(alone).map(key).collect();
    for result in new.iter().filter(counts).filter(alone) {
        assert!(owned.insert(key(result)), "{:?} has two owners", key(result));
    }
    let mut consumed: BTreeMap<(&str, &str, &str, &str), i128> = BTreeMap::new();
    let shares = new.iter().chain(&old).filter(counts).filter(|result| !alone(result));
    for result in shares {
        for (capacity, amount) in &result.consumed_capacity {
            let (driver, pool, device) = key(result);
            *consumed.entry((driver, pool, device, capacity)).or_default() += amount.nano_value();
        }
    }
    let is_new: BTreeSet<_> = new.iter().map(key).collect();
    // A later slice of the same name replaces an earlier one.
    let slices: BTreeMap<&str, &ResourceSlice> = scene.slices.iter().map(|slice| (&*slice.metadata.name, slice)).collect();
    for slice in slices.values() {
        let (driver, pool) = (slice.spec.driver.as_str(), slice.spec.pool.name.as_str());
        let devices = slice.spec.devices.iter();
        for device in devices.filter(|device| is_new.contains(&(driver, pool, device.name.as_str()))) {
            for (capacity, known) in &device.capacity {
                let used = consumed.get(&(driver, pool, &device.name, capacity)).copied().unwrap_or(0);
                let is_newest = slices.values().all(|other| {
                    (&*other.spec.driver, &*other.spec.pool.name) != (driver, pool)
                        || other.spec.pool.generation <= slice.spec.pool.generation
                });
                let is_enough = used <= known.value.nano_value().max(0);
                assert!(!is_newest || is_enough, "{}: {capacity} is exceeded", device.name);
            }
        }
    }
}

fuzz_target!(|text: &str| {
    let Ok(scene) = serde_json::from_str::<Scene>(text) else {
        return;
    };
    let mut known = Inventory::default();
    for class in &scene.classes {
        known.put_class(class.clone());
    }
    // Rules may come before and after the slices.
    let (early, late) = scene.rules.split_at(scene.rules.len() / 2);
    early.iter().for_each(|rule| known.put_taint_rule(rule.clone()));
    scene.slices.iter().for_each(|slice| known.put_slice(slice.clone()));
    late.iter().for_each(|rule| known.put_taint_rule(rule.clone()));
    scene.claims.iter().for_each(|claim| known.put_claim(claim.clone()));
    let named = |claim: &ResourceClaim| {
        let metadata = &claim.metadata;
        (metadata.namespace_or_default().to_owned(), metadata.name.clone())
    };
    let claims = scene.claims.iter().map(named).collect();
    let (given, first) = round(&mut known, &claims);
    check(&known, &scene, &given);
    known.withdraw_pod("pod");
    assert_eq!(first, round(&mut known, &claims).1);
    known.withdraw_pod("pod");
    for name in &scene.withdrawn {
        known.remove_slice(name);
    }
    round(&mut known, &claims);
    known.withdraw_pod("pod");
    // The driver publishes them again.
    scene.slices.iter().for_each(|slice| known.put_slice(slice.clone()));
    assert_eq!(first, round(&mut known, &claims).1);
    assert!(known.unusable_pools().iter().all(|line| !line.is_empty()));
});
