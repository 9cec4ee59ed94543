//! The containers of a pod template.

use super::{probes, resources};
use crate::field::Mistakes;
use crate::read::{has, list, number, text};
use evictd_pod::names;
use serde_json::Value;
use std::collections::BTreeSet;

/// The parts of the pod that containers are checked against.
pub(super) struct Pod<'a> {
    /// Names of its volumes that are right.
    pub(super) volumes: BTreeSet<&'a str>,
    /// Names of its claims.
    pub(super) claims: BTreeSet<&'a str>,
}

/// The containers that run side by side.
pub(super) fn check(containers: &[Value], pod: &Pod<'_>, path: &str, mistakes: &mut Mistakes) {
    if containers.is_empty() {
        return mistakes.required(path, "");
    }
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        let path = format!("{path}[{index}]");
        common(container, pod, &path, mistakes);
        let name = text(container, "name");
        if seen.contains(name) {
            mistakes.duplicate(&format!("{path}.name"), name);
        }
        seen.insert(name);
        probes::check(container, &path, mistakes);
        if has(container, "restartPolicy") {
            let why = "may not be set for non-init containers";
            mistakes.forbidden(&format!("{path}.restartPolicy"), why);
        }
    }
    conflicts(containers, path, mistakes);
}

/// The containers that run before the others.
pub(super) fn check_init(
    containers: &[Value],
    others: &[Value],
    pod: &Pod<'_>,
    path: &str,
    mistakes: &mut Mistakes,
) {
    // The names of all containers of a pod are different.
    let mut seen: BTreeSet<&str> = others.iter().map(|other| text(other, "name")).collect();
    for (index, container) in containers.iter().enumerate() {
        let of_all = path;
        let path = format!("{path}[{index}]");
        common(container, pod, &path, mistakes);
        if has(container, "restartPolicy") {
            let path = format!("{path}.restartPolicy");
            mistakes.one_of(&path, text(container, "restartPolicy"), &["Always"]);
        }
        let name = text(container, "name");
        if seen.contains(name) {
            mistakes.duplicate(&format!("{path}.name"), name);
        } else if !name.is_empty() {
            seen.insert(name);
        }
        // They run one after the other, so that two of them may use the same port.
        conflicts(std::slice::from_ref(container), of_all, mistakes);
        // A sidecar runs beside the containers, so it may have probes.
        if text(container, "restartPolicy") == "Always" {
            probes::check(container, &path, mistakes);
            continue;
        }
        for field in [
            "lifecycle",
            "livenessProbe",
            "readinessProbe",
            "startupProbe",
        ] {
            if has(container, field) {
                let why = "may not be set for init containers without restartPolicy=Always";
                mistakes.forbidden(&format!("{path}.{field}"), why);
            }
        }
    }
}

fn common(container: &Value, pod: &Pod<'_>, path: &str, mistakes: &mut Mistakes) {
    let at = |field: &str| format!("{path}.{field}");
    match text(container, "name") {
        "" => mistakes.required(&at("name"), ""),
        name => mistakes.each_invalid(&at("name"), name, names::dns_label(name)),
    }
    if text(container, "image").is_empty() {
        mistakes.required(&at("image"), "");
    }
    let of_messages = text(container, "terminationMessagePolicy");
    if !of_messages.is_empty() {
        let path = at("terminationMessagePolicy");
        mistakes.one_of(&path, of_messages, &["File", "FallbackToLogsOnError"]);
    }
    ports(list(container, "ports"), &at("ports"), mistakes);
    environment(container, path, mistakes);
    mounts(
        list(container, "volumeMounts"),
        pod,
        &at("volumeMounts"),
        mistakes,
    );
    let of_pulls = text(container, "imagePullPolicy");
    if !of_pulls.is_empty() {
        let path = at("imagePullPolicy");
        mistakes.one_of(&path, of_pulls, &["Always", "IfNotPresent", "Never"]);
    }
    resources::check(
        &container["resources"],
        &at("resources"),
        &pod.claims,
        mistakes,
    );
}

fn ports(ports: &[Value], path: &str, mistakes: &mut Mistakes) {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let at = |field: &str| format!("{path}[{index}].{field}");
        let name = text(port, "name");
        if !name.is_empty() {
            let wrong = names::port(name);
            if !wrong.is_empty() {
                mistakes.each_invalid(&at("name"), name, wrong);
            } else if seen.contains(name) {
                mistakes.duplicate(&at("name"), name);
            } else {
                seen.insert(name);
            }
        }
        let of_container = number(port, "containerPort");
        if of_container == 0 {
            mistakes.required(&at("containerPort"), "");
        } else if let Some(why) = names::port_number(of_container) {
            mistakes.invalid_number(&at("containerPort"), of_container, why);
        }
        let of_host = number(port, "hostPort");
        if let Some(why) = names::port_number(of_host).filter(|_| of_host != 0) {
            mistakes.invalid_number(&at("hostPort"), of_host, why);
        }
        let protocol = protocol(port);
        mistakes.one_of(&at("protocol"), protocol, &["SCTP", "TCP", "UDP"]);
    }
}

fn protocol(port: &Value) -> &str {
    match text(port, "protocol") {
        "" => "TCP",
        protocol => protocol,
    }
}

/// Ports on the host that two of these containers want.
fn conflicts(containers: &[Value], path: &str, mistakes: &mut Mistakes) {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        for (place, port) in list(container, "ports").iter().enumerate() {
            let of_host = number(port, "hostPort");
            if of_host == 0 {
                continue;
            }
            let key = format!("{}/{}/{of_host}", protocol(port), text(port, "hostIP"));
            if seen.contains(&key) {
                mistakes.duplicate(&format!("{path}[{index}].ports[{place}].hostPort"), &key);
            } else {
                seen.insert(key);
            }
        }
    }
}

const SOURCES: [&str; 5] = [
    "fieldRef",
    "resourceFieldRef",
    "configMapKeyRef",
    "secretKeyRef",
    "fileKeyRef",
];

fn environment(container: &Value, path: &str, mistakes: &mut Mistakes) {
    for (index, variable) in list(container, "env").iter().enumerate() {
        let path = format!("{path}.env[{index}]");
        match text(variable, "name") {
            "" => mistakes.required(&format!("{path}.name"), ""),
            name => {
                let path = format!("{path}.name");
                mistakes.each_invalid(&path, name, names::environment(name));
            }
        }
        let from = &variable["valueFrom"];
        if from.is_null() {
            continue;
        }
        let path = format!("{path}.valueFrom");
        for field in ["configMapKeyRef", "secretKeyRef"] {
            if has(from, field) {
                key_of(&from[field], &format!("{path}.{field}"), mistakes);
            }
        }
        if has(from, "fieldRef") && text(&from["fieldRef"], "fieldPath").is_empty() {
            mistakes.required(&format!("{path}.fieldRef.fieldPath"), "");
        }
        let sources = SOURCES.iter().filter(|source| has(from, source)).count();
        // The message of the API server does not name `fileKeyRef`, the newest source.
        if sources == 0 {
            let why = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`";
            mistakes.invalid(&path, "", why);
        } else if !text(variable, "value").is_empty() {
            mistakes.invalid(&path, "", "may not be specified when `value` is not empty");
        } else if sources > 1 {
            mistakes.invalid(
                &path,
                "",
                "may not have more than one field specified at a time",
            );
        }
    }
    for (index, all) in list(container, "envFrom").iter().enumerate() {
        let of_all = format!("{path}.envFrom");
        let path = format!("{of_all}[{index}]");
        let prefix = text(all, "prefix");
        if !prefix.is_empty() {
            let path = format!("{path}.prefix");
            mistakes.each_invalid(&path, prefix, names::environment(prefix));
        }
        let kinds = ["configMapRef", "secretRef"];
        let mut given = 0;
        for kind in kinds.iter().filter(|kind| has(all, kind)) {
            given += 1;
            let path = format!("{path}.{kind}.name");
            match text(&all[kind], "name") {
                "" => mistakes.required(&path, ""),
                name => mistakes.each_invalid(&path, name, names::dns_subdomain(name)),
            }
        }
        match given {
            0 => mistakes.invalid(
                &of_all,
                "",
                "must specify one of: `configMapRef` or `secretRef`",
            ),
            1 => {}
            _ => mistakes.invalid(
                &of_all,
                "",
                "may not have more than one field specified at a time",
            ),
        }
    }
}

/// A key of a `ConfigMap` or a `Secret`.
fn key_of(reference: &Value, path: &str, mistakes: &mut Mistakes) {
    let name = text(reference, "name");
    let wrong = names::dns_subdomain(name);
    mistakes.each_invalid(&format!("{path}.name"), name, wrong);
    if text(reference, "key").is_empty() {
        mistakes.required(&format!("{path}.key"), "");
    }
}

fn mounts(mounts: &[Value], pod: &Pod<'_>, path: &str, mistakes: &mut Mistakes) {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for (index, mount) in mounts.iter().enumerate() {
        let at = |field: &str| format!("{path}[{index}].{field}");
        let (name, place) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            mistakes.required(&at("name"), "");
        }
        // A volume with a mistake of its own counts as missing.
        if !pod.volumes.contains(name) {
            mistakes.not_found(&at("name"), name);
        }
        if place.is_empty() {
            mistakes.required(&at("mountPath"), "");
        }
        if seen.contains(place) {
            mistakes.invalid(&at("mountPath"), place, "must be unique");
        }
        seen.insert(place);
    }
}
