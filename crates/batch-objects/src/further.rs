//! Objects of other parts of a cluster that single plugins of a session read.

use evictd_pod::resources;
use evictd_pod::wire::{Metadata, ResourceList, Time, null_is_default};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A v1 `ResourceQuota`: only its status counts.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct ResourceQuota {
    /// Namespace and name.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// The observed state.
    #[serde(deserialize_with = "null_is_default")]
    pub status: ResourceQuotaStatus,
}

/// The observed state of a quota.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct ResourceQuotaStatus {
    /// The enforced limits.
    #[serde(deserialize_with = "null_is_default")]
    pub hard: ResourceList,
    /// The amounts in use.
    #[serde(deserialize_with = "null_is_default")]
    pub used: ResourceList,
}

/// The measured use of a node, in percent of its capacity by period: `{"10m": 55.5}`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct NodeMetrics {
    /// Cpu.
    #[serde(deserialize_with = "null_is_default")]
    pub cpu: BTreeMap<String, f64>,
    /// Memory.
    #[serde(deserialize_with = "null_is_default")]
    pub memory: BTreeMap<String, f64>,
    /// The same as amounts, where the source has no percents.
    #[serde(skip)]
    pub measured: Option<MeasuredAmounts>,
    /// When it was measured.
    pub time: Option<Timestamp>,
}

impl NodeMetrics {
    /// The period of the figures that sessions go by, as Volcano names it.
    pub const PERIOD: &str = "10m";

    /// Amounts that were measured: thousandths of a core, and bytes of memory. `None` if they are unknown.
    pub fn of_amounts(amounts: Option<(i64, i64)>, time: Option<Timestamp>) -> Self {
        Self {
            measured: amounts.map(|(cpu, memory)| MeasuredAmounts { cpu, memory }),
            time,
            ..Self::default()
        }
    }

    /// The figures of an object `NodeMetrics` of metrics.k8s.io, with the name of its node; an amount that is left out stays
    /// unknown.
    ///
    /// # Errors
    /// A field has another type.
    pub fn of_object(object: Value) -> serde_json::Result<(String, Self)> {
        let node: MeasuredNode = serde_json::from_value(object)?;
        let amount = |name: &str| node.usage.get(name);
        let measured = amount(resources::CPU).zip(amount(resources::MEMORY));
        let measured = measured.map(|(cpu, memory)| (cpu.milli_value(), memory.value()));
        let metrics = Self::of_amounts(measured, node.timestamp.map(Time::timestamp));
        Ok((node.metadata.name, metrics))
    }
}

/// A `NodeMetrics` of metrics.k8s.io: the use of a node as `kubectl top nodes` shows it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct MeasuredNode {
    #[serde(deserialize_with = "null_is_default")]
    metadata: Metadata,
    timestamp: Option<Time>,
    #[serde(deserialize_with = "null_is_default")]
    usage: ResourceList,
}

/// Measured amounts of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeasuredAmounts {
    /// Thousandths of a core.
    pub cpu: i64,
    /// Bytes.
    pub memory: i64,
}

/// A `Numatopology` of nodeinfo.volcano.sh: the processors of a node, as its exporter reports them.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Numatopology {
    /// The name is the node's.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// The reported processors.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: NumatopologySpec,
}

/// The processors of a node.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NumatopologySpec {
    /// The policies of the kubelet.
    #[serde(deserialize_with = "null_is_default")]
    pub policies: BTreeMap<String, String>,
    /// The amounts that the kubelet keeps for the system.
    #[serde(deserialize_with = "null_is_default")]
    pub res_reserved: ResourceList,
    /// By resource.
    #[serde(deserialize_with = "null_is_default")]
    pub numares: BTreeMap<String, NumaResource>,
    /// By the number of the processor.
    #[serde(deserialize_with = "null_is_default")]
    pub cpu_detail: BTreeMap<String, CpuPlace>,
    /// The pods whose processors are reported.
    #[serde(deserialize_with = "null_is_default")]
    pub pod_allocations: Vec<PodAllocation>,
}

/// A resource that belongs to NUMA nodes.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct NumaResource {
    /// Of cpu: the numbers of processors that no pod has, like `0,2-4`.
    #[serde(deserialize_with = "null_is_default")]
    pub allocatable: String,
}

/// Where a processor is.
#[derive(Debug, Clone, Copy, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct CpuPlace {
    /// Its NUMA node.
    pub numa: u32,
    /// Its socket.
    pub socket: u32,
    /// Its core within the socket.
    pub core: u32,
}

/// A pod with processors of its own.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct PodAllocation {
    /// Its uid.
    #[serde(deserialize_with = "null_is_default")]
    pub uid: String,
    /// Its namespace.
    #[serde(deserialize_with = "null_is_default")]
    pub namespace: String,
    /// Its name.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
}
