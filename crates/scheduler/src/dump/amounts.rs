//! Amounts that cannot be meant: negative ones are mistakes, absurd ones doubtful.

use evictd_pod::{Quantity, wire};
use wire::ResourceList;

/// More than this of anything is doubtful; beyond it not even floating point counts exactly.
const ABSURD: i64 = 1 << 53;

/// What is wrong with an amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrong {
    Negative,
    Absurd,
}

fn verdict(quantity: Quantity) -> Option<Wrong> {
    if quantity.is_negative() {
        Some(Wrong::Negative)
    } else if quantity.value() > ABSURD {
        Some(Wrong::Absurd)
    } else {
        None
    }
}

/// Keys, what stands there, and what is wrong with it.
pub(crate) type Found = Vec<(String, Quantity, Wrong)>;

/// Every amount of a pod that cannot be meant, with its key.
pub(crate) fn of_pod(pod: &wire::Pod) -> Found {
    let spec = &pod.spec;
    let mut found = Vec::new();
    let groups = [
        ("containers", &spec.containers),
        ("initContainers", &spec.init_containers),
    ];
    for (group, containers) in groups {
        for (index, container) in containers.iter().enumerate() {
            let holder = || format!("spec.{group}[{index}].resources");
            add_both(&container.resources, holder, &mut found);
        }
    }
    if let Some(resources) = &spec.resources {
        add_both(resources, || "spec.resources".to_owned(), &mut found);
    }
    add(&spec.overhead, || "spec.overhead".to_owned(), &mut found);
    found
}

/// The same for the list of another object that stands at `key`.
pub(super) fn of_list(list: &ResourceList, key: &str) -> Found {
    let mut found = Vec::new();
    add(list, || key.to_owned(), &mut found);
    found
}

fn add_both(resources: &wire::ResourceRequirements, key: impl Fn() -> String, found: &mut Found) {
    add(&resources.requests, || key() + ".requests", found);
    add(&resources.limits, || key() + ".limits", found);
}

fn add(list: &ResourceList, key: impl Fn() -> String, found: &mut Found) {
    for (name, quantity) in list.iter() {
        if let Some(wrong) = verdict(*quantity) {
            found.push((format!("{}.{name}", key()), *quantity, wrong));
        }
    }
}
