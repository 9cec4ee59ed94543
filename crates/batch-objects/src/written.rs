//! Pod templates and tasks as Volcano writes them back: nothing that is empty, amounts in their canonical form, and
//! `resources` of each container even where there are none. Fields that are not known stay as they are.

use evictd_pod::Quantity;
use evictd_pod::duration;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Maps with the user's keys; their values are kept as they are, and empty maps are left out.
const MAPS: [&str; 8] = [
    "labels",
    "annotations",
    "nodeSelector",
    "matchLabels",
    "limits",
    "requests",
    "overhead",
    "volumeAttributes",
];
/// Maps of amounts.
const AMOUNTS: [&str; 3] = ["limits", "requests", "overhead"];
/// Fields that are a single amount.
const AMOUNT: [&str; 2] = ["sizeLimit", "divisor"];
/// Flags that are the same absent and false.
const FLAGS: [&str; 7] = [
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "stdin",
    "stdinOnce",
    "tty",
    "readOnly",
];
/// Numbers that are the same absent and 0.
const NUMBERS: [&str; 9] = [
    "hostPort",
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
    "replicas",
    "maxRetry",
    "minPartitions",
];

/// The spec of a job as it is written back.
pub fn job_spec(spec: &Value) -> Value {
    let mut written = fields(spec);
    if let Some(tasks) = spec["tasks"].as_array().filter(|tasks| !tasks.is_empty()) {
        let tasks: Vec<Value> = tasks.iter().map(task).collect();
        written.insert("tasks".to_owned(), tasks.into());
    }
    written.into()
}

/// A task as it is written back.
pub fn task(task: &Value) -> Value {
    let mut written = fields(task);
    let template = template(&task["template"]);
    written.insert("template".to_owned(), template);
    written.into()
}

/// A pod template as it is written back.
pub fn template(template: &Value) -> Value {
    let mut written = fields(template);
    let metadata = fields(&template["metadata"]);
    written.insert("metadata".to_owned(), metadata.into());
    let mut spec = fields(&template["spec"]);
    for kind in ["containers", "initContainers", "ephemeralContainers"] {
        let containers = spec.get_mut(kind).and_then(Value::as_array_mut);
        let containers = containers.into_iter().flatten();
        for container in containers.filter_map(Value::as_object_mut) {
            container.entry("resources").or_insert_with(|| json!({}));
        }
    }
    spec.entry("containers").or_insert(Value::Null);
    written.insert("spec".to_owned(), spec.into());
    written.into()
}

/// The fields of an object without those that are empty.
fn fields(object: &Value) -> Map<String, Value> {
    let fields = object.as_object().into_iter().flatten();
    fields
        .filter_map(|(field, value)| Some((field.clone(), of(field, value)?)))
        .collect()
}

/// A value without empty fields, at any depth.
pub fn cleaned(value: &Value) -> Value {
    match value {
        Value::Object(_) => fields(value).into(),
        Value::Array(items) => items.iter().map(cleaned).collect(),
        other => other.clone(),
    }
}

/// The value of a field; `None` where it is the same as absent.
fn of(field: &str, value: &Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::String(text) if text.is_empty() => None,
        Value::Array(items) if items.is_empty() => None,
        Value::Object(entries) if MAPS.contains(&field) => {
            let written = if AMOUNTS.contains(&field) {
                amounts(entries)
            } else {
                entries.clone()
            };
            (!entries.is_empty()).then_some(Value::Object(written))
        }
        Value::Bool(false) if FLAGS.contains(&field) => None,
        Value::Number(number) if number.as_i64() == Some(0) && NUMBERS.contains(&field) => None,
        value if AMOUNT.contains(&field) => Some(amount(value)),
        Value::String(text) if field == "timeout" => Some(
            duration::parse(text)
                .map_or_else(|_| text.clone(), duration::format)
                .into(),
        ),
        value => Some(cleaned(value)),
    }
}

fn amounts(entries: &Map<String, Value>) -> Map<String, Value> {
    let entries = entries.iter();
    entries
        .map(|(name, value)| (name.clone(), amount(value)))
        .collect()
}

/// An invalid quantity stays as it is, and fails validation later.
fn amount(value: &Value) -> Value {
    match Quantity::deserialize(value) {
        Ok(quantity) => quantity.to_string().into(),
        Err(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_empty_is_left_out_and_resources_are_written() {
        let given = json!({
            "name": "a", "replicas": 0, "minAvailable": 0, "policies": [{"event": "", "timeout": "90m"}, {"timeout": "soon"}], "unknown": {"x": 1},
            "template": {"spec": {
                "hostNetwork": false, "nodeName": "", "nodeSelector": {}, "automountServiceAccountToken": false,
                "securityContext": {}, "tolerations": null,
                "containers": [{
                    "name": "c", "args": [""], "tty": false,
                    "env": [{"name": "A", "value": ""}],
                    "resources": {"requests": {"cpu": "1000m", "memory": 1024}, "limits": {}},
                }],
                "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1024Mi"}}],
            }},
        });
        assert_eq!(
            task(&given),
            json!({
                "name": "a", "minAvailable": 0, "policies": [{"timeout": "1h30m0s"}, {"timeout": "soon"}], "unknown": {"x": 1},
                "template": {"metadata": {}, "spec": {
                    "automountServiceAccountToken": false, "securityContext": {},
                    "containers": [{
                        "name": "c", "args": [""], "env": [{"name": "A"}],
                        "resources": {"requests": {"cpu": "1", "memory": "1024"}},
                    }],
                    "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}],
                }},
            })
        );
    }

    #[test]
    fn a_template_that_is_not_there_is_written_with_no_containers() {
        let nothing = json!({"metadata": {}, "spec": {"containers": null}});
        assert_eq!(template(&Value::Null), nothing);
        let kept = json!({"spec": {"containers": [{"resources": {"limits": {"cpu": "many"}}}]}});
        assert_eq!(
            template(&kept)["spec"]["containers"][0]["resources"]["limits"]["cpu"],
            "many"
        );
    }
}
