//! The queues that are printed.

use super::amounts::Amounts;
use serde::Serialize;

/// A `Queue` to apply.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Queue {
    api_version: &'static str,
    kind: &'static str,
    pub(super) metadata: Named,
    pub(super) spec: Spec,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct Named {
    pub(super) name: String,
}

#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spec {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) parent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) weight: Option<i32>,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    pub(super) deserved: Amounts,
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    pub(super) capability: Amounts,
    #[serde(skip_serializing_if = "Guarantee::is_empty")]
    pub(super) guarantee: Guarantee,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) dequeue_strategy: &'static str,
}

#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Guarantee {
    pub(super) resource: Amounts,
}

impl Guarantee {
    fn is_empty(&self) -> bool {
        self.resource.is_empty()
    }
}

impl Queue {
    pub(super) const fn new(name: String, spec: Spec) -> Self {
        Self {
            api_version: "scheduling.volcano.sh/v1beta1",
            kind: "Queue",
            metadata: Named { name },
            spec,
        }
    }
}
