//! The life of one pod: single transitions.

mod properties;

use super::{Binding, Command, Event, Phase, PodLifecycles, WaitingPod};
use crate::evidence::Evidence;
use crate::plugins::{PluginName, PluginSet};
use crate::pre_bind::PreBindPlan;
use crate::queue::{QueueError, QueueingHints, Settings};
use crate::scheduling_algorithm::ScheduleResult;
use evictd_placement::Cluster;
use evictd_pod::wire;
use jiff::{SignedDuration, Timestamp};
use std::sync::Arc;

/// Every plugin registers every event, and an event wakes the pods that it rejected if it is true.
struct Hints;

impl QueueingHints<bool> for Hints {
    fn registered(&self, _: &bool) -> PluginSet {
        rejectors().or([PluginName::DefaultPreemption].into_iter().collect())
    }
    fn wakes(&self, _: PluginName, _: &str, event: &bool) -> bool {
        *event
    }
    fn gate(&self, _: &str) -> Option<PluginName> {
        None
    }
    fn profile(&self, _: &str) -> u16 {
        0
    }
}

fn rejectors() -> PluginSet {
    [PluginName::NodeResourcesFit].into_iter().collect()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn binding(now: Timestamp) -> Binding {
    Binding {
        pod: Arc::new(wire::Pod::default()),
        attempts: 1,
        began: now,
        arrived: None,
        is_of_session: false,
    }
}

fn waiting(now: Timestamp, gang: Option<&str>) -> Box<WaitingPod> {
    let mut cluster = Cluster::new();
    let node = serde_json::from_str(r#"{"metadata": {"name": "one"}}"#).unwrap();
    cluster.update_node(&node);
    Box::new(WaitingPod {
        pod: Arc::new(wire::Pod::default()),
        attempts: 1,
        profile: 0,
        node: "one".into(),
        result: ScheduleResult {
            chosen: cluster.find_node("one").unwrap(),
            feasible: 1,
            score: None,
            top: Vec::new(),
            nodes: Vec::new(),
            evidence: Evidence::default(),
        },
        pre_bind: PreBindPlan::default(),
        since: now,
        pending: Vec::new(),
        gang: gang.map(Arc::from),
    })
}

/// One pod, `a`.
struct Single {
    lifecycles: PodLifecycles<bool>,
    pod: Arc<str>,
    now: i64,
}

impl Single {
    fn new() -> Self {
        let mut single = Self {
            lifecycles: PodLifecycles::new(Settings::default()),
            pod: "a".into(),
            now: 0,
        };
        single.pending("");
        single
    }

    fn on(&mut self, event: Event<'_, bool>) -> Vec<Command> {
        self.now += 1;
        self.lifecycles.on_event(at(self.now), event, &Hints)
    }

    fn pending(&mut self, nominated: &str) {
        let pod = &Arc::clone(&self.pod);
        self.on(Event::Pending {
            pod,
            priority: 0,
            nominated,
        });
    }

    fn assume(&mut self) {
        self.lifecycles.pop().unwrap();
        let pod = &Arc::clone(&self.pod);
        self.on(Event::Assumed { pod, node: "one" });
    }

    fn bind(&mut self) -> Vec<Command> {
        let binding = Some(binding(at(self.now)));
        self.on(Event::Done { pod: "a", binding })
    }

    /// The pod is being bound.
    fn binding() -> Self {
        let mut single = Self::new();
        single.assume();
        assert!(matches!(single.bind()[..], [Command::Bind]));
        single
    }

    fn answer(&mut self, is_bound: bool) -> Vec<Command> {
        self.on(Event::Answered { pod: "a", is_bound })
    }

    fn assigned(&mut self, node: &str) -> Vec<Command> {
        self.on(Event::Assigned { pod: "a", node })
    }

    fn gone(&mut self) -> Vec<Command> {
        self.on(Event::Gone { pod: "a" })
    }

    fn failed(&mut self) -> Vec<Command> {
        self.on(Event::Failed {
            pod: "a",
            rejectors: rejectors(),
            pending: PluginSet::default(),
            nominated: Some(""),
        })
    }

    fn phase(&self) -> Option<Phase> {
        self.lifecycles.phase("a")
    }

    fn node(&self) -> Option<&str> {
        self.lifecycles.assumed_node("a").map(|node| &**node)
    }
}

#[test]
fn a_pod_passes_through_its_phases_until_it_is_bound() {
    let mut single = Single::new();
    assert_eq!((single.phase(), single.node()), (Some(Phase::Active), None));
    single.lifecycles.pop().unwrap();
    assert_eq!(single.phase(), Some(Phase::InFlight));
    single.failed();
    assert_eq!(single.phase(), Some(Phase::Unschedulable));
    single.lifecycles.activate("a", at(1), &Hints);
    single.assume();
    assert_eq!(single.phase(), Some(Phase::Assumed));
    let event = Event::Delayed {
        pod: "a",
        waiting: waiting(at(1), None),
    };
    single.on(event);
    assert_eq!(
        (single.phase(), single.node()),
        (Some(Phase::Permit), Some("one"))
    );
    assert!(single.lifecycles.has_waiting_pods());
    single.bind();
    assert!(!single.lifecycles.has_waiting_pods());
    assert_eq!(
        (single.phase(), single.node()),
        (Some(Phase::Binding), Some("one"))
    );
    assert!(matches!(single.answer(true)[..], [Command::Announce(_)]));
    assert_eq!(
        (single.phase(), single.node()),
        (Some(Phase::Bound), Some("one"))
    );
    assert!(single.assigned("one").is_empty());
    assert_eq!((single.phase(), single.node()), (None, None));
}

#[test]
fn the_watch_may_show_the_node_before_the_answer_arrives() {
    let mut single = Single::binding();
    assert!(single.assigned("one").is_empty());
    assert_eq!(
        (single.phase(), single.node()),
        (Some(Phase::Assigned), None)
    );
    assert!(matches!(single.answer(true)[..], [Command::Announce(_)]));
    assert_eq!(single.phase(), None);
}

#[test]
fn a_binding_that_fails_after_the_watch_has_shown_the_node_frees_nothing() {
    let mut single = Single::binding();
    single.assigned("one");
    assert!(matches!(single.answer(false)[..], [Command::Keep(_)]));
    assert_eq!(single.phase(), None);
    assert!(matches!(
        single.failed()[..],
        [Command::Refuse(QueueError::NotInFlight(_))]
    ));
}

#[test]
fn s5_065_a_pod_that_was_not_bound_gives_back_its_node_and_waits_again() {
    let mut single = Single::binding();
    assert!(
        matches!(&single.answer(false)[..], [Command::Unbind { node, .. }] if **node == *"one")
    );
    let freed = single.on(Event::Forgotten { pod: "a" });
    assert!(matches!(freed[..], [Command::Free { .. }]));
    assert!(single.on(Event::Forgotten { pod: "a" }).is_empty());
    single.failed();
    assert_eq!(
        (single.phase(), single.node()),
        (Some(Phase::Backoff), None)
    );
}

#[test]
fn another_node_than_the_assumed_or_nominated_one_frees_that_one() {
    let mut single = Single::binding();
    assert!(matches!(&single.assigned("two")[..], [Command::Free { node }] if **node == *"one"));
    let mut single = Single::new();
    single.gone();
    single.pending("three");
    assert_eq!(single.lifecycles.nominated_on("three").len(), 1);
    assert!(matches!(&single.assigned("two")[..], [Command::Free { node }] if **node == *"three"));
    assert_eq!(single.lifecycles.nominations().count(), 0);
}

#[test]
fn a_pod_that_comes_back_is_not_bound_while_its_earlier_binding_is_unanswered() {
    let mut single = Single::binding();
    assert!(matches!(single.gone()[..], [Command::Free { .. }]));
    assert_eq!(single.phase(), None);
    single.pending("");
    assert_eq!(single.phase(), Some(Phase::Active));
    assert!(single.lifecycles.awaits_answer("a"));
    single.assume();
    assert!(single.bind().is_empty());
    single.pending("");
    assert!(single.answer(true).is_empty(), "it was another life");
    assert!(!single.lifecycles.awaits_answer("a"));
    single.assume();
    assert!(matches!(single.bind()[..], [Command::Bind]));
}

#[test]
fn a_terminating_pod_frees_its_node_once_and_does_not_enter_the_queue() {
    let mut single = Single::binding();
    let freed = single.on(Event::Terminating { pod: "a" });
    assert!(matches!(freed[..], [Command::Free { .. }]));
    assert_eq!(
        (single.phase(), single.node()),
        (Some(Phase::Binding), None)
    );
    assert!(single.gone().is_empty());
}

#[test]
fn a_backoff_is_kept_through_a_binding_that_fails() {
    let mut single = Single::new();
    single.lifecycles.pop().unwrap();
    single.failed();
    single.lifecycles.activate("a", at(1), &Hints);
    single.assume();
    single.bind();
    assert_eq!(single.lifecycles.arrived("a"), Some(at(1)));
    single.answer(false);
    single.failed();
    let waiting = single.lifecycles.queue().queued_pod("a").unwrap();
    assert_eq!((waiting.attempts, waiting.unschedulable_count), (2, 2));
    let ends = waiting.backoff_until.unwrap();
    assert_eq!(
        ends.duration_since(waiting.since),
        SignedDuration::from_secs(2)
    );
}

/// A pod that a batch session binds, on which no watch shows a node.
fn of_session() -> Single {
    let mut single = Single::new();
    single.gone();
    let binding = Binding {
        is_of_session: true,
        ..binding(at(1))
    };
    let pod = &Arc::clone(&single.pod);
    let node = "one";
    let commands = single.on(Event::BoundBySession { pod, node, binding });
    assert!(matches!(commands[..], [Command::Bind]));
    // The caller reports it as assigned, which confirms nothing.
    assert!(single.assigned("one").is_empty());
    single
}

impl Single {
    fn shown(&mut self, has_node: bool, terminates: bool) {
        let pod = "a";
        self.on(Event::Shown {
            pod,
            has_node,
            terminates,
        });
    }

    fn node_of_session(&self) -> Option<&str> {
        self.lifecycles.node_of_session("a").map(|node| &**node)
    }
}

#[test]
fn an_older_watch_event_does_not_undo_a_binding_of_a_session_and_a_failure_does() {
    let mut single = of_session();
    single.shown(false, false);
    assert_eq!(single.node_of_session(), Some("one"));
    assert!(matches!(single.answer(false)[..], [Command::Unbind { .. }]));
    assert_eq!((single.node_of_session(), single.phase()), (None, None));
    // A failure does not undo what a watch shows.
    let mut single = of_session();
    single.shown(true, false);
    assert_eq!(single.node_of_session(), None);
    assert!(matches!(single.answer(false)[..], [Command::Keep(_)]));
    // The answer comes first.
    let mut single = of_session();
    assert!(matches!(single.answer(true)[..], [Command::Announce(_)]));
    single.shown(false, false);
    assert_eq!(single.node_of_session(), Some("one"));
    single.shown(true, false);
    assert_eq!((single.node_of_session(), single.phase()), (None, None));
}

#[test]
fn an_eviction_by_a_session_counts_until_it_is_shown_or_has_failed() {
    let mut single = of_session();
    let pod = &Arc::clone(&single.pod);
    single.on(Event::EvictedBySession { pod });
    single.shown(false, false);
    assert!(single.lifecycles.evicted_at("a").is_some());
    let commands = single.on(Event::EvictionFailed { pod });
    assert!(matches!(commands[..], [Command::Restore]));
    assert!(single.on(Event::EvictionFailed { pod }).is_empty());
    single.on(Event::EvictedBySession { pod });
    single.shown(false, true);
    assert!(single.on(Event::EvictionFailed { pod }).is_empty());
    single.on(Event::EvictedBySession { pod });
    single.gone();
    assert!(single.lifecycles.evicted_at("a").is_some(), "it has ended");
    single.on(Event::Deleted { pod });
    assert_eq!(single.lifecycles.evicted_at("a"), None);
    assert_eq!(single.node_of_session(), None);
}
