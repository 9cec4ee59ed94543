//! Moments in little room.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::num::NonZero;

/// A moment, to the microsecond, as precise as any that an API server writes. `Option<Time>` takes eight bytes, where that
/// of a [`Timestamp`] takes 24.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(NonZero<i64>);

/// In microseconds since 1970; before every timestamp (those begin in the year -9999), so that the time since is never zero.
const BEFORE_ALL: i64 = -1_000_000_000_000_000_000;

/// In a second.
const MICROSECONDS: i64 = 1_000_000;

impl Time {
    /// As the time that is calculated with.
    pub fn timestamp(self) -> Timestamp {
        let since_1970 = self.0.get() + BEFORE_ALL;
        let (second, rest) = (
            since_1970.div_euclid(MICROSECONDS),
            since_1970.rem_euclid(MICROSECONDS),
        );
        // It was made from one. `from_microsecond` takes none of the last second of all.
        let nanosecond = i32::try_from(rest * 1000).unwrap_or(0);
        Timestamp::new(second, nanosecond).unwrap_or_default()
    }
}

impl From<Timestamp> for Time {
    fn from(timestamp: Timestamp) -> Self {
        let since = timestamp.as_microsecond() - BEFORE_ALL;
        Self(NonZero::new(since).unwrap_or(NonZero::<i64>::MIN))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.timestamp().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Timestamp::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_timestamp_is_restored_to_the_microsecond_and_in_order() {
        let moments = [
            Timestamp::MIN,
            "1969-12-31T23:59:59.999999Z".parse().unwrap(),
            Timestamp::UNIX_EPOCH,
            "2026-01-02T03:04:05.000006Z".parse().unwrap(),
            Timestamp::MAX,
        ];
        let times = moments.map(Time::from);
        assert!(times.is_sorted_by(|one, other| one < other));
        for (moment, time) in moments.into_iter().zip(times) {
            assert_eq!(time.timestamp().as_microsecond(), moment.as_microsecond());
            let text = serde_json::to_string(&time).unwrap();
            assert_eq!(serde_json::from_str::<Time>(&text).unwrap(), time);
        }
        assert_eq!(size_of::<Option<Time>>(), 8);
    }
}
