//! The node's memory: that of the machine, or that of the cgroup which limits the node.

use super::cgroup_memory::CgroupMemory;
use super::health::Outcome;
use super::machine_memory::{Meminfo, RootWorkingSet, huge_pages};
use super::pods_group::PodsGroup;
use super::reading::Reading;
use super::swap::Swap;
use super::{Renewal, SignalSources, SourceError};
use crate::kernel_file::{Buffer, KernelFile, ReadError};
use evictd_signals::Observation;
use jiff::Timestamp;
use std::path::PathBuf;

/// Which of two figures `memory.available` is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MemoryAvailable {
    /// Memory that could be taken without swapping: page cache in active use counts as free.
    #[default]
    MemAvailable,
    /// The kubelet's figure (S1-018): page cache in active use counts as used.
    WorkingSet,
}

/// Both figures of the node's memory in bytes, whichever of them is the signal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryFigures {
    /// See [`MemoryAvailable::MemAvailable`].
    pub mem_available: Option<Observation>,
    /// See [`MemoryAvailable::WorkingSet`].
    pub working_set: Option<Observation>,
}

/// Reads the node's memory, and the memory of the cgroup with all pods in it.
#[derive(Debug)]
pub(super) struct Memory {
    meminfo: KernelFile,
    node: NodeMemory,
    pods: PodsGroup<CgroupMemory>,
    signal: MemoryAvailable,
    /// Bytes set aside as huge pages, which only an administrator changes; `None`: to be read.
    huge_pages: Option<u64>,
    /// Whether they are subtracted where memory is computed as the capacity less the working set. `MemAvailable` leaves
    /// them out by itself.
    subtracts_huge_pages: bool,
}

#[derive(Debug)]
enum NodeMemory {
    /// `None` if no memory controller is mounted from which the working set can be computed.
    Machine(Option<RootWorkingSet>),
    Bounded(CgroupMemory),
}

/// The answers of the sources in one observation.
pub(super) struct MemoryReadings {
    pub(super) swap: Option<Swap>,
    mem_available: Reading,
    /// May be missing or an error independently of the other.
    working_set: Option<Result<Reading, ReadError>>,
    /// The available memory of the pods' cgroup; `None` if there is none, or if its limit is not below the node's.
    pub(super) pods: Option<Result<Reading, ReadError>>,
}

impl MemoryReadings {
    pub(super) fn figures(&self, now: Timestamp) -> MemoryFigures {
        let working_set = self.working_set.as_ref().and_then(|set| set.as_ref().ok());
        MemoryFigures {
            mem_available: self.mem_available.observe(now).ok(),
            working_set: working_set.and_then(|reading| reading.observe(now).ok()),
        }
    }
}

impl Memory {
    pub(super) fn new(sources: &SignalSources) -> Result<Self, SourceError> {
        let hierarchies = sources.hierarchies.as_ref();
        let memory_of =
            |group: &PathBuf| hierarchies.and_then(|all| CgroupMemory::find(all, group));
        let node = if let Some(group) = &sources.node_cgroup {
            let no_controller = || SourceError::NoMemoryController {
                group: group.clone(),
            };
            NodeMemory::Bounded(memory_of(group).ok_or_else(no_controller)?)
        } else {
            NodeMemory::Machine(hierarchies.and_then(RootWorkingSet::find))
        };
        if sources.memory_available == MemoryAvailable::WorkingSet
            && matches!(node, NodeMemory::Machine(None))
        {
            return Err(SourceError::NoWorkingSet);
        }
        Ok(Self {
            meminfo: Meminfo::file(&sources.proc_root),
            node,
            pods: PodsGroup::new(sources.pods_cgroups.iter().filter_map(memory_of)),
            signal: sources.memory_available,
            huge_pages: None,
            subtracts_huge_pages: true,
        })
    }

    pub(super) fn subtract_huge_pages(&mut self, subtract: bool) {
        self.subtracts_huge_pages = subtract;
    }

    /// Bytes that are set aside as huge pages now.
    pub(super) fn huge_pages(&mut self, buffer: &mut Buffer) -> Result<u64, ReadError> {
        self.meminfo.read(buffer, "huge pages in kB", huge_pages)
    }

    fn read_huge_pages(&mut self, buffer: &mut Buffer, renewal: Renewal) -> Result<u64, ReadError> {
        if !self.subtracts_huge_pages {
            return Ok(0);
        }
        let known = self
            .huge_pages
            .take()
            .filter(|_| !renewal.due && !renewal.fast);
        let bytes = match known {
            Some(bytes) => bytes,
            None => self.huge_pages(buffer)?,
        };
        Ok(*self.huge_pages.insert(bytes))
    }

    /// A working set that is only shown is read only when everything is renewed.
    pub(super) fn read(
        &mut self,
        buffer: &mut Buffer,
        renewal: Renewal,
    ) -> Result<MemoryReadings, ReadError> {
        let working_set = renewal.due || self.signal == MemoryAvailable::WorkingSet;
        let meminfo = Meminfo::read(&mut self.meminfo, buffer)?;
        let total = meminfo.total;
        let computed = working_set || matches!(self.node, NodeMemory::Bounded(_));
        let huge_pages = if computed {
            self.read_huge_pages(buffer, renewal)?
        } else {
            0
        };
        let (capacity, mem_available, working_set) = match &mut self.node {
            NodeMemory::Machine(root) => (
                total,
                Reading::left(meminfo.available, total),
                root.as_mut()
                    .filter(|_| working_set)
                    .map(|root| root.read(total, huge_pages, buffer)),
            ),
            NodeMemory::Bounded(group) => {
                let group = group.read(buffer)?;
                let capacity = group.limit.min(total);
                // A limit below the machine's capacity without huge pages excludes them already.
                let usable = total.saturating_sub(huge_pages);
                let beyond = capacity.saturating_sub(usable);
                let left = |used| Reading::unused(capacity, used, total).less(beyond);
                let working_set = left(group.working_set());
                (capacity, left(group.unreclaimable()), Some(Ok(working_set)))
            }
        };
        let pods = match self.pods.read(renewal, |group| group.read(buffer)) {
            Some(Ok(pods)) if pods.limit >= capacity => None,
            Some(Ok(pods)) => Some(Ok(Reading::unused(pods.limit, pods.working_set(), total))),
            Some(Err(error)) => Some(Err(error)),
            None => None,
        };
        Ok(MemoryReadings {
            swap: meminfo.swap,
            mem_available,
            working_set,
            pods,
        })
    }

    pub(super) fn watches_pods(&self) -> bool {
        self.pods.is_possible()
    }

    /// The result for `memory.available`.
    pub(super) fn outcome<'a>(&self, readings: &'a MemoryReadings, now: Timestamp) -> Outcome<'a> {
        match self.signal {
            MemoryAvailable::MemAvailable => Outcome::Read(readings.mem_available, now),
            MemoryAvailable::WorkingSet => Outcome::of_any(readings.working_set.as_ref(), now),
        }
    }
}
