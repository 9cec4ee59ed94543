//! The removed objects of a reclaim and the freed bytes.

use super::plan::Removal;
use evictd_signals::human_bytes;
use serde::{Deserialize, Serialize};

/// The removed objects of a reclaim and the freed bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Reclaimed {
    /// How many dead containers were removed.
    pub containers: u32,
    /// How many sandboxes without containers were removed.
    pub sandboxes: u32,
    /// How many unused images were removed.
    pub images: u32,
    /// Bytes that the filesystem had more after the containers were removed.
    pub container_bytes: u64,
    /// Bytes that the filesystem had more after the images were removed.
    pub image_bytes: u64,
    /// From how many pods page cache was reclaimed.
    #[serde(skip_serializing_if = "is_zero")]
    pub pods: u32,
    /// Bytes by which the working sets of these pods have shrunk.
    #[serde(skip_serializing_if = "is_zero_bytes")]
    pub memory_bytes: u64,
    /// Whether that was enough: no threshold is met any more, minimum reclaim included.
    pub relieved: bool,
    /// How many removals failed.
    pub failed: u32,
    /// Why the first of them failed, or why the reclaim ended early.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// In a dry run: the objects that would be removed, in this order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub would_remove: Vec<Removal>,
}

impl Reclaimed {
    /// Bytes that the filesystem or the memory had more at the end.
    pub const fn bytes(&self) -> u64 {
        let disk = self.container_bytes.saturating_add(self.image_bytes);
        disk.saturating_add(self.memory_bytes)
    }

    /// Whether anything was removed.
    pub const fn is_any(&self) -> bool {
        self.containers > 0 || self.sandboxes > 0 || self.images > 0
    }

    /// Whether nothing failed, and nothing would be removed.
    pub const fn is_without_words(&self) -> bool {
        self.problems.is_empty() && self.would_remove.is_empty() && self.failed == 0
    }

    /// One sentence about the removed objects and the freed bytes; in a dry run, about those that would be.
    pub fn sentence(&self) -> String {
        let mut parts = Vec::new();
        if !self.would_remove.is_empty() {
            parts.push(self.plan());
        } else if self.pods > 0 {
            let bytes = i64::try_from(self.memory_bytes).unwrap_or(i64::MAX);
            let (reclaimed, pods) = (human_bytes(bytes), counted([(self.pods, "pod")]));
            parts.push(format!("{reclaimed} of page cache reclaimed from {pods}"));
        } else if self.is_any() {
            let removed = counted([
                (self.containers, "dead container"),
                (self.sandboxes, "dead sandbox"),
                (self.images, "unused image"),
            ]);
            let bytes = i64::try_from(self.bytes()).unwrap_or(i64::MAX);
            let freed = human_bytes(bytes);
            parts.push(format!("removed {removed}; {freed} more are free"));
        } else {
            parts.push("nothing was removed".to_owned());
        }
        if self.failed > 0 {
            let failed = self.failed;
            parts.push(format!("{failed} could not be removed"));
        }
        parts.extend(self.problems.first().cloned());
        parts.join("; ")
    }

    fn plan(&self) -> String {
        let (mut counts, mut bytes) = ([0; 3], 0_u64);
        for removal in &self.would_remove {
            match removal {
                Removal::Container { .. } => counts[0] += 1,
                Removal::Sandbox { .. } => counts[1] += 1,
                Removal::Image { bytes: size, .. } => {
                    counts[2] += 1;
                    bytes = bytes.saturating_add(*size);
                }
            }
        }
        let [containers, sandboxes, images] = counts;
        let all = counted([
            (containers, "dead container"),
            (sandboxes, "dead sandbox"),
            (images, "unused image"),
        ]);
        let bytes = human_bytes(i64::try_from(bytes).unwrap_or(i64::MAX));
        format!("would remove up to {all}; the images are {bytes}")
    }
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_zero_bytes(bytes: &u64) -> bool {
    *bytes == 0
}

/// "1 dead container and 2 unused images".
fn counted<const N: usize>(all: [(u32, &str); N]) -> String {
    let some = all.into_iter().filter(|(count, _)| *count > 0);
    let words: Vec<String> = some
        .map(|(count, what)| match (count, what.ends_with('x')) {
            (1, _) => format!("1 {what}"),
            (_, true) => format!("{count} {what}es"),
            (_, false) => format!("{count} {what}s"),
        })
        .collect();
    match words.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => words.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sentence_names_the_removed_objects() {
        let mut done = Reclaimed {
            containers: 1,
            sandboxes: 2,
            images: 3,
            image_bytes: 2 << 30,
            ..Reclaimed::default()
        };
        let removed =
            "removed 1 dead container, 2 dead sandboxes and 3 unused images; 2Gi more are free";
        assert_eq!(done.sentence(), removed);
        done = Reclaimed {
            pods: 1,
            memory_bytes: 64 << 20,
            ..Reclaimed::default()
        };
        assert_eq!(done.sentence(), "64Mi of page cache reclaimed from 1 pod");
        done = Reclaimed {
            failed: 1,
            problems: vec!["image a: in use".to_owned()],
            ..Reclaimed::default()
        };
        let failed = "nothing was removed; 1 could not be removed; image a: in use";
        assert_eq!(done.sentence(), failed);
        let image = |id: &str| Removal::Image {
            id: id.to_owned(),
            name: id.to_owned(),
            bytes: 1 << 20,
        };
        done = Reclaimed {
            would_remove: vec![image("a"), image("b")],
            ..Reclaimed::default()
        };
        let would = "would remove up to 2 unused images; the images are 2Mi";
        assert_eq!(done.sentence(), would);
    }
}
