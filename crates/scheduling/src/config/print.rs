//! The configuration in force as a file says it: read again, it means the same.

use super::text::print_duration;
use super::{API_VERSION, Args, Configuration, Extender, Point, Profile, SpreadDefaults, Tls};
use evictd_placement::plugins::{Strategy, WeightedResource};
use serde_json::{Map, Value, json};

impl Configuration {
    /// A `KubeSchedulerConfiguration` that leaves nothing to defaults: every point names all its plugins.
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
                "leaseDuration": print_duration(election.lease_duration),
                "renewDeadline": print_duration(election.renew_deadline),
                "retryPeriod": print_duration(election.retry_period),
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

/// Without the fields that are null, empty lists or empty texts, which mean the same as if they were absent.
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

fn profile(own: &Profile) -> Value {
    let nothing_else = || json!([{ "name": "*" }]);
    let mut plugins = Map::new();
    plugins.insert(
        "multiPoint".to_owned(),
        json!({ "disabled": nothing_else() }),
    );
    for point in Point::ALL {
        let enabled: Vec<Value> = own
            .points
            .at(point)
            .iter()
            .map(|name| match point {
                Point::Score => json!({ "name": name, "weight": own.points.weight(name) }),
                _ => json!({ "name": name }),
            })
            .collect();
        plugins.insert(
            point.as_str().to_owned(),
            json!({ "enabled": enabled, "disabled": nothing_else() }),
        );
    }
    let mut config = args(&own.args);
    let more = own.custom_args.iter();
    config.extend(more.map(|(name, args)| json!({ "name": name, "args": args })));
    json!({
        "schedulerName": own.scheduler_name,
        "percentageOfNodesToScore": own.percentage_of_nodes_to_score,
        "plugins": plugins,
        "pluginConfig": config,
    })
}

/// The arguments of the built-in plugins that have any.
fn args(own: &Args) -> Vec<Value> {
    let spread = match &own.spread {
        SpreadDefaults::System => json!({ "defaultingType": "System" }),
        SpreadDefaults::List(constraints) => {
            json!({ "defaultingType": "List", "defaultConstraints": constraints })
        }
    };
    let (kind, ratio) = match &own.fit.strategy {
        Strategy::LeastAllocated => ("LeastAllocated", Value::Null),
        Strategy::MostAllocated => ("MostAllocated", Value::Null),
        Strategy::RequestedToCapacityRatio(points) => (
            "RequestedToCapacityRatio",
            json!({ "shape": shape(points) }),
        ),
    };
    let (percent, absolute) = own.candidate_nodes;
    [
        (
            "DefaultPreemption",
            json!({ "minCandidateNodesPercentage": percent, "minCandidateNodesAbsolute": absolute }),
        ),
        (
            "DynamicResources",
            json!({
                "filterTimeout": print_duration(own.filter_timeout),
                "bindingTimeout": print_duration(own.binding_timeout),
            }),
        ),
        (
            "InterPodAffinity",
            json!({
                "hardPodAffinityWeight": own.affinity.hard_weight,
                "ignorePreferredTermsOfExistingPods": own.affinity.ignore_preferred_of_others,
            }),
        ),
        (
            "NodeAffinity",
            json!({ "addedAffinity": own.added_affinity }),
        ),
        (
            "NodeResourcesBalancedAllocation",
            json!({ "resources": resources(&own.balanced.resources) }),
        ),
        (
            "NodeResourcesFit",
            json!({
                "ignoredResources": own.fit.ignored.resources,
                "ignoredResourceGroups": own.fit.ignored.groups,
                "scoringStrategy": {
                    "type": kind,
                    "resources": resources(&own.fit.resources),
                    "requestedToCapacityRatio": ratio,
                },
            }),
        ),
        ("PodTopologySpread", spread),
        (
            "VolumeBinding",
            json!({ "bindTimeoutSeconds": own.bind_timeout_seconds, "shape": shape(&own.binding_shape) }),
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

fn extender(own: &Extender) -> Value {
    let managed = own.managed_resources.iter().map(
        |name| json!({ "name": name, "ignoredByScheduler": own.ignored_resources.contains(name) }),
    );
    json!({
        "urlPrefix": own.url_prefix,
        "filterVerb": own.filter_verb,
        "preemptVerb": own.preempt_verb,
        "prioritizeVerb": own.prioritize_verb,
        "weight": own.weight,
        "bindVerb": own.bind_verb,
        "enableHTTPS": own.enable_https,
        "tlsConfig": own.tls.as_ref().map(tls),
        "httpTimeout": print_duration(own.timeout),
        "nodeCacheCapable": own.node_cache_capable,
        "managedResources": managed.collect::<Vec<_>>(),
        "ignorable": own.ignorable,
    })
}

fn tls(own: &Tls) -> Value {
    json!({
        "insecure": own.insecure,
        "serverName": own.server_name,
        "certFile": own.cert_file,
        "keyFile": own.key_file,
        "caFile": own.ca_file,
        "certData": own.cert_data,
        "keyData": own.key_data,
        "caData": own.ca_data,
    })
}
