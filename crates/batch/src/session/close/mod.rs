//! The end of a session: conditions and phases of pod groups, conditions of pods, and the status of queues (S6-123,
//! S6-138 to S6-140).

mod messages;
mod report;
mod upstream;

use super::Session;
use super::outcome::{Event, GroupCondition, GroupOutcome, Outcome, PodCondition};
use super::snapshot::{COMPLETED, INQUEUE, PENDING, RUNNING, UNKNOWN};
use super::task::Status;
use crate::compat::Difference;
use crate::conf::PluginName;
use crate::wire::{PodGroupCondition, PodGroupStatus};
use std::collections::BTreeMap;

impl Session<'_> {
    /// Sets conditions and phases, and reports them.
    pub(crate) fn close(&mut self, outcome: &mut Outcome) {
        let gang = self.conf.tiers.iter().flatten();
        let gang = gang
            .map(|plugin| plugin.name)
            .any(|name| name == PluginName::Gang);
        for job in self.snapshot.live.clone() {
            if gang && !self.snapshot.jobs[job].tasks.is_empty() {
                self.close_gang(job);
            } else if let Some(words) = self.snapshot.jobs[job].not_enqueued_because.clone() {
                self.set_condition(job, "Unschedulable", "NotEnoughResources", words);
            }
        }
        for job_id in self.snapshot.live.clone() {
            self.settle(job_id);
            let written = self.is_changed(job_id);
            self.tell(job_id, written, outcome);
            let job = &self.snapshot.jobs[job_id];
            outcome
                .phases
                .insert(job.key.to_string(), job.phase.clone());
            let group = self.group_outcome(job_id, written);
            outcome.pod_groups.insert(job.key.to_string(), group);
        }
        self.report_upstream(outcome);
        self.report_queues(outcome);
        outcome.events = std::mem::take(&mut self.events);
        outcome.events.sort_unstable();
    }

    /// The condition of a gang (S6-123).
    fn close_gang(&mut self, job_id: usize) {
        let job = &self.snapshot.jobs[job_id];
        if job.is_ready() {
            let reason = "tasks in gang are ready to be scheduled";
            self.set_condition(job_id, "Scheduled", reason, String::new());
            return;
        }
        let going = self.going(job_id);
        let waits = job.count(Status::Pending) > 0 || job.pipelined() > 0;
        if going > 0 && !waits && job.scheduled().saturating_add(going) >= job.min_member {
            return;
        }
        let tried = self.snapshot.tasks_of(job_id, Status::Pending);
        let tried = tried.filter(|task| self.snapshot.tasks[*task].context().status.is_allocated());
        let tried = i32::try_from(tried.count()).unwrap_or(i32::MAX);
        let lacking = job
            .min_member
            .saturating_sub(job.ready())
            .saturating_sub(tried);
        let message = format!(
            "{lacking}/{} tasks in gang unschedulable: {}",
            job.tasks.len(),
            self.fit_text(job_id)
        );
        self.set_condition(job_id, "Unschedulable", "NotEnoughResources", message);
    }

    /// Tasks of a job that are on a node and will leave it.
    fn going(&self, job: usize) -> i32 {
        let going = self.snapshot.tasks_of(job, Status::Releasing);
        let going = going.filter(|task| self.snapshot.tasks[*task].node.is_some());
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
        let job = &mut self.snapshot.jobs[job];
        let mut conditions = job.conditions.iter();
        let known = conditions.position(|known| known.kind == condition.kind);
        if let Some(at) = known {
            job.conditions[at] = condition;
            job.set_now[at] = true;
        } else {
            job.conditions.push(condition);
            job.set_now.push(true);
        }
    }

    /// Whether a job runs although its gang is not complete, since the rest of it has yet to start.
    fn waits_for_stage(&self, job: usize) -> bool {
        self.compat.has(Difference::StagedGroupRuns)
            && !self.snapshot.jobs[job].is_ready()
            && self.snapshot.waits_for_stage(job)
    }

    /// A job was let in: that it could not be placed does not hold any more.
    pub(crate) fn withdraw_unschedulable(&mut self, job: usize) {
        let mut conditions = self.snapshot.jobs[job].conditions.iter();
        if conditions
            .any(|condition| condition.kind == "Unschedulable" && condition.status == "True")
        {
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
    fn settle(&mut self, job_id: usize) {
        let job = &self.snapshot.jobs[job_id];
        let said = job.conditions.iter().zip(&job.set_now);
        let unschedulable = said
            .filter(|(condition, now)| {
                **now && condition.kind == "Unschedulable" && condition.status == "True"
            })
            .count()
            > 0;
        let done = job.count(Status::Succeeded) + job.count(Status::Failed);
        let scheduled = job.scheduled().saturating_add(self.going(job_id));
        let phase = if self.waits_for_stage(job_id) {
            RUNNING
        } else if job.count(Status::Running) > 0 && unschedulable {
            UNKNOWN
        } else if scheduled >= job.min_member {
            if done == scheduled {
                COMPLETED
            } else {
                RUNNING
            }
        } else if job.phase == INQUEUE {
            INQUEUE
        } else {
            PENDING
        };
        phase.clone_into(&mut self.snapshot.jobs[job_id].phase);
    }

    /// Whether the status of a group has to be written.
    fn is_changed(&self, job: usize) -> bool {
        let job = &self.snapshot.jobs[job];
        let before = &job.before;
        let counts = [
            (job.count(Status::Running), before.running),
            (job.count(Status::Succeeded), before.succeeded),
            (job.count(Status::Failed), before.failed),
        ];
        if job.phase != before.phase
            || counts.iter().any(|(now, before)| now != before)
            || job.conditions.len() != before.conditions.len()
        {
            return true;
        }
        let conditions = job.conditions.iter().zip(&before.conditions);
        let mut conditions = conditions.zip(&job.set_now);
        conditions.any(|((now, before), said)| {
            let differs = now.kind != before.kind
                || now.status != before.status
                || now.reason != before.reason
                || now.message != before.message;
            *said && differs
        })
    }

    /// Reports events of a job and the conditions of its pods (S6-139, S6-140).
    fn tell(&mut self, job_id: usize, written: bool, outcome: &mut Outcome) {
        let job = &self.snapshot.jobs[job_id];
        let text = self.fit_text(job_id);
        if job.is_unschedulable_phase() || (written && self.waits_for_stage(job_id)) {
            let message = format!(
                "{}/{} tasks in gang unschedulable: {text}",
                job.count(Status::Pending),
                job.tasks.len()
            );
            self.group_event(job_id, "Warning", "Unschedulable", message);
        } else if written {
            self.group_event(
                job_id,
                "Normal",
                "Scheduled",
                "pod group is ready".to_owned(),
            );
        }
        for task in self.snapshot.jobs[job_id].tasks.clone() {
            let status = self.snapshot.tasks[task].status;
            let waits = matches!(
                status,
                Status::Allocated | Status::Pending | Status::Pipelined
            );
            if waits && !self.snapshot.tasks[task].gated {
                self.tell_pod(task, &text, outcome);
            }
        }
    }

    fn tell_pod(&mut self, task: usize, text: &str, outcome: &mut Outcome) {
        let (reason, message, nominated) = self.condition_of(task);
        let message = message.unwrap_or_else(|| text.to_owned());
        let task = &self.snapshot.tasks[task];
        let nominated = nominated.map(|node| self.node_name(node).to_owned());
        let nominated = nominated.filter(|node| **node != *task.nominated);
        let last_condition = task.last_condition.as_ref();
        let same = last_condition.is_some_and(|[status, old, words]| {
            &**status == "False" && **old == *reason && **words == *message
        });
        if same && nominated.is_none() {
            return;
        }
        self.events.push(Event::new(
            "Pod",
            &task.key,
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
            .insert(task.key.to_string(), condition);
    }

    fn group_outcome(&self, job: usize, written: bool) -> GroupOutcome {
        let job = &self.snapshot.jobs[job];
        let mut conditions: Vec<GroupCondition> = job
            .conditions
            .iter()
            .map(|condition| GroupCondition {
                kind: condition.kind.clone(),
                reason: condition.reason.clone(),
                status: condition.status.clone(),
                message: condition.message.clone(),
            })
            .collect();
        conditions.sort_unstable();
        let tasks = Status::ALL
            .into_iter()
            .map(|status| (status, job.count(status)));
        let tasks: BTreeMap<String, i32> = tasks
            .filter(|(_, count)| *count > 0)
            .map(|(status, count)| (status.as_str().to_owned(), count))
            .collect();
        let status = PodGroupStatus {
            phase: job.phase.clone(),
            conditions: job.conditions.clone(),
            running: job.count(Status::Running),
            succeeded: job.count(Status::Succeeded),
            failed: job.count(Status::Failed),
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
