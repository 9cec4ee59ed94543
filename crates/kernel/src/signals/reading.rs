//! Whether a figure is possible.

use evictd_signals::Observation;
use jiff::Timestamp;

/// A figure of a source before it is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reading {
    available: i128,
    capacity: u64,
}

impl Reading {
    /// From a source that reports the available amount.
    pub(super) fn left(available: u64, capacity: u64) -> Self {
        Self {
            available: available.into(),
            capacity,
        }
    }

    /// From a source that reports the used amount. Usage above the capacity can happen and leaves zero: a cgroup may
    /// exceed its limit for a moment, and a limit can be lowered below the usage. Usage above the capacity of the
    /// `machine` is impossible and leaves a negative amount.
    pub(super) fn unused(capacity: u64, used: u64, machine: u64) -> Self {
        let available = i128::from(capacity) - i128::from(used);
        Self {
            available: if used > machine {
                available
            } else {
                available.max(0)
            },
            capacity,
        }
    }

    /// The same, if so much of the available amount cannot be used.
    pub(super) fn less(self, unusable: u64) -> Self {
        let least = self.available.min(0);
        Self {
            available: (self.available - i128::from(unusable)).max(least),
            ..self
        }
    }

    pub(super) const fn capacity(self) -> u64 {
        self.capacity
    }

    /// The observation, unless the figure alone shows that it is impossible.
    pub(super) fn observe(self, now: Timestamp) -> Result<Observation, Impossible> {
        let capacity = i64::try_from(self.capacity).map_err(|_| Impossible::AboveCapacity)?;
        if capacity == 0 {
            return Err(Impossible::NoCapacity);
        }
        if self.available < 0 {
            return Err(Impossible::Negative);
        }
        match i64::try_from(self.available) {
            Ok(available) if available <= capacity => Ok(Observation {
                available,
                capacity,
                time: Some(now),
            }),
            _ => Err(Impossible::AboveCapacity),
        }
    }
}

/// Why a figure is impossible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Impossible {
    #[error("the capacity is zero")]
    NoCapacity,
    #[error("the available amount is negative")]
    Negative,
    #[error("more is available than the capacity")]
    AboveCapacity,
    #[error("the capacity shrank")]
    Shrunk,
}

/// Remembers one signal's capacity. A capacity that shrinks from one observation to the next is usually a bad
/// figure. A real change (memory unplugged, a limit lowered) is accepted once it was seen in
/// [`CapacityGuard::ACCEPTED_AFTER`] consecutive observations. A loss below one part in 64 is accepted at once: balloon
/// drivers and copy-on-write filesystems cause such losses all the time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CapacityGuard {
    capacity: i64,
    shrunk: u8,
}

impl CapacityGuard {
    const ACCEPTED_AFTER: u8 = 3;

    pub(super) fn check(
        &mut self,
        reading: Reading,
        now: Timestamp,
    ) -> Result<Observation, Impossible> {
        let observation = reading.observe(now)?;
        if observation.capacity < self.capacity - self.capacity / 64 {
            self.shrunk += 1;
            if self.shrunk < Self::ACCEPTED_AFTER {
                return Err(Impossible::Shrunk);
            }
        }
        *self = Self {
            capacity: observation.capacity,
            shrunk: 0,
        };
        Ok(observation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    #[test]
    fn possible_and_impossible_figures() {
        let most = u64::MAX;
        let limit = i64::MAX.cast_unsigned();
        let table = [
            (Reading::left(0, 10), Ok((0, 10))),
            (Reading::left(10, 10), Ok((10, 10))),
            (Reading::left(11, 10), Err(Impossible::AboveCapacity)),
            (Reading::left(most, most), Err(Impossible::AboveCapacity)),
            (Reading::left(0, 0), Err(Impossible::NoCapacity)),
            (Reading::left(limit, limit), Ok((i64::MAX, i64::MAX))),
            (Reading::unused(10, 4, 100), Ok((6, 10))),
            (Reading::unused(10, 10, 100), Ok((0, 10))),
            (Reading::unused(10, 12, 100), Ok((0, 10))),
            (Reading::unused(10, 101, 100), Err(Impossible::Negative)),
            (Reading::unused(10, most, 100), Err(Impossible::Negative)),
            (Reading::unused(0, 0, 0), Err(Impossible::NoCapacity)),
        ];
        for (reading, expected) in table {
            let got = reading.observe(NOW).map(|o| (o.available, o.capacity));
            assert_eq!(got, expected, "{reading:?}");
        }
    }

    #[test]
    fn a_smaller_capacity_is_believed_the_third_time() {
        let mut capacity_guard = CapacityGuard::default();
        let mut capacity = |capacity| {
            let admitted = capacity_guard.check(Reading::left(1, capacity), NOW);
            admitted.map(|observation| observation.capacity)
        };
        assert_eq!(capacity(1000), Ok(1000));
        // A wrong figure between correct ones is never accepted.
        for _ in 0..5 {
            assert_eq!(capacity(500), Err(Impossible::Shrunk));
            assert_eq!(capacity(1000), Ok(1000));
        }
        // Growth and small losses are accepted at once.
        assert_eq!(capacity(2000), Ok(2000));
        assert_eq!(capacity(1990), Ok(1990));
        assert_eq!(capacity(1980), Ok(1980));
        // A real change is accepted once it was seen three times.
        assert_eq!(capacity(500), Err(Impossible::Shrunk));
        assert_eq!(capacity(490), Err(Impossible::Shrunk));
        assert_eq!(capacity(500), Ok(500));
        assert_eq!(capacity(500), Ok(500));
    }
}
