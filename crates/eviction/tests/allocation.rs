//! A cycle in which nothing is short allocates nothing, whatever the number of pods.
#![allow(clippy::unwrap_used, reason = "tests")]

use evictd_eviction::{Housekeeper, Rules, Step, rules::MemoryAndSwap};
use evictd_pod::Pod;
use evictd_signals::{
    Observation, Observations, Signal, ThresholdMaps, pressure::Stall, threshold,
};
use evictd_usage::{ContainerUsage, FsUsage, PodUsage, Usage, VolumeUsage, figure::Figure};
use jiff::{SignedDuration, Timestamp};

fn node(pods: usize) -> (Vec<Pod>, Usage) {
    let files = FsUsage {
        bytes: Some(Figure::bytes(1 << 20)),
        inodes: Some(Figure::inodes(10)),
        ..FsUsage::default()
    };
    let used = PodUsage {
        working_set: Some(Figure::bytes(1 << 20)),
        ephemeral_storage: Some(Figure::bytes(1 << 20)),
        containers: vec![ContainerUsage {
            name: "c".to_owned(),
            working_set: Some(Figure::bytes(1 << 20)),
            rootfs: files,
            logs: files,
            directories: None,
        }],
        volumes: vec![VolumeUsage {
            name: "v".to_owned(),
            usage: files,
            directories: None,
        }],
        ..PodUsage::default()
    };
    let pod = |number: usize| {
        let json = format!(
            r#"{{"metadata":{{"name":"p{number}","uid":"u{number}"}},"spec":{{
                "containers":[{{"name":"c","resources":{{"limits":{{"ephemeral-storage":"1Gi"}}}}}}],
                "volumes":[{{"name":"v","emptyDir":{{"sizeLimit":"1Gi"}}}}]}}}}"#
        );
        Pod::from_wire(serde_json::from_str(&json).unwrap())
    };
    let usage = vec![Some(used); pods].into_iter().collect();
    ((0..pods).map(pod).collect(), usage)
}

#[test]
fn an_idle_cycle_allocates_nothing() {
    let mut maps = ThresholdMaps::default();
    for signal in Signal::ALL {
        let value = if signal.is_pressure() {
            "full avg60 > 90%"
        } else {
            "10%"
        };
        maps.hard
            .insert(signal.as_str().to_owned(), value.to_owned());
        maps.minimum_reclaim
            .insert(signal.as_str().to_owned(), "5%".to_owned());
    }
    let thresholds = threshold::with_allocatable(&maps.parse_with_ours().unwrap());
    let (pods, usage) = node(110);
    let both = Rules {
        memory_and_swap: MemoryAndSwap::Both,
        ..Rules::evictd()
    };
    for rules in [Rules::kubelet(), Rules::evictd(), both] {
        let mut keeper = Housekeeper::new(Rules {
            thresholds: thresholds.clone(),
            local_storage_capacity_isolation: true,
            ..rules
        });
        let mut now = Timestamp::UNIX_EPOCH;
        let mut cycle = || {
            now += SignedDuration::from_secs(1);
            let observation = Observation {
                available: 900,
                capacity: 1000,
                time: Some(now),
            };
            let all = Signal::ALL.into_iter().map(|signal| (signal, observation));
            let mut seen: Observations = all.collect();
            for signal in [Signal::MemoryPsi, Signal::IoPsi] {
                seen.set_stall(signal, Some(Stall::default()), Some(now));
            }
            assert_eq!(keeper.observe(now, &seen), Step::LocalStorage);
            assert!(keeper.check_local_storage(now, &pods, &usage).is_empty());
            assert_eq!(keeper.pressure(), Step::Rest);
        };
        cycle();
        let allocated = allocation_counter::measure(cycle);
        assert_eq!(allocated.count_total, 0);
    }
}
