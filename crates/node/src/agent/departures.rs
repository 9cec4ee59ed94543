//! Pods that must leave: carries out decisions and the commands of `Departures`, and reports events to it.

use super::{
    Agent, contents, notes,
    terminations::{Ended, Target, TerminationEvent},
    unfinished::Unfinished,
};
use crate::{
    config,
    delivery::{DeliveryOutcome, Notice, Progress, Publication},
    evict::EvictError,
    fact::{AdmissionAction, AdmissionDecision, Decided, Fact, Terminated},
    history::PastEviction,
    kept::Kept,
    pause::Pause,
    pods::Rejection,
};
use evictd_admission::critical;
use evictd_decision::{
    Decision,
    record::{self, Record},
};
use evictd_departures::{
    Command, Conclusion, Departure, Ending, Event, NoticeState, Planned, PodState, Purpose,
    Question, RemainingUsage,
};
use evictd_kernel::kill::{Termination, Victim};
use evictd_pod::Pod;
use jiff::{SignedDuration, Timestamp};
use std::{path::Path, sync::Arc, time::Duration};
use tracing::{error, info};

/// The longest that an eviction for a hard threshold waits for the API server's answer.
const HARD_ANSWER_TIMEOUT: Duration = Duration::from_millis(50);

/// How long to wait for pending notices when the agent stops.
const NOTICES_WAIT: Duration = Duration::from_secs(1);

impl Agent {
    /// Writes the decision to disk first, so that the next run can finish it; then terminates the pod; then
    /// publishes.
    pub(super) async fn carry_out(&mut self, decision: Decision, measured_at: Option<Timestamp>) {
        let dry_run = self.terminations_off();
        // A decision that terminates a pod is published always; the others only when they are new.
        if (decision.eviction.is_none() || dry_run) && !self.dedup.is_new(&decision) {
            return;
        }
        self.decisions += 1;
        let id = format!("{:x}-{}", decision.time.as_millisecond(), self.decisions);
        let leaving = self.departure(&id, &decision).filter(|_| !dry_run);
        let notice = leaving.as_ref().and_then(|(_, notice)| notice.clone());
        let paused = self.ports.pauses.in_force().cloned();
        let record = Record {
            dry_run,
            paused: paused.as_ref().map(Pause::record),
            woken_by: Some(self.woken_by.as_str().into()),
            boot_id: Some(self.ports.boot_id.clone()),
            publication: notice.map(record::Publication::waiting),
            ..Record::of_decision(id, &decision)
        };
        let acted_at = self.clock.now();
        let decided = Decided {
            decision: &decision,
            record: &record,
            measured_at,
            acted_at,
            paused: paused.as_ref(),
            asked: leaving.as_ref().is_some_and(|(one, _)| one.asked),
            terminates: leaving.is_some(),
        };
        // The history has the decision before the kill, so that a crash in between loses nothing.
        self.ports.publishers.publish(&Fact::Deciding(&decided));
        if let Some((departure, notice)) = leaving {
            self.dedup.note_evicted(decision.signal);
            self.begin_departure(departure, notice);
            // The termination is a task: it sends its first signal before the other publishers have their turn.
            tokio::task::yield_now().await;
        }
        self.ports.publishers.publish(&Fact::Decided(&decided));
    }

    /// The departure that this decision starts, and the notice to the API server; `None` if the decision evicts no
    /// pod.
    fn departure(&self, id: &str, decision: &Decision) -> Option<(Departure, Option<Notice>)> {
        let (now, eviction) = (decision.time, decision.eviction.as_ref()?);
        let set = self.active.set();
        let pod = set.pods.get(eviction.index)?;
        let cgroup = pod.cgroup.as_ref()?;
        let asked = u64::try_from(eviction.grace_period_seconds).unwrap_or(0);
        // A kubelet never kills at once, so with its rules there is a shortest grace period.
        let grace = Duration::from_secs(asked).max(self.behaviour.least_grace);
        let acting = decision.threshold.as_ref();
        let (crossed_at, clear_at) = acting.map_or((now, now), |acting| {
            (
                acting.first_observed_at,
                self.clear[acting.threshold.signal],
            )
        });
        let purpose = Purpose::Eviction {
            cause: decision.kind,
            signal: decision.signal.to_owned(),
            crossed_at,
            clear_at,
        };
        let name = (id.to_owned(), eviction.pod.clone(), pod.uid.clone());
        let terminations = &self.ports.terminations;
        let target = Target {
            pod,
            unlisted: self.active.is_unlisted(&pod.uid),
        };
        let notice = terminations.notice(id, decision, target, grace);
        let grace = SignedDuration::try_from(grace).unwrap_or(SignedDuration::MAX);
        let mut departure = Departure::new(name, purpose, now, grace);
        departure.cgroup = Some(cgroup.relative.clone());
        departure.owner = decision.owner.as_ref().and_then(|counted| {
            let condition = decision.acting_signal()?.condition()?;
            Some((counted.owner.clone(), condition))
        });
        departure.asked = notice.is_none() && terminations.asks(decision, target);
        if notice.is_some() {
            departure.notice_state = NoticeState::Pending;
        }
        terminations.hooks.allow(&mut departure, &self.housekeeper);
        Some((departure, notice))
    }

    /// Begins a departure that has been written to disk; `notice` informs the API server of it.
    pub(super) fn begin_departure(&mut self, departure: Departure, notice: Option<Notice>) {
        self.ports.terminations.keep_notice(&departure.id, notice);
        self.report(Event::Begin(Box::new(departure)));
    }

    /// Reports an event of a departure, and carries out the commands that follow.
    pub(super) fn report(&mut self, event: Event) {
        let commands = self.housekeeper.on_event(self.clock.now(), event);
        self.run_commands(commands);
    }

    pub(super) fn run_commands(&mut self, commands: Vec<Command>) {
        for command in commands {
            match command {
                Command::Terminate { uid, left, again } => self.terminate(&uid, left, again),
                Command::CutGrace { uid } => self.cut_grace(&uid),
                Command::EndHook { uid } => self.ports.terminations.end_hook(&uid),
                Command::SendNotice { uid } => self.send_notice(&uid),
                Command::Withdraw { uid, why } => self.ports.terminations.withdraw(&uid, why),
                Command::Preempt(planned) => self.preempt(planned),
                Command::Conclude {
                    departure,
                    conclusion,
                } => self.conclude(&departure, conclusion),
                Command::Admit { uid } => self.admission.admit_unchecked(&uid),
            }
        }
    }

    fn terminate(&mut self, uid: &str, left: SignedDuration, again: bool) {
        let Some(departure) = self.housekeeper.departures().get(uid).cloned() else {
            return;
        };
        let Some(cgroup) = departure.cgroup.clone() else {
            return;
        };
        let victim = Victim {
            uid: uid.to_owned(),
            cgroup,
            sandbox: None,
        };
        let grace = left.max(SignedDuration::ZERO).unsigned_abs();
        if again {
            notes::repeated(&departure);
            if let Purpose::Eviction { .. } = departure.purpose {
                self.ports.publishers.publish(&Fact::Restarted);
            }
            self.ports.terminations.begin_again(victim, grace);
        } else {
            let answer_timeout = self.answer_timeout(&departure);
            let kubelet = !self.ports.allocatable.is_machine();
            let request = contents::request(self.active.listed(uid), self.behaviour.command_lines);
            let terminations = &mut self.ports.terminations;
            let timing = (answer_timeout, kubelet);
            terminations.begin(&departure, (victim, request), grace, timing);
        }
    }

    fn cut_grace(&mut self, uid: &str) {
        self.ports.terminations.cut_grace(uid);
        if let Some(departure) = self.housekeeper.departures().get(uid) {
            notes::cut(departure);
        }
    }

    /// Informs the API server about a pod without processes to terminate.
    fn send_notice(&mut self, uid: &str) {
        if let Some(departure) = self.housekeeper.departures().get(uid) {
            self.ports.terminations.send_notice(&departure.id);
        }
    }

    /// A decision of an earlier run is finished without a termination.
    fn conclude(&mut self, departure: &Departure, conclusion: Conclusion) {
        let now = self.clock.now();
        let id = departure.id.clone();
        self.ports.terminations.conclude(&id);
        let (ended, notice_pending) = match conclusion {
            Conclusion::Gone => (Some(Ok(Termination::not_begun())), false),
            Conclusion::StillRuns {
                outcome_missing,
                notice_pending,
            } => (
                outcome_missing.then_some(Err(EvictError::StillRuns)),
                notice_pending,
            ),
        };
        if notice_pending {
            self.ports.terminations.drop_notice(&id);
            self.published(&Publication {
                id,
                pod: departure.pod.clone(),
                uid: departure.uid.clone(),
                outcome: DeliveryOutcome::NotPublished(evictd_departures::STILL_RUNS.to_owned()),
            });
        }
        if let Some(result) = ended {
            let ended = Terminated {
                now,
                departure,
                result: &result,
                hook: None,
                contents: None,
            };
            self.ports.publishers.publish(&match result {
                Ok(_) => Fact::FoundGone(&ended),
                Err(_) => Fact::Terminated(&ended),
            });
        }
    }

    /// Handles an event of a termination. Returns the error if it will affect every other pod too.
    pub(super) fn note_termination(&mut self, event: TerminationEvent) -> Option<EvictError> {
        match event {
            TerminationEvent::Ended(ended) => self.note_ended(*ended),
            TerminationEvent::Begins(uid, contents) => {
                if let Some(departure) = self.housekeeper.departures().get(&uid) {
                    let contents = contents.as_deref();
                    let begins = Fact::Terminating(departure, contents);
                    self.ports.publishers.publish(&begins);
                }
                None
            }
            TerminationEvent::HookEnded(uid, hook) => {
                if let Some(departure) = self.housekeeper.departures().get(&uid) {
                    notes::hook_ended(departure, &hook);
                }
                self.report(Event::HookEnded { uid });
                None
            }
            TerminationEvent::Notice(progress) => {
                self.note_progress(progress);
                None
            }
        }
    }

    /// Handles the end of a termination. Returns the error if it will affect every other pod too.
    fn note_ended(&mut self, ended: Ended) -> Option<EvictError> {
        let now = self.clock.now();
        let Ended {
            uid,
            again,
            result,
            hook,
            contents,
        } = ended;
        let departure = self.housekeeper.departures().get(&uid).cloned()?;
        let ending = match &result {
            Ok(departure) if let Some(at) = departure.gone_at => Ending::Gone { at },
            Err(EvictError::Blocked { again, .. }) => {
                self.ports.terminations.note_blocked(now);
                Ending::Blocked {
                    again: SignedDuration::try_from(*again).unwrap_or(SignedDuration::MAX),
                }
            }
            _ => Ending::Failed,
        };
        let gone = matches!(ending, Ending::Gone { .. });
        self.report(Event::Ended { uid, ending });
        self.refresh();
        if again {
            if let Err(error) = &result {
                error!("pod {} was not terminated again: {error}", departure.pod);
            }
            return None;
        }
        if gone && matches!(departure.purpose, Purpose::Eviction { .. }) {
            self.ports.terminations.note_allowed();
            notes::waits_for_files(&departure);
        }
        let ended = Terminated {
            now,
            departure: &departure,
            result: &result,
            hook: hook.as_ref(),
            contents: contents.as_deref(),
        };
        self.ports.publishers.publish(&Fact::Terminated(&ended));
        self.note_return(&departure, &result);
        // Other errors concern one pod; a missing permission makes the agent useless for all.
        result.err().filter(EvictError::is_not_permitted)
    }

    /// Checks pods that have ended: whether they run again, their remaining usage, and decisions that an earlier run
    /// did not finish. With `all`, regardless of when they were last checked.
    pub(super) fn check_departures(&mut self, now: Timestamp, all: bool) {
        // Tasks send signals by themselves; the state machine learns of each SIGKILL here.
        for uid in self.ports.terminations.killed() {
            self.report(Event::Killed { uid });
        }
        let departures = self.housekeeper.departures();
        let questions = departures.questions(now, all);
        if questions.is_empty() {
            return;
        }
        let rejected = |question: &Question| {
            let departure = departures.get(&question.uid);
            departure.is_some_and(|one| matches!(one.purpose, Purpose::Rejection { .. }))
        };
        // A rejected pod gets its cgroup only when it starts.
        if questions.iter().any(rejected) {
            self.update_pods(true);
        }
        let mut pod_states: Vec<PodState> = questions
            .iter()
            .map(|question| {
                self.active
                    .pod_state(question, self.ports.terminations.evictor())
            })
            .collect();
        for (pod_state, question) in pod_states.iter_mut().zip(&questions) {
            let cgroup = pod_state.cgroup.as_ref().filter(|_| question.remaining);
            let reader = &mut self.ports.usage;
            let for_disk = self.housekeeper.departures().get(&question.uid);
            let for_disk = for_disk.is_some_and(|one| one.purpose.is_for_disk());
            let pod = self.active.listed(&question.uid).filter(|_| for_disk);
            pod_state.remaining = cgroup.map(|cgroup| RemainingUsage {
                files_are_gone: pod.and_then(|pod| reader.files_are_gone(now, pod)),
                ..reader.remaining(&pod_state.uid, cgroup)
            });
        }
        self.report(Event::Observed(pod_states));
        self.refresh();
    }

    /// Resumes the decisions that an earlier run did not finish.
    pub(super) fn resume_unfinished(&mut self, unfinished: Vec<Unfinished>) {
        for one in unfinished {
            let (mut decision, notice) =
                one.decision(&self.ports.boot_id, self.behaviour.least_grace);
            let departure = &mut decision.departure;
            departure.asked = departure.notice_state == NoticeState::NotNeeded
                && self.ports.terminations.asked(departure);
            info!(
                EVICTD_DECISION_ID = departure.id,
                EVICTD_POD = departure.pod,
                EVICTD_POD_UID = departure.uid,
                "the decision about {} was not finished; it is continued",
                departure.pod
            );
            self.ports.terminations.resume(&departure.id);
            if let (Some(notice), Purpose::Rejection { .. }) = (&notice, &departure.purpose) {
                let rejection = Rejection {
                    reason: notice.reason.clone(),
                    message: notice.message.clone(),
                };
                self.admission
                    .restore_rejection(notice.uid.clone(), rejection);
            }
            self.ports.terminations.keep_notice(&departure.id, notice);
            self.report(Event::Resume(Box::new(decision)));
        }
    }

    /// Restores the state of an earlier run, as far as it still holds now.
    pub(super) fn restore(&mut self, kept: &Kept) {
        let now = self.clock.now();
        for (condition, held) in kept.conditions() {
            if self.housekeeper.restore(now, condition, held.seen) {
                self.admission.restore(condition, held.since.min(now));
                tracing::info!(
                    EVICTD_CONDITION = condition.as_str(),
                    "{condition} holds, as before this start: its cause was last seen at {:.0}",
                    held.seen
                );
            }
        }
        if self.behaviour.admission != config::Admission::Reject {
            return;
        }
        for kept in kept.rejections() {
            let departure = kept.departure();
            let uid = departure.uid.clone();
            // A rejection with a pending notice continues from the history.
            let goes_on = self.housekeeper.departures().is_rejected(&uid);
            let Purpose::Rejection { conditions } = &departure.purpose else {
                continue;
            };
            let mut held = conditions.iter();
            let is_over = !conditions.is_empty() && !held.any(|one| self.housekeeper.presses(*one));
            if goes_on || is_over {
                continue;
            }
            self.admission.restore_rejection(uid, kept.rejection());
            self.report(Event::Begin(Box::new(departure)));
        }
    }

    /// Evictions before this start, oldest first.
    pub(crate) fn remember(&mut self, past: &[PastEviction]) {
        for eviction in past {
            self.housekeeper
                .evicted(eviction.time, &eviction.owner, eviction.condition);
        }
    }

    /// Counts an eviction once the pod has ended; a pod that could not be terminated does not count.
    fn note_return(&mut self, departure: &Departure, result: &Result<Termination, EvictError>) {
        let gone = result.as_ref().ok().and_then(|gone| gone.gone_at);
        let Some((owner, condition)) = departure.owner.as_ref().filter(|_| gone.is_some()) else {
            return;
        };
        let time = departure.since;
        let Some(returned) = self.housekeeper.evicted(time, owner, *condition) else {
            return;
        };
        self.ports
            .publishers
            .publish(&Fact::Returned(time, &returned));
    }

    /// How long to wait for the API server: a quarter of the time until the resource is exhausted at the present
    /// rate.
    fn answer_timeout(&self, departure: &Departure) -> Duration {
        let signal = departure.purpose.signal();
        let forecast = self.housekeeper.forecast();
        let left = signal.and_then(|signal| forecast.exhausted_in(departure.since, signal));
        left.map_or(HARD_ANSWER_TIMEOUT, |left| {
            HARD_ANSWER_TIMEOUT.min(left.unsigned_abs() / 4)
        })
    }

    /// Waits for pending notices. Those without a result by then stay in the history for the next start.
    pub(super) async fn close_cluster(&mut self) {
        // Detached first: what is reported below must not begin another notice.
        let Some(mut cluster) = self.ports.terminations.close_cluster() else {
            return;
        };
        let all_published = async {
            while cluster.delivery_queue.pending_count() > 0
                && let Some(progress) = cluster.publications.recv().await
            {
                self.note_progress(progress);
            }
        };
        if tokio::time::timeout(NOTICES_WAIT, all_published)
            .await
            .is_err()
        {
            tracing::warn!(
                "the API server has not confirmed {} evictions yet; the next start reports them again",
                cluster.delivery_queue.pending_count()
            );
        }
        // Answers that came in the last moment are recorded, and need not be repeated by the next start.
        while let Ok(progress) = cluster.publications.try_recv() {
            self.note_progress(progress);
        }
    }

    fn note_progress(&mut self, progress: Progress) {
        match progress {
            Progress::Accepted { id } => self.report(Event::NoticeAccepted { id }),
            Progress::Closed(publication) => self.published(&publication),
        }
    }

    fn published(&mut self, publication: &Publication) {
        let sent = !matches!(publication.outcome, DeliveryOutcome::NotPublished(_));
        let id = publication.id.clone();
        self.report(Event::NoticeClosed { id, sent });
        self.ports.publishers.publish(&Fact::Published(publication));
    }

    /// Carries out the decision about a new pod.
    pub(super) fn carry_out_admission(&mut self, decision: AdmissionDecision) {
        match decision.act {
            AdmissionAction::Reject => self.reject(decision),
            AdmissionAction::Preempt => self.plan_preemption(decision),
            AdmissionAction::Report | AdmissionAction::Leave { .. } => {
                self.publish_admission(&decision);
            }
        }
    }

    fn publish_admission(&mut self, decision: &AdmissionDecision) {
        self.ports.publishers.publish(&Fact::Admitted(decision));
    }

    /// Writes the decision to disk, so that the next run can finish it if this one ends now.
    fn write_intent(&mut self, decision: &AdmissionDecision) {
        self.ports.publishers.publish(&Fact::Admitting(decision));
    }

    /// Rejects a pod: publishes its status and the decision, and terminates its processes.
    fn reject(&mut self, mut decision: AdmissionDecision) {
        decision.grace = self.hard_grace();
        decision.boot_id.clone_from(&self.ports.boot_id);
        decision.notice = self.ports.terminations.notice_of(&decision, None);
        let cgroup = self.active.cgroup_of(&decision.pod.uid).map(Path::to_owned);
        let hierarchies = &self.ports.terminations.evictor().hierarchies;
        decision.ends = cgroup
            .as_ref()
            .is_some_and(|cgroup| hierarchies.runs(cgroup));
        self.write_intent(&decision);
        let conditions = decision.conditions.clone();
        let purpose = Purpose::Rejection { conditions };
        let mut departure = decision.departure(purpose, cgroup);
        departure.runs = decision.ends;
        let notice = decision.notice.take();
        self.begin_departure(departure, notice);
        self.publish_admission(&decision);
    }

    fn hard_grace(&self) -> Duration {
        let seconds = self.housekeeper.rules().hard_grace_period_seconds;
        let grace = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        grace.max(self.behaviour.least_grace)
    }

    /// Admits a critical pod: its victims are terminated from now on, one after the other.
    fn plan_preemption(&mut self, decision: AdmissionDecision) {
        self.publish_admission(&decision);
        let planned = decision.victims.into_iter().map(|uid| Planned {
            uid,
            preemptor: decision.pod.uid.clone(),
            lacks: decision.lacks.clone(),
        });
        self.report(Event::Plan(planned.collect()));
    }

    /// Preempts the next victim (S2-016). A victim that cannot be terminated is skipped, and the critical pod stays
    /// admitted (S2-019).
    fn preempt(&mut self, planned: Planned) {
        let set = Arc::clone(self.active.set());
        let find = |uid: &str| set.pods.iter().find(|pod| pod.uid == uid);
        let both = find(&planned.uid).zip(find(&planned.preemptor));
        let cgroup = self.active.cgroup_of(&planned.uid).map(Path::to_owned);
        match (both, cgroup) {
            (Some((pod, preemptor)), Some(cgroup)) => {
                self.begin_preemption((pod, preemptor, planned.lacks), &cgroup);
                return;
            }
            (Some((pod, preemptor)), None) => tracing::error!(
                EVICTD_POD = pod.full_name(),
                EVICTD_POD_UID = pod.uid,
                "{pod} cannot be preempted for {preemptor}: no cgroup of it is known"
            ),
            // The victim has ended without evictd.
            (None, _) => {}
        }
        self.housekeeper.departures_mut().skip_planned();
        self.report(Event::Next);
    }

    fn begin_preemption(&mut self, who: (&Pod, &Pod, String), cgroup: &Path) {
        let least_grace = self.behaviour.least_grace;
        let boot_id = &self.ports.boot_id;
        let mut decision = self
            .admission
            .preemption(self.clock.now(), who, (least_grace, boot_id));
        let terminations = &self.ports.terminations;
        decision.notice = terminations.notice_of(&decision, Some(critical::CONDITION_MESSAGE));
        self.write_intent(&decision);
        let resource = decision.lacks.clone();
        let departure =
            decision.departure(Purpose::Preemption { resource }, Some(cgroup.to_owned()));
        let notice = decision.notice.take();
        self.begin_departure(departure, notice);
        self.publish_admission(&decision);
    }
}
