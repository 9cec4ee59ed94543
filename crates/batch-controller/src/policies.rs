//! Admission policies that the API server enforces without the webhook, from the rules of `evictd_batch_admission` (S6-086).

use evictd_batch_admission::rules::{Policy, policies};
use serde_json::{Value, json};

/// Each policy with its binding.
pub fn all() -> Vec<Value> {
    policies()
        .iter()
        .flat_map(|policy| [object_of(policy), binding(policy)])
        .collect()
}

fn object_of(policy: &Policy) -> Value {
    let rules = policy.rules.iter().map(
        |rule| json!({"expression": rule.expression, "message": rule.message, "reason": "Invalid"}),
    );
    let mut spec = json!({
        // A rule that cannot be evaluated must not let an object pass.
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
        spec["variables"] = policy
            .variables
            .iter()
            .map(|(name, expression)| json!({"name": name, "expression": expression}))
            .collect();
    }
    object("ValidatingAdmissionPolicy", policy.name, &spec)
}

fn binding(policy: &Policy) -> Value {
    let spec = json!({"policyName": policy.name, "validationActions": ["Deny"]});
    object("ValidatingAdmissionPolicyBinding", policy.name, &spec)
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": {"app.kubernetes.io/name": "evictd-batch"}},
        "spec": spec,
    })
}
