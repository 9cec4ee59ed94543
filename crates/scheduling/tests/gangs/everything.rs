//! Gangs with an extender, a plugin that permits, pods that come and go, and time: all of a gang or none.

use crate::extenders::{allows, extender};
use crate::permits::{Scripted, wait};
use crate::{Scene, group, pod};
use evictd_placement::{Permit, Plugin};
use evictd_scheduling::{ExtenderRequest, Outcome};
use jiff::SignedDuration;
use proptest::prelude::*;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What happens next. Numbers mean pods and nodes, modulo how many there are.
#[derive(Debug, Clone)]
enum Step {
    Comes(usize),
    Goes(usize),
    /// The extender answers what was asked first: of the nodes those whose bit is set.
    Answers(u8),
    Fails,
    Permits(usize, Option<u8>),
    Passes(i64),
    Touch,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..32_usize).prop_map(Step::Comes),
        1 => (0..32_usize).prop_map(Step::Goes),
        6 => any::<u8>().prop_map(Step::Answers),
        1 => Just(Step::Fails),
        3 => (0..32_usize, prop::option::of(0..3_u8)).prop_map(|(pod, how)| Step::Permits(pod, how)),
        2 => (0..20_i64).prop_map(Step::Passes),
        1 => Just(Step::Touch),
    ]
}

struct World {
    scene: Scene,
    plugin: Scripted,
    /// The sizes of the gangs; a gang needs all of its pods.
    sizes: Vec<usize>,
    nodes: usize,
    asked: Vec<(String, Vec<Arc<str>>)>,
    /// Pods that were placed, with the number of their gang.
    placed: BTreeMap<String, usize>,
    /// So many have come.
    come: usize,
}

impl World {
    fn new(sizes: Vec<usize>, nodes: &[u8]) -> Self {
        let plugin = Scripted::default();
        let shared_plugin: Arc<dyn Plugin> = Arc::new(plugin.clone());
        let mut scene = Scene::with(|framework| {
            framework.reserves.push(Arc::clone(&shared_plugin));
            framework.permits.push(shared_plugin);
        });
        scene.scheduler.set_extenders(vec![extender(&[])]);
        for (index, cpu) in nodes.iter().enumerate() {
            scene.node(&format!("node-{index}"), &cpu.to_string(), "a");
        }
        for (index, size) in sizes.iter().enumerate() {
            scene.group(group(&format!("g{index}"), i32::try_from(*size).unwrap()));
        }
        Self {
            scene,
            plugin,
            sizes,
            nodes: nodes.len(),
            asked: Vec::new(),
            placed: BTreeMap::new(),
            come: 0,
        }
    }

    /// The pod of a number: its name, and the number of its gang.
    fn pod(&self, number: usize) -> (String, usize) {
        let all: usize = self.sizes.iter().sum();
        let (mut left, mut gang) = (number % all, 0);
        while left >= self.sizes[gang] {
            left -= self.sizes[gang];
            gang += 1;
        }
        (format!("g{gang}-{left}"), gang)
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Comes(number) => {
                let (name, gang) = self.pod(*number);
                if !self.scene.pods.contains_key(&name) {
                    let mut new = pod(&name, &format!("g{gang}"), "1");
                    // One that comes again is another.
                    self.come += 1;
                    new["metadata"]["uid"] = json!(format!("{name}.{}", self.come));
                    self.scene.pod(&name, Some(new));
                }
            }
            Step::Goes(number) => {
                let (name, _) = self.pod(*number);
                // One that is placed would have a node by now.
                if self.scene.pods.contains_key(&name) && !self.placed.contains_key(&name) {
                    self.scene.pod(&name, None);
                }
            }
            Step::Answers(bits) => self.answer(|node| (bits >> (node % 8)) & 1 == 1),
            Step::Fails => {
                if !self.asked.is_empty() {
                    let (pod, _) = self.asked.remove(0);
                    self.scene.answer(&pod, Err("out of order".to_owned()));
                }
            }
            Step::Permits(number, how) => {
                let permit = match how {
                    None | Some(0) => Permit::Allow,
                    Some(1) => wait(10),
                    Some(_) => Permit::Reject("no".to_owned()),
                };
                self.plugin.says(&self.pod(*number).0, permit);
            }
            Step::Passes(minutes) => {
                let passed = SignedDuration::from_mins(*minutes);
                self.scene.now = self.scene.now.checked_add(passed).unwrap();
                self.scene.pass(SignedDuration::ZERO);
            }
            Step::Touch => self.scene.touch(),
        }
        self.hear();
    }

    fn answer(&mut self, allowed: impl Fn(usize) -> bool) {
        if self.asked.is_empty() {
            return;
        }
        let (pod, nodes) = self.asked.remove(0);
        let number = |node: &str| {
            node.strip_prefix("node-")
                .and_then(|digits| digits.parse().ok())
        };
        let reply = allows(&nodes, |node| number(node).is_none_or(&allowed));
        self.scene.answer(&pod, Ok(reply));
    }

    /// What became of the pods.
    fn hear(&mut self) {
        for attempt in self.scene.attempts() {
            let name = attempt.pod.metadata.name.clone();
            match attempt.outcome {
                Outcome::AskExtenders(ExtenderRequest::Nodes(nodes)) => {
                    self.asked.push((attempt.key.to_string(), nodes));
                }
                Outcome::Placed { .. } => {
                    let gang = name[1..].split('-').next().unwrap().parse().unwrap();
                    assert!(self.placed.insert(name, gang).is_none(), "twice");
                }
                _ => {}
            }
        }
    }

    fn check(&self) -> Result<(), TestCaseError> {
        for (gang, size) in self.sizes.iter().enumerate() {
            let count = self
                .placed
                .values()
                .filter(|placed_gang| **placed_gang == gang)
                .count();
            let all = count == 0 || count == *size;
            prop_assert!(all, "{} of {}", count, size);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_order_of_events_binds_a_gang_in_part_or_leaves_state_behind(
        sizes in prop::collection::vec(1..5_usize, 1..4),
        nodes in prop::collection::vec(1..5_u8, 1..4),
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let mut world = World::new(sizes, &nodes);
        for step in &steps {
            world.take(step);
            world.check()?;
        }
        // In the end all pods are there, every plugin allows them, and there is time.
        let all: usize = world.sizes.iter().sum();
        for number in 0..all {
            let (name, _) = world.pod(number);
            world.plugin.says(&name, Permit::Allow);
            world.take(&Step::Comes(number));
        }
        for _ in 0..8 {
            for _ in 0..100 {
                world.answer(|_| true);
                world.hear();
            }
            prop_assert!(world.asked.is_empty());
            world.take(&Step::Touch);
            world.take(&Step::Passes(1));
        }
        for _ in 0..100 {
            world.answer(|_| true);
            world.hear();
        }
        world.check()?;
        let queue = world.scene.scheduler.queue();
        prop_assert_eq!(queue.in_flight().count(), 0);
        let waiting = queue.len();
        prop_assert_eq!(waiting + world.placed.len(), all, "nobody is lost");
        let reserved: BTreeSet<String> = world.plugin.reserved().into_iter().collect();
        prop_assert_eq!(reserved, world.placed.keys().cloned().collect());
        let requested: i64 = (0..world.nodes).map(|node| world.scene.requested(&format!("node-{node}"))).sum();
        prop_assert_eq!(requested, 1000 * i64::try_from(world.placed.len()).unwrap());
        // Whoever waits does not fit into what is left.
        let room: usize = nodes.iter().map(|cpu| usize::from(*cpu)).sum();
        let left = room - world.placed.len();
        for (gang, size) in world.sizes.iter().enumerate() {
            if !world.placed.values().any(|placed_gang| *placed_gang == gang) {
                prop_assert!(*size > left, "{} fit into {}", size, left);
            }
        }
    }
}
