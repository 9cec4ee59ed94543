//! The control plane's actions on a node: the taints that follow from its conditions, and which pods `NoExecute`
//! removes and when (S1-079 to S1-084). Controllers do this, not evictd; it is only reported here.

use crate::cli::table::{duration, moment};
use evictd_command::{Colour, Column, Table, View};
use evictd_pod::{
    Pod,
    node::{Lease, Node},
    wire::{Condition, ConditionStatus, Taint},
};
use evictd_signals::NodeCondition;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

/// How long a node may be silent before its conditions become Unknown (S1-082).
const HEARTBEAT_GRACE: SignedDuration = SignedDuration::from_secs(50);
/// How often a kubelet writes its Node's status at least, and how much later that may arrive.
const STATUS_PERIOD: SignedDuration = SignedDuration::from_mins(5);
const STATUS_DELAY: SignedDuration = SignedDuration::from_mins(1);
/// How long a pod stays by default on a node that is not ready or unreachable, in seconds (S1-083).
const DEFAULT_TOLERATION_SECONDS: i64 = 300;

const NO_SCHEDULE: &str = "NoSchedule";
const NO_EXECUTE: &str = "NoExecute";
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Condition, status and the taint that the controller keeps while they hold (S1-080, S1-081).
const CAUSES: [(&str, &str, &str, &str); 8] = [
    (
        "MemoryPressure",
        "True",
        "node.kubernetes.io/memory-pressure",
        NO_SCHEDULE,
    ),
    (
        "DiskPressure",
        "True",
        "node.kubernetes.io/disk-pressure",
        NO_SCHEDULE,
    ),
    (
        "PIDPressure",
        "True",
        "node.kubernetes.io/pid-pressure",
        NO_SCHEDULE,
    ),
    (
        "NetworkUnavailable",
        "True",
        "node.kubernetes.io/network-unavailable",
        NO_SCHEDULE,
    ),
    ("Ready", "False", NOT_READY, NO_SCHEDULE),
    ("Ready", "False", NOT_READY, NO_EXECUTE),
    ("Ready", "Unknown", UNREACHABLE, NO_SCHEDULE),
    ("Ready", "Unknown", UNREACHABLE, NO_EXECUTE),
];

/// The result for `--node`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeReport {
    pub(super) name: String,
    pub(super) now: Timestamp,
    /// Status of the Ready condition.
    pub(super) ready: String,
    /// `None` without the node's lease, because a healthy node writes its status only every five minutes.
    pub(super) heartbeat: Option<Watchdog>,
    pub(super) taints: Vec<TaintState>,
    /// The consequences of a filesystem that the node reports as read-only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) read_only: Option<String>,
    /// Where the conditions contradict the figures, and that they are too old; a sentence each.
    #[serde(rename = "doubts")]
    pub(super) warnings: Vec<String>,
    /// Pods that a `NoExecute` taint removes, the first one first.
    pub(super) removals: Vec<Removal>,
}

/// When the node last renewed its lease.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Watchdog {
    pub(super) at: Timestamp,
    pub(super) age_seconds: f64,
    /// Whether that is longer ago than the controller waits.
    pub(super) overdue: bool,
}

/// The relation of a taint to the node's conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Standing {
    /// The node has it, and a condition demands it.
    Present,
    /// A condition demands it; the controller will add it at once.
    Missing,
    /// The node has not reported the captured state yet; the taint follows once it does.
    Expected,
    /// The controller adds it, unless the node has reported after this capture.
    IfSilent,
    /// No condition demands it any more; the controller will remove it.
    Stale,
    /// Not a taint of the controller.
    Foreign,
}

/// One taint.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaintState {
    pub(super) key: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) value: String,
    pub(super) effect: String,
    pub(super) standing: Standing,
    /// Since when the taint exists, or else its cause.
    pub(super) since: Option<Timestamp>,
    pub(super) because: String,
}

/// One pod that a taint removes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Removal {
    pub(super) pod: String,
    pub(super) taint: String,
    /// `None` if it is not known since when the taint exists.
    pub(super) at: Option<Timestamp>,
    /// Seconds from now; negative if the removal is overdue.
    pub(super) in_seconds: Option<f64>,
    pub(super) why: String,
}

/// The evidence in the captured figures.
pub(super) struct Shown<'a> {
    /// The conditions that follow from them.
    pub(super) conditions: &'a [NodeCondition],
    /// When they were measured.
    pub(super) at: Timestamp,
    /// How long a kubelet keeps a condition after its cause is over.
    pub(super) period: SignedDuration,
}

/// The taints of this node and their effects on its pods.
pub(super) fn report(
    node: &Node,
    lease: Option<&Lease>,
    figures: &Shown<'_>,
    pods: &[Pod],
    now: Timestamp,
) -> NodeReport {
    let shown = figures.conditions;
    let conditions = &node.status.conditions;
    let ready = conditions
        .iter()
        .find(|condition| condition.kind == "Ready");
    let renewed = lease.and_then(|lease| lease.spec.renew_time);
    let heartbeat = renewed.map(|at| {
        let age = now.duration_since(at);
        Watchdog {
            at,
            age_seconds: age.as_secs_f64(),
            overdue: age > HEARTBEAT_GRACE,
        }
    });
    let mut taints = called_for(node);
    taints.extend(expected(node, shown));
    if let Some(heartbeat) = heartbeat.as_ref().filter(|heartbeat| heartbeat.overdue)
        && ready.is_some_and(|ready| ready.status != ConditionStatus::Unknown)
    {
        taints.extend(if_silent(heartbeat));
    }
    let others = node.spec.taints.iter().filter(|taint| {
        !taints.iter().any(|known| {
            known.standing == Standing::Present
                && (&known.key, &known.effect) == (&taint.key, &taint.effect)
        })
    });
    let others: Vec<TaintState> = others.map(other).collect();
    taints.extend(others);
    NodeReport {
        name: node.metadata.name.clone(),
        now,
        ready: ready.map_or("never reported".to_owned(), |ready| {
            ready.status.to_string()
        }),
        heartbeat,
        read_only: read_only(node),
        removals: removals(pods, &taints, now),
        warnings: warnings(conditions, figures, now),
        taints,
    }
}

/// The condition of node-problem-detector for a filesystem that the kernel made read-only.
const READ_ONLY: &str = "ReadonlyFilesystem";

/// Nothing on a read-only filesystem can be removed, whatever the rules decide for it.
fn read_only(node: &Node) -> Option<String> {
    let mut conditions = node.status.conditions.iter();
    let found = conditions.find(|one| one.holds(READ_ONLY))?;
    let because = [&*found.reason, found.message.trim()];
    let because: Vec<&str> = because
        .into_iter()
        .filter(|text| !text.is_empty())
        .collect();
    Some(format!(
        "{READ_ONLY} is True ({}): nothing on that filesystem can be removed, so that no eviction for it frees \
         anything. evictd raises DiskPressure and evicts no pod for it, a kubelet evicts one after the other; look for \
         errors of the disk.",
        because.join(": ")
    ))
}

/// Whether the conditions are too old, and which of them the figures contradict.
fn warnings(conditions: &[Condition], figures: &Shown<'_>, now: Timestamp) -> Vec<String> {
    let kubelets = |condition: &&Condition| {
        condition.kind == "Ready" || NodeCondition::parse(&condition.kind).is_some()
    };
    let reported = conditions.iter().filter(kubelets);
    let reported = reported.filter_map(|condition| condition.last_heartbeat_time);
    let reported = reported.max();
    let longest = STATUS_PERIOD.saturating_add(STATUS_DELAY);
    let silent = reported.filter(|at| now.duration_since(*at) > longest);
    let mut warnings = Vec::new();
    if let Some(at) = silent {
        warnings.push(format!(
            "The Node's conditions were last reported {} ago, at {}, although a kubelet reports at least every {}: it is \
             silent or stuck, and what they say may be over.",
            duration(now.duration_since(at)),
            moment(at),
            duration(STATUS_PERIOD)
        ));
    }
    for condition in conditions {
        let Some(kind) = NodeCondition::parse(&condition.kind) else {
            continue;
        };
        let holds = condition.status == ConditionStatus::True;
        let since = condition.last_transition_time;
        let lasted = since.map(|since| figures.at.duration_since(since));
        let for_long = lasted.is_none_or(|lasted| lasted > figures.period);
        let since = since.map_or_else(String::new, |since| {
            let age = duration(now.duration_since(since));
            format!(" since {} ({age})", moment(since))
        });
        match (holds, figures.conditions.contains(&kind)) {
            (true, false) if for_long => warnings.push(format!(
                "{kind} has been True{since}, but these figures show no such shortage{}.",
                if silent.is_some() {
                    String::new()
                } else {
                    let period = duration(figures.period);
                    format!(
                        ", and a kubelet clears it {period} after the last one: the shortage comes and goes, or its \
                         thresholds are not these"
                    )
                }
            )),
            (false, true) if silent.is_some() || for_long => warnings.push(format!(
                "{kind} has been {}{since}, but these figures show such a shortage.",
                condition.status
            )),
            _ => {}
        }
    }
    warnings
}

/// Every taint that a condition of the node demands.
fn called_for(node: &Node) -> Vec<TaintState> {
    let conditions = node.status.conditions.iter().flat_map(|condition| {
        let causes = CAUSES.iter().filter(|(kind, status, ..)| {
            condition.kind == *kind && condition.status.as_str() == *status
        });
        causes.map(move |(kind, status, key, effect)| {
            let because = match &*condition.reason {
                "" => format!("{kind} is {status}"),
                reason => format!("{kind} is {status}: {reason}"),
            };
            (*key, *effect, condition.last_transition_time, because)
        })
    });
    let cordoned = node.spec.unschedulable.then(|| {
        let because = "the node is cordoned".to_owned();
        (UNSCHEDULABLE, NO_SCHEDULE, None, because)
    });
    let state = |(key, effect, since, because): (&str, &str, Option<Timestamp>, String)| {
        let there = |taint: &&Taint| taint.key == key && taint.effect == effect;
        let present = node.spec.taints.iter().find(there);
        TaintState {
            key: key.to_owned(),
            value: present.map_or(String::new(), |taint| taint.value.clone()),
            effect: effect.to_owned(),
            standing: present.map_or(Standing::Missing, |_| Standing::Present),
            since: present.and_then(|taint| taint.time_added).or(since),
            because,
        }
    };
    conditions.chain(cordoned).map(state).collect()
}

/// Taints of the conditions that follow from the captured state and that the node has not reported yet.
fn expected(node: &Node, shown: &[NodeCondition]) -> Vec<TaintState> {
    let unreported = shown.iter().filter(|shown| {
        let mut reported = node.status.conditions.iter();
        !reported.any(|condition| condition.holds(shown.as_str()))
    });
    let state = |shown: &NodeCondition| {
        let (kind, _, key, effect) = CAUSES.iter().find(|(kind, ..)| *kind == shown.as_str())?;
        let there = |taint: &&Taint| taint.key == *key && taint.effect == *effect;
        let present = node.spec.taints.iter().find(there);
        Some(TaintState {
            key: (*key).to_owned(),
            value: String::new(),
            effect: (*effect).to_owned(),
            standing: present.map_or(Standing::Expected, |_| Standing::Present),
            since: present.and_then(|taint| taint.time_added),
            because: format!("{kind} by these figures, not reported yet"),
        })
    };
    unreported.filter_map(state).collect()
}

fn if_silent(heartbeat: &Watchdog) -> impl Iterator<Item = TaintState> {
    let since = heartbeat.at.saturating_add(HEARTBEAT_GRACE).ok();
    let effects = [NO_SCHEDULE, NO_EXECUTE].into_iter();
    effects.map(move |effect| TaintState {
        key: UNREACHABLE.to_owned(),
        value: String::new(),
        effect: effect.to_owned(),
        standing: Standing::IfSilent,
        since,
        because: "its lease was not renewed until this capture".to_owned(),
    })
}

/// A taint that no condition demands.
fn other(taint: &Taint) -> TaintState {
    let is_managed = CAUSES
        .iter()
        .any(|(_, _, key, effect)| taint.key == *key && taint.effect == *effect);
    let is_managed = is_managed || (taint.key == UNSCHEDULABLE && taint.effect == NO_SCHEDULE);
    let (standing, because) = if is_managed {
        (Standing::Stale, "no condition requires it any more")
    } else {
        (Standing::Foreign, "set by another component; not changed")
    };
    TaintState {
        key: taint.key.clone(),
        value: taint.value.clone(),
        effect: taint.effect.clone(),
        standing,
        since: taint.time_added,
        because: because.to_owned(),
    }
}

/// The pods that `NoExecute` taints remove, in order of time; those of unknown time last.
fn removals(pods: &[Pod], taints: &[TaintState], now: Timestamp) -> Vec<Removal> {
    let acting =
        |taint: &&TaintState| taint.effect == NO_EXECUTE && taint.standing != Standing::Stale;
    let acting: Vec<&TaintState> = taints.iter().filter(acting).collect();
    let of_pod = |pod: &Pod| {
        let all = acting.iter().filter_map(|taint| {
            let (seconds, why) = stay(pod, taint)?;
            let stays = SignedDuration::from_secs(seconds);
            let at = taint
                .since
                .and_then(|since| since.saturating_add(stays).ok());
            Some(Removal {
                pod: pod.full_name(),
                taint: taint.key.clone(),
                at,
                in_seconds: at.map(|at| at.duration_since(now).as_secs_f64()),
                why,
            })
        });
        all.min_by_key(|removal| (removal.at.is_none(), removal.at))
    };
    let mut removals: Vec<Removal> = pods.iter().filter_map(of_pod).collect();
    removals.sort_by_key(|removal| (removal.at.is_none(), removal.at));
    removals
}

/// How many seconds the pod stays under this taint and why; `None` means for ever.
fn stay(pod: &Pod, taint: &TaintState) -> Option<(i64, String)> {
    let bare = Taint {
        key: taint.key.clone(),
        value: taint.value.clone(),
        effect: taint.effect.clone(),
        time_added: None,
    };
    let mut tolerations = pod.tolerations.iter();
    let toleration =
        tolerations.find(|toleration| bare.is_tolerated(std::slice::from_ref(toleration)));
    let standard = taint.key == NOT_READY || taint.key == UNREACHABLE;
    match toleration.map(|toleration| toleration.toleration_seconds) {
        Some(None) => None,
        Some(Some(seconds)) => Some((seconds.max(0), format!("it tolerates that for {seconds} s"))),
        // Static pods tolerate every taint.
        None if pod.is_static() || pod.is_mirror() => None,
        // S1-084
        None if standard && pod.returns_to_this_node() => None,
        None if standard => Some((
            DEFAULT_TOLERATION_SECONDS,
            format!("{DEFAULT_TOLERATION_SECONDS} s is the default toleration"),
        )),
        None => Some((0, "it does not tolerate that".to_owned())),
    }
}

/// How many pods are shown.
const SHOWN: usize = 20;

/// Whether the node is ready, by its lease, too.
pub(super) fn headline(node: &NodeReport) -> String {
    let heard = match &node.heartbeat {
        None => String::new(),
        Some(heartbeat) => {
            let age = duration(node.now.duration_since(heartbeat.at));
            let overdue = if heartbeat.overdue {
                format!(
                    ", longer than the {} s that a controller waits",
                    HEARTBEAT_GRACE.as_secs()
                )
            } else {
                String::new()
            };
            format!("; its lease was renewed {age} ago{overdue}")
        }
    };
    format!("Node {}: Ready is {}{heard}.", node.name, node.ready)
}

pub(super) fn taint_table(node: &NodeReport) -> Table {
    let columns = [
        Column::name("TAINT", 5),
        Column::words("EFFECT", 4),
        Column::words("STATE", 3),
        Column::words("SINCE", 1),
        Column::sentence("BECAUSE", 2),
    ];
    Table::new(columns, node.taints.iter().map(taint_row))
}

/// The page for people.
pub(super) fn page(node: &NodeReport, view: View) -> String {
    let node_line = view.sentence(&headline(node));
    let taints = if node.taints.is_empty() {
        "It has no taints, and no condition requires one.".to_owned()
    } else {
        taint_table(node).shown(view)
    };
    let read_only = node.read_only.as_ref().map(|sentence| {
        let line = view.hanging("WARNING   ", sentence);
        format!("{}\n", view.paint(Colour::Warning, &line))
    });
    let read_only = read_only.unwrap_or_default();
    format!("{node_line}\n{read_only}{taints}\n{}", removed(node, view))
}

fn taint_row(taint: &TaintState) -> Vec<String> {
    let standing = match taint.standing {
        Standing::Present | Standing::Foreign => "present",
        Standing::Missing => "about to be added",
        Standing::Expected => "expected",
        Standing::IfSilent => "unless it reports",
        Standing::Stale => "about to be removed",
    };
    vec![
        taint.key.clone(),
        taint.effect.clone(),
        standing.to_owned(),
        taint.since.map_or("-".to_owned(), moment),
        taint.because.clone(),
    ]
}

fn removed(node: &NodeReport, view: View) -> String {
    if node.removals.is_empty() {
        return "No pod is removed by a NoExecute taint; pressure never adds one.".to_owned();
    }
    let table = removal_table(node, SHOWN).shown(view);
    match node.removals.len().saturating_sub(SHOWN) {
        0 => table,
        more => format!("{table}\n... and {more} more, all of them in -o json"),
    }
}

/// The first pods that taints remove.
pub(super) fn removal_table(node: &NodeReport, most: usize) -> Table {
    let rows = node.removals.iter().take(most).map(|removal| {
        let left = match removal.at {
            None => "-".to_owned(),
            Some(at) if at <= node.now => "now".to_owned(),
            Some(at) => format!("in {}", duration(at.duration_since(node.now))),
        };
        vec![
            removal.pod.clone(),
            left,
            removal.at.map_or("-".to_owned(), moment),
            format!("{}: {}", removal.taint, removal.why),
        ]
    });
    let columns = [
        Column::name("REMOVED BY NOEXECUTE", 4),
        Column::words("WHEN", 3),
        Column::words("AT", 1),
        Column::sentence("WHY", 2),
    ];
    Table::new(columns, rows)
}
