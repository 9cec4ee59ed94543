//! The delivery of one notice: a patch of the pod's status. It is repeated until it is known to have succeeded and to
//! stay, or to be impossible.
//!
//! A kubelet that has not seen the patch yet overwrites the status, including the phase, with its own view. That
//! happens most often in the minute after an API server restart. So a patch counts only after the kubelet has adopted
//! it.

use super::{DeliveryOutcome, DeliveryQueue, Notice, Progress, Way};
use evictd_cluster_client::{Actions, ApiError, Backoff, CALL_TIMEOUT, FIELD_MANAGER};
use evictd_decision::record::{self, ANNOTATION};
use evictd_departures::NOTICE_OWED;
use evictd_pod::wire::Condition;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
    core::PartialObjectMeta,
};
use serde_json::{Value, json};
use std::{iter::repeat, time::Duration};
use tokio::{
    sync::{oneshot, watch},
    time::{Instant, sleep, timeout},
};

const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How long a notice waits for the Node's taint: a controller may bind the next pod milliseconds after the status
/// changes. The kill does not wait for the notice, and a kubelet checks only once a second whether to restart
/// containers.
const TAINT_TIMEOUT: Duration = Duration::from_millis(500);
/// When to check whether the kubelet has adopted the status: 1, 3, 10 and 30 s after the patch, then every 30 s.
const CHECK_AFTER: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(7),
    Duration::from_secs(20),
];
/// The last interval of the checks.
const CHECK_PERIOD: Duration = Duration::from_secs(30);
/// How long to wait for a kubelet that neither adopts nor overwrites the status. It writes only the fields that changed
/// for it, and is silent while it does not see its pods.
const SILENCE_LIMIT: Duration = NOTICE_OWED.unsigned_abs();
/// The pause between finding the status overwritten and the next patch, doubled each time. Each patch may make a
/// controller create a pod and remove it again.
const FIRST_REPEAT: Duration = Duration::from_secs(1);
/// The first checks on a pod whose reason its kubelet may clear: most pods end within seconds.
const REASON_AFTER: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(5)];
/// The interval of the later checks. Kubelets write their own view every 10 s.
const REASON_PERIOD: Duration = Duration::from_secs(15);
/// How often to check: for 10 minutes, which is longer than nearly any grace period.
const REASON_CHECKS: usize = 42;
/// A reason that has lasted this long after all containers have exited stays: kubelets write every 10 s.
const REASON_STAYS_AFTER: Duration = Duration::from_secs(12);
/// How often the reason is written again.
const REASON_WRITES: u32 = 3;

/// Delivers a notice; `first` receives whether the first attempt succeeded. If an earlier run may have delivered
/// it, checks for that before the first patch.
pub(super) async fn deliver(
    delivery_queue: &DeliveryQueue,
    notice: &Notice,
    again: bool,
    first: oneshot::Sender<bool>,
) -> DeliveryOutcome {
    let mut delivery = Delivery::new(delivery_queue, notice);
    let mut first = Some(first);
    let mut check_first = again;
    let mut is_accepted = false;
    let mut backoff = Backoff::new(FIRST_REPEAT, LONGEST_PAUSE);
    loop {
        if let Err(outcome) = delivery.patch_until_accepted(check_first, &mut first).await {
            return outcome;
        }
        // Only the first acceptance counts: later ones repeat what a kubelet has overwritten.
        if !std::mem::replace(&mut is_accepted, true) {
            let id = notice.id.clone();
            delivery_queue.report(Progress::Accepted { id });
        }
        if delivery.is_kept().await {
            return DeliveryOutcome::Published;
        }
        tracing::warn!(
            EVICTD_DECISION_ID = notice.id,
            EVICTD_POD = notice.pod(),
            EVICTD_POD_UID = notice.uid,
            "the kubelet has overwritten the status of {}; it is published again",
            notice.pod()
        );
        sleep(backoff.next(Backoff::NO_JITTER)).await;
        check_first = true;
    }
}

/// If every container exits with 0, the kubelet clears the pod's reason and message, which may be long after it has
/// adopted the phase. They are written again when all containers have exited, a limited number of times because some
/// kubelets clear them again; a write that the API server refuses is not counted. The annotation stays in any case.
pub(super) async fn restore_reason(delivery_queue: &DeliveryQueue, notice: &Notice) {
    let delivery = Delivery::new(delivery_queue, notice);
    let mut writes = 0;
    let mut settled: Option<Instant> = None;
    let pauses = REASON_AFTER.into_iter().chain(repeat(REASON_PERIOD));
    for pause in pauses.take(REASON_CHECKS) {
        sleep(pause).await;
        let state = delivery.reason_state().await;
        if !matches!(state, Ok(ReasonState::Settled)) {
            settled = None;
        }
        match state {
            Ok(ReasonState::Gone) => return,
            Ok(ReasonState::Settled) => {
                // The kubelet may still write once more after the last container has ended.
                if settled.get_or_insert_with(Instant::now).elapsed() >= REASON_STAYS_AFTER {
                    return;
                }
            }
            // Something else writes the status, and two writers must not go on for ever.
            Ok(ReasonState::Lost) if writes == REASON_WRITES => return,
            Ok(ReasonState::Lost) => {
                let words = json!({ "reason": notice.reason, "message": notice.message });
                match delivery.patch(None, words).await {
                    Ok(()) => writes += 1,
                    Err(error) => tracing::debug!(
                        "the status of {} is published without its reason: {error}",
                        notice.pod()
                    ),
                }
            }
            Ok(ReasonState::MayChange) | Err(_) => {}
        }
    }
}

/// The state of the pod's reason and message.
enum ReasonState {
    /// There is no pod any more.
    Gone,
    /// They are present, and no container runs.
    Settled,
    /// Some container runs: the kubelet may still clear them, or write them again.
    MayChange,
    /// They are missing, and the kubelet will not write them again.
    Lost,
}

/// The state of the pod object.
enum StatusCheck {
    /// There is no pod to inform; says why.
    Gone(&'static str),
    /// Its status shows the notice.
    Shown {
        /// No kubelet will overwrite it.
        is_final: bool,
    },
    /// Its status does not show the notice.
    NotShown,
}

struct Delivery<'a> {
    pods: Api<PartialObjectMeta<Pod>>,
    actions: &'a Actions,
    settled: watch::Receiver<bool>,
    notice: &'a Notice,
    /// How often the annotation says that the pod's status was written.
    times_sent: u64,
    warned: bool,
}

impl<'a> Delivery<'a> {
    fn new(delivery_queue: &'a DeliveryQueue, notice: &'a Notice) -> Self {
        Self {
            pods: Api::namespaced(delivery_queue.actions.client(), &notice.namespace),
            actions: &delivery_queue.actions,
            settled: delivery_queue.settled.clone(),
            notice,
            times_sent: 0,
            warned: false,
        }
    }

    /// Patches the status until that succeeds; `Err` says why it never will.
    async fn patch_until_accepted(
        &mut self,
        mut check_first: bool,
        first: &mut Option<oneshot::Sender<bool>>,
    ) -> Result<(), DeliveryOutcome> {
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut refused = None;
        loop {
            let found = if check_first {
                self.check().await
            } else {
                Ok(StatusCheck::NotShown)
            };
            let attempt = match found {
                Ok(StatusCheck::Gone(why)) => {
                    report(first, false);
                    return Err(DeliveryOutcome::Recorded(why));
                }
                Ok(StatusCheck::Shown { .. }) => Ok(()),
                // After a refusal the status is read once more: the write may have been accepted by another replica.
                Ok(StatusCheck::NotShown) => match refused.take() {
                    Some(why) => return Err(DeliveryOutcome::NotPublished(why)),
                    None => self.attempt_once().await,
                },
                Err(unknown) => Err(unknown),
            };
            report(first, attempt.is_ok());
            let Err(error) = attempt else {
                return Ok(());
            };
            self.warn(&error);
            // A pod may be missing from the cache of one server, and a conflict ends with the next read.
            let may_change = error.may_pass() || matches!(code(&error), Some(404 | 409));
            refused = (!may_change).then(|| error.to_string());
            pause_after(&mut backoff, &error).await;
            check_first = true;
        }
    }

    /// Whether the status stays as written: its kubelet has adopted it, or has been silent too long to overwrite it.
    async fn is_kept(&mut self) -> bool {
        if let Way::Delete(_) = self.notice.way {
            // No kubelet reverts a deletion.
            return true;
        }
        let mut checks = CHECK_AFTER.iter();
        let mut silent_since = Instant::now();
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        while silent_since.elapsed() < SILENCE_LIMIT {
            sleep(*checks.next().unwrap_or(&CHECK_PERIOD)).await;
            match self.check().await {
                Ok(StatusCheck::Gone(_) | StatusCheck::Shown { is_final: true }) => return true,
                Ok(StatusCheck::Shown { is_final: false }) => {}
                Ok(StatusCheck::NotShown) => return false,
                Err(error) => {
                    // The API server is back, but the kubelets must reconnect too, so the checks start again.
                    pause_after(&mut backoff, &error).await;
                    checks = CHECK_AFTER.iter();
                    silent_since = Instant::now();
                }
            }
        }
        true
    }

    fn warn(&mut self, error: &ApiError) {
        if !std::mem::replace(&mut self.warned, true) {
            tracing::warn!(
                EVICTD_DECISION_ID = self.notice.id,
                EVICTD_POD = self.notice.pod(),
                EVICTD_POD_UID = self.notice.uid,
                "the API server does not know yet: {error}"
            );
        }
    }

    async fn attempt_once(&mut self) -> Result<(), ApiError> {
        // The sender is dropped only when the agent stops.
        let _ = timeout(TAINT_TIMEOUT, self.settled.wait_for(|settled| *settled)).await;
        match self.notice.way {
            Way::Status => self.patch(Some(self.record()), status(self.notice)).await,
            Way::Delete(seconds) => {
                self.set_condition_before_deletion().await?;
                self.delete(seconds).await
            }
        }
    }

    /// A Job's `podFailurePolicy` depends on the condition, which cannot be set on a deleted pod. The pod is
    /// deleted in any case, so a refusal is not retried.
    async fn set_condition_before_deletion(&self) -> Result<(), ApiError> {
        let Some(condition) = condition(self.notice) else {
            return Ok(());
        };
        match self
            .patch(Some(self.record()), json!({ "conditions": [condition] }))
            .await
        {
            // A condition that is refused must not keep the pod from being deleted.
            Err(error) if code(&error).is_none_or(|code| code >= 500) => Err(error),
            Err(error) => {
                tracing::debug!(
                    "{} is deleted without its condition: {error}",
                    self.notice.pod()
                );
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Deletes the pod with at least one second of grace: with zero the object would be removed before its
    /// processes have exited.
    async fn delete(&self, seconds: u64) -> Result<(), ApiError> {
        let what = format!("deleting pod {}", self.notice.pod());
        let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
        let options = DeleteParams {
            // Zero would delete the object at once, while its processes still run.
            grace_period_seconds: Some(seconds.max(1)),
            preconditions: Some(Preconditions {
                uid: Some(self.notice.uid.clone()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let call = self.pods.delete(&self.notice.name, &options);
        self.actions.call(&what, CALL_TIMEOUT, call).await?;
        Ok(())
    }

    /// The annotation's value for this attempt.
    fn record(&self) -> String {
        match self.times_sent {
            0 => self.notice.record.clone(),
            times_sent => record::repeated(&self.notice.record, times_sent + 1),
        }
    }

    /// Patches annotation and phase together: without a new annotation value the kubelet would not process the pod
    /// again, but write the old phase back. The UID is a precondition.
    async fn patch(&self, record: Option<String>, status: Value) -> Result<(), ApiError> {
        let what = format!("writing the status of pod {}", self.notice.pod());
        let by = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        // With the UID the patch fails for another pod of the same name.
        let mut patch = json!({ "metadata": { "uid": self.notice.uid }, "status": status });
        if let Some(record) = record {
            patch["metadata"]["annotations"] = json!({ ANNOTATION: record });
        }
        let patch = Patch::Strategic(patch);
        let call = self.pods.patch_status(&self.notice.name, &by, &patch);
        self.actions.call(&what, CALL_TIMEOUT, call).await?;
        Ok(())
    }

    /// The pod, if it still exists with this UID; else why there is no pod to inform.
    async fn find(&self) -> Result<Result<Pod, &'static str>, ApiError> {
        let what = format!("reading pod {}", self.notice.pod());
        let pods: Api<Pod> = Api::namespaced(self.actions.client(), &self.notice.namespace);
        let call = pods.get_opt(&self.notice.name);
        let found = self.actions.call(&what, CALL_TIMEOUT, call).await?;
        Ok(match found {
            None => Err("the pod is gone"),
            Some(pod) if pod.metadata.uid.as_ref() != Some(&self.notice.uid) => {
                Err("another pod has its name now")
            }
            Some(pod) => Ok(pod),
        })
    }

    async fn reason_state(&self) -> Result<ReasonState, ApiError> {
        let Ok(pod) = self.find().await? else {
            return Ok(ReasonState::Gone);
        };
        let status = pod.status.unwrap_or_default();
        let has_reason = has_reason(&status);
        let containers = status.container_statuses.unwrap_or_default();
        let has_ended = |one: &ContainerStatus| {
            let state = one.state.as_ref();
            state.is_some_and(|state| state.terminated.is_some())
        };
        // A pod without containers has nothing left that could end.
        Ok(match (containers.iter().all(has_ended), has_reason) {
            (false, _) => ReasonState::MayChange,
            (true, true) => ReasonState::Settled,
            (true, false) => ReasonState::Lost,
        })
    }

    async fn check(&mut self) -> Result<StatusCheck, ApiError> {
        let pod = match self.find().await? {
            Ok(pod) => pod,
            Err(why) => return Ok(StatusCheck::Gone(why)),
        };
        let is_deleting = pod.metadata.deletion_timestamp.is_some();
        if let Way::Delete(_) = self.notice.way {
            return Ok(if is_deleting {
                StatusCheck::Shown { is_final: true }
            } else {
                StatusCheck::NotShown
            });
        }
        let annotations = pod.metadata.annotations.unwrap_or_default();
        let mark = annotations
            .get(ANNOTATION)
            .and_then(|value| record::mark(value));
        let Some(mark) = mark.filter(|mark| mark.decision == self.notice.id) else {
            return Ok(StatusCheck::NotShown);
        };
        // An earlier run may have sent it more often than this one knows.
        self.times_sent = mark.times_sent;
        let status = pod.status.unwrap_or_default();
        let ended = matches!(status.phase.as_deref(), Some("Failed" | "Succeeded"));
        Ok(if ended {
            StatusCheck::Shown {
                is_final: is_deleting || is_final_status(&status),
            }
        } else {
            StatusCheck::NotShown
        })
    }
}

/// Whether no kubelet will write another phase: the kubelet itself says that the pod has ended, which it never
/// reverts, or no kubelet has ever written this status.
fn is_final_status(status: &PodStatus) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    let ready = conditions.find(|condition| condition.type_ == "Ready");
    let why = ready.and_then(|ready| ready.reason.as_deref());
    matches!(why, Some("PodFailed" | "PodCompleted")) || status.container_statuses.is_none()
}

fn has_reason(status: &PodStatus) -> bool {
    let reason = status.reason.as_ref();
    reason.is_some_and(|reason| !reason.is_empty())
}

/// Reports the first result; the receiver may have stopped waiting.
fn report(first: &mut Option<oneshot::Sender<bool>>, succeeded: bool) {
    if let Some(first) = first.take() {
        let _ = first.send(succeeded);
    }
}

fn status(notice: &Notice) -> Value {
    let mut status = json!({
        "phase": "Failed",
        "reason": notice.reason,
        "message": notice.message,
    });
    if let Some(condition) = condition(notice) {
        status["conditions"] = json!([condition]);
    }
    status
}

fn condition(notice: &Notice) -> Option<Condition> {
    let message = notice.disruption_target.as_ref()?;
    let condition = Condition::new(
        "DisruptionTarget",
        true,
        "TerminationByKubelet",
        message.clone(),
        notice.time,
    );
    Some(condition.of_generation(notice.generation))
}

fn code(error: &ApiError) -> Option<u16> {
    error.status().map(|status| status.code)
}

/// Waits for as long as the server asks, or else for the back-off.
async fn pause_after(backoff: &mut Backoff, error: &ApiError) {
    let asked = error
        .status()
        .and_then(|status| status.details.as_ref())
        .map_or(0, |details| details.retry_after_seconds);
    let pause = backoff.next(Backoff::NO_JITTER);
    // A server that names a pause is overloaded; its own figure is the least.
    sleep(pause.max(Duration::from_secs(u64::from(asked)))).await;
}
