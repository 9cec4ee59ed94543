//! Writes the certificate authorities into `caBundle` of the webhook configurations, so that the API server trusts the webhook.

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

/// The webhook configurations of both kinds with one name.
pub(super) struct CaBundles {
    objects: Objects,
    name: String,
    /// Kinds without such a configuration. Each is logged once.
    missing: BTreeSet<&'static str>,
}

impl CaBundles {
    pub(super) fn new(objects: Objects, name: &str) -> Self {
        Self {
            objects,
            name: name.to_owned(),
            missing: BTreeSet::new(),
        }
    }

    /// Writes these authorities to each configuration that has others. Returns false if a configuration has changed meanwhile.
    pub(super) async fn write(&mut self, authorities: &str) -> Result<bool, ApiError> {
        let bundle = BASE64_STANDARD.encode(authorities);
        let mut all_written = true;
        for kind in KINDS {
            let name = &self.name;
            let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}/{name}");
            let Some(configuration) = self.objects.get(&path).await? else {
                if self.missing.insert(kind) {
                    warn!("there is no {kind} {name}: the API server does not call this webhook");
                }
                continue;
            };
            self.missing.remove(kind);
            let Some(operations) = patch(&configuration, &bundle) else {
                continue;
            };
            let written = self.objects.patch(&path, &operations).await?;
            if written {
                info!("updated caBundle of {kind} {name}");
            }
            all_written &= written;
        }
        Ok(all_written)
    }
}

/// The JSON patch of a configuration; `None` if its bundles are up to date.
fn patch(configuration: &Value, bundle: &str) -> Option<Value> {
    let webhooks = configuration["webhooks"].as_array()?;
    let mut operations: Vec<Value> = webhooks
        .iter()
        .enumerate()
        .filter(|(_, webhook)| webhook["clientConfig"]["caBundle"] != bundle)
        .map(|(index, _)| {
            let path = format!("/webhooks/{index}/clientConfig/caBundle");
            json!({"op": "add", "path": path, "value": bundle})
        })
        .collect();
    if operations.is_empty() {
        return None;
    }
    // The indexes hold for this version only.
    let version = &configuration["metadata"]["resourceVersion"];
    let test = json!({"op": "test", "path": "/metadata/resourceVersion", "value": version});
    operations.insert(0, test);
    Some(operations.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_outdated_bundles_are_written() {
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
