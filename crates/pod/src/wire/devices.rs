//! Devices that pods claim: `resource.k8s.io/v1`.

use super::{Metadata, NodeSelector, ResourceClaimState, Taint, Toleration, null_is_default};
use crate::Quantity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A `ResourceSlice`: some devices of one pool.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceSlice {
    /// Its name.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// The published devices.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: SliceSpec,
}

/// `spec` of a slice. Exactly one of the fields about nodes says from where its devices can be used.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SliceSpec {
    /// The driver that publishes it.
    #[serde(deserialize_with = "null_is_default")]
    pub driver: String,
    /// The pool that the devices belong to.
    #[serde(deserialize_with = "null_is_default")]
    pub pool: SlicePool,
    /// Its devices can be used on the node of this name.
    #[serde(deserialize_with = "null_is_default")]
    pub node_name: String,
    /// On the nodes that this selects.
    pub node_selector: Option<NodeSelector>,
    /// On every node.
    #[serde(deserialize_with = "null_is_default")]
    pub all_nodes: bool,
    /// Each device says it itself.
    pub per_device_node_selection: Option<bool>,
    /// The devices.
    #[serde(deserialize_with = "null_is_default")]
    pub devices: Vec<Device>,
    /// The shared counters of partitionable devices.
    #[serde(deserialize_with = "null_is_default")]
    pub shared_counters: Vec<CounterSet>,
}

/// Counters that several devices of a pool draw on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CounterSet {
    /// Its name, unique in the pool.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// The amounts by name.
    #[serde(deserialize_with = "null_is_default")]
    pub counters: BTreeMap<String, Counter>,
}

/// The amount of a counter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Counter {
    /// The amount.
    #[serde(deserialize_with = "null_is_default")]
    pub value: Quantity,
}

/// The amounts that a device consumes of a counter set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CounterConsumption {
    /// The counter set.
    #[serde(deserialize_with = "null_is_default")]
    pub counter_set: String,
    /// The amounts by counter.
    #[serde(deserialize_with = "null_is_default")]
    pub counters: BTreeMap<String, Counter>,
}

/// The pool of a slice.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SlicePool {
    /// Its name, unique for a driver.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// Slices of an older generation count no more.
    #[serde(deserialize_with = "null_is_default")]
    pub generation: i64,
    /// How many slices of this generation there are when all are published.
    #[serde(deserialize_with = "null_is_default")]
    pub resource_slice_count: i64,
}

impl From<DeviceFields> for Device {
    fn from(mut fields: DeviceFields) -> Self {
        let name = std::mem::take(&mut fields.name);
        let fields = fields.basic.take().map_or(fields, |basic| *basic);
        Self {
            name,
            attributes: fields.attributes,
            capacity: fields.capacity,
            taints: fields.taints,
            binding_conditions: fields.binding_conditions,
            binding_failure_conditions: fields.binding_failure_conditions,
            binds_to_node: fields.binds_to_node,
            consumes_counters: fields.consumes_counters,
            allow_multiple_allocations: fields.allow_multiple_allocations,
            node_name: fields.node_name,
            node_selector: fields.node_selector,
            all_nodes: fields.all_nodes,
        }
    }
}

/// One device.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(from = "DeviceFields")]
pub struct Device {
    /// Its name, unique in its pool.
    pub name: String,
    /// Attributes by name, with or without a domain.
    pub attributes: BTreeMap<String, DeviceAttribute>,
    /// Capacities by name.
    pub capacity: BTreeMap<String, DeviceCapacity>,
    /// Claims that do not tolerate these do not get it.
    pub taints: Vec<Taint>,
    /// Conditions that must be true before a pod with the device may be bound.
    pub binding_conditions: Vec<String>,
    /// Conditions that say that it cannot be bound.
    pub binding_failure_conditions: Vec<String>,
    /// Whether it is bound to the node of its pod.
    pub binds_to_node: bool,
    /// The counters of its pool that it consumes.
    pub consumes_counters: Vec<CounterConsumption>,
    /// Whether several claims can each have a share of it.
    pub allow_multiple_allocations: bool,
    /// Its node, if each device of the slice names a node.
    pub node_name: String,
    /// Its nodes, if each device of the slice names nodes.
    pub node_selector: Option<NodeSelector>,
    /// Whether every node can use it, where each device of a slice says so.
    pub all_nodes: bool,
}

/// A device as `v1`, `v1beta2` or `v1beta1` has it. `v1beta1` has all but the name in `basic`.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DeviceFields {
    basic: Option<Box<DeviceFields>>,
    #[serde(deserialize_with = "null_is_default")]
    name: String,
    #[serde(deserialize_with = "null_is_default")]
    attributes: BTreeMap<String, DeviceAttribute>,
    #[serde(deserialize_with = "null_is_default")]
    capacity: BTreeMap<String, DeviceCapacity>,
    #[serde(deserialize_with = "null_is_default")]
    taints: Vec<Taint>,
    #[serde(deserialize_with = "null_is_default")]
    binding_conditions: Vec<String>,
    #[serde(deserialize_with = "null_is_default")]
    binding_failure_conditions: Vec<String>,
    #[serde(deserialize_with = "null_is_default")]
    binds_to_node: bool,
    #[serde(deserialize_with = "null_is_default")]
    consumes_counters: Vec<CounterConsumption>,
    #[serde(deserialize_with = "null_is_default")]
    allow_multiple_allocations: bool,
    #[serde(deserialize_with = "null_is_default")]
    node_name: String,
    node_selector: Option<NodeSelector>,
    #[serde(deserialize_with = "null_is_default")]
    all_nodes: bool,
}

/// The value of an attribute; exactly one field is set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeviceAttribute {
    /// A number.
    pub int: Option<i64>,
    /// Yes or no.
    pub bool: Option<bool>,
    /// A text.
    pub string: Option<String>,
    /// A version by semver.org.
    pub version: Option<String>,
}

/// How much a device has of something.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeviceCapacity {
    /// The amount.
    #[serde(deserialize_with = "null_is_default")]
    pub value: Quantity,
    /// Which shares of it may be requested.
    pub request_policy: Option<Box<CapacityPolicy>>,
}

/// Which shares of a capacity may be requested.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CapacityPolicy {
    /// The share of a request that does not name the capacity.
    pub default: Option<Quantity>,
    /// The only shares.
    #[serde(deserialize_with = "null_is_default")]
    pub valid_values: Vec<Quantity>,
    /// Instead: shares within a range.
    pub valid_range: Option<CapacityRange>,
}

/// A range of shares.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CapacityRange {
    /// The smallest share.
    pub min: Option<Quantity>,
    /// The largest share.
    pub max: Option<Quantity>,
    /// Shares are the smallest one plus a multiple of this.
    pub step: Option<Quantity>,
}

/// A `DeviceTaintRule`: a taint of devices that their drivers have published without it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeviceTaintRule {
    /// Its name.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// The taint and its devices.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: DeviceTaintRuleSpec,
}

/// `spec` of a taint rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeviceTaintRuleSpec {
    /// Its devices; all where absent, as in 1.37.
    pub device_selector: Option<DeviceTaintSelector>,
    /// The taint.
    #[serde(deserialize_with = "null_is_default")]
    pub taint: Taint,
}

/// Selects devices by name; an absent field selects all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct DeviceTaintSelector {
    /// Of this driver.
    pub driver: Option<String>,
    /// In pools of this name, of any driver.
    pub pool: Option<String>,
    /// Of this name, in any pool.
    pub device: Option<String>,
}

/// A `DeviceClass`, to which claims refer by name.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeviceClass {
    /// Its name.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// Which devices these are.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: DeviceClassSpec,
}

/// `spec` of a class.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeviceClassSpec {
    /// All of them must select a device.
    #[serde(deserialize_with = "null_is_default")]
    pub selectors: Vec<DeviceSelector>,
    /// Configurations that go into every allocation of this class.
    #[serde(deserialize_with = "null_is_default")]
    pub config: Vec<serde_json::Map<String, serde_json::Value>>,
    /// The extended resource that devices of the class serve.
    #[serde(deserialize_with = "null_is_default")]
    pub extended_resource_name: String,
}

/// Selects devices.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct DeviceSelector {
    /// By an expression.
    pub cel: Option<CelSelector>,
}

/// An expression in the Common Expression Language, of `device`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CelSelector {
    /// It is true of the devices that are selected.
    #[serde(deserialize_with = "null_is_default")]
    pub expression: String,
}

/// A `ResourceClaim`: devices that a pod needs, or several pods share.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceClaim {
    /// Namespace, name, UID and owner.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// The requests for devices.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: ResourceClaimSpec,
    /// The allocation and its consumers.
    #[serde(deserialize_with = "null_is_default")]
    pub status: ResourceClaimState,
}

/// `spec` of a claim on devices.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceClaimSpec {
    /// The devices.
    #[serde(deserialize_with = "null_is_default")]
    pub devices: DeviceClaim,
}

/// Which devices are claimed.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeviceClaim {
    /// All of these.
    #[serde(deserialize_with = "null_is_default")]
    pub requests: Vec<DeviceRequest>,
    /// Constraints between the devices.
    #[serde(deserialize_with = "null_is_default")]
    pub constraints: Vec<DeviceConstraint>,
    /// Configurations for the driver.
    #[serde(deserialize_with = "null_is_default")]
    pub config: Vec<DeviceConfiguration>,
}

/// One request of a claim.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(from = "VersionedRequest")]
pub struct DeviceRequest {
    /// Its name in the claim.
    pub name: String,
    /// The requested devices.
    pub exactly: Option<RequestedDevices>,
    /// Instead: the first of these that can be had.
    pub first_available: Vec<RequestedDevices>,
}

/// A request as `v1`, `v1beta2` or `v1beta1` has it. `v1beta1` has the fields of `exactly` in the request itself.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct VersionedRequest {
    #[serde(deserialize_with = "null_is_default")]
    name: String,
    exactly: Option<RequestedDevices>,
    #[serde(deserialize_with = "null_is_default")]
    first_available: Vec<RequestedDevices>,
    #[serde(deserialize_with = "null_is_default")]
    device_class_name: String,
    #[serde(deserialize_with = "null_is_default")]
    selectors: Vec<DeviceSelector>,
    #[serde(deserialize_with = "null_is_default")]
    allocation_mode: String,
    count: Option<i64>,
    admin_access: Option<bool>,
    #[serde(deserialize_with = "null_is_default")]
    tolerations: Vec<Toleration>,
    capacity: Option<CapacityRequirements>,
}

impl From<VersionedRequest> for DeviceRequest {
    fn from(request: VersionedRequest) -> Self {
        let is_old = request.exactly.is_none() && !request.device_class_name.is_empty();
        let of_old = RequestedDevices {
            name: String::new(),
            device_class_name: request.device_class_name,
            selectors: request.selectors,
            allocation_mode: request.allocation_mode,
            count: request.count,
            admin_access: request.admin_access,
            tolerations: request.tolerations,
            capacity: request.capacity,
        };
        Self {
            name: request.name,
            exactly: if is_old {
                Some(of_old)
            } else {
                request.exactly
            },
            first_available: request.first_available,
        }
    }
}

/// Devices of one class.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RequestedDevices {
    /// The name of one of several alternatives; empty where there is no choice.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// The class.
    #[serde(deserialize_with = "null_is_default")]
    pub device_class_name: String,
    /// All of them must select a device.
    #[serde(deserialize_with = "null_is_default")]
    pub selectors: Vec<DeviceSelector>,
    /// `ExactCount` (default) or `All`.
    #[serde(deserialize_with = "null_is_default")]
    pub allocation_mode: String,
    /// How many; 1 where absent.
    pub count: Option<i64>,
    /// For monitoring: also devices that others have.
    pub admin_access: Option<bool>,
    /// Taints of devices that are put up with.
    #[serde(deserialize_with = "null_is_default")]
    pub tolerations: Vec<Toleration>,
    /// A share of a device that several claims can have.
    pub capacity: Option<CapacityRequirements>,
}

/// The requested shares of a device's capacities.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CapacityRequirements {
    /// By capacity.
    #[serde(deserialize_with = "null_is_default")]
    pub requests: BTreeMap<String, Quantity>,
}

/// A constraint between the devices of a claim.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeviceConstraint {
    /// Of these requests; of all where empty.
    #[serde(deserialize_with = "null_is_default")]
    pub requests: Vec<String>,
    /// They have this attribute, with the same value.
    pub match_attribute: Option<String>,
    /// They have this attribute, each with another value.
    pub distinct_attribute: Option<String>,
}

/// A configuration for the driver, which is handed on as it is.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeviceConfiguration {
    /// For these requests; for all where empty.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub requests: Vec<String>,
    /// Parameters for the driver.
    #[serde(flatten)]
    pub content: serde_json::Map<String, serde_json::Value>,
}
