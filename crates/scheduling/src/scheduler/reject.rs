//! Failed attempts: the pool of the pod, its message and its victims.

use super::extenders::question;
use super::{Outcome, Rejected, Scheduler};
use crate::cycle::Filtered;
use crate::plugins::{PluginName, PluginSet};
use crate::scheduling_algorithm::UnschedulableResult;
use crate::scheduling_queue::{Failure, Nomination};
use evictd_placement::{DEVICES_GO_ON, NodeId, Pod};
use evictd_pod::wire;
use evictd_preemption::{Extender, Plan};
use jiff::Timestamp;
use std::collections::BTreeSet;
use std::sync::Arc;

impl From<UnschedulableResult> for Rejected {
    fn from(hopeless: UnschedulableResult) -> Self {
        Self {
            message: hopeless.message,
            plugins: hopeless.plugins,
            rejections: hopeless.rejections,
            preempts: hopeless.preempts,
            nominated: None,
            deallocates: None,
            victims: Vec::new(),
            actions: Vec::new(),
            nominations_cleared: Vec::new(),
            clears_nomination: hopeless.clears_nomination,
        }
    }
}

impl Rejected {
    fn hopeless(&self) -> UnschedulableResult {
        UnschedulableResult {
            message: self.message.clone(),
            plugins: self.plugins.clone(),
            rejections: Arc::clone(&self.rejections),
            preempts: self.preempts,
            clears_nomination: self.clears_nomination,
        }
    }

    /// The failure as the queue takes it.
    pub(super) fn failure(&self) -> Failure {
        let nomination = match (&self.nominated, self.clears_nomination) {
            (Some(node), _) => Nomination::Node(node.as_str().into()),
            (None, true) => Nomination::Cleared,
            (None, false) => Nomination::OfStatus,
        };
        let names = self.plugins.iter();
        let rejectors = names.map(|name| PluginName::parse(name).unwrap_or(PluginName::Other));
        Failure {
            rejectors: rejectors.collect::<PluginSet>(),
            nomination,
            ..Failure::default()
        }
    }
}

impl Scheduler {
    /// Ends the attempt with an error; the pod is tried again after its backoff (S5-042).
    pub(super) fn error(&mut self, now: Timestamp, key: &Arc<str>, message: String) -> Outcome {
        let failure = Failure {
            nomination: Nomination::Cleared,
            ..Failure::default()
        };
        self.failed(now, key, &failure);
        Outcome::Error(message)
    }

    /// Puts a pod back into the queue, and its nomination into the cluster.
    pub(super) fn failed(&mut self, now: Timestamp, key: &Arc<str>, failure: &Failure) {
        // The pod was in flight. If it waits already it was created again meanwhile, and the new one counts.
        let moved = self.queue.failed(now, key, failure);
        self.moved.extend(moved.ok().flatten());
        self.nominate(key);
    }

    /// The nodes that do not become free for a pod.
    fn not_freed(&self, key: &str) -> impl Iterator<Item = NodeId> {
        let left = self.stuck.left_by(key);
        left.filter_map(|node| self.cluster.find_node(node))
    }

    /// Whether the result of a pod that fits nowhere also holds for the next equal pod.
    fn is_judged_alike(&self, key: &str) -> bool {
        self.extenders.is_empty() && self.not_freed(key).next().is_none()
    }

    /// The result of the pod before, if it was equal to this one and fits nowhere. Thousands of pods of one workload may wait
    /// for the same.
    pub(super) fn rejected_alike(&self, key: &str, pod: &Pod, profile: usize) -> Option<Rejected> {
        if !self.is_judged_alike(key) {
            return None;
        }
        let framework = &self.frameworks[profile];
        let hopeless = self.decider.hopeless(framework, &self.cluster, pod)?;
        Some(Rejected::from(hopeless.clone()))
    }

    /// Keeps a pod that fits nowhere until the next such pod.
    pub(super) fn let_go(&mut self, pod: Pod) {
        if let Some(last) = self.last.replace(pod) {
            self.cluster.release(last);
        }
    }

    pub(super) fn reject(
        &mut self,
        now: Timestamp,
        key: &Arc<str>,
        (wire, pod): (&wire::Pod, Pod),
        (profile, mut filtered): (usize, Filtered),
    ) -> Outcome {
        if filtered.goes_on() {
            self.cluster.release(pod);
            // As kube-scheduler when the filter times out: the pod is tried again after its backoff.
            let error = format!("running \"DynamicResources\" filter plugin: {DEVICES_GO_ON}");
            return self.error(now, key, error);
        }
        filtered.not_freed = self.not_freed(key).collect();
        let alike = self.is_judged_alike(key);
        let by = (self.budgets.as_slice(), self.options);
        let framework = &self.frameworks[profile];
        let mut replays = Self::replays(&self.extenders, self.asked.get(key), wire);
        let mut extenders: Vec<&mut dyn Extender> = Vec::new();
        for replay in &mut replays {
            extenders.push(replay);
        }
        let placing = (&self.cluster, &pod);
        let waiting = |pod: &Pod| self.queue.lifecycles().is_placed(pod.uid());
        let failed = framework.fail(placing, &filtered, by, &mut extenders, &waiting);
        let question = question(replays);
        if self.is_interrupted() {
            self.cluster.release(pod);
            return self.end_interrupted(now, key, wire);
        }
        if let Some(question) = question {
            self.cluster.release(pod);
            return Outcome::AskExtenders(question);
        }
        let failed = match failed {
            Ok(failed) => failed,
            Err(error) => {
                self.cluster.release(pod);
                return self.error(now, key, error.to_string());
            }
        };
        let plan = failed.plan.as_ref();
        let mut rejected = self.rejected(
            &pod,
            plan,
            failed.message.unwrap_or(failed.fit_error),
            failed.plugins,
        );
        rejected.deallocates = failed.deallocates;
        rejected.rejections = filtered.rejections(framework, &self.cluster, &pod);
        if alike && rejected.nominated.is_none() && rejected.deallocates.is_none() {
            self.decider.keep_hopeless(&pod, rejected.hopeless());
        }
        self.let_go(pod);
        self.failed(now, key, &rejected.failure());
        Outcome::Unschedulable(rejected)
    }

    fn rejected(
        &self,
        pod: &Pod,
        plan: Option<&Plan>,
        message: String,
        plugins: BTreeSet<String>,
    ) -> Rejected {
        let cluster = &self.cluster;
        let choice = plan.and_then(|plan| Some((plan, plan.choice()?)));
        let victims = choice.map(|(plan, choice)| {
            let pods = &cluster.node(choice.node).pods;
            let victims = plan
                .victims(choice)
                .iter()
                .map(|index| &pods[*index as usize]);
            victims
                .map(|pod| (cluster.full_name(pod), pod.uid().to_owned()))
                .collect()
        });
        Rejected {
            message,
            plugins,
            rejections: Arc::default(),
            preempts: plan.is_some(),
            deallocates: None,
            nominated: choice.map(|(_, choice)| cluster.node_name(choice.node).to_owned()),
            victims: victims.unwrap_or_default(),
            actions: choice.map_or(Vec::new(), |(plan, _)| plan.actions.clone()),
            nominations_cleared: choice
                .map_or(Vec::new(), |(plan, _)| plan.clear_nominations(cluster, pod)),
            // A pod that may not preempt keeps the nomination that it has.
            clears_nomination: plan.is_some_and(|plan| plan.ineligible.is_none())
                && choice.is_none(),
        }
    }
}
