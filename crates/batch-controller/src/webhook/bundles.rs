//! Whose certificate the API server takes for ours: `caBundle` of the webhook configurations.

use super::objects::Objects;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use evictd_cluster_client::ApiError;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tracing::{info, warn};

const KINDS: [&str; 2] = [
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
];

/// Keeps `caBundle` right in the configurations of this name.
pub(super) struct Bundles {
    objects: Objects,
    name: String,
    /// Kinds of which it was said that there is none.
    missing: BTreeSet<&'static str>,
}

impl Bundles {
    pub(super) fn new(objects: Objects, name: &str) -> Self {
        Self {
            objects,
            name: name.to_owned(),
            missing: BTreeSet::new(),
        }
    }

    /// Writes these authorities where others are; returns whether they are everywhere now.
    pub(super) async fn keep(&mut self, authorities: &str) -> Result<bool, ApiError> {
        let bundle = BASE64_STANDARD.encode(authorities);
        let mut right = true;
        for kind in KINDS {
            let name = &self.name;
            let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}/{name}");
            let Some(found) = self.objects.get(&path).await? else {
                if self.missing.insert(kind) {
                    warn!("there is no {kind} {name}: the API server does not ask this webhook");
                }
                continue;
            };
            self.missing.remove(kind);
            let Some(operations) = patch(&found, &bundle) else {
                continue;
            };
            let written = self.objects.patch(&path, &operations).await?;
            if written {
                info!("{kind} {name}: caBundle is written");
            }
            right &= written;
        }
        Ok(right)
    }
}

/// What has to be changed, if anything has.
fn patch(configuration: &Value, bundle: &str) -> Option<Value> {
    let webhooks = configuration["webhooks"].as_array()?;
    let wrong = webhooks.iter().enumerate();
    let wrong = wrong.filter(|(_, webhook)| webhook["clientConfig"]["caBundle"] != bundle);
    let mut operations: Vec<Value> = wrong
        .map(|(index, _)| {
            let path = format!("/webhooks/{index}/clientConfig/caBundle");
            json!({"op": "add", "path": path, "value": bundle})
        })
        .collect();
    if operations.is_empty() {
        return None;
    }
    // The places are those of this version.
    let version = &configuration["metadata"]["resourceVersion"];
    let test = json!({"op": "test", "path": "/metadata/resourceVersion", "value": version});
    operations.insert(0, test);
    Some(operations.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_wrong_is_written() {
        let configuration = |bundles: [Value; 2]| {
            let webhooks = bundles.map(|bundle| json!({"clientConfig": {"caBundle": bundle}}));
            json!({"metadata": {"resourceVersion": "7"}, "webhooks": webhooks})
        };
        assert_eq!(patch(&configuration([json!("x"), json!("x")]), "x"), None);
        assert_eq!(patch(&json!({}), "x"), None);
        let expected = json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
            {"op": "add", "path": "/webhooks/1/clientConfig/caBundle", "value": "x"},
        ]);
        assert_eq!(
            patch(&configuration([json!("x"), json!(null)]), "x"),
            Some(expected)
        );
    }
}
