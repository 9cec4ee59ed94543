//! When to ask again somebody who did not answer.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

const FIRST: Duration = Duration::from_millis(500);
const LAST: Duration = Duration::from_secs(30);

/// Waits that double, each with a part of chance in it: the agents of a thousand nodes lose one API server at once, and
/// must not come back to it at once.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: FIRST }
    }
}

impl Backoff {
    /// How long to wait this time: between half of the wait and all of it.
    pub(super) fn wait(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(LAST);
        // A fresh hasher is keyed by the machine's random numbers.
        let chance = RandomState::new().hash_one(()) % 1024;
        wait / 2 + wait / 2048 * u32::try_from(chance).unwrap_or(0)
    }

    /// It answered.
    pub(super) fn reset(&mut self) {
        self.next = FIRST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_limit_and_differ() {
        let mut backoff = Backoff::default();
        let mut most = FIRST;
        for _ in 0..20 {
            let wait = backoff.wait();
            assert!(wait >= most / 2 && wait <= most, "{wait:?} of {most:?}");
            most = (most * 2).min(LAST);
        }
        let waits: Vec<_> = (0..5).map(|_| backoff.wait()).collect();
        assert!(waits.iter().any(|wait| *wait != waits[0]), "{waits:?}");
        backoff.reset();
        assert!(backoff.wait() <= FIRST);
    }
}
