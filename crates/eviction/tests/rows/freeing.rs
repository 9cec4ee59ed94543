//! A victim of a disk is waited for until the disk shows what its removed files took. Capacity is 1 GiB.

use crate::node::{MI, Node, at, disk, evictd, files, hard, kubelet, pod, seen};
use evictd_decision::Cause;
use evictd_departures::{Departure, Ending, Event, PodState, Purpose, RemainingUsage};
use evictd_eviction::{Answer, Rules, Step};
use evictd_pod::Pod;
use evictd_signals::{Observation, Observations, Signal};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use std::path::PathBuf;

const DISK: Signal = Signal::NodefsAvailable;

/// `filler` holds 200 MiB of the disk, `modest` 10; the first one was chosen at 0 and has no process since then.
fn chosen(rules: Rules) -> Node {
    let holding = |name, mebibytes| {
        let none = files(0, 0);
        (
            pod(name, &json!({ "containers": [{ "name": "c" }] })),
            disk(files(mebibytes * MI, 1), none, none),
        )
    };
    let mut node = Node::new(rules, vec![holding("filler", 200), holding("modest", 10)]);
    evict(&mut node, 0, "filler");
    node
}

/// This one has to go where 50 MiB are left, and its processes are gone at once.
fn evict(node: &mut Node, second: i64, name: &str) {
    let victim = node.evicted(second, &[(DISK, 50 * MI)]);
    assert_eq!(victim, Some(format!("default/{name}")), "at {second} s");
    let uid = format!("uid-{name}");
    let purpose = Purpose::Eviction {
        cause: Cause::Hard,
        signal: DISK.to_string(),
        crossed_at: at(second),
        clear_at: at(second),
    };
    let names = (format!("id-{name}"), name.to_owned(), uid.clone());
    let mut departure = Departure::new(names, purpose, at(second), SignedDuration::ZERO);
    departure.cgroup = Some(PathBuf::from(name));
    let begins = Event::Begin(Box::new(departure));
    node.keeper.on_event(at(second), begins);
    let ending = Ending::Gone { at: at(second) };
    node.keeper
        .on_event(at(second), Event::Ended { uid, ending });
}

/// Its files are removed, or its object is not listed any more.
fn removed(node: &mut Node, second: i64, name: &str, listed: bool) {
    let seen = PodState {
        uid: format!("uid-{name}"),
        runs: Some(false),
        listed,
        remaining: Some(RemainingUsage {
            files_are_gone: listed.then_some(true),
            ..RemainingUsage::default()
        }),
        ..PodState::default()
    };
    node.keeper
        .on_event(at(second), Event::Observed(vec![seen]));
}

/// Whether a cycle waits for earlier victims, with so many MiB left on the disk.
fn waits(node: &mut Node, second: i64, left: i64) -> bool {
    let left = seen(second, &[(DISK, left * MI)]);
    let mut step = node.keeper.begin(at(second), &left);
    if matches!(step, Step::Reclaim(_)) {
        let reclaimed = Answer::<Pod>::Reclaimed(None);
        step = node.keeper.answer(at(second), reclaimed).0;
    }
    matches!(step, Step::Watch(_))
}

fn ours() -> Rules {
    evictd(hard(&[("nodefs.available", "300Mi")]))
}

#[test]
fn no_other_pod_is_evicted_while_the_filesystem_frees_the_removed_files() {
    for listed in [true, false] {
        let mut node = chosen(ours());
        removed(&mut node, 1, "filler", listed);
        assert!(waits(&mut node, 1, 50), "nothing is free yet");
        removed(&mut node, 2, "filler", listed);
        assert!(waits(&mut node, 2, 150), "that is the look that shows it");
        removed(&mut node, 3, "filler", listed);
        assert!(!waits(&mut node, 3, 150), "half of what it held is back");
    }
}

#[test]
fn a_victim_is_watched_although_a_signal_without_a_victim_has_its_pause() {
    let both = hard(&[("nodefs.available", "200Mi"), ("memory.available", "100Mi")]);
    let mut node = chosen(Rules {
        requires_relief: true,
        local_storage_capacity_isolation: false,
        ..evictd(both)
    });
    let left = [(DISK, 50 * MI), (Signal::MemoryAvailable, 50 * MI)];
    let look = |millisecond| {
        let now = Timestamp::from_millisecond(millisecond).unwrap();
        let seen = left.map(|(signal, available)| {
            let observed = Observation {
                available,
                capacity: 1 << 30,
                time: Some(now),
            };
            (signal, observed)
        });
        (now, seen.into_iter().collect::<Observations>())
    };
    // Nothing is known of the pods' memory, so that no pod is evicted for it.
    let (now, seen) = look(1000);
    let Step::Rank(need) = node.keeper.begin(now, &seen) else {
        panic!("memory.available acts");
    };
    assert_eq!(need.signal, Signal::MemoryAvailable);
    let ranked = Answer::Ranked {
        need,
        pods: &node.pods,
        usage: &node.usage,
        fresh: None,
    };
    let decisions = node.keeper.answer(now, ranked).1;
    assert!(decisions.iter().all(|one| one.eviction.is_none()));
    // In the pause after that decision.
    let (now, seen) = look(1500);
    let step = node.keeper.begin(now, &seen);
    assert!(matches!(step, Step::Reclaim(_)), "{step:?}");
    let reclaimed = Answer::<Pod>::Reclaimed(None);
    let step = node.keeper.answer(now, reclaimed).0;
    assert!(
        matches!(step, Step::Watch(need) if need.signal == DISK),
        "{step:?}"
    );
}

#[test]
fn a_disk_that_never_shows_the_freed_space_delays_evictions_by_ten_seconds_at_most() {
    for (second, waited) in [(10, true), (11, false)] {
        let mut node = chosen(ours());
        removed(&mut node, 1, "filler", true);
        removed(&mut node, second, "filler", true);
        assert_eq!(waits(&mut node, second, 50), waited, "at {second} s");
    }
}

#[test]
fn the_kubelets_rules_evict_again_once_the_files_are_removed() {
    let mut node = chosen(Rules {
        local_storage_capacity_isolation: false,
        ..kubelet(hard(&[("nodefs.available", "300Mi")]))
    });
    assert!(waits(&mut node, 1, 50));
    removed(&mut node, 1, "filler", true);
    assert!(!waits(&mut node, 1, 50));
}

#[test]
fn an_eviction_for_a_disk_is_no_futile_one_before_its_files_are_removed() {
    let once = Some(evictd_eviction::rules::Futility {
        evictions: 1,
        pause: SignedDuration::from_mins(5),
    });
    for (after, stopped) in [(50, true), (250, false)] {
        let mut node = chosen(Rules {
            futility: once,
            ..ours()
        });
        waits(&mut node, 1, 50);
        assert_eq!(node.keeper.futile_stops().count(), 0, "its files are there");
        waits(&mut node, 2, after);
        removed(&mut node, 12, "filler", true);
        removed(&mut node, 22, "filler", true);
        waits(&mut node, 22, after);
        assert_eq!(node.keeper.futile_stops().count() > 0, stopped, "{after}");
    }
}
