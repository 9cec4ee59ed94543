//! One pod of a ranking as a record keeps it and as an answer tells it.

use super::known;
use crate::{
    RankedPod,
    decision::{Preference, Spared, Unreachable},
};
use evictd_pod::{QosClass, Quantity};
use serde::{Deserialize, Serialize};

/// A pod's place with the keys that put it there; its rank is where it stands in the list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a key of its own in the JSON"
)]
pub struct RankingRow {
    /// `namespace/name`.
    pub pod: String,
    /// Whether it uses more than it asked for; `None` where nothing is known.
    pub exceeds_request: Option<bool>,
    /// Lower goes first.
    pub priority: i32,
    /// What it uses of the starved resource.
    pub usage: Option<Quantity>,
    /// What of that is in swap.
    #[serde(skip_serializing_if = "Quantity::is_zero")]
    pub swap: Quantity,
    /// What it asked for; `None` only in words of another version.
    pub request: Option<Quantity>,
    /// What it uses above that.
    pub overage: Option<Quantity>,
    /// Whether it is spared because it is critical.
    pub critical: bool,
    /// Whether it is spared because it is protected, or never to be evicted.
    pub protected: bool,
    /// Why it could not be ended then.
    #[serde(deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    pub unreachable: Option<Unreachable>,
    /// Its QoS class.
    #[serde(deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    pub qos: Option<QosClass>,
    /// What it asked of us by annotation.
    #[serde(deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    pub preference: Option<Preference>,
    /// Whether a controller would start it right here again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub returns_to_this_node: bool,
    /// Whether it was deleted and should have been gone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub overdue: bool,
    /// Whether it was ending anyway.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub terminating: bool,
}

impl RankingRow {
    /// The view of this pod.
    pub fn of(ranked: &RankedPod) -> Self {
        Self {
            pod: ranked.pod.to_string(),
            exceeds_request: ranked.excess.as_option(),
            priority: ranked.priority,
            usage: ranked.usage,
            swap: ranked.swap,
            request: Some(ranked.request),
            overage: ranked.overage,
            critical: matches!(ranked.spared, Some(Spared::Critical(_))),
            protected: matches!(ranked.spared, Some(Spared::Protected | Spared::Never)),
            unreachable: match ranked.spared {
                Some(Spared::Unreachable(why)) => Some(why),
                _ => None,
            },
            qos: Some(ranked.qos),
            preference: Some(ranked.preference).filter(|asked| *asked != Preference::None),
            returns_to_this_node: ranked.returns,
            overdue: ranked.overdue,
            terminating: ranked.terminating,
        }
    }
}

impl Serialize for RankedPod {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RankingRow::of(self).serialize(serializer)
    }
}
