//! The end of a session: what is said of jobs, pods and queues (S6-123, S6-138 to S6-140).

mod report;
mod upstream;
mod words;

use super::Session;
use super::model::{COMPLETED, INQUEUE, PENDING, RUNNING, UNKNOWN};
use super::outcome::{Event, GroupOutcome, Outcome, PodCondition, Said};
use super::task::Status;
use crate::conf::PluginName;
use crate::wire::{PodGroupCondition, PodGroupStatus};
use std::collections::BTreeMap;

impl Session<'_> {
    /// Says what there is to say, and settles the phases.
    pub(crate) fn close(&mut self, outcome: &mut Outcome) {
        let gang = self.conf.tiers.iter().flatten();
        let gang = gang
            .map(|plugin| plugin.name)
            .any(|name| name == PluginName::Gang);
        for job in self.model.live.clone() {
            if gang && !self.model.jobs[job].tasks.is_empty() {
                self.close_gang(job);
            } else if let Some(words) = self.model.jobs[job].kept_out.clone() {
                self.set_condition(job, "Unschedulable", "NotEnoughResources", words);
            }
        }
        for job in self.model.live.clone() {
            self.settle(job);
            let written = self.is_changed(job);
            self.tell(job, written, outcome);
            let own = &self.model.jobs[job];
            outcome
                .phases
                .insert(own.key.to_string(), own.phase.clone());
            let group = self.group_outcome(job, written);
            outcome.pod_groups.insert(own.key.to_string(), group);
        }
        self.report_upstream(outcome);
        self.report_queues(outcome);
        outcome.events = std::mem::take(&mut self.events);
        outcome.events.sort_unstable();
    }

    /// The condition of a gang (S6-123).
    fn close_gang(&mut self, job: usize) {
        let own = &self.model.jobs[job];
        if own.is_ready() {
            let reason = "tasks in gang are ready to be scheduled";
            self.set_condition(job, "Scheduled", reason, String::new());
            return;
        }
        let going = self.going(job);
        let waits = own.count(Status::Pending) > 0 || own.pipelined() > 0;
        if going > 0 && !waits && own.scheduled().saturating_add(going) >= own.min_member {
            return;
        }
        let tried = self.model.tasks_of(job, Status::Pending);
        let tried = tried.filter(|task| self.model.tasks[*task].context().status.is_allocated());
        let tried = i32::try_from(tried.count()).unwrap_or(i32::MAX);
        let lacking = own
            .min_member
            .saturating_sub(own.ready())
            .saturating_sub(tried);
        let message = format!(
            "{lacking}/{} tasks in gang unschedulable: {}",
            own.tasks.len(),
            self.fit_text(job)
        );
        self.set_condition(job, "Unschedulable", "NotEnoughResources", message);
    }

    /// Tasks of a job that are on a node and will leave it.
    fn going(&self, job: usize) -> i32 {
        let going = self.model.tasks_of(job, Status::Releasing);
        let going = going.filter(|task| self.model.tasks[*task].node.is_some());
        i32::try_from(going.count()).unwrap_or(i32::MAX)
    }

    fn set_condition(&mut self, job: usize, kind: &str, reason: &str, message: String) {
        let condition = PodGroupCondition {
            kind: kind.to_owned(),
            status: "True".to_owned(),
            reason: reason.to_owned(),
            message,
            last_transition_time: None,
            transition_id: String::new(),
        };
        self.say(job, condition);
    }

    /// Sets a condition of a job's group.
    pub(crate) fn say(&mut self, job: usize, condition: PodGroupCondition) {
        let job = &mut self.model.jobs[job];
        let mut known = job.conditions.iter();
        let known = known.position(|own| own.kind == condition.kind);
        if let Some(at) = known {
            job.conditions[at] = condition;
            job.said_now[at] = true;
        } else {
            job.conditions.push(condition);
            job.said_now.push(true);
        }
    }

    /// Whether a job runs although its gang is not complete, since the rest of it has yet to start.
    fn waits_for_stage(&self, job: usize) -> bool {
        self.form.stages_run && !self.model.jobs[job].is_ready() && self.model.waits_for_stage(job)
    }

    /// A job was let in: that it could not be placed does not hold any more.
    pub(crate) fn withdraw_unschedulable(&mut self, job: usize) {
        let mut conditions = self.model.jobs[job].conditions.iter();
        if conditions.any(|own| own.kind == "Unschedulable" && own.status == "True") {
            let condition = PodGroupCondition {
                kind: "Unschedulable".to_owned(),
                status: "False".to_owned(),
                reason: "Inqueue".to_owned(),
                message: "there is room for it".to_owned(),
                ..PodGroupCondition::default()
            };
            self.say(job, condition);
        }
    }

    /// The phase that a job ends the session with (S6-138).
    fn settle(&mut self, job: usize) {
        let own = &self.model.jobs[job];
        let said = own.conditions.iter().zip(&own.said_now);
        let unschedulable = said
            .filter(|(condition, now)| {
                **now && condition.kind == "Unschedulable" && condition.status == "True"
            })
            .count()
            > 0;
        let done = own.count(Status::Succeeded) + own.count(Status::Failed);
        let scheduled = own.scheduled().saturating_add(self.going(job));
        let phase = if self.waits_for_stage(job) {
            RUNNING
        } else if own.count(Status::Running) > 0 && unschedulable {
            UNKNOWN
        } else if scheduled >= own.min_member {
            if done == scheduled {
                COMPLETED
            } else {
                RUNNING
            }
        } else if own.phase == INQUEUE {
            INQUEUE
        } else {
            PENDING
        };
        phase.clone_into(&mut self.model.jobs[job].phase);
    }

    /// Whether the status of a group has to be written.
    fn is_changed(&self, job: usize) -> bool {
        let own = &self.model.jobs[job];
        let before = &own.before;
        let counts = [
            (own.count(Status::Running), before.running),
            (own.count(Status::Succeeded), before.succeeded),
            (own.count(Status::Failed), before.failed),
        ];
        if own.phase != before.phase
            || counts.iter().any(|(now, before)| now != before)
            || own.conditions.len() != before.conditions.len()
        {
            return true;
        }
        let conditions = own.conditions.iter().zip(&before.conditions);
        let mut conditions = conditions.zip(&own.said_now);
        conditions.any(|((now, before), said)| {
            let differs = now.kind != before.kind
                || now.status != before.status
                || now.reason != before.reason
                || now.message != before.message;
            *said && differs
        })
    }

    /// Events of a job, and what its pods are told (S6-139, S6-140).
    fn tell(&mut self, job: usize, written: bool, outcome: &mut Outcome) {
        let own = &self.model.jobs[job];
        let text = self.fit_text(job);
        if own.is_unschedulable_phase() || (written && self.waits_for_stage(job)) {
            let message = format!(
                "{}/{} tasks in gang unschedulable: {text}",
                own.count(Status::Pending),
                own.tasks.len()
            );
            self.group_event(job, "Warning", "Unschedulable", message);
        } else if written {
            self.group_event(job, "Normal", "Scheduled", "pod group is ready".to_owned());
        }
        for task in self.model.jobs[job].tasks.clone() {
            let status = self.model.tasks[task].status;
            let waits = matches!(
                status,
                Status::Allocated | Status::Pending | Status::Pipelined
            );
            if waits && !self.model.tasks[task].gated {
                self.tell_pod(task, &text, outcome);
            }
        }
    }

    fn tell_pod(&mut self, task: usize, text: &str, outcome: &mut Outcome) {
        let (reason, message, nominated) = self.said_of(task);
        let message = message.unwrap_or_else(|| text.to_owned());
        let own = &self.model.tasks[task];
        let nominated = nominated.map(|node| self.node_name(node).to_owned());
        let nominated = nominated.filter(|node| **node != *own.nominated);
        let told = own.told.as_ref();
        let same = told.is_some_and(|[status, old, words]| {
            &**status == "False" && **old == *reason && **words == *message
        });
        if same && nominated.is_none() {
            return;
        }
        self.events.push(Event::new(
            "Pod",
            &own.key,
            "Warning",
            "FailedScheduling",
            message.clone(),
        ));
        let condition = PodCondition {
            message,
            nominated_node_name: nominated,
            reason: reason.to_owned(),
            status: "False".to_owned(),
        };
        outcome
            .pod_conditions
            .insert(own.key.to_string(), condition);
    }

    fn group_outcome(&self, job: usize, written: bool) -> GroupOutcome {
        let own = &self.model.jobs[job];
        let mut conditions: Vec<Said> = own
            .conditions
            .iter()
            .map(|condition| Said {
                kind: condition.kind.clone(),
                reason: condition.reason.clone(),
                status: condition.status.clone(),
                message: condition.message.clone(),
            })
            .collect();
        conditions.sort_unstable();
        let tasks = Status::ALL
            .into_iter()
            .map(|status| (status, own.count(status)));
        let tasks: BTreeMap<String, i32> = tasks
            .filter(|(_, count)| *count > 0)
            .map(|(status, count)| (status.as_str().to_owned(), count))
            .collect();
        let status = PodGroupStatus {
            phase: own.phase.clone(),
            conditions: own.conditions.clone(),
            running: own.count(Status::Running),
            succeeded: own.count(Status::Succeeded),
            failed: own.count(Status::Failed),
        };
        GroupOutcome {
            conditions,
            failed: status.failed,
            phase: status.phase.clone(),
            running: status.running,
            succeeded: status.succeeded,
            tasks,
            written,
            status,
        }
    }
}
