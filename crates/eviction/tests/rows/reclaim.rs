//! What is tried, in which order, before a pod goes (S1-034 to S1-042).

use crate::node::{
    MI, Node, at, evictd, hard, hard_with_reclaim, kubelet, memory, priority, seen, soft,
};
use evictd_decision::Withheld;
use evictd_eviction::{
    Answer, Reclaim, Rules, Step,
    rules::{FilesystemLayout, RuntimeFiles},
    simulation,
};
use evictd_pod::Pod;
use evictd_reclaim::{Gain, Outlook};
use evictd_signals::{NodeCondition, Signal, SignalMap};
use evictd_usage::UsageNeed;
use serde_json::json;
use std::sync::Arc;

const MEMORY: Signal = Signal::MemoryAvailable;
const PID: Signal = Signal::PidAvailable;
const NODEFS: Signal = Signal::NodefsAvailable;

#[test]
fn s1_034_local_storage_comes_first_and_ends_the_cycle() {
    let pod = |name: &str| {
        json!({
            "metadata": { "name": name, "uid": name },
            "spec": { "volumes": [{ "name": "v", "emptyDir": { "sizeLimit": "1Mi" } }] },
        })
    };
    let volume = json!([{ "name": "v", "usedBytes": 2 * MI }]);
    let summary = json!({
        "node": { "rlimit": { "maxpid": 100, "curproc": 99 } },
        "pods": [{ "podRef": { "uid": "b" }, "volume": volume }],
    });
    let timeline = json!({
        "now": "2026-01-01T00:00:00Z",
        "pods": [pod("a"), pod("b")],
        "steps": [{ "summary": summary }, { "offsetSeconds": 10, "summary": summary }],
    });
    let rules = Rules {
        local_storage_capacity_isolation: true,
        ..kubelet(hard(&[("pid.available", "50")]))
    };
    let steps = simulation::run(rules, serde_json::from_value(timeline).unwrap()).steps;
    assert!(steps[0].local_storage_eviction);
    assert_eq!(steps[0].evicted.len(), 1);
    assert_eq!(steps[0].evicted[0].pod, "default/b");
    assert_eq!(steps[0].reclaiming, None);
    assert!(!steps[1].local_storage_eviction);
    assert_eq!(steps[1].evicted[0].pod, "default/a");
}

#[test]
fn s1_035_memory_first_then_hard_then_soft_and_one_signal_a_cycle() {
    let mut thresholds = hard(&[("nodefs.available", "100Mi"), ("pid.available", "100")]);
    thresholds.extend(soft("memory.available", "100Mi", "10s", "0"));
    thresholds.extend(soft("nodefs.inodesFree", "100", "10s", "0"));
    let low = |signals: &[Signal]| {
        signals
            .iter()
            .map(|signal| (*signal, 0))
            .collect::<Vec<_>>()
    };
    let inodes = Signal::NodefsInodesFree;
    let table: [(&[Signal], Signal); 4] = [
        (&[inodes, MEMORY], MEMORY),
        (&[NODEFS, PID, inodes], NODEFS),
        (&[PID, inodes], PID),
        (&[inodes], inodes),
    ];
    for rules in [kubelet(thresholds.clone()), evictd(thresholds)] {
        for (signals, first) in table {
            let pods = vec![(priority("a", 0), memory(MI))];
            let mut node = Node::new(rules.clone(), pods);
            node.look(0, &low(signals));
            let decision = node.cycle(10, &low(signals)).unwrap();
            assert_eq!(decision.acting_signal(), Some(first));
        }
    }
}

#[test]
fn s1_035_a_soft_memory_threshold_acts_before_a_hard_one_by_the_kubelet_and_after_it_by_ours() {
    let mut thresholds = hard(&[("pid.available", "100")]);
    thresholds.extend(soft("memory.available", "100Mi", "10s", "0"));
    let low = [(MEMORY, 0), (PID, 0)];
    for (rules, first) in [
        (kubelet(thresholds.clone()), MEMORY),
        (evictd(thresholds), PID),
    ] {
        let mut node = Node::new(rules, vec![(priority("a", 0), memory(MI))]);
        node.look(0, &low);
        let decision = node.cycle(10, &low).unwrap();
        assert_eq!(decision.acting_signal(), Some(first));
    }
}

#[test]
fn s1_035_a_generated_hard_threshold_acts_before_a_soft_one_too() {
    let mut thresholds = hard(&[("nodefs.available", "100Mi")]);
    thresholds.extend(soft("pid.available", "100", "10s", "0"));
    let mut node = Node::new(evictd(thresholds), vec![(priority("a", 0), memory(MI))]);
    let low = [(PID, 0), (Signal::ContainerfsAvailable, 0)];
    node.look(0, &low);
    let decision = node.cycle(10, &low).unwrap();
    assert_eq!(decision.signal, "containerfs.available");
}

#[test]
fn s1_035_allocatable_memory_is_as_urgent_as_memory() {
    let thresholds = hard(&[
        ("pid.available", "100"),
        ("allocatableMemory.available", "1Mi"),
    ]);
    let mut node = Node::new(kubelet(thresholds), vec![(priority("a", 0), memory(MI))]);
    let low = [(PID, 0), (Signal::AllocatableMemoryAvailable, 0)];
    let decision = node.cycle(0, &low).unwrap();
    assert_eq!(decision.signal, "allocatableMemory.available");
}

#[test]
fn a_disk_signal_without_a_victim_does_not_hide_another() {
    let thresholds = hard(&[("nodefs.available", "100Mi"), ("pid.available", "100")]);
    let reason = "nothing can free disk here";
    let mut node = Node::new(
        Rules {
            withhold_disk_evictions: Some(reason.into()),
            ..evictd(thresholds)
        },
        vec![(priority("a", 0), memory(MI))],
    );
    let off = Some(Withheld::DiskEvictionsOff {
        reason: reason.into(),
    });
    assert_eq!(node.withheld(0, &[(NODEFS, 0)]), off);
    assert_eq!(node.keeper.hard_since(), None, "nor does it cut a grace");
    let decision = node.cycle(1, &[(NODEFS, 0), (PID, 0)]).unwrap();
    assert_eq!(decision.signal, "pid.available");
    assert!(decision.eviction.is_some());
}

#[test]
fn disk_evictions_are_only_withheld_where_a_reclaim_should_come_first() {
    let layout = FilesystemLayout {
        dedicated_image_fs: true,
        split_container_fs: false,
    };
    let thresholds = hard(&[("nodefs.available", "1Mi"), ("imagefs.available", "1Mi")]);
    for (signal, withheld) in [(NODEFS, false), (Signal::ImagefsAvailable, true)] {
        let rules = Rules {
            layout,
            withhold_disk_evictions: Some("no reclaim here".into()),
            ..evictd(thresholds.clone())
        };
        let mut node = Node::new(rules, vec![(priority("a", 0), memory(MI))]);
        assert_eq!(
            node.withheld(0, &[(signal, 0)]).is_some(),
            withheld,
            "{signal}"
        );
    }
}

#[test]
fn a_reclaim_under_way_hides_no_other_signal_and_is_asked_for_again() {
    let mut thresholds = hard(&[("nodefs.available", "100Mi")]);
    thresholds.extend(soft("memory.available", "100Mi", "10s", "0"));
    let mut node = Node::new(evictd(thresholds), vec![(priority("a", 0), memory(MI))]);
    let low = [(MEMORY, 0), (NODEFS, 0)];
    let not_yet = |second| Answer::<Arc<Pod>>::Reclaiming(gains(second, i64::MAX));
    let begin = |node: &mut Node, second| node.keeper.begin(at(second), &seen(second, &low));
    assert!(matches!(begin(&mut node, 0), Step::Reclaim(_)));
    let (step, _) = node.keeper.answer(at(0), not_yet(0));
    assert_eq!(step, Step::Rest, "memory has its grace period");
    for second in [10, 11] {
        assert!(matches!(begin(&mut node, second), Step::Reclaim(_)));
        let (step, _) = node.keeper.answer(at(second), not_yet(second));
        let soft = UsageNeed {
            signal: MEMORY,
            hard: false,
        };
        assert_eq!(step, Step::Rank(soft));
    }
    let decision = node.decide(11).unwrap();
    assert_eq!(decision.acting_signal(), Some(MEMORY));
    assert!(decision.eviction.is_some());
}

#[test]
fn a_reclaim_may_end_when_disks_are_relieved_whatever_else_is_low() {
    let thresholds = hard_with_reclaim(
        &[("nodefs.available", "100Mi"), ("pid.available", "100")],
        &[("nodefs.available", "50Mi")],
    );
    let node = Node::new(evictd(thresholds), Vec::new());
    let by = Reclaim {
        signal: NODEFS,
        dead_containers: true,
        unused_images: true,
    };
    for (left, relieved) in [(149, false), (150, true)] {
        let seen = seen(1, &[(NODEFS, left * MI), (PID, 0)]);
        assert_eq!(node.keeper.disks_relieved(&seen, &by), relieved, "{left}");
    }
}

#[test]
fn images_go_no_further_for_a_disk_that_they_are_not_on() {
    let thresholds = hard(&[
        ("nodefs.available", "100Mi"),
        ("imagefs.available", "100Mi"),
    ]);
    let rules = Rules {
        layout: FilesystemLayout {
            dedicated_image_fs: true,
            split_container_fs: true,
        },
        ..evictd(thresholds)
    };
    let node = Node::new(rules, Vec::new());
    let images = Reclaim {
        signal: Signal::ImagefsAvailable,
        dead_containers: false,
        unused_images: true,
    };
    let seen = seen(1, &[(NODEFS, 0), (Signal::ImagefsAvailable, 100 * MI)]);
    assert!(node.keeper.disks_relieved(&seen, &images));
}

#[test]
fn nothing_is_removed_for_a_filesystem_on_which_the_runtime_keeps_nothing() {
    let image = Signal::ImagefsAvailable;
    let only = |signal: Signal| SignalMap::from_fn(|one| one == signal);
    let (nodefs, imagefs) = (only(NODEFS), only(image));
    let nowhere = SignalMap::default();
    let table = [
        (None, NODEFS, Some((true, true))),
        (Some((nodefs, nodefs)), NODEFS, Some((true, true))),
        (Some((nodefs, nowhere)), NODEFS, Some((false, true))),
        (Some((nowhere, nodefs)), NODEFS, Some((true, false))),
        (Some((imagefs, imagefs)), NODEFS, None),
        (Some((nowhere, nowhere)), image, None),
    ];
    for (files, signal, expected) in table {
        let thresholds = hard(&[(signal.as_str(), "100Mi")]);
        for rules in [evictd(thresholds.clone()), kubelet(thresholds)] {
            let rules = Rules {
                runtime_files: files.map(|(images, layers)| RuntimeFiles { images, layers }),
                ..rules
            };
            let wanted = match Node::new(rules, Vec::new()).look(0, &[(signal, 0)]) {
                Step::Reclaim(want) => Some((want.dead_containers, want.unused_images)),
                _ => None,
            };
            assert_eq!(wanted, expected, "{signal} {files:?}");
        }
    }
}

/// A reclaim that may free so much yet, and has just done something.
fn gains(second: i64, bytes: i64) -> Outlook {
    Outlook {
        bytes: Gain {
            known: bytes,
            uncertain: false,
        },
        ..Outlook::unknown(at(second))
    }
}

#[test]
fn an_eviction_waits_only_for_a_reclaim_that_reaches_the_threshold_and_its_minimum_reclaim() {
    let thresholds = hard_with_reclaim(
        &[("nodefs.available", "100Mi")],
        &[("nodefs.available", "50Mi")],
    );
    let inodes = Gain {
        known: i64::MAX,
        uncertain: true,
    };
    for (rules, bytes, waits) in [
        (evictd(thresholds.clone()), 90 * MI, true),
        (evictd(thresholds.clone()), 90 * MI - 1, false),
        (evictd(thresholds.clone()), 0, false),
        (kubelet(thresholds), 0, true),
    ] {
        let mut node = Node::new(rules, vec![(priority("a", 0), memory(MI))]);
        let step = node.look(0, &[(NODEFS, 60 * MI)]);
        assert!(matches!(step, Step::Reclaim(_)));
        let outlook = Outlook {
            inodes,
            ..gains(0, bytes)
        };
        let answer = Answer::<Arc<Pod>>::Reclaiming(outlook);
        let (step, _) = node.keeper.answer(at(0), answer);
        let need = UsageNeed {
            signal: NODEFS,
            hard: true,
        };
        let expected = if waits { Step::Rest } else { Step::Rank(need) };
        assert_eq!(step, expected, "{bytes}");
    }
}

#[test]
fn inodes_are_compared_with_inodes() {
    let inodes = Signal::NodefsInodesFree;
    let thresholds = hard(&[("nodefs.inodesFree", "100")]);
    let mut node = Node::new(evictd(thresholds), vec![(priority("a", 0), memory(MI))]);
    node.look(0, &[(inodes, 60)]);
    let frees = |known| Outlook {
        inodes: Gain {
            known,
            uncertain: false,
        },
        ..gains(known, 1 << 40)
    };
    for (known, waits) in [(39, false), (40, true)] {
        node.keeper.begin(at(known), &seen(known, &[(inodes, 60)]));
        let answer = Answer::<Arc<Pod>>::Reclaiming(frees(known));
        let (step, _) = node.keeper.answer(at(known), answer);
        assert_eq!(step == Step::Rest, waits, "{known}");
    }
}

#[test]
fn a_filesystem_that_waits_for_its_reclaim_does_not_hold_another_back() {
    let image = Signal::ImagefsAvailable;
    let thresholds = hard(&[
        ("imagefs.available", "100Mi"),
        ("nodefs.available", "100Mi"),
    ]);
    let rules = Rules {
        layout: FilesystemLayout {
            dedicated_image_fs: true,
            split_container_fs: true,
        },
        ..evictd(thresholds)
    };
    let mut node = Node::new(rules, vec![(priority("a", 0), memory(MI))]);
    let mut step = node.look(0, &[(image, 0), (NODEFS, 0)]);
    let mut asked = Vec::new();
    for _ in 0..2 {
        let Step::Reclaim(want) = step else {
            panic!("{step:?}");
        };
        asked.push(want.signal);
        let enough = if want.signal == image { i64::MAX } else { 0 };
        let answer = Answer::<Arc<Pod>>::Reclaiming(gains(0, enough));
        step = node.keeper.answer(at(0), answer).0;
    }
    assert_eq!(asked.len(), 2);
    let need = UsageNeed {
        signal: NODEFS,
        hard: true,
    };
    assert_eq!(step, Step::Rank(need), "{asked:?}");
}

#[test]
fn no_pod_is_evicted_for_a_read_only_filesystem_and_nothing_is_removed_there() {
    let thresholds = hard(&[("nodefs.available", "100Mi"), ("pid.available", "100")]);
    for (rules, spared) in [
        (evictd(thresholds.clone()), true),
        (kubelet(thresholds), false),
    ] {
        let pods = vec![(priority("a", 0), memory(MI))];
        let mut node = Node::new(rules, pods);
        let mut seen = seen(0, &[(NODEFS, 0)]);
        seen.set_read_only(NODEFS, true);
        let step = node.keeper.begin(at(0), &seen);
        assert_eq!(matches!(step, Step::Rank(_)), spared, "{step:?}");
        let decision = node.decide(0).unwrap();
        let withheld = spared.then_some(Withheld::ReadOnlyFilesystem);
        assert_eq!(decision.withheld, withheld);
        let mut conditions = node.keeper.conditions();
        assert!(conditions.any(|one| one == NodeCondition::DiskPressure));
        drop(conditions);
        assert_eq!(
            node.keeper.hard_since().is_none(),
            spared,
            "a grace is not cut"
        );
        // Another signal acts all the same.
        let mut both = crate::node::seen(1, &[(NODEFS, 0), (PID, 0)]);
        both.set_read_only(NODEFS, true);
        if spared {
            node.keeper.begin(at(1), &both);
            assert_eq!(node.decide(1).unwrap().signal, "pid.available");
        }
    }
}

/// A node whose nodefs is low, up to the look after its reclaim.
fn after_reclaim(available: &[(Signal, i64)]) -> Step {
    let mut thresholds = hard_with_reclaim(
        &[("nodefs.available", "100Mi"), ("pid.available", "100")],
        &[("nodefs.available", "50Mi")],
    );
    thresholds.extend(soft("nodefs.inodesFree", "100", "1h", "0"));
    let mut node = Node::new(kubelet(thresholds), Vec::new());
    let step = node.look(
        0,
        &[
            (NODEFS, 99 * MI),
            (PID, 1000),
            (Signal::NodefsInodesFree, 1000),
        ],
    );
    assert!(matches!(step, Step::Reclaim(_)));
    node.keeper.reclaimed(Some(&seen(1, available)))
}

#[test]
fn s1_037_a_reclaim_is_enough_when_no_threshold_at_all_is_met_any_more() {
    let enough = (NODEFS, 150 * MI);
    assert_eq!(after_reclaim(&[enough]), Step::Rest);
    let not_enough: [&[(Signal, i64)]; 4] = [
        // The minimum reclaim is not reached.
        &[(NODEFS, 150 * MI - 1)],
        // Another signal is met, which was not before.
        &[enough, (PID, 99)],
        // A soft one is met, whose grace has hardly begun.
        &[enough, (Signal::NodefsInodesFree, 99)],
        &[(NODEFS, 0)],
    ];
    for available in not_enough {
        assert!(
            matches!(after_reclaim(available), Step::Rank(_)),
            "{available:?}"
        );
    }
}

#[test]
fn s1_037_where_no_fresh_look_is_possible_pods_are_next() {
    let mut node = Node::new(kubelet(hard(&[("nodefs.available", "100Mi")])), Vec::new());
    node.look(0, &[(NODEFS, 0)]);
    let step = node.keeper.reclaimed(None);
    let need = UsageNeed {
        signal: NODEFS,
        hard: true,
    };
    assert_eq!(step, Step::Rank(need));
}

#[test]
fn s1_037_ranking_and_message_keep_the_observation_from_before() {
    let pods = vec![(priority("a", 0), memory(MI))];
    let mut node = Node::new(kubelet(hard(&[("nodefs.available", "100Mi")])), pods);
    node.look(0, &[(NODEFS, 7 * MI)]);
    node.keeper.reclaimed(Some(&seen(1, &[(NODEFS, 50 * MI)])));
    let decision = node.decide(1).unwrap();
    assert_eq!(decision.threshold.unwrap().observed.available, 7 * MI);
    assert!(
        decision
            .eviction
            .unwrap()
            .message
            .contains("available: 7Mi. ")
    );
}

#[test]
fn s1_038_memory_and_process_ids_have_no_reclaim() {
    for signal in [MEMORY, Signal::AllocatableMemoryAvailable, PID] {
        let rules = kubelet(hard(&[(signal.as_str(), "100")]));
        let mut node = Node::new(rules, Vec::new());
        let need = UsageNeed { signal, hard: true };
        assert_eq!(node.look(0, &[(signal, 0)]), Step::Rank(need));
    }
}

/// For each disk signal: whether dead containers, and whether unused images are to go first.
fn reclaims(dedicated: bool, split: bool) -> Vec<(bool, bool)> {
    let signals = ["nodefs", "imagefs", "containerfs"];
    let suffixes = ["available", "inodesFree"];
    let names = signals
        .iter()
        .flat_map(|name| suffixes.map(|suffix| format!("{name}.{suffix}")));
    let reclaim = |name: String| {
        let signal = Signal::parse(&name).unwrap();
        let all =
            ["nodefs", "imagefs"].map(|name| suffixes.map(|suffix| format!("{name}.{suffix}")));
        let thresholds: Vec<_> = all
            .iter()
            .flatten()
            .map(|name| (name.as_str(), "100"))
            .collect();
        let rules = Rules {
            layout: FilesystemLayout {
                dedicated_image_fs: dedicated,
                split_container_fs: split,
            },
            ..evictd(hard(&thresholds))
        };
        match Node::new(rules, Vec::new()).look(0, &[(signal, 0)]) {
            Step::Reclaim(reclaim) => {
                assert_eq!(reclaim.signal, signal);
                (reclaim.dead_containers, reclaim.unused_images)
            }
            Step::Rank(_) => (false, false),
            other => panic!("{name}: {other:?}"),
        }
    };
    names.map(reclaim).collect()
}

#[test]
fn s1_039_single_filesystem() {
    assert_eq!(reclaims(false, false), [(true, true); 6]);
}

#[test]
fn s1_040_dedicated_image_filesystem() {
    let (none, both) = ((false, false), (true, true));
    assert_eq!(reclaims(true, false), [none, none, both, both, both, both]);
}

#[test]
fn s1_041_split_image_and_container_filesystem() {
    let (containers, images) = ((true, false), (false, true));
    let expected = [
        containers, containers, images, images, containers, containers,
    ];
    assert_eq!(reclaims(true, true), expected);
}

#[test]
fn s1_042_without_pods_there_is_no_victim() {
    let mut node = Node::new(kubelet(hard(&[("pid.available", "100")])), Vec::new());
    assert_eq!(node.withheld(0, &[(PID, 0)]), Some(Withheld::NoPods));
}

#[test]
fn s1_042_pods_that_have_ended_are_no_candidates() {
    let pod = |name: &str, phase: &str| json!({ "metadata": { "name": name, "uid": name }, "status": { "phase": phase } });
    let timeline = json!({
        "now": "2026-01-01T00:00:00Z",
        "pods": [pod("a", "Succeeded"), pod("b", "Failed"), pod("c", "Running"), pod("d", "Pending")],
        "steps": [{ "summary": { "node": { "rlimit": { "maxpid": 100, "curproc": 99 } } } }],
    });
    let rules = kubelet(hard(&[("pid.available", "50")]));
    let steps = simulation::run(rules, serde_json::from_value(timeline).unwrap()).steps;
    let ranking = steps[0].ranking.as_deref().unwrap();
    assert_eq!(ranking, ["default/c", "default/d"]);
}
