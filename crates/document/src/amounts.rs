//! Amounts that cannot be meant: negative ones are mistakes, absurd ones doubtful.

use crate::mistake::Step;
use evictd_pod::{Quantity, wire};
use wire::ResourceList;

/// More than this of anything is doubtful; beyond it not even floating point counts exactly.
const ABSURD: i64 = 1 << 53;

/// What is wrong with an amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// It is less than nothing.
    Negative,
    /// It is more than 2^53.
    Absurd,
}

/// An amount that cannot be meant.
#[derive(Debug, Clone)]
pub struct Amount {
    /// Where it stands in its object: `spec.containers[0].resources.requests.cpu`.
    pub key: String,
    /// The same, step by step.
    pub(crate) way: Vec<Step>,
    /// What stands there.
    pub quantity: Quantity,
    /// What is wrong with it.
    pub wrong: Wrong,
}

/// Every amount of a pod that cannot be meant.
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

/// The same for the list of another object that stands at these keys: `["status", "allocatable"]`.
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
            key: written(&way),
            way,
            quantity: *quantity,
            wrong,
        });
    }
}

/// `spec.containers[0].resources`
fn written(way: &[Step]) -> String {
    let mut text = String::new();
    for step in way {
        match step {
            Step::Key(key) if text.is_empty() => text.push_str(key),
            Step::Key(key) => {
                text.push('.');
                text.push_str(key);
            }
            Step::Index(index) => {
                text.push('[');
                text.push_str(&index.to_string());
                text.push(']');
            }
        }
    }
    text
}
