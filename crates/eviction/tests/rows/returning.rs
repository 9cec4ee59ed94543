//! Owners whose pods come back and are evicted again (users #10). The transition period is 5 min, the longest back-off 1 h.

use crate::node::{
    MI, Node, at, evictd, hard, kubelet, memory, of_daemon_set, pod_with, priority, ranked, ranking,
};
use evictd_decision::{Owner, why::DecidingKey};
use evictd_eviction::{Backoff, Rules};
use evictd_signals::{NodeCondition, Signal};
use jiff::SignedDuration;
use proptest::prelude::*;
use serde_json::json;

const MEMORY: NodeCondition = NodeCondition::MemoryPressure;
const DISK: NodeCondition = NodeCondition::DiskPressure;
const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;

fn owner(namespace: &str, uid: &str) -> Owner {
    Owner {
        api_version: "apps/v1".to_owned(),
        kind: "ReplicaSet".to_owned(),
        namespace: namespace.to_owned(),
        name: "web".to_owned(),
        uid: uid.to_owned(),
    }
}

fn no_victim(rules: Rules) -> Node {
    Node::new(rules, Vec::new())
}

fn ours() -> Node {
    no_victim(evictd(hard(&[("memory.available", "100Mi")])))
}

impl Node {
    /// How many evictions, seconds until the node is let go, and whether pods are kept away.
    fn returns(
        &mut self,
        second: i64,
        owner: &Owner,
        condition: NodeCondition,
    ) -> Option<(u32, i64, bool)> {
        let returned = self.keeper.evicted(at(second), owner, condition)?;
        let held = returned.until.duration_since(at(second)).as_secs();
        Some((returned.evictions, held, returned.keeps_away))
    }

    /// Conditions and taints at that second, with nothing short.
    fn shows(&mut self, second: i64) -> (Vec<NodeCondition>, Vec<NodeCondition>) {
        self.look(second, &[(Signal::MemoryAvailable, 900 * MI)]);
        (self.conditions(), self.keeper.taints().collect())
    }
}

#[test]
fn each_return_doubles_the_condition_and_the_third_eviction_adds_the_taint() {
    let (mut node, web) = (ours(), owner("shop", "1"));
    let table = [
        None,
        Some((2, 10 * MINUTE, false)),
        Some((3, 20 * MINUTE, true)),
        Some((4, 40 * MINUTE, true)),
        Some((5, HOUR, true)),
        Some((6, HOUR, true)),
    ];
    for (number, expected) in (0..).zip(table) {
        let returns = node.returns(number * MINUTE, &web, MEMORY);
        assert_eq!(returns, expected, "eviction {}", number + 1);
    }
}

#[test]
fn the_condition_is_held_first_and_the_taint_with_the_next_return() {
    let (mut node, web) = (ours(), owner("shop", "1"));
    node.returns(0, &web, MEMORY);
    assert_eq!(node.shows(1), (vec![], vec![]));
    node.returns(MINUTE, &web, MEMORY);
    assert_eq!(node.shows(11 * MINUTE - 1), (vec![MEMORY], vec![]));
    assert!(!node.keeper.presses(MEMORY));
    assert_eq!(node.shows(11 * MINUTE), (vec![], vec![]));
    node.returns(12 * MINUTE, &web, MEMORY);
    assert_eq!(node.shows(32 * MINUTE - 1), (vec![MEMORY], vec![MEMORY]));
    let shown = node.keeper.returned(at(32 * MINUTE - 1));
    assert_eq!((shown.len(), shown[0].evictions), (1, 3));
    assert_eq!(node.shows(32 * MINUTE), (vec![], vec![]));
    assert_eq!(node.keeper.returned(at(32 * MINUTE)), []);
}

#[test]
fn others_do_not_add_up_and_each_condition_is_held_for_its_own() {
    let mut node = ours();
    for other in [owner("shop", "1"), owner("shop", "2"), owner("depot", "1")] {
        assert_eq!(node.returns(0, &other, MEMORY), None, "{other}");
    }
    let web = owner("shop", "1");
    // For another condition it is the same owner's second, all the same.
    assert_eq!(node.returns(1, &web, DISK), Some((2, 10 * MINUTE, false)));
    assert_eq!(node.shows(2).0, [DISK]);
}

#[test]
fn an_eviction_is_forgotten_after_three_times_the_longest_back_off() {
    for (second, expected) in [
        (3 * HOUR - 1, Some((2, 10 * MINUTE, false))),
        (3 * HOUR, None),
    ] {
        let (mut node, web) = (ours(), owner("shop", "1"));
        node.returns(0, &web, MEMORY);
        assert_eq!(node.returns(second, &web, MEMORY), expected, "{second}");
    }
}

#[test]
fn a_decision_names_the_owner_and_the_count_of_its_evictions_and_the_kubelets_does_not() {
    let controller = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": true,
    });
    let metadata = json!({ "namespace": "shop", "ownerReferences": [controller] });
    let pods = vec![(pod_with("web-a", &metadata, &json!({})), memory(50 * MI))];
    let thresholds = hard(&[("memory.available", "100Mi")]);
    let low = [(Signal::MemoryAvailable, 50 * MI)];
    let mut node = Node::new(evictd(thresholds.clone()), pods.clone());
    let web = owner("shop", "1");
    node.returns(0, &web, MEMORY);
    let decision = node.cycle(1, &low).unwrap();
    let counted = decision.owner.clone().unwrap();
    assert_eq!((counted.owner, counted.evictions), (web.clone(), 2));
    let written = serde_json::to_value(&decision).unwrap();
    assert_eq!(written["owner"]["evictions"], 2);
    let read: Owner = serde_json::from_value(written["owner"].clone()).unwrap();
    assert_eq!(read, web);

    let mut theirs = Node::new(kubelet(thresholds), pods);
    for second in 0..4 {
        assert_eq!(theirs.returns(second, &web, MEMORY), None);
    }
    assert_eq!(theirs.cycle(4, &low).unwrap().owner, None);
    assert_eq!(theirs.keeper.taints().collect::<Vec<_>>(), [MEMORY]);
    assert_eq!(theirs.shows(5 * MINUTE), (vec![], vec![]));
}

#[test]
fn the_condition_ends_at_once_when_the_back_off_is_switched_off() {
    let (mut node, web) = (ours(), owner("shop", "1"));
    for second in 0..3 {
        node.returns(second, &web, MEMORY);
    }
    assert_eq!(node.shows(10).1, [MEMORY]);
    let off = Rules {
        longest_owner_backoff: None,
        ..node.keeper.rules().clone()
    };
    node.keeper.reconfigure(off);
    assert_eq!(node.shows(11), (vec![], vec![]));
}

fn evictions() -> impl Strategy<Value = Vec<(i64, u8, bool)>> {
    let gap = prop_oneof![5 => 0..10 * MINUTE, 2 => 0..2 * HOUR, 1 => 0..9 * HOUR];
    prop::collection::vec((gap, 0..3_u8, any::<bool>()), 1..60)
}

proptest! {
    #[test]
    fn longer_each_time_and_never_longer_than_the_longest(
        period in 0..i64::MAX, longest in 0..i64::MAX, evictions in 1..u32::MAX,
    ) {
        let backoff = Backoff {
            period: SignedDuration::from_secs(period),
            longest: SignedDuration::from_secs(longest),
        };
        let (now, next) = (backoff.after(evictions), backoff.after(evictions + 1));
        prop_assert!(now <= next && next <= backoff.longest);
        prop_assert!(backoff.after(1).is_zero());
        prop_assert!(backoff.window() >= next);
    }

    #[test]
    fn whatever_returns_nothing_is_shortened_and_everything_is_forgotten(timeline in evictions()) {
        let mut node = ours();
        let mut second = 0;
        let mut past: Vec<(i64, Owner)> = Vec::new();
        for (gap, who, disk) in timeline {
            second += gap;
            let who = owner("shop", &who.to_string());
            let condition = if disk { DISK } else { MEMORY };
            let of_it = |one: &&evictd_eviction::Returned| one.owner == who && one.condition == condition;
            let before = node.keeper.returned(at(second));
            let before = before.iter().find(of_it).map(|one| one.until);
            let returns = node.returns(second, &who, condition);
            past.push((second, who.clone()));
            let counted = past.iter().filter(|(time, one)| *one == who && second - time < 3 * HOUR);
            let counted = u32::try_from(counted.count()).unwrap();
            prop_assert_eq!(returns.map_or(1, |(evictions, ..)| evictions), counted);
            if let Some((_, held, _)) = returns {
                prop_assert!((1..=HOUR).contains(&held), "{}", held);
                prop_assert!(before.is_none_or(|before| before <= at(second + held)));
            }
            let (conditions, taints) = node.shows(second);
            prop_assert!(taints.iter().all(|taint| conditions.contains(taint)));
        }
        prop_assert_eq!(node.shows(second + HOUR), (vec![], vec![]));
        prop_assert_eq!(node.returns(second + 3 * HOUR, &owner("shop", "0"), MEMORY), None);
    }
}

#[test]
fn an_owner_reference_does_not_beat_a_priority() {
    let pods = [
        (priority("important", 1000), memory(MI)),
        (
            of_daemon_set("hog", &json!({ "priority": 0 })),
            memory(900 * MI),
        ),
        (
            of_daemon_set("important hog", &json!({ "priority": 1000 })),
            memory(900 * MI),
        ),
    ];
    let rules = [
        ("kubelet", kubelet(Vec::new())),
        ("evictd", evictd(Vec::new())),
    ];
    for (name, rules) in rules {
        let expected = if name == "kubelet" {
            ["hog", "important hog", "important"]
        } else {
            ["hog", "important", "important hog"]
        };
        assert_eq!(
            ranked(&rules, Signal::MemoryAvailable, &pods),
            expected,
            "{name}"
        );
    }
    let ours = evictd(Vec::new());
    let rows = ranking(&ours, Signal::MemoryAvailable, &pods);
    let key = |at: usize| rows[at].deciding_key(&rows[at + 1], Signal::MemoryAvailable.resource());
    assert_eq!(
        (key(0), key(1)),
        (DecidingKey::Priority, DecidingKey::Returns)
    );
}
