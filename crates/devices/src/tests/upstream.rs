//! Answers in which variations of the recorded cases differed from kube-scheduler 1.36.2 at first.

use super::*;

/// A request with two alternatives, of which the second one wants all devices.
fn all_at_last() -> Value {
    json!([{ "name": "r", "firstAvailable": [
        { "name": "none", "deviceClassName": "gpu", "count": 9 },
        { "name": "all", "deviceClassName": "gpu", "allocationMode": "All" }] }])
}

fn error_of(known: &mut Inventory, devices: Value) -> String {
    match devices_for(known, devices) {
        Err(
            Problem::PoolInUpdate(error) | Problem::Constraint(error) | Problem::Selector(error),
        ) => error,
        other => panic!("{other:?}"),
    }
}

/// S7-134: an error names the alternative alone, without its request.
#[test]
fn s7_134_an_error_about_an_alternative_has_its_short_name() {
    let mut known = inventory();
    known.put_slice(slice(
        "two",
        json!({ "pool": { "name": "two", "generation": 1, "resourceSliceCount": 2 } }),
    ));
    let error = error_of(&mut known, json!({ "requests": all_at_last() }));
    let expected = "claim shop/c, request all: asks for all devices, but resource pool gpu.example.com/two is currently being updated";
    assert_eq!(error, expected);

    let matching = json!([{ "matchAttribute": "gpu.example.com/model" }]);
    let error = error_of(
        &mut inventory(),
        json!({ "requests": all_at_last(), "constraints": matching }),
    );
    assert!(
        error.starts_with(
            "claim shop/c, request all: cannot add device gpu.example.com/one/b because"
        ),
        "{error}"
    );
}

/// S7-134: pools are looked at in their order, and the first error ends the search for all devices.
#[test]
fn s7_134_s7_196_the_first_pool_with_an_error_decides() {
    let missing =
        json!([{ "cel": { "expression": "device.attributes['gpu.example.com'].missing == 1" } }]);
    let all = exactly(json!({ "allocationMode": "All", "selectors": missing }));
    // `inventory` has the complete pool `one`.
    for (unfinished, expected) in [
        ("a", "is currently being updated"),
        ("z", "no such key: missing"),
    ] {
        let mut known = inventory();
        let pool = json!({ "name": unfinished, "generation": 1, "resourceSliceCount": 2 });
        known.put_slice(slice(unfinished, json!({ "pool": pool })));
        let error = error_of(&mut known, json!({ "requests": all }));
        assert!(error.ends_with(expected), "{unfinished}: {error}");
    }
}

/// S7-190: the allocation repeats a toleration as the API server has stored it.
#[test]
fn s7_190_a_toleration_without_an_operator_is_written_with_equal() {
    let mut known = inventory();
    let tolerations = json!([{ "key": "k", "value": "v" }, { "operator": "Exists" }]);
    known.put_claim(claim(
        "c",
        json!({ "requests": exactly(json!({ "tolerations": tolerations })) }),
    ));
    let demand = Demand::new(&known, "shop", ["c"]).unwrap();
    let allocations = demand.allocate(&known, &node("one")).unwrap();
    let tolerations = &allocations[0].devices.results[0].tolerations;
    let operators: Vec<&str> = tolerations
        .iter()
        .map(|toleration| &*toleration.operator)
        .collect();
    assert_eq!(operators, ["Equal", "Exists"]);
}

/// S7-132: the newest generation is complete, and a slice of the older one is still there.
#[test]
fn s7_132_devices_of_an_older_generation_are_not_allocated() {
    let mut known = inventory();
    let pool = |generation: i64| json!({ "name": "one", "generation": generation, "resourceSliceCount": 1 });
    // The old slice comes first by name.
    known.put_slice(slice(
        "a",
        json!({ "pool": pool(1), "devices": [{ "name": "old" }] }),
    ));
    known.put_slice(slice(
        "one",
        json!({ "pool": pool(2), "devices": [{ "name": "new" }] }),
    ));
    let two = json!({ "requests": exactly(json!({ "count": 2 })) });
    assert_eq!(devices_for(&mut known, two), Err(Problem::NotEnough));
    let one = json!({ "requests": exactly(json!({})) });
    assert_eq!(devices_for(&mut known, one).unwrap(), ["r=new"]);
}
