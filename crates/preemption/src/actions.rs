//! Turns a plan into actions in the order of the emulated kube-scheduler.

use crate::action::{Action, Event};
use crate::compat::Compat;
use crate::plan::Plan;
use evictd_placement::{Cluster, Pod, Rejection};

pub(crate) fn of(
    plan: &Plan,
    cluster: &Cluster,
    preemptor: &Pod,
    compat: Compat,
    waiting: &dyn Fn(&Pod) -> bool,
) -> Vec<Action> {
    let pod = cluster.full_name(preemptor);
    let Some(choice) = plan.choice() else {
        let clears = clears_own_nomination(plan, compat) && !plan.awaits_devices;
        return if clears && preemptor.identity.nominated.is_some() {
            vec![Action::ClearNomination { pod }]
        } else {
            Vec::new()
        };
    };
    let nominate = Action::Nominate {
        pod,
        node: cluster.node_name(choice.node).to_owned(),
    };
    let clear = cleared(plan, cluster, preemptor).map(|pod| Action::ClearNomination {
        pod: cluster.full_name(pod),
    });
    let author = Author {
        cluster,
        preemptor,
        node: cluster.node_name(choice.node),
        compat,
    };
    let victims = plan
        .victims(choice)
        .iter()
        .map(|victim| victim.pod(cluster));
    // A terminating victim needs no second deletion (S4-023).
    let evict = victims
        .filter(|pod| compat < Compat::V1_36 || !pod.terminating)
        .flat_map(|victim| author.evict(victim, waiting(victim)));
    match compat {
        Compat::V1_18 => [nominate].into_iter().chain(evict).chain(clear).collect(),
        Compat::V1_19 => evict.chain(clear).chain([nominate]).collect(),
        // The last deletion wakes the preemptor, so the victims come last (S4-028).
        Compat::V1_36 => [nominate].into_iter().chain(clear).chain(evict).collect(),
    }
}

/// Pods of lower priority that are nominated to the chosen node (S3-032).
pub(crate) fn cleared<'c>(
    plan: &Plan,
    cluster: &'c Cluster,
    preemptor: &Pod,
) -> impl Iterator<Item = &'c Pod> {
    let node = plan.choice().map(|choice| cluster.node(choice.node).name);
    let priority = preemptor.priority;
    cluster.nominated().iter().filter(move |pod| {
        node.is_some() && pod.identity.nominated == node && pod.priority < priority
    })
}

/// Whether a pod without a candidate loses its own nomination (S3-015, S4-004, S4-009). `V1_36` clears it in any case,
/// older versions only if preemption helps on no node. It stays if extenders rejected all candidates.
fn clears_own_nomination(plan: &Plan, compat: Compat) -> bool {
    let tried = plan.not_candidates.len();
    let mut answers = plan.filter.iter();
    let helpless = !answers.any(|answer| answer.is_err_and(Rejection::is_resolvable));
    helpless || (compat == Compat::V1_36 && tried == plan.tried)
}

/// The author of the conditions and events about victims.
struct Author<'a> {
    cluster: &'a Cluster,
    preemptor: &'a Pod,
    node: &'a str,
    compat: Compat,
}

impl Author<'_> {
    /// The actions that evict one victim.
    fn evict(&self, victim: &Pod, waiting: bool) -> Vec<Action> {
        let pod = self.cluster.full_name(victim);
        let uid = victim.uid().to_owned();
        let reject = Action::RejectWaiting {
            pod: pod.clone(),
            uid: uid.clone(),
        };
        let event = self.event(&pod, waiting);
        let delete = Action::Delete {
            pod: pod.clone(),
            uid: uid.clone(),
        };
        if self.compat < Compat::V1_36 {
            let reject = waiting.then_some(reject);
            return [delete].into_iter().chain(reject).chain([event]).collect();
        }
        if waiting {
            return vec![reject, event];
        }
        let scheduler = self
            .cluster
            .symbols()
            .text(self.preemptor.identity.scheduler);
        let condition = Action::PatchCondition {
            pod,
            uid,
            kind: "DisruptionTarget",
            status: "True",
            reason: "PreemptionByScheduler",
            message: format!("{scheduler}: preempting to accommodate a higher priority pod"),
            observed_generation: victim.identity.generation.map(Into::into),
        };
        vec![condition, delete, event]
    }

    fn event(&self, pod: &str, waiting: bool) -> Action {
        let Self {
            cluster,
            preemptor,
            node,
            compat,
        } = self;
        let note = if *compat < Compat::V1_36 {
            format!(
                "Preempted by {} on node {node}",
                cluster.full_name(preemptor)
            )
        } else {
            let memory = if waiting {
                " (in kube-scheduler memory)."
            } else {
                ""
            };
            format!(
                "Preempted by pod {} on node {node}{memory}",
                preemptor.uid()
            )
        };
        Action::Event(Event {
            pod: pod.to_owned(),
            kind: "Normal",
            reason: "Preempted",
            action: "Preempting",
            note,
        })
    }
}
