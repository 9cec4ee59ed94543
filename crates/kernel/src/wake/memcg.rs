//! The kubelet's kernel memcg notification (S1-074 to S1-076): on cgroup v1 the kernel signals an eventfd when a
//! cgroup's usage crosses a level.

use super::{Wakeup, WokenBy};
use crate::{
    cgroup::{Controller, Hierarchies, Version},
    kernel_file::{Buffer, KernelFile},
    signals::RENEWAL,
};
use evictd_eviction::Housekeeper;
use evictd_signals::{Observations, Signal, Threshold};
use jiff::Timestamp;
use rustix::event::{EventfdFlags, eventfd};
use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::fd::{AsRawFd, OwnedFd},
    path::{Path, PathBuf},
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    task::JoinHandle,
};

/// One notifier per threshold on memory; its level follows the size of the page cache.
#[derive(Debug)]
pub struct MemcgNotification {
    /// The cgroup of `memory.available`, and the possible cgroups of `allocatableMemory.available`.
    node: PathBuf,
    pods: Vec<PathBuf>,
    buffer: Box<Buffer>,
    refreshed: Option<Timestamp>,
    notifiers: Vec<Notifier>,
    failed: bool,
}

#[derive(Debug)]
struct Notifier {
    level: u64,
    task: JoinHandle<()>,
}

impl Drop for Notifier {
    fn drop(&mut self) {
        // The kernel removes the event when its eventfd is closed.
        self.task.abort();
    }
}

impl MemcgNotification {
    /// For the machine or the cgroup that acts as the node, and for the pods' cgroup. `None` on cgroup v2, which
    /// has no such notification (S1-076).
    pub fn new(
        hierarchies: &Hierarchies,
        node: Option<&PathBuf>,
        pods: &[PathBuf],
    ) -> Option<Self> {
        if hierarchies.version() == Version::V2 {
            tracing::info!("kernelMemcgNotification has no effect: cgroup v2 does not support it");
            return None;
        }
        let directory = |group: &PathBuf| hierarchies.dir(Controller::Memory, group);
        Some(Self {
            node: directory(node.unwrap_or(&PathBuf::new()))?,
            pods: pods.iter().filter_map(directory).collect(),
            buffer: Box::new([0; size_of::<Buffer>()]),
            refreshed: None,
            notifiers: Vec::new(),
            failed: false,
        })
    }

    /// Sets the levels again, at most every ten seconds (S1-075).
    pub(super) fn set(
        &mut self,
        now: Timestamp,
        housekeeper: &Housekeeper,
        observations: &Observations,
        wakeup: &Wakeup,
    ) {
        if self
            .refreshed
            .is_some_and(|last| now.duration_since(last) < RENEWAL)
        {
            return;
        }
        self.refreshed = Some(now);
        let mut notifiers = Vec::new();
        for threshold in housekeeper.thresholds() {
            match self.notifier(threshold, observations, wakeup) {
                Ok(notifier) => notifiers.extend(notifier),
                // A kernel without notifications fails for every threshold, each time.
                Err(error) if !self.failed => {
                    self.failed = true;
                    tracing::warn!("no kernel notification for {}: {error}", threshold.signal);
                }
                Err(_) => {}
            }
        }
        tracing::debug!(levels = ?notifiers.iter().map(|one| one.level).collect::<Vec<_>>(), "memcg notification");
        self.notifiers = notifiers;
    }

    /// `None` for a signal other than memory, or if the signal is not observed.
    fn notifier(
        &mut self,
        threshold: &Threshold,
        observations: &Observations,
        wakeup: &Wakeup,
    ) -> io::Result<Option<Notifier>> {
        let group = match threshold.signal {
            Signal::MemoryAvailable => Some(&self.node),
            Signal::AllocatableMemoryAvailable => self.pods.iter().find(|group| group.is_dir()),
            _ => None,
        };
        let (Some(group), Some(seen)) = (group, observations.get(threshold.signal)) else {
            return Ok(None);
        };
        let mut stat = KernelFile::new(group.join("memory.stat"));
        let inactive = stat
            .read(&mut self.buffer, "total_inactive_file", inactive_file)
            .map_err(io::Error::other)?;
        let level = level(
            seen.capacity,
            threshold.value.at(seen.capacity).value(),
            inactive,
        );
        let Some(level) = level else { return Ok(None) };
        let event = register(group, level)?;
        let task = tokio::spawn(listen_to(event, log_message(threshold), wakeup.clone()));
        Ok(Some(Notifier { level, task }))
    }
}

/// The usage at which the threshold is crossed (S1-075). The `inactive` page cache, which has not been used for a
/// while, is added because it counts as usage for the kernel but not for the threshold.
fn level(capacity: i64, threshold: i64, inactive: u64) -> Option<u64> {
    let level = capacity.checked_sub(threshold)?;
    u64::try_from(level)
        .ok()?
        .checked_add(inactive)
        .filter(|level| *level > 0)
}

/// How the log names the notifier of this threshold (S1-076).
fn log_message(threshold: &Threshold) -> String {
    let kind = if threshold.is_hard() { "hard" } else { "soft" };
    let allocatable = match threshold.signal {
        Signal::AllocatableMemoryAvailable => "allocatable ",
        _ => "",
    };
    format!("eviction manager: {kind} {allocatable}memory eviction threshold crossed")
}

fn inactive_file(text: &str) -> Option<u64> {
    let mut lines = text.lines();
    lines.find_map(|line| line.strip_prefix("total_inactive_file ")?.parse().ok())
}

/// Registers the event, which lives as long as the returned descriptor.
#[expect(
    deprecated,
    reason = "its successor is unsafe; the descriptor is owned and stays open"
)]
fn register(group: &Path, level: u64) -> io::Result<AsyncFd<OwnedFd>> {
    let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
    let usage = File::open(group.join("memory.usage_in_bytes"))?;
    let mut control = OpenOptions::new()
        .write(true)
        .open(group.join("cgroup.event_control"))?;
    let line = format!("{} {} {level}", event.as_raw_fd(), usage.as_raw_fd());
    control.write_all(line.as_bytes())?;
    AsyncFd::with_interest(event, Interest::READABLE)
}

async fn listen_to(event: AsyncFd<OwnedFd>, log_message: String, wakeup: Wakeup) {
    // The driver of the runtime returns an error only when it shuts down.
    while let Ok(mut ready) = event.readable().await {
        ready.clear_ready();
        if rustix::io::read(&event, &mut [0; 8]).is_ok() {
            tracing::info!("{log_message}");
            wakeup.notify(WokenBy::MemoryThreshold);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s1_075_the_notification_level_is_the_available_memory_plus_inactive_cache() {
        let table = [
            (1000, 100, 0, Some(900)),
            (1000, 100, 50, Some(950)),
            (1000, 1000, 0, None),
            (1000, 1001, 5, None),
            (i64::MAX, 0, u64::MAX, None),
        ];
        for (capacity, threshold, inactive, expected) in table {
            assert_eq!(level(capacity, threshold, inactive), expected);
        }
    }

    #[test]
    fn s1_076_the_words_name_the_threshold() {
        let threshold = |signal, seconds| Threshold {
            signal,
            value: evictd_signals::ThresholdValue::Percentage(0.1),
            grace_period: jiff::SignedDuration::from_secs(seconds),
            min_reclaim: None,
        };
        let table = [
            (Signal::MemoryAvailable, 0, "hard "),
            (Signal::MemoryAvailable, 5, "soft "),
            (Signal::AllocatableMemoryAvailable, 0, "hard allocatable "),
        ];
        for (signal, grace, which) in table {
            let expected = format!("eviction manager: {which}memory eviction threshold crossed");
            assert_eq!(log_message(&threshold(signal, grace)), expected);
        }
    }

    #[test]
    fn s1_076_cgroup_v2_has_none() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("cgroup.controllers"), "memory").unwrap();
        let hierarchies = Hierarchies::detect(root.path()).unwrap();
        assert!(MemcgNotification::new(&hierarchies, None, &[]).is_none());
    }
}
