//! What is printed means the same, and nothing that is read makes it panic.

use super::{read, wire};
use evictd_pod::duration;
use evictd_scheduling::config::{Configuration, KubeSchedulerConfiguration};
use jiff::SignedDuration;
use proptest::prelude::*;
use serde_json::{Value, json};

/// A configuration that says something about everything.
fn rich() -> Value {
    let term =
        json!({ "matchExpressions": [{ "key": "disk", "operator": "In", "values": ["ssd"] }] });
    json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "parallelism": 4, "percentageOfNodesToScore": 50, "podInitialBackoffSeconds": 2, "podMaxBackoffSeconds": 20,
        "enableProfiling": false, "delayCacheUntilActive": true,
        "leaderElection": { "leaderElect": false, "leaseDuration": "1h0m20.5s", "renewDeadline": "1m20s" },
        "clientConnection": { "kubeconfig": "/etc/scheduler.conf", "qps": 7.5, "burst": 9 },
        "profiles": [
            {
                "schedulerName": "one", "percentageOfNodesToScore": 100,
                "plugins": {
                    "multiPoint": { "enabled": [{ "name": "NodeAffinity", "weight": 7 }], "disabled": [{ "name": "NodeName" }] },
                    "score": { "enabled": [{ "name": "ImageLocality", "weight": 3 }] },
                    "postFilter": { "disabled": [{ "name": "*" }] },
                },
                "pluginConfig": [
                    { "name": "NodeResourcesFit", "args": {
                        "ignoredResourceGroups": ["example.com"],
                        "scoringStrategy": {
                            "type": "RequestedToCapacityRatio", "resources": [{ "name": "cpu", "weight": 3 }],
                            "requestedToCapacityRatio": { "shape": [{ "utilization": 0, "score": 0 }, { "utilization": 100, "score": 10 }] },
                        },
                    } },
                    { "name": "NodeResourcesBalancedAllocation", "args": { "resources": [{ "name": "memory" }] } },
                    { "name": "InterPodAffinity", "args": { "hardPodAffinityWeight": 0, "ignorePreferredTermsOfExistingPods": true } },
                    { "name": "NodeAffinity", "args": { "addedAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [term] },
                        "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 5, "preference": term }],
                    } } },
                    { "name": "PodTopologySpread", "args": { "defaultingType": "List", "defaultConstraints": [
                        { "maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule" },
                    ] } },
                    { "name": "DefaultPreemption", "args": { "minCandidateNodesPercentage": 5 } },
                    { "name": "VolumeBinding", "args": { "bindTimeoutSeconds": 60, "shape": [{ "utilization": 0, "score": 1 }] } },
                    { "name": "DynamicResources", "args": { "filterTimeout": "0s", "bindingTimeout": "1m30s" } },
                ],
            },
            { "schedulerName": "two" },
        ],
        "extenders": [
            {
                "urlPrefix": "https://a/", "filterVerb": "filter", "prioritizeVerb": "score", "weight": 2, "preemptVerb": "preempt",
                "bindVerb": "bind", "enableHTTPS": true, "httpTimeout": "300ms", "nodeCacheCapable": true, "ignorable": true,
                "tlsConfig": { "serverName": "a", "caFile": "ca.pem", "certFile": "a.pem", "keyFile": "a.key" },
                "managedResources": [{ "name": "example.com/gpu", "ignoredByScheduler": true }, { "name": "example.com/nic" }],
            },
            { "urlPrefix": "http://b/" },
        ],
    })
}

fn again(config: &Configuration) -> Configuration {
    let printed = config.to_json();
    let wire: KubeSchedulerConfiguration = serde_json::from_value(printed.clone())
        .unwrap_or_else(|error| panic!("{error}\n{printed:#}"));
    Configuration::new(&wire, &[]).unwrap_or_else(|mistakes| panic!("{mistakes:?}\n{printed:#}"))
}

#[test]
fn a_printed_configuration_is_read_as_the_same_configuration() {
    let default = Configuration::default();
    assert_eq!(again(&default), default);
    let config = read(&rich());
    assert_eq!(again(&config), config);
}

#[test]
fn a_full_configuration_is_printed_completely() {
    let printed = read(&rich()).to_json();
    assert_eq!(printed["leaderElection"]["leaseDuration"], "1h0m20.5s");
    let extender = &printed["extenders"][1];
    assert_eq!(extender["tlsConfig"]["caFile"], "ca.pem");
    assert_eq!(extender["managedResources"][0]["ignoredByScheduler"], true);
    let score = &printed["profiles"][0]["plugins"]["score"]["enabled"];
    assert_eq!(score[0], json!({ "name": "ImageLocality", "weight": 3 }));
}

#[test]
fn durations_are_printed_in_the_format_of_go() {
    let milliseconds = |text| Some(duration::parse(text).ok()?.as_millis());
    for (text, wanted) in [
        ("15s", 15_000),
        ("1m30s", 90_000),
        ("1.5h", 5_400_000),
        ("1h1.5m", 3_690_000),
        ("300ms", 300),
        (".5s", 500),
        ("+1s", 1000),
        ("-2m", -120_000),
        ("0", 0),
        ("1000000us", 1000),
        ("2\u{b5}s", 0),
    ] {
        assert_eq!(milliseconds(text), Some(wanted), "{text}");
    }
    for text in [
        "",
        "-",
        "5",
        "s",
        ".s",
        "1..5s",
        "1 s",
        "15 seconds",
        "1d",
        "PT15S",
        "10000000h",
        "9".repeat(60).as_str(),
    ] {
        assert_eq!(duration::parse(text).ok(), None, "{text}");
    }
    assert_eq!(
        duration::parse("1.0000000000000000001ns"),
        Ok(SignedDuration::from_nanos(1))
    );
}

/// Every place in a value, as a JSON pointer.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(map) => map
            .iter()
            .for_each(|(key, inner)| places(inner, &format!("{at}/{key}"), found)),
        Value::Array(list) => list
            .iter()
            .enumerate()
            .for_each(|(index, inner)| places(inner, &format!("{at}/{index}"), found)),
        _ => {}
    }
}

fn anything() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-2_i64..120).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[*a-z0-9./ -]{0,12}".prop_map(Value::from),
        prop_oneof![
            Just("*"),
            Just("NodeAffinity"),
            Just("DefaultBinder"),
            Just("List"),
            Just("9223372036s")
        ]
        .prop_map(Value::from),
        Just(json!([])),
        Just(json!({})),
        Just(json!([{ "name": "*" }])),
        Just(json!([{ "name": "NodeAffinity", "weight": 2 }, { "name": "ImageLocality" }])),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn s5_074_no_configuration_file_makes_the_parser_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), anything()), 1..4)) {
        let mut written = rich();
        for (index, value) in changes {
            let mut all = Vec::new();
            places(&written, "", &mut all);
            let place = index.get(&all);
            if let Some(there) = written.pointer_mut(place)
                && (!place.is_empty() || value.is_object())
            {
                *there = value;
            }
        }
        let Ok(wire) = wire(&written) else { return Ok(()) };
        match Configuration::new(&wire, &[]) {
            Ok(config) => prop_assert_eq!(again(&config), config),
            Err(mistakes) => prop_assert!(!mistakes.is_empty()),
        }
    }
}
