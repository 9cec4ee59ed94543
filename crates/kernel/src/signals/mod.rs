//! The available amounts of the node, observed from the kernel's figures.
//!
//! An observation that succeeds allocates nothing, keeps the kernel's files open, and costs little more than its
//! system calls. A signal that cannot be read, or whose figure is impossible, is left out of that observation and
//! counted; an older figure never takes its place. Only figures that no decision depends on, or that hardly ever
//! change, may be up to [`RENEWAL`] old.

mod cgroup_memory;
mod filesystem;
mod group_pressure;
mod health;
mod layout;
mod machine_memory;
mod memory;
mod mounts;
mod pids;
mod pods_group;
mod pressure;
mod probe;
mod reading;
mod swap;

use crate::cgroup::Hierarchies;
use crate::kernel_file::{Buffer, ReadError};
use evictd_signals::{
    Observation, Observations, Signal, SignalMap, Threshold,
    pressure::{Stall, WHOLE},
};
use filesystem::Filesystems;
use health::{Outcome, Registry};
use jiff::{SignedDuration, Timestamp};
use memory::Memory;
use pids::Pids;
use pressure::PressureFile;
use probe::ProbeResult;
use reading::Reading;
use std::path::PathBuf;

pub use group_pressure::GroupPressure;
pub use health::{SignalHealth, SignalState};
pub use layout::{FilesystemPaths, Layout, RuntimePaths, WatchedFilesystem};
pub use memory::MemoryAvailable;
use memory::MemoryFigures;
pub use pressure::Pressure;
pub use swap::Swap;

/// The most that these may be old: figures that are only shown, limits that an administrator sets, and whether a
/// missing cgroup exists by now.
pub const RENEWAL: SignedDuration = SignedDuration::from_secs(10);
/// If observations follow each other faster than this, the node is near a threshold: then nothing may be old.
const FAST_SAMPLING: SignedDuration = SignedDuration::from_secs(1);

/// Where the figures come from.
#[derive(Debug, Clone)]
pub struct SignalSources {
    /// `/proc` on a real machine.
    pub proc_root: PathBuf,
    /// `None` if no cgroups are mounted; then only the machine's own figures are observed.
    pub hierarchies: Option<Hierarchies>,
    /// The cgroup whose limits are the node's; `None` if the node is the whole machine.
    pub node_cgroup: Option<PathBuf>,
    /// Possible paths of the cgroup with all pods in it, whose limit is the node's allocatable amount (S1-019). The
    /// kubelet creates it, perhaps long after the first observation.
    pub pods_cgroups: Vec<PathBuf>,
    /// Which figure is `memory.available`.
    pub memory_available: MemoryAvailable,
    /// Directories of the filesystems to watch.
    pub filesystems: FilesystemPaths,
}

impl SignalSources {
    /// The file with the pressure on this resource: of the cgroup that acts as the node if the kernel has one
    /// there, else of the machine.
    pub fn pressure(&self, resource: &str) -> PathBuf {
        let group = self.node_cgroup.as_ref().zip(self.hierarchies.as_ref());
        let of_group = group
            .and_then(|(group, all)| all.unified(group))
            .map(|directory| directory.join(format!("{resource}.pressure")));
        of_group
            .filter(|file| file.is_file())
            .unwrap_or_else(|| self.proc_root.join("pressure").join(resource))
    }
}

/// The result of one observation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    /// The signals that could be observed.
    pub observations: Observations,
    /// Both figures of the node's memory, whichever of them is the signal.
    pub memory: MemoryFigures,
    /// The machine's swap; `None` if it could not be read.
    pub swap: Option<Swap>,
    /// The machine's memory pressure; `None` if the kernel does not report it.
    pub memory_pressure: Option<Pressure>,
    /// The machine's I/O pressure; `None` if the kernel does not report it.
    pub io_pressure: Option<Pressure>,
    /// The machine's CPU pressure; it is shown only, no pod is evicted for it (users #6).
    pub cpu_pressure: Option<Pressure>,
    health: SignalMap<SignalHealth>,
}

impl Sample {
    /// Whether the signal was observed, why not, and how often it was not.
    pub fn health(&self, signal: Signal) -> SignalHealth {
        self.health[signal]
    }
}

/// Observes all sources repeatedly.
pub struct Sampler {
    buffer: Box<Buffer>,
    memory: Memory,
    pids: Pids,
    filesystems: Filesystems,
    memory_pressure: PressureFile,
    io_pressure: PressureFile,
    cpu_pressure: PressureFile,
    /// Which of evictd's own signals are needed.
    followed: SignalMap<bool>,
    registry: Registry,
    shown_only: ShownOnly,
    /// When everything was last read.
    renewed_at: Option<Timestamp>,
    sampled_at: Option<Timestamp>,
}

/// Figures that are only shown, no decision depends on them.
#[derive(Debug, Clone, Copy, Default)]
struct ShownOnly {
    working_set: Option<Observation>,
    memory_pressure: Option<Pressure>,
    io_pressure: Option<Pressure>,
    cpu_pressure: Option<Pressure>,
}

/// Which of the figures that may be older are read again in this observation.
#[derive(Debug, Clone, Copy)]
struct Renewal {
    due: bool,
    /// All that decisions depend on.
    fast: bool,
}

/// Why a source is missing.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The memory of a cgroup is configured as the node's.
    #[error("no memory controller is mounted that could have the cgroup {}", group.display())]
    NoMemoryController {
        /// The cgroup, relative to the root of its hierarchy.
        group: PathBuf,
    },
    /// The working set is configured as `memory.available`.
    #[error("the working set is unknown: no memory controller is mounted")]
    NoWorkingSet,
}

impl Sampler {
    /// Reads nothing yet. If a file is missing, its signal is not observed until the file exists.
    pub fn new(sources: &SignalSources) -> Result<Self, SourceError> {
        let filesystems = Filesystems::new(sources.filesystems.clone(), &sources.proc_root);
        Self::with_filesystems(sources, filesystems)
    }

    fn with_filesystems(
        sources: &SignalSources,
        filesystems: Filesystems,
    ) -> Result<Self, SourceError> {
        Ok(Self {
            buffer: Box::new([0; _]),
            memory: Memory::new(sources)?,
            pids: Pids::new(sources),
            filesystems,
            memory_pressure: PressureFile::new(sources.pressure("memory")),
            io_pressure: PressureFile::new(sources.pressure("io")),
            cpu_pressure: PressureFile::of_cpu(sources.pressure("cpu")),
            followed: SignalMap::default(),
            registry: Registry::default(),
            shown_only: ShownOnly::default(),
            renewed_at: None,
            sampled_at: None,
        })
    }

    /// Sets which of evictd's own signals are observed from now on: those with a threshold among these.
    pub fn follow(&mut self, thresholds: &[Threshold]) {
        self.followed = SignalMap::default();
        for threshold in thresholds.iter().filter(|one| one.signal.is_ours()) {
            self.followed[threshold.signal] = true;
        }
    }

    /// Sets whether memory that is set aside as huge pages counts as used in the working set, as it does unless this is
    /// called. A kubelet before 1.37 counts it as available (S7-280).
    pub fn subtract_huge_pages(&mut self, subtract: bool) {
        self.memory.subtract_huge_pages(subtract);
    }

    /// Bytes that are set aside as huge pages; `None` if that cannot be read.
    pub fn huge_pages(&mut self) -> Option<u64> {
        self.memory.huge_pages(&mut self.buffer).ok()
    }

    /// Observes every signal once; `now` becomes the time of the observations. Figures that may be older are
    /// renewed every [`RENEWAL`].
    pub fn sample(&mut self, now: Timestamp) -> Sample {
        let older = |since: Option<Timestamp>, age| {
            since.is_none_or(|since| now.duration_since(since) >= age)
        };
        let renewal = Renewal {
            due: older(self.renewed_at, RENEWAL),
            fast: !older(self.sampled_at, FAST_SAMPLING),
        };
        self.sampled_at = Some(now);
        let mut sample = Sample::default();
        self.sample_memory(now, renewal, &mut sample);
        self.sample_pids(now, renewal, &mut sample);
        self.sample_filesystems(now, &mut sample);
        self.sample_pressure(now, Signal::MemoryPsi, &mut sample);
        self.sample_pressure(now, Signal::IoPsi, &mut sample);
        if renewal.due {
            self.renewed_at = Some(now);
            self.shown_only = self.read_shown_only(&sample);
        }
        sample.memory.working_set = sample.memory.working_set.or(self.shown_only.working_set);
        sample.memory_pressure = self.shown_only.memory_pressure;
        sample.io_pressure = self.shown_only.io_pressure;
        sample.cpu_pressure = self.shown_only.cpu_pressure;
        sample.health = self.registry.health;
        sample
    }

    fn read_shown_only(&mut self, sample: &Sample) -> ShownOnly {
        ShownOnly {
            working_set: sample.memory.working_set,
            memory_pressure: as_pressure(self.memory_pressure.read(&mut self.buffer)),
            io_pressure: as_pressure(self.io_pressure.read(&mut self.buffer)),
            cpu_pressure: as_pressure(self.cpu_pressure.read(&mut self.buffer)),
        }
    }

    /// Watches these directories from now on.
    pub fn watch(&mut self, paths: FilesystemPaths) {
        self.filesystems.watch(paths);
    }

    /// Which of the watched directories share a filesystem; `None` until each of their filesystems has answered.
    pub fn layout(&self) -> Option<Layout> {
        self.filesystems.layout()
    }

    fn record(&mut self, signal: Signal, outcome: Outcome<'_>, sample: &mut Sample) {
        let observation = self.registry.record(signal, outcome);
        sample.observations.set(signal, observation);
    }

    fn sample_memory(&mut self, now: Timestamp, renewal: Renewal, sample: &mut Sample) {
        let readings = self.memory.read(&mut self.buffer, renewal);
        let (node, pods) = match &readings {
            Ok(readings) => {
                sample.memory = readings.figures(now);
                sample.swap = readings.swap;
                let pods = Outcome::of_any(readings.pods.as_ref(), now);
                (self.memory.outcome(readings, now), pods)
            }
            Err(error) => (Outcome::Failed(error), Outcome::Failed(error)),
        };
        if self.followed[Signal::SwapAvailable] {
            let swap = readings.as_ref().ok().and_then(|readings| readings.swap);
            let outcome = match (&readings, swap) {
                (Err(error), _) => Outcome::Failed(error),
                // A node without swap has no such signal, rather than one that is always low.
                (Ok(_), None | Some(Swap { total: 0, .. })) => Outcome::Absent,
                (Ok(_), Some(swap)) => Outcome::Read(Reading::left(swap.free, swap.total), now),
            };
            self.record(Signal::SwapAvailable, outcome, sample);
        }
        self.record(Signal::MemoryAvailable, node, sample);
        if self.memory.watches_pods() {
            self.record(Signal::AllocatableMemoryAvailable, pods, sample);
        }
    }

    fn sample_pids(&mut self, now: Timestamp, renewal: Renewal, sample: &mut Sample) {
        let node = self.pids.read(&mut self.buffer, renewal);
        self.record(Signal::PidAvailable, Outcome::of(&node, now), sample);
        if !self.followed[Signal::AllocatablePidAvailable] {
            return;
        }
        let pods = node.as_ref().ok().and_then(|node| {
            let capacity = node.capacity();
            self.pids.read_pods(capacity, &mut self.buffer, renewal)
        });
        let outcome = match &node {
            Ok(_) => Outcome::of_any(pods.as_ref(), now),
            Err(error) => Outcome::Failed(error),
        };
        self.record(Signal::AllocatablePidAvailable, outcome, sample);
    }

    /// Pressure that has a threshold is read in every observation.
    fn sample_pressure(&mut self, now: Timestamp, signal: Signal, sample: &mut Sample) {
        if !self.followed[signal] {
            return;
        }
        let (file, shown_only) = match signal {
            Signal::IoPsi => (&mut self.io_pressure, &mut self.shown_only.io_pressure),
            _ => (
                &mut self.memory_pressure,
                &mut self.shown_only.memory_pressure,
            ),
        };
        let read = file.read(&mut self.buffer);
        let outcome = match &read {
            Ok(_) => Outcome::Read(Reading::left(0, WHOLE.unsigned_abs()), now),
            Err(error) => Outcome::Failed(error),
        };
        let observed = self.registry.record(signal, outcome);
        let stall = read.ok().filter(|_| observed.is_some());
        *shown_only = stall.map(Pressure::from);
        sample.observations.set_stall(signal, stall, Some(now));
    }

    fn sample_filesystems(&mut self, now: Timestamp, sample: &mut Sample) {
        let registry = &mut self.registry;
        let report = |(bytes, inodes): (Signal, Signal), result: &ProbeResult, read_only: bool| {
            let (of_bytes, of_inodes) = result.outcomes(now);
            registry.note_read_only(bytes, read_only);
            let mut record = |signal, outcome| {
                let observation = registry.record(signal, outcome);
                sample.observations.set(signal, observation);
                sample.observations.set_read_only(signal, read_only);
            };
            record(bytes, of_bytes);
            record(inodes, of_inodes);
        };
        self.filesystems.probe_all(now, report);
    }
}

fn as_pressure(read: Result<Stall, ReadError>) -> Option<Pressure> {
    read.ok().map(Pressure::from)
}

#[cfg(test)]
mod tests;
