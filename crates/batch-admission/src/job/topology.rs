//! Partitions of a task, and how near its pods have to be to each other (S6-082).

use crate::read::{amounts, list};
use evictd_batch_objects::{NetworkTopology, TaskSpec};
use serde_json::Value;

pub(crate) const BOTH_TIERS: &str =
    "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously";

/// The highest tier is named or numbered, not both.
pub(super) fn network(topology: Option<&NetworkTopology>) -> &'static str {
    match topology {
        Some(topology) if has_both_tiers(topology) => BOTH_TIERS,
        _ => "",
    }
}

pub(crate) fn has_both_tiers(topology: &NetworkTopology) -> bool {
    topology.highest_tier_allowed.is_some() && !topology.highest_tier_name.is_empty()
}

/// The partitions make up the task; nothing if there are none or they are right.
pub(super) fn partitions(task: &TaskSpec, job: &str) -> String {
    let Some(partitions) = &task.partition_policy else {
        return String::new();
    };
    let (total, size) = (partitions.total_partitions, partitions.partition_size);
    let (needed, least) = (task.min_available, partitions.min_partitions);
    // Volcano multiplies numbers of 32 bits, which wrap.
    let wrong = if total <= 0 {
        "'TotalPartitions' must be greater than 0"
    } else if size <= 0 {
        "'PartitionSize' must be greater than 0"
    } else if task.replicas != total.wrapping_mul(size) {
        "'Replicas' are not equal to TotalPartitions*PartitionSize"
    } else if least > 0 && needed.is_some_and(|needed| needed != least.wrapping_mul(size)) {
        "'MinAvailable' is not equal to MinPartitions*PartitionSize"
    } else {
        ""
    };
    let wrong = match wrong {
        "" => String::new(),
        wrong => format!("{wrong} in task: {}, job: {job}", task.name),
    };
    wrong + network(partitions.network_topology.as_ref())
}

/// With a policy on NUMA nodes every container asks for whole CPUs.
pub(super) fn numa(task: &TaskSpec, index: usize) -> String {
    if matches!(task.topology_policy.as_str(), "" | "none") {
        return String::new();
    }
    let spec = &task.template["spec"];
    let containers = list(spec, "containers").iter();
    let containers = containers.chain(list(spec, "initContainers"));
    let place = containers.map(whole_cpus).position(|whole| !whole);
    place.map_or_else(String::new, |place| {
        format!("the cpu request isn't an integer in spec.task[{index}] container[{place}].")
    })
}

/// Limits stand in where nothing at all is requested.
fn whole_cpus(container: &Value) -> bool {
    let resources = &container["resources"];
    let mut requests = amounts(resources, "requests");
    if requests.is_empty() {
        requests = amounts(resources, "limits");
    }
    let cpu = requests.get("cpu");
    cpu.is_some_and(|cpu| !cpu.is_zero() && cpu.milli_value() % 1000 == 0)
}
