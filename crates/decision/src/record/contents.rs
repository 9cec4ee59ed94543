//! The contents of a pod right before its first signal. They say which program of the pod held the memory.

use evictd_signals::human_bytes;
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
    /// The name of its container in the pod, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_name: Option<String>,
    /// The beginning of its command line, escaped. Only with `record.commandLines`, because arguments may be secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_line: Option<String>,
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
    /// All of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<u64>,
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

impl Contents {
    /// `java 2.9Gi of 3.1Gi in container app`: the largest process that was read, and the memory of the whole pod. `None`
    /// without any process. A pod chooses the names of its processes, so they are escaped.
    pub fn largest(&self) -> Option<String> {
        let first = self.processes.first()?;
        let mut words = format!("{} {}", first.shown_name(), human(first.resident_bytes));
        // Shared memory may be charged to another pod, and then the process seems to hold more than its pod.
        let usage = self.memory.as_ref().and_then(|memory| memory.usage);
        if let Some(usage) = usage.filter(|usage| *usage >= first.resident_bytes) {
            words.extend([" of ", &human(usage)]);
        }
        if let Some(container) = first.shown_container() {
            words.extend([" in container ", &container]);
        }
        Some(words)
    }
}

impl Holder {
    /// Its name, escaped.
    pub fn shown_name(&self) -> String {
        self.name.escape_debug().to_string()
    }

    /// The name of its container, escaped; its id where the name is unknown.
    pub fn shown_container(&self) -> Option<String> {
        let container = self.container_name.as_ref().or(self.container.as_ref())?;
        Some(container.escape_debug().to_string())
    }
}

fn human(bytes: u64) -> String {
    human_bytes(i64::try_from(bytes).unwrap_or(i64::MAX))
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn largest(process: &Value, usage: &Value) -> Option<String> {
        let contents = json!({ "processes": [process], "memory": { "usage": usage } });
        serde_json::from_value::<Contents>(contents)
            .unwrap()
            .largest()
    }

    #[test]
    fn the_largest_process_is_named_with_what_is_known_of_it() {
        let process = |more: &Value| {
            let mut process = json!({ "pid": 7, "name": "java", "residentBytes": 3_113_851_289_u64, "threads": 40 });
            for (key, value) in more.as_object().unwrap() {
                process[key] = value.clone();
            }
            process
        };
        let all = json!(3_328_599_654_u64);
        for (more, usage, expected) in [
            (
                json!({ "containerName": "app", "container": "0123" }),
                &all,
                "java 2.9Gi of 3.1Gi in container app",
            ),
            (
                json!({ "container": "0123" }),
                &all,
                "java 2.9Gi of 3.1Gi in container 0123",
            ),
            (json!({}), &Value::Null, "java 2.9Gi"),
            (json!({}), &json!(4096), "java 2.9Gi"),
            (
                json!({ "name": "a\nb\u{202e}" }),
                &Value::Null,
                "a\\nb\\u{202e} 2.9Gi",
            ),
        ] {
            assert_eq!(largest(&process(&more), usage).unwrap(), expected);
        }
        assert_eq!(Contents::default().largest(), None);
    }
}
