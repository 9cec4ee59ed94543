//! The available amount of each signal in one observation.

use crate::{
    Observation, Signal, SignalMap, ThresholdValue,
    pressure::{Average, Share, Stall},
};
use jiff::Timestamp;
use serde::Serialize;

/// The signals that could be observed. A signal that could not be is absent, and its thresholds are not met
/// (S1-022).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observations {
    left: SignalMap<Option<Observation>>,
    /// All pressure figures of `memory.psi` and `io.psi`.
    stalls: SignalMap<Option<Stall>>,
    /// Whether the filesystem of a disk signal cannot be written.
    read_only: SignalMap<bool>,
}

impl Observations {
    /// The observation of one signal.
    pub fn get(&self, signal: Signal) -> Option<&Observation> {
        self.left[signal].as_ref()
    }

    /// Sets one signal's observation; `None` means that it could not be observed.
    pub fn set(&mut self, signal: Signal, observation: Option<Observation>) {
        self.left[signal] = observation;
    }

    /// Whether the filesystem of this signal cannot be written, so that nothing on it can be removed either.
    pub fn is_read_only(&self, signal: Signal) -> bool {
        self.read_only[signal]
    }

    /// Sets whether the filesystem of this signal cannot be written.
    pub fn set_read_only(&mut self, signal: Signal, read_only: bool) {
        self.read_only[signal] = read_only;
    }

    /// Without the signals whose capacity is 0: nothing was measured there, which is not the same as nothing left.
    #[must_use]
    pub fn measured(mut self) -> Self {
        for observed in self.left.values_mut() {
            *observed = observed.filter(Observation::is_measured);
        }
        self
    }

    /// Sets all figures of a pressure signal. The signal's own value is derived from `full avg10`.
    pub fn set_stall(&mut self, signal: Signal, stall: Option<Stall>, time: Option<Timestamp>) {
        if !signal.is_pressure() {
            return;
        }
        self.stalls[signal] = stall;
        let usual = stall.map(|stall| stall.observe(Share::Full, Average::Avg10, time));
        self.set(signal, usual);
    }

    /// The observation that a threshold with this value on this signal is compared with.
    pub fn of(&self, signal: Signal, value: ThresholdValue) -> Option<Observation> {
        let usual = self.get(signal)?;
        match value {
            ThresholdValue::Pressure(limit) if signal.is_pressure() => {
                let stall = self.stalls[signal]?;
                Some(stall.observe(limit.share, limit.average, usual.time))
            }
            _ => Some(*usual),
        }
    }

    /// The observed signals, in the order of [`Signal::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Signal, &Observation)> {
        self.left
            .iter()
            .filter_map(|(signal, left)| Some((signal, left.as_ref()?)))
    }
}

impl Serialize for Observations {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl FromIterator<(Signal, Observation)> for Observations {
    fn from_iter<I: IntoIterator<Item = (Signal, Observation)>>(observed: I) -> Self {
        let mut all = Self::default();
        for (signal, observation) in observed {
            all.set(signal, Some(observation));
        }
        all
    }
}
