//! Every mistake is told by the path of its field.

use super::{paths, read, wire};
use evictd_scheduling::config::{Configuration, KubeSchedulerConfiguration};
use serde_json::{Value, json};

/// The arguments of one plugin, in the only profile.
fn with_args(plugin: &str, args: &Value) -> Value {
    json!({ "profiles": [{ "pluginConfig": [{ "name": plugin, "args": args }] }] })
}

#[track_caller]
fn told(fields: &Value, wanted: &[&str]) {
    assert_eq!(paths(fields), wanted, "{fields}");
}

/// Paths below the arguments of a plugin.
#[track_caller]
fn told_of_args(plugin: &str, args: &Value, wanted: &[&str]) {
    let below = |path: &&str| format!("profiles[0].pluginConfig[0].args{path}");
    let wanted: Vec<String> = wanted.iter().map(below).collect();
    assert_eq!(paths(&with_args(plugin, args)), wanted, "{args}");
}

#[test]
fn s5_074_numbers_out_of_range_are_errors() {
    for parallelism in [0, -1, 1_i64 << 31] {
        told(&json!({ "parallelism": parallelism }), &["parallelism"]);
    }
    for percent in [-1, 101] {
        told(
            &json!({ "percentageOfNodesToScore": percent }),
            &["percentageOfNodesToScore"],
        );
        let profile = json!({ "profiles": [{ "percentageOfNodesToScore": percent }] });
        told(&profile, &["profiles[0].percentageOfNodesToScore"]);
    }
    told(
        &json!({ "podInitialBackoffSeconds": 0 }),
        &["podInitialBackoffSeconds"],
    );
    told(
        &json!({ "podInitialBackoffSeconds": 5, "podMaxBackoffSeconds": 4 }),
        &["podMaxBackoffSeconds"],
    );
    told(
        &json!({ "podInitialBackoffSeconds": 11 }),
        &["podMaxBackoffSeconds"],
    );
    told(
        &json!({ "clientConnection": { "burst": -1 } }),
        &["clientConnection.burst"],
    );
}

#[test]
fn s5_074_a_percentage_is_checked_and_then_ignored_with_a_warning() {
    let config = read(
        &json!({ "percentageOfNodesToScore": 50, "profiles": [{ "percentageOfNodesToScore": 100 }] }),
    );
    let warnings: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        ["percentageOfNodesToScore: 50 is ignored: all nodes are scored; leave it out"]
    );
    assert!(
        read(&json!({ "percentageOfNodesToScore": 0 }))
            .warnings
            .is_empty()
    );
}

#[test]
fn s5_074_contradictory_leader_election_durations_are_errors() {
    let election = |fields: Value| json!({ "leaderElection": fields });
    told(
        &election(json!({ "resourceLock": "endpoints" })),
        &["leaderElection.resourceLock"],
    );
    told(
        &election(json!({ "leaseDuration": "10s" })),
        &["leaderElection.leaseDuration"],
    );
    told(
        &election(json!({ "retryPeriod": "9s" })),
        &["leaderElection.renewDeadline"],
    );
    told(
        &election(json!({ "renewDeadline": "soon" })),
        &["leaderElection.renewDeadline"],
    );
    told(
        &election(json!({ "renewDeadline": "-1s" })),
        &["leaderElection.renewDeadline"],
    );
    // Nothing of it matters where there is none.
    read(&election(
        json!({ "leaderElect": false, "leaseDuration": "1s", "resourceLock": "endpoints" }),
    ));
}

#[test]
fn s5_074_unknown_and_misplaced_plugins_are_errors() {
    let plugins = |fields: Value| json!({ "profiles": [{ "plugins": fields }] });
    let enabled = |name: &str| json!({ "enabled": [{ "name": name }] });
    let unknown = wire(&plugins(json!({ "filter": enabled("NodeAfinity") }))).unwrap();
    let mistakes = Configuration::new(&unknown, &[]).unwrap_err();
    assert_eq!(
        mistakes[0].to_string(),
        "profiles[0].plugins.filter.enabled[0].name: \"NodeAfinity\": there is no such plugin; the nearest is \
         NodeAffinity"
    );
    told(
        &plugins(json!({ "bind": enabled("ImageLocality") })),
        &["profiles[0].plugins.bind.enabled[0].name"],
    );
    told(
        &plugins(
            json!({ "multiPoint": { "enabled": [{ "name": "NodeName" }, { "name": "NodeName" }] } }),
        ),
        &["profiles[0].plugins.multiPoint.enabled[1].name"],
    );
    for weight in [-1, i64::from(i32::MAX) + 1, i64::MAX] {
        let scores = json!({ "enabled": [{ "name": "ImageLocality", "weight": weight }] });
        told(
            &plugins(json!({ "score": scores })),
            &["profiles[0].plugins.score.enabled[0].weight"],
        );
    }
    let most = json!({ "enabled": [{ "name": "ImageLocality", "weight": i32::MAX }] });
    read(&plugins(json!({ "multiPoint": most })));
}

#[test]
fn s5_074_plugin_arguments_must_be_unique_and_of_a_known_plugin() {
    let twice = json!({ "profiles": [{ "pluginConfig": [{ "name": "NodeName" }, { "name": "NodeName" }] }] });
    told(&twice, &["profiles[0].pluginConfig[1].name"]);
    told(
        &with_args("Nobody", &json!({})),
        &["profiles[0].pluginConfig[0].name"],
    );
}

#[test]
fn s5_074_unparsable_plugin_arguments_are_errors() {
    told_of_args(
        "NodeResourcesFit",
        &json!({ "kind": "NodeAffinityArgs" }),
        &[".kind"],
    );
    told_of_args(
        "NodeResourcesFit",
        &json!({ "scoringStrategy": { "type": "MostAllocated", "resources": [{ "name": "cpu", "wieght": 1 }] } }),
        &[".scoringStrategy.resources[0].wieght"],
    );
    let args = json!({ "hardPodAffinityWeigth": 3 });
    let wire = wire(&with_args("InterPodAffinity", &args)).unwrap();
    let mistakes = Configuration::new(&wire, &[]).unwrap_err();
    assert_eq!(
        mistakes[0].message,
        "unknown field `hardPodAffinityWeigth`; the nearest is `hardPodAffinityWeight`"
    );
}

#[test]
fn s5_074_node_resources_fit_args_are_validated() {
    let strategy = |fields: Value| json!({ "scoringStrategy": fields });
    let of_fit = |args: &Value, wanted: &[&str]| told_of_args("NodeResourcesFit", args, wanted);
    of_fit(&strategy(json!({})), &[".scoringStrategy.type"]);
    of_fit(
        &strategy(json!({ "type": "Best" })),
        &[".scoringStrategy.type"],
    );
    let weight = |weight: i64| json!({ "type": "LeastAllocated", "resources": [{ "name": "cpu", "weight": weight }] });
    of_fit(
        &strategy(weight(101)),
        &[".scoringStrategy.resources[0].weight"],
    );
    of_fit(
        &strategy(weight(-1)),
        &[".scoringStrategy.resources[0].weight"],
    );
    let shape = |points: &[(i64, i64)]| {
        let points = points
            .iter()
            .map(|(x, y)| json!({ "utilization": x, "score": y }));
        let points: Vec<Value> = points.collect();
        strategy(
            json!({ "type": "RequestedToCapacityRatio", "requestedToCapacityRatio": { "shape": points } }),
        )
    };
    let at = ".scoringStrategy.requestedToCapacityRatio.shape";
    of_fit(&shape(&[]), &[at]);
    of_fit(
        &strategy(json!({ "type": "RequestedToCapacityRatio" })),
        &[at],
    );
    of_fit(&shape(&[(0, 11)]), &[&format!("{at}[0].score")]);
    of_fit(
        &shape(&[(-1, 0), (101, 10)]),
        &[
            &format!("{at}[0].utilization"),
            &format!("{at}[1].utilization"),
        ],
    );
    of_fit(
        &shape(&[(5, 0), (5, 10)]),
        &[&format!("{at}[1].utilization")],
    );
    of_fit(
        &strategy(json!({ "type": "MostAllocated", "requestedToCapacityRatio": {} })),
        &[".scoringStrategy.requestedToCapacityRatio"],
    );
    of_fit(
        &json!({ "ignoredResources": ["a b"] }),
        &[".ignoredResources[0]"],
    );
    of_fit(
        &json!({ "ignoredResourceGroups": ["example.com/gpu"] }),
        &[".ignoredResourceGroups[0]"],
    );
}

#[test]
fn s5_074_the_arguments_of_the_other_plugins_are_validated() {
    let balanced = json!({ "resources": [{ "name": "cpu", "weight": 2 }, { "name": "cpu" }] });
    told_of_args(
        "NodeResourcesBalancedAllocation",
        &balanced,
        &[".resources[0].weight", ".resources[1].name"],
    );
    for weight in [-1, 101] {
        let args = json!({ "hardPodAffinityWeight": weight });
        told_of_args("InterPodAffinity", &args, &[".hardPodAffinityWeight"]);
    }
    told_of_args(
        "DefaultPreemption",
        &json!({ "minCandidateNodesPercentage": 101, "minCandidateNodesAbsolute": -1 }),
        &[".minCandidateNodesPercentage", ".minCandidateNodesAbsolute"],
    );
    let none = json!({ "minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0 });
    told_of_args("DefaultPreemption", &none, &[""]);
    told_of_args(
        "VolumeBinding",
        &json!({ "bindTimeoutSeconds": -1, "shape": [{ "utilization": 0, "score": 11 }] }),
        &[".bindTimeoutSeconds", ".shape[0].score"],
    );
    told_of_args(
        "DynamicResources",
        &json!({ "filterTimeout": "-1s", "bindingTimeout": "10ms" }),
        &[".filterTimeout", ".bindingTimeout"],
    );
    let expression =
        json!({ "matchExpressions": [{ "key": "disk", "operator": "Like", "values": ["ssd"] }] });
    let added = json!({ "addedAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [{}, expression] },
        "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 1, "preference": expression }],
    } });
    told_of_args(
        "NodeAffinity",
        &added,
        &[
            ".addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[1]",
            ".addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference",
        ],
    );
}

#[test]
fn s5_074_pod_topology_spread_args_are_validated() {
    let list =
        |constraints: Value| json!({ "defaultingType": "List", "defaultConstraints": constraints });
    let of_spread = |args: &Value, wanted: &[&str]| told_of_args("PodTopologySpread", args, wanted);
    let good =
        json!({ "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway" });
    read(&with_args("PodTopologySpread", &list(json!([good]))));
    of_spread(
        &json!({ "defaultConstraints": [good] }),
        &[".defaultConstraints"],
    );
    of_spread(&json!({ "defaultingType": "None" }), &[".defaultingType"]);
    of_spread(&list(json!([good, good])), &[".defaultConstraints[1]"]);
    let bad = json!({ "maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "Never", "labelSelector": {} });
    of_spread(
        &list(json!([bad])),
        &[
            ".defaultConstraints[0].maxSkew",
            ".defaultConstraints[0].topologyKey",
            ".defaultConstraints[0].whenUnsatisfiable",
            ".defaultConstraints[0].labelSelector",
        ],
    );
}

#[test]
fn s5_074_extenders_are_validated() {
    let extenders = |fields: Value| json!({ "extenders": fields });
    told(&extenders(json!([{}])), &["extenders[0].urlPrefix"]);
    told(
        &extenders(json!([{ "urlPrefix": "http://a", "prioritizeVerb": "score" }])),
        &["extenders[0].weight"],
    );
    let binder = json!({ "urlPrefix": "http://a", "bindVerb": "bind" });
    told(
        &extenders(json!([binder, binder])),
        &["extenders[1].bindVerb"],
    );
    told(
        &extenders(json!([{ "urlPrefix": "http://a", "httpTimeout": "5" }])),
        &["extenders[0].httpTimeout"],
    );
    for name in [
        "cpu",
        "kubernetes.io/gpu",
        "requests.example.com/gpu",
        "a b/c",
        "",
    ] {
        let fields = json!([{ "urlPrefix": "http://a", "managedResources": [{ "name": name }] }]);
        told(
            &extenders(fields),
            &["extenders[0].managedResources[0].name"],
        );
    }
    let gpu =
        json!({ "urlPrefix": "http://a", "managedResources": [{ "name": "example.com/gpu" }] });
    told(
        &extenders(json!([gpu, gpu])),
        &["extenders[1].managedResources[0].name"],
    );
    told(
        &extenders(
            json!([{ "urlPrefix": "https://a", "enableHTTPS": true, "tlsConfig": { "certFile": "a.pem" } }]),
        ),
        &["extenders[0].tlsConfig"],
    );
}

#[test]
fn s5_074_other_api_versions_are_errors_that_name_them() {
    for version in ["v1alpha1", "v1beta3"] {
        let other = json!({
            "apiVersion": format!("kubescheduler.config.k8s.io/{version}"), "kind": "KubeSchedulerConfiguration",
        });
        let wire: KubeSchedulerConfiguration = serde_json::from_value(other).unwrap();
        let mistakes = Configuration::new(&wire, &[]).unwrap_err();
        assert_eq!(mistakes[0].field, "apiVersion");
        let message = &mistakes[0].message;
        assert!(
            message.contains(version) && message.contains("gone from Kubernetes"),
            "{message}"
        );
    }
    told(&json!({ "kind": "Pod" }), &["kind"]);
    // Fields that only older versions had are unknown.
    for field in [
        "healthzBindAddress",
        "metricsBindAddress",
        "algorithmSource",
    ] {
        let error = wire(&json!({ field: "0.0.0.0:10251" })).unwrap_err();
        assert!(error.to_string().contains("unknown field"), "{error}");
    }
}
