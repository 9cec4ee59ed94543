//! The known claims, for the gate of `DynamicResources`. A pod is not tried before its claims exist (`PreEnqueue`).

use crate::change::Delta;
use crate::not_tried::claim_problem;
use evictd_pod::resource_claims::StoredClaim;
use evictd_pod::wire::{Pod, ResourceClaim};
use std::collections::HashMap;

/// The claims by `namespace/name`.
#[derive(Debug, Default)]
pub(super) struct Claims(HashMap<Box<str>, Claim>);

#[derive(Debug)]
struct Claim {
    is_deleted: bool,
    controller: Option<Box<str>>,
    group: Option<Box<str>>,
}

fn key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

impl Claims {
    pub(super) fn apply(&mut self, delta: &Delta<ResourceClaim>) {
        let key = |claim: &ResourceClaim| {
            let metadata = &claim.metadata;
            key(metadata.namespace_or_default(), &metadata.name)
        };
        match (&delta.old, &delta.new) {
            (_, Some(new)) => {
                let stored = StoredClaim::of(&new.metadata);
                let claim = Claim {
                    is_deleted: stored.is_deleted,
                    controller: stored.controller.map(Box::from),
                    group: stored.group.map(Box::from),
                };
                self.0.insert(key(new).into(), claim);
            }
            (Some(old), None) => {
                self.0.remove(&*key(old));
            }
            (None, None) => {}
        }
    }

    /// Why a pod cannot use one of its claims yet.
    pub(super) fn problem(&self, pod: &Pod) -> Option<String> {
        claim_problem(pod, |namespace, name| {
            let known = self.0.get(&*key(namespace, name))?;
            Some(StoredClaim {
                is_deleted: known.is_deleted,
                controller: known.controller.as_deref(),
                group: known.group.as_deref(),
            })
        })
    }
}
