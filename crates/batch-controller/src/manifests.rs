//! Manifests as text.

use serde_json::Value;

/// These objects as one YAML text, a document each; `command` is the one that prints it.
pub fn yaml(objects: &[Value], command: &str) -> Result<String, serde_saphyr::ser::Error> {
    let mut text = format!("# Generated: evictd-batch {command}\n");
    for object in objects {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(object)?);
    }
    Ok(text)
}
