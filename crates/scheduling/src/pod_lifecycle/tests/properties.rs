//! Events in every order: no pod is lost, bound twice, or keeps room when it is gone.

use super::super::{Binding, Command, Event, PodLifecycles};
use super::{Hints, at, binding, rejectors, waiting};
use crate::plugins::PluginSet;
use crate::queue::{self, Scope, Settings};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Debug, Clone)]
enum Step {
    Add,
    Update,
    Terminate,
    Delete,
    /// A watch shows the pod on the node where the API server has it, or where someone else puts it.
    Assign,
    Pop,
    /// The attempt of a pod in flight ends: fails, is placed, or is placed and waits for permits.
    End(u8),
    /// A pod that waits for permits is bound, or rejected.
    Permit(bool),
    Answer(bool),
    Wake(bool),
    Seconds(u8),
    /// The victims of a waiting pod are deleted.
    Preempt,
    /// Only the last victim is left, which terminates already or not.
    LastVictim(bool),
    VictimTerminates,
    EndPreemption {
        has_failed: bool,
    },
}

fn step() -> impl Strategy<Value = (u8, Step)> {
    let step = prop_oneof![
        4 => Just(Step::Add),
        1 => Just(Step::Update),
        1 => Just(Step::Terminate),
        2 => Just(Step::Delete),
        2 => Just(Step::Assign),
        5 => Just(Step::Pop),
        6 => (0..4_u8).prop_map(Step::End),
        3 => any::<bool>().prop_map(Step::Permit),
        4 => any::<bool>().prop_map(Step::Answer),
        2 => any::<bool>().prop_map(Step::Wake),
        2 => (0..20_u8).prop_map(Step::Seconds),
        3 => Just(Step::Preempt),
        2 => any::<bool>().prop_map(Step::LastVictim),
        1 => Just(Step::VictimTerminates),
        2 => any::<bool>().prop_map(|has_failed| Step::EndPreemption { has_failed }),
    ];
    (0..4_u8, step)
}

/// A pod as watches show it.
#[derive(Debug, Clone, Default)]
struct Seen {
    is_assigned: bool,
    terminates: bool,
    /// The API server has bound it.
    is_bound: bool,
}

struct World {
    lifecycles: PodLifecycles<bool>,
    now: i64,
    pods: BTreeMap<Arc<str>, Seen>,
    /// Attempts that are not over.
    flights: BTreeSet<Arc<str>>,
    /// Bindings that are not answered, and whether the pod still exists for which it was asked.
    calls: BTreeMap<Arc<str>, bool>,
    /// The nodes that pods count on although no watch shows them there.
    room: BTreeMap<Arc<str>, Arc<str>>,
    /// The preemptors whose deletions are not all answered, and whether only the last victim is left.
    preemptions: BTreeMap<Arc<str>, bool>,
}

fn victim_of(pod: &str) -> String {
    format!("victim of {pod}")
}

impl World {
    fn new() -> Self {
        Self {
            lifecycles: PodLifecycles::new(Settings::default()),
            now: 0,
            pods: BTreeMap::new(),
            flights: BTreeSet::new(),
            calls: BTreeMap::new(),
            room: BTreeMap::new(),
            preemptions: BTreeMap::new(),
        }
    }

    fn on(&mut self, pod: &Arc<str>, event: Event<'_, bool>) -> Vec<Command> {
        let commands = self.lifecycles.on_event(at(self.now), event, &Hints);
        for command in &commands {
            match command {
                Command::Bind => {
                    let seen = &self.pods[pod];
                    assert!(!seen.is_bound && !seen.is_assigned, "{pod} is bound twice");
                    let before = self.calls.insert(Arc::clone(pod), true);
                    assert_eq!(before, None, "{pod} is being bound already");
                }
                Command::Free { .. } => {
                    self.room.remove(pod);
                }
                Command::Announce(_) | Command::Unbind { .. } | Command::Keep(_) => {
                    assert!(self.pods.contains_key(pod), "{pod} is gone");
                }
                Command::Count(_)
                | Command::Refuse(_)
                | Command::Restore
                | Command::DeleteVictims => {}
                Command::Ungate { pod, activates } => {
                    if *activates {
                        self.lifecycles.activate(pod, at(self.now), &Hints);
                    }
                }
            }
        }
        commands
    }

    fn is_pending(&self, pod: &str) -> bool {
        self.pods.get(pod).is_some_and(|seen| !seen.is_assigned)
    }

    fn fail(&mut self, pod: &Arc<str>, rejectors: PluginSet) {
        let event = Event::Failed {
            pod,
            rejectors,
            pending: PluginSet::default(),
            nominated: self.is_pending(pod).then_some(""),
        };
        self.on(pod, event);
    }

    fn bind(&mut self, pod: &Arc<str>) {
        let binding = Some(binding(at(self.now)));
        self.on(pod, Event::Done { pod, binding });
    }

    /// The attempt of a pod ends, as a scheduler ends it.
    fn end(&mut self, pod: &Arc<str>, how: u8) {
        if !self.flights.contains(pod) || self.lifecycles.waiting_pod(pod).is_some() {
            return;
        }
        if self.pods.get(pod).is_some_and(|seen| seen.terminates) {
            self.flights.remove(pod);
            self.on(pod, Event::Done { pod, binding: None });
            return;
        }
        let can_bind = self.is_pending(pod) && !self.lifecycles.awaits_answer(pod);
        if how < 2 || !can_bind {
            let rejectors = (how == 0).then(rejectors);
            self.flights.remove(pod);
            return self.fail(pod, rejectors.unwrap_or_default());
        }
        let node: Arc<str> = format!("node-{how}").into();
        self.room.insert(Arc::clone(pod), Arc::clone(&node));
        self.on(pod, Event::Assumed { pod, node: &node });
        if how == 2 {
            self.flights.remove(pod);
            return self.bind(pod);
        }
        let waiting = waiting(at(self.now), None);
        self.on(pod, Event::Delayed { pod, waiting });
    }

    fn permit(&mut self, pod: &Arc<str>, is_permitted: bool) {
        if self.lifecycles.take_waiting_pod(pod).is_none() {
            return;
        }
        self.flights.remove(pod);
        if is_permitted {
            return self.bind(pod);
        }
        self.on(pod, Event::Forgotten { pod });
        self.fail(pod, rejectors());
    }

    fn answer(&mut self, pod: &Arc<str>, is_bound: bool) {
        let Some(still_exists) = self.calls.remove(pod) else {
            return;
        };
        if let Some(seen) = self.pods.get_mut(pod).filter(|_| still_exists) {
            seen.is_bound |= is_bound;
        }
        let commands = self.on(pod, Event::Answered { pod, is_bound });
        assert_eq!(commands.is_empty(), !still_exists, "{commands:?}");
        if matches!(commands[..], [Command::Unbind { .. }]) {
            self.on(pod, Event::Forgotten { pod });
            self.fail(pod, PluginSet::default());
        }
    }

    /// The pod is gone, or has its node. Then a wait for permits ends.
    fn leave(&mut self, pod: &Arc<str>, event: Event<'_, bool>) {
        let waited = self.lifecycles.take_waiting_pod(pod).is_some();
        self.on(pod, event);
        self.room.remove(pod);
        if waited {
            self.flights.remove(pod);
            self.on(pod, Event::Done { pod, binding: None });
        }
    }

    fn step(&mut self, pod: &Arc<str>, step: &Step) {
        let exists = self.pods.contains_key(pod);
        let is_pending = self.is_pending(pod);
        match step {
            Step::Add if !exists || is_pending => {
                self.pods.entry(Arc::clone(pod)).or_default();
                let event = Event::Pending {
                    pod,
                    priority: 0,
                    nominated: "",
                };
                self.on(pod, event);
            }
            Step::Update if is_pending && !self.lifecycles.is_assumed(pod) => {
                let event = Event::Updated {
                    pod,
                    priority: 0,
                    nominated: ("", "node-9"),
                    events: Vec::new(),
                };
                self.on(pod, event);
            }
            Step::Terminate if is_pending => {
                let seen = self.pods.get_mut(pod).unwrap();
                if !std::mem::replace(&mut seen.terminates, true) {
                    self.on(pod, Event::Terminating { pod });
                }
            }
            Step::Delete if exists => {
                self.pods.remove(pod);
                self.leave(pod, Event::Gone { pod });
                if let Some(still_exists) = self.calls.get_mut(pod) {
                    *still_exists = false;
                }
            }
            Step::Assign if is_pending => {
                self.pods.get_mut(pod).unwrap().is_assigned = true;
                self.leave(
                    pod,
                    Event::Assigned {
                        pod,
                        node: "node-7",
                    },
                );
            }
            Step::Pop => {
                let popped = self.lifecycles.pop();
                if let Some(popped) = popped {
                    assert!(self.is_pending(&popped.pod), "{} is tried", popped.pod);
                    assert!(self.flights.insert(popped.pod), "it is tried twice");
                }
            }
            Step::End(how) => self.end(pod, *how),
            Step::Permit(is_permitted) => self.permit(pod, *is_permitted),
            Step::Answer(is_bound) => self.answer(pod, *is_bound),
            Step::Wake(wakes) => {
                let event = queue::Event {
                    label: "NodeAdd",
                    object: Some(*wakes),
                    scope: Scope::All,
                };
                self.lifecycles.wake(event, at(self.now), &Hints);
            }
            Step::Seconds(seconds) => {
                self.now += i64::from(*seconds);
                self.lifecycles.flush_backoff(at(self.now));
            }
            Step::Preempt if self.lifecycles.queue().pool(pod).is_some() => {
                let node = "node-5";
                let commands = self.on(pod, Event::PreemptionBegun { pod, node });
                let begins = matches!(commands[..], [Command::DeleteVictims]);
                let is_first = !self.preemptions.contains_key(pod);
                assert_eq!(begins, is_first, "{pod} preempts twice at a time");
                self.preemptions.entry(Arc::clone(pod)).or_default();
            }
            Step::LastVictim(terminates) if self.preemptions.get(pod) == Some(&false) => {
                self.preemptions.insert(Arc::clone(pod), true);
                let event = Event::LastVictim {
                    pod,
                    victim: &victim_of(pod),
                    terminates: *terminates,
                };
                self.on(pod, event);
            }
            Step::VictimTerminates => self.victim_terminates(pod),
            Step::EndPreemption { has_failed } => {
                let is_last = self.preemptions.get(pod).copied();
                if is_last.is_some_and(|is_last| is_last || *has_failed) {
                    self.end_preemption(pod, *has_failed);
                }
            }
            Step::Add
            | Step::Update
            | Step::Terminate
            | Step::Delete
            | Step::Assign
            | Step::Preempt
            | Step::LastVictim(_) => {}
        }
    }

    fn victim_terminates(&mut self, pod: &Arc<str>) {
        let victim = &victim_of(pod);
        self.on(pod, Event::VictimTerminating { victim });
    }

    fn end_preemption(&mut self, pod: &Arc<str>, has_failed: bool) {
        self.preemptions.remove(pod);
        self.on(pod, Event::PreemptionEnded { pod, has_failed });
        let is_gated = self.lifecycles.awaits_victims(pod);
        assert!(!has_failed || !is_gated, "{pod} waits for no victim");
    }

    fn check(&self) {
        for (pod, seen) in &self.pods {
            let phase = self.lifecycles.phase(pod);
            let is_over = seen.is_assigned || seen.terminates;
            assert!(phase.is_some() || is_over, "{pod} is lost: {seen:?}");
            let waits = self.lifecycles.queue().pool(pod).is_some();
            assert!(!waits || !seen.is_assigned, "{pod} waits: {seen:?}");
            let is_placed = self.lifecycles.is_assumed(pod);
            assert!(!waits || !is_placed, "{pod} waits and is placed");
        }
        for number in 0..4 {
            let pod: Arc<str> = format!("{number}").into();
            let room = self.lifecycles.assumed_node(&pod);
            assert_eq!(room, self.room.get(&pod), "room of {pod}");
            assert!(room.is_none() || self.is_pending(&pod), "room of {pod}");
            let is_gated = self.lifecycles.awaits_victims(&pod);
            assert!(!is_gated || self.is_pending(&pod), "gate of {pod}");
            let is_under_way = self.preemptions.contains_key(&pod);
            let is_known = self.lifecycles.preemption(&pod).is_some();
            assert_eq!(is_known, is_gated || is_under_way, "preemption of {pod}");
            let awaits = self.lifecycles.awaits_answer(&pod);
            assert_eq!(awaits, self.calls.contains_key(&pod), "binding of {pod}");
        }
    }

    /// Everything that is under way fails, and time passes: then every pod without a node is tried.
    fn settle(mut self) {
        let all: Vec<Arc<str>> = self.pods.keys().cloned().collect();
        for pod in all {
            self.permit(&pod, false);
        }
        for pod in self.flights.clone() {
            self.end(&pod, 0);
        }
        let calls: Vec<Arc<str>> = self.calls.keys().cloned().collect();
        for pod in calls {
            self.answer(&pod, false);
        }
        for number in 0..4 {
            let pod: Arc<str> = format!("{number}").into();
            if self.preemptions.contains_key(&pod) {
                self.end_preemption(&pod, true);
            }
            self.victim_terminates(&pod);
            assert!(!self.lifecycles.awaits_victims(&pod), "{pod} is gated");
        }
        // The deletion of a victim wakes the pods that were gated for it.
        let event = queue::Event {
            label: "AssignedPodDelete",
            object: Some(true),
            scope: Scope::All,
        };
        self.lifecycles.wake(event, at(self.now), &Hints);
        self.check();
        self.now += 1000;
        self.lifecycles.flush_unschedulable(at(self.now), &Hints);
        self.now += 1000;
        self.lifecycles.flush_backoff(at(self.now));
        let tried = std::iter::from_fn(|| self.lifecycles.pop()).map(|popped| popped.pod);
        let mut tried: BTreeSet<Arc<str>> = tried.collect();
        for (pod, seen) in self.pods {
            // A pod that terminates need not be tried.
            if !seen.terminates {
                let must_be_tried = !seen.is_assigned && !seen.is_bound;
                assert_eq!(tried.remove(&pod), must_be_tried, "{pod}: {seen:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_order_of_events_loses_a_pod_binds_it_twice_or_keeps_room_for_a_deleted_one(
        steps in prop::collection::vec(step(), 1..100),
    ) {
        let mut world = World::new();
        for (number, step) in &steps {
            world.step(&format!("{number}").into(), step);
            world.check();
        }
        world.settle();
    }
}

#[derive(Debug, Clone, Copy)]
enum SessionStep {
    /// A watch shows the pod as it is at the API server; false: as it was before.
    Show(bool),
    Bind,
    Answer(bool),
    Evict,
    EvictionFailed,
    /// The deletion begins at the API server.
    Delete,
    Gone,
}

fn session_step() -> impl Strategy<Value = SessionStep> {
    prop_oneof![
        any::<bool>().prop_map(SessionStep::Show),
        Just(SessionStep::Bind),
        any::<bool>().prop_map(SessionStep::Answer),
        Just(SessionStep::Evict),
        Just(SessionStep::EvictionFailed),
        Just(SessionStep::Delete),
        Just(SessionStep::Gone),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        ..ProptestConfig::default()
    })]

    /// The decisions of sessions count from when they are made until a watch shows them, they fail, or the pod is gone.
    #[test]
    fn a_session_decision_counts_until_it_is_shown_fails_or_its_pod_is_deleted(
        steps in prop::collection::vec(session_step(), 1..40),
    ) {
        let pod: &Arc<str> = &"a".into();
        let mut lifecycles: PodLifecycles<bool> = PodLifecycles::new(Settings::default());
        // At the API server, and as watches showed it last.
        let (mut has_node, mut terminates) = (false, false);
        let (mut shown_node, mut shown_end) = (false, false);
        let (mut bound, mut evicted, mut call) = (false, false, None);
        for step in steps {
            let event = match step {
                SessionStep::Show(newest) => {
                    if newest {
                        (shown_node, shown_end) = (has_node, terminates);
                    }
                    bound &= !shown_node;
                    evicted &= !shown_end;
                    Event::Shown { pod, has_node: shown_node, terminates: shown_end }
                }
                SessionStep::Bind if !bound && !shown_node => {
                    let of_session = Binding { is_of_session: true, ..binding(at(0)) };
                    bound = call.is_none();
                    call = call.or(Some(true));
                    Event::BoundBySession { pod, node: "one", binding: of_session }
                }
                SessionStep::Answer(is_bound) if call.is_some() => {
                    let still_exists = call.take() == Some(true);
                    has_node |= is_bound && still_exists;
                    bound &= is_bound || !still_exists;
                    Event::Answered { pod, is_bound }
                }
                SessionStep::Evict if !evicted && !shown_end => {
                    evicted = true;
                    Event::EvictedBySession { pod }
                }
                SessionStep::EvictionFailed => {
                    evicted = false;
                    Event::EvictionFailed { pod }
                }
                SessionStep::Delete => {
                    terminates = true;
                    continue;
                }
                SessionStep::Gone => {
                    (has_node, terminates, shown_node, shown_end) = (false, false, false, false);
                    (bound, evicted) = (false, false);
                    call = call.map(|_| false);
                    lifecycles.on_event(at(0), Event::Gone { pod }, &Hints);
                    Event::Deleted { pod }
                }
                SessionStep::Bind | SessionStep::Answer(_) | SessionStep::Evict => continue,
            };
            lifecycles.on_event(at(0), event, &Hints);
            prop_assert_eq!(lifecycles.node_of_session(pod).is_some(), bound);
            prop_assert_eq!(lifecycles.evicted_at(pod).is_some(), evicted);
            prop_assert_eq!(lifecycles.awaits_answer(pod), call.is_some());
        }
    }
}
