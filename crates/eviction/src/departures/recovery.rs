//! Decisions that an earlier run of the daemon did not finish. A pod that was terminating is terminated at the end
//! of the grace period that was decided, and pending notices are sent to the API server.

use super::{
    Departures, Purpose, Stage, Telling,
    event::{Command, Conclusion, Context, Found, Question, Sighting},
};
use jiff::{SignedDuration, Timestamp};

impl Found {
    pub(super) fn question(&self) -> Question {
        Question {
            uid: self.departure.uid.clone(),
            cgroup: None,
            remains: false,
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
    /// Whether some decision of an earlier run is not taken up yet.
    pub fn has_found(&self) -> bool {
        !self.found.is_empty()
    }

    /// Takes up what an earlier run did not finish for this pod, as soon as the pod's state is known for certain.
    pub(super) fn take_up(
        &mut self,
        now: Timestamp,
        seen: &Sighting,
        context: &Context,
    ) -> Vec<Command> {
        if seen.unsure || context.ends_nobody {
            return Vec::new();
        }
        let of_pod = |found: &mut Found| found.departure.uid == seen.uid;
        let taken: Vec<Found> = self.found.extract_if(.., of_pod).collect();
        let taken = taken.into_iter();
        taken
            .flat_map(|found| self.finish(now, found, seen, context))
            .collect()
    }

    fn finish(
        &mut self,
        now: Timestamp,
        found: Found,
        seen: &Sighting,
        context: &Context,
    ) -> Vec<Command> {
        let runs = seen.runs.unwrap_or(false);
        let owed = found.departure.telling == Telling::Owed;
        let told = found.departure.telling == Telling::Told;
        let over = now.duration_since(found.departure.kill_at()) >= context.transition_period;
        if runs && over && !told {
            // The reason is over: a late notice or termination would only end a pod that harms nothing.
            return vec![Command::Conclude {
                conclusion: Conclusion::RunsOn {
                    unended: !found.ended,
                    untold: owed,
                },
                departure: Box::new(found.departure),
            }];
        }
        // Processes that were started after the decision belong to another instance of the pod, and are ended only
        // if the reason still exists.
        let ours = seen.older || found.holds(context);
        let ends = runs && !found.ended && !found.rebooted && ours;
        let left = found.left(now);
        let mut departure = found.departure;
        departure.cgroup.clone_from(&seen.cgroup);
        departure.runs = runs;
        departure.looked = Some(now);
        let uid = departure.uid.clone();
        if ends {
            departure.begin(now, left);
            self.pods.insert(uid.clone(), departure);
            let again = false;
            return vec![Command::Terminate { uid, left, again }];
        }
        departure.stage = Stage::Gone {
            at: departure.kill_at(),
        };
        let mut commands = Vec::new();
        if owed {
            commands.push(Command::Tell { uid: uid.clone() });
        }
        if !found.ended {
            commands.push(Command::Conclude {
                departure: Box::new(departure.clone()),
                conclusion: Conclusion::Gone,
            });
        }
        self.pods.insert(uid, departure);
        commands
    }
}
