//! What each pod reads from and writes to devices, while there is pressure on them.
//!
//! The kernel counts from a group's beginning, so that two looks are needed to tell who is at it now: one when the
//! pressure is first seen, one when somebody has to go for it.

use crate::{
    cgroup::{Controller, Hierarchies},
    pods::PodSet,
    signals::kernel_file::{Buffer, KernelFile},
};
use evictd_eviction::Usage;
use std::{collections::HashMap, path::Path};

/// Counts from a moment on.
#[derive(Debug)]
pub(super) struct IoMeter {
    hierarchies: Hierarchies,
    /// Bytes at that moment, by the pod's UID; `None` while nothing is counted.
    begun: Option<HashMap<String, u64>>,
}

impl IoMeter {
    pub(super) fn new(hierarchies: Hierarchies) -> Self {
        Self {
            hierarchies,
            begun: None,
        }
    }

    /// Begins to count, unless it counts already.
    pub(super) fn begin(&mut self, set: &PodSet) {
        if self.begun.is_none() {
            let counted = self.counted(set).into_iter().enumerate();
            let by_uid = counted
                .filter_map(|(index, bytes)| Some((set.pods.get(index)?.uid.clone(), bytes?)));
            self.begun = Some(by_uid.collect());
        }
    }

    /// The pressure is over.
    pub(super) fn end(&mut self) {
        self.begun = None;
    }

    /// Adds what each pod has read and written since; a pod that came later, since it came.
    pub(super) fn read(&self, set: &PodSet, usage: &mut Usage) {
        let Some(begun) = &self.begun else { return };
        let counted = self.counted(set);
        for ((place, pod), bytes) in usage.pods.iter_mut().zip(set.pods.iter()).zip(counted) {
            let Some(bytes) = bytes else { continue };
            let before = begun.get(&pod.uid).copied().unwrap_or(0);
            let since = i64::try_from(bytes.saturating_sub(before)).unwrap_or(i64::MAX);
            place.get_or_insert_default().io = Some(since);
        }
    }

    fn counted(&self, set: &PodSet) -> Vec<Option<u64>> {
        let mut buffer = Box::new([0; size_of::<Buffer>()]);
        let bytes = |cgroup: &Option<crate::pods::BoundCgroup>| {
            bytes(&self.hierarchies, &cgroup.as_ref()?.relative, &mut buffer)
        };
        set.cgroups.iter().map(bytes).collect()
    }
}

fn bytes(hierarchies: &Hierarchies, group: &Path, buffer: &mut Buffer) -> Option<u64> {
    let expected = "bytes by device";
    if let Some(directory) = hierarchies.dir(Controller::Io, group) {
        let mut file = KernelFile::new(directory.join("io.stat"));
        return file.read(buffer, expected, parse_v2).ok();
    }
    let directory = hierarchies.dir(Controller::Blkio, group)?;
    let file = directory.join("blkio.throttle.io_service_bytes_recursive");
    let mut file = KernelFile::new(file);
    file.read(buffer, expected, parse_v1).ok()
}

/// `8:0 rbytes=1 wbytes=2 rios=..`, a line a device.
fn parse_v2(text: &str) -> Option<u64> {
    let mut sum = 0_u64;
    for word in text.split_ascii_whitespace() {
        let bytes = word
            .strip_prefix("rbytes=")
            .or_else(|| word.strip_prefix("wbytes="));
        if let Some(bytes) = bytes {
            sum = sum.saturating_add(bytes.parse().ok()?);
        }
    }
    Some(sum)
}

/// `8:0 Read 1`, `8:0 Write 2` and more, a line a device and kind. On v1 what the kernel writes back later is nobody's.
fn parse_v1(text: &str) -> Option<u64> {
    let mut sum = 0_u64;
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace().skip(1);
        if let Some("Read" | "Write") = words.next() {
            sum = sum.saturating_add(words.next()?.parse().ok()?);
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pods::{BoundCgroup, PodSet};
    use evictd_pod::Pod;
    use serde_json::json;
    use std::fs;

    fn pod(name: &str) -> Pod {
        let metadata = json!({ "name": name, "uid": name });
        let wire = serde_json::from_value(json!({ "metadata": metadata })).unwrap();
        Pod::from_wire(wire)
    }

    #[test]
    fn lines_of_both_kernels() {
        let v2 = "8:16 rbytes=1459200 wbytes=314773504 rios=192 wios=353 dbytes=0 dios=0\n8:0 rbytes=1 wbytes=2\n";
        assert_eq!(parse_v2(v2), Some(1_459_200 + 314_773_504 + 3));
        assert_eq!(parse_v2(""), Some(0));
        assert_eq!(parse_v2("8:0 rbytes=x"), None);
        let v1 = "8:0 Read 10\n8:0 Write 5\n8:0 Sync 15\n8:0 Total 15\nTotal 15\n";
        assert_eq!(parse_v1(v1), Some(15));
        assert_eq!(parse_v1("8:0 Read"), None);
    }

    #[test]
    fn what_counts_is_what_was_done_since_the_pressure_began() {
        let root = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| fs::write(root.path().join(file), text).unwrap();
        write("cgroup.controllers", "io memory");
        let mut set = PodSet::default();
        let (mut pods, mut cgroups) = (Vec::new(), Vec::new());
        for name in ["old", "new", "gone"] {
            fs::create_dir(root.path().join(name)).unwrap();
            pods.push(pod(name));
            cgroups.push(Some(BoundCgroup {
                relative: name.into(),
                by_annotation: true,
            }));
        }
        (set.pods, set.cgroups) = (pods.into(), cgroups);
        write("old/io.stat", "8:0 rbytes=1000 wbytes=1\n");
        let mut meter = IoMeter::new(Hierarchies::detect(root.path()).unwrap());
        let io = |meter: &IoMeter| {
            let mut usage = Usage::default();
            usage.pods.resize_with(3, || None);
            meter.read(&set, &mut usage);
            usage
                .pods
                .iter()
                .map(|pod| pod.as_ref()?.io)
                .collect::<Vec<_>>()
        };
        assert_eq!(io(&meter), [None; 3]);
        meter.begin(&set);
        write("old/io.stat", "8:0 rbytes=1005 wbytes=1\n");
        write("new/io.stat", "8:0 rbytes=7 wbytes=0\n");
        meter.begin(&set);
        assert_eq!(io(&meter), [Some(5), Some(7), None]);
        meter.end();
        assert_eq!(io(&meter), [None; 3]);
    }
}
