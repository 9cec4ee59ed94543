//! Plugin tdm: nodes of a revocable zone take preemptable pods at some hours of the day (S6-214 to S6-216).

use super::{OnNode, Plugin, Tiers, Vote};
use crate::conf::{Arguments, PluginName};
use crate::session::objects::{PREEMPTABLE, ZONE, is_true};
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::fit::Refusal;
use crate::session::snapshot::ids::{JobId, TaskId};
use crate::session::snapshot::task::Status;
use evictd_batch_objects::{BUDGET_MAX_UNAVAILABLE, BUDGET_MIN_AVAILABLE, Compat, Difference};
use evictd_placement::{Cluster, MAX_SCORE, NodeId};
use evictd_pod::duration;
use hashbrown::HashMap;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The argument of a zone begins so.
const ARGUMENT: &str = "tdm.revocable-zone.";

#[derive(Debug)]
pub(super) struct Tdm {
    /// Why each zone takes no pods now.
    zones: BTreeMap<Box<str>, Result<(), String>>,
    /// The zone of each node.
    zone_of: Vec<Option<Box<str>>>,
    /// Whether shuffle may clear zones again.
    may_clear: bool,
    compat: Compat,
}

/// Seconds since midnight of `15:04`, or why it is no time, in Go's words.
fn time_of_day(text: &str) -> Result<i64, String> {
    let bad = |rest: &str, part: &str| {
        format!("parsing time {text:?} as \"15:04\": cannot parse {rest:?} as {part:?}")
    };
    let beyond = |unit: &str| format!("parsing time {text:?}: {unit} out of range");
    let digits = |text: &str| {
        let digits = text.bytes().take(2).take_while(u8::is_ascii_digit);
        digits.count()
    };
    let (hours, rest) = text.split_at(digits(text));
    let hours: i64 = hours.parse().map_err(|_| bad(text, "15"))?;
    if hours >= 24 {
        return Err(beyond("hour"));
    }
    let minutes = rest.strip_prefix(':').ok_or_else(|| bad(rest, ":"))?;
    if digits(minutes) < 2 {
        return Err(bad(minutes, "04"));
    }
    let (number, rest) = minutes.split_at(2);
    let number: i64 = number.parse().map_err(|_| bad(minutes, "04"))?;
    if number >= 60 {
        return Err(beyond("minute"));
    }
    if !rest.is_empty() {
        return Err(format!("parsing time {text:?}: extra text: {rest:?}"));
    }
    Ok(hours * 3600 + number * 60)
}

/// Why a zone with these hours takes no pods now. A zone over midnight is only open from today's begin on.
fn is_open(zone: &str, hours: &str, now: Timestamp) -> Result<(), String> {
    let mut parts = hours.trim().split('-');
    let (Some(start), Some(end), None) = (parts.next(), parts.next(), parts.next()) else {
        return Err(format!("revocable zone {hours} format error"));
    };
    let (start, end) = (time_of_day(start)?, time_of_day(end)?);
    let midnight = now.to_zoned(TimeZone::UTC).start_of_day();
    let Ok(midnight) = midnight.map(|midnight| midnight.timestamp().as_second()) else {
        return Err(format!("revocable zone {hours} format error"));
    };
    let end = if start >= end { end + 86_400 } else { end };
    let since = now.as_second() - midnight;
    if (start..=end).contains(&since) {
        return Ok(());
    }
    Err(format!("current time beyond revocable zone {zone}:{hours}"))
}

impl Tdm {
    pub(super) fn open(
        snapshot: &Snapshot,
        cluster: &Cluster,
        arguments: &Arguments,
        compat: Compat,
    ) -> Self {
        let now = snapshot.clock();
        let zones = arguments.names().filter_map(|name| {
            let zone = name.strip_prefix(ARGUMENT)?;
            let hours = arguments.text(name).unwrap_or_default();
            Some((zone.into(), is_open(zone, hours, now)))
        });
        let label = cluster.symbols().get(ZONE);
        let zone_of = snapshot.node_ids().map(|node| {
            let zone = label.and_then(|label| cluster.node(node).labels.get(label))?;
            let zone = cluster.symbols().text(zone);
            (!zone.is_empty()).then(|| zone.into())
        });
        let period = arguments.text("tdm.evict.period");
        let period = period.and_then(|text| duration::parse(text).ok());
        let period = period.unwrap_or(SignedDuration::from_mins(1));
        let cleared = snapshot.shuffled_at.get(&PluginName::Tdm);
        Self {
            zones: zones.collect(),
            zone_of: zone_of.collect(),
            may_clear: cleared.is_none_or(|at| now.duration_since(*at) >= period),
            compat,
        }
    }

    fn zone(&self, node: NodeId) -> Option<&str> {
        self.zone_of[node.index()].as_deref()
    }

    fn refusal(&self, snapshot: &Snapshot, task: TaskId, node: NodeId) -> Option<String> {
        let zone = self.zone(node)?;
        match self.zones.get(zone) {
            None => return Some(format!("revocable zone {zone} not support")),
            Some(Err(reason)) => return Some(reason.clone()),
            Some(Ok(())) => {}
        }
        let uses = snapshot.tasks[task].uses_zones;
        (!uses).then(|| "not allow to dispatch to revocable node".to_owned())
    }

    /// The first tasks of each job, as many as the job can spare. In Volcano that many leave each zone.
    fn spared(&self, snapshot: &Snapshot, tasks: impl Iterator<Item = TaskId>) -> Vec<TaskId> {
        let is_exact = self.compat.has(Difference::SpareProtectedPods);
        let mut left: HashMap<(JobId, Option<&str>), usize> = HashMap::new();
        let tasks = tasks.filter(|task| {
            let task = &snapshot.tasks[*task];
            let zone = task.node.and_then(|node| self.zone(node));
            let left = left
                .entry((task.job, zone.filter(|_| !is_exact)))
                .or_insert_with(|| spare_tasks(snapshot, task.job, is_exact));
            let spared = *left > 0;
            *left = left.saturating_sub(1);
            spared
        });
        tasks.collect()
    }
}

fn is_preemptable(snapshot: &Snapshot, job: JobId) -> bool {
    snapshot.jobs[job]
        .marks
        .get(PREEMPTABLE)
        .is_some_and(is_true)
}

/// A number, or a percentage of all, rounded up.
fn number_of(text: &str, all: i32) -> i32 {
    match text.strip_suffix('%') {
        Some(percent) => {
            let percent: i32 = percent.parse().unwrap_or(0);
            percent.saturating_mul(all).saturating_add(99) / 100
        }
        None => text.parse().unwrap_or(0),
    }
}

/// How many tasks a job can spare by the budget in its annotations. In Volcano a job with fewer tasks than its budget wants
/// spares one.
fn spare_tasks(snapshot: &Snapshot, job: JobId, is_exact: bool) -> usize {
    let job = &snapshot.jobs[job];
    let all = i32::try_from(job.tasks.len()).unwrap_or(i32::MAX);
    let running = job.count(Status::Running);
    let least = job.marks.get(BUDGET_MIN_AVAILABLE);
    let most = job.marks.get(BUDGET_MAX_UNAVAILABLE);
    let spare = match (least, most) {
        (Some(""), _) | (None, None | Some("")) => 1,
        (Some(text), _) => {
            let spare = running - number_of(text, all);
            if spare < 0 && !is_exact { 1 } else { spare }
        }
        (None, Some(text)) => {
            let ended = job.count(Status::Succeeded) + job.count(Status::Failed);
            number_of(text, all) - (all - ended - running)
        }
    };
    usize::try_from(spare).unwrap_or(0)
}

impl Plugin for Tdm {
    fn job_order(&self, snapshot: &Snapshot, one: JobId, other: JobId) -> Ordering {
        is_preemptable(snapshot, one).cmp(&is_preemptable(snapshot, other))
    }

    fn job_order_message(&self, _: &Snapshot, _: JobId, _: JobId) -> Option<String> {
        Some("its group is not preemptable, and this one's is".to_owned())
    }

    fn preemptable(
        &self,
        tiers: Tiers<'_>,
        preemptor: TaskId,
        candidates: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        let snapshot = tiers.snapshot;
        let preemptor = &snapshot.tasks[preemptor];
        // Pods that can use zones wait for them.
        if preemptor.preemptable || preemptor.uses_zones {
            return Some(Vec::new());
        }
        let candidates = candidates.iter().copied().filter(|candidate| {
            let task = &snapshot.tasks[*candidate];
            let outside = task.node.is_some_and(|node| self.zone(node).is_none());
            task.preemptable && task.status == Status::Running && outside
        });
        Some(self.spared(snapshot, candidates))
    }

    fn might_yield(&self, _: &Snapshot, _: JobId, _: JobId) -> Option<bool> {
        Some(true)
    }

    fn job_starving(&self, snapshot: &Snapshot, job: JobId) -> Option<bool> {
        let waits = snapshot.jobs[job].count(Status::Pending) > 0;
        Some(waits && !is_preemptable(snapshot, job))
    }

    fn job_pipelined(&self, snapshot: &Snapshot, job: JobId) -> Vote {
        let job = &snapshot.jobs[job];
        if job.ready() + job.pipelined() >= job.min_member {
            Vote::Permit
        } else {
            Vote::Reject
        }
    }

    fn shuffled(&self, snapshot: &Snapshot, running: &[TaskId]) -> Option<Vec<TaskId>> {
        if !self.may_clear {
            return None;
        }
        let closed = |node: NodeId| {
            let zone = self.zone(node).and_then(|zone| self.zones.get(zone));
            zone.is_some_and(Result::is_err)
        };
        let tasks = running.iter().copied().filter(|task| {
            let task = &snapshot.tasks[*task];
            task.preemptable && task.node.is_some_and(closed)
        });
        Some(self.spared(snapshot, tasks))
    }

    fn node_key(&self, snapshot: &Snapshot, task: TaskId) -> u64 {
        snapshot.tasks[task].uses_zones.into()
    }

    fn node_refusal(&self, at: OnNode<'_>) -> Option<Refusal> {
        let reason = self.refusal(at.snapshot, at.task, at.node)?;
        Some(Refusal {
            texts: vec![reason],
            unresolvable: true,
            ..Refusal::default()
        })
    }

    fn node_score(&self, at: OnNode<'_>) -> f64 {
        let fits = self.refusal(at.snapshot, at.task, at.node).is_none();
        #[expect(clippy::cast_precision_loss, reason = "it is 100")]
        let most = MAX_SCORE as f64;
        match self.zone(at.node) {
            Some(_) if fits => most,
            _ => 0.0,
        }
    }
}
