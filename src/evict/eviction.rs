//! A pod leaves by the eviction API: its disruption budget is asked, and the kubelet ends it.

use super::cgroup::Asks;
use super::{CgroupEvictor, Departure, EvictError, GraceCut, Leave, Victim};
use crate::api::{Actions, ApiError};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{DeleteParams, EvictParams, Preconditions},
};
use std::{sync::Arc, time::Duration};

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// When a refused pod is asked for again, unless the server says it.
const AGAIN: Duration = Duration::from_mins(1);
/// The same where there was no answer.
const SOON: Duration = Duration::from_secs(10);
/// Why an answer is not waited for.
const OVERTAKEN: &str = "a hard threshold was crossed before the API server answered";

/// Ends one pod as its budget allows.
#[derive(Clone)]
pub struct ApiEvictor {
    /// Sees to it that it is gone after its grace.
    pub local: Arc<CgroupEvictor>,
    /// Asks.
    pub actions: Actions,
    /// Of the pod.
    pub namespace: String,
    /// Of the pod.
    pub name: String,
}

impl Leave for ApiEvictor {
    async fn leave(
        &self,
        victim: &Victim,
        grace: Duration,
        cut: &GraceCut,
    ) -> Result<Departure, EvictError> {
        let asks = tokio::select! {
            asked = self.ask(victim, grace) => asked?,
            // It is chosen again at once, and then nobody is asked.
            () = cut.wait() => return Err(blocked(OVERTAKEN.to_owned(), Duration::ZERO)),
        };
        self.local.end(victim, grace, cut, asks).await
    }
}

impl ApiEvictor {
    async fn ask(&self, victim: &Victim, grace: Duration) -> Result<Asks, EvictError> {
        let pods: Api<Pod> = Api::namespaced(self.actions.client(), &self.namespace);
        let grace = u32::try_from(grace.as_secs()).unwrap_or(u32::MAX);
        let options = DeleteParams {
            grace_period_seconds: Some(grace),
            preconditions: Some(Preconditions {
                uid: Some(victim.uid.clone()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let eviction = EvictParams {
            delete_options: Some(options),
            ..EvictParams::default()
        };
        let what = format!("evicting pod {}/{}", self.namespace, self.name);
        let call = pods.evict(&self.name, &eviction);
        match self.actions.call(&what, PATIENCE, call).await {
            Ok(_) => Ok(Asks::Kubelet),
            Err(error) => answered(&error),
        }
    }
}

/// What follows from a refusal: a pod that the API server knows no more is on its way out already.
fn answered(error: &ApiError) -> Result<Asks, EvictError> {
    let Some(status) = error.status() else {
        return Err(blocked(error.to_string(), SOON));
    };
    if matches!(status.code, 404 | 409) {
        return Ok(Asks::Kubelet);
    }
    let details = status.details.as_ref();
    let causes = details.into_iter().flat_map(|details| &details.causes);
    let causes: Vec<&str> = causes.map(|cause| cause.message.as_str()).collect();
    let asked = details.map_or(0, |details| details.retry_after_seconds);
    let again = match asked {
        0 => AGAIN,
        seconds => Duration::from_secs(u64::from(seconds)),
    };
    let why = match causes.as_slice() {
        [] => error.to_string(),
        causes => format!("{error} {}", causes.join(" ")),
    };
    Err(blocked(why, again))
}

fn blocked(why: String, again: Duration) -> EvictError {
    EvictError::Blocked { why, again }
}
