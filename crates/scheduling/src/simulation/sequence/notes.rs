//! The parts of an answer besides the attempts: pods that were not tried or preempted, obstacles, further pods that fit.

use super::Run;
use crate::not_tried::NotTried;
use crate::simulation::sequence_outcome::PreemptedPod;
use evictd_placement::Pod;
use evictd_pod::wire;
use evictd_preemption::{Compat, breaking, budgets_of};

/// For how many unschedulable pods the objects in their way are named.
const MOST_EXPLAINED: usize = 100;

impl Run {
    /// Notes the pods without a node that the scheduler has left alone.
    pub(super) fn note_not_tried(&mut self) {
        let outcome = &self.outcome;
        let is_left = |name: &String, pod: &wire::Pod| {
            pod.spec.node_name.is_empty()
                && ![&outcome.placed, &outcome.unschedulable, &outcome.gated]
                    .iter()
                    .any(|known| known.contains_key(name))
        };
        let left = self.pods.iter().filter(|(name, pod)| is_left(name, pod));
        let reasons = left.filter_map(|(name, pod)| {
            let profiles = self.profiles.iter().map(String::as_str);
            let reason = NotTried::of_profiles(pod, profiles).or_else(|| NotTried::of(pod))?;
            Some((name.clone(), reason.to_string()))
        });
        self.outcome.not_tried = reasons.collect();
    }

    /// Notes the objects that keep unschedulable pods from every node.
    pub(super) fn note_blockers(&mut self) {
        for named in self.outcome.unschedulable.keys().take(MOST_EXPLAINED) {
            let Some(pod) = self.pods.get(named) else {
                continue;
            };
            let blockers = self.scheduler.blockers(pod);
            if !blockers.is_empty() {
                self.outcome.blockers.insert(named.clone(), blockers);
            }
        }
    }

    /// Counts how many more pods like some of the placed ones fit.
    pub(super) fn count_more(&mut self) {
        for named in &self.counted {
            let placed = self.outcome.placed.contains_key(named);
            let Some(pod) = self.pods.get(named).filter(|_| placed) else {
                continue;
            };
            if let Some(count) = self.scheduler.more_replicas(pod) {
                self.outcome.more_fit.insert(named.clone(), count);
            }
        }
    }

    /// Notes which pods give way to another one, and at the cost of which budgets.
    pub(super) fn note_preempted(&mut self, preemptor: &str, victims: &[String]) {
        let cluster = self.scheduler.cluster();
        let victim = |named: &String| -> Option<(String, &Pod)> {
            let node = &self.pods.get(named)?.spec.node_name;
            let mut pods = cluster.node(cluster.find_node(node)?).pods.iter();
            let pod = pods.find(|pod| cluster.full_name(pod) == *named)?;
            Some((node.clone(), pod))
        };
        let pods: Vec<(String, &Pod)> = victims.iter().filter_map(victim).collect();
        let budgets = self.scheduler.budgets();
        let violations = breaking(cluster, budgets, pods.iter().map(|(_, pod)| *pod));
        let noted = pods.iter().zip(violations).map(|((node, pod), violates)| {
            // A pod that ends already is not evicted again.
            let budgets = if pod.terminating {
                Vec::new()
            } else {
                budgets_of(cluster, budgets, pod, Compat::V1_36)
            };
            PreemptedPod {
                pod: cluster.full_name(pod),
                node: node.clone(),
                preemptor: preemptor.to_owned(),
                budgets: budgets.into_iter().map(str::to_owned).collect(),
                violates: violates && !pod.terminating,
                terminates: pod.terminating,
            }
        });
        let noted: Vec<_> = noted.collect();
        self.outcome.preempted.extend(noted);
    }
}
