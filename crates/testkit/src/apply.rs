//! Server-side apply, and who owns which field.

use crate::call::Call;
use crate::fields::{self, Fields, Path};
use crate::status::Status;
use crate::time::time;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// As a request names it.
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

/// One owner of fields.
#[derive(Debug, Clone)]
struct Owner {
    manager: String,
    operation: &'static str,
    subresource: String,
    api_version: Value,
    time: Value,
    fields: Fields,
}

impl Owner {
    fn new(call: &Call, operation: &'static str, now: Timestamp) -> Self {
        Self {
            manager: call.manager.clone(),
            operation,
            subresource: call.subresource.clone(),
            api_version: call.resource.api_version().into(),
            time: time(now),
            fields: Fields::default(),
        }
    }

    fn same(&self, other: &Self) -> bool {
        let key = |owner: &Self| {
            (
                owner.manager.clone(),
                owner.operation,
                owner.subresource.clone(),
            )
        };
        key(self) == key(other)
    }

    fn parse(entry: &Value) -> Self {
        let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        Self {
            manager: text("manager"),
            operation: if entry["operation"] == "Apply" {
                "Apply"
            } else {
                "Update"
            },
            subresource: text("subresource"),
            api_version: entry["apiVersion"].clone(),
            time: entry["time"].clone(),
            fields: Fields::decoded(&entry["fieldsV1"]),
        }
    }

    fn entry(&self) -> Value {
        let mut entry = json!({
            "manager": self.manager, "operation": self.operation, "apiVersion": self.api_version, "time": self.time,
            "fieldsType": "FieldsV1", "fieldsV1": self.fields.encoded(),
        });
        if !self.subresource.is_empty() {
            entry["subresource"] = self.subresource.clone().into();
        }
        entry
    }

    /// As messages name it.
    fn shown(&self) -> String {
        let below = match self.subresource.as_str() {
            "" => String::new(),
            below => format!(" with subresource {below:?}"),
        };
        let version = self.api_version.as_str().unwrap_or_default();
        format!("conflict with {:?}{below} using {version}", self.manager)
    }
}

fn owners(object: &Value) -> Vec<Owner> {
    let entries = object["metadata"]["managedFields"].as_array();
    entries.into_iter().flatten().map(Owner::parse).collect()
}

/// A missing field has no owner.
fn set_owners(object: &mut Value, mut owners: Vec<Owner>) {
    for owner in &mut owners {
        owner
            .fields
            .0
            .retain(|path| fields::at(object, path).is_some());
    }
    owners.retain(|owner| !owner.fields.0.is_empty());
    object["metadata"]["managedFields"] = owners.iter().map(Owner::entry).collect();
}

/// A write that is no apply takes the ownership of its fields from all other managers.
pub(crate) fn record(call: &Call, old: &Value, new: &mut Value, now: Timestamp) {
    let changed: Vec<Path> = Fields::of(new)
        .0
        .into_iter()
        .filter(
            |path| match (fields::at(old, path), fields::at(new, path)) {
                // Elements of a list change in their fields.
                (Some(_), Some(_)) if path.last().is_some_and(|step| !step.starts_with("f:")) => {
                    false
                }
                (before, after) => before != after,
            },
        )
        .collect();
    let mut owners = owners(old);
    let mut mine = Owner::new(call, "Update", now);
    for owner in &mut owners {
        for path in &changed {
            owner.fields.0.remove(path);
        }
    }
    if let Some(before) = owners.iter().position(|owner| owner.same(&mine)) {
        mine.fields = owners.remove(before).fields;
    }
    mine.fields.0.extend(changed);
    owners.push(mine);
    set_owners(new, owners);
}

/// The object as it is to be once `config` is applied; with `force` others' fields are taken from them.
pub(crate) fn apply(
    call: &Call,
    live: &Value,
    config: &Value,
    now: Timestamp,
) -> Result<Value, Status> {
    if call.option("fieldManager").is_empty() {
        let message = "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch";
        return Err(Status::new(422, "Invalid", message));
    }
    if !config["metadata"]["managedFields"].is_null() {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    let mut mine = Owner::new(call, "Apply", now);
    mine.fields = Fields::of(config);
    let elsewhere = if call.subresource == "status" {
        "f:spec"
    } else {
        "f:status"
    };
    mine.fields
        .0
        .retain(|path| path[0] != elsewhere || !call.resource.has_status());

    let mut owners = owners(live);
    let before = owners
        .iter()
        .position(|owner| owner.same(&mine))
        .map(|at| owners.remove(at));
    let contested = |path: &&Path| fields::at(live, path) != fields::at(config, path);
    let element = |path: &&Path| path.last().is_some_and(|step| !step.starts_with("f:"));
    let contested: Vec<Path> = mine
        .fields
        .0
        .iter()
        .filter(|path| !element(path))
        .filter(contested)
        .cloned()
        .collect();
    if !call.asks("force") {
        refuse_conflicts(&owners, &contested)?;
    }
    for owner in &mut owners {
        for path in &contested {
            owner.fields.0.remove(path);
        }
    }
    let mut object = live.clone();
    overlay(&mut object, config, "");
    if let Some(before) = &before {
        for path in before.fields.0.difference(&mine.fields.0) {
            if !owners.iter().any(|owner| owner.fields.0.contains(path)) {
                fields::remove(&mut object, path);
            }
        }
    }
    if let Some(before) = before.filter(|before| before.fields == mine.fields && object == *live) {
        mine.time = before.time;
    }
    owners.push(mine);
    set_owners(&mut object, owners);
    Ok(object)
}

fn refuse_conflicts(owners: &[Owner], contested: &[Path]) -> Result<(), Status> {
    let mut causes = Vec::new();
    for owner in owners {
        for path in contested
            .iter()
            .filter(|path| owner.fields.0.contains(*path))
        {
            causes.push(json!({
                "reason": "FieldManagerConflict", "message": owner.shown(), "field": fields::shown(path),
            }));
        }
    }
    if causes.is_empty() {
        return Ok(());
    }
    let lines = causes.iter().map(|cause| {
        let text = |field: &str| cause[field].as_str().unwrap_or_default();
        format!("{}: {}", text("message"), text("field"))
    });
    let lines: Vec<String> = lines.collect();
    let plural = if lines.len() == 1 { "" } else { "s" };
    let message = format!(
        "Apply failed with {} conflict{plural}: {}",
        lines.len(),
        lines.join("\n")
    );
    Err(Status {
        details: json!({"causes": causes}),
        ..Status::new(409, "Conflict", message)
    })
}

/// Objects merge, lists that have keys merge by them, everything else is replaced.
fn overlay(target: &mut Value, config: &Value, name: &str) {
    match (config, crate::patch::keys(name)) {
        (Value::Object(children), _) => {
            if !target.is_object() {
                *target = Value::Object(Map::new());
            }
            for (name, child) in children {
                overlay(&mut target[name], child, name);
            }
        }
        (Value::Array(elements), Some(keys)) => {
            let mut all = target.as_array().cloned().unwrap_or_default();
            for element in elements {
                let same = |known: &&mut Value| keys.iter().all(|key| known[*key] == element[*key]);
                match all.iter_mut().find(same) {
                    Some(known) => overlay(known, element, ""),
                    None => all.push(element.clone()),
                }
            }
            *target = all.into();
        }
        (Value::Array(elements), None) if name == "finalizers" => {
            let mut all = target.as_array().cloned().unwrap_or_default();
            let new = elements
                .iter()
                .filter(|element| !all.contains(element))
                .cloned()
                .collect::<Vec<_>>();
            all.extend(new);
            *target = all.into();
        }
        _ => target.clone_from(config),
    }
}
