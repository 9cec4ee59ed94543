//! What a threshold may look like, and what is said of one that may not (S1-001 to S1-012).

use crate::node::{GI, hard, maps, seen};
use evictd_eviction::simulation::PlainConfig;
use evictd_signals::{NodeCondition, Signal, StarvedResource, Threshold, ThresholdMaps};
use serde_json::json;

fn errors(maps: &ThresholdMaps) -> Vec<String> {
    let errors = maps.parse().unwrap_err();
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn s1_001_s1_002_s1_003_every_signal_its_resource_and_its_condition() {
    use NodeCondition::{DiskPressure, MemoryPressure, PidPressure};
    let table = [
        ("memory.available", StarvedResource::Memory, MemoryPressure),
        (
            "allocatableMemory.available",
            StarvedResource::Memory,
            MemoryPressure,
        ),
        (
            "nodefs.available",
            StarvedResource::EphemeralStorage,
            DiskPressure,
        ),
        ("nodefs.inodesFree", StarvedResource::Inodes, DiskPressure),
        (
            "imagefs.available",
            StarvedResource::EphemeralStorage,
            DiskPressure,
        ),
        ("imagefs.inodesFree", StarvedResource::Inodes, DiskPressure),
        (
            "containerfs.available",
            StarvedResource::EphemeralStorage,
            DiskPressure,
        ),
        (
            "containerfs.inodesFree",
            StarvedResource::Inodes,
            DiskPressure,
        ),
        ("pid.available", StarvedResource::Pids, PidPressure),
    ];
    let kubelets = Signal::ALL.into_iter().filter(|signal| !signal.is_ours());
    assert_eq!(table.len(), kubelets.count());
    for (name, resource, condition) in table {
        let threshold = &hard(&[(name, "1")])[0];
        assert_eq!(threshold.signal.as_str(), name);
        assert_eq!(threshold.signal.resource(), resource, "{name}");
        assert_eq!(threshold.signal.condition(), Some(condition), "{name}");
    }
}

#[test]
fn s1_004_met_only_strictly_below_the_value() {
    for (available, met) in [(99, true), (100, false), (101, false)] {
        let rules = crate::node::kubelet(hard(&[("pid.available", "100")]));
        let mut node = crate::node::Node::new(rules, Vec::new());
        node.look(0, &[(Signal::PidAvailable, available)]);
        assert_eq!(
            node.keeper.thresholds_met().count() == 1,
            met,
            "{available}"
        );
    }
}

#[test]
fn s1_005_the_four_maps_make_one_list() {
    let maps = maps(
        &[("memory.available", "100Mi"), ("nodefs.available", "10%")],
        &[("memory.available", "1Gi")],
        &[("memory.available", "1m30s")],
        &[("memory.available", "5%"), ("nodefs.available", "1Gi")],
    );
    let shown = |threshold: &Threshold| serde_json::to_value(threshold).unwrap();
    let parsed: Vec<_> = maps.parse().unwrap().iter().map(shown).collect();
    let memory = "memory.available";
    let expected = [
        json!({ "signal": memory, "value": "100Mi", "gracePeriodSeconds": 0, "minReclaim": "0.05" }),
        json!({ "signal": "nodefs.available", "value": "0.1", "gracePeriodSeconds": 0, "minReclaim": "1Gi" }),
        json!({ "signal": memory, "value": "1Gi", "gracePeriodSeconds": 90, "minReclaim": "0.05" }),
    ];
    assert_eq!(parsed, expected);
}

#[test]
fn s1_006_zero_and_a_hundred_percent_switch_off_and_nothing_near_them_does() {
    for off in ["0%", "100%"] {
        assert_eq!(hard(&[("memory.available", off)]), [], "{off}");
    }
    // Only these two texts: others of the same worth are thresholds.
    for (value, worth) in [("0.0%", 0), ("100.0%", GI), ("50%", GI / 2)] {
        let threshold = &hard(&[("memory.available", value)])[0];
        assert_eq!(threshold.value.at(GI).value(), worth, "{value}");
    }
}

#[test]
fn s1_006_values_that_are_refused() {
    let table = [
        (
            "-0.1%",
            "eviction percentage threshold memory.available must be >= 0%: -0.1%",
        ),
        (
            "100.1%",
            "eviction percentage threshold memory.available must be <= 100%: 100.1%",
        ),
        (
            "0",
            "eviction threshold memory.available must be positive: 0",
        ),
        (
            "-1Gi",
            "eviction threshold memory.available must be positive: -1Gi",
        ),
        (
            "1Gb",
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        ("%", "strconv.ParseFloat: parsing \"\": invalid syntax"),
    ];
    for (value, error) in table {
        let maps = maps(&[("memory.available", value)], &[], &[], &[]);
        assert_eq!(errors(&maps), [error], "{value}");
    }
}

#[test]
fn s1_007_an_unknown_signal_is_refused_in_every_map() {
    let (signal, none): (_, &[(&str, &str)]) = ("memory.free", &[]);
    let expected = ["unsupported eviction signal memory.free"];
    let value = [(signal, "1Gi")];
    assert_eq!(errors(&maps(&value, none, none, none)), expected);
    assert_eq!(errors(&maps(none, &value, none, none)), expected);
    assert_eq!(errors(&maps(none, none, &[(signal, "1m")], none)), expected);
    assert_eq!(errors(&maps(none, none, none, &value)), expected);
}

#[test]
fn s1_008_a_soft_threshold_needs_a_grace_period_that_is_not_negative() {
    let soft = [("pid.available", "100")];
    let table = [
        (
            None,
            "grace period must be specified for the soft eviction threshold pid.available",
        ),
        (
            Some("-1s"),
            "invalid eviction grace period specified: -1s, must be a positive value",
        ),
        (Some("1M"), "time: unknown unit \"M\" in duration \"1M\""),
        (Some("10"), "time: missing unit in duration \"10\""),
    ];
    for (grace, error) in table {
        let grace: Vec<_> = grace
            .map(|grace| ("pid.available", grace))
            .into_iter()
            .collect();
        assert_eq!(errors(&maps(&[], &soft, &grace, &[])), [error]);
    }
}

#[test]
fn s1_009_a_soft_threshold_without_delay_is_hard_in_every_step() {
    let thresholds = crate::node::soft("pid.available", "100", "0s", "0");
    assert!(thresholds[0].is_hard());
    let pods = vec![(crate::node::priority("a", 0), crate::node::processes(9))];
    let mut node = crate::node::Node::new(crate::node::kubelet(thresholds), pods);
    let decision = node.cycle(0, &[(Signal::PidAvailable, 5)]).unwrap();
    assert_eq!(decision.kind, evictd_decision::Cause::Hard);
    assert_eq!(decision.eviction.unwrap().grace_period_seconds, 1);
}

#[test]
fn s1_010_minimum_reclaim_hangs_on_hard_and_soft_of_its_signal() {
    let memory = "memory.available";
    let maps = maps(
        &[(memory, "1Gi"), ("pid.available", "10")],
        &[(memory, "2Gi")],
        &[(memory, "1m")],
        &[(memory, "500Mi")],
    );
    for threshold in maps.parse().unwrap() {
        let expected = (threshold.signal == Signal::MemoryAvailable).then(|| "500Mi".to_owned());
        let min_reclaim = threshold.min_reclaim.map(|value| value.to_string());
        assert_eq!(min_reclaim, expected, "{}", threshold.signal);
    }
}

#[test]
fn s1_010_minimum_reclaim_may_be_zero_but_not_zero_percent() {
    let memory = "memory.available";
    let with = |reclaim| maps(&[(memory, "1Gi")], &[], &[], &[(memory, reclaim)]);
    for reclaim in ["0", "1", "0.5%", "100%", "150%"] {
        assert!(with(reclaim).parse().is_ok(), "{reclaim}");
    }
    let negative = "negative eviction minimum reclaim specified for memory.available";
    assert_eq!(errors(&with("-1")), [negative]);
    for reclaim in ["0%", "-5%"] {
        let error =
            format!("eviction percentage minimum reclaim {memory} must be positive: {reclaim}");
        assert_eq!(errors(&with(reclaim)), [error]);
    }
}

#[test]
fn s1_011_percentages_are_single_precision_and_follow_the_capacity_of_each_cycle() {
    let threshold = &hard(&[("memory.available", "4.1%")])[0];
    assert_eq!(threshold.value.to_string(), "0.040999997");
    assert_eq!(threshold.value.at(1_000_000_000).value(), 40_999_997);
    let rules = crate::node::kubelet(hard(&[("pid.available", "10%")]));
    let mut node = crate::node::Node::new(rules, Vec::new());
    for (second, capacity, met) in [(0, 1000, true), (1, 900, false), (2, 1000, true)] {
        let mut all = seen(second, &[(Signal::PidAvailable, 95)]);
        let mut one = *all.get(Signal::PidAvailable).unwrap();
        one.capacity = capacity;
        all.set(Signal::PidAvailable, Some(one));
        node.keeper.observe(crate::node::at(second), &all);
        assert_eq!(node.keeper.thresholds_met().count() == 1, met, "{capacity}");
    }
}

#[test]
fn s1_012_only_enforced_pods_copy_the_hard_memory_threshold() {
    for (enforced, copied) in [
        (json!(["pods"]), true),
        (json!(["none"]), false),
        (json!([]), false),
    ] {
        let config = json!({
            "evictionHard": { "memory.available": "1Gi", "nodefs.available": "10%" },
            "evictionSoft": { "memory.available": "2Gi" },
            "evictionSoftGracePeriod": { "memory.available": "1m" },
            "evictionMinimumReclaim": { "memory.available": "5Mi" },
            "enforceNodeAllocatable": enforced,
        });
        let config: PlainConfig = serde_json::from_value(config).unwrap();
        let thresholds = config.rules().unwrap().thresholds;
        let copies: Vec<_> = thresholds
            .iter()
            .filter(|threshold| threshold.signal == Signal::AllocatableMemoryAvailable)
            .collect();
        assert_eq!(copies.len(), usize::from(copied), "{enforced}");
        for copy in copies {
            assert!(copy.is_hard());
            assert_eq!(copy.value.to_string(), "1Gi");
            assert_eq!(copy.min_reclaim.unwrap().to_string(), "5Mi");
        }
    }
}
