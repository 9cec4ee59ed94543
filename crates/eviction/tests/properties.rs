//! What holds whatever happens: random pods, usage, thresholds and timelines, absurd figures among them.
#![allow(clippy::unwrap_used, reason = "tests")]

use evictd_decision::{Decision, Excess, RankedPod, Shares, Spared};
use evictd_departures::{Departure, Departures, Ending, Event, Purpose};
use evictd_eviction::{
    Answer, Housekeeper, Rules, Step,
    rank::Ranking,
    rules::{FilesystemLayout, PREFERENCE_ANNOTATION, UnknownStats},
};
use evictd_pod::{Pod, Quantity, wire};
use evictd_signals::{
    Observation, Observations, Signal, StarvedResource, Threshold, ThresholdValue,
};
use evictd_usage::{ContainerUsage, FsUsage, PodUsage, Usage, VolumeUsage, figure::Figure};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::json;
use std::{collections::BTreeSet, path::PathBuf};

/// Small numbers, which collide and lie close to thresholds, and absurd ones.
fn number() -> impl Strategy<Value = i64> {
    prop_oneof![8 => 0_i64..300, 1 => select(vec![i64::MIN, -1, i64::MAX, i64::MAX - 1, 1 << 40])]
}

fn files() -> impl Strategy<Value = FsUsage> {
    let figures = (prop::option::of(number()), prop::option::of(number()));
    figures.prop_map(|(bytes, inodes)| FsUsage {
        bytes: bytes.map(Figure::bytes),
        inodes: inodes.map(Figure::inodes),
        ..FsUsage::default()
    })
}

fn usage() -> impl Strategy<Value = Option<PodUsage>> {
    let figures = prop::array::uniform2(prop::option::weighted(0.9, number()));
    let processes = prop::option::weighted(0.9, prop_oneof![9 => 0_i64..300, 1 => Just(i64::MAX)]);
    let known = (figures, processes, prop::array::uniform3(files()));
    let known = known.prop_map(
        |([memory, disk], processes, [rootfs, logs, volume])| PodUsage {
            working_set: memory.map(Figure::bytes),
            processes: processes.map(Figure::processes),
            ephemeral_storage: disk.map(Figure::bytes),
            containers: vec![ContainerUsage {
                name: "c".to_owned(),
                working_set: memory.map(Figure::bytes),
                rootfs,
                logs,
                directories: None,
            }],
            volumes: vec![VolumeUsage {
                name: "v".to_owned(),
                usage: volume,
                directories: None,
            }],
            ..PodUsage::default()
        },
    );
    prop::option::weighted(0.85, known)
}

fn pod() -> impl Strategy<Value = wire::Pod> {
    let priority = select(vec![
        0,
        0,
        0,
        -1,
        7,
        i32::MIN,
        1_999_999_999,
        2_000_000_000,
        i32::MAX,
    ]);
    let request = select(vec!["0", "100", "150", "100m", "8Ei"]);
    let flags = prop::array::uniform5(prop::bool::weighted(0.2));
    let preference = select(vec!["", "", "prefer", "avoid", "never"]);
    let pod = (
        priority,
        request,
        flags,
        preference,
        prop::option::of(-5_i64..60),
    );
    pod.prop_map(|(priority, request, flags, preference, grace)| {
        let [is_static, protected, returns, terminating, limited] = flags;
        let mut metadata = json!({ "annotations": { PREFERENCE_ANNOTATION: preference } });
        if is_static {
            metadata["annotations"]["kubernetes.io/config.source"] = json!("file");
        }
        if protected {
            metadata["namespace"] = json!("protected");
        }
        if returns {
            metadata["ownerReferences"] =
                json!([{ "kind": "DaemonSet", "name": "d", "uid": "d", "controller": true }]);
        }
        if terminating {
            metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let limit = if limited {
            json!({ "ephemeral-storage": "200" })
        } else {
            json!({})
        };
        let resources = json!({
            "requests": { "memory": request, "ephemeral-storage": request }, "limits": limit,
        });
        let spec = json!({
            "priority": priority,
            "terminationGracePeriodSeconds": grace,
            "containers": [{ "name": "c", "resources": resources }],
            "volumes": [{ "name": "v", "emptyDir": {} }],
        });
        let pod = json!({ "metadata": metadata, "spec": spec });
        serde_json::from_value(pod).unwrap()
    })
}

/// Pods that differ in name and UID, and what they use.
fn pods() -> impl Strategy<Value = (Vec<Pod>, Usage)> {
    prop::collection::vec((pod(), usage()), 0..9).prop_map(|all| {
        let (mut pods, usage): (Vec<wire::Pod>, Vec<_>) = all.into_iter().unzip();
        for (number, pod) in pods.iter_mut().enumerate() {
            pod.metadata.name = format!("p{number}");
            pod.metadata.uid = format!("u{number}").into();
        }
        let pods = pods.into_iter().map(Pod::from_wire).collect();
        (pods, usage.into_iter().collect())
    })
}

fn value() -> impl Strategy<Value = ThresholdValue> {
    prop_oneof![
        (1_i64..300).prop_map(|value| ThresholdValue::Quantity(Quantity::count(value))),
        (0.0_f32..1.5).prop_map(ThresholdValue::Percentage),
    ]
}

fn threshold() -> impl Strategy<Value = Threshold> {
    let grace = select(vec![0, 0, 1, 5, 10]).prop_map(SignedDuration::from_secs);
    let signal = select(Signal::ALL.to_vec());
    let threshold = (signal, value(), grace, prop::option::of(value()));
    threshold.prop_map(|(signal, value, grace_period, min_reclaim)| Threshold {
        signal,
        value,
        grace_period,
        min_reclaim,
    })
}

fn rules() -> impl Strategy<Value = Rules> {
    let switches = prop::array::uniform4(any::<bool>());
    let rules = (switches, prop::collection::vec(threshold(), 0..6));
    rules.prop_map(|([ours, isolation, dedicated, split], thresholds)| {
        let mut rules = if ours {
            Rules::evictd()
        } else {
            Rules::kubelet()
        };
        if ours {
            rules.protect.namespaces.push("protected".to_owned());
            rules.pod_preference_namespaces.push("default".to_owned());
        }
        rules.pressure_transition_period = SignedDuration::from_secs(20);
        rules.local_storage_capacity_isolation = isolation;
        rules.layout = FilesystemLayout {
            dedicated_image_fs: dedicated,
            split_container_fs: dedicated && split,
        };
        rules.thresholds = thresholds;
        rules
    })
}

/// One cycle: seconds since the last, what is seen, and whether that is a new sample.
#[derive(Debug, Clone)]
struct Cycle {
    seconds: i64,
    seen: Vec<(Signal, i64, i64)>,
    fresh: bool,
}

fn cycle() -> impl Strategy<Value = Cycle> {
    let signals = subsequence(Signal::ALL.to_vec(), 0..=Signal::ALL.len());
    let figures = prop::collection::vec((number(), number()), Signal::ALL.len());
    let cycle = (0_i64..12, signals, figures, prop::bool::weighted(0.8));
    cycle.prop_map(|(seconds, signals, figures, fresh)| {
        let figures = figures.into_iter();
        let seen = signals.into_iter().zip(figures);
        let seen = seen.map(|(signal, (available, capacity))| (signal, available, capacity));
        Cycle {
            seconds,
            seen: seen.collect(),
            fresh,
        }
    })
}

/// A node on its way through a timeline.
struct Node {
    keeper: Housekeeper,
    pods: Vec<Pod>,
    usage: Usage,
    now: Timestamp,
    sampled: Timestamp,
    dying: Vec<String>,
}

impl Node {
    fn new(rules: Rules, (pods, usage): (Vec<Pod>, Usage)) -> Self {
        Self {
            keeper: Housekeeper::new(rules),
            pods,
            usage,
            now: Timestamp::UNIX_EPOCH,
            sampled: Timestamp::UNIX_EPOCH,
            dying: Vec::new(),
        }
    }

    /// Every decision of this cycle, and whether it was about pressure.
    fn turn(&mut self, cycle: &Cycle) -> (Vec<Decision>, bool, Observations) {
        self.now += SignedDuration::from_secs(cycle.seconds);
        if cycle.fresh {
            self.sampled = self.now;
        }
        let observation = |(signal, available, capacity): &(Signal, i64, i64)| {
            let observation = Observation {
                available: *available,
                capacity: *capacity,
                time: Some(self.sampled),
            };
            (*signal, observation)
        };
        let seen: Observations = cycle.seen.iter().map(observation).collect();
        let mut step = self.keeper.begin(self.now, &seen);
        loop {
            let (pods, usage) = (&self.pods[..], &self.usage);
            let answer = match step {
                Step::Rest => return (Vec::new(), true, seen),
                Step::LocalStorage => Answer::LocalStorage(Some((pods, usage))),
                Step::Reclaim(_) => Answer::Reclaimed(Some(&seen)),
                Step::Measure(signal) => Answer::Measured(signal, pods, usage),
                Step::Watch(need) => Answer::Watched(need, pods, usage),
                Step::Rank(need) => Answer::Ranked {
                    need,
                    pods,
                    usage,
                    fresh: None,
                },
            };
            let (next, decisions) = self.keeper.answer(self.now, answer);
            if !decisions.is_empty() {
                let for_pressure = !matches!(step, Step::LocalStorage);
                return (decisions, for_pressure, seen);
            }
            step = next;
        }
    }

    fn end(&mut self, decisions: &[Decision]) {
        for uid in decisions.iter().filter_map(|decision| decision.uid.clone()) {
            let purpose = Purpose::Preemption {
                resource: "memory".to_owned(),
            };
            let name = (uid.clone(), uid.clone(), uid.clone());
            let mut departure = Departure::new(name, purpose, self.now, SignedDuration::ZERO);
            departure.cgroup = Some(PathBuf::from(&uid));
            let begin = Event::Begin(Box::new(departure));
            self.keeper.on_event(self.now, begin);
            self.dying.push(uid);
            if self.dying.len().is_multiple_of(2) {
                let gone = self.dying.remove(0);
                let (uid, ending) = (gone.clone(), Ending::Gone { at: self.now });
                self.keeper.on_event(self.now, Event::Ended { uid, ending });
                let index = self.pods.iter().position(|pod| pod.uid == gone).unwrap();
                self.pods.remove(index);
                self.usage.pods.remove(index);
            }
        }
    }
}

fn rank(rules: &Rules, signal: Signal, pods: &[Pod], usage: &Usage) -> Vec<RankedPod> {
    Ranking {
        now: Timestamp::UNIX_EPOCH,
        signal,
        capacity: 600,
        rules,
        departures: &Departures::default(),
        without_cgroup: &BTreeSet::new(),
    }
    .of(pods, usage)
}

fn keys(row: &RankedPod) -> impl PartialEq + std::fmt::Debug + use<> {
    let flags = (row.returns, row.terminating, row.preference);
    (row.excess, flags, row.priority, row.overage)
}

/// What a pod's end gives back is next to nothing beside what is missing.
fn is_small(decision: &Decision, row: &RankedPod, shares: &Shares) -> bool {
    let missing = i128::from((shares.short - shares.on_the_way).value());
    let gain = row.gain.filter(|_| decision.acting_signal().is_some());
    gain.is_some_and(|gain| gain <= Quantity::ZERO || i128::from(gain.value()) * 100 < missing)
}

/// Those that may be evicted free what is missing, the victim gains something, and next to nothing only where the others
/// do not suffice.
fn covers(decision: &Decision, shares: &Shares) -> Result<(), TestCaseError> {
    let why = &decision.why;
    prop_assert!(
        shares.may_go + shares.on_the_way >= shares.short,
        "in vain: {why}"
    );
    let may_go = || decision.ranked.iter().filter(|row| row.spared.is_none());
    let index = decision.eviction.as_ref().unwrap().index;
    let victim = may_go().find(|row| row.index == index).unwrap();
    let gain = victim.gain;
    prop_assert!(
        gain.is_none_or(|gain| gain.is_positive()),
        "gains nothing: {why}"
    );
    if is_small(decision, victim, shares) {
        let large = may_go().filter(|row| !is_small(decision, row, shares));
        let large = large.filter_map(|row| row.gain);
        let large = large.fold(Quantity::ZERO, |sum, gain| sum + gain);
        prop_assert!(large + shares.on_the_way < shares.short, "a decoy: {why}");
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_ranking_holds_every_pod_once((pods, usage) in pods(), rules in rules(), signal in select(Signal::ALL.to_vec())) {
        let rows = rank(&rules, signal, &pods, &usage);
        let indices: BTreeSet<_> = rows.iter().map(|row| row.index).collect();
        prop_assert_eq!(rows.len(), pods.len());
        prop_assert_eq!(indices.len(), pods.len());
        for row in rows {
            prop_assert_eq!(row.pod, pods[row.index].shared_name());
        }
    }

    #[test]
    fn figures_of_another_unit_change_no_order(
        (pods, usage) in pods(), rules in rules(), signal in select(Signal::ALL.to_vec()), other in number(),
    ) {
        let mut changed = usage.clone();
        for pod in changed.pods.iter_mut().flatten() {
            let bytes = Some(Figure::bytes(other));
            let memory = signal.resource() == StarvedResource::Memory;
            let disk = signal.resource() == StarvedResource::EphemeralStorage;
            pod.working_set = if memory { pod.working_set } else { bytes };
            if signal.resource() != StarvedResource::Pids {
                pod.processes = Some(Figure::processes(other));
            }
            let of_containers = pod.containers.iter_mut().flat_map(|one| [&mut one.rootfs, &mut one.logs]);
            for part in of_containers.chain(pod.volumes.iter_mut().map(|one| &mut one.usage)) {
                part.bytes = if disk { part.bytes } else { bytes };
                if signal.resource() != StarvedResource::Inodes {
                    part.inodes = Some(Figure::inodes(other));
                }
            }
        }
        let rows = rank(&rules, signal, &pods, &usage);
        let again = rank(&rules, signal, &pods, &changed);
        let places = |rows: &[RankedPod]| rows.iter().map(|row| (row.index, row.gain)).collect::<Vec<_>>();
        prop_assert_eq!(places(&rows), places(&again));
    }

    #[test]
    fn a_request_in_bytes_changes_no_order_by_counts_with_ours((pods, usage) in pods(), other in number()) {
        let mut changed = pods.clone();
        for pod in &mut changed {
            pod.ephemeral_storage_request = Quantity::bytes(other);
        }
        for signal in [Signal::NodefsInodesFree, Signal::PidAvailable] {
            let places = |pods: &[Pod]| -> Vec<usize> {
                let rows = rank(&Rules::evictd(), signal, pods, &usage);
                rows.iter().map(|row| row.index).collect()
            };
            prop_assert_eq!(places(&pods), places(&changed));
        }
    }

    #[test]
    fn with_ours_no_pod_without_a_gain_ranks_before_one_with_a_gain(
        (pods, usage) in pods(), signal in select(Signal::ALL.to_vec()),
    ) {
        let rows = rank(&Rules::evictd(), signal, &pods, &usage);
        let nothing = rows.iter().position(|row| row.gain == Some(Quantity::ZERO));
        let something = rows.iter().rposition(|row| row.gain.is_some_and(|gain| !gain.is_zero()));
        if let (Some(nothing), Some(something)) = (nothing, something) {
            prop_assert!(something < nothing, "{:#?}", rows);
        }
    }

    #[test]
    fn the_order_of_the_list_decides_only_between_equals(
        (pods, usage) in pods(), rules in rules(), signal in select(Signal::ALL.to_vec()), turn in 0_usize..9,
    ) {
        let rows = rank(&rules, signal, &pods, &usage);
        let (mut turned, mut turned_usage) = (pods.clone(), usage.clone());
        let turn = turn.min(pods.len());
        turned.rotate_left(turn);
        turned_usage.pods.rotate_left(turn);
        let again = rank(&rules, signal, &turned, &turned_usage);
        for (row, again) in rows.iter().zip(&again) {
            prop_assert_eq!(keys(row), keys(again));
        }
    }

    #[test]
    fn above_the_request_ranks_before_within_and_unknown_never_before_above_with_ours(
        (pods, usage) in pods(), rules in rules(), signal in select(Signal::ALL.to_vec()),
    ) {
        let ours = rules.unknown_stats == UnknownStats::Last;
        prop_assume!(ours || signal.resource() != StarvedResource::Pids);
        let excess: Vec<_> = rank(&rules, signal, &pods, &usage).iter().map(|row| row.excess).collect();
        prop_assert!(excess.is_sorted(), "{:?}", excess);
        prop_assert!(!ours || !excess.contains(&Excess::UnknownFirst));
    }

    #[test]
    fn no_spared_pod_is_evicted_and_one_at_most_for_pressure(
        pods in pods(), rules in rules(), cycles in prop::collection::vec(cycle(), 1..25),
    ) {
        let ours = rules.unknown_stats == UnknownStats::Last;
        let mut node = Node::new(rules, pods);
        for cycle in &cycles {
            let (decisions, pressure, _) = node.turn(cycle);
            prop_assert!(!pressure || decisions.len() <= 1);
            for decision in &decisions {
                serde_json::to_string(decision).unwrap();
                // A pod that may not go is named where it exceeds a limit of its own.
                let named = decision.threshold.is_none() && decision.passed_over.is_some();
                prop_assert_eq!(decision.eviction.is_none(), decision.withheld.is_some() || named);
                let Some(eviction) = &decision.eviction else { continue };
                let pod = &node.pods[eviction.index];
                prop_assert_eq!(Some(&pod.uid), decision.uid.as_ref());
                prop_assert!(pod.critical.is_none());
                prop_assert!(!ours || pod.namespace != "protected");
                let never = pod.annotations.get(PREFERENCE_ANNOTATION).is_some_and(|own| own == "never") && pod.namespace == "default";
                prop_assert!(!ours || !never);
                prop_assert!(!node.dying.contains(&pod.uid));
                prop_assert!(!ours || eviction.grace_period_seconds >= 0);
                if let Some(shares) = decision.shares.filter(|_| ours) {
                    covers(decision, &shares)?;
                }
                let before = decision.ranked.iter().take_while(|row| row.index != eviction.index);
                let alone = decision.why.contains("alone holds");
                for row in before.filter(|_| !alone) {
                    let spared = matches!(row.spared, Some(Spared::Critical(_) | Spared::Protected | Spared::Never | Spared::Dying));
                    let small = decision.shares.filter(|_| ours).is_some_and(|shares| is_small(decision, row, &shares));
                    prop_assert!(spared || small, "{} stood before {pod}", row.pod);
                }
            }
            for decision in &decisions {
                let held = decision.threshold.as_ref().and_then(|acting| acting.threshold.held_until(&acting.observed));
                prop_assert_eq!(held.is_some(), decision.why.contains("by the minimum reclaim"), "{}", decision.why);
            }
            node.end(&decisions);
        }
    }

    #[test]
    fn conditions_graces_and_minimum_reclaims_are_kept(
        pods in pods(), rules in rules(), cycles in prop::collection::vec(cycle(), 1..25),
    ) {
        let mut node = Node::new(rules, pods);
        let mut held: Vec<Threshold> = Vec::new();
        for cycle in &cycles {
            let (decisions, _, seen) = node.turn(cycle);
            let crossed: Vec<_> = node.keeper.first_observed().map(|(threshold, since)| (threshold.clone(), since)).collect();
            let conditions: Vec<_> = node.keeper.conditions().collect();
            for (threshold, since) in &crossed {
                // With most of the memory available pressure on it raises none.
                let condition = threshold.signal.condition().filter(|_| threshold.signal != Signal::MemoryPsi);
                prop_assert!(condition.is_none_or(|condition| conditions.contains(&condition)), "a met threshold's condition holds");
                prop_assert!(*since <= node.now);
            }
            let is_met = |threshold: &Threshold| crossed.iter().any(|(met, _)| met == threshold);
            for threshold in &held {
                if let Some(seen) = seen.get(threshold.signal).filter(|_| !is_met(threshold)) {
                    // A sum is capped, even one with nothing.
                    let quantity = threshold.value.at(seen.capacity);
                    let release = threshold.min_reclaim.map_or(quantity, |value| quantity + value.at(seen.capacity));
                    prop_assert!(Quantity::count(seen.available) >= release, "released too early");
                }
            }
            for acting in decisions.iter().filter_map(|decision| decision.threshold.as_ref()) {
                let waited = node.now.duration_since(acting.first_observed_at);
                prop_assert!(waited >= acting.threshold.grace_period, "acted within its grace");
                prop_assert!(is_met(&acting.threshold));
            }
            held = node.keeper.thresholds_met().cloned().collect();
            node.end(&decisions);
        }
    }

    #[test]
    fn nothing_acts_twice_on_one_sample(pods in pods(), rules in rules(), cycles in prop::collection::vec(cycle(), 2..25)) {
        let mut node = Node::new(rules, pods);
        let mut seen_before = Observations::default();
        for cycle in &cycles {
            let (decisions, _, seen) = node.turn(cycle);
            for acting in decisions.iter().filter_map(|decision| decision.threshold.as_ref()) {
                let before = seen_before.get(acting.threshold.signal).and_then(|seen| seen.time);
                prop_assert!(before.is_none_or(|before| acting.observed.time.unwrap() > before));
            }
            node.end(&decisions);
            seen_before = seen;
        }
    }
}
