//! The YAML text of manifests.

use serde_json::Value;

/// Writes objects as one YAML text, with a document for each. `command` is the subcommand that prints the text.
pub fn yaml(objects: &[Value], command: &str) -> Result<String, serde_saphyr::ser::Error> {
    let mut text = format!("# Generated: evictd-batch {command}\n");
    for object in objects {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(object)?);
    }
    Ok(text)
}
