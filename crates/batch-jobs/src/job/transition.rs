//! The procedure and the next phase for each phase and action (S6-017 to S6-028).

use super::dependencies::Waiting;
use evictd_batch_objects::bus::Action;
use evictd_batch_objects::{JobPhase, JobSpec, JobStatus, TaskSpec};

/// Which pods an action ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Those of the request's task.
    Task,
    /// The request's pod.
    Pod,
    /// Those of the request's partition.
    Partition,
}

/// Which pods stay when all pods are ended (S6-029).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retain {
    /// None.
    None,
    /// Those that succeeded or failed.
    Soft,
}

/// The procedure of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Procedure {
    /// Creates missing pods, deletes surplus ones, and counts.
    Sync(Rule),
    /// Ends all pods.
    Kill(Retain, Rule),
    /// Ends some pods.
    KillTarget(Target, Rule),
}

/// How the counts decide the phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// It stays.
    Keep,
    /// It becomes this one.
    Enter(JobPhase),
    /// The job restarts, which counts.
    Restart,
    /// It becomes this one once no pod waits, runs or ends.
    WhenEmpty(JobPhase),
    /// S6-018.
    WhilePending,
    /// S6-021.
    WhileRunning,
    /// S6-022.
    WhileRestarting,
}

/// The procedure of an action in this phase.
pub fn procedure(phase: JobPhase, action: &Action) -> Procedure {
    match phase {
        JobPhase::Pending => starting(action, Rule::WhilePending),
        JobPhase::Running => starting(action, Rule::WhileRunning),
        JobPhase::Restarting => match (action, target(action)) {
            (Action::SyncJob, _) => Procedure::Sync(Rule::WhileRestarting),
            (_, Some(target)) => Procedure::KillTarget(target, Rule::WhileRestarting),
            _ => Procedure::Kill(Retain::None, Rule::WhileRestarting),
        },
        JobPhase::Aborting | JobPhase::Aborted if *action == Action::ResumeJob => {
            Procedure::Kill(Retain::Soft, Rule::Restart)
        }
        JobPhase::Aborting => Procedure::Kill(Retain::Soft, Rule::WhenEmpty(JobPhase::Aborted)),
        JobPhase::Completing => Procedure::Kill(Retain::Soft, Rule::WhenEmpty(JobPhase::Completed)),
        JobPhase::Terminating => {
            Procedure::Kill(Retain::Soft, Rule::WhenEmpty(JobPhase::Terminated))
        }
        JobPhase::Aborted | JobPhase::Completed | JobPhase::Terminated | JobPhase::Failed => {
            Procedure::Kill(Retain::Soft, Rule::Keep)
        }
    }
}

/// `Pending` and `Running` (S6-017, S6-019).
fn starting(action: &Action, sync: Rule) -> Procedure {
    let enter = |phase| Procedure::Kill(Retain::Soft, Rule::Enter(phase));
    match (action, target(action)) {
        (Action::RestartJob, _) => Procedure::Kill(Retain::None, Rule::Restart),
        (_, Some(target)) => Procedure::KillTarget(target, Rule::Restart),
        (Action::AbortJob, _) => enter(JobPhase::Aborting),
        (Action::CompleteJob, _) => enter(JobPhase::Completing),
        (Action::TerminateJob, _) => enter(JobPhase::Terminating),
        _ => Procedure::Sync(sync),
    }
}

fn target(action: &Action) -> Option<Target> {
    match action {
        Action::RestartTask => Some(Target::Task),
        Action::RestartPod => Some(Target::Pod),
        Action::RestartPartition => Some(Target::Partition),
        _ => None,
    }
}

impl Rule {
    /// Sets the phase, and the number of restarts; `status` has the new counts already. Returns whether it said that the
    /// phase changes, which is also so where the job enters the phase that it is in.
    pub(super) fn apply(self, spec: &JobSpec, status: &mut JobStatus, waiting: &Waiting) -> bool {
        let next = match self {
            Self::Keep => None,
            Self::Enter(phase) => Some(phase),
            Self::Restart => {
                status.retry_count = status.retry_count.saturating_add(1);
                Some(JobPhase::Restarting)
            }
            Self::WhenEmpty(phase) => {
                let empty = status.terminating == 0 && status.pending == 0 && status.running == 0;
                empty.then_some(phase)
            }
            Self::WhilePending => {
                let under_way = waiting.under_way(spec, status);
                (under_way.min_available <= under_way.started).then_some(JobPhase::Running)
            }
            Self::WhileRunning => while_running(spec, status, waiting),
            Self::WhileRestarting => while_restarting(spec, status),
        };
        if let Some(phase) = next {
            status.state.phase = phase.into();
        }
        next.is_some()
    }
}

/// How many pods the job has when all are there.
pub(super) fn replicas(spec: &JobSpec) -> i64 {
    spec.tasks.iter().map(|task| i64::from(task.replicas)).sum()
}

/// How many pods tasks need; a task that does not say so needs all.
pub(super) fn min_available_of<'t>(tasks: impl Iterator<Item = &'t TaskSpec>) -> i64 {
    let of_tasks = tasks.map(|task| i64::from(task.min_available.unwrap_or(task.replicas)));
    of_tasks.sum()
}

/// S6-020, S6-021.
fn while_running(spec: &JobSpec, status: &JobStatus, waiting: &Waiting) -> Option<JobPhase> {
    if replicas(spec) == 0 {
        return None;
    }
    if spec.min_success.is_some_and(|min| status.succeeded >= min) {
        return Some(JobPhase::Completed);
    }
    let under_way = waiting.under_way(spec, status);
    // Where all have ended whose turn has come, that of the others never comes.
    if i64::from(status.succeeded) + i64::from(status.failed) != under_way.all {
        let spare = under_way.replicas - under_way.min_available;
        // Too many pods wait for the job to count as running.
        return (under_way.pending > spare).then_some(JobPhase::Pending);
    }
    let short = || {
        spec.tasks.iter().any(|task| {
            let count = status.task_status_count.get(&task.name);
            let succeeded = count.map(|count| count.phase.get("Succeeded").copied().unwrap_or(0));
            match (task.min_available, succeeded) {
                (Some(min), Some(succeeded)) => succeeded < min,
                _ => false,
            }
        })
    };
    // Only a job that needs every task can fail because of one of them.
    let whole = i64::from(spec.min_available) >= min_available_of(spec.tasks.iter());
    let failed =
        whole && short() || spec.min_success.is_some() || status.succeeded < spec.min_available;
    Some(if failed {
        JobPhase::Failed
    } else {
        JobPhase::Completed
    })
}

/// S6-022.
fn while_restarting(spec: &JobSpec, status: &JobStatus) -> Option<JobPhase> {
    if status.retry_count >= spec.max_retry {
        return Some(JobPhase::Failed);
    }
    let left = replicas(spec) - i64::from(status.terminating);
    (left >= i64::from(status.min_available)).then_some(JobPhase::Pending)
}
