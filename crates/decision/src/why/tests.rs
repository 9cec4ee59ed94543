//! Sentences for one pod and the next.

use super::*;
use evictd_pod::{QosClass, Quantity};

fn pod(name: &str, usage: Option<i64>, request: i64) -> RankedPod {
    let (usage, request) = (usage.map(Quantity::bytes), Quantity::bytes(request));
    RankedPod {
        index: 0,
        pod: name.into(),
        overdue: false,
        excess: match usage {
            None => Excess::UnknownFirst,
            Some(usage) if usage > request => Excess::Exceeds,
            Some(_) => Excess::Within,
        },
        preference: Preference::None,
        returns: false,
        priority: 0,
        terminating: false,
        overage: usage.map(|usage| usage - request),
        growth: None,
        usage,
        gain: usage,
        at_least: false,
        partly_unknown: false,
        swap: Quantity::ZERO,
        request,
        request_note: None,
        spared: None,
        qos: QosClass::Burstable,
    }
}

#[test]
fn the_reported_key_is_the_deciding_one() {
    use StarvedResource::{Memory, Pids};
    let first = pod("a", Some(300 << 20), 50 << 20);
    let lower = |priority| RankedPod {
        priority,
        ..first.clone()
    };
    let table = [
        (
            first.clone(),
            pod("b", Some(1), 2),
            Memory,
            DecidingKey::Excess,
        ),
        (
            lower(-1),
            pod("b", Some(2), 1),
            Memory,
            DecidingKey::Priority,
        ),
        (
            first.clone(),
            pod("b", Some(2), 1),
            Memory,
            DecidingKey::Overage,
        ),
        (first.clone(), first.clone(), Memory, DecidingKey::Order),
        (
            pod("a", None, 0),
            pod("b", Some(7), 0),
            Memory,
            DecidingKey::Excess,
        ),
    ];
    for (own, next, resource, key) in table {
        assert_eq!(own.deciding_key(&next, resource), key);
        assert!(own.before(&next, resource).starts_with("a "));
    }
    // S1-061: process counts are ranked without the excess key.
    let (none, one) = (pod("a", Some(0), 0), pod("b", Some(1), 0));
    assert_eq!(one.deciding_key(&none, Pids), DecidingKey::Overage);
}

#[test]
fn amounts_are_printed_in_their_units() {
    use StarvedResource::{Inodes, Memory, Pids};
    let shares = |resource| Shares {
        resource,
        short: Quantity::count(1124),
        may_go: Quantity::count(1),
        in_no_pod: Quantity::count(2048),
        capacity: Quantity::count(4096),
        ..Shares::default()
    };
    let words = |resource| {
        let shares = shares(resource);
        let growth = None;
        Withheld::NoRelief { shares, growth }.to_string()
    };
    assert_eq!(
        words(Inodes),
        "the pods that may be evicted hold 1 inode together, and 1124 inodes are missing; \
         2048 of 4096 inodes are used outside of pods"
    );
    let shares = Shares {
        unknown: 2,
        ..shares(Memory)
    };
    let growth = None;
    let words_of_unknown = Withheld::NoRelief { shares, growth }.to_string();
    assert!(
        words_of_unknown.contains("hold 1 together (the usage of 2 of them is unknown), and 1.1Ki"),
        "{words_of_unknown}"
    );
    assert!(
        words(Pids).contains("1124 process ids are missing"),
        "{}",
        words(Pids)
    );
    assert!(
        words(Memory).contains("1.1Ki are missing; 2Ki of 4Ki"),
        "{}",
        words(Memory)
    );
}

#[test]
fn usage_in_words() {
    use StarvedResource::{EphemeralStorage, Inodes, Memory, Pids};
    let counted = |usage: i64, request: i64| RankedPod {
        usage: Some(Quantity::count(usage)),
        request: Quantity::count(request),
        ..pod("a", Some(usage), request)
    };
    let table = [
        (
            pod("a", Some(300 << 20), 50 << 20),
            Memory,
            "uses 300Mi, 250Mi above its request of 50Mi",
        ),
        (
            pod("a", Some(5 << 20), 50 << 20),
            EphemeralStorage,
            "uses 5Mi, within its request of 50Mi",
        ),
        (pod("a", Some(0), 0), Memory, "uses 0 and requested none"),
        (counted(4000, 0), Inodes, "uses 4000 inodes"),
        (counted(37, 0), Pids, "runs 37 processes"),
        (
            counted(37, 25),
            Pids,
            "runs 37 processes, 12 above an even share of 25",
        ),
        (
            pod("a", None, 0),
            Memory,
            "has no figures, which the kubelet puts first",
        ),
    ];
    for (pod, resource, words) in table {
        assert_eq!(pod.uses(resource), words);
    }
}
