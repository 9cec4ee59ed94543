//! Creates Commands, the objects that ask the controllers to act on a job or a queue. The controllers delete a Command before
//! they act, so that they act at most once (S6-012).

use super::cluster::Cluster;
use super::kind::{COMMANDS, Kind};
use evictd_command::Failure;
use serde_json::json;

/// Creates a Command for an object, and returns a sentence for people. The object is target and owner of the Command. A Command
/// to an object without a namespace is created in `default` (S6-147, S6-148).
pub(super) fn create_command(
    cluster: &Cluster,
    kind: &Kind,
    namespace: &str,
    name: &str,
    action: &str,
) -> Result<String, Failure> {
    let target = cluster.get(kind, namespace, name)?;
    let reference = json!({
        "apiVersion": kind.api_version(), "kind": kind.name, "name": name, "uid": target["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true,
    });
    let command_namespace = match namespace {
        "" => "default",
        namespace => namespace,
    };
    let command = json!({
        "apiVersion": COMMANDS.api_version(), "kind": COMMANDS.name,
        "metadata": {
            "generateName": format!("{name}-{}-", action.to_lowercase()), "namespace": command_namespace,
            // Kubernetes deletes the Command with its owner.
            "ownerReferences": [&reference],
        },
        "action": action, "target": &reference,
    });
    let created = cluster.create(&COMMANDS, command_namespace, &command)?;
    let command = created["metadata"]["name"].as_str().unwrap_or_default();
    Ok(format!(
        "{} {name}: created command {command} ({action})",
        kind.word
    ))
}
