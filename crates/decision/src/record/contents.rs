//! The contents of a pod right before its first signal. They say which program of the pod held the memory.

use serde::{Deserialize, Serialize};

/// The largest processes of a pod, and the kinds of its memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Contents {
    /// The processes that held most memory, largest first; at most five.
    pub processes: Vec<Holder>,
    /// How many further processes and threads could not be read in time; `None` if their number is not known.
    pub unread: Option<u64>,
    /// The memory of the pod's cgroup; `None` if it could not be read in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryKinds>,
}

/// A process and the memory that it held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Holder {
    /// Its process id.
    pub pid: u32,
    /// Its name, as in `/proc/PID/comm`. The pod chooses it.
    pub name: String,
    /// The first twelve digits of its container's id, if its cgroup has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Its resident memory in bytes. Memory that several processes share counts for each.
    pub resident_bytes: u64,
    /// Its threads.
    pub threads: u64,
    /// How long it had run, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<u64>,
}

/// The memory of a cgroup by kind, in bytes. `None` if the kernel does not say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MemoryKinds {
    /// Memory that belongs to no file.
    pub anon: Option<u64>,
    /// Page cache, shared memory included.
    pub file: Option<u64>,
    /// Files in memory and shared memory.
    pub shmem: Option<u64>,
    /// Memory of the kernel for the pod.
    pub kernel: Option<u64>,
    /// Its part in swap.
    pub swap: Option<u64>,
}

impl MemoryKinds {
    /// Each kind that is known, with its name.
    pub fn known(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let kinds = [
            ("anon", self.anon),
            ("file", self.file),
            ("shmem", self.shmem),
            ("kernel", self.kernel),
            ("swap", self.swap),
        ];
        kinds
            .into_iter()
            .filter_map(|(name, bytes)| Some((name, bytes?)))
    }
}
