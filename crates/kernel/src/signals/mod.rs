//! What the node has left: one look at the kernel's figures after another.
//!
//! A look allocates nothing while all goes well, keeps the kernel's files open, and costs little more than its system
//! calls. A signal that can't be read, or whose figure can't be true, is unobserved in that look and counted; an older
//! figure never takes its place. Only what does not decide, or hardly ever changes, may be up to [`RENEWAL`] old.

mod cgroup_memory;
mod filesystem;
mod health;
mod layout;
mod machine_memory;
mod memory;
mod mounts;
mod pids;
mod pressure;
mod probe;
mod reading;
mod swap;

use crate::cgroup::Hierarchies;
use crate::kernel_file::{Buffer, ReadError};
use evictd_eviction::{
    Observation, Observations, Signal, SignalMap, Threshold,
    pressure::{Stall, WHOLE},
};
use filesystem::Filesystems;
use health::{Outcome, Registry};
use jiff::{SignedDuration, Timestamp};
use memory::Memory;
use pids::Pids;
use pressure::PressureFile;
use reading::Reading;
use std::path::PathBuf;

pub use health::{SignalHealth, SignalState};
pub use layout::{FilesystemPaths, Layout};
pub use memory::{MemoryAvailable, MemoryFigures};
pub use pressure::Pressure;
pub use swap::Swap;

/// How old may be what is only shown, what an administrator sets, and the news that a group is there at last.
pub const RENEWAL: SignedDuration = SignedDuration::from_secs(10);
/// Looks closer together than this are those of a node that is near a threshold: nothing may be old then.
const HURRY: SignedDuration = SignedDuration::from_secs(1);

/// Where to look.
#[derive(Debug, Clone)]
pub struct SignalSources {
    /// `/proc` on a real machine.
    pub proc_root: PathBuf,
    /// `None` where no control groups are mounted; then only the machine's own figures are observed.
    pub hierarchies: Option<Hierarchies>,
    /// The group whose limits are the node's; `None` where the machine is the node.
    pub node_cgroup: Option<PathBuf>,
    /// Where the group with all pods in it may be, whose limit is what the node can allocate (S1-019). The kubelet makes
    /// it, perhaps long after the first look.
    pub pods_cgroups: Vec<PathBuf>,
    /// Which figure decides.
    pub memory_available: MemoryAvailable,
    /// Directories of the filesystems to watch.
    pub filesystems: FilesystemPaths,
}

impl SignalSources {
    /// Where the pressure on this resource is told: of the group that acts as the node, where the kernel tells it.
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

/// What one look found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    /// The signals that could be observed.
    pub observations: Observations,
    /// Both memory figures.
    pub memory: MemoryFigures,
    /// The machine's swap; `None` where it can't be told.
    pub swap: Option<Swap>,
    /// The machine's memory pressure; `None` where the kernel does not tell.
    pub memory_pressure: Option<Pressure>,
    /// The machine's input and output pressure; `None` where the kernel does not tell.
    pub io_pressure: Option<Pressure>,
    /// The machine's processor pressure, which nobody is ever ended for (users #6).
    pub cpu_pressure: Option<Pressure>,
    health: SignalMap<SignalHealth>,
}

impl Sample {
    /// Whether and why not a signal was observed, and how often it could not be.
    pub fn health(&self, signal: Signal) -> SignalHealth {
        self.health[signal]
    }
}

/// Looks at all sources, again and again.
pub struct Sampler {
    buffer: Box<Buffer>,
    memory: Memory,
    pids: Pids,
    filesystems: Filesystems,
    memory_pressure: PressureFile,
    io_pressure: PressureFile,
    cpu_pressure: PressureFile,
    /// Those signals of ours that somebody wants to know.
    followed: SignalMap<bool>,
    registry: Registry,
    aside: Aside,
    /// When all was last read.
    renewed: Option<Timestamp>,
    looked: Option<Timestamp>,
}

/// Figures that are only shown.
#[derive(Debug, Clone, Copy, Default)]
struct Aside {
    working_set: Option<Observation>,
    memory_pressure: Option<Pressure>,
    io_pressure: Option<Pressure>,
    cpu_pressure: Option<Pressure>,
}

/// What of that which may be older is read again in this look.
#[derive(Debug, Clone, Copy)]
struct Renewal {
    /// Everything.
    due: bool,
    /// Whatever decides.
    hurry: bool,
}

/// Why there is nowhere to look.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A group's memory was asked for.
    #[error("no memory controller is mounted that could have the cgroup {}", group.display())]
    NoMemoryController {
        /// The group.
        group: PathBuf,
    },
    /// The working set was asked for.
    #[error("the working set can't be told: no memory controller is mounted")]
    NoWorkingSet,
}

impl Sampler {
    /// Reads nothing yet: a file that is missing now leaves its signal unobserved until it is there.
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
            pids: Pids::new(
                &sources.proc_root,
                sources.hierarchies.as_ref(),
                sources.node_cgroup.as_deref(),
            ),
            filesystems,
            memory_pressure: PressureFile::new(sources.pressure("memory")),
            io_pressure: PressureFile::new(sources.pressure("io")),
            cpu_pressure: PressureFile::of_cpu(sources.pressure("cpu")),
            followed: SignalMap::default(),
            registry: Registry::default(),
            aside: Aside::default(),
            renewed: None,
            looked: None,
        })
    }

    /// From now on signals of ours are observed that have a threshold among these, and no others.
    pub fn follow(&mut self, thresholds: &[Threshold]) {
        self.followed = SignalMap::default();
        for threshold in thresholds.iter().filter(|one| one.signal.is_ours()) {
            self.followed[threshold.signal] = true;
        }
    }

    /// Looks once at everything; `now` becomes the time of what is observed. What may be older is renewed every
    /// [`RENEWAL`].
    pub fn sample(&mut self, now: Timestamp) -> Sample {
        let older = |since: Option<Timestamp>, age| {
            since.is_none_or(|since| now.duration_since(since) >= age)
        };
        let renewal = Renewal {
            due: older(self.renewed, RENEWAL),
            hurry: !older(self.looked, HURRY),
        };
        self.looked = Some(now);
        let mut sample = Sample::default();
        self.sample_memory(now, renewal, &mut sample);
        let pids = self.pids.read(&mut self.buffer, renewal);
        self.record(Signal::PidAvailable, Outcome::of(&pids, now), &mut sample);
        self.sample_filesystems(now, &mut sample);
        self.sample_pressure(now, Signal::MemoryPsi, &mut sample);
        self.sample_pressure(now, Signal::IoPsi, &mut sample);
        if renewal.due {
            self.renewed = Some(now);
            self.aside = self.look_aside(&sample);
        }
        sample.memory.working_set = sample.memory.working_set.or(self.aside.working_set);
        sample.memory_pressure = self.aside.memory_pressure;
        sample.io_pressure = self.aside.io_pressure;
        sample.cpu_pressure = self.aside.cpu_pressure;
        sample.health = self.registry.health;
        sample
    }

    fn look_aside(&mut self, sample: &Sample) -> Aside {
        Aside {
            working_set: sample.memory.working_set,
            memory_pressure: shown(self.memory_pressure.read(&mut self.buffer)),
            io_pressure: shown(self.io_pressure.read(&mut self.buffer)),
            cpu_pressure: shown(self.cpu_pressure.read(&mut self.buffer)),
        }
    }

    /// How the watched directories are spread over filesystems; `None` until each of them has answered a look.
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
                // What is not there is never used up.
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

    /// What is followed is read at every look.
    fn sample_pressure(&mut self, now: Timestamp, signal: Signal, sample: &mut Sample) {
        if !self.followed[signal] {
            return;
        }
        let (file, aside) = match signal {
            Signal::IoPsi => (&mut self.io_pressure, &mut self.aside.io_pressure),
            _ => (&mut self.memory_pressure, &mut self.aside.memory_pressure),
        };
        let read = file.read(&mut self.buffer);
        let outcome = match &read {
            Ok(_) => Outcome::Read(Reading::left(0, WHOLE.unsigned_abs()), now),
            Err(error) => Outcome::Failed(error),
        };
        let observed = self.registry.record(signal, outcome);
        let stall = read.ok().filter(|_| observed.is_some());
        *aside = stall.map(Pressure::from);
        sample.observations.set_stall(signal, stall, Some(now));
    }

    fn sample_filesystems(&mut self, now: Timestamp, sample: &mut Sample) {
        let registry = &mut self.registry;
        self.filesystems.look(now, |(bytes, inodes), look| {
            let (of_bytes, of_inodes) = look.outcomes(now);
            let mut record = |signal, outcome| {
                let observation = registry.record(signal, outcome);
                sample.observations.set(signal, observation);
            };
            record(bytes, of_bytes);
            record(inodes, of_inodes);
        });
    }
}

fn shown(read: Result<Stall, ReadError>) -> Option<Pressure> {
    read.ok().map(Pressure::from)
}

#[cfg(test)]
mod tests;
