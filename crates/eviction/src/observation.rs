//! What the node had left when it was looked at.

use crate::signal::Signal;
use jiff::Timestamp;
use serde::Serialize;

/// One signal at one moment, in bytes or counts as [`Signal::counts_bytes`] says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Observation {
    /// What is left.
    pub available: i64,
    /// What there is in all.
    pub capacity: i64,
    /// When it was measured; `None` where the source does not say (then it always counts as new, S1-033).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Timestamp>,
}

/// The signals that could be observed; one that could not is absent and never counts as met (S1-022).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observations([Option<Observation>; Signal::ALL.len()]);

impl Observations {
    /// The observation of one signal.
    pub fn get(&self, signal: Signal) -> Option<&Observation> {
        self.0[signal as usize].as_ref()
    }

    /// Sets one signal's observation; `None` says that it could not be observed.
    pub fn set(&mut self, signal: Signal, observation: Option<Observation>) {
        self.0[signal as usize] = observation;
    }

    /// The observed signals, in the order of [`Signal::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Signal, &Observation)> {
        Signal::ALL
            .into_iter()
            .filter_map(|signal| Some((signal, self.get(signal)?)))
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
