//! Gauges that exist only while there is something to measure.

use super::Tier;
use evictd_signals::{Signal, SignalMap};
use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct BySignal {
    pub(super) signal: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct BySignalAndKind {
    pub(super) signal: &'static str,
    pub(super) kind: &'static str,
}

/// One gauge per signal; absent while the signal is not observed.
#[derive(Debug, Default)]
pub(super) struct SignalGauges {
    pub(super) family: Family<BySignal, Gauge>,
    handles: SignalMap<Option<Gauge>>,
}

impl SignalGauges {
    pub(super) fn set(&mut self, signal: Signal, value: Option<i64>) {
        let handle = &mut self.handles[signal];
        let labels = || BySignal {
            signal: signal.as_str(),
        };
        if let Some(value) = value {
            handle
                .get_or_insert_with(|| self.family.get_or_create_owned(&labels()))
                .set(value);
        } else if handle.take().is_some() {
            // A figure that is no longer measured must not look current.
            self.family.remove(&labels());
        }
    }
}

/// One gauge per signal and tier; absent while there is no such threshold.
#[derive(Debug, Default)]
pub(super) struct ThresholdGauges {
    pub(super) family: Family<BySignalAndKind, Gauge>,
    handles: SignalMap<[Option<Gauge>; 2]>,
}

impl ThresholdGauges {
    pub(super) fn set(&mut self, signal: Signal, tier: Tier, value: Option<i64>) {
        let handle = &mut self.handles[signal][tier as usize];
        let labels = || BySignalAndKind {
            signal: signal.as_str(),
            kind: tier.as_str(),
        };
        if let Some(value) = value {
            handle
                .get_or_insert_with(|| self.family.get_or_create_owned(&labels()))
                .set(value);
        } else if handle.take().is_some() {
            self.family.remove(&labels());
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct BySetting {
    pub(super) setting: &'static str,
}

/// The state of the configuration. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct ConfigurationGauges {
    pub(super) successful: Gauge,
    pub(super) read_at: Gauge,
    pub(super) waits: Family<BySetting, Gauge>,
}

impl ConfigurationGauges {
    /// A configuration was read and is in force, except for these keys, which wait for the next start.
    pub fn taken(&self, now: Timestamp, waits: &[&'static str]) {
        self.successful.set(1);
        self.read_at.set(now.as_second());
        self.waits.clear();
        for setting in waits {
            self.waits.get_or_create(&BySetting { setting }).set(1);
        }
    }

    /// A configuration was read and refused.
    pub fn refused(&self) {
        self.successful.set(0);
    }
}

type NoLabels = [(&'static str, &'static str); 0];

/// When the Node was last written; absent if this agent does not write it. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct NodeHeartbeat {
    pub(super) family: Family<NoLabels, Gauge>,
}

impl NodeHeartbeat {
    /// Notes a write; the epoch stands for never.
    pub fn set(&self, now: Timestamp) {
        self.family.get_or_create(&[]).set(now.as_second());
    }
}
