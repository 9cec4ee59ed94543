//! How much each pod reads from and writes to devices: while there is I/O pressure, and for the question which pod
//! fills a disk.
//!
//! The kernel counts since the creation of a cgroup. To see which pod reads and writes now, two readings are
//! needed: when the pressure is first seen, and when a pod has to be evicted for it.

use super::{
    UsageWarning,
    cgroup::{twice, unreadable},
};
use crate::pods::{LocalPod, PodSet};
use evictd_kernel::{
    cgroup::{Controller, Hierarchies},
    kernel_file::{Buffer, KernelFile, ReadError},
};
use evictd_signals::StarvedResource;
use evictd_usage::{
    Usage,
    figure::{Figure, Source},
};
use jiff::{SignedDuration, Timestamp};
use std::{collections::HashMap, path::Path};

/// Counts bytes from a moment on.
#[derive(Debug)]
pub(super) struct IoMeter {
    hierarchies: Hierarchies,
    /// Bytes at that moment by pod UID, or the read error; `None` while nothing is counted.
    begun: Option<Counters>,
    /// When they were read first for a decision since then.
    read: Option<Timestamp>,
}

type Counters = HashMap<String, Result<u64, ReadError>>;

/// Counting begins anew when it has lasted this long and a decision has seen it. The reads of hours of pressure do not
/// show which pod reads now.
const LONGEST: SignedDuration = SignedDuration::from_secs(5);

impl IoMeter {
    pub(super) fn new(hierarchies: Hierarchies) -> Self {
        Self {
            hierarchies,
            begun: None,
            read: None,
        }
    }

    /// Begins to count, unless it does already.
    pub(super) fn begin(&mut self, set: &PodSet) {
        if self.begun.is_none() {
            self.begun = Some(self.counters(set));
        }
    }

    fn counters(&self, set: &PodSet) -> Counters {
        let uids = set.pods.iter().map(|pod| pod.uid.clone());
        let by_uid = uids.zip(self.counted(set));
        by_uid
            .filter_map(|(uid, bytes)| Some((uid, bytes.transpose()?)))
            .collect()
    }

    /// Stops counting: the pressure is over.
    pub(super) fn end(&mut self) {
        self.begun = None;
        self.read = None;
    }

    /// Adds the bytes that each pod has read and written since then; for a later pod, since its creation. A pod
    /// whose first figure could not be read is counted from now on.
    pub(super) fn read(
        &mut self,
        now: Timestamp,
        set: &PodSet,
        usage: &mut Usage,
    ) -> Vec<UsageWarning> {
        let counted = self.counted(set);
        let (Some(begun), mut warnings) = (&mut self.begun, Vec::new()) else {
            return Vec::new();
        };
        for (index, (place, bytes)) in usage.pods.iter_mut().zip(counted).enumerate() {
            let mut warn =
                |error| warnings.push(unreadable(set, index, StarvedResource::Io, error));
            let bytes = match bytes {
                Ok(Some(bytes)) => bytes,
                Ok(None) => continue,
                Err(error) => {
                    warn(error);
                    continue;
                }
            };
            let before = match begun.get_mut(&set.pods[index].uid) {
                // A pod that was not there at the start has read and written all of it since then.
                Some(Ok(before)) => *before,
                None => 0,
                Some(unread) => {
                    if let Err(error) = std::mem::replace(unread, Ok(bytes)) {
                        warn(error);
                    }
                    continue;
                }
            };
            let since = i64::try_from(bytes.saturating_sub(before)).unwrap_or(i64::MAX);
            let since = Figure::bytes(since).measured(Source::Cgroup, Some(now));
            place.get_or_insert_default().io = Some(since);
        }
        // Otherwise a pod that wrote much long ago would count more than one that writes now.
        if now.duration_since(*self.read.get_or_insert(now)) >= LONGEST {
            self.begun = Some(self.counters(set));
            self.read = None;
        }
        warnings
    }

    /// The bytes that each pod has written to devices since its creation, by UID, as far as the kernel counts them. On
    /// v1 the kernel counts only writes past the page cache, so there is no figure.
    pub(super) fn written(&self, set: &PodSet) -> Vec<(String, i64)> {
        let mut buffer = Box::new([0; size_of::<Buffer>()]);
        let pods = set.pods.iter().filter_map(|pod| {
            let directory = self
                .hierarchies
                .dir(Controller::Io, &pod.cgroup.as_ref()?.relative)?;
            let mut file = KernelFile::new(directory.join("io.stat"));
            let written = |text: &str| sum_v2(text, &["wbytes="]);
            let bytes = twice(|| file.read(&mut buffer, "bytes by device", written)).ok()?;
            Some((pod.uid.clone(), i64::try_from(bytes).unwrap_or(i64::MAX)))
        });
        pods.collect()
    }

    /// The counters of all pods; `None` if a cgroup has no such counter.
    fn counted(&self, set: &PodSet) -> Vec<Result<Option<u64>, ReadError>> {
        let mut buffer = Box::new([0; size_of::<Buffer>()]);
        let bytes = |pod: &LocalPod| {
            let Some(cgroup) = &pod.cgroup else {
                return Ok(None);
            };
            match bytes(&self.hierarchies, &cgroup.relative, &mut buffer) {
                Err(error) if error.is_missing() => Ok(None),
                counted => counted,
            }
        };
        set.pods.iter().map(bytes).collect()
    }
}

fn bytes(
    hierarchies: &Hierarchies,
    group: &Path,
    buffer: &mut Buffer,
) -> Result<Option<u64>, ReadError> {
    let v2 = hierarchies.dir(Controller::Io, group);
    let v1 = || hierarchies.dir(Controller::Blkio, group);
    let parse = if v2.is_some() { parse_v2 } else { parse_v1 };
    let file = v2.map(|directory| directory.join("io.stat")).or_else(|| {
        let name = "blkio.throttle.io_service_bytes_recursive";
        v1().map(|directory| directory.join(name))
    });
    let Some(file) = file else { return Ok(None) };
    let mut file = KernelFile::new(file);
    twice(|| file.read(buffer, "bytes by device", parse)).map(Some)
}

fn parse_v2(text: &str) -> Option<u64> {
    sum_v2(text, &["rbytes=", "wbytes="])
}

/// The sum of the figures with these keys in `8:0 rbytes=1 wbytes=2 rios=..`, one line per device.
fn sum_v2(text: &str, keys: &[&str]) -> Option<u64> {
    let mut sum = 0_u64;
    for word in text.split_ascii_whitespace() {
        if let Some(bytes) = keys.iter().find_map(|key| word.strip_prefix(key)) {
            sum = sum.saturating_add(bytes.parse().ok()?);
        }
    }
    Some(sum)
}

/// `8:0 Read 1`, `8:0 Write 2` and others, one line per device and kind. On v1 the kernel's later write-back counts
/// for no cgroup.
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
    use evictd_testkit::objects;
    use std::fs;

    fn pod(name: &str) -> Pod {
        Pod::from_wire(objects::pod(name).parse())
    }

    #[test]
    fn lines_of_both_kernels() {
        let v2 = "8:16 rbytes=1459200 wbytes=314773504 rios=192 wios=353 dbytes=0 dios=0\n8:0 rbytes=1 wbytes=2\n";
        assert_eq!(parse_v2(v2), Some(1_459_200 + 314_773_504 + 3));
        assert_eq!(sum_v2(v2, &["wbytes="]), Some(314_773_504 + 2));
        assert_eq!(parse_v2(""), Some(0));
        assert_eq!(parse_v2("8:0 rbytes=x"), None);
        let v1 = "8:0 Read 10\n8:0 Write 5\n8:0 Sync 15\n8:0 Total 15\nTotal 15\n";
        assert_eq!(parse_v1(v1), Some(15));
        assert_eq!(parse_v1("8:0 Read"), None);
    }

    #[test]
    fn only_io_since_the_beginning_of_the_pressure_counts() {
        let root = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| fs::write(root.path().join(file), text).unwrap();
        write("cgroup.controllers", "io memory");
        let mut set = PodSet::default();
        for name in ["old", "new", "gone"] {
            fs::create_dir(root.path().join(name)).unwrap();
            let cgroup = BoundCgroup {
                relative: name.into(),
                by_annotation: true,
            };
            set.pods.push(LocalPod::new(pod(name), Some(cgroup)));
        }
        write("old/io.stat", "8:0 rbytes=1000 wbytes=1\n");
        let mut meter = IoMeter::new(Hierarchies::detect(root.path()).unwrap());
        let io = |meter: &mut IoMeter| {
            let mut usage = Usage::default();
            usage.pods.resize_with(3, || None);
            assert!(
                meter
                    .read(Timestamp::UNIX_EPOCH, &set, &mut usage)
                    .is_empty()
            );
            usage
                .pods
                .iter()
                .map(|pod| Some(pod.as_ref()?.io?.value))
                .collect::<Vec<_>>()
        };
        assert_eq!(io(&mut meter), [None; 3]);
        meter.begin(&set);
        write("old/io.stat", "8:0 rbytes=1005 wbytes=1\n");
        write("new/io.stat", "8:0 rbytes=7 wbytes=0\n");
        meter.begin(&set);
        assert_eq!(io(&mut meter), [Some(5), Some(7), None]);
        meter.end();
        assert_eq!(io(&mut meter), [None; 3]);
    }

    #[test]
    fn a_long_pressure_is_counted_anew_so_that_it_shows_who_reads_now() {
        let root = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| fs::write(root.path().join(file), text).unwrap();
        write("cgroup.controllers", "io memory");
        let mut set = PodSet::default();
        for name in ["throttled", "hog"] {
            fs::create_dir(root.path().join(name)).unwrap();
            write(&format!("{name}/io.stat"), "");
            let bound = BoundCgroup {
                relative: name.into(),
                by_annotation: true,
            };
            set.pods.push(LocalPod::new(pod(name), Some(bound)));
        }
        let mut meter = IoMeter::new(Hierarchies::detect(root.path()).unwrap());
        meter.begin(&set);
        let mut look = |second, throttled: i64, hog: i64| {
            write(
                "throttled/io.stat",
                &format!("8:0 rbytes={throttled} wbytes=0\n"),
            );
            write("hog/io.stat", &format!("8:0 rbytes={hog} wbytes=0\n"));
            let mut usage = Usage::default();
            usage.pods.resize_with(2, || None);
            let now = Timestamp::from_second(second).unwrap();
            assert!(meter.read(now, &set, &mut usage).is_empty());
            [0, 1].map(|index| Some(usage.of(index)?.io?.value))
        };
        assert_eq!(look(1, 100, 0), [Some(100), Some(0)]);
        assert_eq!(look(5, 500, 0), [Some(500), Some(0)]);
        assert_eq!(look(6, 600, 0), [Some(600), Some(0)]);
        assert_eq!(look(7, 700, 900), [Some(100), Some(900)]);
    }

    #[test]
    fn a_pod_without_a_first_figure_is_counted_from_its_next_one() {
        let root = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| fs::write(root.path().join(file), text).unwrap();
        write("cgroup.controllers", "io memory");
        fs::create_dir(root.path().join("old")).unwrap();
        let bound = BoundCgroup {
            relative: "old".into(),
            by_annotation: true,
        };
        let set = PodSet {
            pods: vec![LocalPod::new(pod("old"), Some(bound))],
            ..PodSet::default()
        };
        let mut meter = IoMeter::new(Hierarchies::detect(root.path()).unwrap());
        write("old/io.stat", "8:0 rbytes=?\n");
        meter.begin(&set);
        let mut look = |bytes: &str| {
            write("old/io.stat", &format!("8:0 rbytes={bytes} wbytes=0\n"));
            let mut usage = Usage::default();
            usage.pods.push(None);
            let warnings = meter.read(Timestamp::UNIX_EPOCH, &set, &mut usage).len();
            (usage.of(0).and_then(|pod| Some(pod.io?.value)), warnings)
        };
        // If everything since its creation counted, the pod would be the first victim.
        assert_eq!(look("1000"), (None, 1));
        assert_eq!(look("1003"), (Some(3), 0));
        assert_eq!(look("?"), (None, 1));
        assert_eq!(look("1005"), (Some(5), 0));
    }
}
