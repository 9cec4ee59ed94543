//! One pod of a ranking, as records and API answers contain it.

use super::known;
use crate::{Preference, RankedPod, RequestNote, Spared, Unreachable};
use evictd_pod::{QosClass, Quantity};
use serde::{Deserialize, Serialize};

/// A pod in a ranking with the keys that decided its place; its rank is its position in the list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a key of its own in the JSON"
)]
pub struct RankingRow {
    /// `namespace/name`.
    pub pod: String,
    /// Whether its usage is above its request; `None` if its usage is not known.
    pub exceeds_request: Option<bool>,
    /// Its priority; lower is evicted first.
    pub priority: i32,
    /// Usage of the starved resource.
    pub usage: Option<Quantity>,
    /// Whether its usage was larger than that, because counting was cut short.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    /// The amount of the signal that its end would free; absent where unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gain: Option<Quantity>,
    /// Whether a part of it was not known yet.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub partly_unknown: bool,
    /// The part of `usage` that is in swap.
    #[serde(skip_serializing_if = "Quantity::is_zero")]
    pub swap: Quantity,
    /// Its request; `None` only in records of another version.
    pub request: Option<Quantity>,
    /// Why that was not the request in its spec, if it was not.
    #[serde(deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    pub request_note: Option<Box<RequestNote>>,
    /// Usage above the request.
    pub overage: Option<Quantity>,
    /// How fast it filled disks, in bytes per second, where the ranking uses that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub growth: Option<i64>,
    /// Whether it is never evicted because it is critical.
    pub critical: bool,
    /// Whether it is never evicted because it is protected or annotated with `never`.
    pub protected: bool,
    /// Why it could not be terminated at that time.
    #[serde(deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    pub unreachable: Option<Unreachable>,
    /// QoS class; it is shown only, the ranking does not use it.
    #[serde(deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    pub qos: Option<QosClass>,
    /// The preference in its annotation.
    #[serde(deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    pub preference: Option<Preference>,
    /// Whether its controller would start it on this node again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub returns_to_this_node: bool,
    /// Whether it was deleted and its grace period is over.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub overdue: bool,
    /// Whether it was terminating already.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub terminating: bool,
}

impl RankingRow {
    /// The row of this pod.
    pub fn of(ranked: &RankedPod) -> Self {
        Self {
            pod: ranked.pod.to_string(),
            exceeds_request: ranked.excess.as_option(),
            priority: ranked.priority,
            usage: ranked.usage,
            at_least: ranked.at_least,
            gain: ranked.gain,
            partly_unknown: ranked.partly_unknown,
            swap: ranked.swap,
            request: Some(ranked.request),
            request_note: ranked.request_note.clone(),
            overage: ranked.overage,
            growth: ranked.growth,
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
