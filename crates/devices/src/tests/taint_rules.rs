//! S7-192: taints that rules add to devices.

use super::{allocate, claim, class, devices_for, exactly, gpu, inventory, node, slice};
use crate::{Demand, Inventory, Problem};
use evictd_pod::wire::DeviceTaintRule;
use proptest::prelude::*;
use serde_json::{Value, json};

fn rule(name: &str, selector: &Value, effect: &str) -> DeviceTaintRule {
    let taint = json!({ "key": "broken", "value": name, "effect": effect });
    let mut rule = json!({ "metadata": { "name": name }, "spec": { "taint": taint } });
    if !selector.is_null() {
        rule["spec"]["deviceSelector"] = selector.clone();
    }
    serde_json::from_value(rule).unwrap()
}

#[test]
fn s7_192_a_rule_taints_the_devices_that_it_selects() {
    let all: [&str; 4] = ["a", "b", "c", "d"];
    for (selector, effect, left) in [
        (json!({ "device": "a" }), "NoSchedule", &all[1..]),
        (json!({ "device": "a" }), "NoExecute", &all[1..]),
        (json!({ "device": "a" }), "None", &all[..]),
        (json!({}), "NoSchedule", &[]),
        // As in 1.37; from 1.38 on such a rule selects nothing.
        (Value::Null, "NoSchedule", &[]),
        (json!({ "driver": "gpu.example.com" }), "NoSchedule", &[]),
        (json!({ "driver": "other" }), "NoSchedule", &all[..]),
        (
            json!({ "pool": "one", "device": "b" }),
            "NoSchedule",
            &["a", "c", "d"],
        ),
        (
            json!({ "pool": "two", "device": "b" }),
            "NoSchedule",
            &all[..],
        ),
        (
            json!({ "driver": "other", "device": "b" }),
            "NoSchedule",
            &all[..],
        ),
    ] {
        let mut known = inventory();
        known.put_taint_rule(rule("r", &selector, effect));
        let wanted: Vec<String> = left.iter().map(|name| format!("r={name}")).collect();
        let found = devices_for(&mut known, exactly_all(left.len().max(1)));
        let expected = if left.is_empty() {
            Err(Problem::NotEnough)
        } else {
            Ok(wanted)
        };
        assert_eq!(found, expected, "{selector} {effect}");
        let one_more = devices_for(&mut known, exactly_all(left.len() + 1));
        assert_eq!(one_more, Err(Problem::NotEnough), "{selector} {effect}");
        assert!(known.remove_taint_rule("r") && !known.remove_taint_rule("r"));
        let again = devices_for(&mut known, exactly_all(4)).unwrap();
        assert_eq!(again.len(), 4, "{selector} {effect}");
    }
}

fn exactly_all(count: usize) -> Value {
    json!({ "requests": exactly(json!({ "count": count })) })
}

#[test]
fn s7_192_a_tolerated_rule_takes_no_device_and_a_shortage_names_the_rule() {
    let mut known = inventory();
    known.put_taint_rule(rule("cooling", &json!({ "device": "a" }), "NoSchedule"));
    known.put_taint_rule(rule("wiring", &json!({}), "NoExecute"));
    let tolerations = json!([{ "key": "broken", "value": "wiring", "effect": "NoExecute" }]);
    let requests = exactly(json!({ "count": 4, "tolerations": tolerations }));
    known.put_claim(claim("c", json!({ "requests": requests })));
    assert_eq!(allocate(&known, &["c"]), Err(Problem::NotEnough));
    let demand = Demand::new(&known, "shop", ["c"]).unwrap();
    let (shortage, _) = demand.shortage(&known, &node("one"), u64::MAX);
    let shortage = shortage.unwrap();
    let named = "a with the taint broken=cooling:NoSchedule of DeviceTaintRule cooling";
    assert!(shortage.contains(named), "{shortage}");
    assert!(!shortage.contains("wiring"), "{shortage}");
}

/// Selectors are evaluated once for each version of a slice.
#[test]
fn s7_192_a_rule_changes_only_slices_whose_devices_it_taints() {
    let mut known = inventory();
    let before = known.slice_versions();
    known.put_taint_rule(rule("r", &json!({ "device": "elsewhere" }), "NoSchedule"));
    known.remove_taint_rule("r");
    assert_eq!(known.slice_versions(), before);
    known.put_taint_rule(rule("r", &json!({ "device": "a" }), "NoSchedule"));
    assert_eq!(known.slice_versions(), before + 1);
    known.put_taint_rule(rule("r", &json!({ "device": "b" }), "NoSchedule"));
    assert_eq!(known.slice_versions(), before + 2);
    known.remove_taint_rule("r");
    assert_eq!(known.slice_versions(), before + 3);
}

/// A step of a driver, or of an admin that writes rules.
#[derive(Debug, Clone)]
enum Step {
    /// The slice has this many devices, of which the first ones have a taint of the driver.
    Publish(usize, usize),
    Withdraw,
    Put(u8, Option<usize>, bool),
    Remove(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (1..5_usize, 0..3_usize).prop_map(|(count, tainted)| Step::Publish(count, tainted)),
        Just(Step::Withdraw),
        (0..3_u8, proptest::option::of(0..5_usize), any::<bool>())
            .prop_map(|(name, device, blocks)| Step::Put(name, device, blocks)),
        (0..3_u8).prop_map(Step::Remove),
    ];
    proptest::collection::vec(step, 1..12)
}

fn published(count: usize, tainted: usize) -> Value {
    let devices = (0..count).map(|index| {
        let mut device = gpu(&format!("d{index}"), "h100", 0);
        if index < tainted {
            device["taints"] = json!([{ "key": "own", "effect": "NoSchedule" }]);
        }
        device
    });
    json!({ "devices": devices.collect::<Vec<_>>() })
}

proptest! {
    #[test]
    fn s7_192_the_order_of_rules_and_slices_does_not_matter(steps in steps()) {
        let mut known = Inventory::default();
        known.put_class(class("gpu", "true"));
        let (mut now, mut rules) = (None, std::collections::BTreeMap::new());
        for step in steps {
            match step {
                Step::Publish(count, tainted) => {
                    known.put_slice(slice("s", published(count, tainted)));
                    now = Some((count, tainted));
                }
                Step::Withdraw => {
                    known.remove_slice("s");
                    now = None;
                }
                Step::Put(name, device, blocks) => {
                    let selector = device.map_or(json!({}), |device| json!({ "device": format!("d{device}") }));
                    let effect = if blocks { "NoSchedule" } else { "None" };
                    known.put_taint_rule(rule(&name.to_string(), &selector, effect));
                    rules.insert(name, (device, blocks));
                }
                Step::Remove(name) => {
                    prop_assert_eq!(known.remove_taint_rule(&name.to_string()), rules.remove(&name).is_some());
                }
            }
            let (count, tainted) = now.unwrap_or_default();
            let is_free = |index: usize| index >= tainted
                && rules.values().all(|(device, blocks)| !blocks || device.is_some_and(|device| device != index));
            let first = (0..count).find(|index| is_free(*index));
            let found = devices_for(&mut known, json!({ "requests": exactly(json!({})) }));
            let expected = first.map(|index| vec![format!("r=d{index}")]);
            prop_assert_eq!(found.ok(), expected);
        }
    }
}
