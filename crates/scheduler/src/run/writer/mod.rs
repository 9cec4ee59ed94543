//! Carries out decisions beside the scheduling loop: bindings, status patches and preemptions.
//!
//! The limits bound the concurrent calls of each kind. Results arrive in a channel. An answer has one meaning for all
//! writes:
//!
//! | answer | meaning |
//! |---|---|
//! | 404, or 409 for the UID | the pod was deleted ([`FailureKind::Gone`]) |
//! | 409 | the pod is in another state than assumed ([`FailureKind::Conflict`]) |
//! | 429 | nothing was done; again, after the time that the server names |
//! | 5xx, no answer in time, no connection | perhaps it was done; again, and for a binding the pod is looked at first |
//! | other 4xx | it will never be done ([`FailureKind::Refused`]) |

mod batch;
mod binding;
mod calls;
mod devices;
mod groups;
mod latest;
mod patient;
mod preemption;
mod status;
mod together;
mod volumes;

pub use batch::{BatchStatus, Eviction};
pub use groups::{GroupCondition, GroupStatus};
pub use preemption::Preemption;
pub use status::{Condition, StatusPatch};
pub use together::Together;

use super::attempts::{Failure, FailureKind};
use super::events::Events;
use super::extenders::Binder;
use super::pod_ref::PodRef;
use calls::Calls;
use evictd_cluster_client::{Actions, CALL_TIMEOUT};
use evictd_scheduling::{ClaimRef, PreBindPlan};
use latest::{Wanted, latest};
use serde_json::Value;
use status::{Statuses, Subject};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};

/// How many writes of a kind are under way at a time, and how long a call may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bindings.
    pub bindings: usize,
    /// Bindings that may be under way or wait for their turn; more are refused as [`Busy::Full`].
    pub waiting_bindings: usize,
    /// Status patches.
    pub statuses: usize,
    /// Preemptions.
    pub preemptions: usize,
    /// Victims of all preemptions.
    pub victims: usize,
    /// How long one call may take.
    pub call: Duration,
    /// How long the claims of a pod may take to get their volumes.
    pub volumes: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bindings: 64,
            waiting_bindings: 4096,
            statuses: 16,
            preemptions: 16,
            victims: 16,
            call: CALL_TIMEOUT,
            volumes: Duration::from_mins(10),
        }
    }
}

/// The result of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The pod has this node (S5-064).
    Bound {
        /// The pod.
        pod: PodRef,
        /// Its node.
        node: String,
    },
    /// The pod does not have this node, or with [`super::FailureKind::Unanswered`] it is not known (S5-095).
    NotBound {
        /// The pod.
        pod: PodRef,
        /// The node that it was to get.
        node: String,
        /// Why.
        failure: Failure,
    },
    /// The present claims of a pod that is not bound. This comes before [`Outcome::NotBound`].
    ClaimsRead(Vec<Value>),
    /// The devices of a claim of this pod were to be deallocated.
    Deallocated {
        /// The pod.
        pod: PodRef,
        /// Why they were not, if so.
        failure: Option<Failure>,
    },
    /// A pod that a session was to evict stays (S6-119).
    NotEvicted {
        /// The pod.
        pod: PodRef,
        /// Why.
        failure: Failure,
    },
    /// The pod's status could not be written.
    StatusNotWritten {
        /// The pod.
        pod: PodRef,
        /// Why.
        failure: Failure,
    },
    /// All victims but the last terminate. The last one is deleted next (S4-028, S5-112).
    LastVictim {
        /// The preemptor.
        preemptor: PodRef,
        /// The last one.
        victim: PodRef,
    },
    /// A preemption has ended (S4-029).
    Preempted {
        /// The preemptor.
        preemptor: PodRef,
        /// Why a victim could not be deleted, if one could not.
        failure: Option<Failure>,
    },
}

/// Why a write was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Busy {
    /// Too many wait.
    #[error("too many writes wait for the API server")]
    Full,
}

impl From<Busy> for Failure {
    fn from(busy: Busy) -> Self {
        Self {
            kind: FailureKind::Overloaded,
            message: busy.to_string(),
        }
    }
}

/// The parts of a binding beside pod and node.
#[derive(Default)]
pub struct With {
    /// The plan for the pod's claims.
    pub prepares: PreBindPlan,
    /// An extender that binds.
    pub binder: Option<Binder>,
    /// The barrier of its gang: no pod is bound before the claims of all pods are prepared.
    pub together: Option<Together>,
    /// Whether the pod was placed with others. Then it is taken however many bindings wait.
    pub of_many: bool,
}

/// Takes writes and carries them out. Clones share their state.
#[derive(Clone)]
pub struct Writer(Arc<Shared>);

struct Shared {
    calls: Calls,
    events: Events,
    statuses: Statuses,
    groups: Wanted<GroupStatus>,
    of_batch: Wanted<BatchStatus>,
    bindings: Semaphore,
    preemptions: Semaphore,
    victims: Semaphore,
    limits: Limits,
    /// How many bindings wait or are under way.
    bindings_begun: AtomicUsize,
    /// How many of them wait for others of their gang.
    at_rest: AtomicUsize,
    outcomes: mpsc::UnboundedSender<Outcome>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Writer {
    /// The channel holds at most one outcome per write, so it is bounded by what the limits and the pods allow.
    pub fn new(
        actions: Actions,
        events: Events,
        limits: Limits,
    ) -> (Self, mpsc::UnboundedReceiver<Outcome>) {
        let (outcomes, received) = mpsc::unbounded_channel();
        let calls = Calls::new(actions, limits.call);
        let (groups, of_groups) = latest();
        tokio::spawn(groups::write(calls.clone(), of_groups));
        let (of_batch, written) = latest();
        tokio::spawn(batch::write(calls.clone(), written));
        let shared = Shared {
            statuses: Statuses::new(calls.clone(), limits.statuses, outcomes.clone()),
            calls,
            events,
            groups,
            of_batch,
            bindings: Semaphore::new(limits.bindings),
            preemptions: Semaphore::new(limits.preemptions),
            victims: Semaphore::new(limits.victims),
            limits,
            bindings_begun: AtomicUsize::new(0),
            at_rest: AtomicUsize::new(0),
            outcomes,
        };
        (Self(Arc::new(shared)), received)
    }

    /// Gives a pod its node; ends in [`Outcome::Bound`] or [`Outcome::NotBound`]. The scheduler begins no second binding of a
    /// pod before the first has ended. Must be called inside the runtime, as all that follow.
    pub fn bind(&self, pod: PodRef, node: String) -> Result<(), Busy> {
        self.bind_as(pod, node, With::default())
    }

    /// As [`Self::bind`], with the other parts of a binding.
    pub fn bind_as(&self, pod: PodRef, node: String, with: With) -> Result<(), Busy> {
        let begun = self.0.bindings_begun.fetch_add(1, Ordering::Relaxed);
        if !with.of_many && begun >= self.0.limits.waiting_bindings {
            self.0.bindings_begun.fetch_sub(1, Ordering::Relaxed);
            return Err(Busy::Full);
        }
        let shared = Arc::clone(&self.0);
        tokio::spawn(async move {
            let result = shared.bind(&pod, &node, with).await;
            shared.bindings_begun.fetch_sub(1, Ordering::Relaxed);
            shared.report(match result {
                Ok(()) => Outcome::Bound { pod, node },
                Err(failure) => Outcome::NotBound { pod, node, failure },
            });
        });
        Ok(())
    }

    /// Deallocates the devices of a claim of a pod; ends in [`Outcome::Deallocated`].
    pub fn deallocate(&self, pod: PodRef, claim: ClaimRef) {
        let shared = Arc::clone(&self.0);
        tokio::spawn(async move {
            let done = devices::deallocate(&shared.calls, &claim).await;
            shared.report(Outcome::Deallocated {
                pod,
                failure: done.err(),
            });
        });
    }

    /// Writes a pod's status. A newer patch is merged into one that is not yet sent. Only failures are reported.
    pub fn status(&self, pod: impl Into<Subject>, patch: StatusPatch) {
        self.0.statuses.write(pod.into(), patch, None);
    }

    /// Writes conditions of a pod group. A pending write to the same group is merged with it.
    pub fn group(&self, status: GroupStatus) {
        self.0.groups.put(status.path(), status);
    }

    /// Writes the status of a pod group or a queue of batch sessions. A pending write to the same object is merged with it.
    pub fn batch_status(&self, status: BatchStatus) {
        self.0.of_batch.put(status.path.clone(), status);
    }

    /// Evicts pods for others; ends in [`Outcome::NotEvicted`] for each that stays.
    pub fn evict(&self, evictions: Vec<Eviction>) {
        let shared = Arc::clone(&self.0);
        tokio::spawn(async move { batch::evict(&shared, evictions).await });
    }

    /// Deletes victims for a pod; ends in [`Outcome::Preempted`]. The scheduler begins no second preemption of a pod before the
    /// first has ended.
    pub fn preempt(&self, preemption: Preemption) {
        let shared = Arc::clone(&self.0);
        tokio::spawn(async move {
            let result = match shared.preemptions.acquire().await {
                Ok(_turn) => preemption::carry_out(&shared, &preemption).await,
                Err(_) => Err(Failure::stopped()),
            };
            shared.report(Outcome::Preempted {
                preemptor: preemption.preemptor,
                failure: result.err(),
            });
        });
    }

    /// Bindings that wait for their turn or are under way, but for those that wait for others of their gang.
    pub fn bindings_in_flight(&self) -> usize {
        let at_rest = self.0.at_rest.load(Ordering::Relaxed);
        let begun = self.0.bindings_begun.load(Ordering::Relaxed);
        begun.saturating_sub(at_rest)
    }

    /// Begins no further write, because the lease was lost. Calls under way continue; waiting writes end as
    /// [`super::FailureKind::Stopped`].
    pub fn stop(&self) {
        self.0.bindings.close();
        self.0.preemptions.close();
        self.0.victims.close();
        self.0.statuses.stop();
    }
}

impl Shared {
    /// Gives a pod its node. If that fails, the changes of its claims are undone.
    async fn bind(&self, pod: &PodRef, node: &str, with: With) -> Result<(), Failure> {
        let mut ready = self.prepare(pod, node, &with.prepares).await;
        if let Some(together) = &with.together {
            self.at_rest.fetch_add(1, Ordering::Relaxed);
            ready = together.arrive(ready).await;
            self.at_rest.fetch_sub(1, Ordering::Relaxed);
        }
        // A gang without a bound pod keeps no devices.
        let deallocates = with.together.is_some() && ready.is_err();
        let mut result = match (ready, self.bindings.acquire().await) {
            (Ok(()), Ok(_turn)) => match &with.binder {
                Some(binder) => binder.bind(pod, node).await,
                None => binding::bind(&self.calls, pod, node).await,
            },
            (Err(failure), _) => Err(failure),
            (Ok(()), Err(_)) => Err(Failure::stopped()),
        };
        if result.is_ok() && with.binder.is_some() {
            result = binding::confirm(&self.calls, pod, node).await;
        }
        let devices = &with.prepares.devices;
        if result.is_err() && !devices.is_empty() {
            let claims = devices::give_back(&self.calls, pod, devices, deallocates).await;
            self.report(Outcome::ClaimsRead(claims));
        }
        result
    }

    /// Prepares a pod's claims before its binding. Volumes take longest.
    async fn prepare(
        &self,
        pod: &PodRef,
        node: &str,
        prepares: &PreBindPlan,
    ) -> Result<(), Failure> {
        devices::prepare(&self.calls, pod, &prepares.devices).await?;
        let within = self.limits.volumes;
        volumes::prepare(&self.calls, pod, node, &prepares.volumes, within).await
    }

    fn report(&self, outcome: Outcome) {
        // The receiver is dropped only when the scheduler ends.
        let _ = self.outcomes.send(outcome);
    }
}
