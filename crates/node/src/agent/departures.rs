//! Carries out the commands of `Departures`, and reports events to it.

use super::{Agent, active::Place, terminations::Ended, unfinished::Unfinished};
use crate::evict::EvictError;
use crate::{
    delivery::{DeliveryOutcome, Notice, Publication},
    fact::{Fact, Terminated},
    pods::Rejection,
};
use evictd_eviction::{
    NodeCondition,
    departures::{
        CLEANUP_TIMEOUT, Command, Conclusion, Departure, Departures, Ending, Event, NoticeState,
        PodState, Purpose, Question, RemainingUsage,
    },
};
use evictd_kernel::kill::Victim;
use jiff::{SignedDuration, Timestamp};
use std::path::Path;
use tracing::{error, info, warn};

impl Agent {
    /// Begins a departure that has been written to disk; `notice` informs the API server of it.
    pub(super) fn begin_departure(&mut self, departure: Departure, notice: Option<Notice>) {
        if let Some(notice) = notice {
            self.notices.insert(departure.id.clone(), notice);
        }
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
                Command::SendNotice { uid } => self.send_notice(&uid),
                Command::Withdraw { uid, why } => self.withdraw(&uid, why),
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
            let why = match departure.purpose {
                Purpose::Rejection { .. } => {
                    "was started although it was not admitted; it is terminated"
                }
                _ => "was started again before its status was published; it is terminated again",
            };
            warn!(
                EVICTD_DECISION_ID = departure.id,
                EVICTD_POD = departure.pod,
                EVICTD_POD_UID = uid,
                "{} {why}",
                departure.pod
            );
            if let Purpose::Eviction { .. } = departure.purpose {
                self.ports.publishers.publish(&Fact::Restarted);
            }
            let evictor = std::sync::Arc::new(self.local_evictor());
            self.terminations.begin(evictor, victim, grace, again);
        } else {
            self.start_termination(&departure, victim, grace);
        }
    }

    fn cut_grace(&mut self, uid: &str) {
        self.terminations.cut_grace(uid);
        let Some(departure) = self.housekeeper.departures().get(uid) else {
            return;
        };
        let pod = &departure.pod;
        if departure.purpose.is_by_kubelet() {
            warn!(
                EVICTD_POD = pod,
                EVICTD_POD_UID = uid,
                "its kubelet is ending {pod}, too late for a hard threshold: its signal would be exhausted before"
            );
        } else {
            warn!(
                EVICTD_DECISION_ID = departure.id,
                EVICTD_POD = pod,
                EVICTD_POD_UID = uid,
                "a hard threshold is crossed: the grace period of {pod} ends now"
            );
        }
    }

    /// Informs the API server about a pod without processes to terminate.
    fn send_notice(&mut self, uid: &str) {
        let departures = self.housekeeper.departures();
        let notice = departures
            .get(uid)
            .and_then(|departure| self.notices.remove(&departure.id));
        if let (Some(notice), Some(cluster)) = (notice, &self.ports.cluster) {
            // The delivery queue reports the result.
            if self.unfinished.remove(&notice.id) {
                drop(cluster.delivery_queue.submit_again(notice));
            } else {
                drop(cluster.delivery_queue.submit(notice));
            }
        }
    }

    fn withdraw(&self, uid: &str, why: &str) {
        if let Some(cluster) = &self.ports.cluster {
            cluster.delivery_queue.withdraw(uid, why);
        }
    }

    /// A decision of an earlier run is finished without a termination.
    fn conclude(&mut self, departure: &Departure, conclusion: Conclusion) {
        let now = self.clock.now();
        let id = departure.id.clone();
        self.unfinished.remove(&id);
        let (ended, notice_pending) = match conclusion {
            Conclusion::Gone => (
                Some(Ok(evictd_kernel::kill::Termination::not_begun())),
                false,
            ),
            Conclusion::StillRuns {
                outcome_missing,
                notice_pending,
            } => (
                outcome_missing.then_some(Err(EvictError::StillRuns)),
                notice_pending,
            ),
        };
        if notice_pending {
            self.notices.remove(&id);
            self.published(&Publication {
                id,
                pod: departure.pod.clone(),
                uid: departure.uid.clone(),
                outcome: DeliveryOutcome::NotPublished(
                    evictd_eviction::departures::STILL_RUNS.to_owned(),
                ),
            });
        }
        if let Some(result) = ended {
            let ended = Terminated {
                now,
                departure,
                result: &result,
            };
            self.ports.publishers.publish(&match result {
                Ok(_) => Fact::FoundGone(&ended),
                Err(_) => Fact::Terminated(&ended),
            });
        }
    }

    /// Handles the end of a termination. Returns the error if it will affect every other pod too.
    pub(super) fn note_ended(&mut self, ended: Ended) -> Option<EvictError> {
        let now = self.clock.now();
        let Ended { uid, again, result } = ended;
        let departure = self.housekeeper.departures().get(&uid).cloned()?;
        let ending = match &result {
            Ok(departure) if let Some(at) = departure.gone_at => Ending::Gone { at },
            Err(EvictError::Blocked { again, .. }) => {
                self.note_blocked(now);
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
            self.note_allowed();
            log_wait(&departure);
        }
        let ended = Terminated {
            now,
            departure: &departure,
            result: &result,
        };
        self.ports.publishers.publish(&Fact::Terminated(&ended));
        self.note_return(&departure, &result);
        result.err().filter(EvictError::is_not_permitted)
    }

    /// Checks pods that have ended: whether they run again, their remaining usage, and decisions that an earlier run
    /// did not finish. With `all`, regardless of when they were last checked.
    pub(super) fn check_departures(&mut self, now: Timestamp, all: bool) {
        for uid in self.terminations.killed() {
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
            .map(|question| self.pod_state(question))
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

    fn pod_state(&self, question: &Question) -> PodState {
        let uid = &question.uid;
        let place = self.active.place_of(uid);
        let unsure = place == Place::Unsure;
        let rejected = || self.active.cgroup_of(uid).map(Path::to_owned);
        let cgroup = match place {
            Place::In(cgroup) => Some(cgroup),
            Place::Nowhere | Place::Unsure => rejected().or_else(|| question.cgroup.clone()),
        };
        let evictor = &self.ports.evictor;
        let runs = cgroup.as_ref().map(|cgroup| evictor.runs(cgroup));
        let older = || {
            let (time, cgroup) = question.older_than.zip(cgroup.as_ref())?;
            let oldest = evictor.oldest_process(cgroup)?;
            Some(oldest <= time)
        };
        PodState {
            uid: uid.clone(),
            runs: runs.unwrap_or(Some(false)),
            listed: self.active.is_listed(uid),
            is_admitted: self.active.is_in(uid),
            terminal: self.active.has_ended(uid),
            unsure,
            older: older().unwrap_or(false),
            remaining: None,
            cgroup,
        }
    }

    /// Checks whether the kubelet has begun to evict a pod of the previous set. That counts like an eviction of
    /// evictd, so that no second pod is killed for the same shortage.
    pub(super) fn note_kubelet_evictions(&mut self, now: Timestamp, next: &crate::pods::PodSet) {
        let before = std::sync::Arc::clone(self.active.set());
        for uid in &next.evicted {
            if self.active.was_evicted_by_kubelet(uid)
                || self.housekeeper.departures().get(uid).is_some()
            {
                continue;
            }
            let Some(pod) = before.pods.iter().find(|pod| pod.uid == *uid) else {
                continue;
            };
            info!(
                EVICTD_POD = pod.full_name(),
                EVICTD_POD_UID = uid,
                "the kubelet evicts {pod}; no other pod is evicted until its resources are free"
            );
            if let Some(cgroup) = &pod.cgroup {
                let names = (pod.full_name(), uid.clone());
                let cgroup = cgroup.relative.clone();
                let departure = Departures::kubelet_eviction(now, names, cgroup);
                self.report(Event::Begin(Box::new(departure)));
            }
        }
    }

    /// Tracks pods that are no longer listed but still run: their kubelet has their grace period to end them.
    pub(super) fn note_deleted(&mut self, next: &crate::pods::PodSet) {
        for still_running in &next.still_running {
            let (pod, uid) = (still_running.pod.full_name(), still_running.pod.uid.clone());
            if self.housekeeper.departures().get(&uid).is_some() {
                continue;
            }
            let grace =
                SignedDuration::try_from(still_running.grace).unwrap_or(SignedDuration::MAX);
            let cgroup = still_running.cgroup.relative.clone();
            let departure = Departures::deleted(still_running.since, (pod, uid), cgroup, grace);
            self.report(Event::Begin(Box::new(departure)));
        }
    }

    /// Resumes the decisions that an earlier run did not finish.
    pub(super) fn resume_unfinished(&mut self, unfinished: Vec<Unfinished>) {
        for one in unfinished {
            let (mut decision, notice) =
                one.decision(&self.ports.boot_id, self.behaviour.least_grace);
            let departure = &mut decision.departure;
            departure.asked =
                departure.notice_state == NoticeState::NotNeeded && self.asked(departure);
            info!(
                EVICTD_DECISION_ID = departure.id,
                EVICTD_POD = departure.pod,
                EVICTD_POD_UID = departure.uid,
                "the decision about {} was not finished; it is continued",
                departure.pod
            );
            self.unfinished.insert(departure.id.clone());
            if let Some(notice) = notice {
                if let Purpose::Rejection { .. } = departure.purpose {
                    let rejection = Rejection {
                        reason: notice.reason.clone(),
                        message: notice.message.clone(),
                    };
                    self.admission
                        .restore_rejection(notice.uid.clone(), rejection);
                }
                self.notices.insert(departure.id.clone(), notice);
            }
            self.report(Event::Resume(Box::new(decision)));
        }
    }
}

/// Logs that an eviction for disk waits for the pod's files, which outlast its processes.
fn log_wait(departure: &Departure) {
    if departure.purpose.condition() == Some(NodeCondition::DiskPressure) {
        info!(
            EVICTD_POD = departure.pod,
            "waiting at most {} s until the files of {} are removed and freed",
            CLEANUP_TIMEOUT.as_secs(),
            departure.pod
        );
    }
}
