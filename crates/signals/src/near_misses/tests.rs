use super::*;
use crate::{NodeCondition, ThresholdMaps};
use proptest::prelude::*;

const MIB: i64 = 1 << 20;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn thresholds(hard: &str, soft: Option<&str>) -> Vec<Threshold> {
    let memory = |value: &str| [("memory.available".to_owned(), value.to_owned())].into();
    let soft = soft.map(memory);
    ThresholdMaps {
        hard: memory(hard),
        soft_grace_period: soft.as_ref().map(|_| memory("1m")).unwrap_or_default(),
        soft: soft.unwrap_or_default(),
        ..ThresholdMaps::default()
    }
    .parse()
    .unwrap()
}

struct Node {
    misses: NearMisses,
    thresholds: Vec<Threshold>,
    raised: ConditionMap<bool>,
}

impl Node {
    fn new(hard: &str, soft: Option<&str>) -> Self {
        Self {
            misses: NearMisses::default(),
            thresholds: thresholds(hard, soft),
            raised: ConditionMap::default(),
        }
    }

    /// So many MiB of 4 GiB are left; the hard threshold acts below its value.
    fn cycle(&mut self, second: i64, left: i64) -> bool {
        let observed = Some(Observation {
            available: left * MIB,
            capacity: 4096 * MIB,
            time: None,
        });
        let levels = self.thresholds.iter().map(|threshold| Level {
            threshold,
            observed,
            acts: threshold.is_hard() && left * MIB < threshold.value.at(4096 * MIB).value(),
        });
        let sleep = SignedDuration::from_secs(10);
        self.misses.observe(at(second), sleep, self.raised, levels)
    }

    fn ended(&self) -> Vec<(bool, i64, i64)> {
        let kept = self.misses.to_keep().near_misses;
        let shown = kept.iter().map(|miss| {
            let length = miss.length().as_secs();
            (miss.hard, miss.least_available / MIB, length)
        });
        shown.collect()
    }
}

#[test]
fn a_signal_that_comes_near_and_leaves_again_is_a_near_miss_once() {
    let mut node = Node::new("100Mi", None);
    for (second, left) in [
        (0, 900),
        (10, 124),
        (20, 110),
        (30, 140),
        (40, 120),
        (50, 900),
    ] {
        assert!(!node.cycle(second, left), "{second}");
    }
    assert!(!node.cycle(100, 900), "it was near less than a minute ago");
    assert!(node.cycle(110, 900));
    assert_eq!(node.ended(), [(true, 110, 30)]);
    assert!(node.misses.to_keep().ongoing.is_empty());
}

#[test]
fn what_a_threshold_acted_on_is_no_near_miss() {
    let mut node = Node::new("100Mi", None);
    for (second, left) in [(0, 120), (10, 99), (20, 900), (100, 900)] {
        assert!(!node.cycle(second, left));
    }
    assert_eq!(node.ended(), []);
}

#[test]
fn a_soft_threshold_that_is_met_for_too_short_a_time_is_a_near_miss() {
    let mut node = Node::new("100Mi", Some("400Mi"));
    for (second, left) in [(0, 450), (10, 300), (20, 900), (90, 900)] {
        node.cycle(second, left);
    }
    assert_eq!(node.ended(), [(false, 300, 10)]);
}

#[test]
fn a_signal_that_is_no_longer_observed_ends_its_near_miss() {
    let mut node = Node::new("100Mi", None);
    node.cycle(0, 110);
    node.thresholds.clear();
    node.cycle(10, 0);
    assert!(node.cycle(70, 0));
    assert_eq!(node.ended(), [(true, 110, 0)]);
}

#[test]
fn usage_is_wanted_at_the_begin_and_when_it_has_become_much_nearer() {
    let mut node = Node::new("100Mi", None);
    let memory = Some(Signal::MemoryAvailable);
    node.cycle(0, 900);
    assert_eq!(node.misses.wants_usage(at(0)), None);
    node.cycle(1, 120);
    assert_eq!(node.misses.wants_usage(at(1)), memory);
    let pods = ["a/one", "a/two", "a/three", "a/four"].map(|pod| PodUse {
        pod: pod.to_owned(),
        usage: Quantity::bytes(1),
    });
    node.misses
        .note_usage(at(1), Signal::MemoryAvailable, &pods);
    node.cycle(2, 105);
    assert_eq!(node.misses.wants_usage(at(2)), None, "too soon");
    node.cycle(11, 115);
    assert_eq!(node.misses.wants_usage(at(11)), memory);
    node.misses.note_usage(at(11), Signal::MemoryAvailable, &[]);
    node.cycle(30, 104);
    assert_eq!(node.misses.wants_usage(at(30)), None, "hardly nearer");
    let unknown = Node::new("100Mi", None);
    let mut unknown = unknown;
    unknown.cycle(0, 110);
    assert_eq!(unknown.misses.wants_usage(at(31)), None, "no figure came");
}

#[test]
fn the_time_under_a_condition_is_counted_while_the_node_is_observed() {
    let mut node = Node::new("100Mi", None);
    node.cycle(0, 900);
    node.raised[NodeCondition::MemoryPressure] = true;
    for second in [10, 20, 30] {
        node.cycle(second, 900);
    }
    // Suspended for an hour, which nothing observed.
    node.cycle(3630, 900);
    node.raised = ConditionMap::default();
    node.cycle(3640, 900);
    node.cycle(3650, 900);
    let report = node.misses.to_keep().report(at(0), at(4000));
    let raised: Vec<_> = report
        .conditions
        .iter()
        .map(|one| (one.condition.as_str(), one.seconds))
        .collect();
    assert_eq!(raised, [("MemoryPressure", 30.0)]);
    assert!((report.observed_seconds - 50.0).abs() < 1e-9);
    let before = node.misses.to_keep().report(at(-200_000), at(-100_000));
    assert_eq!(before, NearReport::default());
}

#[test]
fn after_a_restart_and_a_clock_that_was_set_back_it_goes_on() {
    let mut node = Node::new("100Mi", None);
    node.cycle(0, 110);
    node.cycle(10, 105);
    let text = serde_json::to_string(&node.misses.to_keep()).unwrap();
    let kept: Kept = serde_json::from_str(&text).unwrap();
    assert_eq!(kept, node.misses.to_keep());
    // Three days before.
    let back = -3 * SECONDS_OF_A_DAY;
    node.misses = NearMisses::new(kept);
    for second in [0, 10, 20] {
        node.cycle(back + second, 900);
    }
    let kept = node.misses.to_keep();
    assert_eq!(kept.days.len(), 2);
    let then = kept.report(at(back - 100), at(back + 100));
    assert!((then.observed_seconds - 20.0).abs() < 1e-9, "{then:?}");
    assert!(then.near_misses.is_empty(), "it is dated later: {then:?}");
    let whole = kept.report(at(back), at(100));
    assert_eq!(
        (whole.near_misses[0].times, whole.near_misses[0].lasts),
        (1, false)
    );
    assert!(!kept.is_newer());
}

#[test]
fn the_report_has_the_nearest_and_all_times() {
    let mut node = Node::new("100Mi", None);
    for (round, left) in [120, 103, 115].into_iter().enumerate() {
        let begin = i64::try_from(round).unwrap() * 200;
        node.cycle(begin, left);
        node.cycle(begin + 10, 900);
        node.cycle(begin + 70, 900);
    }
    node.cycle(600, 110);
    let report = node.misses.to_keep().report(at(0), at(1000));
    let [times] = report.near_misses.as_slice() else {
        panic!("{report:?}");
    };
    assert_eq!((times.times, times.lasts), (4, true));
    assert_eq!(times.nearest.least_available, 103 * MIB);
}

proptest! {
    /// However a signal moves and whatever the clock does, the file stays small.
    #[test]
    fn what_is_kept_is_bounded(steps in prop::collection::vec((-100_000_i64..200_000, 0_i64..400), 1..400)) {
        let mut node = Node::new("100Mi", Some("200Mi"));
        let mut second = 0;
        for (step, left) in steps {
            second += step;
            node.raised[NodeCondition::MemoryPressure] = left % 2 == 0;
            node.cycle(second, left);
            let pod = PodUse { pod: "n".repeat(320), usage: Quantity::bytes(left) };
            node.misses.note_usage(at(second), Signal::MemoryAvailable, &vec![pod; 5]);
        }
        let kept = node.misses.to_keep();
        prop_assert!(kept.days.len() <= DAYS && kept.near_misses.len() <= MISSES);
        prop_assert!(serde_json::to_string(&kept).unwrap().len() < 128 << 10);
        let times = kept.report(Timestamp::MIN, Timestamp::MAX).near_misses;
        prop_assert!(times.iter().all(|one| one.near_seconds >= 0 && one.times > 0));
    }
}
