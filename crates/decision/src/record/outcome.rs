//! The outcome for a pod that had to leave.

use super::{Contents, Hook};
use serde::{Deserialize, Serialize, Serializer, ser::SerializeMap};

/// The outcome of a decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Outcome {
    /// The pod could not be terminated.
    Failed {
        /// The error of the termination, in words.
        error: String,
    },
    /// The termination has ended: no process is left, or some processes survived SIGKILL.
    Ended(Ended),
}

impl Outcome {
    /// How the termination went; `None` if it failed.
    pub const fn ended(&self) -> Option<&Ended> {
        match self {
            Self::Failed { .. } => None,
            Self::Ended(ended) => Some(ended),
        }
    }

    /// Seconds from the decision to the exit of the last process; `None` while some process lives or if the exit
    /// was not observed.
    pub fn gone_seconds(&self) -> Option<f64> {
        self.ended()?.last_process_gone_seconds
    }

    /// The outcome for a pod that never had a process.
    pub fn not_started() -> Self {
        Self::Ended(Ended {
            method: Method::NotStarted,
            ..Ended::default()
        })
    }
}

/// How a termination went; seconds count from the decision.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Ended {
    /// When the first signal was sent; `None` if there was no process to signal.
    pub first_signal_seconds: Option<f64>,
    /// When the first SIGKILL was sent; `None` if all processes exited before.
    pub killed_seconds: Option<f64>,
    /// When the last process had exited; `None` while `survivors` remain.
    pub last_process_gone_seconds: Option<f64>,
    /// How many processes were seen in the pod's cgroup in all.
    pub processes: usize,
    /// How the last process ended.
    pub method: Method,
    /// Processes that did not exit in time after SIGKILL.
    pub survivors: Vec<Survivor>,
    /// The contents of the pod before the first signal; `None` if it could not be read in time.
    pub contents: Option<Box<Contents>>,
    /// How the pre-kill hook went; `None` if none ran.
    pub hook: Option<Box<Hook>>,
    /// From the first cycle that saw the threshold crossed to the decision; like the next two only for evictions.
    pub crossed_to_decided_seconds: Option<f64>,
    /// From that cycle to the exit of the last process.
    pub reaction_seconds: Option<f64>,
    /// From the last cycle that did not see the threshold crossed to the exit of the last process.
    pub reaction_from_last_clear_look_seconds: Option<f64>,
}

impl Serialize for Ended {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("processes", &self.processes)?;
        map.serialize_entry("method", &self.method)?;
        if self.method == Method::NotStarted {
            return map.end();
        }
        map.serialize_entry("firstSignalSeconds", &self.first_signal_seconds)?;
        map.serialize_entry("killedSeconds", &self.killed_seconds)?;
        map.serialize_entry("lastProcessGoneSeconds", &self.last_process_gone_seconds)?;
        map.serialize_entry("survivors", &self.survivors)?;
        if let Some(contents) = &self.contents {
            map.serialize_entry("contents", contents)?;
        }
        if let Some(hook) = &self.hook {
            map.serialize_entry("hook", hook)?;
        }
        let reaction = [
            ("crossedToDecidedSeconds", self.crossed_to_decided_seconds),
            ("reactionSeconds", self.reaction_seconds),
            (
                "reactionFromLastClearLookSeconds",
                self.reaction_from_last_clear_look_seconds,
            ),
        ];
        for (key, seconds) in reaction {
            // An eviction always has all three keys, null if not known.
            if seconds.is_some() || self.crossed_to_decided_seconds.is_some() {
                map.serialize_entry(key, &seconds)?;
            }
        }
        map.end()
    }
}

/// How a pod's last process ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// No signal was needed: every process had exited before.
    AlreadyGone,
    /// SIGTERM, within the grace period.
    Terminated,
    /// The kubelet terminated the pod within the grace period.
    TornDown,
    /// One write to `cgroup.kill`.
    CgroupKill,
    /// SIGKILL to each process while cgroup v1's freezer held them.
    FrozenKill,
    /// SIGKILL to each process until none was left.
    RepeatedKill,
    /// The pod was rejected before any process was started.
    NotStarted,
    /// The pod is simulated.
    Simulated,
    /// A method that only another version knows.
    #[default]
    #[serde(other)]
    Unknown,
}

impl Method {
    /// The word for this method in logs and in the history.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AlreadyGone => "already-gone",
            Self::Terminated => "terminated",
            Self::TornDown => "torn-down",
            Self::CgroupKill => "cgroup-kill",
            Self::FrozenKill => "frozen-kill",
            Self::RepeatedKill => "repeated-kill",
            Self::NotStarted => "not-started",
            Self::Simulated => "simulated",
            Self::Unknown => "unknown",
        }
    }
}

/// A process that SIGKILL did not end in time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survivor {
    /// Its process id.
    pub pid: u32,
    /// Its name, as in `/proc/PID/comm`.
    pub name: String,
    /// The kernel's letter for its state: `D` is uninterruptible sleep.
    pub state: char,
}
