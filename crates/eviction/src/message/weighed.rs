//! The grounds of a decision, in words for the owner of the pod. The kubelet names only containers, which is misleading
//! if a volume holds most.

use super::{eviction_message, shortage};
use crate::{local_storage::Exceeded, rank::DiskParts, rules::FilesystemLayout};
use evictd_decision::{
    ActingThreshold, Excess, LocalStorageLimit, PartDirectory, RankedPod, UsagePart,
};
use evictd_pod::{Pod, Quantity, pod::Volume};
use evictd_signals::{Signal, StarvedResource, human_bytes};
use evictd_usage::{Extent, FsUsage, LargestDirectories, LargestDirectory, PodUsage};
use std::{cmp::Reverse, collections::BTreeMap};

/// The longest message in bytes; the note of an event may have 1024.
pub const LONGEST: usize = 1000;
/// The longest name in a message, in characters.
const LONGEST_NAME: usize = 80;
/// How many parts of a pod's use are named.
const PARTS: usize = 3;
/// How many parts a record has.
const RECORDED: usize = 10;

/// The message and the annotations under evictd's rules: the kubelet's first sentence, then the compared amounts.
pub(crate) fn weighed_message(
    acting: &ActingThreshold,
    (victim, layout): (&RankedPod, FilesystemLayout),
    pod: &Pod,
    usage: Option<&PodUsage>,
) -> (String, BTreeMap<&'static str, String>) {
    let (kubelets, annotations) = eviction_message(acting, pod, usage);
    let signal = acting.threshold.signal;
    let mut message = shortage(acting);
    if signal.resource() == StarvedResource::Memory && kubelets.len() > message.len() {
        message = kubelets;
    } else {
        message.push_str(&of_pod(signal, victim, pod));
    }
    if signal.resource() == StarvedResource::Memory && victim.swap.is_positive() {
        let swap = human_bytes(victim.swap.value());
        message.extend([swap.as_str(), " of what the pod was using was in swap. "]);
    }
    if let Some(usage) = usage {
        let parts = Part::of_signal(signal, layout, pod, usage);
        message.push_str(&largest(parts, signal.resource()));
    }
    (bounded(message), annotations)
}

/// The largest parts of the pod's usage of this signal, for the record: of memory its containers, of disks its layers, logs
/// and volumes.
pub(crate) fn parts_of_signal(
    signal: Signal,
    layout: FilesystemLayout,
    pod: &Pod,
    usage: &PodUsage,
) -> Vec<UsagePart> {
    let parts = match signal.resource() {
        StarvedResource::Memory => Part::of_memory(usage),
        _ => Part::of_signal(signal, layout, pod, usage),
    };
    recorded(parts, |used| signal.quantity(used))
}

/// The same for a pod that exceeds a limit of its own on local storage.
pub(crate) fn parts_of_limit(pod: &Pod, usage: &PodUsage) -> Vec<UsagePart> {
    recorded(Part::of_limit(pod, usage), Quantity::bytes)
}

fn recorded(mut parts: Vec<Part>, quantity: impl Fn(i64) -> Quantity) -> Vec<UsagePart> {
    parts.sort_by_key(|part| Reverse(part.used));
    let largest = parts.into_iter().take(RECORDED);
    let part = |part: Part| UsagePart {
        name: part.name,
        usage: quantity(part.used),
        directory: part.directory.map(|directory| PartDirectory {
            path: directory.path,
            usage: quantity(directory.amount),
        }),
    };
    largest.map(part).collect()
}

/// The message for a pod that exceeds a limit of its own: the kubelet's sentence, then the measured amounts.
pub(crate) fn local_storage_message(exceeded: &Exceeded, pod: &Pod, usage: &PodUsage) -> String {
    let used = human_bytes(exceeded.used.value());
    let parts = match exceeded.limit {
        LocalStorageLimit::Pod => Part::of_limit(pod, usage),
        LocalStorageLimit::EmptyDir | LocalStorageLimit::Container => Vec::new(),
    };
    let largest = largest(parts, StarvedResource::EphemeralStorage);
    bounded(format!(
        "{}It was using {used}. {largest}",
        exceeded.message
    ))
}

/// `Pod p was using 60Gi, request is 0, has larger consumption of ephemeral-storage. `
fn of_pod(signal: Signal, victim: &RankedPod, pod: &Pod) -> String {
    let Some(usage) = victim.usage else {
        return String::new();
    };
    let resource = signal.resource();
    let name = name(&pod.name);
    let at_least = if victim.at_least { "at least " } else { "" };
    let (used, request) = (usage.value(), victim.request.value());
    let exceeds = victim.excess != Excess::Within && used > request;
    match resource {
        StarvedResource::Memory | StarvedResource::EphemeralStorage => {
            let (used, request) = (human_bytes(used), human_bytes(request));
            if exceeds {
                format!(
                    "Pod {name} was using {at_least}{used}, request is {request}, has larger consumption of {resource}. "
                )
            } else {
                format!("Pod {name} was using {at_least}{used}, within its request of {request}. ")
            }
        }
        StarvedResource::Inodes => format!("Pod {name} was using {at_least}{used} inodes. "),
        StarvedResource::Pids if victim.request.is_zero() => {
            format!("Pod {name} was running {used} processes. ")
        }
        StarvedResource::Pids => {
            format!("Pod {name} was running {used} processes, an even share is {request}. ")
        }
        StarvedResource::Io => {
            let (used, share) = (human_bytes(used), human_bytes(request));
            format!("Pod {name} has read and written {used}, an even share is {share}. ")
        }
    }
}

/// A part of a pod's usage.
struct Part {
    name: String,
    used: i64,
    /// Where most of it is.
    directory: Option<LargestDirectory>,
}

/// An amount of a part that counts.
type Amount = fn(&FsUsage) -> Option<i64>;

/// The directory that holds most of such an amount.
type Directory = fn(&LargestDirectories) -> Option<&LargestDirectory>;

const BYTES: (Amount, Directory) = (
    |used| used.bytes.map(|bytes| bytes.value),
    |found| found.by_bytes.as_ref(),
);
const INODES: (Amount, Directory) = (
    |used| used.inodes.map(|inodes| inodes.value),
    |found| found.by_inodes.as_ref(),
);

impl Part {
    /// The containers whose memory is known.
    fn of_memory(usage: &PodUsage) -> Vec<Self> {
        let known = usage.containers.iter().filter_map(|container| {
            Some(Self {
                name: format!("container {}", name(&container.name)),
                used: container.working_set?.value,
                directory: None,
            })
        });
        known.collect()
    }

    /// The parts that count for this signal; none for signals other than those of disks.
    fn of_signal(
        signal: Signal,
        layout: FilesystemLayout,
        pod: &Pod,
        usage: &PodUsage,
    ) -> Vec<Self> {
        let (amount, directory) = match signal.resource() {
            StarvedResource::EphemeralStorage => BYTES,
            StarvedResource::Inodes => INODES,
            _ => return Vec::new(),
        };
        let here = |used: &FsUsage| amount(used).filter(|_| used.extent != Extent::Elsewhere);
        let counted = DiskParts::of(signal, layout);
        let mut parts = Self::of(counted, pod, usage, (here, directory));
        let deleted = [
            (counted.rootfs, &usage.deleted.in_layers),
            (counted.volumes, &usage.deleted.on_disk),
        ];
        let held = deleted.into_iter().filter(|(counts, _)| *counts);
        let held = held.filter_map(|(_, used)| here(used));
        parts.extend(held.filter(|used| *used > 0).map(|used| Self {
            name: "files that are deleted and still open".to_owned(),
            used,
            directory: None,
        }));
        parts
    }

    /// The parts that count for the pod's own limit, on whatever filesystem they are.
    fn of_limit(pod: &Pod, usage: &PodUsage) -> Vec<Self> {
        let every = DiskParts {
            rootfs: true,
            logs: true,
            volumes: true,
        };
        Self::of(every, pod, usage, BYTES)
    }

    fn of(
        counted: DiskParts,
        pod: &Pod,
        usage: &PodUsage,
        (amount, directory): (impl Fn(&FsUsage) -> Option<i64>, Directory),
    ) -> Vec<Self> {
        let mut parts = Vec::new();
        let mut add = |counts: bool,
                       name: &dyn Fn() -> String,
                       used: &FsUsage,
                       found: &Option<Box<LargestDirectories>>| {
            if let Some(used) = amount(used).filter(|used| counts && *used > 0) {
                let directory = found.as_deref().and_then(directory).cloned();
                parts.push(Self {
                    name: name(),
                    used,
                    directory,
                });
            }
        };
        for container in &usage.containers {
            let of = name(&container.name);
            let layer = || format!("the writable layer of container {of}");
            let found = &container.directories;
            add(counted.rootfs, &layer, &container.rootfs, found);
            let logs = || format!("the logs of container {of}");
            add(counted.logs, &logs, &container.logs, &None);
        }
        // Files in a directory of the host stay when the pod ends.
        let counts = |volume: &&Volume| volume.local && volume.host_path.is_none();
        for volume in pod.volumes.iter().filter(counts) {
            let found = usage.volumes.iter().find(|used| used.name == volume.name);
            let is_empty_dir = volume
                .plugin_directory
                .is_some_and(|directory| directory.ends_with("empty-dir"));
            let kind = if is_empty_dir {
                "emptyDir volume"
            } else {
                "volume"
            };
            if let Some(used) = found {
                let shown = || format!("{kind} {}", name(&volume.name));
                add(counted.volumes, &shown, &used.usage, &used.directories);
            }
        }
        let of_kubelet = || "termination logs and other files of the kubelet".to_owned();
        add(counted.volumes, &of_kubelet, &usage.kubelet_files, &None);
        parts
    }
}

/// `Its largest part is emptyDir volume scratch (60Gi, most of it in models/large). `; empty if no part is known.
fn largest(mut parts: Vec<Part>, resource: StarvedResource) -> String {
    parts.sort_by_key(|part| Reverse(part.used));
    let all: i64 = parts
        .iter()
        .fold(0, |all, part| all.saturating_add(part.used));
    // Parts below a hundredth do not help the owner.
    let is_named = |(index, part): &(usize, &Part)| *index == 0 || part.used >= all / 100;
    let named = parts.iter().enumerate().filter(is_named);
    let named = named.take(PARTS).map(|(_, part)| {
        let used = match resource {
            StarvedResource::Inodes => part.used.to_string(),
            _ => human_bytes(part.used),
        };
        let directory = part.directory.as_ref();
        let most = directory.map(|found| format!(", most of it in {}", name(&found.path)));
        format!("{} ({used}{})", part.name, most.unwrap_or_default())
    });
    let named: Vec<String> = named.collect();
    match named.as_slice() {
        [] => String::new(),
        [one] => format!("Its largest part is {one}. "),
        several => format!("Its largest parts are {}. ", several.join(", ")),
    }
}

/// A name as it is shown: a manifest may hold any text.
fn name(text: &str) -> String {
    let mut shown: String = text.chars().take(LONGEST_NAME).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    if shown.chars().any(|c| c.is_control() || c.is_whitespace()) {
        shown = shown.escape_debug().to_string();
    }
    shown
}

/// Cut to [`LONGEST`], at a sentence if there is one.
fn bounded(mut message: String) -> String {
    if message.len() > LONGEST {
        let most = message.floor_char_boundary(LONGEST - 4);
        let end = message[..most].rfind(". ").map_or(most, |end| end + 2);
        message.truncate(end);
        message.push_str("... ");
    }
    message
}
