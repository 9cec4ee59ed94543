//! The API server's own admission policies, from the rules of `evictd_batch::admission` (S6-086).

use evictd_batch::admission::rules::{Policy, policies};
use serde_json::{Value, json};

/// Each policy with the binding that puts it in force.
pub fn all() -> Vec<Value> {
    let policies = policies();
    let documents = policies.iter();
    documents
        .flat_map(|policy| [document(policy), binding(policy)])
        .collect()
}

fn document(policy: &Policy) -> Value {
    let rules = policy.rules.iter().map(
        |rule| json!({"expression": rule.expression, "message": rule.message, "reason": "Invalid"}),
    );
    let mut spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [{
            "apiGroups": [policy.group],
            "apiVersions": [policy.version],
            "resources": [policy.resource],
            "operations": policy.operations,
        }]},
        "validations": rules.collect::<Value>(),
    });
    if let Some((name, expression)) = policy.condition {
        spec["matchConditions"] = json!([{"name": name, "expression": expression}]);
    }
    if !policy.variables.is_empty() {
        let variables = policy.variables.iter();
        spec["variables"] = variables
            .map(|(name, expression)| json!({"name": name, "expression": expression}))
            .collect();
    }
    described("ValidatingAdmissionPolicy", policy.name, &spec)
}

fn binding(policy: &Policy) -> Value {
    let spec = json!({"policyName": policy.name, "validationActions": ["Deny"]});
    described("ValidatingAdmissionPolicyBinding", policy.name, &spec)
}

fn described(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": {"app.kubernetes.io/name": "evictd-batch"}},
        "spec": spec,
    })
}
