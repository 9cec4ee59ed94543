//! Prints a configuration as a file that means the same when it is read again.

use super::{API_VERSION, Args, Configuration, Extender, Point, Profile, SpreadDefaults, Tls};
use evictd_placement::plugins::{Strategy, WeightedResource};
use evictd_pod::duration::format as format_duration;
use serde_json::{Map, Value, json};

impl Configuration {
    /// A `KubeSchedulerConfiguration` without defaults: every point lists all its plugins.
    pub fn to_json(&self) -> Value {
        let (election, client) = (&self.leader_election, &self.client_connection);
        let whole = json!({
            "apiVersion": API_VERSION,
            "kind": "KubeSchedulerConfiguration",
            "parallelism": self.parallelism,
            "percentageOfNodesToScore": self.percentage_of_nodes_to_score,
            "podInitialBackoffSeconds": self.pod_initial_backoff.as_secs(),
            "podMaxBackoffSeconds": self.pod_max_backoff.as_secs(),
            "enableProfiling": self.enable_profiling,
            "enableContentionProfiling": self.enable_contention_profiling,
            "delayCacheUntilActive": self.delay_cache_until_active,
            "leaderElection": {
                "leaderElect": election.leader_elect,
                "leaseDuration": format_duration(election.lease_duration),
                "renewDeadline": format_duration(election.renew_deadline),
                "retryPeriod": format_duration(election.retry_period),
                "resourceLock": "leases",
                "resourceName": election.resource_name,
                "resourceNamespace": election.resource_namespace,
            },
            "clientConnection": {
                "kubeconfig": client.kubeconfig,
                "qps": client.qps,
                "burst": client.burst,
            },
            "profiles": self.profiles.iter().map(profile).collect::<Vec<_>>(),
            "extenders": self.extenders.iter().map(extender).collect::<Vec<_>>(),
        });
        without_empty(whole)
    }
}

/// Removes null, empty lists and empty texts, which mean the same as absent fields.
fn without_empty(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let some = map
                .into_iter()
                .map(|(key, value)| (key, without_empty(value)))
                .filter(|(_, value)| match value {
                    Value::Null => false,
                    Value::String(text) => !text.is_empty(),
                    Value::Array(list) => !list.is_empty(),
                    _ => true,
                });
            Value::Object(some.collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(without_empty).collect()),
        other => other,
    }
}

fn profile(profile: &Profile) -> Value {
    let all = || json!([{ "name": "*" }]);
    let mut plugins = Map::new();
    // Otherwise the defaults would be added again when the file is read.
    plugins.insert("multiPoint".to_owned(), json!({ "disabled": all() }));
    for point in Point::ALL {
        let enabled: Vec<Value> = profile
            .points
            .at(point)
            .iter()
            .map(|name| match point {
                Point::Score => json!({ "name": name, "weight": profile.points.weight(name) }),
                _ => json!({ "name": name }),
            })
            .collect();
        plugins.insert(
            point.as_str().to_owned(),
            json!({ "enabled": enabled, "disabled": all() }),
        );
    }
    let mut config = args(&profile.args);
    let custom = profile.custom_args.iter();
    config.extend(custom.map(|(name, args)| json!({ "name": name, "args": args })));
    json!({
        "schedulerName": profile.scheduler_name,
        "percentageOfNodesToScore": profile.percentage_of_nodes_to_score,
        "plugins": plugins,
        "pluginConfig": config,
    })
}

/// The arguments of the built-in plugins that have any.
fn args(args: &Args) -> Vec<Value> {
    let spread = match &args.spread {
        SpreadDefaults::System => json!({ "defaultingType": "System" }),
        SpreadDefaults::List(constraints) => {
            json!({ "defaultingType": "List", "defaultConstraints": constraints })
        }
    };
    let (kind, ratio) = match &args.fit.strategy {
        Strategy::LeastAllocated => ("LeastAllocated", Value::Null),
        Strategy::MostAllocated => ("MostAllocated", Value::Null),
        Strategy::RequestedToCapacityRatio(points) => (
            "RequestedToCapacityRatio",
            json!({ "shape": shape(points) }),
        ),
    };
    let (percent, absolute) = args.candidate_nodes;
    let mut preemption =
        json!({ "minCandidateNodesPercentage": percent, "minCandidateNodesAbsolute": absolute });
    if args.frees_devices {
        // Without it kube-scheduler reads the file, too.
        preemption["freesDevices"] = Value::Bool(true);
    }
    [
        (
            "DefaultPreemption",
            preemption,
        ),
        (
            "DynamicResources",
            json!({
                "filterTimeout": format_duration(args.filter_timeout),
                "bindingTimeout": format_duration(args.binding_timeout),
            }),
        ),
        (
            "InterPodAffinity",
            json!({
                "hardPodAffinityWeight": args.affinity.hard_weight,
                "ignorePreferredTermsOfExistingPods": args.affinity.ignore_preferred_of_others,
            }),
        ),
        (
            "NodeAffinity",
            json!({ "addedAffinity": args.added_affinity }),
        ),
        (
            "NodeResourcesBalancedAllocation",
            json!({ "resources": resources(&args.balanced.resources) }),
        ),
        (
            "NodeResourcesFit",
            json!({
                "ignoredResources": args.fit.ignored.resources,
                "ignoredResourceGroups": args.fit.ignored.groups,
                "scoringStrategy": {
                    "type": kind,
                    "resources": resources(&args.fit.resources),
                    "requestedToCapacityRatio": ratio,
                },
            }),
        ),
        ("PodTopologySpread", spread),
        (
            "VolumeBinding",
            json!({ "bindTimeoutSeconds": args.bind_timeout_seconds, "shape": shape(&args.binding_shape) }),
        ),
    ].into_iter().map(|(name, mut args)| {
        if let Value::Object(fields) = &mut args {
            fields.insert("apiVersion".to_owned(), json!(API_VERSION));
            fields.insert("kind".to_owned(), json!(format!("{name}Args")));
        }
        json!({ "name": name, "args": args })
    }).collect()
}

fn shape(points: &[(i64, i64)]) -> Vec<Value> {
    points
        .iter()
        .map(|(utilization, score)| json!({ "utilization": utilization, "score": score }))
        .collect()
}

fn resources(weighted: &[WeightedResource]) -> Vec<Value> {
    weighted
        .iter()
        .map(|(name, weight)| json!({ "name": name, "weight": weight }))
        .collect()
}

fn extender(extender: &Extender) -> Value {
    let managed = extender.managed_resources.iter().map(
        |name| json!({ "name": name, "ignoredByScheduler": extender.ignored_resources.contains(name) }),
    );
    json!({
        "urlPrefix": extender.url_prefix,
        "filterVerb": extender.filter_verb,
        "preemptVerb": extender.preempt_verb,
        "prioritizeVerb": extender.prioritize_verb,
        "weight": extender.weight,
        "bindVerb": extender.bind_verb,
        "enableHTTPS": extender.enable_https,
        "tlsConfig": extender.tls.as_ref().map(tls),
        "httpTimeout": format_duration(extender.timeout),
        "nodeCacheCapable": extender.node_cache_capable,
        "managedResources": managed.collect::<Vec<_>>(),
        "ignorable": extender.ignorable,
    })
}

fn tls(tls: &Tls) -> Value {
    json!({
        "insecure": tls.insecure,
        "serverName": tls.server_name,
        "certFile": tls.cert_file,
        "keyFile": tls.key_file,
        "caFile": tls.ca_file,
        "certData": tls.cert_data,
        "keyData": tls.key_data,
        "caData": tls.ca_data,
    })
}
