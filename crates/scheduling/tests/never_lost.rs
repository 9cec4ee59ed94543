//! Whatever happens, no pod is lost, none is placed twice, and what a node is thought to hold is what is on it.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_pod::{Node, wire};
use evictd_scheduling::{Change, Delta, Event, Framework, Outcome, Scheduler, Settings};
use evictd_test_objects as objects;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug, Clone)]
enum Step {
    Add {
        cpu: u32,
        priority: i32,
    },
    Delete(Index),
    Attempt,
    /// The oldest binding succeeds, or fails.
    Bound(bool),
    Node {
        index: usize,
        is_there: bool,
    },
    Seconds(i64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..4_u32, 0..3_i32).prop_map(|(cpu, priority)| Step::Add { cpu, priority }),
        1 => any::<Index>().prop_map(Step::Delete),
        5 => Just(Step::Attempt),
        3 => any::<bool>().prop_map(Step::Bound),
        1 => (0..3_usize, any::<bool>()).prop_map(|(index, is_there)| Step::Node { index, is_there }),
        1 => (1..20_i64).prop_map(Step::Seconds),
    ]
}

/// Where a pod is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    QueuedPod,
    Binding(String),
    Bound(String),
}

struct Run {
    scheduler: Scheduler,
    now: Timestamp,
    pods: BTreeMap<String, (Arc<wire::Pod>, State)>,
    nodes: BTreeMap<String, Arc<Node>>,
    binding: Vec<String>,
    made: usize,
}

fn node(name: &str, cpu: u32) -> Arc<Node> {
    let node = objects::node(name).cpu(&cpu.to_string());
    node.memory("64Gi").resource("pods", "100").read()
}

impl Run {
    fn new() -> Self {
        let scheduler = Scheduler::new(Settings::default(), false, |cluster| {
            Ok::<_, String>(vec![Framework::of_default(cluster)])
        });
        Self {
            scheduler: scheduler.unwrap(),
            now: Timestamp::UNIX_EPOCH,
            pods: BTreeMap::new(),
            nodes: BTreeMap::new(),
            binding: Vec::new(),
            made: 0,
        }
    }

    fn pass(&mut self, time: SignedDuration) {
        self.now = self.now.checked_add(time).unwrap();
    }

    fn tell(&mut self, old: Option<Arc<wire::Pod>>, new: Option<Arc<wire::Pod>>) {
        let event = Event::Change(Change::Pod(Delta { old, new }));
        self.scheduler.on(self.now, &event);
    }

    fn set_node(&mut self, name: &str, new: Option<Arc<Node>>) {
        let old = match &new {
            Some(new) => self.nodes.insert(name.to_owned(), Arc::clone(new)),
            None => self.nodes.remove(name),
        };
        if old.is_some() || new.is_some() {
            let event = Event::Change(Change::Node(Delta { old, new }));
            self.scheduler.on(self.now, &event);
        }
    }

    fn add(&mut self, cpu: u32, priority: i32) {
        self.made += 1;
        let name = format!("pod-{:03}", self.made);
        // Each preempts those of lower priority, which then go only when a test deletes them.
        let pod = objects::pod(&name).priority(priority).cpu(&cpu.to_string());
        let pod: Arc<wire::Pod> = pod.read();
        self.tell(None, Some(Arc::clone(&pod)));
        self.pods.insert(name, (pod, State::QueuedPod));
    }

    fn delete(&mut self, index: Index) {
        let names: Vec<String> = self.pods.keys().cloned().collect();
        if names.is_empty() {
            return;
        }
        let name = &names[index.index(names.len())];
        let (pod, _) = self.pods.remove(name).unwrap();
        self.binding.retain(|waiting| waiting != name);
        self.tell(Some(pod), None);
    }

    fn attempt(&mut self) -> bool {
        self.pass(SignedDuration::from_millis(10));
        let Some(attempt) = self.scheduler.attempt(self.now) else {
            return false;
        };
        let name = attempt.pod.metadata.name.clone();
        let (_, state) = self.pods.get_mut(&name).unwrap();
        assert_eq!(
            *state,
            State::QueuedPod,
            "{name} is tried although it has a node"
        );
        if let Outcome::Placed { node, .. } = attempt.outcome {
            *state = State::Binding(node.to_string());
            self.binding.push(name);
        }
        true
    }

    fn bound(&mut self, succeeds: bool) {
        if self.binding.is_empty() {
            return;
        }
        let name = self.binding.remove(0);
        let (pod, state) = self.pods.get_mut(&name).unwrap();
        let State::Binding(node) = state.clone() else {
            panic!("{name} is not being bound");
        };
        let old = Arc::clone(pod);
        if !succeeds {
            *state = State::QueuedPod;
            self.scheduler.bind_failed(self.now, &old.metadata.key());
            return;
        }
        let mut new = (*old).clone();
        new.spec.node_name.clone_from(&node);
        let new = Arc::new(new);
        *pod = Arc::clone(&new);
        *state = State::Bound(node);
        self.tell(Some(old), Some(new));
    }

    /// What is known agrees with what is.
    fn check(&self) {
        let mut requested: BTreeMap<&str, i64> = BTreeMap::new();
        for (name, (pod, state)) in &self.pods {
            let waits = self
                .scheduler
                .queue()
                .queued_pod(&pod.metadata.key())
                .is_some();
            assert_eq!(waits, *state == State::QueuedPod, "{name} is {state:?}");
            if let State::Binding(node) | State::Bound(node) = state {
                let cpu = pod.spec.containers[0]
                    .resources
                    .requests
                    .get("cpu")
                    .unwrap();
                *requested.entry(node).or_default() += cpu.milli_value();
            }
        }
        let cluster = self.scheduler.cluster();
        for (id, node) in cluster.node_ids().zip(cluster.nodes()) {
            let name = cluster.node_name(id);
            let wanted = requested.get(name).copied().unwrap_or(0);
            assert_eq!(node.requested.cpu, wanted, "{name}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_pod_is_lost_or_placed_twice(steps in prop::collection::vec(step(), 1..60)) {
        let mut run = Run::new();
        for step in &steps {
            match step {
                Step::Add { cpu, priority } => run.add(*cpu, *priority),
                Step::Delete(index) => run.delete(*index),
                Step::Attempt => { run.attempt(); }
                Step::Bound(succeeds) => run.bound(*succeeds),
                Step::Node { index, is_there } => {
                    let name = format!("node-{index}");
                    run.set_node(&name, is_there.then(|| node(&name, 4)));
                }
                Step::Seconds(seconds) => {
                    run.pass(SignedDuration::from_secs(*seconds));
                    run.scheduler.flush_backoff(run.now);
                }
            }
            run.check();
        }
        // With room for all, all are placed, without the flush of every five minutes.
        run.set_node("large", Some(node("large", 1000)));
        for _ in 0..120 {
            run.pass(SignedDuration::from_secs(1));
            run.scheduler.flush_backoff(run.now);
            while run.attempt() {}
        }
        run.check();
        let waiting: Vec<_> = run.pods.iter().filter(|(_, (_, state))| *state == State::QueuedPod).collect();
        prop_assert!(waiting.is_empty(), "{:?}", waiting);
    }
}
