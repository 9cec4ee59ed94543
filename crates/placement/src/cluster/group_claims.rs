//! The pod groups with claims on devices that all their pods share (S7-100).

use evictd_pod::wire::{Consumer, GROUPS_API, Metadata, PodGroup, PodResourceClaim};
use std::collections::HashMap;

/// The groups that have claims, by `namespace/name`.
#[derive(Debug, Default)]
pub(crate) struct GroupClaims(HashMap<String, OfGroup>);

/// The claims of one group.
#[derive(Debug)]
pub(crate) struct OfGroup {
    /// The group, as `status.reservedFor` of a claim names it.
    pub(crate) consumer: Consumer,
    pub(crate) entries: Vec<PodResourceClaim>,
}

impl GroupClaims {
    pub(super) fn put(&mut self, group: &PodGroup) {
        let metadata = &group.metadata;
        if group.spec.resource_claims.is_empty() {
            return self.remove(metadata);
        }
        let consumer = Consumer {
            api_group: GROUPS_API.to_owned(),
            resource: "podgroups".to_owned(),
            name: metadata.name.clone(),
            uid: metadata.uid.to_string(),
        };
        let entries = group.spec.resource_claims.clone();
        self.0
            .insert(metadata.full_name(), OfGroup { consumer, entries });
    }

    pub(super) fn remove(&mut self, metadata: &Metadata) {
        self.0.remove(&metadata.full_name());
    }

    /// `None` if the group has no claims.
    pub(crate) fn of(&self, namespace: &str, group: &str) -> Option<&OfGroup> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&format!("{namespace}/{group}"))
    }
}
