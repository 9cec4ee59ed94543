//! Removes everything that evictd has written on Nodes.

use super::{CONFLICTS, NodeReporter, changed, nodes};
use evictd_cluster_client::{Actions, ApiError, CALL_TIMEOUT, FIELD_MANAGER};
use evictd_signals::NodeCondition;
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
    core::PartialObjectMeta,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The prefix of all of evictd's names.
const PREFIX: &str = "evictd.dev/";
const PAGE: u32 = 200;

#[derive(Deserialize)]
struct List {
    metadata: ListMetadata,
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct ListMetadata {
    #[serde(default, rename = "continue")]
    next: String,
}

#[derive(Deserialize)]
struct Item {
    metadata: ItemMetadata,
}

#[derive(Deserialize)]
struct ItemMetadata {
    name: String,
}

/// The names of all nodes.
pub async fn all_nodes(actions: &Actions) -> Result<Vec<String>, ApiError> {
    let mut names = Vec::new();
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let call = async {
            let request = nodes().list(&page).map_err(kube::Error::BuildRequest)?;
            actions.client().request::<List>(request).await
        };
        let list = actions.call("listing nodes", CALL_TIMEOUT, call).await?;
        names.extend(list.items.into_iter().map(|item| item.metadata.name));
        if list.metadata.next.is_empty() {
            return Ok(names);
        }
        page = page.continue_token(&list.metadata.next);
    }
}

/// Whether this DaemonSet is deleted or being deleted. Any error other than the server's "not found" counts as no.
pub async fn daemon_set_is_deleted(
    actions: &Actions,
    namespace: &str,
    name: &str,
) -> Result<bool, ApiError> {
    let sets: Api<PartialObjectMeta<DaemonSet>> = Api::namespaced(actions.client(), namespace);
    let what = format!("reading DaemonSet {namespace}/{name}");
    match actions.call(&what, CALL_TIMEOUT, sets.get(name)).await {
        Ok(set) => Ok(set.metadata.deletion_timestamp.is_some()),
        Err(error) => match error.status() {
            Some(status) if status.code == 404 && status.reason == "NotFound" => Ok(true),
            _ => Err(error),
        },
    }
}

impl NodeReporter {
    /// Removes evictd's conditions, taints and annotations; returns their names.
    pub async fn clean(&self) -> Result<Vec<String>, ApiError> {
        let mut removed = self.clean_object().await?;
        removed.extend(self.clean_conditions().await?);
        Ok(removed)
    }

    async fn clean_object(&self) -> Result<Vec<String>, ApiError> {
        let mut conflicts = 0;
        loop {
            let node = self.get().await?;
            let before = node.spec.taints.unwrap_or_default();
            let taints = changed(&before, &[]);
            let ours = |key: &&String| key.starts_with(PREFIX);
            let names = node.metadata.annotations.iter().flatten();
            let annotations: Vec<String> =
                names.map(|(key, _)| key).filter(ours).cloned().collect();
            if taints.is_none() && annotations.is_empty() {
                return Ok(Vec::new());
            }
            let nothing: Map<String, Value> = annotations
                .iter()
                .map(|key| (key.clone(), Value::Null))
                .collect();
            let mut patch = json!({
                "metadata": {
                    "resourceVersion": node.metadata.resource_version,
                    "annotations": nothing,
                },
            });
            let gone = taints.iter().flat_map(|left| {
                let gone = before.iter().filter(|taint| !left.contains(taint));
                gone.map(|taint| format!("taint {}", taint["key"].as_str().unwrap_or_default()))
            });
            let annotations = annotations.iter().map(|key| format!("annotation {key}"));
            let removed = gone.chain(annotations).collect();
            if let Some(left) = &taints {
                patch["spec"] = json!({ "taints": left });
            }
            let request = nodes().patch(&self.node, &by(), &Patch::Merge(patch));
            let answer: Result<Value, ApiError> = self.ask("cleaning node", request).await;
            match answer {
                Ok(_) => return Ok(removed),
                Err(error) => {
                    conflicts += 1;
                    let conflict = error.status().is_some_and(|status| status.code == 409);
                    if !conflict || conflicts > CONFLICTS {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Removes the conditions, even if another writer owns them now.
    async fn clean_conditions(&self) -> Result<Vec<String>, ApiError> {
        let node = self.get().await?;
        let has = |kind: &str| {
            let mut conditions = node.status.conditions.iter().flatten();
            conditions.any(|condition| condition["type"] == kind)
        };
        let found: Vec<&str> = NodeCondition::ALL
            .into_iter()
            .map(NodeCondition::own_type)
            .filter(|kind| has(kind))
            .collect();
        if !found.is_empty() {
            let delete = |kind: &&str| json!({ "type": kind, "$patch": "delete" });
            let list: Vec<Value> = found.iter().map(delete).collect();
            let patch = Patch::Strategic(json!({ "status": { "conditions": list } }));
            let request = nodes().patch_subresource("status", &self.node, &by(), &patch);
            let _: Value = self.ask("removing the conditions of node", request).await?;
        }
        Ok(found
            .iter()
            .map(|kind| format!("condition {kind}"))
            .collect())
    }
}

fn by() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}
