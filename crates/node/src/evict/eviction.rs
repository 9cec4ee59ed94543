//! A pod leaves by the eviction API: its disruption budget is asked, and the kubelet ends it.

use super::{Evict, EvictError};
use evictd_cluster_client::{Actions, ApiError, Backoff};
use evictd_kernel::kill::{Asks, CgroupEvictor, GraceCut, Termination, Victim};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{DeleteParams, EvictParams, Preconditions},
    core::PartialObjectMeta,
};
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// The same once a hard threshold is crossed.
const HARD_PATIENCE: Duration = Duration::from_millis(50);
/// Between two requests of which the first may have landed; twice as long each time.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The longest that one pod is asked for: others wait for it meanwhile.
const LONGEST: Duration = Duration::from_secs(28);
/// What is left of its grace to a pod that was let go late, unless it has less in all: so much the kubelet gives any.
const LEAST_GRACE: Duration = Duration::from_secs(2);
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

impl Evict for ApiEvictor {
    async fn evict(
        &self,
        victim: &Victim,
        grace: Duration,
        cut: &GraceCut,
    ) -> Result<Termination, EvictError> {
        let began = self.local.clock.now();
        let waited = || self.local.clock.now().duration_since(began).unsigned_abs();
        let grace = tokio::select! {
            let_go = self.ask(victim, grace, waited) => {
                let_go?;
                grace.saturating_sub(waited()).max(grace.min(LEAST_GRACE))
            }
            () = cut.wait() => {
                self.overtaken(victim).await?;
                Duration::ZERO
            }
        };
        Ok(self.local.end(victim, grace, cut, Asks::Kubelet).await?)
    }
}

impl ApiEvictor {
    /// Returns once it is on its way out. A request without an answer may have landed: if another were chosen then, two
    /// would go for the same bytes. Only a pod that is seen to stay after a refusal is given up at once.
    async fn ask(
        &self,
        victim: &Victim,
        grace: Duration,
        waited: impl Fn() -> Duration,
    ) -> Result<(), EvictError> {
        let longest = grace.clamp(PATIENCE, LONGEST);
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        loop {
            let Err(error) = self.request(victim, grace).await else {
                return Ok(());
            };
            let pause = backoff.next(Backoff::WHOLE);
            match self.goes(victim, PATIENCE).await {
                Ok(true) => return Ok(()),
                Ok(false) if is_refusal(&error) => return Err(refused(&error)),
                Ok(false) | Err(_) if waited() + pause >= longest => {
                    return Err(blocked(error.to_string(), SOON));
                }
                Ok(false) | Err(_) => sleep(pause).await,
            }
        }
    }

    /// Nobody waits any more for an answer, and the request may have landed all the same.
    async fn overtaken(&self, victim: &Victim) -> Result<(), EvictError> {
        match self.goes(victim, HARD_PATIENCE).await {
            // It is chosen again at once, and then nobody is asked.
            Ok(false) => Err(blocked(OVERTAKEN.to_owned(), Duration::ZERO)),
            Ok(true) | Err(_) => Ok(()),
        }
    }

    async fn request(&self, victim: &Victim, grace: Duration) -> Result<(), ApiError> {
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
        self.actions.call(&what, PATIENCE, call).await?;
        Ok(())
    }

    /// Whether the API server has it on its way out, or knows it no more.
    async fn goes(&self, victim: &Victim, patience: Duration) -> Result<bool, ApiError> {
        let pods: Api<PartialObjectMeta<Pod>> =
            Api::namespaced(self.actions.client(), &self.namespace);
        let what = format!("looking at pod {}/{}", self.namespace, self.name);
        let call = pods.get_opt(&self.name);
        let found = self.actions.call(&what, patience, call).await?;
        Ok(found.is_none_or(|pod| {
            let seen = pod.metadata;
            seen.deletion_timestamp.is_some() || seen.uid.as_ref() != Some(&victim.uid)
        }))
    }
}

/// Whether the server has said no; else the request may be on its way still, or fare better the next time. Where several
/// budgets protect a pod it says 500.
fn is_refusal(error: &ApiError) -> bool {
    let code = error.status().map(|status| status.code);
    code.is_some_and(|code| code <= 500 && !matches!(code, 404 | 408 | 409))
}

/// What follows from a refusal.
fn refused(error: &ApiError) -> EvictError {
    let details = error.status().and_then(|status| status.details.as_ref());
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
    blocked(why, again)
}

fn blocked(why: String, again: Duration) -> EvictError {
    EvictError::Blocked { why, again }
}
