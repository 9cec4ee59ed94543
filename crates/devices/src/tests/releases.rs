//! What 1.37 allocates otherwise than 1.36.

use super::partitions::{allocated, result};
use super::*;
use evictd_pod::compatibility::Release;

fn of(release: Release) -> Inventory {
    let mut known = Inventory::default();
    known.set_release(release);
    known.put_class(class("gpu", "true"));
    known
}

/// T102
#[test]
fn s7_156_all_devices_need_room_on_every_one_from_1_37_on() {
    let card = |name: &str| json!({ "name": name, "allowMultipleAllocations": true, "capacity": { "memory": { "value": "10Gi" } } });
    for (release, expected) in [
        (Release::V1_36, Ok(vec!["r=free".to_owned()])),
        (Release::V1_37, Err(Problem::NotEnough)),
    ] {
        let mut known = of(release);
        known.put_slice(slice(
            "one",
            json!({ "devices": [card("full"), card("free")] }),
        ));
        let held = json!({ "shareID": "x", "consumedCapacity": { "memory": "10Gi" } });
        known.put_claim(allocated("holder", json!([result("full", held)])));
        let all = exactly(json!({ "allocationMode": "All" }));
        let found = devices_for(&mut known, json!({ "requests": all }));
        assert_eq!(found, expected, "{release:?}");
        known.remove_claim("shop", "holder");
        assert_eq!(allocate(&known, &["c"]).unwrap(), [["r=full", "r=free"]]);
    }
}

#[test]
fn s7_194_configurations_name_no_requests_that_are_all_and_come_once_from_1_37_on() {
    let parameters = |name: &str| json!({ "opaque": { "driver": name, "parameters": {} } });
    let configured = |requests: &[&str], name: &str| {
        let mut configured = parameters(name);
        configured["requests"] = json!(requests);
        configured
    };
    let (a, b, both) = (vec!["a"], vec!["b"], vec!["a", "b"]);
    for (release, expected) in [
        (
            Release::V1_36,
            vec![
                ("class", both.clone()),
                ("one", b.clone()),
                ("two", both.clone()),
                ("two", both.clone()),
                ("all", vec![]),
            ],
        ),
        (
            Release::V1_37,
            vec![
                ("class", vec![]),
                ("one", b),
                ("two", vec![]),
                ("all", vec![]),
            ],
        ),
    ] {
        let mut known = of(release);
        known.put_slice(slice(
            "one",
            json!({ "devices": [gpu("x", "m", 0), gpu("y", "m", 0)] }),
        ));
        let class =
            json!({ "metadata": { "name": "gpu" }, "spec": { "config": [parameters("class")] } });
        known.put_class(serde_json::from_value(class).unwrap());
        let requests: Vec<Value> = [&a[0], &"b"]
            .iter()
            .map(|name| json!({ "name": name, "exactly": { "deviceClassName": "gpu" } }))
            .collect();
        let config = [
            configured(&["b"], "one"),
            configured(&["a", "b"], "two"),
            parameters("all"),
        ];
        known.put_claim(claim(
            "c",
            json!({ "requests": requests, "config": config }),
        ));
        let demand = Demand::new(&known, "shop", ["c"]).unwrap();
        let allocation = demand.allocate(&known, &node("one")).unwrap().remove(0);
        let config = allocation.devices.config.iter().map(|config| {
            let driver = config.configuration.content["opaque"]["driver"]
                .as_str()
                .unwrap();
            let requests = config.configuration.requests.iter().map(String::as_str);
            (driver, requests.collect::<Vec<_>>())
        });
        assert_eq!(config.collect::<Vec<_>>(), expected, "{release:?}");
    }
}

/// A configuration of an alternative that was not chosen must not reach the devices of the chosen one.
#[test]
fn s7_194_a_configuration_of_another_alternative_keeps_its_requests() {
    let mut known = of(Release::V1_37);
    let devices = json!({ "devices": [gpu("x", "m", 0), gpu("y", "m", 0)] });
    known.put_slice(slice("one", devices));
    let alternative =
        |name: &str, count: u32| json!({ "name": name, "deviceClassName": "gpu", "count": count });
    let requests = json!([
        { "name": "a", "exactly": { "deviceClassName": "gpu" } },
        { "name": "b", "firstAvailable": [alternative("many", 2), alternative("one", 1)] },
    ]);
    for (named, expected) in [
        (json!(["a", "b/many"]), vec!["a", "b/many"]),
        (json!(["a", "b/one"]), vec![]),
        (json!(["a", "b"]), vec![]),
    ] {
        let config = json!([{ "requests": named, "opaque": { "driver": "d", "parameters": {} } }]);
        known.put_claim(claim(
            "c",
            json!({ "requests": requests, "config": config }),
        ));
        let demand = Demand::new(&known, "shop", ["c"]).unwrap();
        let allocation = demand.allocate(&known, &node("one")).unwrap().remove(0);
        let config = &allocation.devices.config[0].configuration;
        assert_eq!(config.requests, expected, "{named}");
    }
}
