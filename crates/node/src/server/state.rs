//! What the doors know of the loop.

use crate::{config::Admission, history::Waiting, pause::Pause};
use evictd_eviction::{
    Signal,
    record::{self, Record},
};
use evictd_kernel::{
    clock::Clock,
    signals::{Pressure, Swap},
    wake::WokenBy,
};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Questions that may wait for the loop; more than these are turned away.
const QUESTIONS: usize = 8;

/// How long a question waits for the loop.
const PATIENCE: Duration = Duration::from_secs(5);

/// `GET /v1/status`. The loop updates it in place, so that an idle turn allocates nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// The node's name.
    pub node: String,
    /// The daemon's version.
    pub version: String,
    /// The daemon's process id.
    pub pid: u32,
    /// When it started.
    pub started_at: Timestamp,
    /// Seconds since then.
    pub uptime_seconds: i64,
    /// Whose rules it follows: the `kind` of its configuration.
    pub rules: String,
    /// Whether it only says what it would do.
    pub dry_run: bool,
    /// Since when nobody is ended, and why, where that is a pause.
    pub paused: Option<Pause>,
    /// The source or method in use behind each port, and why that one.
    pub sources: Vec<SourceStatus>,
    /// How the configuration stands since it was last read.
    pub configuration: ConfigurationStatus,
    /// One sentence about which filesystems hold what.
    pub layout: String,
    /// What the latest look was woken by.
    pub woken_by: WokenBy,
    /// The latest look before its time, and who called for it.
    pub last_call: Option<Call>,
    /// Figures that no threshold is on.
    pub observed: ObservedStatus,
    /// Every signal that is looked at.
    pub signals: Vec<SignalStatus>,
    /// Every node condition.
    pub conditions: Vec<ConditionStatus>,
    /// The pods on the node.
    pub pods: PodCounts,
    /// What was found about new pods.
    pub admission: AdmissionStatus,
    /// The latest decision with all its evidence.
    #[serde(deserialize_with = "record::known")]
    pub last_decision: Option<Record>,
    /// Pods on their way out, and what is waited for.
    pub leaving: Vec<LeavingStatus>,
    /// Signals for which eviction is suspended because it did not help.
    pub futile_stops: Vec<FutileStop>,
    /// Owners whose pods came back and were evicted again, for which conditions are held.
    pub returning_owners: Vec<ReturningOwner>,
    /// The history of decisions.
    pub history: HistoryStatus,
    /// What the operator should know and do something about.
    pub warnings: Vec<String>,
}

/// What is observed and not acted on, up to ten seconds ago; none where the kernel does not tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObservedStatus {
    /// Memory that is left by the kernel's own estimate, in bytes.
    pub mem_available_bytes: Option<i64>,
    /// Memory that is left as the kubelet counts it, in bytes.
    pub working_set_available_bytes: Option<i64>,
    /// Swap in bytes.
    pub swap: Option<Swap>,
    /// Shares of the last ten seconds in which memory was waited for, in percent.
    pub memory_pressure: Option<Pressure>,
    /// The same for input and output.
    pub io_pressure: Option<Pressure>,
    /// The same for the processor.
    pub cpu_pressure: Option<Pressure>,
}

/// A look before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    /// Who called.
    pub by: WokenBy,
    /// When.
    pub at: Timestamp,
}

/// What was read at the start or at the latest reload, and what of it is in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigurationStatus {
    /// When what is in force was read.
    pub read_at: Timestamp,
    /// What was read after that and refused: none of it is in force.
    pub refused: Option<RefusedConfiguration>,
    /// Keys whose changed values take effect at the next start only.
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
    /// Why this one.
    pub why: String,
}

/// One signal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignalStatus {
    /// Which one.
    pub signal: Signal,
    /// What is left, in bytes or counts; of `memory.psi` and `io.psi` the time in which nobody stood still, in hundredths
    /// of a percent. None while it cannot be read.
    #[serde(default)]
    pub available: Option<i64>,
    /// What there is in all.
    #[serde(default)]
    pub capacity: Option<i64>,
    /// Its thresholds.
    #[serde(default)]
    pub thresholds: Vec<ThresholdStatus>,
    /// What is left above the nearest threshold; negative below it.
    #[serde(default)]
    pub headroom: Option<i64>,
    /// When it was measured.
    #[serde(default)]
    pub time: Option<Timestamp>,
    /// How long ago that was.
    #[serde(default)]
    pub age_seconds: Option<f64>,
    /// How long the loop may sleep as far as this signal is concerned.
    #[serde(default)]
    pub sleep_seconds: Option<f64>,
    /// Why it cannot be read, or that its source hangs.
    #[serde(default)]
    pub problem: Option<String>,
    /// Why this node has no such signal, where that is as it should be.
    #[serde(default)]
    pub absent: Option<String>,
    /// What is taken and no pod holds, as of the last decision on it.
    #[serde(default)]
    pub in_no_pod: Option<i64>,
}

impl SignalStatus {
    /// A signal not yet looked at.
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

    /// Whether something would be done about it and nobody can see it.
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
    /// In the unit of what is left, a percentage resolved against the capacity.
    pub value: i64,
    /// What is left of the figure that it is on: there are several of a pressure.
    pub available: Option<i64>,
    /// As it was configured.
    pub configured: String,
    /// How long it must be crossed before it acts.
    pub grace_period_seconds: i64,
    /// Whether it is crossed.
    pub met: bool,
    /// Since when.
    pub since: Option<Timestamp>,
}

/// One node condition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConditionStatus {
    /// Its type, such as `MemoryPressure`.
    pub condition: String,
    /// Whether it is raised.
    pub raised: bool,
    /// Since when it has been as it is.
    pub since: Option<Timestamp>,
}

/// How many pods, and how much is known of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodCounts {
    /// All active ones.
    pub active: usize,
    /// Those whose usage is unknown.
    pub unknown: usize,
    /// Those that are never chosen.
    pub protected: usize,
    /// When they were last certain, where they are those of a while ago.
    pub as_of: Option<Timestamp>,
    /// Seconds since then.
    pub age_seconds: Option<i64>,
}

/// New pods that this node should not take as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AdmissionStatus {
    /// What is done about them.
    pub mode: Admission,
    /// How many there were since the start.
    pub findings: u64,
    /// The latest of them, oldest first.
    pub latest: Vec<AdmissionFinding>,
}

/// One of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AdmissionFinding {
    /// When.
    pub time: Timestamp,
    /// `namespace/name`.
    pub pod: String,
    /// Its UID.
    pub uid: String,
    /// `report`, `reject`, or `preempt` where others go for it.
    pub action: String,
    /// Why, in one word.
    pub reason: String,
    /// Why, in a sentence.
    pub message: String,
    /// Who goes for it, or would, `namespace/name` in kill order.
    pub preempt: Vec<String>,
}

/// A pod on its way out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeavingStatus {
    /// `namespace/name`.
    pub pod: String,
    /// Its UID.
    pub uid: String,
    /// Id of the decision; empty where its kubelet ends it.
    pub decision: String,
    /// Since when.
    pub since: Timestamp,
    /// What is waited for.
    pub waits_for: String,
    /// Until when at most, where there is an end.
    pub until: Option<Timestamp>,
}

/// Eviction for a signal is suspended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FutileStop {
    /// For which signal.
    pub signal: Signal,
    /// Since when.
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
    /// How many of its pods were evicted lately.
    pub evictions: u32,
    /// The condition that is held, such as `MemoryPressure`.
    pub condition: String,
    /// Whether it keeps new pods away so long.
    pub keeps_away: bool,
    /// How long it is held.
    pub until: Timestamp,
    /// All of that in a sentence.
    pub message: String,
}

/// How the history stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HistoryStatus {
    /// Records on disk: each decision has one, and one more for each thing that became known of it.
    pub records: u64,
    /// Evictions that those records are of, dry runs included.
    pub evictions: usize,
    /// Records waiting in memory for the disk.
    pub waiting: usize,
    /// Why the disk refuses, while it does.
    pub error: Option<String>,
}

/// Something that only the loop can answer. The answer is `Err` when the question makes no sense to it, or does not yet.
#[derive(Debug)]
pub enum Question {
    /// The pods as they would be ranked now.
    Ranking {
        /// For this signal, or for the one nearest to its threshold.
        signal: Option<Signal>,
        /// Takes `{ signal, pods: [..], next, ageSeconds }`, the pods as `evictd explain` has them, and how old the oldest
        /// of their figures is.
        answer: Answer,
    },
    /// Whether a pod would be let in.
    Admit {
        /// The pod as a `v1.Pod`.
        pod: Value,
        /// Takes `{ allowed, reason, message, preempt, qos }`.
        answer: Answer,
    },
    /// To end nobody from now on.
    Pause {
        /// Until when, and why.
        pause: Pause,
        /// Takes `{ paused, notKept }`: what holds now, and why the next start will not know it.
        answer: Answer,
    },
    /// To end pods again.
    Resume {
        /// Takes the same; another pause may still hold.
        answer: Answer,
    },
    /// To leave the Node's conditions and taints as they are from now on.
    Hush {
        /// Takes `{}` once nothing of it is under way any more.
        answer: Answer,
    },
}

/// Where an answer goes; nobody may be waiting for it any more.
pub type Answer = oneshot::Sender<Result<Value, Unanswered>>;

/// Why a question got no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// The question makes no sense.
    #[error("{0}")]
    Refused(String),
    /// What it takes is not known yet.
    #[error("{0}")]
    NotYet(&'static str),
    /// Too many others are waiting.
    #[error("too many questions wait for the sampling loop already")]
    Busy,
    /// The loop did not come round to it.
    #[error("the sampling loop did not answer within {} s", PATIENCE.as_secs())]
    TimedOut,
    /// The loop has ended.
    #[error("the sampling loop has ended")]
    Ended,
}

/// Shared between the loop, which writes, and the doors, which read.
#[derive(Debug)]
pub struct Shared {
    clock: Clock,
    status: Mutex<Status>,
    last_turn_ms: AtomicI64,
    sampled: AtomicBool,
    pods_loaded: AtomicBool,
    questions: mpsc::Sender<Question>,
    history: PathBuf,
    waiting: Waiting,
    /// Warnings that hold until whoever gave them takes them back.
    standing: Mutex<Vec<String>>,
}

impl Shared {
    /// Begins with what is known at start; the loop takes the receiver. `history` is the directory of the history, `waiting`
    /// what of it waits for the disk.
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
            last_turn_ms: AtomicI64::new(clock.now().as_millisecond()),
            sampled: AtomicBool::new(false),
            pods_loaded: AtomicBool::new(false),
            questions,
            history,
            waiting,
            standing: Mutex::default(),
        };
        (Arc::new(shared), to_answer)
    }

    /// Changes the status in place.
    pub fn update(&self, change: impl FnOnce(&mut Status)) {
        change(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Warns of this from now on.
    pub fn always_warn(&self, warnings: Vec<String>) {
        let mut standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        standing.extend(warnings);
    }

    /// What was warned of in these words holds no longer.
    pub fn take_back(&self, warning: &str) {
        let mut standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        standing.retain(|standing| standing != warning);
    }

    /// The loop has turned.
    pub fn turned(&self, now: Timestamp) {
        self.last_turn_ms
            .store(now.as_millisecond(), Ordering::Relaxed);
    }

    /// The first sample of the signals is there.
    pub fn sampled(&self) {
        self.sampled.store(true, Ordering::Relaxed);
    }

    /// The first list of pods is there.
    pub fn pods_loaded(&self) {
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
        let standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        status.warnings.extend(standing.iter().cloned());
        drop(standing);
        let since = |time: Timestamp| now.duration_since(time).as_secs();
        status.pods.age_seconds = status.pods.as_of.map(since);
        for signal in &mut status.signals {
            signal.age_seconds = signal
                .time
                .map(|time| now.duration_since(time).as_secs_f64());
        }
        status
    }

    /// How long ago the loop turned.
    pub fn since_last_turn(&self) -> SignedDuration {
        let last = self.last_turn_ms.load(Ordering::Relaxed);
        SignedDuration::from_millis(self.clock.now().as_millisecond().saturating_sub(last))
    }

    /// What is still missing before the daemon does its work; `None` when it does.
    pub fn not_ready(&self) -> Option<&'static str> {
        if !self.sampled.load(Ordering::Relaxed) {
            Some("the signals have not been sampled yet")
        } else if !self.pods_loaded.load(Ordering::Relaxed) {
            Some("the pods have not been loaded yet")
        } else {
            None
        }
    }

    /// The present moment, as the loop has it.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Where the history is kept.
    pub fn history(&self) -> &Path {
        &self.history
    }

    /// What of the history waits in memory for the disk.
    pub fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    /// Puts a question to the loop and waits for the answer.
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
        match tokio::time::timeout(PATIENCE, answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Unanswered::Ended),
            Err(_) => Err(Unanswered::TimedOut),
        }
    }
}
