#![allow(
    clippy::needless_pass_by_value,
    reason = "values are written where they are used"
)]

mod bounds;
mod exhaustive;
mod partitions;
mod releases;
mod shortages;
mod table;
mod taint_rules;
mod upstream;

use super::{Demand, Inventory, Node, Problem};
use evictd_pod::wire::{Allocation, DeviceClass, ResourceClaim, ResourceSlice};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

struct Named(&'static str, BTreeMap<&'static str, &'static str>);

impl Node for Named {
    fn name(&self) -> &str {
        self.0
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.1.get(key).copied()
    }
}

fn node(name: &'static str) -> Named {
    Named(name, BTreeMap::from([("zone", "a")]))
}

fn slice(name: &str, spec: Value) -> ResourceSlice {
    let mut slice = json!({ "metadata": { "name": name }, "spec": {
        "driver": "gpu.example.com", "nodeName": "one",
        "pool": { "name": "one", "generation": 1, "resourceSliceCount": 1 } } });
    for (key, value) in spec.as_object().unwrap() {
        slice["spec"][key] = value.clone();
    }
    serde_json::from_value(slice).unwrap()
}

fn gpu(name: &str, model: &str, socket: i64) -> Value {
    json!({ "name": name, "attributes": { "model": { "string": model }, "socket": { "int": socket } } })
}

fn class(name: &str, expression: &str) -> DeviceClass {
    let spec = json!({ "selectors": [{ "cel": { "expression": expression } }] });
    serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).unwrap()
}

fn claim(name: &str, devices: Value) -> ResourceClaim {
    let metadata = json!({ "namespace": "shop", "name": name, "uid": format!("uid-of-{name}") });
    let claim = json!({ "metadata": metadata, "spec": { "devices": devices } });
    serde_json::from_value(claim).unwrap()
}

/// Two sockets with two cards each; one card is another model.
fn inventory() -> Inventory {
    let mut known = Inventory::default();
    known.put_slice(slice(
        "one",
        json!({ "devices": [
            gpu("a", "h100", 0), gpu("b", "a100", 0), gpu("c", "h100", 1), gpu("d", "h100", 1),
        ] }),
    ));
    known.put_class(class("gpu", "device.driver == 'gpu.example.com'"));
    known.put_class(class(
        "h100",
        "device.attributes['gpu.example.com'].model == 'h100'",
    ));
    known
}

fn names(allocation: &Allocation) -> Vec<String> {
    let results = allocation.devices.results.iter();
    results
        .map(|result| format!("{}={}", result.request, result.device))
        .collect()
}

/// The devices of a pod's claims on node `one`.
fn allocate(known: &Inventory, claims: &[&str]) -> Result<Vec<Vec<String>>, Problem> {
    let demand = Demand::new(known, "shop", claims.iter().copied()).unwrap();
    let allocations = demand.allocate(known, &node("one"))?;
    Ok(allocations.iter().map(names).collect())
}

/// The devices of a claim with these requests.
fn devices_for(known: &mut Inventory, devices: Value) -> Result<Vec<String>, Problem> {
    known.put_claim(claim("c", devices));
    let mut all = allocate(known, &["c"])?;
    Ok(all.remove(0))
}

fn exactly(more: Value) -> Value {
    let mut exactly = json!({ "deviceClassName": "gpu" });
    for (key, value) in more.as_object().unwrap() {
        exactly[key] = value.clone();
    }
    json!([{ "name": "r", "exactly": exactly }])
}

#[test]
fn requests_get_the_first_matching_devices() {
    let second =
        json!([{ "cel": { "expression": "device.attributes['gpu.example.com'].socket == 1" } }]);
    for (requests, expected) in [
        (exactly(json!({})), Some(vec!["r=a"])),
        (
            exactly(json!({ "deviceClassName": "h100", "count": 2 })),
            Some(vec!["r=a", "r=c"]),
        ),
        (exactly(json!({ "selectors": second })), Some(vec!["r=c"])),
        (exactly(json!({ "count": 5 })), None),
        (
            exactly(json!({ "deviceClassName": "h100", "allocationMode": "All" })),
            Some(vec!["r=a", "r=c", "r=d"]),
        ),
        (
            json!([{ "name": "r", "firstAvailable": [
                { "name": "many", "deviceClassName": "h100", "count": 4 },
                { "name": "few", "deviceClassName": "h100", "count": 2 } ] }]),
            Some(vec!["r/few=a", "r/few=c"]),
        ),
    ] {
        let got = devices_for(&mut inventory(), json!({ "requests": requests }));
        let expected = expected.map(|names| names.into_iter().map(str::to_owned).collect());
        assert_eq!(got, expected.ok_or(Problem::NotEnough), "{requests}");
    }
}

#[test]
fn devices_of_a_constraint_have_the_same_value_of_an_attribute() {
    let constrained = |count: i64| {
        json!({ "requests": exactly(json!({ "deviceClassName": "h100", "count": count })),
            "constraints": [{ "matchAttribute": "gpu.example.com/socket" }] })
    };
    let mut known = inventory();
    assert_eq!(
        devices_for(&mut known, constrained(2)).unwrap(),
        ["r=c", "r=d"]
    );
    assert_eq!(
        devices_for(&mut known, constrained(3)),
        Err(Problem::NotEnough)
    );
    let all = json!({ "requests": exactly(json!({ "allocationMode": "All" })),
        "constraints": [{ "requests": ["r"], "matchAttribute": "gpu.example.com/socket" }] });
    assert!(matches!(
        devices_for(&mut known, all),
        Err(Problem::Constraint(_))
    ));
}

#[test]
fn the_claims_of_a_pod_get_different_devices_that_no_other_claim_uses() {
    let mut known = inventory();
    let one = || json!({ "requests": exactly(json!({ "deviceClassName": "h100" })) });
    for name in ["first", "second"] {
        known.put_claim(claim(name, one()));
    }
    let both = allocate(&known, &["first", "second"]).unwrap();
    assert_eq!(both, [["r=a"], ["r=c"]]);
    let demand = Demand::new(&known, "shop", ["first"]).unwrap();
    let assumed = demand.allocate(&known, &node("one")).unwrap().remove(0);
    known.assume("uid-of-first", "pod", assumed.clone());
    assert!(known.is_assumed("uid-of-first"));
    assert_eq!(allocate(&known, &["second"]).unwrap(), [["r=c"]]);
    assert!(known.withdraw_pod("pod") && !known.withdraw_pod("pod"));
    assert_eq!(allocate(&known, &["second"]).unwrap(), [["r=a"]]);
    // Once the API server shows the allocation, the device counts only once.
    known.assume("uid-of-first", "pod", assumed.clone());
    let mut kept = claim("first", one());
    kept.status.allocation = Some(assumed);
    known.put_claim(kept);
    assert!(!known.is_assumed("uid-of-first"));
    assert_eq!(allocate(&known, &["second"]).unwrap(), [["r=c"]]);
    assert!(known.remove_claim("shop", "first"));
    assert_eq!(allocate(&known, &["second"]).unwrap(), [["r=a"]]);
}

#[test]
fn admin_access_allocates_used_devices_and_does_not_use_them() {
    let mut known = inventory();
    let admin = exactly(json!({ "adminAccess": true, "allocationMode": "All" }));
    known.put_claim(claim("watch", json!({ "requests": admin })));
    known.put_claim(claim(
        "use",
        json!({ "requests": exactly(json!({ "count": 4 })) }),
    ));
    let place = node("one");
    let all = Demand::new(&known, "shop", ["use"]).unwrap();
    let used = all.allocate(&known, &place).unwrap().remove(0);
    known.assume("uid-of-use", "pod", used);
    let watch = Demand::new(&known, "shop", ["watch"]).unwrap();
    let watched = watch.allocate(&known, &place).unwrap().remove(0);
    assert_eq!(names(&watched), ["r=a", "r=b", "r=c", "r=d"]);
    assert_eq!(watched.devices.results[0].admin_access, Some(true));
    known.withdraw_pod("pod");
    known.assume("uid-of-watch", "pod", watched);
    assert!(all.allocate(&known, &place).is_ok());
}

#[test]
fn tainted_devices_need_a_toleration() {
    let mut tainted = gpu("a", "h100", 0);
    tainted["taints"] =
        json!([{ "key": "broken", "effect": "NoSchedule" }, { "key": "old", "effect": "None" }]);
    let mut known = inventory();
    known.put_slice(slice(
        "one",
        json!({ "devices": [tainted, gpu("b", "h100", 0)] }),
    ));
    let requests = json!({ "requests": exactly(json!({})) });
    assert_eq!(devices_for(&mut known, requests).unwrap(), ["r=b"]);
    let tolerant = exactly(json!({ "tolerations": [{ "key": "broken", "operator": "Exists" }] }));
    assert_eq!(
        devices_for(&mut known, json!({ "requests": tolerant })).unwrap(),
        ["r=a"]
    );
}

#[test]
fn only_the_newest_complete_generation_of_a_pool_is_allocated() {
    let pool = |generation: i64, count: i64| json!({ "name": "one", "generation": generation, "resourceSliceCount": count });
    let requests = || json!({ "requests": exactly(json!({ "count": 1 })) });
    let mut known = inventory();
    known.put_slice(slice(
        "newer",
        json!({ "pool": pool(2, 1), "devices": [gpu("n", "h100", 0)] }),
    ));
    assert_eq!(devices_for(&mut known, requests()).unwrap(), ["r=n"]);
    known.put_slice(slice(
        "newer",
        json!({ "pool": pool(2, 2), "devices": [gpu("n", "h100", 0)] }),
    ));
    assert_eq!(devices_for(&mut known, requests()), Err(Problem::NotEnough));
    let all = json!({ "requests": exactly(json!({ "allocationMode": "All" })) });
    assert!(matches!(
        devices_for(&mut known, all),
        Err(Problem::PoolInUpdate(_))
    ));
    // A newer generation for another node makes these slices stale.
    known.put_slice(slice(
        "newest",
        json!({ "pool": pool(3, 1), "nodeName": "two", "devices": [] }),
    ));
    assert_eq!(devices_for(&mut known, requests()), Err(Problem::NotEnough));
    assert!(known.remove_slice("newest") && known.remove_slice("newer"));
    assert_eq!(devices_for(&mut known, requests()).unwrap(), ["r=a"]);
    known.put_slice(slice(
        "one",
        json!({ "devices": [gpu("a", "h100", 0), gpu("a", "h100", 0)] }),
    ));
    assert_eq!(
        devices_for(&mut known, requests()),
        Err(Problem::InvalidPools)
    );
}

#[test]
fn s7_195_the_allocation_has_the_node_selector_of_its_slices() {
    let term = json!([{ "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["a", "b"] }] }]);
    let reach = |spec: Value| {
        let mut known = inventory();
        known.remove_slice("one");
        let mut spec = spec;
        spec["devices"] = json!([gpu("a", "h100", 0)]);
        known.put_slice(slice("s", spec));
        known.put_claim(claim("c", json!({ "requests": exactly(json!({})) })));
        let demand = Demand::new(&known, "shop", ["c"]).unwrap();
        let elsewhere = Named("two", BTreeMap::new());
        let on = |node: &Named| demand.allocate(&known, node).ok();
        let selector = on(&node("one")).map(|allocations| json!(allocations[0].node_selector));
        (selector, on(&elsewhere).is_some())
    };
    let only = json!({ "nodeSelectorTerms": [{ "matchExpressions": [], "matchFields": [
        { "key": "metadata.name", "operator": "In", "values": ["one"] }] }] });
    assert_eq!(reach(json!({})), (Some(only), false));
    let selected = json!({ "nodeSelectorTerms": [{ "matchFields": [],
        "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["a", "b"] }] }] });
    let spec = json!({ "nodeName": "", "nodeSelector": { "nodeSelectorTerms": term } });
    assert_eq!(reach(spec), (Some(selected), false));
    assert_eq!(
        reach(json!({ "nodeName": "", "allNodes": true })),
        (Some(Value::Null), true)
    );
    // The device names no node, and a slice with counters has no devices.
    assert_eq!(
        reach(json!({ "nodeName": "", "perDeviceNodeSelection": true })),
        (None, false)
    );
    assert_eq!(
        reach(json!({ "sharedCounters": [{ "name": "x" }] })),
        (None, false)
    );
}

#[test]
fn configurations_of_classes_come_first_without_duplicates() {
    let mut known = inventory();
    let opaque = |what: &str| json!({ "opaque": { "driver": "gpu.example.com", "parameters": { "for": what } } });
    let mut of_class = class("gpu", "true");
    of_class.spec.config = serde_json::from_value(json!([opaque("class")])).unwrap();
    known.put_class(of_class);
    let mut claim_config = opaque("claim");
    claim_config["requests"] = json!(["y"]);
    let mut unmet = opaque("unmet");
    unmet["requests"] = json!(["y/big"]);
    known.put_claim(claim(
        "c",
        json!({ "config": [claim_config, unmet, opaque("all")], "requests": [
            { "name": "x", "exactly": { "deviceClassName": "gpu" } },
            { "name": "y", "firstAvailable": [
                { "name": "big", "deviceClassName": "gpu", "count": 9 },
                { "name": "small", "deviceClassName": "gpu" }] }] }),
    ));
    let demand = Demand::new(&known, "shop", ["c"]).unwrap();
    let allocation = demand.allocate(&known, &node("one")).unwrap().remove(0);
    let mut from_claim = opaque("claim");
    from_claim["requests"] = json!(["y"]);
    let with = |mut config: Value, source: &str, requests: Option<Value>| {
        config["source"] = source.into();
        if let Some(requests) = requests {
            config["requests"] = requests;
        }
        config
    };
    assert_eq!(
        json!(allocation.devices.config),
        json!([
            with(opaque("class"), "FromClass", Some(json!(["x", "y/small"]))),
            with(opaque("claim"), "FromClaim", Some(json!(["y"]))),
            with(opaque("all"), "FromClaim", None),
        ])
    );
}

#[test]
fn an_invalid_claim_gets_devices_nowhere() {
    let mut known = inventory();
    known.put_class(class("broken", "device.driver =="));
    for (requests, expected) in [
        (
            exactly(json!({ "deviceClassName": "tpu" })),
            "request r: device class tpu does not exist",
        ),
        (
            exactly(json!({ "deviceClassName": "" })),
            "request r: unsupported request type",
        ),
    ] {
        known.put_claim(claim("c", json!({ "requests": requests })));
        let missing = Demand::new(&known, "shop", ["c"]).unwrap_err();
        assert_eq!(missing, expected);
    }
    let mut told = |devices: Value| match devices_for(&mut known, devices) {
        Err(Problem::Claim(why) | Problem::Selector(why)) => why,
        other => panic!("{other:?}"),
    };
    for (requests, expected) in [
        (
            json!([{ "name": "r" }]),
            "resource claim shop/c, request r: unknown request type",
        ),
        (
            exactly(json!({ "allocationMode": "Some" })),
            "claim shop/c, request r: unsupported count mode Some",
        ),
        (
            exactly(json!({ "count": 33 })),
            "claim shop/c: number of requested devices 33 exceeds the claim limit of 32",
        ),
        (
            exactly(json!({ "selectors": [{}] })),
            "claim shop/c: selector #0: CEL expression empty (unsupported selector type?)",
        ),
    ] {
        assert_eq!(told(json!({ "requests": requests })), expected);
    }
    let broken = told(json!({ "requests": exactly(json!({ "deviceClassName": "broken" })) }));
    assert!(
        broken.starts_with("class broken: selector #0: CEL compile error: "),
        "{broken}"
    );
    let constraint =
        told(json!({ "requests": exactly(json!({})), "constraints": [{ "requests": [] }] }));
    assert!(
        constraint.contains("constraint #0: empty constraint"),
        "{constraint}"
    );
}

#[test]
fn a_failing_selector_is_reported() {
    let mut known = inventory();
    let selectors =
        json!([{ "cel": { "expression": "device.attributes['x.example.com'].y == 1" } }]);
    let problem = devices_for(
        &mut known,
        json!({ "requests": exactly(json!({ "selectors": selectors })) }),
    );
    let expected = "claim shop/c: selector #0: CEL runtime error: no such key: y";
    assert_eq!(problem, Err(Problem::Selector(expected.to_owned())));
}

/// A random device: its model and socket, and whether another claim uses it.
type Card = (u8, u8, bool);

/// Tries every assignment of devices.
fn brute_force(cards: &[Card], subrequests: &[(u8, usize)], same_socket: bool) -> bool {
    fn give(cards: &[Card], wanted: &[u8], taken: &mut Vec<usize>, same_socket: bool) -> bool {
        let Some((model, rest)) = wanted.split_first() else {
            return true;
        };
        for index in 0..cards.len() {
            let (card, socket, in_use) = cards[index];
            let near = taken.first().is_none_or(|first| cards[*first].1 == socket);
            if card != *model || in_use || taken.contains(&index) || (same_socket && !near) {
                continue;
            }
            taken.push(index);
            if give(cards, rest, taken, same_socket) {
                return true;
            }
            taken.pop();
        }
        false
    }
    let wanted: Vec<u8> = subrequests
        .iter()
        .flat_map(|(model, count)| vec![*model; *count])
        .collect();
    give(cards, &wanted, &mut Vec::new(), same_socket)
}

proptest! {
    #[test]
    fn devices_are_found_exactly_where_there_is_a_way_and_are_the_right_ones(
        cards in prop::collection::vec((0u8..2, 0u8..3, any::<bool>()), 0..7),
        subrequests in prop::collection::vec((0u8..2, 1usize..3), 1..4),
        same_socket in any::<bool>(),
    ) {
        let mut known = Inventory::default();
        let name = |index: usize| format!("g{index}");
        let devices: Vec<Value> = cards.iter().enumerate()
            .map(|(index, (model, socket, _))| gpu(&name(index), &format!("m{model}"), i64::from(*socket)))
            .collect();
        known.put_slice(slice("one", json!({ "devices": devices })));
        for model in ["m0", "m1"] {
            known.put_class(class(model, &format!("device.attributes['gpu.example.com'].model == '{model}'")));
        }
        for (index, (.., in_use)) in cards.iter().enumerate() {
            if *in_use {
                let result = json!({ "request": "r", "driver": "gpu.example.com", "pool": "one", "device": name(index) });
                let mut other = claim(&format!("other-{index}"), json!({}));
                other.status.allocation =
                    Some(serde_json::from_value(json!({ "devices": { "results": [result] } })).unwrap());
                known.put_claim(other);
            }
        }
        let requests: Vec<Value> = subrequests.iter().enumerate().map(|(index, (model, count))| {
            json!({ "name": format!("r{index}"),
                "exactly": { "deviceClassName": format!("m{model}"), "count": count } })
        }).collect();
        let constraints = if same_socket { json!([{ "matchAttribute": "gpu.example.com/socket" }]) } else { json!([]) };
        known.put_claim(claim("c", json!({ "requests": requests, "constraints": constraints })));
        let demand = Demand::new(&known, "shop", ["c"]).unwrap();
        let found = demand.allocate(&known, &node("one"));
        prop_assert_eq!(found.is_ok(), brute_force(&cards, &subrequests, same_socket));
        let Ok(found) = found else { return Ok(()) };
        let (mut sockets, mut seen) = (BTreeSet::new(), BTreeSet::new());
        for result in &found[0].devices.results {
            let index: usize = result.device[1..].parse().unwrap();
            let (model, socket, in_use) = cards[index];
            let request: usize = result.request[1..].parse().unwrap();
            prop_assert!(!in_use && seen.insert(index) && subrequests[request].0 == model);
            sockets.insert(socket);
        }
        prop_assert!(!same_socket || sockets.len() == 1);
        prop_assert_eq!(seen.len(), subrequests.iter().map(|(_, count)| count).sum::<usize>());
    }
}
