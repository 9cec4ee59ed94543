//! Which objects may be removed, in which order.

use super::inventory::{Container, Image, Inventory, Policy, Sandbox, Size};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// One thing to remove.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "what")]
pub enum Removal {
    /// A dead container.
    Container {
        /// The runtime's id of it.
        id: String,
        /// Its name in the pod.
        name: String,
        /// The size of its writable layer; absent if the runtime has not counted it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
    },
    /// A sandbox without containers.
    Sandbox {
        /// The runtime's id of it.
        id: String,
    },
    /// An unused image.
    Image {
        /// The runtime's id of it.
        id: String,
        /// One of its names, else its id.
        name: String,
        /// Its disk usage in bytes: its share of the usage of all images. If that is unknown, the runtime's size of it.
        /// Layers that other images share are not freed with it.
        bytes: u64,
    },
}

impl Removal {
    /// The runtime's id of it.
    pub fn id(&self) -> &str {
        match self {
            Self::Container { id, .. } | Self::Sandbox { id } | Self::Image { id, .. } => id,
        }
    }
}

impl std::fmt::Display for Removal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Container { id, name, .. } => write!(f, "container {name} ({id})"),
            Self::Sandbox { id } => write!(f, "sandbox {id}"),
            Self::Image { name, .. } => write!(f, "image {name}"),
        }
    }
}

/// The kinds of things, in the order in which they are removed (S1-039).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Containers,
    Sandboxes,
    Images,
}

impl Phase {
    pub(super) const ALL: [Self; 3] = [Self::Containers, Self::Sandboxes, Self::Images];

    pub(super) const fn is_wanted(self, policy: &Policy) -> bool {
        match self {
            Self::Containers | Self::Sandboxes => policy.dead_containers,
            Self::Images => policy.unused_images,
        }
    }
}

/// All removable objects of one kind, in the order of removal.
pub(super) fn removals(
    now: Timestamp,
    inventory: &Inventory,
    policy: &Policy,
    phase: Phase,
) -> Vec<Removal> {
    if !phase.is_wanted(policy) {
        return Vec::new();
    }
    match phase {
        Phase::Containers => dead_containers(inventory, policy),
        Phase::Sandboxes => dead_sandboxes(inventory, policy),
        Phase::Images => unused_images(now, inventory, policy),
    }
}

/// Everything that would go if nothing had to be waited for, in this order. Removing containers makes sandboxes and images unused.
pub fn all_removals(now: Timestamp, mut inventory: Inventory, policy: &Policy) -> Vec<Removal> {
    let mut all = Vec::new();
    for phase in Phase::ALL {
        let found = removals(now, &inventory, policy, phase);
        let gone: BTreeSet<&str> = found.iter().map(Removal::id).collect();
        inventory.containers.retain(|one| !gone.contains(&*one.id));
        all.extend(found);
    }
    all
}

/// The size that this removal frees; `None` if that is unknown.
pub(super) fn size_of(removal: &Removal, inventory: &Inventory) -> Option<Size> {
    match removal {
        Removal::Container { id, .. } => {
            let mut containers = inventory.containers.iter();
            containers.find(|one| one.id == *id)?.layer
        }
        // Its layer is the pause image, which all sandboxes share.
        Removal::Sandbox { .. } => Some(Size {
            bytes: 0,
            inodes: Some(0),
        }),
        Removal::Image { id, .. } => {
            let image = inventory.images.iter().find(|one| one.id == *id)?;
            inventory.image_size(image)
        }
    }
}

/// Pods that run or may run. Without a list of pods it is each of them.
fn is_active(pod: &str, inventory: &Inventory, policy: &Policy) -> bool {
    let mut sandboxes = inventory.sandboxes.iter().filter(|one| one.pod == pod);
    let listed = policy.active_pods.as_ref();
    sandboxes.any(|sandbox| sandbox.ready) || listed.is_none_or(|active| active.contains(pod))
}

/// Dead containers, the oldest end first. Of an active pod, the last ended instance of each container stays, because
/// the kubelet still serves its log and reads its restart count and state from it. Containers that belong to no pod are
/// not the kubelet's, and stay.
fn dead_containers(inventory: &Inventory, policy: &Policy) -> Vec<Removal> {
    let of_pods = inventory.containers.iter();
    let dead: Vec<&Container> = of_pods
        .filter(|one| one.exited && !one.pod.is_empty())
        .collect();
    let mut last: BTreeMap<(&str, &str), &Container> = BTreeMap::new();
    for one in &dead {
        // `kubectl logs --previous` needs the last dead container of each name.
        let kept = last.entry((&one.pod, &one.name)).or_insert(one);
        if (one.ended, &one.id) > (kept.ended, &kept.id) {
            *kept = one;
        }
    }
    let stays = |one: &Container| {
        last[&(&*one.pod, &*one.name)].id == one.id && is_active(&one.pod, inventory, policy)
    };
    let mut gone: Vec<&Container> = dead.into_iter().filter(|one| !stays(one)).collect();
    // The oldest first, as the kubelet does; the id makes equal times definite.
    gone.sort_by_key(|one| (one.ended, &one.id));
    let removal = |one: &Container| Removal::Container {
        id: one.id.clone(),
        name: one.name.clone(),
        bytes: one.layer.and_then(|size| u64::try_from(size.bytes).ok()),
    };
    gone.into_iter().map(removal).collect()
}

/// Sandboxes that are not ready and have no containers, the oldest first. Of a pod that is active the last one stays.
fn dead_sandboxes(inventory: &Inventory, policy: &Policy) -> Vec<Removal> {
    let in_use: BTreeSet<&str> = inventory
        .containers
        .iter()
        .map(|one| one.sandbox.as_str())
        .collect();
    let age = |one: &Sandbox| (one.created, one.id.clone());
    let stays = |one: &Sandbox| {
        let siblings = inventory
            .sandboxes
            .iter()
            .filter(|other| other.pod == one.pod);
        // The kubelet looks for the state of a pod in its last sandbox.
        let is_last = siblings.map(age).max() == Some(age(one));
        is_last && is_active(&one.pod, inventory, policy)
    };
    let mut gone: Vec<&Sandbox> = inventory
        .sandboxes
        .iter()
        .filter(|one| !one.ready && !one.pod.is_empty() && !in_use.contains(&*one.id))
        .filter(|one| !stays(one))
        .collect();
    gone.sort_by_key(|one| age(one));
    let removal = |one: &Sandbox| Removal::Sandbox { id: one.id.clone() };
    gone.into_iter().map(removal).collect()
}

/// Images that no container uses, running or not, the oldest use first.
fn unused_images(now: Timestamp, inventory: &Inventory, policy: &Policy) -> Vec<Removal> {
    let used = inventory.used();
    let stays = |image: &Image| {
        let young = now.duration_since(image.first_seen) < policy.minimum_age;
        let recent = policy
            .unused_for
            .is_some_and(|unused| now.duration_since(image.last_used) < unused);
        image.pinned || image.of_sandboxes || young || recent || !image.keys().is_disjoint(&used)
    };
    // By the id, in case a runtime lists one twice.
    let (kept, mut gone): (Vec<&Image>, Vec<&Image>) =
        inventory.images.iter().partition(|one| stays(one));
    gone.retain(|image| kept.iter().all(|kept| kept.id != image.id));
    gone.sort_by_key(|image| (image.last_used, image.first_seen, &image.id));
    let removal = |image: &Image| Removal::Image {
        id: image.id.clone(),
        name: image.name().to_owned(),
        bytes: inventory
            .image_size(image)
            .and_then(|size| u64::try_from(size.bytes).ok())
            .unwrap_or(image.bytes),
    };
    gone.into_iter().map(removal).collect()
}
