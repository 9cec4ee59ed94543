//! What is short and which claims hold it (issue 31 A).

use super::partitions::{allocated, part, parted, result, wanted};
use super::*;

/// What is short for a claim with these devices on node `one`.
fn short(known: &mut Inventory, devices: Value) -> String {
    known.put_claim(claim("c", devices));
    let demand = Demand::new(known, "shop", ["c"]).unwrap();
    let node = node("one");
    let found = demand.allocate(known, &node);
    assert_eq!(found.unwrap_err(), Problem::NotEnough);
    demand.shortage(known, &node, u64::MAX).0.unwrap()
}

fn held_by(name: &str, results: Value, pods: &[&str]) -> ResourceClaim {
    let mut claim = allocated(name, results);
    let consumers = pods.iter().map(|pod| {
        serde_json::from_value(json!({ "resource": "pods", "name": pod, "uid": pod })).unwrap()
    });
    claim.status.reserved_for = consumers.collect();
    claim
}

#[test]
fn a_device_in_use_is_named_with_its_claim_and_pods() {
    let mut known = inventory();
    known.put_claim(held_by("other", json!([result("a", json!({}))]), &["web"]));
    known.put_claim(held_by("idle", json!([result("c", json!({}))]), &[]));
    let wants = exactly(json!({ "deviceClassName": "h100", "count": 2 }));
    assert_eq!(
        short(&mut known, json!({ "requests": wants })),
        "claim shop/c, request r wants 2 of class h100 and can have 1 \
         (c in use, held by claim shop/idle, which no pod uses, until it is deallocated; \
         a in use, held by claim shop/other until pod web ends; \
         1 are not of the class)"
    );
}

#[test]
fn a_short_counter_is_named_with_its_users() {
    let mut known = parted(&[part("whole", 40), part("half-0", 20), part("half-1", 20)]);
    known.put_claim(held_by(
        "holder",
        json!([result("half-0", json!({}))]),
        &["web"],
    ));
    let wants = exactly(
        json!({ "selectors": [{ "cel": { "expression": "device.driver != 'x'" } }], "count": 2 }),
    );
    let text = short(&mut known, json!({ "requests": wants }));
    assert!(
        text.contains(
            "whole short of counter card/memory, 40Gi wanted and 20Gi left, held by claim shop/holder until pod web ends"
        ),
        "{text}"
    );
    assert!(text.contains("can have 1"), "{text}");
    // Each part alone could be had, but not both.
    known.remove_claim("shop", "holder");
    assert_eq!(
        short(&mut known, wanted(3)),
        "claims shop/c: each request could be served alone, but not all together"
    );
}

#[test]
fn taints_selectors_and_constraints_are_named() {
    let mut known = inventory();
    let mut broken = gpu("a", "h100", 0);
    broken["taints"] = json!([{ "key": "broken", "value": "fan", "effect": "NoSchedule" }]);
    known.put_slice(slice(
        "one",
        json!({ "devices": [broken, gpu("b", "a100", 1)] }),
    ));
    let cel = "device.attributes['gpu.example.com'].model == 'h100'";
    let wants = exactly(json!({ "selectors": [{ "cel": { "expression": cel } }] }));
    let text = short(&mut known, json!({ "requests": wants }));
    assert!(
        text.contains("a with the taint broken=fan:NoSchedule"),
        "{text}"
    );
    assert!(
        text.contains("1 of the class do not match the selectors of the request"),
        "{text}"
    );
    let constraint = json!([{ "matchAttribute": "gpu.example.com/socket" }]);
    known.put_slice(slice(
        "one",
        json!({ "devices": [gpu("a", "h100", 0), gpu("b", "a100", 1)] }),
    ));
    let wants = exactly(json!({ "count": 2 }));
    assert_eq!(
        short(
            &mut known,
            json!({ "requests": wants, "constraints": constraint })
        ),
        "claim shop/c: enough devices are free, but not with the same value of the attribute gpu.example.com/socket"
    );
}

#[test]
fn a_short_capacity_is_named_with_its_users() {
    let mut known = inventory();
    let shared = json!({ "name": "a", "allowMultipleAllocations": true,
        "capacity": { "memory": { "value": "40Gi" } } });
    known.put_slice(slice("one", json!({ "devices": [shared] })));
    let share = json!({ "shareID": "s", "consumedCapacity": { "memory": "30Gi" } });
    known.put_claim(held_by("holder", json!([result("a", share)]), &["web"]));
    let wants = exactly(json!({ "capacity": { "requests": { "memory": "20Gi" } } }));
    let text = short(&mut known, json!({ "requests": wants }));
    assert!(
        text.contains(
            "a short of capacity memory, 20Gi wanted and 10Gi left, held by claim shop/holder"
        ),
        "{text}"
    );
    let wants = exactly(json!({ "capacity": { "requests": { "cores": "1" } } }));
    let text = short(&mut known, json!({ "requests": wants }));
    assert!(text.contains("a without capacity cores"), "{text}");
}

/// The text has a bound, however many devices, claims and pods there are.
#[test]
fn the_text_is_short() {
    let mut known = inventory();
    let names: Vec<String> = (0..100).map(|index| format!("gpu-{index}")).collect();
    let devices: Vec<Value> = names.iter().map(|name| gpu(name, "h100", 0)).collect();
    known.put_slice(slice("one", json!({ "devices": devices })));
    let pods: Vec<&str> = names.iter().map(String::as_str).collect();
    for name in &names {
        known.put_claim(held_by(name, json!([result(name, json!({}))]), &pods));
    }
    let text = short(&mut known, json!({ "requests": exactly(json!({})) }));
    assert!(text.len() < 1500, "{} bytes: {text}", text.len());
    assert!(text.contains("94 more reasons"), "{text}");
}

/// So has it however long the names are, and whatever characters they have.
#[test]
fn the_text_is_short_with_long_names() {
    let mut known = inventory();
    let long = |index: usize| format!("{index:02}{}", "é".repeat(125));
    let names: Vec<String> = (0..10).map(long).collect();
    let devices: Vec<Value> = names.iter().map(|name| gpu(name, "h100", 0)).collect();
    known.put_slice(slice("one", json!({ "devices": devices })));
    let pods: Vec<&str> = names.iter().map(String::as_str).collect();
    for name in &names {
        known.put_claim(held_by(name, json!([result(name, json!({}))]), &pods));
    }
    let text = short(&mut known, json!({ "requests": exactly(json!({})) }));
    assert!(text.len() <= 2000, "{} bytes: {text}", text.len());
    assert!(text.len() > 1990 && text.ends_with(" ..."), "{text}");
}

#[test]
fn few_alternatives_are_named() {
    let mut known = inventory();
    let alternatives = |count: usize, last: usize| {
        let each = (1..=count).map(|index| {
            let wanted = if index == count { last } else { 5 };
            json!({ "name": format!("a{index}"), "deviceClassName": "h100", "count": wanted })
        });
        let each: Vec<Value> = each.collect();
        json!({ "requests": [{ "name": "r", "firstAvailable": each }] })
    };
    let text = short(&mut known, alternatives(8, 5));
    assert!(
        text.contains("request r/a6") && !text.contains("request r/a7"),
        "{text}"
    );
    assert!(text.ends_with("; or 2 more alternatives"), "{text}");
    // The last one alone could be had, so that the other request is named.
    let mut both = alternatives(8, 1);
    let other = json!({ "name": "s", "exactly": { "deviceClassName": "h100", "count": 9 } });
    both["requests"].as_array_mut().unwrap().push(other);
    let text = short(&mut known, both);
    assert!(
        text.starts_with("claim shop/c, request s wants 9"),
        "{text}"
    );
}

#[test]
fn a_shortage_is_found_within_a_cost_and_costs_something() {
    let mut known = inventory();
    let wants = exactly(json!({ "deviceClassName": "h100", "count": 9 }));
    known.put_claim(claim("c", json!({ "requests": wants })));
    let demand = Demand::new(&known, "shop", ["c"]).unwrap();
    let node = node("one");
    // The results of the selectors are cached from here on.
    assert!(demand.allocate(&known, &node).is_err());
    assert_eq!(demand.shortage(&known, &node, 0).0, None);
    let (text, cost) = demand.shortage(&known, &node, u64::MAX);
    assert!(text.is_some() && cost > 0);
}

/// What the driver must do about a pool that no node can use.
#[test]
fn what_ends_the_problem_of_a_pool_is_named() {
    let mut known = inventory();
    let pool = |name: &str, count: usize| json!({ "name": name, "generation": 1, "resourceSliceCount": count });
    let devices = json!([gpu("a", "h100", 0)]);
    let twice = json!([gpu("a", "h100", 0), gpu("a", "h100", 0)]);
    for (name, pool, devices) in [
        ("few", pool("few", 2), &devices),
        ("twice", pool("twice", 1), &twice),
        ("many-1", pool("many", 1), &devices),
        ("many-2", pool("many", 1), &devices),
    ] {
        known.put_slice(slice(name, json!({ "pool": pool, "devices": devices })));
    }
    assert_eq!(
        known.unusable_pools(),
        [
            "pool few of driver gpu.example.com is incomplete: generation 1 has 1 of 2 slices; \
             its devices are not allocated until its driver has published all of them",
            "pool many of driver gpu.example.com is incomplete: generation 1 has 2 of 1 slices; \
             its devices are not allocated until its driver corrects it",
            "pool twice of driver gpu.example.com is invalid: two of its devices are named a; \
             its devices are not allocated until its driver corrects it",
        ]
    );
}
