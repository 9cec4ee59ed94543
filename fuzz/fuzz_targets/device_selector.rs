//! A selector of devices of whatever text selects a device or not, or is told to be wrong: nothing hangs, and the stack suffices.
#![no_main]

use evictd_devices::{Demand, Inventory, Node};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, from_value, json};

struct One;

impl Node for One {
    fn name(&self) -> &str {
        "one"
    }

    fn label(&self, _key: &str) -> Option<&str> {
        None
    }
}

fn object(name: &str, spec: Value) -> Value {
    json!({ "metadata": { "name": name }, "spec": spec })
}

fuzz_target!(|text: &str| {
    let mut known = Inventory::default();
    let device = json!({ "name": "card", "capacity": { "memory": { "value": "40Gi" } }, "attributes": {
        "model": { "string": "a100" }, "cores": { "int": 96 }, "link": { "bool": true }, "v": { "version": "1.2.3" } } });
    let pool = json!({ "name": "one", "generation": 1, "resourceSliceCount": 1 });
    let slice = json!({ "driver": "d.example.com", "nodeName": "one", "pool": pool, "devices": [device] });
    known.put_slice(from_value(object("one", slice)).unwrap());
    let selectors = json!([{ "cel": { "expression": text } }]);
    let class = object("c", json!({ "selectors": selectors }));
    known.put_class(from_value(class).unwrap());
    let requests = json!([{ "name": "r", "exactly": { "deviceClassName": "c" } }]);
    let claim = object("c", json!({ "devices": { "requests": requests } }));
    known.put_claim(from_value(claim).unwrap());
    if let Ok(demand) = Demand::new(&known, "default", ["c"]) {
        if let Ok(allocations) = demand.allocate(&known, &One) {
            assert_eq!(allocations[0].devices.results[0].device, "card");
        }
    }
});
