//! One attempt to schedule a pod: from the queue to the chosen node, or to the plan of a preemption.

use super::cost::CostMeter;
use super::extender_calls::{GangResponse, Step, missing_request};
use super::{Attempt, Outcome, PodAttempt, Rejected, Scheduler};
use crate::config::Point;
use crate::cycle::Filtered;
use crate::extenders::ExtenderResponse;
use crate::post_filter::PreemptionInput;
use crate::queue::{Moved, Pool, USUAL_COST};
use crate::recorder::ERROR;
use crate::replicas::more_replicas;
use crate::scheduling_algorithm::SchedulingAlgorithm;
use crate::suggestions::{NodeSuggestions, suggestions};
use evictd_placement::{INTERRUPTED, NodeId, Pod};
use evictd_pod::wire;
use evictd_preemption::{Extender, Plan, VictimRules};
use jiff::Timestamp;
use std::sync::Arc;

/// Why a pod is not tried whose earlier binding may still succeed.
pub(super) const UNANSWERED: &str =
    "the API server has not answered an earlier binding of this pod";

/// The message of a pod whose attempt exceeds every limit.
pub(super) const TOO_COSTLY: &str = "the attempt reached its limit of cost and was ended";

/// The changes that would let a waiting pod fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suggestions {
    /// On how many nodes it fits as it is: it will be placed when it is its turn.
    pub feasible: usize,
    /// The nodes that need the fewest changes; empty if the pod fits.
    pub nodes: Vec<NodeSuggestions>,
    /// The objects that keep it from every node, one line each; empty if the pod fits.
    pub blockers: Vec<String>,
    /// The obstacles on the nearest nodes, with amounts and names.
    pub obstacles: Vec<(String, String)>,
    /// Whether the look ended at a limit of cost or time, so that there may be more.
    pub is_incomplete: bool,
}

impl Scheduler {
    /// Tries the next pod, if one waits, together with its gang. Each call returns one attempt of a gang.
    pub fn attempt(&mut self, now: Timestamp) -> Option<Attempt> {
        self.binding.check_permits(&mut self.state, now);
        if let Some(attempt) = self.binding.results.next() {
            return Some(attempt);
        }
        let popped = self.state.queue.pop()?;
        if popped.from_backoff {
            // As kube-scheduler counts it, the pod passes through the active queue.
            let (pod, pool, label) = (Arc::clone(&popped.pod), Pool::Active, "PopFromBackoffQ");
            self.state.count([Moved { pod, pool, label }]);
        }
        let (key, number) = (Arc::clone(&popped.pod), popped.attempts);
        let Some(pod) = self.state.pod(&key) else {
            // It was deleted after it was popped.
            self.state.queue.done(now, &key);
            return self.attempt(now);
        };
        let namespace: Arc<str> = pod.metadata.namespace_or_default().into();
        let has_turn = popped.has_turn;
        let outcome = if !has_turn && self.state.queue.takes_turns(&namespace) {
            self.put_off(now, &key, &namespace)
        } else if let Some(gang) = self.state.queue.take_gang(&popped) {
            let ((), cost) = self.interruptible(has_turn, |scheduler| {
                scheduler.schedule_gang(now, &gang, 0);
            });
            self.state.queue.count_cost(&namespace, cost, has_turn);
            return self.attempt(now);
        } else {
            let (outcome, cost) = self.interruptible(has_turn, |scheduler| {
                scheduler.schedule_pod(now, &key, &pod, number)
            });
            self.state.queue.count_cost(&namespace, cost, has_turn);
            outcome
        };
        Some(Attempt {
            key,
            pod,
            number,
            outcome,
        })
    }

    /// Continues an attempt with the response to its [`Outcome::AskExtenders`]. `None` if the pod was deleted, or belongs to a
    /// gang: [`Scheduler::attempt`] returns the results of gangs.
    pub fn on_extender_response(
        &mut self,
        now: Timestamp,
        key: &Arc<str>,
        response: ExtenderResponse,
    ) -> Option<Attempt> {
        match self.extenders.add_to_gang(key, &response) {
            GangResponse::NotOfGang => {}
            GangResponse::Incomplete => return None,
            GangResponse::Complete { gang, calls } => {
                self.resume_gang(now, &gang, calls);
                return None;
            }
        }
        let state = self.extenders.pods.get_mut(key)?;
        state.add(response);
        let number = state.attempt;
        let Some(pod) = self.state.pod(key) else {
            self.extenders.pods.remove(key);
            self.state.queue.done(now, key);
            return None;
        };
        // A pod whose extenders have answered is not put off: they would have to be asked again.
        let (outcome, cost) = self.interruptible(true, |scheduler| {
            scheduler.schedule_pod(now, key, &pod, number)
        });
        let namespace: Arc<str> = pod.metadata.namespace_or_default().into();
        self.state.queue.count_cost(&namespace, cost, false);
        if !matches!(outcome, Outcome::AskExtenders(_)) {
            self.extenders.pods.remove(key);
        }
        Some(Attempt {
            key: Arc::clone(key),
            pod,
            number,
            outcome,
        })
    }

    /// Runs an attempt that may be interrupted. Without a turn of the costly pods it may cost no more than usual. Returns its
    /// cost.
    pub(super) fn interruptible<T>(
        &mut self,
        has_turn: bool,
        attempt: impl FnOnce(&mut Self) -> T,
    ) -> (T, u64) {
        self.cost.begin(self.state.cluster_mut(), has_turn);
        let result = attempt(self);
        let ended = self.cost.end(self.state.cluster_mut());
        if ended.interrupted {
            // It may have cached the results of filters that were interrupted.
            self.algorithm = SchedulingAlgorithm::default();
        }
        (result, ended.cost)
    }

    /// Whether the attempt was interrupted. Then its results do not count.
    pub(super) fn is_interrupted(&self) -> bool {
        self.state.cluster().interrupt().is_raised()
    }

    /// Ends an interrupted attempt: the pod is put off, or tried again after its backoff.
    pub(super) fn end_interrupted(
        &mut self,
        now: Timestamp,
        key: &Arc<str>,
        wire: &wire::Pod,
    ) -> Outcome {
        if !self.state.cluster().interrupt().is_too_costly() {
            return self.error(now, key, INTERRUPTED.to_owned());
        }
        if self.cost.has_turn {
            return self.error(now, key, TOO_COSTLY.to_owned());
        }
        self.put_off(now, key, &wire.metadata.namespace_or_default().into())
    }

    /// Lets a pod in flight wait for a turn of its namespace.
    fn put_off(&mut self, now: Timestamp, key: &str, namespace: &Arc<str>) -> Outcome {
        self.state.queue.put_off(now, key, namespace);
        Outcome::PutOff(format!(
            "an attempt to place a pod of namespace {namespace:?} costs more than {USUAL_COST} units (selectors of devices, \
             terms and their values, preemption): its pods take turns, and others are tried in between"
        ))
    }

    fn schedule_pod(
        &mut self,
        now: Timestamp,
        key: &Arc<str>,
        wire: &Arc<wire::Pod>,
        number: u32,
    ) -> Outcome {
        if wire.metadata.deletion_timestamp.is_some() {
            self.state.queue.done(now, key);
            return Outcome::Deleting;
        }
        let Some(profile) = self.binding.profile_of(wire) else {
            self.state.queue.done(now, key);
            return Outcome::NoProfile;
        };
        if self.state.queue.lifecycles().awaits_answer(key) {
            // The pod was deleted and came back. Two bindings at a time could be answered in any order.
            return self.error(now, key, UNANSWERED.to_owned());
        }
        if self.state.cluster().nodes().is_empty() {
            return self.error(now, key, "no nodes available to schedule pods".to_owned());
        }
        let mut copy = (**wire).clone();
        let nominated = self.state.queue.nominated_node(key);
        let nominated = nominated.as_deref().unwrap_or_default();
        // Pods share their statuses until they are changed.
        if copy.status.nominated_node_name != nominated {
            nominated.clone_into(&mut copy.status.nominated_node_name);
        }
        let pod = match self.state.cluster_mut().pod(copy) {
            Ok(pod) => pod,
            Err(invalid) => return self.error(now, key, invalid.to_string()),
        };
        CostMeter::charge(self.state.cluster(), &pod);
        if self.is_interrupted() {
            self.state.cluster_mut().release(pod);
            return self.end_interrupted(now, key, wire);
        }
        let attempt = PodAttempt {
            key,
            pod: wire,
            number,
            profile,
        };
        if self.extenders.are_interested_in(wire) {
            return self.schedule_with_extenders(now, attempt, pod);
        }
        if let Some(rejected) = self.cached_rejection(key, &pod, profile) {
            // Thousands of equal pods end here, without filters and without a preemption.
            self.keep_last_rejected(pod);
            self.state.failed(now, key, &rejected.failure());
            return Outcome::Unschedulable(rejected);
        }
        let framework = &self.binding.profiles[profile];
        let decided = self
            .algorithm
            .schedule(framework, self.state.cluster(), &pod);
        if self.is_interrupted() {
            self.state.cluster_mut().release(pod);
            return self.end_interrupted(now, key, wire);
        }
        match decided {
            Ok(result) => self
                .binding
                .assume_and_bind(&mut self.state, now, attempt, pod, result),
            Err(filtered) => self.reject(now, attempt, pod, *filtered),
        }
    }

    /// Decides about a pod with the responses of the extenders that have arrived.
    fn schedule_with_extenders(
        &mut self,
        now: Timestamp,
        attempt: PodAttempt<'_>,
        mut pod: Pod,
    ) -> Outcome {
        let key = attempt.key;
        let mut state = self.extenders.pods.remove(key).unwrap_or_default();
        state.attempt = attempt.number;
        if state.leaves_nominated {
            self.state.cluster_mut().forget_nomination(&mut pod);
        }
        let framework = &self.binding.profiles[attempt.profile];
        let cluster = self.state.cluster();
        let step = self
            .extenders
            .step(&mut state, (framework, cluster), attempt.pod, &pod);
        // A preemption reads the responses about victims from here.
        self.extenders.pods.insert(Arc::clone(key), state);
        let outcome = match step {
            _ if self.is_interrupted() => {
                self.state.cluster_mut().release(pod);
                self.end_interrupted(now, key, attempt.pod)
            }
            Step::Decided(result) => {
                self.binding
                    .assume_and_bind(&mut self.state, now, attempt, pod, result)
            }
            Step::FitsNowhere(filtered) => self.reject(now, attempt, pod, *filtered),
            Step::AskExtenders(request) => {
                self.state.cluster_mut().release(pod);
                Outcome::AskExtenders(request)
            }
            Step::Error(message) => {
                self.state.cluster_mut().release(pod);
                self.error(now, key, message)
            }
        };
        if !matches!(outcome, Outcome::AskExtenders(_)) {
            self.extenders.pods.remove(key);
        }
        outcome
    }

    /// Ends the attempt with an error; the pod is tried again after its backoff (S5-042).
    fn error(&mut self, now: Timestamp, key: &str, message: String) -> Outcome {
        self.state.failed_with_error(now, key);
        Outcome::Error(message)
    }

    /// The nodes with stuck victims of a pod.
    fn nodes_not_freed(&self, key: &str) -> impl Iterator<Item = NodeId> {
        self.stuck_victims
            .abandoned_nodes(key)
            .filter_map(|node| self.state.cluster().find_node(node))
    }

    /// Whether the result of a pod that fits on no node also holds for the next equal pod.
    fn is_cacheable(&self, key: &str) -> bool {
        self.extenders.extenders.is_empty() && self.nodes_not_freed(key).next().is_none()
    }

    /// The result of the pod before, if it was equal to this one and fits on no node. Thousands of pods of one workload may wait
    /// for the same.
    fn cached_rejection(&self, key: &str, pod: &Pod, profile: usize) -> Option<Rejected> {
        if !self.is_cacheable(key) {
            return None;
        }
        let framework = &self.binding.profiles[profile];
        let cached = self
            .algorithm
            .cached_unschedulable(framework, self.state.cluster(), pod)?;
        Some(Rejected::from(cached.clone()))
    }

    /// Keeps a pod that fits on no node until the next such pod.
    fn keep_last_rejected(&mut self, pod: Pod) {
        if let Some(last) = self.last_rejected.replace(pod) {
            self.state.cluster_mut().release(last);
        }
    }

    /// The pod fits on no node: runs the `PostFilter` plugins.
    fn reject(
        &mut self,
        now: Timestamp,
        attempt: PodAttempt<'_>,
        pod: Pod,
        mut filtered: Filtered,
    ) -> Outcome {
        let key = attempt.key;
        let framework = &self.binding.profiles[attempt.profile];
        let cluster = self.state.cluster();
        if let Some(error) = filtered.error(framework, cluster, &pod, &|_| true) {
            self.state.cluster_mut().release(pod);
            // As in kube-scheduler the pod is tried again after its backoff.
            return self.error(now, key, error);
        }
        filtered.not_freed = self.nodes_not_freed(key).collect();
        let is_cacheable = self.is_cacheable(key);
        let mut replayed = self.extenders.preempting(key, attempt.pod);
        let lifecycles = self.state.queue.lifecycles();
        let began = framework.recorder.now();
        let result = framework.post_filter(
            self.state.cluster(),
            &pod,
            &filtered,
            PreemptionInput {
                victims: VictimRules {
                    budgets: &self.state.cache.budgets,
                    groups: Some(&self.state.queue),
                },
                options: self.options,
                extenders: &mut replayed
                    .iter_mut()
                    .map(|extender| -> &mut dyn Extender { extender })
                    .collect::<Vec<_>>(),
                is_waiting: &|pod: &Pod| lifecycles.is_placed(pod.uid()),
            },
        );
        let took = framework.recorder.now().saturating_sub(began);
        let status = result.as_ref().map_or(ERROR, |result| result.status);
        framework.record(Point::PostFilter, status, took);
        let request = missing_request(replayed);
        if self.is_interrupted() {
            self.state.cluster_mut().release(pod);
            return self.end_interrupted(now, key, attempt.pod);
        }
        if let Some(request) = request {
            self.state.cluster_mut().release(pod);
            return Outcome::AskExtenders(request);
        }
        let result = match result {
            Ok(result) => result,
            Err(error) => {
                self.state.cluster_mut().release(pod);
                return self.error(now, key, error.to_string());
            }
        };
        let cluster = self.state.cluster();
        let rejected = Rejected {
            message: result.message.unwrap_or(result.fit_error),
            plugins: result.plugins,
            deallocates: result.deallocates,
            rejections: filtered.rejections(framework, cluster, &pod),
            ..Rejected::default()
        };
        let rejected = rejected.with_plan(cluster, &pod, result.plan.as_ref());
        let groups = result.plan.as_ref().map_or(&[][..], Plan::groups);
        let results = &mut self.binding.results;
        results.push_preempted(&self.state.queue, groups);
        if is_cacheable && rejected.nominated.is_none() && rejected.deallocates.is_none() {
            self.algorithm
                .cache_unschedulable(&pod, rejected.to_cached());
        }
        self.keep_last_rejected(pod);
        self.state.failed(now, key, &rejected.failure());
        Outcome::Unschedulable(rejected)
    }

    /// How long the devices of a pod may take to be bound, by the `bindingTimeout` of its profile.
    pub fn device_timeout(&self, pod: &wire::Pod) -> Option<std::time::Duration> {
        let profile = self.binding.profile_of(pod)?;
        Some(self.binding.profiles[profile].device_timeout)
    }

    /// Looks for changes that would let the pod of that name fit, on at most `most` nodes. `None` if it does not wait, or cannot
    /// be decided about.
    pub fn suggest(&mut self, namespace: &str, name: &str, most: usize) -> Option<Suggestions> {
        let wire = Pool::ALL
            .into_iter()
            .flat_map(|pool| self.state.queue.pods_in(pool))
            .filter_map(|key| self.state.pod(&key))
            .find(|pod| {
                pod.metadata.name == name && pod.metadata.namespace_or_default() == namespace
            })?;
        self.interruptible(true, |scheduler| scheduler.suggest_for(&wire, most))
            .0
    }

    fn suggest_for(&mut self, wire: &wire::Pod, most: usize) -> Option<Suggestions> {
        let framework = &self.binding.profiles[self.binding.profile_of(wire)?];
        let cluster = self.state.cluster_mut();
        let pod = cluster.pod(wire.clone()).ok()?;
        let filtered = framework.filter(cluster, &pod);
        let feasible = filtered.feasible.len();
        // Some nodes are not searched yet, so that they would seem to need no change.
        let is_unfinished = feasible == 0 && filtered.has_unfinished_search();
        let (blockers, obstacles) = if feasible == 0 && !is_unfinished {
            (
                framework.blockers(cluster, &pod),
                framework.obstacles(cluster, &pod, &filtered, most),
            )
        } else {
            (Vec::new(), Vec::new())
        };
        cluster.release(pod);
        let mut nodes = if feasible == 0 && !is_unfinished {
            suggestions(cluster, framework, wire, &filtered, most)
        } else {
            Vec::new()
        };
        let is_incomplete = is_unfinished || self.is_interrupted();
        if is_incomplete {
            // Attempts after the interrupt seem to fail.
            nodes.clear();
        }
        Some(Suggestions {
            feasible,
            nodes,
            blockers,
            obstacles,
            is_incomplete,
        })
    }

    /// The objects that keep a pod from every node.
    pub(crate) fn blockers(&mut self, wire: &wire::Pod) -> Vec<String> {
        let Some(profile) = self.binding.profile_of(wire) else {
            return Vec::new();
        };
        let framework = &self.binding.profiles[profile];
        let cluster = self.state.cluster_mut();
        let Ok(pod) = cluster.pod(wire.clone()) else {
            return Vec::new();
        };
        let blockers = framework.blockers(cluster, &pod);
        cluster.release(pod);
        blockers
    }

    /// How many more pods like this placed one fit; `None` if one of its claims cannot be copied.
    pub(crate) fn more_replicas(&mut self, wire: &wire::Pod) -> Option<usize> {
        let framework = &self.binding.profiles[self.binding.profile_of(wire)?];
        more_replicas(self.state.cluster_mut(), framework, wire)
    }
}
