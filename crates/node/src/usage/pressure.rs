//! Measurements for pressure signals: which pods wait, and which read and write meanwhile.

use super::{UsageWarning, cgroup::unreadable, io::IoMeter};
use crate::pods::PodSet;
use evictd_kernel::{cgroup::Hierarchies, kernel_file::Buffer, signals::GroupPressure};
use evictd_signals::Signal;
use evictd_usage::{Stalls, Usage};
use jiff::Timestamp;
use std::path::PathBuf;

/// Measures the pressure of pods and of the processes beside them, and the reads and writes of pods.
#[derive(Debug)]
pub(super) struct PressureMeter {
    io: IoMeter,
    groups: GroupPressure,
    /// The cgroup that acts as the node; empty for the machine.
    node: PathBuf,
    /// The cgroups that pods live in; empty: nothing beside the pods is read.
    pods: Vec<PathBuf>,
}

impl PressureMeter {
    pub(super) fn new(hierarchies: Hierarchies) -> Self {
        Self {
            io: IoMeter::new(hierarchies.clone()),
            groups: GroupPressure::new(hierarchies),
            node: PathBuf::new(),
            pods: Vec::new(),
        }
    }

    /// Looks beside these cgroups of pods, as far as the cgroup that acts as the node reaches.
    pub(super) fn look_beside(&mut self, node: PathBuf, pods: Vec<PathBuf>) {
        self.node = node;
        self.pods = pods;
    }

    /// Counts the reads and writes of pods while there is I/O pressure.
    pub(super) fn count_io(&mut self, pressure: bool, set: &PodSet) {
        if pressure {
            self.io.begin(set);
        } else {
            self.io.end();
        }
    }

    /// The bytes that each pod has written to devices since its creation, by UID.
    pub(super) fn written(&self, set: &PodSet) -> Vec<(String, i64)> {
        self.io.written(set)
    }

    /// Adds the figures that a decision on this signal needs, if it is a pressure signal.
    pub(super) fn read(
        &mut self,
        (now, signal): (Timestamp, Signal),
        set: &PodSet,
        usage: &mut Usage,
    ) -> Vec<UsageWarning> {
        if !signal.is_pressure() {
            return Vec::new();
        }
        let (stalls, mut warnings) = self.stalls(signal, set);
        usage.set_stalls(signal, stalls);
        if signal == Signal::IoPsi {
            warnings.extend(self.io.read(now, set, usage));
        }
        warnings
    }

    /// The pressure now. A figure that cannot be read is unknown.
    fn stalls(&self, signal: Signal, set: &PodSet) -> (Stalls, Vec<UsageWarning>) {
        let mut buffer = Box::new([0; size_of::<Buffer>()]);
        let (mut stalls, mut warnings) = (Stalls::default(), Vec::new());
        for (index, pod) in set.pods.iter().enumerate() {
            let group = pod.cgroup.as_ref().map(|cgroup| &cgroup.relative);
            let read = group.map(|group| self.groups.read(signal, group, &mut buffer));
            let stall = read.transpose().unwrap_or_else(|error| {
                warnings.push(unreadable(set, index, signal.resource(), error));
                None
            });
            stalls.pods.push(stall.flatten());
        }
        let beside = match self.pods.as_slice() {
            [] => Vec::new(),
            pods => self.groups.beside(&self.node, pods),
        };
        let unlisted = set.unknown.iter().map(|group| group.relative.clone());
        for group in beside.into_iter().chain(unlisted) {
            // A cgroup that cannot be read is left out: then more of the pressure stays unexplained.
            if let Ok(Some(stall)) = self.groups.read(signal, &group, &mut buffer) {
                stalls.others.push(stall);
            }
        }
        (stalls, warnings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pods::{BoundCgroup, LocalPod};
    use evictd_pod::Pod;
    use evictd_signals::pressure::{Average, Share};
    use evictd_testkit::objects;
    use std::{fs, path::Path};

    fn pod(name: &str, cgroup: &str) -> LocalPod {
        let bound = BoundCgroup {
            relative: cgroup.into(),
            by_annotation: true,
        };
        LocalPod::new(Pod::from_wire(objects::pod(name).parse()), Some(bound))
    }

    fn group(root: &Path, name: &str, percent: &str) {
        fs::create_dir_all(root.join(name)).unwrap();
        let line =
            |share: &str| format!("{share} avg10={percent} avg60=0.00 avg300=0.00 total=1\n");
        let text = line("some") + &line("full");
        fs::write(root.join(name).join("memory.pressure"), text).unwrap();
    }

    #[test]
    fn usage_of_pods_and_of_the_rest_of_the_node_is_read() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("cgroup.controllers"), "memory").unwrap();
        fs::write(root.path().join("cgroup.procs"), "").unwrap();
        for (name, percent) in [
            ("kubepods/a", "7.29"),
            ("kubepods/b", "0.00"),
            ("kubepods/unlisted", "3.00"),
            ("kubepods", "9.00"),
            ("system.slice", "1.00"),
        ] {
            group(root.path(), name, percent);
        }
        fs::create_dir(root.path().join("kubepods/none")).unwrap();
        fs::create_dir(root.path().join("kubepods/broken")).unwrap();
        fs::write(root.path().join("kubepods/broken/memory.pressure"), "?").unwrap();
        let names = ["a", "b", "none", "broken"];
        let mut set = PodSet {
            pods: names
                .map(|name| pod(name, &format!("kubepods/{name}")))
                .into(),
            ..PodSet::default()
        };
        set.unknown.push(evictd_kernel::cgroup::PodCgroup {
            uid: "unlisted".to_owned(),
            relative: "kubepods/unlisted".into(),
        });
        let mut meter = PressureMeter::new(Hierarchies::detect(root.path()).unwrap());
        meter.look_beside(
            PathBuf::new(),
            vec!["kubepods".into(), "kubepods.slice".into()],
        );
        let (now, mut usage) = (Timestamp::UNIX_EPOCH, Usage::default());
        let warnings = meter.read((now, Signal::MemoryPsi), &set, &mut usage);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        let some = |stall: &evictd_usage::GroupStall| stall.all.figure(Share::Some, Average::Avg10);
        let pods: Vec<_> = usage
            .memory_stalls
            .pods
            .iter()
            .map(|pod| pod.as_ref().map(some))
            .collect();
        assert_eq!(pods, [Some(729), Some(0), None, None]);
        let others: Vec<_> = usage.memory_stalls.others.iter().map(some).collect();
        assert_eq!(others, [100, 300]);

        let mut other = Usage::default();
        assert!(
            meter
                .read((now, Signal::MemoryAvailable), &set, &mut other)
                .is_empty()
        );
        assert_eq!(other.memory_stalls, Stalls::default());
    }
}
