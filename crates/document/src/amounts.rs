//! Implausible amounts: a negative amount is an error, an absurdly large one is suspicious.

use crate::mistake::Step;
use evictd_manifests::Object;
use evictd_pod::{Quantity, wire};
use wire::ResourceList;

/// A larger amount is suspicious, and floating-point numbers no longer count it exactly.
const ABSURD: i64 = 1 << 53;

/// Why an amount is implausible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// It is negative.
    Negative,
    /// It is more than 2^53.
    Absurd,
}

/// An implausible amount.
#[derive(Debug, Clone)]
pub struct Amount {
    /// Its path in the object: `spec.containers[0].resources.requests.cpu`.
    pub key: String,
    /// The path as steps.
    pub(crate) way: Vec<Step>,
    /// The amount.
    pub quantity: Quantity,
    /// Why it is implausible.
    pub wrong: Wrong,
}

/// Every implausible amount of a pod.
pub fn amounts_of_pod(pod: &wire::Pod) -> Vec<Amount> {
    let spec = &pod.spec;
    let mut found = Vec::new();
    let groups = [
        ("containers", &spec.containers),
        ("initContainers", &spec.init_containers),
    ];
    for (group, containers) in groups {
        for (index, container) in containers.iter().enumerate() {
            let way = [
                key("spec"),
                key(group),
                Step::Index(index),
                key("resources"),
            ];
            add_both(&container.resources, &way, &mut found);
        }
    }
    if let Some(resources) = &spec.resources {
        add_both(resources, &[key("spec"), key("resources")], &mut found);
    }
    add(&spec.overhead, &[key("spec"), key("overhead")], &mut found);
    found
}

/// Every implausible amount of a resource list at these keys, such as `["status", "allocatable"]`.
pub fn amounts_of_list(list: &ResourceList, keys: &[&str]) -> Vec<Amount> {
    let way: Vec<Step> = keys.iter().copied().map(key).collect();
    let mut found = Vec::new();
    add(list, &way, &mut found);
    found
}

fn key(name: &str) -> Step {
    Step::Key(name.to_owned())
}

fn add_both(resources: &wire::ResourceRequirements, way: &[Step], found: &mut Vec<Amount>) {
    let lists = [
        ("requests", &resources.requests),
        ("limits", &resources.limits),
    ];
    for (name, list) in lists {
        add(list, &[way, &[key(name)]].concat(), found);
    }
}

fn add(list: &ResourceList, way: &[Step], found: &mut Vec<Amount>) {
    for (name, quantity) in list.iter() {
        let wrong = match quantity {
            negative if negative.is_negative() => Wrong::Negative,
            absurd if absurd.value() > ABSURD => Wrong::Absurd,
            _ => continue,
        };
        let way = [way, &[key(name)]].concat();
        found.push(Amount {
            key: Step::print(&way),
            way,
            quantity: *quantity,
            wrong,
        });
    }
}

/// The amounts of an object that are negative or beyond reason.
pub(crate) fn amounts_of(object: &Object) -> Vec<Amount> {
    match object {
        Object::Node(node) => amounts_of_list(&node.status.allocatable, &["status", "allocatable"]),
        Object::Pod(manifest) => amounts_of_pod(&manifest.pod),
        Object::PersistentVolumeClaim(claim) => {
            let requests = &claim.spec.resources.requests;
            amounts_of_list(requests, &["spec", "resources", "requests"])
        }
        Object::PersistentVolume(volume) => {
            amounts_of_list(&volume.spec.capacity, &["spec", "capacity"])
        }
        _ => Vec::new(),
    }
}
