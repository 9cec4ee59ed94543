//! Evicts a pod through the eviction API, which checks its disruption budget; then the kubelet ends it.

use super::{Evict, EvictError};
use evictd_cluster_client::{Actions, ApiError, Backoff};
use evictd_kernel::kill::{CgroupEvictor, GraceCut, SigtermBy, Termination, Victim};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{DeleteParams, EvictParams, Preconditions},
    core::PartialObjectMeta,
};
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;

/// How long to wait for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// The same once a hard threshold is crossed.
const HARD_ANSWER_TIMEOUT: Duration = Duration::from_millis(50);
/// The pause before repeating a request that may have succeeded, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The longest time spent on one pod, because other evictions wait for it.
const LONGEST: Duration = Duration::from_secs(28);
/// The shortest grace period of a pod whose eviction was allowed late, unless its own is shorter; the kubelet
/// allows as much.
const LEAST_GRACE: Duration = Duration::from_secs(2);
/// When to repeat a refused request, unless the server says when.
const RETRY_REFUSED: Duration = Duration::from_mins(1);
/// The same if there was no answer.
const RETRY_UNANSWERED: Duration = Duration::from_secs(10);
/// Why the answer is not waited for.
const HARD_THRESHOLD_CROSSED: &str = "a hard threshold was crossed before the API server answered";

/// Evicts one pod if its disruption budget allows it.
#[derive(Clone)]
pub(crate) struct ApiEvictor {
    /// Makes sure that the pod ends after its grace period.
    pub local: Arc<CgroupEvictor>,
    /// Calls the API server.
    pub actions: Actions,
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
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
            allowed = self.request_until_terminating(victim, grace, waited) => {
                allowed?;
                // The time of the answer counts, but the pod keeps a moment after the SIGTERM of its kubelet.
                grace.saturating_sub(waited()).max(grace.min(LEAST_GRACE))
            }
            () = cut.wait() => {
                self.check_after_hard_threshold(victim).await?;
                Duration::ZERO
            }
        };
        Ok(self
            .local
            .end(victim, grace, cut, SigtermBy::Kubelet)
            .await?)
    }
}

impl ApiEvictor {
    /// Returns once the pod is terminating. A request without an answer may have succeeded: choosing another pod
    /// then could evict two for one shortage. Only after a refusal, and if the pod is seen to stay, is the next pod
    /// chosen at once.
    async fn request_until_terminating(
        &self,
        victim: &Victim,
        grace: Duration,
        waited: impl Fn() -> Duration,
    ) -> Result<(), EvictError> {
        let longest = grace.clamp(ANSWER_TIMEOUT, LONGEST);
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        loop {
            let Err(error) = self.request(victim, grace).await else {
                return Ok(());
            };
            let pause = backoff.next(Backoff::NO_JITTER);
            // An eviction whose answer was lost may have been carried out.
            match self.is_terminating(victim, ANSWER_TIMEOUT).await {
                Ok(true) => return Ok(()),
                Ok(false) if is_refusal(&error) => return Err(refused(&error)),
                Ok(false) | Err(_) if waited() + pause >= longest => {
                    return Err(blocked(error.to_string(), RETRY_UNANSWERED));
                }
                Ok(false) | Err(_) => sleep(pause).await,
            }
        }
    }

    /// A hard threshold was crossed: the answer is not waited for any more, though the request may have succeeded.
    async fn check_after_hard_threshold(&self, victim: &Victim) -> Result<(), EvictError> {
        match self.is_terminating(victim, HARD_ANSWER_TIMEOUT).await {
            // The pod is chosen again at once, and then without the eviction API.
            Ok(false) => Err(blocked(HARD_THRESHOLD_CROSSED.to_owned(), Duration::ZERO)),
            Ok(true) | Err(_) => Ok(()),
        }
    }

    async fn request(&self, victim: &Victim, grace: Duration) -> Result<(), ApiError> {
        let pods: Api<Pod> = Api::namespaced(self.actions.client(), &self.namespace);
        let grace = u32::try_from(grace.as_secs()).unwrap_or(u32::MAX);
        let options = DeleteParams {
            grace_period_seconds: Some(grace),
            // A pod of the same name that came meanwhile must not be evicted in its place.
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
        self.actions.call(&what, ANSWER_TIMEOUT, call).await?;
        Ok(())
    }

    /// Whether the API server shows the pod as terminating, or no longer has it.
    async fn is_terminating(&self, victim: &Victim, timeout: Duration) -> Result<bool, ApiError> {
        let pods: Api<PartialObjectMeta<Pod>> =
            Api::namespaced(self.actions.client(), &self.namespace);
        let what = format!("reading pod {}/{}", self.namespace, self.name);
        let call = pods.get_opt(&self.name);
        let found = self.actions.call(&what, timeout, call).await?;
        Ok(found.is_none_or(|pod| {
            let seen = pod.metadata;
            seen.deletion_timestamp.is_some() || seen.uid.as_ref() != Some(&victim.uid)
        }))
    }
}

/// Whether the server has refused; for other errors the request may still succeed, or succeed the next time. If
/// several budgets protect a pod the answer is 500.
fn is_refusal(error: &ApiError) -> bool {
    let code = error.status().map(|status| status.code);
    // Some webhooks and budgets in error answer with 500; 404, 408 and 409 say nothing about the budget.
    code.is_some_and(|code| code <= 500 && !matches!(code, 404 | 408 | 409))
}

/// The error for a refusal, and when to ask again.
fn refused(error: &ApiError) -> EvictError {
    let details = error.status().and_then(|status| status.details.as_ref());
    let causes: Vec<&str> = details
        .into_iter()
        .flat_map(|details| &details.causes)
        .map(|cause| cause.message.as_str())
        .collect();
    let asked = details.map_or(0, |details| details.retry_after_seconds);
    let again = match asked {
        // The API server leaves it out when it cannot know: a budget has no end.
        0 => RETRY_REFUSED,
        seconds => Duration::from_secs(u64::from(seconds)),
    };
    // The causes name the budget, which the message of the API server does not.
    let why = match causes.as_slice() {
        [] => error.to_string(),
        causes => format!("{error} {}", causes.join(" ")),
    };
    blocked(why, again)
}

fn blocked(why: String, again: Duration) -> EvictError {
    EvictError::Blocked { why, again }
}
