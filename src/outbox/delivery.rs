//! One notice on its way: a patch of the pod's status, asked again until it is known to have landed, or cannot.

use super::{Fate, Notice, Way};
use crate::api::{Actions, ApiError, CALL_TIMEOUT, FIELD_MANAGER};
use evictd_eviction::record::ANNOTATION;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
    core::PartialObjectMeta,
};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::{sync::oneshot, time::sleep};

const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Keeps at it; `first` is told whether the first attempt landed. What may have landed before is looked for first.
pub(super) async fn deliver(
    actions: &Actions,
    notice: &Notice,
    again: bool,
    first: oneshot::Sender<bool>,
) -> Fate {
    let mail = Mail {
        pods: Api::namespaced(actions.client(), &notice.namespace),
        actions,
        notice,
    };
    let found = if again {
        mail.look().await
    } else {
        Ok(Look::Unsaid)
    };
    let mut attempt = match found {
        Ok(Look::Settled(fate)) => {
            let _ = first.send(fate == Fate::Published);
            return fate;
        }
        Ok(Look::Unsaid) => mail.tell().await,
        Err(unknown) => Err(unknown),
    };
    // Nobody may be waiting for it any more.
    let _ = first.send(attempt.is_ok());
    let mut pause = FIRST_PAUSE;
    let mut warned = false;
    loop {
        let Err(error) = attempt else {
            return Fate::Published;
        };
        if !std::mem::replace(&mut warned, true) {
            tracing::warn!(
                EVICTD_DECISION_ID = notice.id,
                EVICTD_POD = notice.pod(),
                EVICTD_POD_UID = notice.uid,
                "the API server is not told yet: {error}"
            );
        }
        let about_the_pod = matches!(code(&error), Some(404 | 409 | 422));
        if !about_the_pod {
            rest(&mut pause, &error).await;
        }
        attempt = match mail.look().await {
            Ok(Look::Settled(fate)) => return fate,
            Ok(Look::Unsaid) if !may_change(&error) => {
                return Fate::NotPublished(error.to_string());
            }
            Ok(Look::Unsaid) => {
                if about_the_pod {
                    rest(&mut pause, &error).await;
                }
                mail.tell().await
            }
            Err(unknown) => Err(unknown),
        };
    }
}

/// What the pod's object says.
enum Look {
    /// There is nothing left to do.
    Settled(Fate),
    /// It is the pod, and it does not know.
    Unsaid,
}

struct Mail<'a> {
    pods: Api<PartialObjectMeta<Pod>>,
    actions: &'a Actions,
    notice: &'a Notice,
}

impl Mail<'_> {
    async fn tell(&self) -> Result<(), ApiError> {
        match self.notice.way {
            Way::Status => self.patch().await,
            Way::Delete(seconds) => self.delete(seconds).await,
        }
    }

    /// With no grace at all the object would be gone before its processes are.
    async fn delete(&self, seconds: u64) -> Result<(), ApiError> {
        let what = format!("deleting pod {}", self.notice.pod());
        let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
        let options = DeleteParams {
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

    async fn patch(&self) -> Result<(), ApiError> {
        let what = format!("telling the status of pod {}", self.notice.pod());
        let by = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Strategic(body(self.notice));
        let call = self.pods.patch_status(&self.notice.name, &by, &patch);
        self.actions.call(&what, CALL_TIMEOUT, call).await?;
        Ok(())
    }

    /// Before anything is asked twice: what was not answered may have landed all the same.
    async fn look(&self) -> Result<Look, ApiError> {
        let what = format!("looking at pod {}", self.notice.pod());
        let call = self.pods.get_opt(&self.notice.name);
        let found = self.actions.call(&what, CALL_TIMEOUT, call).await?;
        let Some(pod) = found.map(|pod| pod.metadata) else {
            return Ok(Look::Settled(Fate::Recorded("the pod is gone")));
        };
        if pod.uid.as_ref() != Some(&self.notice.uid) {
            let why = "another pod has its name now";
            return Ok(Look::Settled(Fate::Recorded(why)));
        }
        let annotations = pod.annotations.unwrap_or_default();
        Ok(
            if annotations.get(ANNOTATION) == Some(&self.notice.record) {
                Look::Settled(Fate::Published)
            } else {
                Look::Unsaid
            },
        )
    }
}

/// The annotation comes with it, for without one the kubelet does not look at the pod again, and writes the phase back.
/// The UID is a precondition.
fn body(notice: &Notice) -> Value {
    let mut status = json!({
        "phase": "Failed",
        "reason": notice.reason,
        "message": notice.message,
    });
    if let Some(message) = &notice.disruption_target {
        status["conditions"] = json!([{
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "TerminationByKubelet",
            "message": message,
            "lastTransitionTime": notice.time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        }]);
    }
    json!({
        "metadata": { "uid": notice.uid, "annotations": { ANNOTATION: notice.record } },
        "status": status,
    })
}

fn code(error: &ApiError) -> Option<u16> {
    error.status().map(|status| status.code)
}

/// Whether the same may be answered otherwise later: no answer, a conflict, a server in trouble, permissions on the way.
fn may_change(error: &ApiError) -> bool {
    code(error).is_none_or(|code| matches!(code, 401 | 403 | 404 | 408 | 409 | 429) || code >= 500)
}

/// Waits as long as the server asks for, or as it is time to.
async fn rest(pause: &mut Duration, error: &ApiError) {
    let asked = error
        .status()
        .and_then(|status| status.details.as_ref())
        .map_or(0, |details| details.retry_after_seconds);
    sleep((*pause).max(Duration::from_secs(u64::from(asked)))).await;
    *pause = (*pause * 2).min(LONGEST_PAUSE);
}
