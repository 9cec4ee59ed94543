//! Parsing the deepest accepted selector needs a bounded stack. A debug build needs 16 times as much as a release
//! build.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_devices::{Demand, Inventory, Node};
use serde_json::{Value, from_value, json};

struct One;

impl Node for One {
    fn name(&self) -> &'static str {
        "one"
    }

    fn label(&self, _key: &str) -> Option<&str> {
        None
    }
}

fn inventory(expression: &str) -> Inventory {
    let mut known = Inventory::default();
    let object = |name: &str, spec: Value| json!({ "metadata": { "name": name, "namespace": "shop" }, "spec": spec });
    known.put_class(from_value(object("gpu", json!({}))).unwrap());
    let pool = json!({ "name": "one", "generation": 1, "resourceSliceCount": 1 });
    let slice = json!({ "driver": "d.example.com", "nodeName": "one", "pool": pool,
        "devices": [{ "name": "card" }] });
    known.put_slice(from_value(object("one", slice)).unwrap());
    let selectors = json!([{ "cel": { "expression": expression } }]);
    let exactly = json!({ "deviceClassName": "gpu", "selectors": selectors });
    let requests = json!([{ "name": "r", "exactly": exactly }]);
    let claim = object("c", json!({ "devices": { "requests": requests } }));
    known.put_claim(from_value(claim).unwrap());
    known
}

#[test]
fn the_deepest_selector_is_parsed_and_evaluated_within_8_mib() {
    let level = format!("false || 1{} == (", " + 1".repeat(40));
    let text = format!("{}1{}", level.repeat(15), ")".repeat(15));
    let whole = format!("{text} || true");
    let thread = std::thread::Builder::new().stack_size(8 << 20);
    let found = thread.spawn(move || {
        let known = inventory(&whole);
        let demand = Demand::new(&known, "shop", ["c"]).unwrap();
        demand.allocate(&known, &One).is_ok()
    });
    assert!(found.unwrap().join().unwrap());
}
