//! The pools by themselves, row by row.
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::{
    Event, MAX_IN_FLIGHT_EVENTS, Moved, PluginName, PluginSet, Pool, Queue, QueueError,
    QueueingHints, Scope, Settings,
};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

/// An event is the plugin that registered it, and whether its hint says Queue.
type Happening = (u8, bool);

#[derive(Default)]
struct Hints {
    gated: BTreeSet<String>,
    /// As 1.37 does.
    reopens: bool,
    /// That of all pods.
    template: Option<usize>,
    /// How many hints were asked.
    asked: Cell<usize>,
}

impl QueueingHints<Happening> for Hints {
    fn registered(&self, event: &Happening) -> PluginSet {
        by(&[event.0])
    }
    fn wakes(&self, _: PluginName, _: &str, event: &Happening) -> bool {
        self.asked.set(self.asked.get() + 1);
        event.1
    }
    fn template(&self, _: PluginName, _: &str, _: &Happening) -> Option<usize> {
        self.template
    }
    fn gate(&self, pod: &str) -> Option<PluginName> {
        let gated = self.gated.contains(pod);
        gated.then(|| PluginName::ALL[9])
    }
    fn profile(&self, _: &str) -> u16 {
        0
    }
    fn reopens_gated(&self) -> bool {
        self.reopens
    }
}

fn at(milliseconds: i64) -> Timestamp {
    Timestamp::from_millisecond(1_000_000 + milliseconds).unwrap()
}

fn by(plugins: &[u8]) -> PluginSet {
    let plugins = plugins.iter();
    plugins
        .map(|number| PluginName::ALL[usize::from(*number)])
        .collect()
}

fn fails(
    queue: &mut Queue<Happening>,
    plugins: &[u8],
    now: Timestamp,
    hints: &Hints,
) -> Result<Moved, QueueError> {
    queue.failed("a", (by(plugins), PluginSet::default()), now, hints)
}

fn event(plugin: u8, queue: bool) -> Event<Happening> {
    Event {
        label: "NodeAdd",
        object: Some((plugin, queue)),
        scope: Scope::All,
    }
}

#[test]
fn pods_of_one_template_share_the_hint_about_an_event() {
    for (template, asked) in [(Some(7), 1), (None, 3)] {
        let hints = Hints {
            template,
            ..Hints::default()
        };
        let mut queue: Queue<Happening> = Queue::new(Settings::default());
        for pod in ["a", "b", "c"] {
            queue.add(pod.into(), 0, "", at(0), &hints);
            queue.pop().unwrap();
            let failure = (by(&[1]), PluginSet::default());
            queue.failed(pod, failure, at(0), &hints).unwrap();
        }
        assert_eq!(queue.event(event(1, true), at(0), &hints).len(), 3);
        assert_eq!(hints.asked.get(), asked);
    }
}

/// A queue with one pod, `a`, in flight.
fn popped() -> Queue<Happening> {
    let mut queue = Queue::new(Settings::default());
    queue.add("a".into(), 0, "", at(0), &Hints::default());
    queue.pop().unwrap();
    queue
}

#[test]
fn s5_005_priority_then_waiting_time() {
    let mut queue = Queue::new(Settings::default());
    for (pod, priority, time) in [("late", 0, 2), ("early", 0, 1), ("important", 5, 3)] {
        queue.add(pod.into(), priority, "", at(time), &Hints::default());
    }
    let order: Vec<_> = std::iter::from_fn(|| queue.pop())
        .map(|popped| popped.pod.to_string())
        .collect();
    assert_eq!(order, ["important", "early", "late"]);
}

#[test]
fn s5_010_a_pod_that_waited_over_five_minutes_is_tried_again() {
    let mut queue = popped();
    fails(&mut queue, &[1], at(0), &Hints::default()).unwrap();
    assert_eq!(
        queue.flush_unschedulable(at(300_000), &Hints::default()),
        []
    );
    let moved = queue.flush_unschedulable(at(300_001), &Hints::default());
    assert_eq!(
        (moved[0].pool, moved[0].label),
        (Pool::Active, "UnschedulableTimeout")
    );
}

/// A pod whose gate has opened without an event that its gate registered. The flush of 1.37 finds it.
#[test]
fn s7_229_from_1_37_on_a_flush_checks_the_gates_of_pods_that_waited_too_long() {
    for (reopens, is_open, after, pool) in [
        (false, true, 300_001, Pool::Gated),
        (true, true, 300_000, Pool::Gated),
        (true, true, 300_001, Pool::Active),
        (true, false, 300_001, Pool::Gated),
    ] {
        let mut queue = Queue::new(Settings::default());
        let gated = BTreeSet::from(["a".to_owned()]);
        let closed = Hints {
            gated,
            reopens,
            ..Hints::default()
        };
        queue.add("a".into(), 0, "", at(0), &closed);
        let gated = if is_open {
            BTreeSet::new()
        } else {
            closed.gated
        };
        queue.flush_unschedulable(
            at(after),
            &Hints {
                gated,
                reopens,
                ..Hints::default()
            },
        );
        assert_eq!(queue.count(pool), 1, "{reopens} {is_open} {after}");
    }
}

#[test]
fn s5_012_only_the_hints_of_the_rejectors_decide() {
    let mut queue = popped();
    fails(&mut queue, &[1], at(0), &Hints::default()).unwrap();
    assert_eq!(queue.event(event(2, true), at(1), &Hints::default()), []);
    assert_eq!(queue.event(event(1, false), at(1), &Hints::default()), []);
    assert_eq!(
        queue.event(event(1, true), at(1), &Hints::default())[0].pool,
        Pool::Backoff
    );
}

#[test]
fn s5_016_an_event_during_the_attempt_counts() {
    let mut queue = popped();
    queue.event(event(1, true), at(1), &Hints::default());
    assert_eq!(queue.in_flight_events().count(), 1);
    let moved = fails(&mut queue, &[1], at(2), &Hints::default()).unwrap();
    assert_eq!(
        (moved.pool, queue.in_flight_events().count()),
        (Pool::Backoff, 0)
    );
    let mut queue = popped();
    let moved = fails(&mut queue, &[], at(2), &Hints::default()).unwrap();
    assert_eq!(moved.pool, Pool::ErrorBackoff);
    assert_eq!(queue.pop(), None);
}

#[test]
fn s5_017_a_failure_of_a_waiting_pod_is_an_error() {
    let mut queue = popped();
    queue.add("a".into(), 0, "", at(1), &Hints::default());
    let told = fails(&mut queue, &[1], at(1), &Hints::default());
    assert_eq!(
        (told, queue.in_flight().count()),
        (Err(QueueError::AlreadyQueued("a".into())), 0)
    );
}

#[test]
fn s5_033_a_pending_plugin_skips_the_backoff() {
    let mut queue = popped();
    let (pending, hints) = (by(&[1]), Hints::default());
    queue
        .failed("a", (PluginSet::default(), pending), at(0), &hints)
        .unwrap();
    assert_eq!(
        queue.event(event(1, true), at(1), &Hints::default())[0].pool,
        Pool::Active
    );
}

#[test]
fn s5_034_activation_ignores_the_backoff() {
    let mut queue = popped();
    assert_eq!(queue.activate("a", at(0), &Hints::default()), None);
    let moved = fails(&mut queue, &[1], at(0), &Hints::default()).unwrap();
    assert_eq!(moved.pool, Pool::Backoff);
    assert_eq!(
        queue.activate("a", at(0), &Hints::default()).unwrap().pool,
        Pool::Active
    );
}

#[test]
fn s5_036_the_gate_is_checked_again_after_a_failure_of_a_pod_popped_from_backoff() {
    let mut queue = popped();
    queue.event(event(1, true), at(1), &Hints::default());
    fails(&mut queue, &[1], at(2), &Hints::default()).unwrap();
    assert!(queue.pop().unwrap().from_backoff);
    let gate = Hints {
        gated: ["a".to_owned()].into(),
        ..Hints::default()
    };
    let moved = fails(&mut queue, &[], at(3), &gate).unwrap();
    assert_eq!(moved.pool, Pool::Gated);
}

#[test]
fn s5_038_the_first_pod_in_backoff_is_popped_if_none_is_active() {
    let mut queue = popped();
    queue.event(event(1, true), at(1), &Hints::default());
    fails(&mut queue, &[1], at(2), &Hints::default()).unwrap();
    let again = queue.pop().unwrap();
    assert!(again.from_backoff && again.attempts == 2);
}

#[test]
fn s5_108_backoff_ends_when_its_second_has_passed() {
    let mut queue = popped();
    fails(&mut queue, &[], at(500), &Hints::default()).unwrap();
    assert_eq!(queue.flush_backoff(at(1_999)), []);
    assert_eq!(queue.flush_backoff(at(2_000))[0].label, "BackoffComplete");
}

#[test]
fn s5_110_a_gated_pod_is_woken_by_its_gate_alone() {
    let gate = Hints {
        gated: ["a".to_owned()].into(),
        ..Hints::default()
    };
    let mut queue = Queue::new(Settings::default());
    let moved = queue.add("a".into(), 0, "", at(0), &gate).unwrap();
    assert_eq!(moved.pool, Pool::Gated);
    let wildcard = Event {
        label: "UnschedulableTimeout",
        object: None,
        scope: Scope::All,
    };
    assert_eq!(queue.event(wildcard, at(1), &Hints::default()), []);
    assert_eq!(
        queue.event(event(9, true), at(1), &Hints::default())[0].pool,
        Pool::Active
    );
}

#[test]
fn events_in_flight_are_bounded_and_a_pod_whose_events_were_dropped_is_woken() {
    let mut queue = popped();
    queue.event(event(1, true), at(1), &Hints::default());
    for _ in 0..2 * MAX_IN_FLIGHT_EVENTS {
        queue.event(event(1, false), at(1), &Hints::default());
    }
    assert!(queue.in_flight_events().count() <= MAX_IN_FLIGHT_EVENTS);
    let moved = fails(&mut queue, &[1], at(2), &Hints::default()).unwrap();
    assert_eq!(moved.pool, Pool::Backoff);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]
    #[test]
    fn no_pod_is_lost_and_none_misses_its_event(steps in prop::collection::vec((0_u8..8, 0_u8..6, 0_u8..3), 1..80)) {
        let mut queue = Queue::new(Settings { max_unschedulable: SignedDuration::from_secs(5), ..Settings::default() });
        let (mut alive, mut flying, mut woken) = (BTreeSet::new(), Vec::<Arc<str>>::new(), BTreeSet::<(Arc<str>, u8)>::new());
        for (step, (action, pod, plugin)) in steps.into_iter().enumerate() {
            let now = at(i64::try_from(step).unwrap() * 700);
            let name: Arc<str> = format!("p{pod}").into();
            let hints = Hints::default();
            match action {
                0 | 1 if !alive.contains(&name) => {
                    queue.add(Arc::clone(&name), i32::from(plugin), "", now, &hints);
                    alive.insert(name);
                }
                2 => flying.extend(queue.pop().map(|popped| popped.pod)),
                3 | 4 if !flying.is_empty() => {
                    let pod = flying.remove(0);
                    let moved = queue.failed(&pod, (by(&[plugin]), PluginSet::default()), now, &hints).unwrap();
                    let expected = if woken.contains(&(Arc::clone(&pod), plugin)) { Pool::Backoff } else { moved.pool };
                    prop_assert_eq!(moved.pool, expected);
                    woken.retain(|(other, _)| *other != pod);
                }
                5 => {
                    queue.event(event(plugin, true), now, &hints);
                    woken.extend(flying.iter().map(|pod| (Arc::clone(pod), plugin)));
                }
                6 => drop(queue.flush_backoff(now)),
                7 if !flying.contains(&name) => {
                    queue.delete(&name);
                    alive.remove(&name);
                }
                _ => drop(queue.flush_unschedulable(now, &hints)),
            }
            prop_assert_eq!(queue.len() + queue.in_flight().count(), alive.len());
        }
    }
}
