//! The properties of a pod that filters and scores depend on.

use crate::framework::Framework;
use evictd_placement::{Amounts, Cluster, Labels, Pod, Scored, Symbol, Template};

/// Pods of one class get the same results.
pub(super) struct EquivalenceClass {
    scheduler_name: String,
    template: Template,
    /// The labels that a selector or a custom plugin reads.
    labels: Labels,
    has_labels: bool,
    priority: i32,
    amounts: [i64; 3],
    scalars: Vec<(Symbol, i64)>,
    scored: Scored,
    of_containers: Option<Box<(Amounts, Scored)>>,
}

impl EquivalenceClass {
    pub(super) fn of(framework: &Framework, cluster: &Cluster, pod: &Pod) -> Self {
        let amounts = &pod.amounts;
        Self {
            scheduler_name: framework.scheduler_name.clone(),
            has_labels: !pod.labels().is_empty(),
            template: cluster.template(pod).clone(),
            labels: labels(framework, cluster, pod),
            priority: pod.priority,
            amounts: [amounts.cpu, amounts.memory, amounts.ephemeral_storage],
            scalars: cluster.scalars(amounts.scalars).to_vec(),
            scored: pod.scored,
            of_containers: pod.identity.of_containers.clone(),
        }
    }

    /// Whether the pod is of this class. The cheap comparisons come first, because most pods that differ differ there.
    pub(super) fn contains(&self, framework: &Framework, cluster: &Cluster, pod: &Pod) -> bool {
        let amounts = &pod.amounts;
        let Self {
            scheduler_name,
            template,
            labels: class_labels,
            has_labels,
            priority,
            amounts: class_amounts,
            scalars,
            scored,
            of_containers,
        } = self;
        *scheduler_name == framework.scheduler_name
            && *has_labels != pod.labels().is_empty()
            && *priority == pod.priority
            && *class_amounts == [amounts.cpu, amounts.memory, amounts.ephemeral_storage]
            && **scalars == *cluster.scalars(amounts.scalars)
            && *scored == pod.scored
            && *of_containers == pod.identity.of_containers
            && *template == *cluster.template(pod)
            && *class_labels == labels(framework, cluster, pod)
    }
}

fn labels(framework: &Framework, cluster: &Cluster, pod: &Pod) -> Labels {
    // A custom plugin may read any label.
    if framework.has_custom_plugins {
        pod.labels().clone()
    } else {
        cluster.selected_labels(pod)
    }
}
