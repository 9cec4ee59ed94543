//! Publishes to the status page.

use super::{Publish, inverted::Inverted, words::configured};
use crate::delivery::Publication;
use crate::fact::{AdmissionAction, AdmissionDecision, Cycle, Decided, Fact, Terminated};
use crate::pods::{LocalPod, PodSet};
use crate::server::state::{
    AdmissionFinding, ConditionStatus, EarlyWakeup, FutileStop, LeavingStatus, ObservedStatus,
    ReturningOwner, Shared, SignalStatus, Status, ThresholdStatus,
};
use evictd_decision::{PassedOver, record::Record};
use evictd_departures::Departure;
use evictd_eviction::Returned;
use evictd_kernel::{cgroup::Hierarchies, signals::SignalState};
use evictd_signals::{NodeCondition, Observation, Signal, Threshold};
use jiff::{SignedDuration, Timestamp};
use std::sync::Arc;

/// The page is updated at most this often, faster than a person reads.
const REFRESH: SignedDuration = SignedDuration::from_millis(100);

/// How many admission decisions are shown.
const FINDINGS: usize = 10;

/// Writes the main loop's state to where the socket and HTTP servers read it.
#[derive(Debug)]
pub(crate) struct StatusPage {
    shared: Arc<Shared>,
    hierarchies: Hierarchies,
    written: Option<Timestamp>,
    pods_generation: Option<u64>,
    /// Of the filesystems, in sentences.
    layout: String,
    disk_problems: Vec<String>,
    /// The signal and the reason if a threshold is met but no pod may be evicted.
    withheld: Option<(Option<Signal>, String)>,
    withheld_shown: bool,
    usage_problem: Option<String>,
    inverted: Inverted,
    /// Pods over a limit of their own that are never evicted, as shown.
    over_limit: Vec<PassedOver>,
}

impl StatusPage {
    /// Writes to this page; the pods' cgroups are in these hierarchies.
    pub(crate) fn new(shared: Arc<Shared>, hierarchies: Hierarchies) -> Self {
        Self {
            shared,
            hierarchies,
            written: None,
            pods_generation: None,
            layout: String::new(),
            disk_problems: Vec::new(),
            withheld: None,
            withheld_shown: false,
            usage_problem: None,
            inverted: Inverted::default(),
            over_limit: Vec::new(),
        }
    }

    /// Shows the reason again whenever its signal is low, because a lasting reason is published only once.
    fn update_withheld(&mut self, cycle: &Cycle<'_>) {
        let low = |signal: Option<Signal>| {
            let mut crossed = cycle.housekeeper.first_observed();
            crossed.any(|(threshold, _)| Some(threshold.signal) == signal)
        };
        let shown = self
            .withheld
            .as_ref()
            .is_some_and(|(signal, _)| low(*signal));
        if shown != self.withheld_shown {
            self.withheld_shown = shown;
            self.pods_generation = None;
        }
    }

    /// Changes the latest decision, if it has this id.
    fn amend(&self, id: &str, change: impl FnOnce(&mut Record)) {
        self.shared.update(|status| {
            let last = status.last_decision.as_mut();
            last.filter(|last| last.id == id).map(change);
        });
    }

    fn write_layout(&mut self, cycle: &Cycle<'_>) {
        // It changes when the runtime reports the places of its files.
        let layout = cycle.layout.map(ToString::to_string).unwrap_or_default();
        if self.layout != layout {
            self.layout.clone_from(&layout);
            self.shared.update(|status| status.layout = layout);
        }
    }

    /// The number of running pods whose usage is not known. A pod that has ended may keep its cgroup for a while
    /// and does not count.
    fn unknown(&self, pods: &PodSet) -> usize {
        let listed = pods.pods.iter();
        let unbound = listed.filter(|pod| pod.cgroup.is_none() && !pod.terminal);
        let unlisted = pods
            .unknown
            .iter()
            .filter(|group| self.hierarchies.runs(&group.relative));
        unbound.count() + unlisted.count()
    }

    fn write_pods(&mut self, cycle: &Cycle<'_>) {
        let same_problem = self.usage_problem.as_deref() == cycle.usage_problem;
        let disk_problems = disk_problems(cycle);
        let same_problems = same_problem && self.disk_problems == disk_problems;
        if self.pods_generation == Some(cycle.pods.generation) && same_problems {
            return;
        }
        self.disk_problems = disk_problems;
        self.usage_problem = cycle.usage_problem.map(ToOwned::to_owned);
        self.pods_generation = Some(cycle.pods.generation);
        let pods = cycle.pods;
        let spared = |pod: &&LocalPod| cycle.housekeeper.rules().spares(pod).is_some();
        let withheld = self
            .withheld
            .iter()
            .filter(|_| self.withheld_shown)
            .map(|(_, warning)| warning.clone());
        let rejected = pods.rejected.iter().map(|rejected| {
            let message = rejected.rejection.message.trim_end();
            format!("{} is not admitted: {message}", rejected.pod)
        });
        let of_pods = pods.warnings.iter().map(ToString::to_string);
        let of_usage = self.usage_problem.iter().cloned();
        let listed = |one: &&PassedOver| {
            let mut pods = pods.pods.iter();
            pods.any(|pod| one.uid.as_deref() == Some(pod.uid.as_str()))
        };
        let over_limit = cycle.housekeeper.over_own_limit().iter().filter(listed);
        let warnings: Vec<String> = withheld
            .chain(of_pods)
            .chain(of_usage)
            .chain(self.disk_problems.iter().cloned())
            .chain(rejected)
            .chain(self.inverted.sentences())
            .chain(over_limit.map(|one| one.sentence.clone()))
            .collect();
        let unknown = self.unknown(pods);
        self.shared.update(|status| {
            status.pods.as_of = pods.as_of;
            status.pods.active = pods.pods.len();
            status.pods.unknown = unknown;
            status.pods.protected = pods.pods.iter().filter(spared).count();
            status.warnings = warnings;
        });
    }
}

impl Publish for StatusPage {
    fn publish(&mut self, fact: &Fact<'_>) {
        match fact {
            Fact::CycleEnded(cycle) => self.cycle_ended(cycle),
            Fact::Decided(decided) => self.decided(decided),
            Fact::Admitted(admission) => self.admitted(admission),
            Fact::Terminated(ended) => self.terminated(ended),
            Fact::FoundGone(ended) => self.found_gone(ended),
            Fact::Reclaimed(record) => {
                let record = Some((*record).clone());
                self.shared.update(|status| status.last_reclaim = record);
            }
            Fact::Published(publication) => self.published(publication),
            _ => {}
        }
    }
}

impl StatusPage {
    fn cycle_ended(&mut self, cycle: &Cycle<'_>) {
        self.shared.cycle_finished(cycle.now);
        if cycle.woken_by.is_notification() {
            let (by, at) = (cycle.woken_by, cycle.now);
            self.shared
                .update(|status| status.last_call = Some(EarlyWakeup { by, at }));
        }
        // Before a long sleep the page is always updated, because it will be read during the sleep.
        let recent = |written: Timestamp| {
            cycle.now.duration_since(written) < REFRESH && cycle.sleep < REFRESH.unsigned_abs()
        };
        if self.written.is_some_and(recent) {
            return;
        }
        self.written = Some(cycle.now);
        self.shared.sampled();
        self.update_withheld(cycle);
        let over_limit = cycle.housekeeper.over_own_limit();
        if self.inverted.update(cycle) || self.over_limit != over_limit {
            self.over_limit = over_limit.to_vec();
            self.pods_generation = None;
        }
        self.write_pods(cycle);
        self.write_layout(cycle);
        self.shared.update(|status| {
            status.observed = observed(cycle);
            status.woken_by = cycle.woken_by;
            status.admission.mode = cycle.admission;
            status.reclaimable = cycle.reclaimable;
            if status.paused.as_ref() != cycle.paused {
                status.paused = cycle.paused.cloned();
            }
            write_signals(status, cycle);
            write_conditions(&mut status.conditions, cycle);
            let returned = cycle.housekeeper.returned(cycle.now);
            status.returning_owners = returned.iter().map(returning).collect();
            status.leaving = cycle
                .housekeeper
                .departures()
                .iter()
                .filter_map(leaving)
                .collect();
            status.futile_stops.clear();
            let stops = cycle.housekeeper.futile_stops();
            status
                .futile_stops
                .extend(stops.map(|(signal, since, until)| FutileStop {
                    signal,
                    since,
                    until,
                }));
        });
    }

    fn decided(&mut self, decided: &Decided<'_>) {
        let decision = decided.decision;
        // Which pods are spared may have changed with the decision.
        self.pods_generation = None;
        if let Some((signal, shares)) = decision.acting_signal().zip(decision.shares) {
            self.shared.update(|status| {
                let mut signals = status.signals.iter_mut();
                if let Some(entry) = signals.find(|entry| entry.signal == signal) {
                    entry.in_no_pod = Some(shares.in_no_pod.value());
                }
            });
        }
        if decision.eviction.is_some() {
            self.withheld = None;
            let record = decided.record.clone();
            self.shared
                .update(|status| status.last_decision = Some(record));
        } else {
            // A pod that exceeds a limit of its own is shown for as long as it does.
            if decision.threshold.is_some() {
                self.withheld = Some((decision.acting_signal(), decision.no_eviction()));
            }
        }
    }

    fn admitted(&mut self, admission: &AdmissionDecision) {
        // The victim of a preemption is no new pod; its critical pod has an entry already.
        if matches!(admission.act, AdmissionAction::Leave { .. }) {
            return;
        }
        self.shared.update(|status| {
            let shown = &mut status.admission;
            shown.findings += 1;
            if shown.latest.len() == FINDINGS {
                shown.latest.remove(0);
            }
            shown.latest.push(AdmissionFinding {
                time: admission.time,
                pod: admission.pod.full_name(),
                uid: admission.pod.uid.clone(),
                action: admission.act.as_str().to_owned(),
                reason: admission.reason.clone(),
                message: admission.message.clone(),
                preempt: admission.preempt.clone(),
            });
        });
    }

    fn terminated(&mut self, ended: &Terminated<'_>) {
        let outcome = ended.outcome();
        self.amend(&ended.departure.id, |last| last.conclude(outcome));
    }

    fn found_gone(&mut self, ended: &Terminated<'_>) {
        self.terminated(ended);
    }

    fn published(&mut self, publication: &Publication) {
        let outcome = publication.outcome.record();
        self.amend(&publication.id, |last| last.published(outcome));
    }
}

fn leaving(departure: &Departure) -> Option<LeavingStatus> {
    let (waits_for, until) = departure.waits_for()?;
    Some(LeavingStatus {
        pod: departure.pod.clone(),
        uid: departure.uid.clone(),
        decision: departure.id.clone(),
        since: departure.since,
        waits_for: waits_for.to_owned(),
        until,
    })
}

fn returning(returned: &Returned) -> ReturningOwner {
    ReturningOwner {
        message: returned.sentence("this node"),
        owner: returned.owner.to_string(),
        evictions: returned.evictions,
        condition: returned.condition.as_str().to_owned(),
        keeps_away: returned.keeps_away,
        until: returned.until,
    }
}

/// Problems of the watched filesystems.
fn disk_problems(cycle: &Cycle<'_>) -> Vec<String> {
    let spares = cycle.housekeeper.rules().spares_pods_of_read_only;
    let consequence = if spares {
        "no pod is evicted for it"
    } else {
        "the kubelet's rules evict pods for it all the same"
    };
    let mut thresholds: Vec<Signal> = cycle
        .housekeeper
        .thresholds()
        .map(|one| one.signal)
        .collect();
    thresholds.sort_unstable();
    thresholds.dedup();
    let seen = &cycle.sample.observations;
    let read_only = thresholds
        .into_iter()
        .filter(|signal| seen.is_read_only(*signal));
    let read_only = read_only.map(|signal| {
        format!(
            "the filesystem of {signal} is read-only: nothing on it can be removed, and {consequence}"
        )
    });
    let of_layout = cycle.layout.and_then(|layout| layout.problem.clone());
    let waits = cycle.housekeeper.awaits_figures().map(|(signal, since)| {
        format!(
            "the decision on {signal} waits since {since:.0} for what containers have written to their layers"
        )
    });
    let all = of_layout.into_iter().chain(read_only);
    all.chain(waits).collect()
}

fn observed(cycle: &Cycle<'_>) -> ObservedStatus {
    let sample = cycle.sample;
    let left = |seen: Option<Observation>| seen.map(|seen| seen.available);
    ObservedStatus {
        mem_available_bytes: left(sample.memory.mem_available),
        working_set_available_bytes: left(sample.memory.working_set),
        swap: sample.swap,
        memory_pressure: sample.memory_pressure,
        io_pressure: sample.io_pressure,
        cpu_pressure: sample.cpu_pressure,
    }
}

fn write_signals(status: &mut Status, cycle: &Cycle<'_>) {
    for signal in Signal::ALL {
        let seen = cycle.sample.observations.get(signal);
        let mut thresholds = cycle.housekeeper.thresholds();
        let watched = thresholds.any(|threshold| threshold.signal == signal);
        let known = status
            .signals
            .iter()
            .position(|entry| entry.signal == signal);
        let index = match (known, seen) {
            (Some(index), _) => index,
            // A signal with a threshold is shown even if it is not observed; that is when it matters most.
            (None, None) if !watched => continue,
            (None, _) => {
                status.signals.push(SignalStatus::new(signal));
                status.signals.len() - 1
            }
        };
        let entry = &mut status.signals[index];
        entry.available = seen.map(|seen| seen.available);
        entry.capacity = seen.map(|seen| seen.capacity);
        // The time of the last figure stays, so that the page shows how long there has been none.
        entry.time = seen.and_then(|seen| seen.time).or(entry.time);
        entry.sleep_seconds = Some(cycle.sleep.as_secs_f64());
        entry.absent = absent(cycle, signal).filter(|_| watched).map(str::to_owned);
        let wanted = watched && entry.absent.is_none();
        entry.problem = problem(cycle, signal, wanted);
        let capacity = entry.capacity.unwrap_or(0);
        write_thresholds(&mut entry.thresholds, cycle, signal, capacity);
        let above = |threshold: &ThresholdStatus| {
            let available = threshold.available?;
            Some(available.saturating_sub(threshold.value))
        };
        entry.headroom = entry.thresholds.iter().filter_map(above).min();
    }
}

fn problem(cycle: &Cycle<'_>, signal: Signal, wanted: bool) -> Option<String> {
    let health = cycle.sample.health(signal);
    match health.state {
        SignalState::Absent if wanted => Some("it has no source on this node".to_owned()),
        SignalState::Absent | SignalState::Observed => None,
        // On a busy machine an answer may come slightly late; that is not a problem.
        SignalState::Stale if !health.hangs => None,
        SignalState::Failed => Some("its source cannot be read".to_owned()),
        SignalState::Rejected => Some("its source gives impossible figures".to_owned()),
        SignalState::Stale => Some("its source does not answer".to_owned()),
    }
}

/// Why a node may normally lack a signal that has a threshold.
fn absent(cycle: &Cycle<'_>, signal: Signal) -> Option<&'static str> {
    if cycle.sample.health(signal).state != SignalState::Absent {
        return None;
    }
    match signal {
        Signal::AllocatableMemoryAvailable => {
            Some("none here: the pods' cgroup has no limit below the node's memory")
        }
        Signal::AllocatablePidAvailable => Some(
            "none here: the pods' cgroup has no limit on process ids below the node's number of them",
        ),
        Signal::SwapAvailable => Some("none here: there is no swap"),
        Signal::NodefsInodesFree | Signal::ImagefsInodesFree | Signal::ContainerfsInodesFree => {
            let bytes = of_same_filesystem(signal);
            // A filesystem that does not answer at all is a problem and not one without inodes.
            let answers = cycle.sample.health(bytes).state == SignalState::Observed;
            answers.then_some("none here: the filesystem makes inodes on demand")
        }
        _ => None,
    }
}

const fn of_same_filesystem(inodes: Signal) -> Signal {
    match inodes {
        Signal::ImagefsInodesFree => Signal::ImagefsAvailable,
        Signal::ContainerfsInodesFree => Signal::ContainerfsAvailable,
        _ => Signal::NodefsAvailable,
    }
}

fn write_thresholds(
    entries: &mut Vec<ThresholdStatus>,
    cycle: &Cycle<'_>,
    signal: Signal,
    capacity: i64,
) {
    let housekeeper = cycle.housekeeper;
    let of_signal = || {
        housekeeper
            .thresholds()
            .filter(move |threshold| threshold.signal == signal)
    };
    let kind = |threshold: &Threshold| if threshold.is_hard() { "hard" } else { "soft" };
    let value = |threshold: &Threshold| threshold.value.at(capacity).value();
    // A new configuration can have other thresholds, but the same number of them.
    let as_before = |(entry, threshold): (&ThresholdStatus, &Threshold)| {
        entry.kind == kind(threshold)
            && entry.value == value(threshold)
            && entry.grace_period_seconds == threshold.grace_period.as_secs()
            && (!signal.is_pressure() || entry.configured == configured(threshold))
    };
    let known = entries.len() == of_signal().count();
    if !known || !entries.iter().zip(of_signal()).all(as_before) {
        entries.clear();
        entries.extend(of_signal().map(|threshold| ThresholdStatus {
            kind: kind(threshold).to_owned(),
            value: value(threshold),
            configured: configured(threshold),
            grace_period_seconds: threshold.grace_period.as_secs(),
            ..ThresholdStatus::default()
        }));
    }
    for (entry, threshold) in entries.iter_mut().zip(of_signal()) {
        let mut crossed = housekeeper.first_observed();
        entry.since = crossed
            .find(|(met, _)| *met == threshold)
            .map(|(_, since)| since);
        entry.met = entry.since.is_some();
        let seen = cycle.sample.observations.of(signal, threshold.value);
        entry.available = seen.map(|seen| seen.available);
        entry.held_until = seen
            .filter(|_| entry.met)
            .and_then(|seen| threshold.held_until(&seen))
            .map(|until| until.value());
    }
}

fn write_conditions(entries: &mut Vec<ConditionStatus>, cycle: &Cycle<'_>) {
    if entries.is_empty() {
        entries.extend(NodeCondition::ALL.map(|condition| ConditionStatus {
            condition: condition.as_str().to_owned(),
            raised: false,
            since: Some(cycle.now),
        }));
    }
    for (entry, condition) in entries.iter_mut().zip(NodeCondition::ALL) {
        let raised = cycle.housekeeper.conditions().any(|held| held == condition);
        if entry.raised != raised {
            entry.raised = raised;
            entry.since = Some(cycle.now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Waiting;
    use evictd_kernel::{cgroup::PodCgroup, clock::Clock};
    use evictd_pod::{Pod, wire};
    use std::fs;

    #[test]
    fn pods_that_have_ended_are_not_of_unknown_usage() {
        let top = tempfile::tempdir().unwrap();
        for (group, procs) in [("runs", "7\n"), ("ended", "")] {
            let group = top.path().join("memory").join(group);
            fs::create_dir_all(&group).unwrap();
            fs::write(group.join("cgroup.procs"), procs).unwrap();
        }
        let hierarchies = Hierarchies::detect(top.path()).unwrap();
        let (shared, _questions) = Shared::new(
            Clock::start(),
            Status::default(),
            top.path().to_owned(),
            Waiting::default(),
        );
        let pod = |phase: &str| {
            let text = format!(r#"{{"status":{{"phase":"{phase}"}}}}"#);
            let pod: wire::Pod = serde_json::from_str(&text).unwrap();
            Pod::from_wire(pod)
        };
        let group = |name: &str| PodCgroup {
            uid: name.to_owned(),
            relative: name.into(),
        };
        let pods = PodSet {
            pods: ["Running", "Failed", "Succeeded"]
                .map(|phase| LocalPod::new(pod(phase), None))
                .into(),
            unknown: ["runs", "ended", "removed"].map(group).into(),
            ..PodSet::default()
        };
        assert_eq!(StatusPage::new(shared, hierarchies).unknown(&pods), 2);
    }
}
