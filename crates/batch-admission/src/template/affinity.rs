//! The nodes that a pod prefers or requires, and the pods near which it has to be or must not be.

use crate::field::Mistakes;
use crate::read::{has, list, number, text};
use evictd_pod::names;
use serde_json::Value;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Checks `affinity` at this path.
pub(super) fn check(affinity: &Value, path: &str, mistakes: &mut Mistakes) {
    nodes(
        &affinity["nodeAffinity"],
        &format!("{path}.nodeAffinity"),
        mistakes,
    );
    for kind in ["podAffinity", "podAntiAffinity"] {
        pods(&affinity[kind], &format!("{path}.{kind}"), mistakes);
    }
}

fn nodes(affinity: &Value, path: &str, mistakes: &mut Mistakes) {
    if has(affinity, REQUIRED) {
        let path = format!("{path}.{REQUIRED}.nodeSelectorTerms");
        let terms = list(&affinity[REQUIRED], "nodeSelectorTerms");
        if terms.is_empty() {
            mistakes.required(&path, "must have at least one node selector term");
        }
        for (index, term) in terms.iter().enumerate() {
            node_term(term, true, &format!("{path}[{index}]"), mistakes);
        }
    }
    for (index, preferred) in list(affinity, PREFERRED).iter().enumerate() {
        let path = format!("{path}.{PREFERRED}[{index}]");
        weight(preferred, &path, mistakes);
        let path = format!("{path}.preference");
        node_term(&preferred["preference"], false, &path, mistakes);
    }
}

fn weight(preferred: &Value, path: &str, mistakes: &mut Mistakes) {
    let weight = number(preferred, "weight");
    if !(1..=100).contains(&weight) {
        let why = "must be in the range 1-100";
        mistakes.invalid_number(&format!("{path}.weight"), weight, why);
    }
}

/// Values of labels are checked only where nodes are required.
fn node_term(term: &Value, values_too: bool, path: &str, mistakes: &mut Mistakes) {
    for (index, requirement) in list(term, "matchExpressions").iter().enumerate() {
        let at = |field: &str| format!("{path}.matchExpressions[{index}].{field}");
        let values = list(requirement, "values");
        match text(requirement, "operator") {
            "In" | "NotIn" if values.is_empty() => {
                let why = "must be specified when `operator` is 'In' or 'NotIn'";
                mistakes.required(&at("values"), why);
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                mistakes.forbidden(&at("values"), why);
            }
            "Gt" | "Lt" if values.len() != 1 => {
                let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                mistakes.required(&at("values"), why);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => mistakes.invalid(&at("operator"), other, "not a valid selector operator"),
        }
        let key = text(requirement, "key");
        mistakes.each_invalid(&at("key"), key, names::qualified(key));
        for (place, value) in values.iter().enumerate().filter(|_| values_too) {
            let value = value.as_str().unwrap_or_default();
            let path = format!("{}[{place}]", at("values"));
            mistakes.each_invalid(&path, value, names::label_value(value));
        }
    }
}

fn pods(affinity: &Value, path: &str, mistakes: &mut Mistakes) {
    for (index, term) in list(affinity, REQUIRED).iter().enumerate() {
        pod_term(term, &format!("{path}.{REQUIRED}[{index}]"), mistakes);
    }
    for (index, preferred) in list(affinity, PREFERRED).iter().enumerate() {
        let path = format!("{path}.{PREFERRED}[{index}]");
        weight(preferred, &path, mistakes);
        let path = format!("{path}.podAffinityTerm");
        pod_term(&preferred["podAffinityTerm"], &path, mistakes);
    }
}

fn pod_term(term: &Value, path: &str, mistakes: &mut Mistakes) {
    let (key, path) = (text(term, "topologyKey"), format!("{path}.topologyKey"));
    if key.is_empty() {
        mistakes.required(&path, "can not be empty");
    }
    mistakes.each_invalid(&path, key, names::qualified(key));
}
