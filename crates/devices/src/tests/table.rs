//! Cases T86 to T106 of table F, which is for the rows S7-140 to S7-191. T90, T95, T96, T104 and T105 are in `partitions`, T102 is
//! in `releases`.

use super::partitions::{allocated, result};
use super::*;
use crate::{ContainerRequests, special_requests};
use std::collections::BTreeMap;

/// One case.
struct Case {
    name: &'static str,
    /// Of the pool on node `one`, beside the counters.
    devices: Value,
    /// Counter sets, in a slice each.
    sets: Vec<Value>,
    /// The results of an allocated claim.
    held: Value,
    requests: Value,
    /// `request=device`; `None` if too few are free.
    expected: Option<&'static [&'static str]>,
}

impl Case {
    fn new(name: &'static str, devices: Value, requests: Value) -> Self {
        let (sets, held) = (Vec::new(), json!([]));
        Self {
            name,
            devices,
            sets,
            held,
            requests,
            expected: None,
        }
    }

    fn sets(mut self, sets: &[Value]) -> Self {
        self.sets = sets.to_vec();
        self
    }

    fn held(mut self, held: Value) -> Self {
        self.held = held;
        self
    }

    const fn gets(mut self, expected: &'static [&'static str]) -> Self {
        self.expected = Some(expected);
        self
    }

    fn check(self) {
        let mut known = Inventory::default();
        known.put_class(class("gpu", "true"));
        let count = 1 + self.sets.len();
        let pool = json!({ "name": "one", "generation": 1, "resourceSliceCount": count });
        for (index, set) in self.sets.iter().enumerate() {
            let sets = json!({ "pool": pool, "sharedCounters": [set] });
            known.put_slice(slice(&format!("set-{index}"), sets));
        }
        known.put_slice(slice(
            "one",
            json!({ "pool": pool, "devices": self.devices }),
        ));
        known.put_claim(allocated("held", self.held));
        let found = devices_for(&mut known, json!({ "requests": self.requests }));
        let expected = self
            .expected
            .map(|expected| expected.iter().map(|&name| name.to_owned()));
        let expected = expected
            .map(Iterator::collect::<Vec<_>>)
            .ok_or(Problem::NotEnough);
        assert_eq!(found, expected, "{}", self.name);
    }
}

fn set(memory: i64) -> Value {
    json!({ "name": "card", "counters": { "memory": { "value": format!("{memory}Gi") } } })
}

/// A device that uses so much of the set.
fn uses(name: &str, memory: i64) -> Value {
    super::partitions::part(name, memory)
}

/// A shared device of this much memory.
fn shared(name: &str, memory: i64) -> Value {
    json!({ "name": name, "allowMultipleAllocations": true,
        "capacity": { "memory": { "value": format!("{memory}Gi") } } })
}

fn share(name: &str, memory: i64) -> Value {
    let consumed = json!({ "memory": format!("{memory}Gi") });
    result(
        name,
        json!({ "shareID": "x", "consumedCapacity": consumed }),
    )
}

/// Request `name` of this many gibibytes.
fn asks(name: &str, memory: i64) -> Value {
    let capacity = json!({ "requests": { "memory": format!("{memory}Gi") } });
    json!({ "name": name, "exactly": { "deviceClassName": "gpu", "capacity": capacity } })
}

fn count(count: i64) -> Value {
    exactly(json!({ "count": count }))
}

#[test]
fn s7_140_to_s7_144_devices_share_the_counters_of_their_pool() {
    let parts = || json!([uses("d1", 20), uses("d2", 20), uses("d3", 40)]);
    let cases = [
        Case::new("T86", parts(), count(2))
            .sets(&[set(40)])
            .gets(&["r=d1", "r=d2"]),
        Case::new("T87", json!([uses("d1", 20), uses("d3", 40)]), count(1))
            .sets(&[set(40)])
            .held(json!([result("d1", json!({}))])),
        Case::new(
            "T89",
            json!([uses("large", 60), uses("small", 20)]),
            json!([{ "name": "r", "firstAvailable": [
                { "name": "two", "deviceClassName": "gpu", "count": 2 },
                { "name": "one", "deviceClassName": "gpu" }] }]),
        )
        .sets(&[set(40)])
        .gets(&["r/one=small"]),
        Case::new(
            "T92",
            json!([uses("d1", 40)]),
            exactly(json!({ "allocationMode": "All" })),
        )
        .sets(&[set(40)])
        .gets(&["r=d1"]),
    ];
    cases.into_iter().for_each(Case::check);
}

#[test]
fn s7_141_devices_of_other_nodes_use_the_counters_too() {
    let mut known = Inventory::default();
    known.put_class(class("gpu", "true"));
    let pool = json!({ "name": "one", "generation": 1, "resourceSliceCount": 3 });
    known.put_slice(slice(
        "set",
        json!({ "pool": pool, "sharedCounters": [set(40)] }),
    ));
    known.put_slice(slice(
        "one",
        json!({ "pool": pool, "devices": [uses("d1", 30)] }),
    ));
    let there = json!({ "pool": pool, "nodeName": "two", "devices": [uses("d2", 30)] });
    known.put_slice(slice("two", there));
    assert_eq!(
        devices_for(&mut known, json!({ "requests": count(1) })).unwrap(),
        ["r=d1"]
    );
    known.put_claim(allocated("held", json!([result("d2", json!({}))])));
    assert_eq!(allocate(&known, &["c"]), Err(Problem::NotEnough), "T88");
}

#[test]
fn s7_133_a_counter_set_in_two_slices_makes_the_pool_invalid() {
    let mut known = Inventory::default();
    known.put_class(class("gpu", "true"));
    let pool = json!({ "name": "one", "generation": 1, "resourceSliceCount": 3 });
    for name in ["set-1", "set-2"] {
        known.put_slice(slice(
            name,
            json!({ "pool": pool, "sharedCounters": [set(40)] }),
        ));
    }
    known.put_slice(slice(
        "one",
        json!({ "pool": pool, "devices": [{ "name": "d1" }] }),
    ));
    let found = devices_for(&mut known, json!({ "requests": count(1) }));
    assert_eq!(found, Err(Problem::InvalidPools), "T91");
}

#[test]
fn s7_150_to_s7_154_shares_of_devices() {
    let dedicated = || json!([{ "name": "d", "capacity": { "memory": { "value": "10Gi" } } }]);
    let counted = |name: &str| {
        let mut device = shared(name, 10);
        device["consumesCounters"] = uses(name, 10)["consumesCounters"].clone();
        device
    };
    let cases = [
        Case::new("T93", json!([shared("d", 10)]), count(1)).gets(&["r=d"]),
        Case::new("T93, in use", json!([shared("d", 10)]), count(1)).held(json!([share("d", 10)])),
        Case::new(
            "T94",
            json!([shared("d", 10)]),
            json!([
                asks("a", 2),
                asks("b", 2),
                asks("c", 2),
                asks("d", 2),
                asks("e", 2)
            ]),
        )
        .gets(&["a=d", "b=d", "c=d", "d=d", "e=d"]),
        Case::new(
            "T94, a sixth",
            json!([shared("d", 10)]),
            json!([asks("a", 2)]),
        )
        .held(json!([share("d", 10)])),
        Case::new(
            "T97",
            json!([shared("d", 10)]),
            exactly(json!({ "capacity": { "requests": { "cores": "1" } } })),
        ),
        Case::new(
            "T98",
            json!([shared("d1", 10), shared("d2", 10)]),
            json!([asks("r", 4)]),
        )
        .held(json!([share("d1", 8)]))
        .gets(&["r=d2"]),
        Case::new(
            "T99",
            json!([shared("d1", 6), shared("d2", 4)]),
            json!([asks("r1", 4), asks("r2", 6)]),
        )
        .gets(&["r1=d2", "r2=d1"]),
        Case::new("T100", dedicated(), json!([asks("r", 5)])).gets(&["r=d"]),
        Case::new("T100, too much", dedicated(), json!([asks("r", 20)])),
        Case::new("T101", json!([counted("d")]), json!([asks("r", 2)]))
            .sets(&[set(15)])
            .held(json!([share("d", 5)]))
            .gets(&["r=d"]),
        // The device is shared twice, and its counters would suffice only once.
        Case::new(
            "T101, twice",
            json!([counted("d")]),
            json!([asks("a", 2), asks("b", 2)]),
        )
        .sets(&[set(15)])
        .gets(&["a=d", "b=d"]),
    ];
    cases.into_iter().for_each(Case::check);
}

/// S7-143: a share without capacities uses the counters once for all claims, too.
#[test]
fn s7_143_a_shared_device_without_capacities_uses_its_counters_once() {
    let mut device = uses("d", 10);
    device["allowMultipleAllocations"] = json!(true);
    let other = uses("other", 10);
    Case::new("once", json!([device, other]), count(2))
        .sets(&[set(20)])
        .held(json!([result("d", json!({ "shareID": "x" }))]))
        .gets(&["r=d", "r=other"])
        .check();
}

#[test]
fn s7_157_distinct_and_s7_190_taints() {
    let mut known = inventory();
    let devices = [gpu("d1", "m", 0), gpu("d2", "m", 1), gpu("d3", "m", 0)];
    known.put_slice(slice("one", json!({ "devices": devices })));
    let distinct = json!({ "requests": count(3),
        "constraints": [{ "distinctAttribute": "gpu.example.com/socket" }] });
    assert_eq!(
        devices_for(&mut known, distinct),
        Err(Problem::NotEnough),
        "T103"
    );
    let tainted =
        |effect: &str| json!([{ "name": "d", "taints": [{ "key": "k", "effect": effect }] }]);
    let tolerant = exactly(json!({ "tolerations": [{ "key": "k", "operator": "Exists" }] }));
    let cases = [
        Case::new("T106", tainted("NoExecute"), count(1)),
        Case::new("T106, tolerated", tainted("NoExecute"), tolerant).gets(&["r=d"]),
        Case::new("T106, None", tainted("None"), count(1)).gets(&["r=d"]),
    ];
    cases.into_iter().for_each(Case::check);
}

#[test]
fn s7_158_selectors_may_ask_whether_a_device_can_be_shared() {
    let devices = || json!([{ "name": "alone" }, shared("shared", 10)]);
    let wanted = |expression: &str| {
        exactly(json!({ "selectors": [{ "cel": { "expression": expression } }] }))
    };
    let cases = [
        Case::new(
            "shared",
            devices(),
            wanted("device.allowMultipleAllocations"),
        )
        .gets(&["r=shared"]),
        Case::new(
            "alone",
            devices(),
            wanted("!device.allowMultipleAllocations"),
        )
        .gets(&["r=alone"]),
    ];
    cases.into_iter().for_each(Case::check);
}

/// As in 1.36 and 1.37. From 1.38 on the shares keep other claims away.
#[test]
fn s7_159_a_shared_device_that_can_no_longer_be_shared_is_allocated_in_spite_of_its_shares() {
    let cases = [
        Case::new("shares", json!([{ "name": "d" }]), count(1))
            .held(json!([share("d", 5)]))
            .gets(&["r=d"]),
        Case::new("alone", json!([{ "name": "d" }]), count(1))
            .held(json!([result("d", json!({}))])),
    ];
    cases.into_iter().for_each(Case::check);
}

/// A container: its name, whether it ends, and how many devices it asks for.
type Asking = (&'static str, bool, u64);

/// T109 to T111: the requests that are made for the containers, with their counts, and those that an init container uses.
#[test]
fn s7_173_t109_t110_t111_what_init_containers_reuse() {
    type Case<'c> = (
        &'c str,
        &'c [Asking],
        &'c [(&'c str, u64)],
        &'c [(&'c str, &'c [&'c str])],
    );
    let cases: [Case<'_>; 3] = [
        (
            "T109",
            &[("init", true, 3), ("main", false, 2)],
            &[("container-0-request-1", 1), ("container-1-request-1", 2)],
            &[("init", &["container-1-request-1", "container-0-request-1"])],
        ),
        (
            "T110",
            &[("a", true, 4), ("b", true, 3), ("main", false, 2)],
            &[("container-0-request-1", 2), ("container-2-request-1", 2)],
            &[
                ("a", &["container-2-request-1", "container-0-request-1"]),
                ("b", &["container-2-request-1", "container-0-request-1"]),
            ],
        ),
        (
            "T111",
            &[("sidecar", false, 1), ("init", true, 2), ("main", false, 1)],
            &[
                ("container-0-request-1", 1),
                ("container-1-request-1", 1),
                ("container-2-request-1", 1),
            ],
            &[("init", &["container-2-request-1", "container-1-request-1"])],
        ),
    ];
    let served = BTreeMap::from([("example.com/gpu", "gpu")]);
    for (case, asking, expected, reused) in cases {
        let amounts: Vec<[(usize, &str, u64); 1]> = asking
            .iter()
            .map(|(_, _, count)| [(1, "example.com/gpu", *count)])
            .collect();
        let containers: Vec<ContainerRequests<'_>> = asking
            .iter()
            .zip(&amounts)
            .enumerate()
            .map(|(place, ((name, ends, _), resources))| ContainerRequests {
                name,
                place,
                ends: *ends,
                resources,
            })
            .collect();
        let special = special_requests(&containers, &served);
        let requests = special.requests.iter();
        let requests: Vec<(&str, u64)> = requests
            .map(|(name, _, count)| (name.as_str(), *count))
            .collect();
        assert_eq!(requests, expected, "{case}");
        for (container, names) in reused {
            let of_container = special
                .mappings
                .iter()
                .filter(|mapping| mapping.container == *container);
            let found: Vec<&str> = of_container
                .map(|mapping| mapping.request.as_str())
                .collect();
            assert_eq!(found, *names, "{case} {container}");
        }
    }
}
