//! The state that the servers share with the main loop.

use crate::{config::Admission, history::Waiting, pause::Pause, usage::ledger::Reclaimable};
use evictd_decision::record::{self, Record};
use evictd_kernel::{
    clock::Clock,
    signals::{Pressure, Swap},
    wake::WokenBy,
};
use evictd_signals::Signal;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// The most questions that may wait for the main loop; further ones are refused.
const QUESTIONS: usize = 8;

/// How long a question waits for the main loop.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// `GET /v1/status`. The main loop updates it in place, so that an idle cycle allocates nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// The name of the node that this daemon runs on.
    pub node: String,
    /// The version of evictd that runs.
    pub version: String,
    /// The daemon's process id.
    pub pid: u32,
    /// When the daemon started.
    pub started_at: Timestamp,
    /// Seconds since `started_at`.
    pub uptime_seconds: i64,
    /// The rules in force: the `kind` of the configuration.
    pub rules: String,
    /// Whether decisions are only published.
    pub dry_run: bool,
    /// The pause in force: since when, and why.
    pub paused: Option<Pause>,
    /// The source or method in use for each port, and why that one.
    pub sources: Vec<SourceStatus>,
    /// The state of the configuration since it was last read.
    pub configuration: ConfigurationStatus,
    /// One sentence: which directories share which filesystem.
    pub layout: String,
    /// The event that woke the main loop for the latest cycle.
    pub woken_by: WokenBy,
    /// The latest cycle that was woken before the end of its sleep, with the event that woke it.
    pub last_call: Option<EarlyWakeup>,
    /// Figures that no threshold uses.
    pub observed: ObservedStatus,
    /// Every observed signal.
    pub signals: Vec<SignalStatus>,
    /// Every node condition.
    pub conditions: Vec<ConditionStatus>,
    /// The pods on the node.
    pub pods: PodCounts,
    /// The mode of admission, and the latest decisions.
    pub admission: AdmissionStatus,
    /// The latest decision with all its evidence.
    #[serde(deserialize_with = "record::known")]
    pub last_decision: Option<Record>,
    /// The latest node-level reclaim: its removals and freed bytes before a pod was evicted.
    #[serde(deserialize_with = "record::known")]
    pub last_reclaim: Option<Record>,
    /// The objects that the container runtime could remove without evicting a pod, if known.
    pub reclaimable: Option<Reclaimable>,
    /// Pods that are leaving, and why they are waited for.
    pub leaving: Vec<LeavingStatus>,
    /// Signals whose evictions are stopped because they did not help.
    pub futile_stops: Vec<FutileStop>,
    /// Owners whose pods came back and were evicted again, for which conditions are held.
    pub returning_owners: Vec<ReturningOwner>,
    /// The history of decisions.
    pub history: HistoryStatus,
    /// Problems that an operator should solve.
    pub warnings: Vec<String>,
}

/// Observed for information, up to ten seconds ago; `None` if the kernel does not report it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObservedStatus {
    /// Available memory by the kernel's own estimate, in bytes.
    pub mem_available_bytes: Option<i64>,
    /// Available memory as the kubelet counts it, in bytes.
    pub working_set_available_bytes: Option<i64>,
    /// The machine's swap, in bytes.
    pub swap: Option<Swap>,
    /// Shares of the last ten seconds in which tasks waited for memory, in percent.
    pub memory_pressure: Option<Pressure>,
    /// The same for I/O.
    pub io_pressure: Option<Pressure>,
    /// The same for the CPU.
    pub cpu_pressure: Option<Pressure>,
}

/// A cycle that was woken before the end of its sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EarlyWakeup {
    /// The notification.
    pub by: WokenBy,
    /// When the cycle began.
    pub at: Timestamp,
}

/// The configuration last read, and how much of it is in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigurationStatus {
    /// When the configuration in force was read.
    pub read_at: Timestamp,
    /// A later one that was refused; nothing of it is in force.
    pub refused: Option<RefusedConfiguration>,
    /// Keys whose new values take effect only at the next start.
    pub waits_for_restart: Vec<String>,
}

/// A configuration that was refused at a reload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RefusedConfiguration {
    /// When it was read.
    pub at: Timestamp,
    /// Every mistake in it: `file:line:column: key: message; advice`.
    pub mistakes: Vec<String>,
}

/// The implementation chosen for a port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SourceStatus {
    /// `pods`, `usage`, `evict` or another configuration key.
    pub port: String,
    /// The implementation in use.
    pub chosen: String,
    /// Why it was chosen.
    pub why: String,
}

/// The state of one signal, with its thresholds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignalStatus {
    /// The name of the signal.
    pub signal: Signal,
    /// The available amount, in bytes or counts. For `memory.psi` and `io.psi` it is the time in which no task was
    /// stalled, in hundredths of a percent. `None` while it cannot be read.
    #[serde(default)]
    pub available: Option<i64>,
    /// The capacity, in the unit of `available`.
    #[serde(default)]
    pub capacity: Option<i64>,
    /// The thresholds in force on it.
    #[serde(default)]
    pub thresholds: Vec<ThresholdStatus>,
    /// Distance above the nearest threshold; negative below it.
    #[serde(default)]
    pub headroom: Option<i64>,
    /// When it was measured.
    #[serde(default)]
    pub time: Option<Timestamp>,
    /// How long ago that was.
    #[serde(default)]
    pub age_seconds: Option<f64>,
    /// The longest sleep of the main loop that this signal permits.
    #[serde(default)]
    pub sleep_seconds: Option<f64>,
    /// Why it cannot be read, or that its source hangs.
    #[serde(default)]
    pub problem: Option<String>,
    /// Why this node normally lacks this signal.
    #[serde(default)]
    pub absent: Option<String>,
    /// Used, but by no known pod, at the last decision on this signal.
    #[serde(default)]
    pub in_no_pod: Option<i64>,
}

impl SignalStatus {
    /// A signal that was not observed yet.
    pub fn new(signal: Signal) -> Self {
        Self {
            signal,
            available: None,
            capacity: None,
            thresholds: Vec::new(),
            headroom: None,
            time: None,
            age_seconds: None,
            sleep_seconds: None,
            problem: None,
            absent: None,
            in_no_pod: None,
        }
    }

    /// Whether it has a threshold but cannot be observed.
    pub fn is_blind(&self) -> bool {
        !self.thresholds.is_empty() && self.available.is_none() && self.problem.is_some()
    }
}

/// One threshold of a signal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ThresholdStatus {
    /// `hard` or `soft`.
    pub kind: String,
    /// In the unit of `available`; a percentage is converted with the capacity.
    pub value: i64,
    /// The available amount of the figure that it applies to; a pressure signal has several figures.
    pub available: Option<i64>,
    /// As it was configured.
    pub configured: String,
    /// How long it must be crossed before it acts.
    pub grace_period_seconds: i64,
    /// Whether it is crossed.
    pub met: bool,
    /// Since when it is crossed.
    pub since: Option<Timestamp>,
    /// The signal is above the threshold, and the threshold acts until so much is available: the minimum reclaim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_until: Option<i64>,
}

/// The state of one node condition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConditionStatus {
    /// Its type, such as `MemoryPressure`.
    pub condition: String,
    /// Whether it is raised.
    pub raised: bool,
    /// Since when it has its present state.
    pub since: Option<Timestamp>,
}

/// How many pods, and how much is known of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodCounts {
    /// Pods that have not ended.
    pub active: usize,
    /// Those whose usage is unknown.
    pub unknown: usize,
    /// Those that are never chosen.
    pub protected: usize,
    /// When the pods were last certain, if they may be out of date.
    pub as_of: Option<Timestamp>,
    /// Seconds since `as_of`.
    pub age_seconds: Option<i64>,
}

/// Decisions on new pods that should not be on this node in its present state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AdmissionStatus {
    /// The action on such pods.
    pub mode: Admission,
    /// How many there were since start.
    pub findings: u64,
    /// The latest of them, oldest first.
    pub latest: Vec<AdmissionFinding>,
}

/// A decision on one new pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AdmissionFinding {
    /// When the pod was checked.
    pub time: Timestamp,
    /// `namespace/name`.
    pub pod: String,
    /// UID of the pod.
    pub uid: String,
    /// `report`, `reject`, or `preempt` if other pods are preempted for it.
    pub action: String,
    /// The reason, one word.
    pub reason: String,
    /// The message, a sentence.
    pub message: String,
    /// The pods that are or would be preempted for it, `namespace/name` in kill order.
    pub preempt: Vec<String>,
}

/// A pod that is leaving.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeavingStatus {
    /// `namespace/name`.
    pub pod: String,
    /// UID of the pod.
    pub uid: String,
    /// Id of the decision; empty if its kubelet ends it.
    pub decision: String,
    /// When the state began.
    pub since: Timestamp,
    /// Why the pod is waited for.
    pub waits_for: String,
    /// The latest end of the wait; `None` if it has no end.
    pub until: Option<Timestamp>,
}

/// Evictions for a signal are stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FutileStop {
    /// The signal for which no pod is evicted.
    pub signal: Signal,
    /// When the state began.
    pub since: Timestamp,
    /// Until when at the latest.
    pub until: Timestamp,
}

/// Pods of one owner come back and are evicted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReturningOwner {
    /// Its kind, namespace and name: `ReplicaSet shop/web`.
    pub owner: String,
    /// How many of its pods were evicted recently.
    pub evictions: u32,
    /// The condition that is held, such as `MemoryPressure`.
    pub condition: String,
    /// Whether the taint is held, too.
    pub keeps_away: bool,
    /// Until when the condition is held.
    pub until: Timestamp,
    /// The same in a sentence.
    pub message: String,
}

/// The state of the history.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HistoryStatus {
    /// Records on disk: one per decision, and one more for each later change of it.
    pub records: u64,
    /// The number of evictions among those records, dry runs included.
    pub evictions: usize,
    /// Records waiting in memory for the disk.
    pub waiting: usize,
    /// Why the last write failed, while writes fail.
    pub error: Option<String>,
}

/// A question that only the main loop can answer. The answer is `Err` if the question makes no sense, or cannot be
/// answered yet.
#[derive(Debug)]
pub enum Question {
    /// The order in which pods would be evicted now.
    Ranking {
        /// The signal; `None` for the one nearest to its threshold.
        signal: Option<Signal>,
        /// Receives `{ signal, pods: [..], next, ageSeconds }`: the pods as in `evictd explain`, and the age of the
        /// oldest of their figures.
        answer: Answer,
    },
    /// Who fills the node's disks.
    Disk {
        /// Receives a [`crate::usage::ledger::DiskLedger`].
        answer: Answer,
    },
    /// Whether a pod would be admitted.
    Admit {
        /// The pod as a `v1.Pod`.
        pod: Value,
        /// Receives `{ allowed, reason, message, preempt, qos }`.
        answer: Answer,
    },
    /// How near the node came to its thresholds, and how long conditions were raised.
    NearMisses {
        /// Receives what is kept of it.
        answer: Answer,
    },
    /// Stop terminating pods.
    Pause {
        /// Its end and reason.
        pause: Pause,
        /// Receives `{ paused, notKept }`: the pause in force, and why it could not be saved for the next start, if
        /// so.
        answer: Answer,
    },
    /// Terminate pods again.
    Resume {
        /// Receives the same; another pause may still be in force.
        answer: Answer,
    },
    /// Stop changing the Node's conditions and taints.
    StopNodeReports {
        /// Receives `{}` once no write is in progress any more.
        answer: Answer,
    },
}

/// The channel of an answer; its receiver may be closed.
pub(crate) type Answer = oneshot::Sender<Result<Value, Unanswered>>;

/// Why a question was not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// The question makes no sense.
    #[error("{0}")]
    Refused(String),
    /// The data that it needs is not known yet.
    #[error("{0}")]
    NotYet(&'static str),
    /// Too many others are waiting.
    #[error("too many requests already wait for the sampling loop")]
    Busy,
    /// The main loop did not answer in time.
    #[error("the sampling loop did not answer within {} s", ANSWER_TIMEOUT.as_secs())]
    TimedOut,
    /// The loop has ended.
    #[error("the sampling loop has ended")]
    Ended,
}

/// Shared by the main loop, which writes, and the servers, which read.
#[derive(Debug)]
pub struct Shared {
    clock: Clock,
    status: Mutex<Status>,
    last_cycle_ms: AtomicI64,
    sampled: AtomicBool,
    pods_loaded: AtomicBool,
    questions: mpsc::Sender<Question>,
    history: PathBuf,
    waiting: Waiting,
    /// Warnings that last until they are taken back.
    lasting_warnings: Mutex<Vec<String>>,
}

impl Shared {
    /// The state at start, and the receiver of questions for the main loop. `history` is the directory of the
    /// history, `waiting` are its records that are not on disk yet.
    pub fn new(
        clock: Clock,
        status: Status,
        history: PathBuf,
        waiting: Waiting,
    ) -> (Arc<Self>, mpsc::Receiver<Question>) {
        let (questions, to_answer) = mpsc::channel(QUESTIONS);
        let shared = Self {
            clock,
            status: Mutex::new(status),
            last_cycle_ms: AtomicI64::new(clock.now().as_millisecond()),
            sampled: AtomicBool::new(false),
            pods_loaded: AtomicBool::new(false),
            questions,
            history,
            waiting,
            lasting_warnings: Mutex::default(),
        };
        (Arc::new(shared), to_answer)
    }

    /// Changes the status in place.
    pub fn update(&self, change: impl FnOnce(&mut Status)) {
        change(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Adds warnings that last until they are taken back.
    pub(crate) fn add_warnings(&self, warnings: Vec<String>) {
        let mut lasting_warnings = self
            .lasting_warnings
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        lasting_warnings.extend(warnings);
    }

    /// Removes a warning that no longer holds; the words must be those it was added with.
    pub(crate) fn remove_warning(&self, warning: &str) {
        let mut lasting_warnings = self
            .lasting_warnings
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        lasting_warnings.retain(|one| one != warning);
    }

    /// Notes that the main loop has finished a cycle.
    pub(crate) fn cycle_finished(&self, now: Timestamp) {
        self.last_cycle_ms
            .store(now.as_millisecond(), Ordering::Relaxed);
    }

    /// Notes that the signals were observed for the first time.
    pub fn sampled(&self) {
        self.sampled.store(true, Ordering::Relaxed);
    }

    /// Notes that the pods were listed for the first time.
    pub(crate) fn pods_loaded(&self) {
        self.pods_loaded.store(true, Ordering::Relaxed);
    }

    /// The status, with ages as of now.
    pub fn status(&self) -> Status {
        let now = self.clock.now();
        let mut status = self
            .status
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        status.uptime_seconds = now.duration_since(status.started_at).as_secs();
        let lasting_warnings = self
            .lasting_warnings
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        status.warnings.extend(lasting_warnings.iter().cloned());
        drop(lasting_warnings);
        let since = |time: Timestamp| now.duration_since(time).as_secs();
        status.pods.age_seconds = status.pods.as_of.map(since);
        for signal in &mut status.signals {
            signal.age_seconds = signal
                .time
                .map(|time| now.duration_since(time).as_secs_f64());
        }
        status
    }

    /// Time since the main loop last finished a cycle.
    pub(crate) fn since_last_cycle(&self) -> SignedDuration {
        let last = self.last_cycle_ms.load(Ordering::Relaxed);
        SignedDuration::from_millis(self.clock.now().as_millisecond().saturating_sub(last))
    }

    /// The reason why the daemon cannot do its work yet; `None` if it can.
    pub(crate) fn not_ready(&self) -> Option<&'static str> {
        if !self.sampled.load(Ordering::Relaxed) {
            Some("the signals have not been sampled yet")
        } else if !self.pods_loaded.load(Ordering::Relaxed) {
            Some("the pods have not been loaded yet")
        } else {
            None
        }
    }

    /// The present time by the main loop's clock.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The directory of the history.
    pub fn history(&self) -> &Path {
        &self.history
    }

    /// The history's records that are not on disk yet.
    pub fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    /// Sends a question to the main loop and waits for the answer.
    pub async fn ask(
        &self,
        question: impl FnOnce(Answer) -> Question,
    ) -> Result<Value, Unanswered> {
        let (answer, answered) = oneshot::channel();
        self.questions
            .try_send(question(answer))
            .map_err(|refused| match refused {
                mpsc::error::TrySendError::Full(_) => Unanswered::Busy,
                mpsc::error::TrySendError::Closed(_) => Unanswered::Ended,
            })?;
        match tokio::time::timeout(ANSWER_TIMEOUT, answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Unanswered::Ended),
            Err(_) => Err(Unanswered::TimedOut),
        }
    }
}
