//! Growth that no eviction can end: of spared pods, and of usage outside of pods.
//!
//! An eviction is futile if such growth eats its gain within seconds. Only figures count that were measured together
//! with the signal. A directory walk or a kubelet's answer is older, and a pod's writes since then would look like
//! growth of the host. So would the growth of a pod whose usage is unknown: without it nothing is noted.

use evictd_decision::{RankedPod, Spared, UnevictableGrowth, Unreachable};
use evictd_pod::{Pod, Quantity};
use evictd_signals::{Observation, Signal, SignalMap, StarvedResource, forecast::Trend};
use evictd_usage::Usage;
use jiff::{SignedDuration, Timestamp};
use std::{borrow::Borrow, collections::HashMap};

/// The relief of an eviction has to last at least this long.
pub(crate) const HORIZON: SignedDuration = SignedDuration::from_secs(10);
/// Figures that are farther from their signal in time were not measured together with it.
const TOGETHER: SignedDuration = SignedDuration::from_millis(100);

/// The usage at the last readings of each signal, and its growth.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unevictable {
    readings: SignalMap<Readings>,
}

#[derive(Debug, Clone, Default)]
struct Readings {
    at: Option<Timestamp>,
    /// By UID.
    pods: HashMap<String, Held>,
    host: Option<i64>,
    host_trend: Trend,
    /// The total growth of usage that stays, and of usage that is evictable or terminating.
    stays: Growing,
    goes: Growing,
}

#[derive(Debug, Clone)]
struct Held {
    value: i64,
    /// Of a pod that is spared.
    trend: Trend,
}

/// A sum of growth. A pod that changes its side does not make the sum jump.
#[derive(Debug, Clone, Default)]
struct Growing {
    sum: i64,
    trend: Trend,
}

impl Growing {
    fn add(&mut self, growth: i64) {
        self.sum = self.sum.saturating_add(growth);
    }
}

impl Unevictable {
    /// Whether the pods' usage of this signal can be measured together with it.
    pub(crate) fn follows(signal: Signal) -> bool {
        let resource = signal.resource();
        !signal.is_pressure() && matches!(resource, StarvedResource::Memory | StarvedResource::Pids)
    }

    /// Whether the last reading of this signal is at least `pause` old, or there is none.
    pub(crate) fn is_due(&self, now: Timestamp, signal: Signal, pause: SignedDuration) -> bool {
        let at = self.readings[signal].at;
        at.is_none_or(|at| now.duration_since(at) >= pause)
    }

    /// Adds the usage of every pod. `released` belongs to pods that have ended, and will be free.
    pub(crate) fn observe(
        &mut self,
        (now, signal): (Timestamp, Signal),
        observed: &Observation,
        (pods, usage): (&[impl Borrow<Pod>], &Usage),
        ranked: &[RankedPod],
        released: Quantity,
    ) {
        let at = observed.time.unwrap_or(now);
        let times = usage
            .pods
            .iter()
            .flatten()
            .filter_map(|usage| usage.measured(signal.resource()));
        let mut apart = times.map(|time| time.duration_since(at).abs());
        let readings = &mut self.readings[signal];
        // One figure that is unseen or from another moment would look like growth of the host.
        if !Self::follows(signal)
            || ranked.iter().any(may_hold_unseen)
            || readings.at.is_some_and(|last| at <= last)
            || apart.any(|apart| apart > TOGETHER)
        {
            return;
        }
        readings.at = Some(at);
        readings.observe(at, observed, pods, ranked, released);
    }

    /// The growth that cannot be evicted, if that is more than half of all growth; `None` too if it is unknown.
    /// `falls_by` is the rate at which the signal falls: growth that does not lower the signal does not count.
    pub(crate) fn growth(
        &self,
        signal: Signal,
        falls_by: Option<i64>,
        pods: &[impl Borrow<Pod>],
        ranked: &[RankedPod],
    ) -> Option<UnevictableGrowth> {
        let readings = &self.readings[signal];
        let stays = readings.stays.trend.rate()?;
        // If the signal falls less, something else frees as much, and that may go on.
        let rate = stays.min(falls_by?);
        let goes = readings.goes.trend.rate().unwrap_or_default();
        // Where evictable pods grow faster, an eviction still wins time.
        if rate <= 0 || goes >= stays {
            return None;
        }
        let of = |row: &RankedPod| {
            let held = readings.pods.get(&pods[row.index].borrow().uid)?;
            held.trend.rate()
        };
        let most = ranked
            .iter()
            .filter(|row| stays_here(row))
            .filter_map(|row| Some((of(row)?, row)))
            .max_by_key(|(rate, _)| *rate);
        let host = readings.host_trend.rate().unwrap_or_default();
        // The pod is named only if it grows faster than the host does.
        let most = most.filter(|(rate, _)| *rate > host).map(|(_, row)| row);
        Some(UnevictableGrowth {
            pod: most.map(|row| row.pod.to_string()),
            because: most.and_then(|row| row.spared).map(|why| why.to_string()),
            per_second: signal.quantity(rate),
            seconds: HORIZON.as_secs(),
        })
    }
}

/// Whether no eviction ends this pod, and it is not about to end.
fn stays_here(row: &RankedPod) -> bool {
    row.spared.is_some_and(|why| why != Spared::Dying)
}

/// Whether this pod may have unknown usage. A pod without a cgroup has no processes, so it holds nothing.
fn may_hold_unseen(row: &RankedPod) -> bool {
    row.gain.is_none() && row.spared != Some(Spared::Unreachable(Unreachable::NoCgroup))
}

impl Readings {
    fn observe(
        &mut self,
        at: Timestamp,
        observed: &Observation,
        pods: &[impl Borrow<Pod>],
        ranked: &[RankedPod],
        released: Quantity,
    ) {
        let mut host = observed.taken().saturating_sub(released.value());
        let mut before = std::mem::take(&mut self.pods);
        for row in ranked {
            let Some(holds) = row.gain.map(|holds| holds.value()) else {
                continue;
            };
            host = host.saturating_sub(holds);
            let uid = &pods[row.index].borrow().uid;
            let held = before.remove(uid);
            // All that a new pod holds is growth since the last reading.
            let known = held.as_ref().map_or(0, |held| held.value);
            let mut trend = held.map(|held| held.trend).unwrap_or_default();
            let side = if stays_here(row) {
                trend.observe(at, holds);
                &mut self.stays
            } else {
                &mut self.goes
            };
            side.add(holds.saturating_sub(known));
            let value = holds;
            self.pods.insert(uid.clone(), Held { value, trend });
        }
        let known = self.host.replace(host).unwrap_or(host);
        self.host_trend.observe(at, host);
        self.stays.add(host.saturating_sub(known));
        for side in [&mut self.stays, &mut self.goes] {
            side.trend.observe(at, side.sum);
        }
    }
}
