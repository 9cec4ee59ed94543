//! The growth rate of usages, from two readings.

use crate::Usage;
use jiff::{SignedDuration, Timestamp};
use std::collections::HashMap;

/// Readings that are nearer to each other say little.
const NEAREST: SignedDuration = SignedDuration::from_millis(500);
/// Readings that are farther apart do not show the present rate of writes.
const FARTHEST: SignedDuration = SignedDuration::from_secs(60);

/// The last reading of each holder.
#[derive(Debug, Clone, Default)]
pub struct Growth {
    known: HashMap<String, Reading>,
}

#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Timestamp,
    bytes: i64,
    rate: Option<i64>,
}

impl Growth {
    /// The bytes per second by which this holder has grown since the reading before; negative while it shrinks. `None`
    /// if that reading was more than a minute ago, or there is none.
    pub fn rate(&mut self, holder: &str, at: Timestamp, bytes: i64) -> Option<i64> {
        let before = self.known.get(holder).copied();
        let rate = before.and_then(|before| {
            let within = at.duration_since(before.at);
            // Two readings so close together show more of the moment of reading than of growth.
            if within < NEAREST {
                return before.rate;
            }
            let grown = i128::from(bytes) - i128::from(before.bytes);
            let rate = grown * 1000 / within.as_millis();
            (within <= FARTHEST).then(|| i64::try_from(rate).unwrap_or(i64::MAX))
        });
        let follows = |before: Reading| at.duration_since(before.at) >= NEAREST;
        if before.is_none_or(follows) {
            let reading = Reading { at, bytes, rate };
            self.known.insert(holder.to_owned(), reading);
        }
        rate
    }

    /// Adds the growth of each pod's usage on disk; `uids` are parallel to the usage.
    pub fn add<'a>(
        &mut self,
        now: Timestamp,
        uids: impl Iterator<Item = &'a str>,
        usage: &mut Usage,
    ) {
        for (uid, usage) in uids.zip(&mut usage.pods) {
            if let Some(usage) = usage
                && let Some(bytes) = usage.ephemeral_storage
            {
                usage.disk_growth = self.rate(uid, now, bytes.value);
            }
        }
        self.forget_old(now);
    }

    /// Forgets readings to which no later one can be compared.
    pub fn forget_old(&mut self, now: Timestamp) {
        self.known
            .retain(|_, reading| now.duration_since(reading.at) <= FARTHEST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millisecond: i64) -> Timestamp {
        Timestamp::from_millisecond(millisecond).unwrap()
    }

    #[test]
    fn growth_is_computed_from_two_readings() {
        let mut growth = Growth::default();
        let mut rate = |millisecond, bytes| growth.rate("pod", at(millisecond), bytes);
        assert_eq!(rate(0, 1000), None);
        assert_eq!(rate(400, 9000), None);
        assert_eq!(rate(2000, 5000), Some(2000));
        // Too near to be compared: the rate before still holds.
        assert_eq!(rate(2100, 9000), Some(2000));
        assert_eq!(rate(4000, 4000), Some(-500));
        assert_eq!(rate(64_001, 9000), None);
        assert_eq!(rate(65_001, 9000), Some(0));
        assert_eq!(rate(66_001, i64::MAX), Some(i64::MAX - 9000));
    }
}
