//! From observation to condition and to what acts (S1-013, S1-014, S1-024 to S1-033).

use crate::node::{MI, Node, at, evictd, hard, hard_with_reclaim, kubelet, seen, soft};
use evictd_eviction::{Rules, Step, rules::FilesystemLayout, simulation};
use evictd_signals::{NodeCondition, Observation, Observations, Signal, Threshold};
use jiff::SignedDuration;
use serde_json::json;

const MEMORY: Signal = Signal::MemoryAvailable;
const PID: Signal = Signal::PidAvailable;

const SINGLE: FilesystemLayout = FilesystemLayout {
    dedicated_image_fs: false,
    split_container_fs: false,
};
const DEDICATED: FilesystemLayout = FilesystemLayout {
    dedicated_image_fs: true,
    split_container_fs: false,
};
const SPLIT: FilesystemLayout = FilesystemLayout {
    dedicated_image_fs: true,
    split_container_fs: true,
};

fn empty_node(rules: Rules) -> Node {
    Node::new(rules, Vec::new())
}

fn acts(step: Step) -> bool {
    step != Step::Rest
}

#[test]
fn s1_013_containerfs_copies_nodefs_or_imagefs_whatever_was_written() {
    let thresholds = hard_with_reclaim(
        &[
            ("nodefs.available", "10%"),
            ("imagefs.available", "15%"),
            ("nodefs.inodesFree", "5%"),
            ("containerfs.available", "99%"),
        ],
        &[("nodefs.available", "1Gi"), ("imagefs.available", "2Gi")],
    );
    let table = [
        (SINGLE, "0.1", "1Gi", Some("0.05")),
        (SPLIT, "0.1", "1Gi", Some("0.05")),
        (DEDICATED, "0.15", "2Gi", None),
    ];
    for (layout, value, min_reclaim, inodes) in table {
        let rules = Rules {
            layout,
            ..kubelet(thresholds.clone())
        };
        let node = empty_node(rules);
        let find = |signal| {
            node.keeper
                .thresholds()
                .find(|threshold| threshold.signal == signal)
        };
        let copy = find(Signal::ContainerfsAvailable).unwrap();
        assert_eq!(copy.value.to_string(), value);
        assert_eq!(copy.min_reclaim.unwrap().to_string(), min_reclaim);
        let copy = find(Signal::ContainerfsInodesFree).map(|copy| copy.value.to_string());
        assert_eq!(
            copy.as_deref(),
            inodes,
            "a source that is not there is never met"
        );
        // What the user wrote is still what is printed.
        let printed = node.keeper.rules().thresholds.iter();
        assert_eq!(
            printed
                .filter(|threshold| threshold.value.to_string() == "0.99")
                .count(),
            1
        );
    }
}

#[test]
fn s1_013_hard_and_soft_are_copied_apart() {
    let mut thresholds = hard(&[("nodefs.available", "10%")]);
    thresholds.extend(soft("nodefs.available", "20%", "1m", "0"));
    let node = empty_node(kubelet(thresholds));
    let copies = |hard| {
        let copies = node
            .keeper
            .thresholds()
            .filter(move |threshold: &&Threshold| {
                threshold.signal == Signal::ContainerfsAvailable && threshold.is_hard() == hard
            });
        copies
            .map(|threshold| threshold.value.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(copies(true), ["0.1"]);
    assert_eq!(copies(false), ["0.2"]);
}

#[test]
fn s1_014_generated_containerfs_thresholds_wait_for_the_second_cycle_but_not_with_ours() {
    let thresholds = hard(&[("nodefs.available", "10%")]);
    let low = [(Signal::ContainerfsAvailable, 0)];
    let mut kubelets = empty_node(kubelet(thresholds.clone()));
    assert_eq!(kubelets.look(0, &low), Step::Rest);
    assert_eq!(kubelets.conditions(), []);
    assert!(acts(kubelets.look(1, &low)));
    assert_eq!(kubelets.conditions(), [NodeCondition::DiskPressure]);
    let mut ours = empty_node(evictd(thresholds));
    assert!(acts(ours.look(0, &low)));
    // One that the user wrote takes part from the first cycle on, with the copied value.
    let written = hard(&[("nodefs.available", "10%"), ("containerfs.available", "1%")]);
    let mut kubelets = empty_node(kubelet(written));
    assert!(acts(kubelets.look(0, &low)));
}

#[test]
fn s1_014_the_check_after_reclaim_uses_the_generated_ones_already_in_the_first_cycle() {
    let mut node = empty_node(kubelet(hard(&[("nodefs.available", "100Mi")])));
    assert!(matches!(
        node.look(0, &[(Signal::NodefsAvailable, 0)]),
        Step::Reclaim(_)
    ));
    let relieved = (Signal::NodefsAvailable, 500 * MI);
    let containerfs_low = seen(0, &[relieved, (Signal::ContainerfsAvailable, 0)]);
    assert!(matches!(
        node.keeper.reclaimed(Some(&containerfs_low)),
        Step::Rank(_)
    ));
    assert_eq!(
        node.keeper.reclaimed(Some(&seen(0, &[relieved]))),
        Step::Rest
    );
}

#[test]
fn s1_024_without_thresholds_and_isolation_there_is_nothing_to_do() {
    let mut node = empty_node(kubelet(Vec::new()));
    assert_eq!(node.look(0, &[(MEMORY, 0), (PID, 0)]), Step::Rest);
    let rules = Rules {
        local_storage_capacity_isolation: true,
        ..Rules::kubelet()
    };
    assert_eq!(
        empty_node(rules).look(0, &[(MEMORY, 0)]),
        Step::LocalStorage
    );
}

#[test]
fn s1_025_s1_026_a_cycle_without_stats_evicts_no_pod_and_forgets_nothing() {
    let short = json!({ "node": { "rlimit": { "maxpid": 100, "curproc": 99 } } });
    let timeline = json!({
        "now": "2026-01-01T00:00:00Z",
        "pods": [{ "metadata": { "name": "a", "uid": "a" } }],
        "steps": [
            { "offsetSeconds": 0, "summary": short },
            { "offsetSeconds": 10 },
            { "offsetSeconds": 25, "summary": short },
        ],
    });
    let rules = kubelet(soft("pid.available", "50", "20s", "0"));
    let steps = simulation::run(rules, serde_json::from_value(timeline).unwrap()).steps;
    assert_eq!(steps[1].evicted.len(), 0);
    assert_eq!(steps[1].node_conditions, [NodeCondition::PidPressure]);
    assert_eq!(steps[2].evicted.len(), 1, "its grace has gone on");
}

#[test]
fn s1_027_min_reclaim_holds_a_met_threshold_but_never_raises_one() {
    let thresholds = hard_with_reclaim(&[("pid.available", "100")], &[("pid.available", "20")]);
    let mut node = empty_node(kubelet(thresholds));
    let table = [
        (0, 110, false),
        (1, 99, true),
        (2, 119, true),
        (3, 120, false),
        (4, 110, false),
    ];
    for (second, available, met) in table {
        node.look(second, &[(PID, available)]);
        assert_eq!(node.keeper.thresholds_met().count() == 1, met, "{second} s");
    }
}

#[test]
fn s1_028_min_reclaim_holds_nothing_within_a_soft_grace() {
    let mut node = empty_node(kubelet(soft("pid.available", "100", "10s", "20")));
    let crossed = |node: &Node| node.keeper.first_observed().count() == 1;
    for (second, available, met) in [
        (0, 99, true),
        (5, 110, false),
        (6, 99, true),
        (16, 99, true),
        (17, 110, true),
    ] {
        node.look(second, &[(PID, available)]);
        assert_eq!(crossed(&node), met, "{second} s");
    }
}

#[test]
fn s1_029_one_cycle_above_starts_the_soft_clock_anew() {
    let mut node = empty_node(kubelet(soft("pid.available", "100", "10s", "0")));
    for (second, available, acting) in [
        (0, 99, false),
        (9, 99, false),
        (10, 100, false),
        (11, 99, false),
        (20, 99, false),
        (21, 99, true),
    ] {
        assert_eq!(
            acts(node.look(second, &[(PID, available)])),
            acting,
            "{second} s"
        );
    }
}

#[test]
fn s1_029_a_threshold_that_stays_the_same_keeps_its_clock_through_a_new_configuration() {
    let soft_pid = |grace| soft("pid.available", "100", grace, "0");
    for (grace, kept) in [("10s", true), ("11s", false)] {
        let mut node = empty_node(kubelet(soft_pid("10s")));
        node.look(0, &[(PID, 99)]);
        let mut changed = soft_pid(grace);
        changed.extend(hard(&[("memory.available", "1Mi")]));
        node.keeper.reconfigure(kubelet(changed));
        assert_eq!(acts(node.look(10, &[(PID, 99)])), kept, "{grace}");
        assert_eq!(node.conditions(), [NodeCondition::PidPressure]);
    }
}

#[test]
fn s1_030_during_a_soft_grace_only_the_condition_changes() {
    let mut node = empty_node(kubelet(soft("pid.available", "100", "10s", "0")));
    assert_eq!(node.look(0, &[(PID, 99)]), Step::Rest);
    assert_eq!(node.conditions(), [NodeCondition::PidPressure]);
    assert_eq!(node.keeper.thresholds_met().count(), 0);
}

#[test]
fn s1_031_a_condition_outlives_its_cause_by_the_transition_period() {
    let mut node = empty_node(kubelet(hard(&[("pid.available", "100")])));
    node.look(0, &[(PID, 99)]);
    node.look(10, &[(PID, 99)]);
    for (second, holds) in [(11, true), (69, true), (70, false), (71, false)] {
        node.look(second, &[(PID, 100)]);
        assert_eq!(
            node.conditions() == [NodeCondition::PidPressure],
            holds,
            "{second} s"
        );
    }
}

#[test]
fn s1_031_without_a_transition_period_the_kubelets_condition_never_shows_and_ours_does() {
    let thresholds = hard(&[("pid.available", "100")]);
    for (rules, shows) in [
        (kubelet(thresholds.clone()), false),
        (evictd(thresholds), true),
    ] {
        let mut node = empty_node(Rules {
            pressure_transition_period: SignedDuration::ZERO,
            ..rules
        });
        assert!(acts(node.look(0, &[(PID, 99)])));
        assert_eq!(node.conditions() == [NodeCondition::PidPressure], shows);
        node.look(1, &[(PID, 100)]);
        assert_eq!(node.conditions(), []);
    }
}

#[test]
fn s1_032_a_grace_has_passed_when_it_is_reached() {
    for (second, acting) in [(9, false), (10, true), (11, true)] {
        let mut node = empty_node(kubelet(soft("pid.available", "100", "10s", "0")));
        assert!(!acts(node.look(0, &[(PID, 99)])));
        assert_eq!(acts(node.look(second, &[(PID, 99)])), acting, "{second} s");
    }
    let mut node = empty_node(kubelet(hard(&[("pid.available", "100")])));
    assert!(acts(node.look(0, &[(PID, 99)])));
}

#[test]
fn s1_033_a_stale_sample_keeps_the_condition_but_evicts_no_pod() {
    let thresholds = hard(&[("pid.available", "100")]);
    for rules in [kubelet(thresholds.clone()), evictd(thresholds)] {
        let mut node = empty_node(rules);
        let mut look = |second, sampled| {
            let step = node
                .keeper
                .observe(at(second), &seen(sampled, &[(PID, 99)]));
            assert_eq!(node.keeper.conditions().count(), 1);
            assert_eq!(node.keeper.thresholds_met().count(), 1);
            acts(step)
        };
        assert!(look(0, 0));
        assert!(!look(10, 0), "the same sample");
        assert!(look(20, 15), "a newer one");
        assert!(!look(30, 14), "an older one");
        assert!(look(40, 15), "newer than the one before");
    }
}

#[test]
fn s1_033_a_sample_without_time_or_without_a_predecessor_counts_as_new() {
    let timeless = |time: Option<i64>| -> Observations {
        let observation = Observation {
            available: 99,
            capacity: 1000,
            time: time.map(at),
        };
        [(PID, observation)].into_iter().collect()
    };
    let mut node = empty_node(kubelet(hard(&[("pid.available", "100")])));
    assert!(acts(node.keeper.observe(at(0), &timeless(None))));
    assert!(acts(node.keeper.observe(at(1), &timeless(None))));
    assert!(acts(node.keeper.observe(at(2), &timeless(Some(0)))));
    assert!(!acts(node.keeper.observe(at(3), &timeless(Some(0)))));
    node.keeper.observe(at(4), &Observations::default());
    assert!(acts(node.keeper.observe(at(5), &timeless(Some(0)))));
}

#[test]
fn s1_033_the_look_after_a_reclaim_is_not_the_previous_sample() {
    let mut node = empty_node(kubelet(hard(&[("nodefs.available", "100Mi")])));
    let low = [(Signal::NodefsAvailable, 0)];
    assert!(acts(node.look(0, &low)));
    node.keeper.reclaimed(Some(&seen(8, &low)));
    let step = node.keeper.observe(at(10), &seen(5, &low));
    assert!(
        acts(step),
        "newer than the first look's, older than the reclaim's"
    );
}

#[test]
fn s1_089_admission_sees_a_condition_for_as_long_as_it_is_held() {
    let mut node = empty_node(kubelet(hard(&[("pid.available", "100")])));
    let new = crate::node::priority("new", 0);
    for (second, available, allowed) in [
        (0, 100, true),
        (1, 99, false),
        (2, 100, false),
        (61, 100, true),
    ] {
        node.look(second, &[(PID, available)]);
        let answer =
            evictd_admission::admit(&new, &[] as &[evictd_pod::Pod], &node.conditions(), &[]);
        assert_eq!(answer.allowed, allowed, "{second} s");
    }
}

#[test]
fn s1_022_a_signal_that_is_not_observed_is_never_met() {
    let thresholds = hard(&[("memory.available", "100Mi"), ("pid.available", "10")]);
    for rules in [kubelet(thresholds.clone()), evictd(thresholds)] {
        let mut node = Node::new(rules, Vec::new());
        node.look(
            0,
            &[(Signal::PidAvailable, 5), (Signal::MemoryAvailable, 0)],
        );
        assert_eq!(node.keeper.thresholds_met().count(), 2);
        // It is not held either once its figure is missing.
        node.look(1, &[(Signal::PidAvailable, 5)]);
        assert_eq!(node.keeper.thresholds_met().count(), 1);
    }
}
