//! A node in a few words: pods, what they use, and a housekeeper that is led through its cycles.
#![allow(
    clippy::unnecessary_wraps,
    reason = "a pod of which nothing is known stands beside others"
)]

use evictd_decision::{Cause, Decision, RankedPod, Withheld};
use evictd_departures::{Departure, Departures, Ending, Event, Purpose};
use evictd_eviction::{Housekeeper, Rules, Step, rank::Ranking};
use evictd_pod::Pod;
use evictd_signals::{NodeCondition, Observation, Observations, Signal, Threshold, ThresholdMaps};
use evictd_usage::{ContainerUsage, FsUsage, PodUsage, Usage, VolumeUsage, figure::Figure};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

pub(crate) const MI: i64 = 1 << 20;
pub(crate) const GI: i64 = 1 << 30;

/// That many seconds after the epoch.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
}

/// A pod from its `spec`.
pub(crate) fn pod(name: &str, spec: &Value) -> Pod {
    pod_with(name, &json!({}), spec)
}

/// A pod from its `metadata` (name and uid apart) and its `spec`.
pub(crate) fn pod_with(name: &str, metadata: &Value, spec: &Value) -> Pod {
    let made = evictd_test_objects::pod(name).uid(&format!("uid-{name}"));
    let made = made.merge(json!({ "metadata": metadata, "spec": spec }));
    Pod::from_wire(made.parse())
}

/// A pod with one container `c` and that memory request.
pub(crate) fn requesting(name: &str, memory: &str) -> Pod {
    pod(name, &requests(&json!({ "memory": memory })))
}

/// A spec with one container `c` and these requests.
pub(crate) fn requests(requests: &Value) -> Value {
    json!({ "containers": [{ "name": "c", "resources": { "requests": requests } }] })
}

/// A pod that asks for nothing, of that priority.
pub(crate) fn priority(name: &str, priority: i32) -> Pod {
    pod(name, &json!({ "priority": priority }))
}

/// A pod that its `DaemonSet` would start right here again.
pub(crate) fn of_daemon_set(name: &str, spec: &Value) -> Pod {
    let owner = json!({ "kind": "DaemonSet", "name": "d", "uid": "d", "controller": true });
    pod_with(name, &json!({ "ownerReferences": [owner] }), spec)
}

/// A pod that somebody has deleted.
pub(crate) fn terminating(name: &str, spec: &Value) -> Pod {
    let metadata = json!({ "deletionTimestamp": "2030-01-01T00:00:00Z" });
    pod_with(name, &metadata, spec)
}

/// A pod that uses that many bytes of memory.
pub(crate) fn memory(bytes: i64) -> Option<PodUsage> {
    Some(PodUsage {
        working_set: Some(Figure::bytes(bytes)),
        ..PodUsage::default()
    })
}

/// A pod that runs that many processes.
pub(crate) fn processes(count: u64) -> Option<PodUsage> {
    Some(PodUsage {
        processes: Some(Figure::processes(count.cast_signed())),
        ..PodUsage::default()
    })
}

/// Bytes and inodes.
pub(crate) fn files(bytes: i64, inodes: i64) -> FsUsage {
    FsUsage {
        bytes: Some(Figure::bytes(bytes)),
        inodes: Some(Figure::inodes(inodes)),
        ..FsUsage::default()
    }
}

/// A pod with one container `c` and one volume `v` that hold that.
pub(crate) fn disk(rootfs: FsUsage, logs: FsUsage, volume: FsUsage) -> Option<PodUsage> {
    let (name, usage) = ("v".to_owned(), volume);
    Some(PodUsage {
        containers: vec![ContainerUsage {
            name: "c".to_owned(),
            working_set: None,
            rootfs,
            logs,
            directories: None,
        }],
        volumes: vec![VolumeUsage {
            name,
            usage,
            directories: None,
        }],
        ..PodUsage::default()
    })
}

fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    entries.iter().map(owned).collect()
}

/// The maps of a configuration: hard, soft, soft grace, minimum reclaim.
pub(crate) fn maps(
    hard: &[(&str, &str)],
    soft: &[(&str, &str)],
    grace: &[(&str, &str)],
    reclaim: &[(&str, &str)],
) -> ThresholdMaps {
    ThresholdMaps {
        hard: map(hard),
        soft: map(soft),
        soft_grace_period: map(grace),
        minimum_reclaim: map(reclaim),
    }
}

/// Hard thresholds.
pub(crate) fn hard(entries: &[(&str, &str)]) -> Vec<Threshold> {
    maps(entries, &[], &[], &[]).parse().unwrap()
}

/// Hard thresholds with a minimum reclaim.
pub(crate) fn hard_with_reclaim(
    entries: &[(&str, &str)],
    reclaim: &[(&str, &str)],
) -> Vec<Threshold> {
    maps(entries, &[], &[], reclaim).parse().unwrap()
}

/// One soft threshold, its grace and its minimum reclaim.
pub(crate) fn soft(signal: &str, value: &str, grace: &str, reclaim: &str) -> Vec<Threshold> {
    let reclaim = [(signal, reclaim)];
    maps(&[], &[(signal, value)], &[(signal, grace)], &reclaim)
        .parse()
        .unwrap()
}

/// The kubelet's rules, without local-storage isolation and with conditions that outlive their cause by a minute.
pub(crate) fn kubelet(thresholds: Vec<Threshold>) -> Rules {
    Rules {
        thresholds,
        pressure_transition_period: SignedDuration::from_mins(1),
        ..Rules::kubelet()
    }
}

/// Our rules, without local-storage isolation, and for pods that are too small to lift a signal.
pub(crate) fn evictd(thresholds: Vec<Threshold>) -> Rules {
    Rules {
        thresholds,
        local_storage_capacity_isolation: false,
        requires_relief: false,
        ..Rules::evictd()
    }
}

/// What is available of some signals: each out of 1 GiB (or as many things), sampled at that second.
pub(crate) fn seen(sampled: i64, available: &[(Signal, i64)]) -> Observations {
    let observation = |(signal, available): &(Signal, i64)| {
        let observation = Observation {
            available: *available,
            capacity: GI,
            time: Some(at(sampled)),
        };
        (*signal, observation)
    };
    available.iter().map(observation).collect()
}

/// A node that is led through its cycles.
pub(crate) struct Node {
    pub(crate) keeper: Housekeeper,
    pub(crate) pods: Vec<Pod>,
    pub(crate) usage: Usage,
}

impl Node {
    pub(crate) fn new(rules: Rules, pods: Vec<(Pod, Option<PodUsage>)>) -> Self {
        let (pods, usage): (Vec<_>, Vec<_>) = pods.into_iter().unzip();
        Self {
            keeper: Housekeeper::new(rules),
            pods,
            usage: usage.into_iter().collect(),
        }
    }

    /// One cycle with fresh samples, pods evicted where they have to be.
    pub(crate) fn cycle(&mut self, second: i64, available: &[(Signal, i64)]) -> Option<Decision> {
        match self.look(second, available) {
            Step::Rest => None,
            Step::LocalStorage | Step::Watch(_) | Step::Measure(_) => {
                panic!("no cycle asks for that")
            }
            Step::Reclaim(_) | Step::Rank(_) => self.decide(second),
        }
    }

    /// As `cycle`, and only the name of who goes.
    pub(crate) fn evicted(&mut self, second: i64, available: &[(Signal, i64)]) -> Option<String> {
        let decision = self.cycle(second, available)?;
        Some(decision.eviction?.pod)
    }

    /// As `cycle`, and only why nobody goes.
    pub(crate) fn withheld(
        &mut self,
        second: i64,
        available: &[(Signal, i64)],
    ) -> Option<Withheld> {
        self.cycle(second, available)?.withheld
    }

    /// The first half of a cycle, with fresh samples.
    pub(crate) fn look(&mut self, second: i64, available: &[(Signal, i64)]) -> Step {
        self.keeper.observe(at(second), &seen(second, available))
    }

    /// The second half.
    pub(crate) fn decide(&mut self, second: i64) -> Option<Decision> {
        self.keeper.decide(at(second), &self.pods, &self.usage)
    }

    /// What this pod uses from now on.
    pub(crate) fn holds(&mut self, name: &str, usage: Option<PodUsage>) {
        let uid = format!("uid-{name}");
        let index = self.pods.iter().position(|pod| pod.uid == uid).unwrap();
        self.usage.pods[index] = usage;
    }

    /// Ends a pod: it is on its way out, and gone at once.
    pub(crate) fn end(&mut self, second: i64, name: &str) {
        let uid = format!("uid-{name}");
        dies(&mut self.keeper, &uid, second, second);
        gone(&mut self.keeper, &uid, second);
        let index = self.pods.iter().position(|pod| pod.uid == uid).unwrap();
        self.pods.remove(index);
        self.usage.pods.remove(index);
    }

    pub(crate) fn conditions(&self) -> Vec<NodeCondition> {
        self.keeper.conditions().collect()
    }
}

/// A pod that is set on its way out at that second, and killed at the other.
pub(crate) fn dies(keeper: &mut Housekeeper, uid: &str, second: i64, kill_at: i64) {
    let grace = SignedDuration::from_secs(kill_at - second);
    let departure = departure(uid, Cause::Hard, second, grace);
    keeper.on_event(at(second), Event::Begin(Box::new(departure)));
    let uid = uid.to_owned();
    keeper.on_event(at(kill_at), Event::Killed { uid });
}

/// A pod that leaves for memory.
pub(crate) fn departure(uid: &str, cause: Cause, second: i64, grace: SignedDuration) -> Departure {
    let purpose = Purpose::Eviction {
        cause,
        signal: "memory.available".to_owned(),
        crossed_at: at(second),
        clear_at: at(second),
    };
    let name = (format!("id-{uid}"), uid.to_owned(), uid.to_owned());
    let mut departure = Departure::new(name, purpose, at(second), grace);
    departure.cgroup = Some(PathBuf::from(uid));
    departure
}

/// Its last process is gone.
pub(crate) fn gone(keeper: &mut Housekeeper, uid: &str, second: i64) {
    let (uid, at) = (uid.to_owned(), at(second));
    let ending = Ending::Gone { at };
    keeper.on_event(at, Event::Ended { uid, ending });
}

/// It could not be ended.
pub(crate) fn fails(keeper: &mut Housekeeper, uid: &str, second: i64) {
    let (uid, ending) = (uid.to_owned(), Ending::Failed);
    keeper.on_event(at(second), Event::Ended { uid, ending });
}

/// The names in ranked order, for a capacity of 100 things.
pub(crate) fn ranked(
    rules: &Rules,
    signal: Signal,
    pods: &[(Pod, Option<PodUsage>)],
) -> Vec<String> {
    ranking(rules, signal, pods)
        .into_iter()
        .map(|row| pods[row.index].0.name.clone())
        .collect()
}

/// The whole ranking, for a capacity of 100 things.
pub(crate) fn ranking(
    rules: &Rules,
    signal: Signal,
    pods: &[(Pod, Option<PodUsage>)],
) -> Vec<RankedPod> {
    let (pods, usage) = pods.iter().cloned().unzip::<_, _, Vec<_>, Vec<_>>();
    Ranking {
        now: at(0),
        signal,
        capacity: 100,
        rules,
        departures: &Departures::default(),
        without_cgroup: &BTreeSet::new(),
    }
    .of(&pods, &usage.into_iter().collect())
}
