//! Metrics that differ between the releases of Kubernetes. The release is known only after the first metrics were made.

use super::StabilityLevel::{Alpha, Beta};
use super::{Buckets, Counters, Family, Histogram, Labels, Maker, opts};
use evictd_pod::compatibility::Release;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The release that the scheduler behaves as, once it is known. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedRelease(Arc<OnceLock<Release>>);

impl SharedRelease {
    /// Only the first call counts.
    pub(crate) fn set(&self, release: Release) {
        // The release never changes.
        let _ = self.0.set(release);
    }

    fn get(&self) -> Release {
        self.0.get().copied().unwrap_or_default()
    }
}

/// A histogram that is alpha in 1.36 and beta from 1.37 on (S7-257).
#[derive(Debug)]
pub(super) struct Promoted {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) family: Family<Labels, Histogram, Buckets>,
    pub(super) release: SharedRelease,
}

impl Collector for Promoted {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        if self.family.is_empty() {
            return Ok(());
        }
        let level = match self.release.get() {
            Release::V1_36 => Alpha,
            Release::V1_37 => Beta,
        };
        let help = format!("[{}] {}.", level.as_str(), self.help);
        let kind = self.family.metric_type();
        let metric = encoder.encode_descriptor(self.name, &help, None, kind)?;
        self.family.encode(metric)
    }
}

/// The claims that were created for extended resources. 1.37 has a name and a label that the controllers share (S7-178).
#[derive(Debug, Clone)]
pub(crate) struct ClaimsCreated {
    /// `status` (success, failure).
    of_1_36: Counters<1>,
    /// `status`, `admin_access`.
    of_1_37: Counters<2>,
    release: SharedRelease,
}

impl ClaimsCreated {
    pub(super) fn new(make: &mut Maker) -> Self {
        let help = "Claims that were created for extended resources, by result";
        let old = opts("scheduler_resourceclaim_creates", Alpha, help);
        let new = opts(
            "dynamic_resource_allocation_resourceclaim_creates",
            Alpha,
            help,
        );
        Self {
            of_1_36: make.counters(old, ["status"]),
            of_1_37: make.counters(new, ["status", "admin_access"]),
            release: make.release.clone(),
        }
    }

    pub(crate) fn add(&self, succeeds: bool) {
        let status = if succeeds { "success" } else { "failure" };
        match self.release.get() {
            Release::V1_36 => self.of_1_36.add([status], 1),
            // Extended resources have no admin access.
            Release::V1_37 => self.of_1_37.add([status, "false"], 1),
        }
    }
}
