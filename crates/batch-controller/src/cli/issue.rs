//! Commands: objects by which a user asks the controllers for something. A controller deletes one before it acts, so that
//! it acts at most once (S6-012).

use super::cluster::Cluster;
use super::kind::{COMMANDS, Kind};
use evictd_command::Failure;
use serde_json::json;

/// Makes a Command for an object, which becomes its owner and its target, and says so in a sentence. `namespace` is the
/// object's, or empty; Commands for objects of no namespace lie in `default` (S6-147, S6-148).
pub(super) fn issue(
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
    let place = match namespace {
        "" => "default",
        namespace => namespace,
    };
    let command = json!({
        "apiVersion": COMMANDS.api_version(), "kind": COMMANDS.name,
        "metadata": {
            "generateName": format!("{name}-{}-", action.to_lowercase()), "namespace": place,
            "ownerReferences": [&reference],
        },
        "action": action, "target": &reference,
    });
    let made = cluster.create(&COMMANDS, place, &command)?;
    let made = made["metadata"]["name"].as_str().unwrap_or_default();
    Ok(format!(
        "{} {name}: {action} is asked for by command {made}",
        kind.word
    ))
}
