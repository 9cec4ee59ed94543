//! Which action an event leads to (S6-051 to S6-053).

use super::info::JobInfo;
use super::names::ABOVE_MINIMUM;
use super::request::Request;
use evictd_batch_objects::bus::{Action, Event};
use evictd_batch_objects::{Compat, Difference, Job, LifecyclePolicy};
use evictd_pod::duration;
use jiff::SignedDuration;

/// The action for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The action.
    pub action: Action,
    /// How long it waits; `None` if it is taken at once.
    pub delay: Option<SignedDuration>,
}

impl Choice {
    fn now(action: Action) -> Self {
        Self {
            action,
            delay: None,
        }
    }

    fn of(policy: &LifecyclePolicy) -> Self {
        let delay = policy
            .timeout
            .as_deref()
            .and_then(|text| duration::parse(text).ok());
        Self {
            action: Action::of(&policy.action),
            delay: delay.filter(|delay| !delay.is_zero()),
        }
    }
}

/// The action for a request, in this order (S6-051). First the action that it names. Then a sync, if the event is
/// internal, or belongs to another job of the same name or to pods of an older version. Then the first matching policy
/// of the pod's task, then of the job; at last a sync.
pub fn choose(job: &Job, request: &Request, compat: Compat) -> Choice {
    if let Some(action) = &request.action {
        return Choice::now(action.clone());
    }
    let other = !request.job_uid.is_empty() && *request.job_uid != *job.metadata.uid;
    let stale = request.job_version < job.status.version;
    if request.event.is_internal() || other || stale {
        return Choice::now(Action::SyncJob);
    }
    let of_task = (!request.task_name.is_empty())
        .then(|| {
            job.spec
                .tasks
                .iter()
                .find(|task| task.name == request.task_name)
        })
        .flatten();
    let of_task = of_task.map_or(&[][..], |task| &task.policies);
    let mut policies = of_task.iter().chain(&job.spec.policies);
    match policies.find(|policy| matches(policy, request, compat)) {
        Some(policy) => Choice::of(policy),
        None => Choice::now(Action::SyncJob),
    }
}

/// The action for a request, with the pods of the job in view: if a pod is evicted and the gang is complete without it, the
/// job can ask for another action than a restart.
pub(crate) fn decided(info: &JobInfo, job: &Job, request: &Request, compat: Compat) -> Choice {
    let choice = choose(job, request, compat);
    let asked = job.metadata.annotations.get(ABOVE_MINIMUM);
    let asked = asked.map(Action::of).filter(|action| LESS.contains(action));
    match asked {
        Some(action)
            if compat.has(Difference::EvictedAboveMinimum)
                && request.event == Event::PodEvicted
                && choice.action == Action::RestartJob
                && info.is_complete_without(job, &request.task_name, &request.pod_name) =>
        {
            Choice { action, ..choice }
        }
        _ => choice,
    }
}

/// The actions in place of a restart of the job: restart the task or the pod, or only create the pod again.
const LESS: [Action; 3] = [Action::RestartTask, Action::RestartPod, Action::SyncJob];

/// Whether the policy is about the request (S6-052): one of its events, or its exit code. `PodPending` never matches a
/// policy without a timeout (S6-053). A policy whose timeout is no duration matches nothing: it would act at once.
fn matches(policy: &LifecyclePolicy, request: &Request, compat: Compat) -> bool {
    let timeout = policy.timeout.as_deref();
    if timeout.is_some_and(|text| duration::parse(text).is_err()) {
        return false;
    }
    let events = policy.events.iter().chain([&policy.event]);
    let named = events
        .filter(|name| !name.is_empty())
        .map(|name| Event::of(name))
        .any(|event| event == request.event || event == Event::Any);
    let waits = request.event == Event::PodPending && policy.timeout.is_none();
    if named && request.event != Event::None && !waits {
        return true;
    }
    let Some(code) = policy.exit_code else {
        return false;
    };
    let ended = !compat.has(Difference::ExitCodeZero) || request.event == Event::PodFailed;
    code == request.exit_code && ended
}
