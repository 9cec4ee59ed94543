//! Which actions follow from a plan, and in which order.

use crate::action::{Action, Event};
use crate::form::Form;
use crate::plan::Plan;
use evictd_placement::{Cluster, Pod, Rejection};

/// The actions that follow from what was found.
pub(crate) fn of(
    plan: &Plan,
    cluster: &Cluster,
    preemptor: &Pod,
    form: Form,
    waiting: &dyn Fn(&Pod) -> bool,
) -> Vec<Action> {
    let pod = cluster.full_name(preemptor);
    let Some(choice) = plan.choice() else {
        return if forgets_its_node(plan, form) && preemptor.identity.nominated.is_some() {
            vec![Action::ClearNomination { pod }]
        } else {
            Vec::new()
        };
    };
    let node = cluster.node(choice.node);
    let nominate = Action::Nominate {
        pod,
        node: cluster.node_name(choice.node).to_owned(),
    };
    let clear = cleared(plan, cluster, preemptor);
    let clear = clear.map(|pod| Action::ClearNomination {
        pod: cluster.full_name(pod),
    });
    let author = Author {
        cluster,
        preemptor,
        node: cluster.node_name(choice.node),
        form,
    };
    let victims = plan.victims(choice).iter();
    let victims = victims.map(|index| &node.pods[*index as usize]);
    // The newest form does not end twice what is ending (S4-023).
    let victims = victims.filter(|pod| form < Form::V1_36 || !pod.terminating);
    let ends = victims.flat_map(|victim| author.ends(victim, waiting(victim)));
    match form {
        Form::V1_18 => [nominate].into_iter().chain(ends).chain(clear).collect(),
        Form::V1_19 => ends.chain(clear).chain([nominate]).collect(),
        // Nominations first, then the victims; that the last one comes last wakes the preemptor (S4-028).
        Form::V1_36 => [nominate].into_iter().chain(clear).chain(ends).collect(),
    }
}

/// Less important pods that the chosen node was being freed for (S3-032).
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

/// Whether a pod for which nothing was found loses its own nomination: in the newest form always, before only if no
/// node could be helped at all (S3-015, S4-004, S4-009). Where extenders left nothing it keeps it.
fn forgets_its_node(plan: &Plan, form: Form) -> bool {
    let tried = plan.not_candidates.len();
    let mut answers = plan.filter.iter();
    let helpless = !answers.any(|answer| answer.is_err_and(Rejection::is_resolvable));
    helpless || (form == Form::V1_36 && tried == plan.tried)
}

/// Who writes about victims.
struct Author<'a> {
    cluster: &'a Cluster,
    preemptor: &'a Pod,
    node: &'a str,
    form: Form,
}

impl Author<'_> {
    /// How one victim ends.
    fn ends(&self, victim: &Pod, waiting: bool) -> Vec<Action> {
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
        if self.form < Form::V1_36 {
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
        };
        vec![condition, delete, event]
    }

    fn event(&self, pod: &str, waiting: bool) -> Action {
        let Self {
            cluster,
            preemptor,
            node,
            form,
        } = self;
        let note = if *form < Form::V1_36 {
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
