//! `status` of a `ResourceClaim`: its allocated devices and its consumers.

use super::{DeviceConfiguration, GROUPS_API, NodeSelector, Toleration, null_is_default};
use crate::Quantity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `status` of a claim on devices.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceClaimState {
    /// The devices that it has; absent while it has none.
    pub allocation: Option<Allocation>,
    /// The pods and groups that may use them.
    #[serde(deserialize_with = "null_is_default")]
    pub reserved_for: Vec<Consumer>,
    /// The status of the devices, written by drivers.
    #[serde(deserialize_with = "null_is_default")]
    pub devices: Vec<AllocatedDeviceStatus>,
}

/// The status of an allocated device, written by its driver.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AllocatedDeviceStatus {
    /// The driver.
    #[serde(deserialize_with = "null_is_default")]
    pub driver: String,
    /// The pool.
    #[serde(deserialize_with = "null_is_default")]
    pub pool: String,
    /// The device.
    #[serde(deserialize_with = "null_is_default")]
    pub device: String,
    /// Its conditions.
    #[serde(deserialize_with = "null_is_default")]
    pub conditions: Vec<DeviceCondition>,
}

/// A condition of an allocated device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeviceCondition {
    /// Its name.
    #[serde(rename = "type", deserialize_with = "null_is_default")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    #[serde(deserialize_with = "null_is_default")]
    pub status: String,
    /// A word for the cause.
    #[serde(deserialize_with = "null_is_default")]
    pub reason: String,
    /// A sentence.
    #[serde(deserialize_with = "null_is_default")]
    pub message: String,
}

/// Who may use the devices of a claim.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Consumer {
    /// Empty for pods.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub api_group: String,
    /// `pods` or `podgroups`.
    #[serde(deserialize_with = "null_is_default")]
    pub resource: String,
    /// Its name.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// Its UID.
    #[serde(deserialize_with = "null_is_default")]
    pub uid: String,
}

impl Consumer {
    /// Whether it is this pod. Pods of manifests have no UID, so that their names decide.
    pub fn is_pod(&self, name: &str, uid: &str) -> bool {
        self.uid == uid && (!uid.is_empty() || self.name == name)
    }

    /// Whether it is the `PodGroup` of this name. Its pods do not know its UID (S7-101).
    pub fn is_group(&self, name: &str) -> bool {
        self.api_group == GROUPS_API && self.resource == "podgroups" && self.name == name
    }
}

/// The devices of a claim.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Allocation {
    /// Which they are.
    #[serde(deserialize_with = "null_is_default")]
    pub devices: AllocatedDevices,
    /// Where they can be used; everywhere where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<NodeSelector>,
    /// When it was written; the wait for binding conditions begins then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation_timestamp: Option<String>,
}

impl Allocation {
    /// Whether it gives the same devices for the same requests.
    pub fn has_devices_of(&self, other: &Self) -> bool {
        self.devices.results == other.devices.results
    }
}

/// Allocated devices and their configurations.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AllocatedDevices {
    /// In the order of the requests.
    #[serde(deserialize_with = "null_is_default")]
    pub results: Vec<AllocatedDevice>,
    /// First those of classes, then those of the claim.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub config: Vec<AllocatedConfiguration>,
}

/// One allocated device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AllocatedDevice {
    /// For which request: its name, and that of the alternative after a slash.
    #[serde(deserialize_with = "null_is_default")]
    pub request: String,
    /// Its driver.
    #[serde(deserialize_with = "null_is_default")]
    pub driver: String,
    /// Its pool.
    #[serde(deserialize_with = "null_is_default")]
    pub pool: String,
    /// Its name.
    #[serde(deserialize_with = "null_is_default")]
    pub device: String,
    /// It is not taken from others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_access: Option<bool>,
    /// Those of the request.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub tolerations: Vec<Toleration>,
    /// The identity of a share of the device; absent if the claim has the device alone.
    #[serde(rename = "shareID", skip_serializing_if = "Option::is_none")]
    pub share_id: Option<String>,
    /// The capacities of the share.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub consumed_capacity: BTreeMap<String, Quantity>,
    /// Conditions that must be true before the pod is bound.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub binding_conditions: Vec<String>,
    /// Conditions that are true if the device cannot be bound.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub binding_failure_conditions: Vec<String>,
}

/// A configuration of allocated devices.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AllocatedConfiguration {
    /// `FromClass` or `FromClaim`.
    #[serde(deserialize_with = "null_is_default")]
    pub source: String,
    /// The configuration.
    #[serde(flatten)]
    pub configuration: DeviceConfiguration,
}
