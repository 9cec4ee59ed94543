//! The NUMA nodes of machines, and the processors that pods were given there.

use super::Snapshot;
use crate::session::pod_id::PodId;
use evictd_batch_objects::Numatopology;
use evictd_placement::NodeId;
use evictd_pod::wire::Metadata;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

/// Numbers of processors.
pub(crate) type CpuSet = BTreeSet<u32>;

/// Numbers of processors beyond this are left out, so that a wrong object takes no memory.
const MOST_CPUS: u32 = 8192;

/// The kubelet supports no more NUMA nodes. Each set of them is tried.
const MOST_NUMA_NODES: usize = 8;

/// Where a processor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) numa: u32,
    pub(crate) socket: u32,
    pub(crate) core: u32,
}

/// The processors of a node.
#[derive(Debug, Default)]
pub(crate) struct NumaTopology {
    pub(crate) cpu_policy: Box<str>,
    pub(crate) topology_policy: Box<str>,
    /// Those that no pod has; `None` if the node does not report them.
    pub(crate) cpus: Option<CpuSet>,
    pub(crate) places: BTreeMap<u32, Place>,
    /// In order.
    pub(crate) numa_nodes: Vec<u32>,
    /// Thousandths of a core that the kubelet keeps for the system.
    pub(crate) reserved_milli: Option<i64>,
    /// The pods, by uid and by `namespace/name`, whose processors it reports.
    reported: BTreeSet<Box<str>>,
}

/// Topologies by node, and processors of pods that their nodes do not report yet.
#[derive(Debug, Default)]
pub(crate) struct Numa {
    pub(crate) topologies: BTreeMap<Box<str>, Arc<NumaTopology>>,
    /// By node and pod: `namespace/name` and processors.
    unreported: BTreeMap<NodeId, BTreeMap<PodId, (Arc<str>, CpuSet)>>,
}

/// The numbers of a text like `0,2-4`, in which each range comes after the previous one. `None` if it is another text.
fn parse(text: &str) -> Option<CpuSet> {
    let mut cpus = CpuSet::new();
    let mut previous = None;
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        // Without this order a short text could name the same processors many times.
        if last < first || previous.is_some_and(|previous| first <= previous) {
            return None;
        }
        cpus.extend(first..=last.min(MOST_CPUS));
        previous = Some(last);
    }
    Some(cpus)
}

/// The text of numbers: `0,2-4`.
pub(crate) fn text_of(cpus: &CpuSet) -> String {
    let mut text = String::new();
    let mut left = cpus.iter().copied().peekable();
    while let Some(first) = left.next() {
        let mut last = first;
        while let Some(next) = left.next_if_eq(&(last + 1)) {
            last = next;
        }
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a text cannot fail.
        let _ = match last {
            last if last == first => write!(text, "{comma}{first}"),
            last => write!(text, "{comma}{first}-{last}"),
        };
    }
    text
}

impl NumaTopology {
    pub(crate) fn of(wire: &Numatopology) -> Self {
        let spec = &wire.spec;
        let policy = |key: &str| spec.policies.get(key).map_or("", |text| text).into();
        let places = spec.cpu_detail.iter().filter_map(|(cpu, info)| {
            let place = Place {
                numa: info.numa,
                socket: info.socket,
                core: info.core,
            };
            let cpu: u32 = cpu.parse().ok()?;
            (cpu < MOST_CPUS).then_some((cpu, place))
        });
        let places: BTreeMap<u32, Place> = places.collect();
        let numa_nodes: BTreeSet<u32> = places.values().map(|place| place.numa).collect();
        let cpus = spec.numares.get("cpu");
        let cpus = cpus.map(|info| parse(&info.allocatable).unwrap_or_default());
        let reserved = spec.res_reserved.get("cpu");
        let allocations = spec.pod_allocations.iter();
        Self {
            cpu_policy: policy("CPUManagerPolicy"),
            topology_policy: policy("TopologyManagerPolicy"),
            // With more NUMA nodes the kubelet assigns nothing.
            cpus: cpus.filter(|_| numa_nodes.len() <= MOST_NUMA_NODES),
            places,
            numa_nodes: numa_nodes.into_iter().take(MOST_NUMA_NODES).collect(),
            reserved_milli: reserved.map(evictd_pod::Quantity::milli_value),
            reported: allocations
                .flat_map(|pod| {
                    let name = format!("{}/{}", pod.namespace, pod.name);
                    [pod.uid.as_str().into(), name.into()]
                })
                .collect(),
        }
    }

    pub(crate) fn sockets(&self) -> usize {
        let sockets: BTreeSet<u32> = self.places.values().map(|place| place.socket).collect();
        sockets.len()
    }

    /// The number of cores, each counted once in its socket.
    pub(crate) fn cores(&self) -> usize {
        let places = self.places.values();
        let cores: BTreeSet<(u32, u32)> = places.map(|place| (place.socket, place.core)).collect();
        cores.len()
    }

    fn reports(&self, id: &PodId, name: &str) -> bool {
        self.reported.contains::<str>(id) || self.reported.contains(name)
    }
}

impl Numa {
    pub(crate) fn put(&mut self, wire: &Numatopology) {
        let name = wire.metadata.name.as_str().into();
        self.topologies
            .insert(name, Arc::new(NumaTopology::of(wire)));
    }

    pub(crate) fn remove(&mut self, metadata: &Metadata) {
        self.topologies.remove(&*metadata.name);
    }

    /// A pod that is bound has these processors until its node reports them.
    pub(crate) fn assume(&mut self, node: NodeId, pod: PodId, name: Arc<str>, text: &str) {
        let cpus = parse(text).unwrap_or_default();
        let on_node = self.unreported.entry(node).or_default();
        on_node.insert(pod, (name, cpus));
    }

    /// Drops assumptions that no longer hold.
    pub(crate) fn keep(&mut self, holds: impl Fn(NodeId, &PodId) -> bool) {
        self.unreported.retain(|node, pods| {
            pods.retain(|pod, _| holds(*node, pod));
            !pods.is_empty()
        });
    }
}

impl Snapshot {
    /// The processors of a node that no pod has. Until a node reports all pods that were bound there, the processors that
    /// sessions chose for them count, because the kubelet may choose others.
    pub(crate) fn free_cpus(&self, node: NodeId, topology: &NumaTopology) -> CpuSet {
        let mut free = topology.cpus.clone().unwrap_or_default();
        let on_node = self.facts.numa.unreported.get(&node);
        let pods = || on_node.into_iter().flatten();
        if pods().any(|(id, (name, _))| !topology.reports(id, name)) {
            for (_, (_, cpus)) in pods() {
                free = &free - cpus;
            }
        }
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_overlap_are_no_set_of_processors() {
        let all = |cpus: &[u32]| Some(cpus.iter().copied().collect::<CpuSet>());
        assert_eq!(parse(""), all(&[]));
        assert_eq!(parse("0,2-4"), all(&[0, 2, 3, 4]));
        for wrong in ["0-8192,0-8192", "3,1", "1,1", "4-2", "1,", "-1"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        // Numbers beyond the bound are left out.
        assert_eq!(parse("8191-4294967295"), all(&[8191, 8192]));
        assert_eq!(parse("8193,9000-9001"), all(&[]));
    }
}
