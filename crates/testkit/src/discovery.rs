//! Discovery: the versions, groups and kinds that clients such as kubectl request first.

use crate::cluster::Settings;
use crate::resource::{RESOURCES, Resource};
use serde_json::{Value, json};

/// `None` for an unknown path. The unknown kinds of the settings are left out.
pub(crate) fn answer(path: &str, settings: &Settings) -> Option<Value> {
    let unknown_kinds = settings.unknown_kinds.as_slice();
    match path
        .trim_matches('/')
        .split('/')
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["version"] => Some(version(settings.minor_version)),
        ["healthz" | "livez" | "readyz"] => Some("ok".into()),
        ["api"] => Some(json!({
            "kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [],
        })),
        ["apis"] => {
            let groups: Vec<Value> = groups().into_iter().map(group).collect();
            Some(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        }
        ["apis", name] => groups().into_iter().find(|known| known == name).map(group),
        ["api", "v1"] => resources("", "v1", unknown_kinds),
        ["apis", name, version] => resources(name, version, unknown_kinds),
        _ => None,
    }
}

fn version(minor: u32) -> Value {
    json!({
        "major": "1", "minor": minor.to_string(), "gitVersion": format!("v1.{minor}.0-evictd-testkit"),
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none",
        "compiler": "rustc", "platform": "linux/amd64",
    })
}

fn groups() -> Vec<&'static str> {
    let mut groups: Vec<_> = RESOURCES.iter().map(|resource| resource.group).collect();
    groups.sort_unstable();
    groups.dedup();
    groups.retain(|group| !group.is_empty());
    groups
}

fn group(name: &str) -> Value {
    let resources = RESOURCES.iter().filter(|resource| resource.group == name);
    let mut versions: Vec<_> = resources.map(|resource| resource.version).collect();
    // `v1` is before its betas.
    versions.sort_unstable();
    versions.dedup();
    let versions = versions.into_iter();
    let versions = versions
        .map(|version| json!({"groupVersion": format!("{name}/{version}"), "version": version}));
    let versions: Vec<Value> = versions.collect();
    json!({
        "kind": "APIGroup", "apiVersion": "v1", "name": name, "versions": versions, "preferredVersion": versions.first(),
    })
}

fn resources(group: &str, version: &str, unknown_kinds: &[&str]) -> Option<Value> {
    let of_group = |resource: &&Resource| {
        resource.group == group
            && resource.version == version
            && !unknown_kinds.contains(&resource.stored)
    };
    let all: Vec<Value> = RESOURCES.iter().filter(of_group).flat_map(rows).collect();
    let first = RESOURCES.iter().find(of_group)?;
    Some(json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": first.api_version(), "resources": all,
    }))
}

fn rows(resource: &'static Resource) -> impl Iterator<Item = Value> {
    let all: &[&str] = &[
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    ];
    let verbs = if resource.is_only_asked() {
        &all[..1]
    } else {
        all
    };
    let itself = json!({
        "name": resource.plural, "singularName": resource.kind.to_lowercase(), "namespaced": resource.namespaced,
        "kind": resource.kind, "shortNames": resource.short,
        "verbs": verbs,
    });
    let below = resource.subresources.iter().map(|subresource| {
        let name = format!("{}/{subresource}", resource.plural);
        if *subresource == "eviction" {
            return json!({
                "name": name, "singularName": "", "namespaced": true, "group": "policy", "version": "v1",
                "kind": "Eviction", "verbs": ["create"],
            });
        }
        if *subresource == "binding" {
            return json!({
                "name": name, "singularName": "", "namespaced": true, "kind": "Binding", "verbs": ["create"],
            });
        }
        json!({
            "name": name, "singularName": "", "namespaced": resource.namespaced, "kind": resource.kind,
            "verbs": ["get", "patch", "update"],
        })
    });
    std::iter::once(itself).chain(below)
}
