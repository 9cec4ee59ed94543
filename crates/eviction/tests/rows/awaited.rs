//! A decision on a disk waits for figures that could change it, and no longer than there is time.

use crate::node::{MI, at, disk, evictd, files, hard, kubelet, pod, priority};
use evictd_decision::Decision;
use evictd_eviction::{Answer, Housekeeper, Rules, Step};
use evictd_pod::Pod;
use evictd_signals::{Observation, Observations, Signal};
use evictd_usage::{Extent, FsUsage, PodUsage, Usage, figure::Figure};
use serde_json::json;

/// A node whose disk has a threshold of 1000Mi, with a neighbour that holds 150Mi and a container that has just begun.
struct Young {
    keeper: Housekeeper,
    pods: Vec<Pod>,
    usage: Usage,
}

fn unknown() -> FsUsage {
    FsUsage {
        extent: Extent::Unknown,
        ..FsUsage::default()
    }
}

impl Young {
    fn new(rules: &Rules, priority_of_the_young: i32) -> Self {
        let volume = json!({ "volumes": [{ "name": "v", "emptyDir": {} }] });
        let idle = disk(files(0, 0), files(0, 0), files(150 * MI, 2));
        let young = disk(unknown(), files(0, 0), files(0, 0));
        Self {
            keeper: Housekeeper::new(Rules {
                thresholds: hard(&[("nodefs.available", "1000Mi")]),
                requires_relief: true,
                ..rules.clone()
            }),
            pods: vec![
                pod("idle", &volume),
                priority("young", priority_of_the_young),
            ],
            usage: [idle, young].into_iter().collect(),
        }
    }

    fn cycle(&mut self, second: i64, left: i64) -> Option<Decision> {
        self.cycle_with(second, left, None)
    }

    /// The same with so many process ids left of 1000.
    fn cycle_with(&mut self, second: i64, left: i64, ids_left: Option<i64>) -> Option<Decision> {
        let now = at(second);
        let seen = |available, capacity| Observation {
            available,
            capacity,
            time: Some(now),
        };
        let disk = (Signal::NodefsAvailable, seen(left * MI, 10_000 * MI));
        let processes = ids_left.map(|left| (Signal::PidAvailable, seen(left, 1000)));
        let seen: Observations = [disk].into_iter().chain(processes).collect();
        let mut step = self.keeper.begin(now, &seen);
        loop {
            let (pods, usage) = (&self.pods[..], &self.usage);
            let answer = match step {
                Step::Rest => return None,
                Step::LocalStorage => Answer::LocalStorage(None),
                Step::Reclaim(_) => Answer::Reclaimed(None),
                Step::Measure(signal) => Answer::Measured(signal, pods, usage),
                Step::Watch(need) => Answer::Watched(need, pods, usage),
                Step::Rank(need) => Answer::Ranked {
                    need,
                    pods,
                    usage,
                    fresh: None,
                },
            };
            let (next, mut decisions) = self.keeper.answer(now, answer);
            if let Some(decision) = decisions.pop() {
                return Some(decision);
            }
            step = next;
        }
    }

    fn victim(&mut self, second: i64, left: i64) -> Option<String> {
        Some(self.cycle(second, left)?.eviction?.pod)
    }
}

#[test]
fn a_decision_waits_for_the_layer_of_a_young_writer_and_its_idle_neighbour_stays() {
    let mut node = Young::new(&evictd(Vec::new()), 0);
    assert!(node.cycle(0, 900).is_none());
    assert!(node.cycle(5, 890).is_none());
    let (signal, since) = node.keeper.awaits_figures().unwrap();
    assert_eq!((signal, since), (Signal::NodefsAvailable, at(0)));
    let counted: &mut Option<PodUsage> = &mut node.usage.pods[1];
    counted.as_mut().unwrap().containers[0].rootfs = files(400 * MI, 9);
    assert_eq!(node.victim(6, 880).as_deref(), Some("default/young"));
    assert_eq!(node.keeper.awaits_figures(), None);
}

#[test]
fn the_loss_of_the_disk_counts_for_unmeasured_pods_when_the_wait_is_over() {
    let mut node = Young::new(&evictd(Vec::new()), 0);
    for second in 0..10 {
        assert!(node.cycle(second, 900 - 20 * second).is_none(), "{second}");
    }
    let decision = node.cycle(10, 700).unwrap();
    let victim = decision.eviction.as_ref().unwrap();
    assert_eq!(victim.pod, "default/young", "{}", decision.why);
    assert!(
        decision.why.contains("uses at least 200Mi"),
        "{}",
        decision.why
    );
    // The neighbour's figure is known: nothing is added to it.
    let idle = decision.ranked.iter().find(|row| row.index == 0).unwrap();
    assert_eq!(idle.gain, Some(evictd_pod::Quantity::bytes(150 * MI)));
}

#[test]
fn no_decision_waits_past_the_moment_when_the_disk_is_full() {
    let mut node = Young::new(&evictd(Vec::new()), 0);
    assert!(node.cycle(0, 900).is_none());
    assert!(node.cycle(1, 650).is_none());
    assert!(node.cycle(2, 400).is_none());
    assert_eq!(node.victim(3, 150).as_deref(), Some("default/young"));
    let mut full = Young::new(&evictd(Vec::new()), 0);
    assert!(full.cycle(0, 0).is_some(), "there is no time at all");
}

#[test]
fn a_decision_that_no_unknown_figure_can_change_does_not_wait() {
    let mut important = Young::new(&evictd(Vec::new()), 9);
    assert_eq!(important.victim(0, 900).as_deref(), Some("default/idle"));
    // All who are known hold too little: whether anybody goes depends on what is unknown.
    let mut node = Young::new(&evictd(Vec::new()), 9);
    assert!(node.cycle(0, 800).is_none());
    assert!(node.keeper.awaits_figures().is_some());
    let mut kubelets = Young::new(&kubelet(Vec::new()), 0);
    assert_eq!(kubelets.victim(0, 900).as_deref(), Some("default/idle"));
}

#[test]
fn inodes_that_were_lost_count_as_inodes() {
    let mut usage = disk(unknown(), files(9, 9), files(0, 0)).unwrap();
    usage.ephemeral_storage = Some(Figure::bytes(9));
    let mut node = Young::new(&evictd(Vec::new()), 0);
    node.keeper = Housekeeper::new(evictd(hard(&[("nodefs.inodesFree", "1k")])));
    node.usage.pods = vec![
        disk(files(0, 0), files(0, 0), files(150 * MI, 50)),
        Some(usage),
    ];
    let seen = |left, now| -> Observations {
        let seen = Observation {
            available: left,
            capacity: 10_000,
            time: Some(now),
        };
        [(Signal::NodefsInodesFree, seen)].into_iter().collect()
    };
    let mut decided = None;
    for second in [0, 10] {
        let step = node
            .keeper
            .begin(at(second), &seen(900 - 30 * second, at(second)));
        let (step, _) = match step {
            Step::Reclaim(_) => node
                .keeper
                .answer::<Pod>(at(second), Answer::Reclaimed(None)),
            step => (step, Vec::new()),
        };
        let Step::Rank(need) = step else {
            panic!("{step:?}")
        };
        let (pods, usage) = (&node.pods[..], &node.usage);
        let answer = Answer::Ranked {
            need,
            pods,
            usage,
            fresh: None,
        };
        decided = node.keeper.answer(at(second), answer).1.pop();
    }
    let why = decided.unwrap().why;
    assert!(
        why.contains("default/young uses at least 309 inodes"),
        "{why}"
    );
}

#[test]
fn a_decision_that_waits_hides_no_other_signal() {
    let mut node = Young::new(&evictd(Vec::new()), 0);
    let rules = Rules {
        thresholds: hard(&[("nodefs.available", "1000Mi"), ("pid.available", "100")]),
        ..node.keeper.rules().clone()
    };
    node.keeper.reconfigure(rules);
    for usage in node.usage.pods.iter_mut().flatten() {
        usage.processes = Some(Figure::processes(450));
    }
    assert!(node.cycle_with(0, 900, Some(500)).is_none());
    assert!(node.keeper.awaits_figures().is_some());
    let decision = node.cycle_with(1, 890, Some(50)).unwrap();
    assert_eq!(decision.signal, "pid.available");
    assert!(decision.eviction.is_some(), "{}", decision.why);
    let (_, since) = node.keeper.awaits_figures().unwrap();
    assert_eq!(since, at(0), "its time passes all the same");
}
