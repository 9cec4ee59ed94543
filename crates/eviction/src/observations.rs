//! What the node had left when it was looked at.

use crate::{
    Observation, ThresholdValue,
    pressure::{Average, Share, Stall},
    signal::Signal,
};
use jiff::Timestamp;
use serde::Serialize;

/// The signals that could be observed; one that could not is absent and never counts as met (S1-022).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observations {
    left: [Option<Observation>; Signal::ALL.len()],
    /// Every figure behind `memory.psi` and `io.psi`.
    stalls: [Option<Stall>; 2],
}

impl Observations {
    /// The observation of one signal.
    pub fn get(&self, signal: Signal) -> Option<&Observation> {
        self.left[signal as usize].as_ref()
    }

    /// Sets one signal's observation; `None` says that it could not be observed.
    pub fn set(&mut self, signal: Signal, observation: Option<Observation>) {
        self.left[signal as usize] = observation;
    }

    /// Sets all figures of a pressure signal; by itself the signal is their `full avg10`.
    pub fn set_stall(&mut self, signal: Signal, stall: Option<Stall>, time: Option<Timestamp>) {
        let Some(place) = stall_of(signal) else {
            return;
        };
        self.stalls[place] = stall;
        let usual = stall.map(|stall| stall.observe(Share::Full, Average::Avg10, time));
        self.set(signal, usual);
    }

    /// What a threshold of this value on this signal looks at.
    pub fn of(&self, signal: Signal, value: ThresholdValue) -> Option<Observation> {
        let usual = self.get(signal)?;
        let (ThresholdValue::Pressure(limit), Some(place)) = (value, stall_of(signal)) else {
            return Some(*usual);
        };
        let stall = self.stalls[place]?;
        Some(stall.observe(limit.share, limit.average, usual.time))
    }

    /// The observed signals, in the order of [`Signal::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Signal, &Observation)> {
        Signal::ALL
            .into_iter()
            .filter_map(|signal| Some((signal, self.get(signal)?)))
    }
}

const fn stall_of(signal: Signal) -> Option<usize> {
    match signal {
        Signal::MemoryPsi => Some(0),
        Signal::IoPsi => Some(1),
        _ => None,
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
