//! Pod templates as Kubernetes validates them: common errors, in its words and order (S6-077, S6-082). Missing fields
//! have Kubernetes' defaults. Security contexts, selectors and the details of volumes are left to the API server, which
//! validates each pod again.

mod affinity;
mod container;
mod probes;
pub(super) mod resources;

use super::field::Mistakes;
use super::read::{has, list, number, text, texts};
use container::Pod;
use evictd_pod::names;
use serde_json::Value;
use std::collections::BTreeSet;

/// The errors in the template of a task, with the task's name and the job's namespace.
pub(super) fn check(name: &str, namespace: &str, template: &Value) -> Vec<String> {
    let mut mistakes = Mistakes::default();
    match name {
        "" => mistakes.required("metadata.name", "name or generateName is required"),
        name => mistakes.each_invalid("metadata.name", name, names::dns_subdomain(name)),
    }
    match namespace {
        "" => mistakes.required("metadata.namespace", ""),
        namespace => {
            let wrong = names::dns_label(namespace);
            mistakes.each_invalid("metadata.namespace", namespace, wrong);
        }
    }
    labels(
        &template["metadata"],
        "labels",
        "template.labels",
        &mut mistakes,
    );
    for (key, _) in texts(&template["metadata"], "annotations") {
        // The prefix of an annotation may have capitals, unlike that of a label.
        let wrong = names::qualified(&key.to_lowercase());
        mistakes.each_invalid("template.annotations", key, wrong);
    }
    check_spec(&template["spec"], "template.spec", &mut mistakes);
    if !list(&template["spec"], "ephemeralContainers").is_empty() {
        let why = "ephemeral containers not allowed in pod template";
        mistakes.forbidden("template.spec.ephemeralContainers", why);
    }
    mistakes.into_texts()
}

fn check_spec(spec: &Value, path: &str, mistakes: &mut Mistakes) {
    let at = |field: &str| format!("{path}.{field}");
    let pod = Pod {
        volumes: volumes(list(spec, "volumes"), &at("volumes"), mistakes),
        claims: claims(
            list(spec, "resourceClaims"),
            &at("resourceClaims"),
            mistakes,
        ),
    };
    let (containers, init) = (list(spec, "containers"), list(spec, "initContainers"));
    container::check(containers, &pod, &at("containers"), mistakes);
    container::check_init(init, containers, &pod, &at("initContainers"), mistakes);
    // In the network of the host a port of a container is one of the host.
    if spec["hostNetwork"] == true {
        host_ports(containers, &at("containers"), mistakes);
    }
    policies(spec, path, mistakes);
    labels(spec, "nodeSelector", &at("nodeSelector"), mistakes);
    affinity::check(&spec["affinity"], &at("affinity"), mistakes);
    gates(
        list(spec, "schedulingGates"),
        &at("schedulingGates"),
        mistakes,
    );
    spread(
        list(spec, "topologySpreadConstraints"),
        &at("topologySpreadConstraints"),
        mistakes,
    );
    named(spec, path, mistakes);
    tolerations(list(spec, "tolerations"), &at("tolerations"), mistakes);
    let class = text(spec, "priorityClassName");
    if !class.is_empty() {
        let wrong = names::dns_subdomain(class);
        mistakes.each_invalid(&at("priorityClassName"), class, wrong);
    }
    let class = text(spec, "runtimeClassName");
    if !class.is_empty() {
        let wrong = names::dns_subdomain(class);
        mistakes.each_invalid(&at("runtimeClassName"), class, wrong);
    }
    if has(spec, "preemptionPolicy") {
        let policies = ["PreemptLowerPriority", "Never"];
        let path = at("preemptionPolicy");
        mistakes.one_of(&path, text(spec, "preemptionPolicy"), &policies);
    }
}

fn labels(object: &Value, field: &str, path: &str, mistakes: &mut Mistakes) {
    for (key, value) in texts(object, field) {
        mistakes.each_invalid(path, key, names::qualified(key));
        mistakes.each_invalid(path, value, names::label_value(value));
    }
}

/// Kinds of volumes that name something, and the field with that name.
const NAMING: [(&str, &str); 4] = [
    ("hostPath", "path"),
    ("secret", "secretName"),
    ("configMap", "name"),
    ("persistentVolumeClaim", "claimName"),
];

/// The names of those that are right, for the mounts.
fn volumes<'v>(volumes: &'v [Value], path: &str, mistakes: &mut Mistakes) -> BTreeSet<&'v str> {
    let mut right: BTreeSet<&str> = BTreeSet::new();
    for (index, volume) in volumes.iter().enumerate() {
        let mut found = Mistakes::default();
        let path = format!("{path}[{index}]");
        let fields = volume.as_object().into_iter().flatten();
        let kinds = fields.filter(|(field, value)| *field != "name" && !value.is_null());
        for (kind, _) in kinds.skip(1) {
            let why = "may not specify more than 1 volume type";
            found.forbidden(&format!("{path}.{kind}"), why);
        }
        for (kind, field) in NAMING {
            if has(volume, kind) && text(&volume[kind], field).is_empty() {
                found.required(&format!("{path}.{kind}.{field}"), "");
            }
        }
        let (name, path) = (text(volume, "name"), format!("{path}.name"));
        match name {
            "" => found.required(&path, ""),
            name => found.each_invalid(&path, name, names::dns_label(name)),
        }
        if right.contains(name) {
            found.duplicate(&path, name);
        }
        if found.is_empty() {
            right.insert(name);
        } else {
            mistakes.extend(found);
        }
    }
    right
}

/// The names of all of them.
fn claims<'v>(claims: &'v [Value], path: &str, mistakes: &mut Mistakes) -> BTreeSet<&'v str> {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for (index, claim) in claims.iter().enumerate() {
        let path = format!("{path}[{index}].name");
        match text(claim, "name") {
            "" => mistakes.required(&path, ""),
            name if seen.contains(name) => mistakes.duplicate(&path, name),
            name => {
                mistakes.each_invalid(&path, name, names::dns_label(name));
                seen.insert(name);
            }
        }
    }
    seen
}

/// With the node's network a port on the host is the container's.
fn host_ports(containers: &[Value], path: &str, mistakes: &mut Mistakes) {
    for (index, container) in containers.iter().enumerate() {
        for (place, port) in list(container, "ports").iter().enumerate() {
            let of_host = number(port, "hostPort");
            if of_host != 0 && of_host != number(port, "containerPort") {
                let path = format!("{path}[{index}].ports[{place}].hostPort");
                let why = "must match `containerPort` when `hostNetwork` is true";
                mistakes.invalid_number(&path, of_host, why);
            }
        }
    }
}

fn policies(spec: &Value, path: &str, mistakes: &mut Mistakes) {
    let of_restarts = text(spec, "restartPolicy");
    if !of_restarts.is_empty() {
        let path = format!("{path}.restartPolicy");
        mistakes.one_of(&path, of_restarts, &["Always", "OnFailure", "Never"]);
    }
    let of_names = text(spec, "dnsPolicy");
    if !of_names.is_empty() {
        let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
        mistakes.one_of(&format!("{path}.dnsPolicy"), of_names, &policies);
    }
}

fn gates(gates: &[Value], path: &str, mistakes: &mut Mistakes) {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for (index, gate) in gates.iter().enumerate() {
        let (path, name) = (format!("{path}[{index}]"), text(gate, "name"));
        mistakes.each_invalid(&path, name, names::qualified(name));
        if seen.contains(name) {
            mistakes.duplicate(&path, name);
        }
        seen.insert(name);
    }
}

fn spread(constraints: &[Value], path: &str, mistakes: &mut Mistakes) {
    for (index, constraint) in constraints.iter().enumerate() {
        let at = |field: &str| format!("{path}[{index}].{field}");
        let skew = number(constraint, "maxSkew");
        if skew <= 0 {
            mistakes.invalid_number(&at("maxSkew"), skew, "must be greater than zero");
        }
        let key = text(constraint, "topologyKey");
        if key.is_empty() {
            mistakes.required(&at("topologyKey"), "can not be empty");
        } else {
            mistakes.each_invalid(&at("topologyKey"), key, names::qualified(key));
        }
        let otherwise = ["DoNotSchedule", "ScheduleAnyway"];
        let path = at("whenUnsatisfiable");
        mistakes.one_of(&path, text(constraint, "whenUnsatisfiable"), &otherwise);
    }
}

/// Checks the account, node, host and deadline of a pod.
fn named(spec: &Value, path: &str, mistakes: &mut Mistakes) {
    type Rule = fn(&str) -> Vec<String>;
    let check = |field: &str, rule: Rule, mistakes: &mut Mistakes| {
        let name = text(spec, field);
        if !name.is_empty() {
            mistakes.each_invalid(&format!("{path}.{field}"), name, rule(name));
        }
    };
    check("serviceAccountName", names::dns_subdomain, mistakes);
    check("nodeName", names::dns_subdomain, mistakes);
    let deadline = spec["activeDeadlineSeconds"].as_i64();
    if let Some(seconds) = deadline.filter(|seconds| !(1..=i64::from(i32::MAX)).contains(seconds)) {
        let path = format!("{path}.activeDeadlineSeconds");
        let why = "must be between 1 and 2147483647, inclusive";
        mistakes.invalid_number(&path, seconds, why);
    }
    check("hostname", names::dns_label, mistakes);
    check("subdomain", names::dns_label, mistakes);
}

fn tolerations(tolerations: &[Value], path: &str, mistakes: &mut Mistakes) {
    for (index, toleration) in tolerations.iter().enumerate() {
        let at = |field: &str| format!("{path}[{index}].{field}");
        let of = |field| text(toleration, field);
        let (key, operator, effect) = (of("key"), of("operator"), of("effect"));
        if key.is_empty() && operator != "Exists" {
            let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            mistakes.invalid(&at("operator"), operator, why);
        } else if !key.is_empty() {
            mistakes.each_invalid(&at("key"), key, names::qualified(key));
        }
        if has(toleration, "tolerationSeconds") && effect != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            mistakes.invalid(&at("effect"), effect, why);
        }
        match operator {
            "" | "Equal" => {
                let wrong = names::label_value(of("value"));
                if !wrong.is_empty() {
                    mistakes.invalid(&at("operator"), of("value"), &wrong.join(";"));
                }
            }
            "Exists" => {}
            _ => mistakes.not_supported(&at("operator"), operator, &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
            mistakes.one_of(&at("effect"), effect, &effects);
        }
    }
}
