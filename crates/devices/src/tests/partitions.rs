//! Partitions, shares, binding conditions and extended resources.

use super::*;
use crate::{
    Binding, ContainerRequests, SpecialRequests, binding, special_claim, special_requests,
};
use evictd_pod::compatibility::Release;

/// A device that consumes this much of the counter `memory`.
pub(super) fn part(name: &str, gibibytes: i64) -> Value {
    json!({ "name": name, "consumesCounters": [{
        "counterSet": "card", "counters": { "memory": { "value": format!("{gibibytes}Gi") } } }] })
}

/// A card of 40Gi with these parts.
pub(super) fn parted(parts: &[Value]) -> Inventory {
    let mut known = inventory();
    let pool = json!({ "name": "one", "generation": 1, "resourceSliceCount": 2 });
    let sets = json!([{ "name": "card", "counters": { "memory": { "value": "40Gi" } } }]);
    known.put_slice(slice("one", json!({ "pool": pool, "devices": parts })));
    known.put_slice(slice(
        "sets",
        json!({ "pool": pool, "sharedCounters": sets }),
    ));
    known
}

pub(super) fn wanted(count: i64) -> Value {
    json!({ "requests": exactly(json!({ "count": count })) })
}

/// S7-140 to S7-142
#[test]
fn partitions_share_the_counters_of_their_pool() {
    let parts = [part("whole", 40), part("half-0", 20), part("half-1", 20)];
    let mut known = parted(&parts);
    assert_eq!(devices_for(&mut known, wanted(1)).unwrap(), ["r=whole"]);
    // The search goes back and gives the counters of the whole card back.
    assert_eq!(
        devices_for(&mut known, wanted(2)).unwrap(),
        ["r=half-0", "r=half-1"]
    );
    assert_eq!(devices_for(&mut known, wanted(3)), Err(Problem::NotEnough));
    // An allocated part counts, also where it is not published any more.
    let holder = allocated("holder", json!([result("half-0", json!({}))]));
    known.put_claim(holder);
    assert_eq!(devices_for(&mut known, wanted(1)).unwrap(), ["r=half-1"]);
    known.remove_claim("shop", "holder");
    assert_eq!(devices_for(&mut known, wanted(1)).unwrap(), ["r=whole"]);
}

/// S7-144: a device that is refused for a taint leaves its counters to others.
#[test]
fn a_refused_partition_leaves_its_counters() {
    let mut tainted = part("tainted", 40);
    tainted["taints"] = json!([{ "key": "broken", "effect": "NoSchedule" }]);
    let mut known = parted(&[tainted, part("whole", 40)]);
    assert_eq!(devices_for(&mut known, wanted(1)).unwrap(), ["r=whole"]);
}

/// S7-133, T90
#[test]
fn a_pool_with_an_unknown_counter_is_invalid_everywhere() {
    let mut lost = part("lost", 1);
    lost["consumesCounters"][0]["counterSet"] = json!("other");
    let mut known = parted(&[lost]);
    assert_eq!(
        devices_for(&mut known, wanted(1)),
        Err(Problem::InvalidPools)
    );
    let demand = Demand::new(&known, "shop", ["c"]).unwrap();
    let elsewhere = Named("two", BTreeMap::new());
    let problem = demand.allocate(&known, &elsewhere).unwrap_err();
    assert_eq!(problem, Problem::InvalidPools);
}

pub(super) fn result(device: &str, more: Value) -> Value {
    let mut result =
        json!({ "request": "r", "driver": "gpu.example.com", "pool": "one", "device": device });
    for (key, value) in more.as_object().unwrap() {
        result[key] = value.clone();
    }
    result
}

pub(super) fn allocated(name: &str, results: Value) -> ResourceClaim {
    let mut claim = claim(name, json!({}));
    claim.status =
        serde_json::from_value(json!({ "allocation": { "devices": { "results": results } } }))
            .unwrap();
    claim
}

fn shared(policy: Value) -> Inventory {
    let mut known = inventory();
    let device = json!({ "name": "shared", "allowMultipleAllocations": true,
        "capacity": { "memory": { "value": "10Gi", "requestPolicy": policy } } });
    known.put_slice(slice("one", json!({ "devices": [device] })));
    known
}

/// The share that a request gets.
fn share(known: &mut Inventory, memory: Option<&str>) -> Option<String> {
    let more = memory.map_or(
        json!({}),
        |memory| json!({ "capacity": { "requests": { "memory": memory } } }),
    );
    known.put_claim(claim("c", json!({ "requests": exactly(more) })));
    let demand = Demand::new(known, "shop", ["c"]).unwrap();
    let allocation = demand.allocate(known, &node("one")).ok()?.remove(0);
    let result = &allocation.devices.results[0];
    assert!(result.share_id.is_some());
    Some(result.consumed_capacity["memory"].to_string())
}

/// S7-152, S7-153, T95, T96
#[test]
fn a_share_is_rounded_as_its_policy_says() {
    let range = json!({ "validRange": { "min": "1Gi", "step": "1Gi", "max": "6Gi" } });
    let values = json!({ "default": "2Gi", "validValues": ["2Gi", "4Gi"] });
    for (policy, memory, expected) in [
        (Value::Null, None, Some("10Gi")),
        (Value::Null, Some("1500M"), Some("1500M")),
        (Value::Null, Some("11Gi"), None),
        (range.clone(), Some("1"), Some("1Gi")),
        (range.clone(), Some("1500Mi"), Some("2Gi")),
        (range.clone(), Some("6500Mi"), None),
        (values.clone(), None, Some("2Gi")),
        (values.clone(), Some("3Gi"), Some("4Gi")),
        (values, Some("5Gi"), None),
    ] {
        let got = share(&mut shared(policy.clone()), memory);
        assert_eq!(got.as_deref(), expected, "{policy} {memory:?}");
    }
    // A step of decimal units gives binary ones.
    let decimal = json!({ "validRange": { "min": "1G", "step": "1G" } });
    let got = share(&mut shared(decimal), Some("1500M"));
    assert_eq!(got.as_deref(), Some("1953125Ki"));
}

#[test]
fn s7_155_the_bounds_and_steps_of_shares_may_be_fractions_from_1_37_on() {
    let range = json!({ "validRange": { "min": "500m", "step": "250m", "max": "2" } });
    // 1.36 rounds bounds, steps and amounts up to whole units. A smaller amount gets the minimum, which is not rounded.
    for (cores, expected, of_1_36) in [
        ("100m", Some("500m"), Some("500m")),
        ("500m", Some("500m"), Some("1")),
        ("600m", Some("750m"), Some("1")),
        ("900m", Some("1"), Some("1")),
        ("2", Some("2"), Some("2")),
        ("2100m", None, None),
    ] {
        for (release, expected) in [(Release::V1_36, of_1_36), (Release::V1_37, expected)] {
            let mut known = shared(range.clone());
            known.set_release(release);
            let got = share(&mut known, Some(cores));
            assert_eq!(got.as_deref(), expected, "{release:?} {cores}");
        }
    }
    // Without a positive step there is no next share.
    let none = json!({ "validRange": { "min": "1", "step": "0" } });
    assert_eq!(share(&mut shared(none), Some("2")), None);
}

/// S7-150, S7-154
#[test]
fn shares_of_all_claims_fit_beside_each_other() {
    let mut known = shared(Value::Null);
    let held = json!({ "shareID": "x", "consumedCapacity": { "memory": "7Gi" } });
    known.put_claim(allocated("holder", json!([result("shared", held)])));
    assert_eq!(share(&mut known, Some("3Gi")).as_deref(), Some("3Gi"));
    assert_eq!(share(&mut known, Some("4Gi")), None);
    // Two requests may share a device, but one request needs different ones.
    let more = json!({ "capacity": { "requests": { "memory": "1Gi" } } });
    let mut two = exactly(more.clone());
    two.as_array_mut()
        .unwrap()
        .push(json!({ "name": "s", "exactly": exactly(more)[0]["exactly"] }));
    assert_eq!(
        devices_for(&mut known, json!({ "requests": two })).unwrap(),
        ["r=shared", "s=shared"]
    );
    let twice = json!({ "count": 2, "capacity": { "requests": { "memory": "1Gi" } } });
    assert_eq!(
        devices_for(&mut known, json!({ "requests": exactly(twice) })),
        Err(Problem::NotEnough)
    );
}

/// S7-157
#[test]
fn distinct_devices_all_differ() {
    let mut known = inventory();
    known.put_slice(slice(
        "one",
        json!({ "devices": [gpu("a", "x", 0), gpu("b", "x", 1), gpu("c", "x", 0), gpu("d", "x", 2)] }),
    ));
    let distinct = json!({ "requests": exactly(json!({ "count": 3 })),
        "constraints": [{ "distinctAttribute": "gpu.example.com/socket" }] });
    assert_eq!(
        devices_for(&mut known, distinct).unwrap(),
        ["r=a", "r=b", "r=d"]
    );
}

/// S7-131, S7-160, T104, T105
#[test]
fn s7_131_s7_160_t104_t105_pools_with_binding_conditions_come_last_and_pin_their_node() {
    let mut known = inventory();
    let bound = json!({ "name": "far", "bindsToNode": true,
        "bindingConditions": ["Ready"], "bindingFailureConditions": ["Broken"] });
    let pool = json!({ "name": "a-pool", "generation": 1, "resourceSliceCount": 1 });
    let all = json!({ "nodeName": "", "allNodes": true, "pool": pool, "devices": [bound] });
    known.put_slice(slice("far", all));
    assert_eq!(
        devices_for(&mut known, wanted(5)).unwrap().last().unwrap(),
        "r=far"
    );
    let demand = Demand::new(&known, "shop", ["c"]).unwrap();
    let allocation = demand.allocate(&known, &node("one")).unwrap().remove(0);
    assert_eq!(allocation.devices.results[4].binding_conditions, ["Ready"]);
    let terms = allocation.node_selector.unwrap().node_selector_terms;
    assert_eq!(terms[0].match_fields[0].values, ["one"]);
}

/// S7-162
#[test]
fn the_first_device_that_is_not_ready_decides() {
    let conditions =
        json!({ "bindingConditions": ["Ready"], "bindingFailureConditions": ["Broken"] });
    let results = json!([result("a", json!({})), result("b", conditions)]);
    let mut claim = allocated("c", results);
    let allocation = claim.status.allocation.clone().unwrap();
    assert_eq!(binding(&allocation, &claim.status), Binding::Pending);
    let mut say = |kind: &str| {
        let condition = json!({ "type": kind, "status": "True", "reason": "R", "message": "m" });
        let device = json!([{ "driver": "gpu.example.com", "pool": "one", "device": "b", "conditions": [condition] }]);
        claim.status.devices = serde_json::from_value(device).unwrap();
        binding(&allocation, &claim.status)
    };
    assert_eq!(say("Ready"), Binding::Ready);
    assert_eq!(
        say("Broken"),
        Binding::Failed("R".to_owned(), "m".to_owned())
    );
    assert!(crate::binding::has_failed_binding(
        &allocation,
        &claim.status
    ));
}

#[test]
fn s7_162_every_condition_of_a_device_must_be_true() {
    let conditions = json!({ "bindingConditions": ["Ready", "Attached"] });
    let mut claim = allocated("c", json!([result("b", conditions)]));
    let allocation = claim.status.allocation.clone().unwrap();
    for (kinds, expected) in [
        (&["Ready"][..], Binding::Pending),
        (&["Ready", "Attached"], Binding::Ready),
    ] {
        let conditions = kinds
            .iter()
            .map(|kind| json!({ "type": kind, "status": "True" }));
        let conditions: Vec<Value> = conditions.collect();
        let device = json!([{ "driver": "gpu.example.com", "pool": "one", "device": "b", "conditions": conditions }]);
        claim.status.devices = serde_json::from_value(device).unwrap();
        assert_eq!(binding(&allocation, &claim.status), expected, "{kinds:?}");
    }
}

/// S7-163: the watch may have missed that the claim was deallocated, or deleted and created again.
#[test]
fn s7_163_devices_are_late_until_the_claim_has_others() {
    let conditional = |device: &str| {
        let conditions = json!({ "bindingConditions": ["Ready"] });
        allocated("c", json!([result(device, conditions)]))
    };
    let is_late = |known: &Inventory| {
        let claim = known.claim("shop", "c").unwrap();
        known.has_failed_binding(claim, claim.status.allocation.as_ref().unwrap())
    };
    let mut again = conditional("a");
    again.metadata.uid = "another".into();
    let mut anew = conditional("a");
    let allocation = anew.status.allocation.as_mut().unwrap();
    allocation.allocation_timestamp = Some("2026-01-01T00:00:00Z".to_owned());
    for (new, stays) in [
        (conditional("a"), true),
        (conditional("b"), false),
        (again, false),
        (anew, false),
    ] {
        let mut known = inventory();
        known.put_claim(conditional("a"));
        assert!(!is_late(&known));
        known.devices_are_late("shop", "c");
        assert!(is_late(&known));
        known.put_claim(new);
        assert_eq!(is_late(&known), stays);
    }
}

/// S7-172, S7-173
#[test]
fn init_containers_reuse_the_devices_of_later_containers() {
    let two = [(1, "example.com/gpu", 2)];
    let three = [(1, "example.com/gpu", 3)];
    let four = [(1, "example.com/gpu", 4)];
    let container = |name, place, ends, resources| ContainerRequests {
        name,
        place,
        ends,
        resources,
    };
    let containers = [
        container("i", 0, true, &three[..]),
        container("j", 1, true, &four[..]),
        container("m", 2, false, &two[..]),
    ];
    let served = BTreeMap::from([("example.com/gpu", "gpu")]);
    let SpecialRequests { requests, mappings } = special_requests(&containers, &served);
    let request = |place: usize| format!("container-{place}-request-1");
    assert_eq!(
        requests,
        [
            (request(1), "gpu".to_owned(), 2),
            (request(2), "gpu".to_owned(), 2)
        ]
    );
    let mappings: Vec<(&str, &str)> = mappings
        .iter()
        .map(|mapping| (mapping.container.as_str(), mapping.request.as_str()))
        .collect();
    let (one, two) = (request(1), request(2));
    let expected = [
        ("m", &two),
        ("i", &two),
        ("i", &one),
        ("j", &two),
        ("j", &one),
    ];
    assert_eq!(
        mappings,
        expected.map(|(name, request)| (name, request.as_str()))
    );
}

/// S7-170
#[test]
fn s7_170_t112_the_youngest_class_serves_an_extended_resource() {
    let mut known = inventory();
    let serving = |name: &str, created: &str| -> DeviceClass {
        let metadata = json!({ "name": name, "creationTimestamp": created });
        let spec = json!({ "extendedResourceName": "example.com/gpu" });
        serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap()
    };
    known.put_class(serving("old", "2026-01-01T00:00:00Z"));
    known.put_class(serving("b-new", "2026-01-02T00:00:00Z"));
    known.put_class(serving("a-new", "2026-01-02T00:00:00Z"));
    assert_eq!(known.class_of_resource("example.com/gpu"), Some("a-new"));
    known.remove_class("a-new");
    assert_eq!(known.class_of_resource("example.com/gpu"), Some("b-new"));
    let implicit = "deviceclass.resource.kubernetes.io/gpu";
    assert_eq!(known.class_of_resource(implicit), Some("gpu"));
    let special = SpecialRequests {
        requests: vec![("r".to_owned(), "gpu".to_owned(), 2)],
        ..SpecialRequests::default()
    };
    let nothing = Demand::new(&known, "shop", []).unwrap();
    let demand = nothing.with(&known, special_claim(("uid", "special"), &special));
    let allocations = demand.allocate(&known, &node("one")).unwrap();
    assert_eq!(names(&allocations[0]), ["r=a", "r=b"]);
}
