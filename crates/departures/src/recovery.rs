//! Decisions that an earlier run of the daemon did not finish. A pod that was terminating is terminated at the end of
//! the decided grace period, and pending notices are sent to the API server.

use super::{
    Departures, NoticeState, Purpose, Stage,
    event::{Command, Conclusion, Context, PodState, Question, UnfinishedDecision},
};
use jiff::{SignedDuration, Timestamp};

impl UnfinishedDecision {
    pub(super) fn question(&self) -> Question {
        Question {
            uid: self.departure.uid.clone(),
            cgroup: None,
            remaining: false,
            older_than: Some(self.departure.since),
        }
    }

    /// Whether the reason of the decision still exists.
    fn holds(&self, context: &Context) -> bool {
        match &self.departure.purpose {
            Purpose::Rejection { conditions } => {
                conditions.iter().any(|one| context.keeps_away(*one))
            }
            purpose => {
                let condition = purpose.condition();
                condition.is_some_and(|condition| context.presses(condition))
            }
        }
    }

    /// The rest of its grace period; a clock that was set back does not lengthen it.
    fn left(&self, now: Timestamp) -> SignedDuration {
        let left = self.departure.kill_at().duration_since(now);
        left.clamp(SignedDuration::ZERO, self.departure.grace)
    }
}

impl Departures {
    /// Resumes the decisions about this pod that an earlier run did not finish, once the pod's state is known for
    /// certain.
    pub(super) fn resume(
        &mut self,
        now: Timestamp,
        seen: &PodState,
        context: &Context,
    ) -> Vec<Command> {
        if seen.unsure || context.terminations_off {
            return Vec::new();
        }
        let of_pod = |unfinished: &mut UnfinishedDecision| unfinished.departure.uid == seen.uid;
        let taken: Vec<UnfinishedDecision> = self.unfinished.extract_if(.., of_pod).collect();
        taken
            .into_iter()
            .flat_map(|unfinished| self.finish(now, unfinished, seen, context))
            .collect()
    }

    fn finish(
        &mut self,
        now: Timestamp,
        unfinished: UnfinishedDecision,
        seen: &PodState,
        context: &Context,
    ) -> Vec<Command> {
        let runs = seen.runs.unwrap_or(false);
        let pending = unfinished.departure.notice_state == NoticeState::Pending;
        let sent = unfinished.departure.notice_state == NoticeState::Sent;
        let kill_at = unfinished.departure.kill_at();
        let departure = &unfinished.departure;
        let in_force = departure.is_in_force(now, kill_at, context.transition_period);
        if runs && !in_force && !sent {
            // The reason is over: a late notice or termination would only end a pod that harms nothing.
            return vec![Command::Conclude {
                conclusion: Conclusion::StillRuns {
                    outcome_missing: !unfinished.ended,
                    notice_pending: pending,
                },
                departure: Box::new(unfinished.departure),
            }];
        }
        // Processes that were started after the decision belong to another instance of the pod, and are ended only
        // if the reason still exists.
        let ours = seen.older || unfinished.holds(context);
        let ends = runs && !unfinished.ended && !unfinished.rebooted && ours;
        let left = unfinished.left(now);
        let mut departure = unfinished.departure;
        departure.cgroup.clone_from(&seen.cgroup);
        departure.runs = runs;
        departure.checked_at = Some(now);
        let uid = departure.uid.clone();
        if ends {
            departure.begin(now, left);
            self.pods.insert(uid.clone(), departure);
            let again = false;
            return vec![Command::Terminate { uid, left, again }];
        }
        // Its end may not have been observed; the end of its grace period is the best estimate.
        departure.stage = Stage::Gone {
            at: departure.kill_at(),
        };
        let mut commands = Vec::new();
        if pending {
            commands.push(Command::SendNotice { uid: uid.clone() });
        }
        if !unfinished.ended {
            commands.push(Command::Conclude {
                departure: Box::new(departure.clone()),
                conclusion: Conclusion::Gone,
            });
        }
        self.pods.insert(uid, departure);
        commands
    }
}
