//! Carries out decisions beside the scheduling loop: bindings, status patches and preemptions.
//!
//! The limits bound the concurrent calls of each kind. Results arrive in a channel. An answer has one meaning for all
//! writes:
//!
//! | answer | meaning |
//! |---|---|
//! | 404, or 409 for the UID | the pod was deleted ([`FailureKind::Gone`]) |
//! | 409 | the pod is in another state than assumed ([`FailureKind::Conflict`]) |
//! | 429 | nothing was done; retried after the time that the server names |
//! | 5xx, no answer in time, no connection | it may have been done; retried, and for a binding the pod is read first |
//! | other 4xx | the server would refuse it again ([`FailureKind::Refused`]) |

mod batch;
mod binding;
mod calls;
mod devices;
mod gang_barrier;
mod groups;
mod preemption;
mod retry;
mod special_claim;
mod status;
#[cfg(test)]
mod tests;
mod volumes;
mod write_queue;

pub(crate) use batch::{BatchStatus, Eviction};
pub(crate) use gang_barrier::GangBarrier;
pub(crate) use groups::GroupStatus;
pub(crate) use preemption::{Preemption, Victim};
pub(crate) use status::StatusPatch;

use super::api_retry::{Failure, FailureKind};
use super::events::Events;
use super::extenders::Binder;
use super::metrics::{BindingRecorder, ClaimsCreated, Metrics, WorkItem, WorkQueue};
use super::pod_ref::PodRef;
use calls::Calls;
use evictd_batch::session::GroupWrite;
use evictd_cluster_client::{Actions, CALL_TIMEOUT};
use evictd_scheduling::config::Point;
use evictd_scheduling::{ClaimRef, PluginName, PreBindPlan};
use serde_json::Value;
use status::{Statuses, Subject};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::Instant;
use write_queue::{WriteSender, write_queue};

/// The plugin that binds pods.
const DEFAULT_BINDER: &str = "DefaultBinder";

/// How long the devices of a pod may take to be bound without a profile, as in kube-scheduler.
const DEVICE_TIMEOUT: Duration = Duration::from_mins(10);

/// The most concurrent writes of each kind, and time limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) bindings: usize,
    /// The most bindings that are under way or wait. Further ones are refused as [`Busy::Full`].
    pub(crate) waiting_bindings: usize,
    pub(crate) statuses: usize,
    pub(crate) preemptions: usize,
    /// Victims of all preemptions.
    pub(crate) victims: usize,
    /// The timeout of one call.
    pub(crate) call: Duration,
    /// How long the claims of a pod may take to get their volumes.
    pub(crate) volumes: Duration,
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
pub(crate) enum Outcome {
    /// The pod has this node (S5-064).
    Bound {
        pod: PodRef,
        node: String,
    },
    /// The pod does not have this node. With [`FailureKind::Unanswered`] it may have it (S5-095).
    NotBound {
        pod: PodRef,
        node: String,
        failure: Failure,
    },
    /// The present claims of a pod that is not bound. This comes before [`Outcome::NotBound`].
    ClaimsRead(Vec<Value>),
    /// A request to deallocate the devices of a claim has ended. The pod is one that needs them.
    Deallocated {
        pod: PodRef,
        failure: Option<Failure>,
    },
    /// A session could not evict the pod (S6-119).
    NotEvicted {
        pod: PodRef,
        failure: Failure,
    },
    /// The status of a pod group of batch sessions was written, or will not be.
    GroupWritten {
        key: String,
        /// The number that [`BatchStatus::group`] got.
        write: u64,
        answer: GroupWrite,
    },
    StatusNotWritten {
        pod: PodRef,
        failure: Failure,
    },
    /// All victims but the last terminate. The last one is deleted next (S4-028, S5-112).
    LastVictim {
        preemptor: PodRef,
        victim: PodRef,
    },
    /// A preemption has ended (S4-029). It has failed if a victim could not be deleted.
    Preempted {
        preemptor: PodRef,
        failure: Option<Failure>,
    },
}

/// Why the writer refuses a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Busy {
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
pub(crate) struct BindOptions {
    /// The scheduler of the pod, for its events.
    pub(crate) scheduler: String,
    /// The changes of the pod's claims in `PreBind`.
    pub(crate) pre_bind: PreBindPlan,
    /// How long the devices of the pod may take to be bound, if its profile says so.
    pub(crate) device_timeout: Option<Duration>,
    /// An extender that binds the pod.
    pub(crate) binder: Option<Binder>,
    /// No pod of the gang is bound before the claims of all its pods are prepared.
    pub(crate) gang_barrier: Option<GangBarrier>,
    /// Measures `PreBind` and Bind.
    pub(crate) recorder: Option<BindingRecorder>,
    /// Whether the pod was placed with others. Its binding is then accepted however many wait.
    pub(crate) of_many: bool,
}

impl BindOptions {
    /// Measures a plugin that has run since then.
    fn plugin_ran(&self, plugin: &str, point: Point, succeeds: bool, since: Instant) {
        if let Some(recorder) = &self.recorder {
            recorder.plugin_ran(plugin, point, succeeds, since);
        }
    }
}

/// Carries out writes. Clones share their state.
#[derive(Clone)]
pub(crate) struct Writer(Arc<Shared>);

struct Shared {
    calls: Calls,
    events: Events,
    statuses: Statuses,
    groups: WriteSender<GroupStatus>,
    batch_statuses: WriteSender<BatchStatus>,
    bindings: Semaphore,
    preemptions: Semaphore,
    victims: Semaphore,
    limits: Limits,
    /// How many bindings wait or are under way.
    bindings_begun: AtomicUsize,
    /// How many of them have begun their call. Each counts until its outcome is reported.
    binding_calls: watch::Sender<usize>,
    /// How many of them wait at a gang barrier.
    at_barrier: AtomicUsize,
    outcomes: mpsc::UnboundedSender<Outcome>,
    binding_queue: WorkQueue,
    preemption_queue: WorkQueue,
    claims_created: ClaimsCreated,
}

/// Counts a binding while it exists.
struct BindingCall(watch::Sender<usize>);

impl BindingCall {
    fn begin(calls: &watch::Sender<usize>) -> Self {
        calls.send_modify(|count| *count += 1);
        Self(calls.clone())
    }
}

impl Drop for BindingCall {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Writer {
    /// The channel holds at most one outcome for each write, so that the limits and the number of pods bound it.
    pub(crate) fn new(
        actions: Actions,
        events: Events,
        limits: Limits,
        metrics: &Metrics,
    ) -> (Self, mpsc::UnboundedReceiver<Outcome>) {
        let (outcomes, received) = mpsc::unbounded_channel();
        let calls = Calls::new(actions, limits.call);
        let (groups, queue) = write_queue();
        tokio::spawn(groups::write(calls.clone(), queue));
        let (batch_statuses, queue) = write_queue();
        tokio::spawn(batch::write(calls.clone(), queue, outcomes.clone()));
        let binding_queue = metrics.work_queues.queue("binding");
        binding_queue.retried(0);
        let shared = Shared {
            statuses: Statuses::new(calls.clone(), limits.statuses, outcomes.clone()),
            calls,
            events,
            groups,
            batch_statuses,
            bindings: Semaphore::new(limits.bindings),
            preemptions: Semaphore::new(limits.preemptions),
            victims: Semaphore::new(limits.victims),
            limits,
            bindings_begun: AtomicUsize::new(0),
            binding_calls: watch::Sender::new(0),
            at_barrier: AtomicUsize::new(0),
            outcomes,
            binding_queue,
            preemption_queue: metrics.work_queues.queue("preemption"),
            claims_created: metrics.claims_created.clone(),
        };
        (Self(Arc::new(shared)), received)
    }

    /// Binds a pod, which ends in [`Outcome::Bound`] or [`Outcome::NotBound`]. The scheduler begins no second binding of a pod
    /// before the first has ended. This and the following methods must be called inside the runtime.
    pub(crate) fn bind(&self, pod: PodRef, node: String, options: BindOptions) -> Result<(), Busy> {
        // Counted here and not in the task, which may start much later.
        let begun = self.0.bindings_begun.fetch_add(1, Ordering::Relaxed);
        if !options.of_many && begun >= self.0.limits.waiting_bindings {
            self.0.bindings_begun.fetch_sub(1, Ordering::Relaxed);
            return Err(Busy::Full);
        }
        let shared = Arc::clone(&self.0);
        let mut work = shared.binding_queue.add();
        tokio::spawn(async move {
            let mut call = None;
            let result = shared
                .bind(&pod, &node, options, &mut call, &mut work)
                .await;
            drop(work);
            shared.bindings_begun.fetch_sub(1, Ordering::Relaxed);
            shared.report(match result {
                Ok(()) => Outcome::Bound { pod, node },
                Err(failure) => Outcome::NotBound { pod, node, failure },
            });
            drop(call);
        });
        Ok(())
    }

    /// Deallocates the devices of a claim, which ends in [`Outcome::Deallocated`].
    pub(crate) fn deallocate(&self, pod: PodRef, claim: ClaimRef) {
        let shared = Arc::clone(&self.0);
        tokio::spawn(async move {
            let result = devices::deallocate(&shared.calls, &claim).await;
            shared.report(Outcome::Deallocated {
                pod,
                failure: result.err(),
            });
        });
    }

    /// Patches a pod's status. A newer patch is merged into one that is not yet sent. Only failures are reported.
    pub(crate) fn status(&self, pod: impl Into<Subject>, patch: StatusPatch) {
        self.0.statuses.write(pod.into(), patch, None);
    }

    /// How many patches of statuses are under way.
    #[cfg(test)]
    fn statuses_under_way(&self) -> usize {
        self.0.statuses.under_way()
    }

    /// Writes conditions of a pod group. A pending write to the same group is merged with it.
    pub(crate) fn group(&self, status: GroupStatus) {
        self.0.groups.put(status.path(), status);
    }

    /// Writes the status of a pod group or a queue of batch sessions. A pending write to the same object is merged with it.
    pub(crate) fn batch_status(&self, status: BatchStatus) {
        self.0.batch_statuses.put(status.path.clone(), status);
    }

    /// Evicts pods for others. Only failures are reported, as [`Outcome::NotEvicted`].
    pub(crate) fn evict(&self, evictions: Vec<Eviction>) {
        let shared = Arc::clone(&self.0);
        tokio::spawn(async move { batch::evict(&shared, evictions).await });
    }

    /// Deletes the victims of a pod, which ends in [`Outcome::Preempted`]. The scheduler begins no second preemption of a pod
    /// before the first has ended.
    pub(crate) fn preempt(&self, preemption: Preemption) {
        let shared = Arc::clone(&self.0);
        let mut work = shared.preemption_queue.add();
        tokio::spawn(async move {
            let result = match shared.preemptions.acquire().await {
                Ok(_turn) => {
                    work.begin();
                    preemption::carry_out(&shared, &preemption).await
                }
                Err(_) => Err(Failure::stopped()),
            };
            drop(work);
            shared.report(Outcome::Preempted {
                preemptor: preemption.preemptor,
                failure: result.err(),
            });
        });
    }

    /// The number of bindings that wait or are under way, without those at a gang barrier.
    pub(crate) fn bindings_in_flight(&self) -> usize {
        let at_barrier = self.0.at_barrier.load(Ordering::Relaxed);
        let begun = self.0.bindings_begun.load(Ordering::Relaxed);
        begun.saturating_sub(at_barrier)
    }

    /// Brings the gauges of the tasks up to date.
    pub(crate) fn update_work_queues(&self) {
        self.0.binding_queue.update();
        self.0.preemption_queue.update();
    }

    /// Waits until the result of each binding that is under way is in the channel.
    pub(crate) async fn binding_calls_end(&self) {
        let mut calls = self.0.binding_calls.subscribe();
        // The sender is a part of `self`.
        let _ = calls.wait_for(|calls| *calls == 0).await;
    }

    /// Begins no further write, because the lease was lost or the scheduler stops. Calls under way continue. Waiting writes end as
    /// [`FailureKind::Stopped`].
    pub(crate) fn stop(&self) {
        // A closed semaphore ends the writes that wait for it.
        self.0.bindings.close();
        self.0.preemptions.close();
        self.0.victims.close();
        self.0.statuses.stop();
        self.0.calls.stop();
    }
}

impl Shared {
    /// `PreBind` and Bind. If one of them fails, the changes of the pod's claims are undone.
    /// `call` counts the binding from when its call begins, `work` measures it.
    async fn bind(
        &self,
        pod: &PodRef,
        node: &str,
        options: BindOptions,
        call: &mut Option<BindingCall>,
        work: &mut WorkItem,
    ) -> Result<(), Failure> {
        let began = Instant::now();
        let mut ready = self.pre_bind(pod, node, &options).await;
        let ran = |point, succeeds, since| {
            if let Some(recorder) = &options.recorder {
                recorder.ran(point, succeeds, since);
            }
        };
        ran(Point::PreBind, ready.is_ok(), began);
        if let Some(barrier) = &options.gang_barrier {
            self.at_barrier.fetch_add(1, Ordering::Relaxed);
            ready = barrier.arrive(ready).await;
            self.at_barrier.fetch_sub(1, Ordering::Relaxed);
        }
        if ready.is_ok() {
            self.statuses
                .end_condition(&pod.uid, self.limits.call)
                .await;
        }
        // No pod of the gang is bound then, and devices that it keeps would be lost for others.
        let deallocates = options.gang_barrier.is_some() && ready.is_err();
        let mut result = match (ready, self.bindings.acquire().await) {
            (Ok(()), Ok(_turn)) => {
                work.begin();
                *call = Some(BindingCall::begin(&self.binding_calls));
                if let Some(binder) = &options.binder {
                    binder.bind(pod, node).await
                } else {
                    let began = Instant::now();
                    let bound = binding::bind(&self.calls, pod, node, work).await;
                    ran(Point::Bind, bound.is_ok(), began);
                    options.plugin_ran(DEFAULT_BINDER, Point::Bind, bound.is_ok(), began);
                    bound
                }
            }
            (Err(failure), _) => Err(failure),
            (Ok(()), Err(_)) => Err(Failure::stopped()),
        };
        if result.is_ok() && options.binder.is_some() {
            // An extender may report success before the pod has its node, or without that.
            result = binding::confirm(&self.calls, pod, node).await;
        }
        let devices = &options.pre_bind.devices;
        if result.is_err() && !devices.is_empty() {
            let claims = devices::unreserve(&self.calls, pod, devices, deallocates).await;
            self.report(Outcome::ClaimsRead(claims));
        }
        result
    }

    /// Allocates the pod's devices and volumes. Volumes take longest, and are last.
    async fn pre_bind(
        &self,
        pod: &PodRef,
        node: &str,
        options: &BindOptions,
    ) -> Result<(), Failure> {
        let (plan, scheduler) = (&options.pre_bind, &options.scheduler);
        let announce = || self.events.waits_for_devices(scheduler, pod, node);
        let within = options.device_timeout.unwrap_or(DEVICE_TIMEOUT);
        let created = |succeeds| self.claims_created.add(succeeds);
        let hooks = (announce, created);
        let began = Instant::now();
        let bound = devices::pre_bind(&self.calls, pod, &plan.devices, within, hooks).await;
        if !plan.devices.is_empty() {
            let plugin = PluginName::DynamicResources.as_str();
            options.plugin_ran(plugin, Point::PreBind, bound.is_ok(), began);
        }
        bound?;
        let (began, within) = (Instant::now(), self.limits.volumes);
        let bound = volumes::pre_bind(&self.calls, pod, node, &plan.volumes, within).await;
        if !plan.volumes.is_empty() {
            let plugin = PluginName::VolumeBinding.as_str();
            options.plugin_ran(plugin, Point::PreBind, bound.is_ok(), began);
        }
        bound
    }

    fn report(&self, outcome: Outcome) {
        // The receiver is dropped only when the scheduler ends.
        let _ = self.outcomes.send(outcome);
    }
}
