//! Field and label selectors.

use crate::status::Status;
use serde_json::Value;

/// Fields by which a real server selects, of any of our kinds.
const FIELDS: [&str; 19] = [
    "metadata.name",
    "metadata.namespace",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.unschedulable",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "type",
];

/// Which objects a request is about.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    fields: Vec<(String, bool, String)>,
    labels: Vec<Requirement>,
}

#[derive(Debug, Clone)]
struct Requirement {
    key: String,
    /// `None`: the label need only be there.
    values: Option<Vec<String>>,
    wanted: bool,
}

impl Selection {
    /// From the two query parameters; empty ones select everything.
    pub(crate) fn parse(fields: &str, labels: &str) -> Result<Self, Status> {
        Ok(Self {
            fields: terms(fields).map(field).collect::<Result<_, _>>()?,
            labels: terms(labels).map(label).collect::<Result<_, _>>()?,
        })
    }

    /// Whether this object is.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.fields
            .iter()
            .all(|(path, equal, value)| (field_of(object, path) == *value) == *equal)
            && self
                .labels
                .iter()
                .all(|requirement| requirement.met(&object["metadata"]["labels"]))
    }
}

/// Split at commas that are not inside parentheses.
fn terms(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    text.split(move |character| {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        character == ',' && depth == 0
    })
    .map(str::trim)
    .filter(|term| !term.is_empty())
}

fn field(term: &str) -> Result<(String, bool, String), Status> {
    let (path, equal, value) = if let Some((path, value)) = term.split_once("!=") {
        (path, false, value)
    } else if let Some((path, value)) = term.split_once('=') {
        (path, true, value.trim_start_matches('='))
    } else {
        return Err(Status::bad_request(format!("invalid selector: '{term}'")));
    };
    if FIELDS.contains(&path) {
        Ok((path.to_owned(), equal, value.to_owned()))
    } else {
        Err(Status::bad_request(format!(
            "field label not supported: {path}"
        )))
    }
}

fn field_of(object: &Value, path: &str) -> String {
    let value = path.split('.').fold(object, |value, key| &value[key]);
    match value {
        Value::String(text) => text.clone(),
        Value::Null if path == "spec.unschedulable" => "false".to_owned(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn label(term: &str) -> Result<Requirement, Status> {
    let requirement = |key: &str, values: Option<&str>, wanted| Requirement {
        key: key.trim().to_owned(),
        values: values.map(|values| {
            values
                .split(',')
                .map(|value| value.trim().to_owned())
                .collect()
        }),
        wanted,
    };
    let listed = |text: &str| -> Option<String> {
        Some(text.trim().strip_prefix('(')?.strip_suffix(')')?.to_owned())
    };
    let malformed = || Status::bad_request(format!("unable to parse requirement: {term}"));
    if let Some((key, values)) = term.split_once(" notin ") {
        let values = listed(values).ok_or_else(malformed)?;
        return Ok(requirement(key, Some(&values), false));
    }
    if let Some((key, values)) = term.split_once(" in ") {
        let values = listed(values).ok_or_else(malformed)?;
        return Ok(requirement(key, Some(&values), true));
    }
    if let Some((key, value)) = term.split_once("!=") {
        return Ok(requirement(key, Some(value), false));
    }
    if let Some((key, value)) = term.split_once('=') {
        return Ok(requirement(key, Some(value.trim_start_matches('=')), true));
    }
    Ok(match term.strip_prefix('!') {
        Some(key) => requirement(key, None, false),
        None => requirement(term, None, true),
    })
}

impl Requirement {
    fn met(&self, labels: &Value) -> bool {
        let label = labels[&self.key].as_str();
        let found = match &self.values {
            None => label.is_some(),
            Some(values) => label.is_some_and(|label| values.iter().any(|value| value == label)),
        };
        found == self.wanted
    }
}

/// Whether a `LabelSelector` object, as in a budget, selects these labels. Null selects nothing, `{}` everything.
pub(crate) fn selects(selector: &Value, labels: &Value) -> bool {
    let Some(selector) = selector.as_object() else {
        return false;
    };
    let empty = serde_json::Map::new();
    let exact = selector
        .get("matchLabels")
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    exact.iter().all(|(key, value)| labels[key] == *value)
        && expressions.into_iter().flatten().all(|expression| {
            let label = &labels[expression["key"].as_str().unwrap_or_default()];
            let among = expression["values"]
                .as_array()
                .is_some_and(|values| values.contains(label));
            match expression["operator"].as_str() {
                Some("In") => among,
                Some("NotIn") => !among,
                Some("Exists") => !label.is_null(),
                _ => label.is_null(),
            }
        })
}
