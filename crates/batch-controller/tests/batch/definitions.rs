//! The definitions of the custom resources: names, fields, defaults and limits of Volcano's.

use evictd_batch_controller::definitions;
use evictd_batch_objects::{
    Command, DependsOn, Job, JobCondition, LifecyclePolicy, NetworkTopology, PartitionPolicy,
    PodGroup, PodGroupCondition, Queue, TaskSpec, TaskState, VolumeSpec,
};
use serde_json::{Value, json};

fn definition(kind: &str) -> Value {
    let mut all = definitions::all().into_iter();
    all.find(|one| one["spec"]["names"]["kind"] == kind)
        .unwrap()
}

/// The schema of a whole object.
fn schema(kind: &str) -> Value {
    definition(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"].take()
}

/// The schema of a field: `spec.tasks[].name`.
fn field(kind: &str, path: &str) -> Value {
    let mut schema = schema(kind);
    for part in path.split('.') {
        let name = part.trim_end_matches("[]").trim_end_matches("{}");
        schema = schema["properties"][name].take();
        assert!(!schema.is_null(), "{kind} has no {path}");
        if part.ends_with("[]") {
            schema = schema["items"].take();
        } else if part.ends_with("{}") {
            schema = schema["additionalProperties"].take();
        }
    }
    schema
}

/// Names of the fields below a path, sorted.
fn fields(kind: &str, path: &str) -> Vec<String> {
    let schema = field(kind, path);
    let properties = schema["properties"].as_object().unwrap();
    let mut names: Vec<_> = properties.keys().cloned().collect();
    names.sort();
    names
}

#[test]
fn s6_001_the_definitions_have_volcanos_names() {
    let known: Vec<_> = definitions::all()
        .iter()
        .map(|one| {
            let (spec, version) = (&one["spec"], &one["spec"]["versions"][0]);
            json!([
                one["metadata"]["name"],
                version["name"],
                spec["scope"],
                spec["names"]["shortNames"],
                version["subresources"],
            ])
        })
        .collect();
    let status = json!({"status": {}});
    assert_eq!(
        json!(known),
        json!([
            [
                "commands.bus.volcano.sh",
                "v1alpha1",
                "Namespaced",
                [],
                null
            ],
            [
                "cronjobs.batch.volcano.sh",
                "v1alpha1",
                "Namespaced",
                ["cronvcjob", "cronvj"],
                status
            ],
            [
                "hypernodes.topology.volcano.sh",
                "v1alpha1",
                "Cluster",
                ["hn"],
                status
            ],
            [
                "jobflows.flow.volcano.sh",
                "v1alpha1",
                "Namespaced",
                ["jf"],
                status
            ],
            [
                "jobs.batch.volcano.sh",
                "v1alpha1",
                "Namespaced",
                ["vcjob", "vj"],
                status
            ],
            [
                "jobtemplates.flow.volcano.sh",
                "v1alpha1",
                "Namespaced",
                ["jt"],
                status
            ],
            [
                "podgroups.scheduling.volcano.sh",
                "v1beta1",
                "Namespaced",
                ["pg", "podgroup-v1beta1"],
                null
            ],
            [
                "queues.scheduling.volcano.sh",
                "v1beta1",
                "Cluster",
                ["q", "queue-v1beta1"],
                status
            ],
        ])
    );
    for one in definitions::all() {
        let version = &one["spec"]["versions"][0];
        assert_eq!(
            (&version["served"], &version["storage"]),
            (&json!(true), &json!(true))
        );
        assert_eq!(
            one["metadata"]["annotations"]["helm.sh/resource-policy"],
            "keep"
        );
    }
}

#[test]
fn s6_002_s6_003_the_definition_of_jobs_has_volcanos_fields() {
    assert_eq!(
        fields("Job", "spec"),
        [
            "maxRetry",
            "minAvailable",
            "minSuccess",
            "networkTopology",
            "plugins",
            "policies",
            "priorityClassName",
            "queue",
            "runningEstimate",
            "schedulerName",
            "tasks",
            "ttlSecondsAfterFinished",
            "volumes",
        ]
    );
    assert_eq!(
        fields("Job", "spec.tasks[]"),
        [
            "dependsOn",
            "maxRetry",
            "minAvailable",
            "name",
            "partitionPolicy",
            "policies",
            "replicas",
            "template",
            "topologyPolicy",
        ]
    );
    assert_eq!(
        fields("Job", "spec.volumes[]"),
        ["mountPath", "volumeClaim", "volumeClaimName"]
    );
    assert_eq!(
        fields("Job", "spec.tasks[].partitionPolicy"),
        [
            "minPartitions",
            "networkTopology",
            "partitionSize",
            "totalPartitions"
        ]
    );
    for path in ["spec.tasks[].template", "spec.volumes[].volumeClaim"] {
        assert_eq!(
            field("Job", path)["x-kubernetes-preserve-unknown-fields"],
            true
        );
    }
}

#[test]
fn s6_003_the_definitions_have_volcanos_defaults_and_limits() {
    for (kind, path, keyword, value) in [
        ("Job", "spec.queue", "default", json!("default")),
        ("Job", "spec.maxRetry", "default", json!(3)),
        ("Job", "spec.maxRetry", "minimum", json!(0)),
        ("Job", "spec.minAvailable", "minimum", json!(0)),
        ("Job", "spec.minSuccess", "minimum", json!(1)),
        ("Job", "spec.ttlSecondsAfterFinished", "minimum", json!(0)),
        ("Job", "spec.tasks", "minItems", json!(1)),
        ("Job", "spec.tasks[].replicas", "minimum", json!(0)),
        ("Job", "spec.tasks[].maxRetry", "minimum", json!(0)),
        (
            "Job",
            "spec.tasks[].name",
            "pattern",
            json!("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"),
        ),
        (
            "Job",
            "spec.tasks[].topologyPolicy",
            "enum",
            json!(["none", "best-effort", "restricted", "single-numa-node"]),
        ),
        (
            "Job",
            "spec.tasks[].partitionPolicy",
            "required",
            json!(["totalPartitions", "partitionSize"]),
        ),
        (
            "Job",
            "spec.networkTopology.mode",
            "enum",
            json!(["hard", "soft"]),
        ),
        ("Job", "spec.networkTopology.mode", "default", json!("hard")),
        (
            "Job",
            "spec.volumes[].mountPath",
            "pattern",
            json!("^[^:]+$"),
        ),
        ("PodGroup", "spec.queue", "default", json!("default")),
        (
            "PodGroup",
            "spec.subGroupPolicy[].subGroupSize",
            "default",
            json!(1),
        ),
        ("Queue", "spec.weight", "default", json!(1)),
        ("Queue", "spec.weight", "minimum", json!(1)),
        ("Queue", "spec.weight", "maximum", json!(65535)),
        (
            "Queue",
            "spec.dequeueStrategy",
            "default",
            json!("traverse"),
        ),
        ("Queue", "spec.priority", "minimum", json!(0)),
        (
            "Queue",
            "spec.capability{}",
            "x-kubernetes-int-or-string",
            json!(true),
        ),
    ] {
        assert_eq!(field(kind, path)[keyword], value, "{kind} {path} {keyword}");
    }
}

#[test]
fn s6_004_s6_005_s6_006_the_definition_of_jobs_has_volcanos_policies_status_and_phases() {
    let policy = ["action", "event", "events", "exitCode", "timeout"];
    assert_eq!(fields("Job", "spec.policies[]"), policy);
    assert_eq!(fields("Job", "spec.tasks[].policies[]"), policy);
    assert_eq!(
        fields("Job", "status"),
        [
            "conditions",
            "controlledResources",
            "failed",
            "minAvailable",
            "pending",
            "retryCount",
            "running",
            "runningDuration",
            "state",
            "succeeded",
            "taskStatusCount",
            "terminating",
            "unknown",
            "version",
        ]
    );
    assert_eq!(
        fields("Job", "status.state"),
        ["lastTransitionTime", "message", "phase", "reason"]
    );
    let phases = field("Job", "status.state.phase");
    assert_eq!(
        phases["enum"],
        json!([
            "Pending",
            "Aborting",
            "Aborted",
            "Running",
            "Restarting",
            "Completing",
            "Completed",
            "Terminating",
            "Terminated",
            "Failed",
        ])
    );
}

#[test]
fn s6_009_s6_010_s6_011_s6_012_the_other_definitions_have_volcanos_fields() {
    assert_eq!(
        fields("PodGroup", "spec"),
        [
            "minMember",
            "minResources",
            "minTaskMember",
            "networkTopology",
            "priorityClassName",
            "queue",
            "subGroupPolicy",
        ]
    );
    assert_eq!(
        fields("PodGroup", "status"),
        ["conditions", "failed", "phase", "running", "succeeded"]
    );
    assert_eq!(
        field("PodGroup", "status.phase")["enum"],
        json!(["Pending", "Running", "Unknown", "Inqueue", "Completed"])
    );
    assert_eq!(
        fields("Queue", "spec"),
        [
            "affinity",
            "capability",
            "dequeueStrategy",
            "deserved",
            "extendClusters",
            "guarantee",
            "parent",
            "priority",
            "reclaimable",
            "type",
            "weight",
        ]
    );
    assert_eq!(
        fields("Queue", "status"),
        [
            "allocated",
            "completed",
            "inqueue",
            "pending",
            "reservation",
            "running",
            "state",
            "unknown",
        ]
    );
    assert_eq!(
        field("Queue", "status.state")["enum"],
        json!(["Open", "Closed", "Closing", "Unknown"])
    );
    let command = schema("Command");
    let command: Vec<_> = command["properties"].as_object().unwrap().keys().collect();
    assert_eq!(
        command,
        [
            "action",
            "apiVersion",
            "kind",
            "message",
            "metadata",
            "reason",
            "target"
        ]
    );
}

/// Whether everything in a value is known to the schema.
fn covers(schema: &Value, value: &Value, path: &str) {
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let (property, any) =
                    (&schema["properties"][name], &schema["additionalProperties"]);
                let below = if property.is_null() { any } else { property };
                assert!(!below.is_null(), "{path}.{name} is not in the definition");
                covers(below, value, &format!("{path}.{name}"));
            }
        }
        Value::Array(items) => {
            let below = &schema["items"];
            assert!(!below.is_null(), "{path} is no list in the definition");
            for item in items {
                covers(below, item, path);
            }
        }
        _ => {}
    }
}

/// An API server would silently drop a field that its definition lacks.
#[test]
fn the_definitions_have_every_field_that_the_programs_write() {
    let full = |mut value: Value, lists: &[(&str, Value)]| {
        for (pointer, item) in lists {
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            value.pointer_mut(parent).unwrap()[field] = json!([item]);
        }
        value["metadata"] = json!({});
        value
    };
    let topology = json!(NetworkTopology::default());
    let mut partitions = json!(PartitionPolicy::default());
    partitions["networkTopology"] = topology.clone();
    let policy = json!(LifecyclePolicy::default());
    let mut task = json!(TaskSpec::default());
    task["policies"] = json!([policy]);
    task["dependsOn"] = json!(DependsOn::default());
    task["partitionPolicy"] = partitions;
    let mut job = full(
        json!(Job::default()),
        &[
            ("/spec/volumes", json!(VolumeSpec::default())),
            ("/spec/tasks", task),
            ("/spec/policies", policy),
            ("/status/conditions", json!(JobCondition::default())),
        ],
    );
    job["spec"]["networkTopology"] = topology.clone();
    job["status"]["taskStatusCount"] = json!({"a": TaskState::default()});
    covers(&without_metadata(schema("Job")), &job, "job");
    let mut part = json!({ "name": "a" });
    part["networkTopology"] = topology.clone();
    let mut group = full(
        json!(PodGroup::default()),
        &[
            ("/spec/subGroupPolicy", part),
            ("/status/conditions", json!(PodGroupCondition::default())),
        ],
    );
    group["spec"]["networkTopology"] = topology;
    group["spec"]["minResources"] = json!({"cpu": "1"});
    covers(&without_metadata(schema("PodGroup")), &group, "group");
    let queue = full(json!(Queue::default()), &[]);
    covers(&without_metadata(schema("Queue")), &queue, "queue");
    let mut command = full(json!(Command::default()), &[]);
    command["target"] =
        json!({"apiVersion": "", "kind": "", "name": "", "uid": "", "controller": true});
    covers(&without_metadata(schema("Command")), &command, "command");
}

fn without_metadata(mut schema: Value) -> Value {
    schema["properties"]["metadata"] = json!({"x-kubernetes-preserve-unknown-fields": true});
    schema
}

/// What an API server demands of a structural schema.
fn structural(schema: &Value, path: &str) {
    let typed = schema["type"].is_string() || schema["x-kubernetes-int-or-string"] == true;
    assert!(typed, "{path} has no single type: {schema}");
    for keyword in [
        "nullable",
        "oneOf",
        "allOf",
        "$ref",
        "title",
        "const",
        "x-default",
    ] {
        assert!(schema[keyword].is_null(), "{path}: {keyword}");
    }
    if let Some(values) = schema["enum"].as_array() {
        assert!(values.iter().all(Value::is_string), "{path}: {values:?}");
    }
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        structural(below, &format!("{path}.{name}"));
    }
    for below in [&schema["items"], &schema["additionalProperties"]] {
        if !below.is_null() {
            structural(below, path);
        }
    }
}

#[test]
fn the_schemas_are_structural() {
    for kind in ["Command", "Job", "PodGroup", "Queue"] {
        structural(&schema(kind), kind);
    }
}
