//! Whether an eviction waits for a reclaim.

use super::{Gain, Outlook, PATIENCE};
use jiff::{SignedDuration, Timestamp};

/// For something of unknown size an eviction waits no longer than this.
const FOR_THE_UNKNOWN: SignedDuration = SignedDuration::from_secs(2);
/// A signal that is exhausted within this time leaves none for a reclaim: an eviction needs it to free something itself.
const RESERVE: SignedDuration = SignedDuration::from_secs(2);

/// How an eviction acts while a reclaim is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// It waits, until then at most; each later look may decide otherwise.
    Until(Timestamp),
    /// It continues, and the removal continues beside it.
    GoOn,
}

/// An eviction waits only for a reclaim that can free `short` (minimum reclaim included, in the unit of `gain`) before
/// the signal is exhausted. That happens `exhausted_in` from now; `None` if it is not foreseen. It waits while the
/// runtime makes progress, and shorter if only objects of unknown size could be enough.
pub fn wait(
    now: Timestamp,
    short: i64,
    (outlook, gain): (&Outlook, Gain),
    exhausted_in: Option<SignedDuration>,
) -> Wait {
    let latest = if gain.known >= short {
        outlook.progress.saturating_add(PATIENCE)
    } else if gain.uncertain {
        outlook.began.saturating_add(FOR_THE_UNKNOWN)
    } else {
        return Wait::GoOn;
    };
    let latest = latest.unwrap_or(now);
    let left = exhausted_in.map(|left| left.saturating_sub(RESERVE));
    let in_time = left.and_then(|left| now.saturating_add(left).ok());
    let until = in_time.map_or(latest, |in_time| latest.min(in_time));
    if until > now {
        Wait::Until(until)
    } else {
        Wait::GoOn
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(millisecond: i64) -> Timestamp {
        Timestamp::from_millisecond(millisecond).unwrap()
    }

    fn gain(known: i64, uncertain: bool) -> Gain {
        Gain { known, uncertain }
    }

    /// A reclaim that began at 0 and last did something at 5 s; now it is 6 s.
    fn decide(short: i64, gain: Gain, exhausted_in: Option<i64>) -> Wait {
        let outlook = Outlook {
            began: at(0),
            progress: at(5000),
            ..Outlook::unknown(at(0))
        };
        let left = exhausted_in.map(SignedDuration::from_millis);
        wait(at(6000), short, (&outlook, gain), left)
    }

    #[test]
    fn a_reclaim_that_covers_the_shortage_is_waited_for_while_time_is_left() {
        let until = |millisecond| Wait::Until(at(millisecond));
        let table = [
            ("enough", 10, gain(10, false), None, until(15_000)),
            ("too little", 11, gain(10, false), None, Wait::GoOn),
            ("nothing", 1, gain(0, false), None, Wait::GoOn),
            (
                "it fills slowly",
                10,
                gain(10, false),
                Some(60_000),
                until(15_000),
            ),
            ("it fills", 10, gain(10, false), Some(4_500), until(8_500)),
            (
                "it is full soon",
                10,
                gain(10, false),
                Some(2_000),
                Wait::GoOn,
            ),
            ("it is full", 10, gain(99, true), Some(0), Wait::GoOn),
            (
                "unknown, and waited for long enough",
                11,
                gain(10, true),
                None,
                Wait::GoOn,
            ),
        ];
        for (case, short, gain, exhausted_in, expected) in table {
            assert_eq!(decide(short, gain, exhausted_in), expected, "{case}");
        }
        let unknown = Outlook::unknown(at(0));
        let of_unknown = |now, left| wait(at(now), 1, (&unknown, unknown.bytes), left);
        assert_eq!(of_unknown(0, None), until(2000));
        assert_eq!(of_unknown(1999, None), until(2000));
        assert_eq!(of_unknown(2000, None), Wait::GoOn);
        let soon = Some(SignedDuration::from_millis(1500));
        assert_eq!(of_unknown(0, soon), Wait::GoOn);
    }

    proptest! {
        #[test]
        fn no_wait_outlasts_the_signal_and_a_smaller_gain_never_waits_longer(
            short in 0_i64..100,
            known in 0_i64..100,
            less in 0_i64..100,
            uncertain: bool,
            progress in 0_i64..20_000,
            passed in 0_i64..20_000,
            left in prop::option::of(0_i64..30_000),
        ) {
            let now = at(progress + passed);
            let outlook = Outlook { progress: at(progress), ..Outlook::unknown(at(0)) };
            let left = left.map(SignedDuration::from_millis);
            let decide = |known, uncertain| wait(now, short, (&outlook, gain(known, uncertain)), left);
            let until = |decided| match decided {
                Wait::Until(until) => until,
                Wait::GoOn => now,
            };
            let decided = until(decide(known, uncertain));
            if let Some(left) = left {
                prop_assert!(decided.duration_since(now) <= left.saturating_sub(RESERVE).max(SignedDuration::ZERO));
            }
            prop_assert!(decided.duration_since(at(progress)) <= PATIENCE || decided == now);
            prop_assert!(until(decide(known.min(less), uncertain)) <= decided);
            if known < short && !uncertain {
                prop_assert_eq!(decided, now);
            }
        }
    }
}
