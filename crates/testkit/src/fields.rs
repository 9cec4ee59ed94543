//! Sets of fields, as `managedFields` names them.

use crate::patch::keys;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// One step per level: `f:status`, then `f:conditions`, then `k:{"type":"Ready"}`.
pub(crate) type Path = Vec<String>;

/// Fields that a server owns itself.
const OF_THE_SERVER: [&str; 11] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "generateName",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
];

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fields(pub(crate) BTreeSet<Path>);

impl Fields {
    /// Every leaf of an object, and every element of a list that has keys.
    pub(crate) fn of(object: &Value) -> Self {
        let mut fields = BTreeSet::new();
        let mut object = object.clone();
        if let Some(top) = object.as_object_mut() {
            top.remove("apiVersion");
            top.remove("kind");
            if let Some(metadata) = top.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.retain(|field, _| !OF_THE_SERVER.contains(&field.as_str()));
            }
            top.retain(|field, value| {
                field != "metadata" || value.as_object().is_some_and(|all| !all.is_empty())
            });
        }
        collect(&object, "", &mut Vec::new(), &mut fields);
        Self(fields)
    }

    /// As `fieldsV1`.
    pub(crate) fn encoded(&self) -> Value {
        let mut tree = Value::Object(Map::new());
        for path in &self.0 {
            let mut node = &mut tree;
            for step in path {
                if node[step].is_null() {
                    node[step] = json!({});
                }
                node = &mut node[step];
            }
            node["."] = json!({});
        }
        prune(&mut tree);
        tree
    }

    /// From `fieldsV1`.
    pub(crate) fn decoded(tree: &Value) -> Self {
        fn walk(node: &Value, path: &mut Path, fields: &mut BTreeSet<Path>) {
            let children = node.as_object();
            if children.is_none_or(|children| children.is_empty() || children.contains_key("."))
                && !path.is_empty()
            {
                fields.insert(path.clone());
            }
            for (step, child) in children
                .into_iter()
                .flatten()
                .filter(|(step, _)| *step != ".")
            {
                path.push(step.clone());
                walk(child, path, fields);
                path.pop();
            }
        }
        let mut fields = BTreeSet::new();
        walk(tree, &mut Vec::new(), &mut fields);
        Self(fields)
    }
}

/// A leaf needs no mark that it is one.
fn prune(node: &mut Value) {
    let Some(children) = node.as_object_mut() else {
        return;
    };
    if children.len() == 1 {
        children.remove(".");
    }
    for (step, child) in children {
        if step != "." {
            prune(child);
        }
    }
}

fn collect(value: &Value, name: &str, path: &mut Path, fields: &mut BTreeSet<Path>) {
    match (value, keys(name)) {
        (Value::Object(children), _) if !children.is_empty() => {
            for (name, child) in children {
                path.push(format!("f:{name}"));
                collect(child, name, path, fields);
                path.pop();
            }
        }
        (Value::Array(elements), Some(keys)) => {
            for element in elements {
                path.push(key_step(element, keys));
                fields.insert(path.clone());
                collect(element, "", path, fields);
                path.pop();
            }
        }
        (Value::Array(elements), None) if name == "finalizers" => {
            fields.extend(elements.iter().map(|element| {
                let mut path = path.clone();
                path.push(format!("v:{element}"));
                path
            }));
        }
        _ => {
            fields.insert(path.clone());
        }
    }
}

fn key_step(element: &Value, keys: &[&str]) -> String {
    let present = keys.iter().filter(|key| !element[**key].is_null());
    let key: Map<String, Value> = present
        .map(|key| ((*key).to_owned(), element[*key].clone()))
        .collect();
    format!("k:{}", Value::Object(key))
}

/// Where in a list the element is that a step names.
fn position(list: &[Value], step: &str) -> Option<usize> {
    if let Some(value) = step.strip_prefix("v:") {
        let value: Value = serde_json::from_str(value).ok()?;
        return list.iter().position(|element| *element == value);
    }
    let key: Value = serde_json::from_str(step.strip_prefix("k:")?).ok()?;
    let key = key.as_object()?;
    list.iter()
        .position(|element| key.iter().all(|(name, value)| element[name] == *value))
}

/// The value at a path.
pub(crate) fn at<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter()
        .try_fold(object, |value, step| match step.strip_prefix("f:") {
            Some(name) => value.get(name),
            None => value
                .as_array()
                .and_then(|list| list.get(position(list, step)?)),
        })
}

/// Removes the value at a path.
pub(crate) fn remove(object: &mut Value, path: &[String]) {
    let Some((step, rest)) = path.split_first() else {
        return;
    };
    let last = rest.is_empty();
    if let Some(name) = step.strip_prefix("f:") {
        match object.as_object_mut() {
            Some(fields) if last => drop(fields.remove(name)),
            Some(fields) => {
                if let Some(child) = fields.get_mut(name) {
                    remove(child, rest);
                }
            }
            None => {}
        }
    } else if let Some(list) = object.as_array_mut()
        && let Some(found) = position(list, step)
    {
        if last {
            list.remove(found);
        } else {
            remove(&mut list[found], rest);
        }
    }
}

/// As messages name it: `.status.conditions[type="Ready"].status`.
pub(crate) fn shown(path: &[String]) -> String {
    path.iter().fold(String::new(), |text, step| {
        if let Some(name) = step.strip_prefix("f:") {
            return format!("{text}.{name}");
        }
        if let Some(value) = step.strip_prefix("v:") {
            return format!("{text}[={value}]");
        }
        let key = step
            .strip_prefix("k:")
            .and_then(|key| serde_json::from_str::<Map<String, Value>>(key).ok());
        let key: Vec<String> = key
            .into_iter()
            .flatten()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        format!("{text}[{}]", key.join(","))
    })
}
