//! What became of a pod that had to leave.

use serde::{Deserialize, Serialize, Serializer, ser::SerializeMap};

/// What became of a decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Outcome {
    /// The pod could not be ended.
    Failed {
        /// Why not.
        error: String,
    },
    /// It was seen off, or some of its processes outlived SIGKILL.
    Ended(Ended),
}

impl Outcome {
    /// How it was seen off; `None` where it could not be.
    pub const fn ended(&self) -> Option<&Ended> {
        match self {
            Self::Failed { .. } => None,
            Self::Ended(ended) => Some(ended),
        }
    }

    /// Seconds from the decision to the last process gone; `None` while some live, and where nobody saw it.
    pub fn gone_seconds(&self) -> Option<f64> {
        self.ended()?.last_process_gone_seconds
    }

    /// A pod of which no process was ever started.
    pub fn not_started() -> Self {
        Self::Ended(Ended {
            method: Method::NotStarted,
            ..Ended::default()
        })
    }
}

/// How a pod left; seconds count from the decision.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Ended {
    /// The first signal; `None` where there was nothing left to signal.
    pub first_signal_seconds: Option<f64>,
    /// The first SIGKILL; `None` where all left without.
    pub killed_seconds: Option<f64>,
    /// The last process gone; `None` while `survivors` remain.
    pub last_process_gone_seconds: Option<f64>,
    /// How many processes were seen in the pod's cgroup in all.
    pub processes: usize,
    /// What ended the last of them.
    pub method: Method,
    /// Who would not die in time.
    pub survivors: Vec<Survivor>,
    /// From the first look that saw the threshold crossed to the decision; only of an eviction, as the two below.
    pub crossed_to_decided_seconds: Option<f64>,
    /// From that look to the last process gone.
    pub reaction_seconds: Option<f64>,
    /// From the last look that had not seen it crossed yet.
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
        let reaction = [
            ("crossedToDecidedSeconds", self.crossed_to_decided_seconds),
            ("reactionSeconds", self.reaction_seconds),
            (
                "reactionFromLastClearLookSeconds",
                self.reaction_from_last_clear_look_seconds,
            ),
        ];
        for (key, seconds) in reaction {
            // An eviction has all three, known or not.
            if seconds.is_some() || self.crossed_to_decided_seconds.is_some() {
                map.serialize_entry(key, &seconds)?;
            }
        }
        map.end()
    }
}

/// What ended a pod's last process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Nothing: no process was alive when its turn came.
    AlreadyGone,
    /// SIGTERM, within the grace period.
    Terminated,
    /// The kubelet's own teardown, within the grace period.
    TornDown,
    /// One write to `cgroup.kill`.
    CgroupKill,
    /// SIGKILL to each process while cgroup v1's freezer held them.
    FrozenKill,
    /// SIGKILL to each process until none was left.
    RepeatedKill,
    /// Nothing: it was turned away before anything was started.
    NotStarted,
    /// Nothing: there never was such a pod.
    Simulated,
    /// A word of another version.
    #[default]
    #[serde(other)]
    Unknown,
}

impl Method {
    /// The name in logs and in the history.
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
    /// Its id.
    pub pid: u32,
    /// Its name, as in `/proc/PID/comm`.
    pub name: String,
    /// The kernel's letter for its state: `D` is uninterruptible sleep.
    pub state: char,
}
