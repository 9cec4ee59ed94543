//! Whatever is asked.

use evictd_batch_admission::{Endpoint, Known, Request, Settings, admit, patched};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Keys that mean something somewhere.
const KEYS: [&str; 24] = [
    "metadata",
    "name",
    "namespace",
    "annotations",
    "labels",
    "spec",
    "status",
    "state",
    "tasks",
    "replicas",
    "minAvailable",
    "template",
    "containers",
    "resources",
    "requests",
    "limits",
    "cpu",
    "ports",
    "policies",
    "plugins",
    "volumes",
    "dependsOn",
    "parent",
    "queue",
];

/// Any JSON, with keys that are looked at.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        (-3..4_i64).prop_map(Value::from),
        "[a-zA-Z0-9/.%-]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 60, 6, |inner| {
        let key = proptest::sample::select(&KEYS[..]).prop_map(str::to_owned);
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(key, inner, 0..6).prop_map(|fields| json!(fields)),
        ]
    })
}

fn ask(endpoint: Endpoint, operation: &str, object: &Value, old: &Value) -> Option<Value> {
    let request = Request {
        endpoint,
        operation,
        name: "x",
        namespace: "default",
        object,
        old_object: Some(old),
    };
    let verdict = admit(&request, &Known::default(), &Settings::default());
    assert!(verdict.denied.is_none() || verdict.patch.is_empty());
    verdict.denied.is_none().then(|| json!(verdict.patch))
}

/// A job as a user might write it: little of it is given.
fn any_job() -> impl Strategy<Value = Value> {
    let number = || proptest::option::of(0..4_i32);
    let task = (
        proptest::option::of("[a-c]?"),
        number(),
        number(),
        number(),
        any::<bool>(),
        proptest::option::of((1..3_i32, 1..3_i32, 0..3_i32)),
    );
    let task = task.prop_map(|(name, replicas, needed, retries, of_host, parts)| {
        let parts = parts.map(|(total, size, least)| {
            json!({"totalPartitions": total, "partitionSize": size, "minPartitions": least})
        });
        let container = json!({"name": "c", "resources": {"requests": {"cpu": "1000m"}}});
        json!({"name": name, "replicas": replicas, "minAvailable": needed, "maxRetry": retries,
            "partitionPolicy": parts,
            "template": {"spec": {"hostNetwork": of_host, "containers": [container]}}})
    });
    let plugin = proptest::sample::select(&["mpi", "svc", "env", "ray"][..]);
    let plugins = proptest::option::of(btree_map(plugin, Just(json!(["x"])), 0..3));
    let job = (vec(task, 0..4), number(), number(), plugins);
    job.prop_map(|(tasks, needed, retries, plugins)| {
        json!({"metadata": {"name": "j"}, "spec": {"tasks": tasks, "minAvailable": needed,
            "maxRetry": retries, "plugins": plugins}})
    })
}

proptest! {
    #[test]
    fn nothing_panics(object in any_json(), old in any_json()) {
        let spec = json!({"metadata": {"name": "x", "namespace": "default"}, "spec": object});
        let tasks = json!({"metadata": {"name": "x"}, "spec": {"tasks": [object.clone()]}});
        for endpoint in Endpoint::ALL {
            for operation in ["CREATE", "UPDATE", "DELETE", "CONNECT", ""] {
                for object in [&object, &spec, &tasks] {
                    ask(endpoint, operation, object, &old);
                    ask(endpoint, operation, object, object);
                }
            }
        }
    }

    /// The patch can be applied, and what it makes needs nothing more than its plugins once again, which Volcano always writes.
    #[test]
    fn a_job_is_completed_once(job in any_job(), writes_whole_tasks: bool) {
        let settings = Settings { writes_whole_tasks, ..Settings::default() };
        let complete = |object: &Value| {
            let request = Request {
                endpoint: Endpoint::JobsMutate,
                operation: "CREATE",
                name: "j",
                namespace: "default",
                object,
                old_object: None,
            };
            admit(&request, &Known::default(), &settings).patch
        };
        let once = patched(&job, &complete(&job)).unwrap();
        let again = complete(&once);
        prop_assert_eq!(patched(&once, &again).unwrap(), once.clone());
        let all_optional = once["spec"]["minAvailable"] == 0;
        let left = again.iter().filter(|one| !writes_whole_tasks || one.path != "/spec/plugins");
        let left = left.filter(|one| !(all_optional && one.path == "/spec/minAvailable"));
        prop_assert_eq!(left.count(), 0);
    }

    /// What is named field by field is what is written as a whole, but for the canonical form of the tasks.
    #[test]
    fn both_forms_of_a_patch_complete_alike(job in any_job()) {
        let complete = |writes_whole_tasks| {
            let settings = Settings { writes_whole_tasks, ..Settings::default() };
            let request = Request {
                endpoint: Endpoint::JobsMutate,
                operation: "CREATE",
                name: "j",
                namespace: "default",
                object: &job,
                old_object: None,
            };
            let patch = admit(&request, &Known::default(), &settings).patch;
            let mut done = patched(&job, &patch).unwrap();
            let tasks = done["spec"]["tasks"].as_array_mut().unwrap();
            for task in tasks {
                // A number that is 0 is left out of the canonical form.
                let fields = task.as_object_mut().unwrap();
                fields.remove("template");
                fields.retain(|_, value| !value.is_null() && *value != 0);
                let parts = fields.get_mut("partitionPolicy").and_then(Value::as_object_mut);
                if let Some(parts) = parts {
                    parts.retain(|_, value| *value != 0);
                }
            }
            (patch, done)
        };
        let ((fields, ours), (_, volcanos)) = (complete(false), complete(true));
        prop_assert_eq!(ours, volcanos);
        prop_assert!(fields.iter().all(|one| one.path != "/spec/tasks" && one.path != "/spec/plugins"));
    }
}
