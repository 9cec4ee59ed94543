//! What holds in whatever order things happen.

use super::*;
use proptest::prelude::*;

/// One thing that happens to one of three pods.
#[derive(Debug, Clone)]
enum Happening {
    Begin(Cause, i64),
    Killed,
    Ended(Ending),
    Observed {
        runs: Option<bool>,
        listed: bool,
        holds: i64,
    },
    Told(bool),
    Hard,
}

fn happening() -> impl Strategy<Value = (usize, i64, Happening)> {
    let what = prop_oneof![
        4 => (prop_oneof![Just(Cause::Hard), Just(Cause::Soft)], 0..100_i64)
            .prop_map(|(cause, grace)| Happening::Begin(cause, grace)),
        4 => Just(Happening::Killed),
        2 => Just(Happening::Ended(Ending::Gone { at: at(0) })),
        1 => Just(Happening::Ended(Ending::Failed)),
        1 => Just(Happening::Ended(Ending::Blocked { again: seconds(7) })),
        8 => (prop::option::of(any::<bool>()), any::<bool>(), 0..(8_i64 << 20))
            .prop_map(|(runs, listed, holds)| Happening::Observed { runs, listed, holds }),
        1 => any::<bool>().prop_map(Happening::Told),
        1 => Just(Happening::Hard),
    ];
    (0..3_usize, 0..4000_i64, what)
}

proptest! {
    /// Whatever happens in whatever order: only who is in it is ended, the one whose end may still come blocks or is credited,
    /// and every departure comes to an end once nothing more happens.
    #[test]
    fn every_departure_ends_and_no_other_pod_is_terminated(
        happenings in prop::collection::vec(happening(), 1..60)
    ) {
        let mut bench = Bench::default();
        let mut now = 0;
        for (which, later, what) in happenings {
            now += later;
            let uid = ["a", "b", "c"][which];
            let commands = match what {
                Happening::Begin(cause, grace) if !bench.departures.is_terminating(uid) => {
                    let purpose = eviction(cause, Signal::MemoryAvailable);
                    let mut departure = leaving(uid, purpose, seconds(grace));
                    departure.since = at(now);
                    bench.begin(now, departure)
                }
                Happening::Begin(..) => Vec::new(),
                Happening::Killed => bench.event(now, Event::Killed { uid: uid.to_owned() }),
                Happening::Ended(Ending::Gone { .. }) => {
                    bench.gone(now, uid);
                    Vec::new()
                }
                Happening::Ended(ending) => {
                    bench.ends(now, uid, ending);
                    Vec::new()
                }
                Happening::Observed { runs, listed: is_listed, holds } => bench.sees(now, PodState {
                    runs,
                    listed: is_listed,
                    remaining: Some(RemainingUsage { memory: Some(holds), processes: Some(0), ..RemainingUsage::default() }),
                    ..listed(uid, false)
                }),
                Happening::Told(told) => bench.told(uid, told),
                Happening::Hard => {
                    let cut = Event::CutGraces {
                        hard_since: at(now),
                        exhausted_at: Some(at(now + 1000)),
                    };
                    bench.event(now, cut)
                }
            };
            for command in commands {
                let target = command.split(' ').nth(1).unwrap();
                prop_assert!(bench.departures.get(target).is_some() || command.starts_with("let in"), "{command}");
            }
            for departure in bench.departures.iter() {
                let can_still_give_back = match departure.stage() {
                    Stage::Terminating { kill_at, killed } => {
                        at(now) < kill_at
                            || killed.is_none() && at(now).duration_since(kill_at) < CLEANUP_TIMEOUT
                            || killed.is_some_and(|killed| at(now).duration_since(killed) < seconds(2))
                    }
                    _ => false,
                };
                let waits = departure.blocks(at(now), MEMORY, true)
                    || bench.departures.is_credited(&departure.uid, at(now));
                prop_assert!(waits || !can_still_give_back, "{departure:?} at {now}");
            }
        }
        // The hands report how each termination ended; then nothing is listed any more.
        now += 200_000;
        for uid in ["a", "b", "c"] {
            if bench.departures.is_terminating(uid) {
                bench.gone(now, uid);
            }
        }
        now += 31_000;
        for _ in 0..3 {
            now += 61_000;
            for uid in ["a", "b", "c"] {
                bench.sees(now, PodState { listed: false, ..listed(uid, false) });
            }
        }
        prop_assert_eq!(bench.departures.iter().count(), 0);
    }
}
