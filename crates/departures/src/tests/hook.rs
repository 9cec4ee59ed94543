//! The pre-kill hook: when there is time for it, and that no kill is late because of it.

use super::*;
use proptest::prelude::*;

const BUDGET: i64 = 500;

fn hooked(purpose: Purpose, grace: i64, exhausted: Option<i64>) -> Departure {
    let mut departure = leaving("a", purpose, SignedDuration::from_millis(grace));
    let budget = SignedDuration::from_millis(BUDGET);
    departure.allow_hook(at(0), budget, exhausted.map(at), false);
    departure
}

pub(super) fn cut_graces(hard_since: Timestamp) -> Event {
    Event::CutGraces {
        hard_since,
        exhausted_at: None,
    }
}

fn cut(hard_since: i64, exhausted: Option<i64>) -> Event {
    Event::CutGraces {
        hard_since: at(hard_since),
        exhausted_at: exhausted.map(at),
    }
}

fn hook_ended() -> Event {
    Event::HookEnded { uid: "a".into() }
}

#[test]
fn there_is_time_for_a_hook_before_soft_evictions_and_before_hard_ones_that_are_far_from_the_end() {
    let storage = || eviction(Cause::LocalStorage, Signal::NodefsAvailable);
    let rejection = || Purpose::Rejection { conditions: vec![] };
    for (purpose, exhausted, expected) in [
        (soft(), None, true),
        (soft(), Some(2500), true),
        // The kernel needs 2 s after the kill.
        (soft(), Some(2499), false),
        (hard(), Some(2500), true),
        (hard(), Some(2499), false),
        (hard(), Some(0), false),
        // An unknown forecast is no time.
        (hard(), None, false),
        (storage(), None, false),
        (rejection(), None, false),
        (Purpose::Deleted, None, false),
    ] {
        let case = format!("{purpose:?} {exhausted:?}");
        assert_eq!(
            hooked(purpose, 0, exhausted).hook.is_some(),
            expected,
            "{case}"
        );
    }
}

#[test]
fn there_is_no_time_for_a_hook_while_a_hard_threshold_of_another_resource_acts() {
    let budget = SignedDuration::from_millis(BUDGET);
    for purpose in [soft(), hard()] {
        let mut departure = leaving("a", purpose, SignedDuration::ZERO);
        departure.allow_hook(at(0), budget, Some(at(60_000)), true);
        assert_eq!(departure.hook, None, "{:?}", departure.purpose);
    }
}

#[test]
fn the_grace_period_begins_when_the_hook_ends_and_at_the_latest_after_its_budget() {
    let mut bench = Bench::of(hooked(soft(), 10_000, None));
    let kill_at = |bench: &Bench| bench.departures.get("a").unwrap().kill_at();
    assert_eq!(kill_at(&bench), at(10_500));
    let waits = bench.departures.get("a").unwrap().waits_for().unwrap();
    assert_eq!(
        waits,
        (
            "the pre-kill hook runs, then its grace period begins",
            Some(at(500))
        )
    );
    bench.event(200, hook_ended());
    assert_eq!(kill_at(&bench), at(10_200));
    bench.event(300, hook_ended());
    assert_eq!(kill_at(&bench), at(10_200), "it ends once");
    // The message of its end was late: the grace period is not longer for that.
    let mut late = Bench::of(hooked(soft(), 10_000, None));
    late.event(4000, hook_ended());
    assert_eq!(kill_at(&late), at(10_500));
}

#[test]
fn a_hook_ends_at_once_when_there_is_no_time_left_for_it() {
    for (purpose, exhausted, now, event, expected) in [
        // A hard threshold is crossed: hook and grace period of a soft victim end.
        (soft(), None, 100, cut(100, None), "cut a"),
        // A soft victim that was chosen after the crossing keeps both, as long as there is time.
        (soft(), None, 100, cut(-1, None), ""),
        (soft(), None, 100, cut(-1, Some(2499)), "hook a"),
        (hard(), Some(60_000), 100, cut(-1, Some(50_000)), ""),
        (hard(), Some(60_000), 100, cut(-1, None), ""),
        (hard(), Some(60_000), 100, cut(-1, Some(2499)), "hook a"),
        (hard(), Some(60_000), 500, cut(-1, None), "hook a"),
        // Its own threshold is met since the decision; another one only now.
        (hard(), Some(60_000), 100, cut(0, None), ""),
        (hard(), Some(60_000), 100, cut(50, None), "hook a"),
    ] {
        let case = format!("{purpose:?} {event:?}");
        let mut bench = Bench::of(hooked(purpose, 1000, exhausted));
        assert_eq!(bench.event(now, event).join(","), expected, "{case}");
        let kill_at = bench.departures.get("a").unwrap().kill_at();
        let latest = match expected {
            "cut a" => now,
            "hook a" => now + 1000,
            _ => 1500,
        };
        assert_eq!(kill_at, at(latest), "{case}");
    }
}

#[test]
fn a_pod_that_runs_again_is_ended_without_the_hook() {
    let mut departure = hooked(soft(), 0, None);
    departure.notice_state = NoticeState::Pending;
    let mut bench = Bench::of(departure).under(NodeCondition::MemoryPressure);
    bench.context.transition_period = seconds(300);
    bench.event(100, hook_ended());
    bench.gone(200, "a");
    bench.sees(1050, listed("a", false));
    let again = bench.sees(2100, listed("a", true));
    assert_eq!(again, ["end a again in 0 s"]);
    assert_eq!(bench.departures.get("a").unwrap().kill_at(), at(2100));
}

proptest! {
    /// Whatever is reported, and whenever: no kill is later than the budget and the grace period say, and it never moves
    /// back.
    #[test]
    fn no_kill_is_later_than_the_budget_and_the_grace_period(
        is_hard in any::<bool>(),
        grace in 0..20_000_i64,
        events in prop::collection::vec((0..2000_i64, 0..4_u8, prop::option::of(0..30_000_i64)), 0..12)
    ) {
        let purpose = if is_hard { hard() } else { soft() };
        let mut bench = Bench::of(hooked(purpose, grace, Some(100_000)));
        let (mut now, mut before) = (0, at(BUDGET + grace));
        for (later, what, exhausted) in events {
            now += later;
            match what {
                0 => bench.event(now, hook_ended()),
                1 => bench.event(now, Event::Killed { uid: "a".into() }),
                2 => bench.event(now, cut(now, exhausted)),
                _ => bench.event(now, cut(-1, exhausted)),
            };
            let kill_at = bench.departures.get("a").unwrap().kill_at();
            prop_assert!(kill_at <= before, "{kill_at} after {before}");
            before = kill_at;
        }
    }
}
