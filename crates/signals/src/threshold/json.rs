//! The JSON form of a threshold in records and answers.

use super::{Threshold, ThresholdValue};
use crate::{Signal, pressure::PressureLimit};
use jiff::SignedDuration;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error, ser::SerializeMap};

impl ThresholdValue {
    /// Reads the output of [`std::fmt::Display`]: a fraction always has a decimal point, a quantity never.
    fn read(signal: Signal, text: &str) -> Option<Self> {
        if text.contains('>') {
            return PressureLimit::parse(signal, text).ok().map(Self::Pressure);
        }
        if text.contains('.') {
            return text.parse().ok().map(Self::Percentage);
        }
        text.parse().ok().map(Self::Quantity)
    }
}

impl Serialize for Threshold {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("signal", &self.signal)?;
        map.serialize_entry("value", &self.value.to_string())?;
        serialize_seconds(&mut map, "gracePeriodSeconds", self.grace_period)?;
        if let Some(min_reclaim) = self.min_reclaim {
            map.serialize_entry("minReclaim", &min_reclaim.to_string())?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Threshold {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Written {
            signal: Signal,
            value: String,
            grace_period_seconds: f64,
            min_reclaim: Option<String>,
        }
        let written = Written::deserialize(deserializer)?;
        let value = |text: &str| {
            // Which forms a value has depends on the signal: the same text can be an amount or a pressure.
            ThresholdValue::read(written.signal, text)
                .ok_or_else(|| D::Error::custom(format_args!("no value of a threshold: {text}")))
        };
        Ok(Self {
            signal: written.signal,
            value: value(&written.value)?,
            grace_period: SignedDuration::try_from_secs_f64(written.grace_period_seconds)
                .map_err(D::Error::custom)?,
            min_reclaim: written.min_reclaim.as_deref().map(value).transpose()?,
        })
    }
}

/// Whole seconds as an integer, others as a decimal.
fn serialize_seconds<M: SerializeMap>(
    map: &mut M,
    key: &str,
    duration: SignedDuration,
) -> Result<(), M::Error> {
    if duration.subsec_nanos() == 0 {
        map.serialize_entry(key, &duration.as_secs())
    } else {
        map.serialize_entry(key, &duration.as_secs_f64())
    }
}
