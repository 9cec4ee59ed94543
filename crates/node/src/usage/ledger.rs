//! Which pods fill the node's disks: usage of pods by kind, unowned usage, and the unexplained rest.

use crate::pods::{LocalPod, PodSet};
use evictd_reclaim::{Inventory, Removal, Size};
use evictd_signals::{Signal, Threshold, human_bytes};
use evictd_usage::Growth;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::PathBuf};

/// The name of images among the usage that belongs to no pod.
pub(crate) const IMAGES: &str = "images";

/// The owner of bytes on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Kind {
    WritableLayers,
    Logs,
    EmptyDirs,
    OtherVolumes,
    /// The kubelet's files for the pod's containers, such as termination logs.
    KubeletFiles,
    /// Files that are deleted but still open.
    DeletedFiles,
}

/// The usage of one pod on one filesystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The pod's UID.
    pub(crate) uid: String,
    pub(crate) kind: Kind,
    /// The filesystem; `None` for that of writable layers.
    pub(crate) device: Option<u64>,
    pub(crate) bytes: i64,
    /// `None` if it is not known.
    pub(crate) inodes: Option<i64>,
    pub(crate) at: Timestamp,
}

/// A directory of the node that a pod mounts. Its contents may or may not be the pod's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostPath {
    /// `namespace/name` of the pod.
    pub(crate) pod: String,
    pub(crate) path: PathBuf,
    pub(crate) device: u64,
}

/// The size of a filesystem, and who fills it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FilesystemLedger {
    /// `nodefs`, `imagefs`, `containerfs`.
    pub roles: Vec<String>,
    /// A directory on it.
    pub path: PathBuf,
    /// Its type and source, such as `ext4 on /dev/sda1`.
    pub description: String,
    /// In bytes.
    pub capacity_bytes: i64,
    /// In bytes, without the reserve for root.
    pub used_bytes: i64,
    /// The bytes that pods can still write.
    pub available_bytes: i64,
    /// All there are; zero if the filesystem makes them on demand.
    pub inodes: i64,
    /// Those in use.
    pub inodes_used: i64,
    /// The thresholds on it.
    pub thresholds: Vec<ThresholdLine>,
    /// The usage of pods, the largest first.
    pub pods: Vec<PodLedger>,
    /// Usage that belongs to no pod.
    #[serde(rename = "nobodys")]
    pub unowned: Vec<UnownedUsage>,
}

/// A threshold on a filesystem.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ThresholdLine {
    /// The name of the signal.
    pub signal: String,
    /// In bytes or inodes.
    pub value: i64,
    /// How long it must be met; zero makes it hard.
    pub grace_period_seconds: i64,
    /// Whether less is available.
    pub met: bool,
    /// Whether there is nothing to measure: the filesystem has no fixed number of inodes, or reports no capacity.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unmeasured: bool,
}

/// The usage of one pod on one filesystem.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodLedger {
    /// `namespace/name`.
    pub pod: String,
    /// All of it, in bytes.
    pub bytes: i64,
    /// As far as they are known.
    pub inodes: i64,
    /// By how much it grows, in bytes per second; absent until it was read twice within a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub growth_bytes_per_second: Option<i64>,
    /// Its rate of writes to all devices, in bytes per second. cgroup v2 counts overwritten bytes, too. Absent until it
    /// was read twice within a minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written_bytes_per_second: Option<i64>,
    /// In bytes.
    pub by_kind: BTreeMap<Kind, i64>,
    /// How long ago the oldest of the figures was counted.
    pub age_seconds: i64,
}

/// Usage that belongs to no pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UnownedUsage {
    /// Its kind, in words.
    pub what: String,
    /// In bytes.
    pub bytes: i64,
    /// `None` for a remainder, which is as old as the rest.
    pub age_seconds: Option<i64>,
}

/// A filesystem on a disk that no threshold watches, although pods mount directories of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Unwatched {
    /// A directory of it.
    pub path: PathBuf,
    /// `namespace/name` of the pods.
    pub pods: Vec<String>,
}

/// The objects that the container runtime could remove without evicting a pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Reclaimable {
    /// How many dead containers.
    pub containers: u32,
    /// The size of their writable layers, in bytes, as far as the runtime has counted them.
    pub container_bytes: u64,
    /// How many unused images.
    pub images: u32,
    /// The disk usage of these images, compressed and unpacked, in bytes: their share of all images. If that is
    /// unknown, their sizes as the runtime reports them.
    pub image_bytes: u64,
    /// Whether `image_bytes` is their disk usage.
    pub image_bytes_on_disk: bool,
    /// How long ago the runtime listed them.
    pub age_seconds: i64,
}

impl Reclaimable {
    /// Of these removals from this inventory.
    pub(crate) fn of(inventory: &Inventory, removals: &[Removal]) -> Self {
        let mut found = Self {
            image_bytes_on_disk: inventory.images_on_disk.is_some(),
            ..Self::default()
        };
        for removal in removals {
            match removal {
                Removal::Container { bytes, .. } => {
                    found.containers += 1;
                    let bytes = bytes.unwrap_or(0);
                    found.container_bytes = found.container_bytes.saturating_add(bytes);
                }
                // A sandbox has next to no files of its own.
                Removal::Sandbox { .. } => {}
                Removal::Image { bytes, .. } => {
                    found.images += 1;
                    found.image_bytes = found.image_bytes.saturating_add(*bytes);
                }
            }
        }
        found
    }

    /// "1 dead container (20Mi) and 6 unused images (about 480Mi)".
    pub fn sentence(&self) -> String {
        let some = |count: u32, what: &str| match count {
            1 => format!("1 {what}"),
            _ => format!("{count} {what}s"),
        };
        let bytes = |bytes: u64| human_bytes(i64::try_from(bytes).unwrap_or(i64::MAX));
        let of_images = match self.image_bytes_on_disk {
            _ if self.images == 0 => String::new(),
            true => format!(" (about {})", bytes(self.image_bytes)),
            false => format!(
                " ({} by the runtime's own count, which can leave out what is unpacked)",
                bytes(self.image_bytes)
            ),
        };
        let of_containers = match self.container_bytes {
            0 => String::new(),
            known => format!(" ({})", bytes(known)),
        };
        let containers = some(self.containers, "dead container");
        let images = some(self.images, "unused image");
        format!("{containers}{of_containers} and {images}{of_images}")
    }
}

/// `GET /v1/disk`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiskLedger {
    /// Those that are watched.
    pub filesystems: Vec<FilesystemLedger>,
    /// Those that are not.
    pub unwatched: Vec<Unwatched>,
    /// `namespace/name` of the pods whose directories were not measured.
    pub unknown_pods: Vec<String>,
    /// Processes whose open files may not be seen.
    pub hidden_processes: usize,
    /// The objects that could be removed without evicting a pod, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reclaimable: Option<Reclaimable>,
    /// Why figures are missing.
    pub problem: Option<String>,
}

impl DiskLedger {
    /// Adds the usage of all images on their filesystem. It includes the compressed layers that containerd keeps and
    /// does not count itself. It is taken from the unexplained usage there.
    pub(crate) fn set_images(&mut self, size: Size, age_seconds: i64) {
        let is_theirs =
            |one: &&mut FilesystemLedger| one.roles.iter().any(|role| role == "imagefs");
        let Some(filesystem) = self.filesystems.iter_mut().find(is_theirs) else {
            return;
        };
        let entries = &mut filesystem.unowned;
        let known = entries.iter().position(|one| one.what == IMAGES);
        let before = known.map_or(0, |index| entries[index].bytes);
        let images = UnownedUsage {
            what: IMAGES.to_owned(),
            bytes: size.bytes.max(before),
            age_seconds: Some(age_seconds),
        };
        if let Some(rest) = entries.last_mut().filter(|one| one.age_seconds.is_none()) {
            let more = images.bytes.saturating_sub(before);
            rest.bytes = rest.bytes.saturating_sub(more).max(0);
        }
        match known {
            Some(index) => entries[index] = images,
            None => entries.insert(0, images),
        }
    }
}

/// A filesystem as it was seen at the time of the walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Space {
    pub(crate) device: u64,
    pub(crate) path: PathBuf,
    pub(crate) description: String,
    pub(crate) roles: Vec<&'static str>,
    pub(crate) capacity: i64,
    pub(crate) used: i64,
    pub(crate) available: i64,
    pub(crate) inodes: i64,
    pub(crate) inodes_used: i64,
}

/// Everything that was found on the disks in one walk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    pub(crate) spaces: Vec<Space>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) host_paths: Vec<HostPath>,
    /// Unowned usage: its kind, its device (`None` for that of images), its bytes, and when they were counted.
    pub(crate) unowned: Vec<(&'static str, Option<u64>, i64, Timestamp)>,
    pub(crate) hidden_processes: usize,
    /// The growth of a pod's usage on a filesystem, in bytes per second, by UID and device as in the entries.
    pub(crate) growth: BTreeMap<(String, Option<u64>), i64>,
    /// How fast a pod writes to devices, in bytes per second, by UID.
    pub(crate) writing: BTreeMap<String, i64>,
}

impl Findings {
    /// Compares these with the findings before; `written` are the bytes that pods have written to devices.
    pub(crate) fn compare(
        &mut self,
        now: Timestamp,
        written: &[(String, i64)],
        before: &mut Growth,
    ) {
        let mut sums: BTreeMap<(String, Option<u64>), i64> = BTreeMap::new();
        for entry in &self.entries {
            let sum = sums.entry((entry.uid.clone(), entry.device)).or_default();
            *sum = sum.saturating_add(entry.bytes);
        }
        let rate = |(place, bytes): ((String, Option<u64>), i64)| {
            let holder = format!("{} {:?}", place.0, place.1);
            let rate = before.rate(&holder, now, bytes)?;
            Some((place, rate))
        };
        self.growth = sums.into_iter().filter_map(rate).collect();
        let rate = |(uid, bytes): &(String, i64)| {
            let rate = before.rate(&format!("{uid} writes"), now, *bytes)?;
            Some((uid.clone(), rate.max(0)))
        };
        self.writing = written.iter().filter_map(rate).collect();
        before.forget_old(now);
    }

    /// The ledger for these pods; `thresholds` are those in force.
    pub(crate) fn ledger<'a>(
        &self,
        now: Timestamp,
        set: &PodSet,
        thresholds: &(impl Iterator<Item = &'a Threshold> + Clone),
    ) -> DiskLedger {
        let filesystems = self.spaces.iter();
        let filesystems =
            filesystems.map(|space| self.filesystem(now, space, set, thresholds.clone()));
        let known = |pod: &&LocalPod| !self.entries.iter().any(|entry| entry.uid == pod.uid);
        let unknown = set.pods.iter().filter(known);
        DiskLedger {
            filesystems: filesystems.collect(),
            unwatched: self.unwatched(),
            unknown_pods: unknown.map(|pod| pod.full_name()).collect(),
            hidden_processes: self.hidden_processes,
            reclaimable: None,
            problem: None,
        }
    }

    fn filesystem<'a>(
        &self,
        now: Timestamp,
        space: &Space,
        set: &PodSet,
        thresholds: impl Iterator<Item = &'a Threshold>,
    ) -> FilesystemLedger {
        let age = |at: Timestamp| now.duration_since(at).as_secs().max(0);
        let is_here = |device: Option<u64>, role: &'static str| {
            device.map_or_else(|| self.is_role(space, role), |one| one == space.device)
        };
        let mut pods: Vec<PodLedger> = Vec::new();
        for pod in &set.pods {
            let mut ledger = PodLedger {
                pod: pod.full_name(),
                written_bytes_per_second: self.writing.get(&pod.uid).copied(),
                ..PodLedger::default()
            };
            let entries = self.entries.iter();
            for entry in entries.filter(|entry| entry.uid == pod.uid) {
                if is_here(entry.device, "containerfs") {
                    ledger.bytes = ledger.bytes.saturating_add(entry.bytes);
                    let inodes = entry.inodes.unwrap_or(0);
                    ledger.inodes = ledger.inodes.saturating_add(inodes);
                    let of_kind = ledger.by_kind.entry(entry.kind).or_default();
                    *of_kind = of_kind.saturating_add(entry.bytes);
                    ledger.age_seconds = ledger.age_seconds.max(age(entry.at));
                }
            }
            let growth = self
                .growth
                .iter()
                .filter(|((uid, device), _)| *uid == pod.uid && is_here(*device, "containerfs"));
            ledger.growth_bytes_per_second =
                growth.map(|(_, rate)| *rate).reduce(i64::saturating_add);
            if !ledger.by_kind.is_empty() {
                pods.push(ledger);
            }
        }
        pods.sort_by_key(|pod| std::cmp::Reverse(pod.bytes));
        let unowned = self.unowned.iter();
        let unowned = unowned.filter(|(_, device, ..)| is_here(*device, "imagefs"));
        let mut unowned: Vec<UnownedUsage> = unowned
            .map(|(what, _, bytes, at)| UnownedUsage {
                what: (*what).to_owned(),
                bytes: *bytes,
                age_seconds: Some(age(*at)),
            })
            .collect();
        // A filesystem of a tenant may report any figure.
        let found = pods.iter().map(|pod| pod.bytes);
        let found = found.chain(unowned.iter().map(|one| one.bytes));
        let found = found.fold(0, i64::saturating_add);
        unowned.push(UnownedUsage {
            what: if self.hidden_processes > 0 {
                "deleted or system".to_owned()
            } else {
                "everything else".to_owned()
            },
            bytes: space.used.saturating_sub(found).max(0),
            age_seconds: None,
        });
        FilesystemLedger {
            roles: space.roles.iter().map(|role| (*role).to_owned()).collect(),
            path: space.path.clone(),
            description: space.description.clone(),
            capacity_bytes: space.capacity,
            used_bytes: space.used,
            available_bytes: space.available,
            inodes: space.inodes,
            inodes_used: space.inodes_used,
            thresholds: lines(space, thresholds),
            pods,
            unowned,
        }
    }

    /// Whether this filesystem has the role. A role without a known path belongs to the filesystem before it.
    fn is_role(&self, space: &Space, role: &'static str) -> bool {
        let of = |role| self.spaces.iter().find(|space| space.roles.contains(&role));
        let found = of(role).or_else(|| of("imagefs")).or_else(|| of("nodefs"));
        found.is_some_and(|found| found.device == space.device)
    }

    fn unwatched(&self) -> Vec<Unwatched> {
        let mut found: BTreeMap<u64, Unwatched> = BTreeMap::new();
        for mounted in &self.host_paths {
            let watched = self
                .spaces
                .iter()
                .any(|space| space.device == mounted.device);
            if !watched {
                let one = found.entry(mounted.device).or_insert_with(|| Unwatched {
                    path: mounted.path.clone(),
                    pods: Vec::new(),
                });
                if !one.pods.contains(&mounted.pod) {
                    one.pods.push(mounted.pod.clone());
                }
            }
        }
        found.into_values().collect()
    }
}

/// The thresholds on the signals of this filesystem.
fn lines<'a>(space: &Space, thresholds: impl Iterator<Item = &'a Threshold>) -> Vec<ThresholdLine> {
    let role = |signal: Signal| match signal {
        Signal::NodefsAvailable | Signal::NodefsInodesFree => Some("nodefs"),
        Signal::ImagefsAvailable | Signal::ImagefsInodesFree => Some("imagefs"),
        Signal::ContainerfsAvailable | Signal::ContainerfsInodesFree => Some("containerfs"),
        _ => None,
    };
    let here = thresholds
        .filter(|threshold| role(threshold.signal).is_some_and(|role| space.roles.contains(&role)));
    let line = |threshold: &Threshold| {
        let (capacity, left) = if threshold.signal.counts_bytes() {
            (space.capacity, space.available)
        } else {
            (space.inodes, space.inodes - space.inodes_used)
        };
        let value = threshold.value.at(capacity).value();
        ThresholdLine {
            signal: threshold.signal.as_str().to_owned(),
            value,
            grace_period_seconds: threshold.grace_period.as_secs(),
            met: left < value,
            unmeasured: capacity == 0,
        }
    };
    here.map(line).collect()
}

#[cfg(test)]
mod tests;
