//! Equivalence classes: tasks with the same result on every node.

use crate::session::snapshot::ids::ClassId;
use crate::session::snapshot::resource::{Dim, Resource};
use evictd_placement::{Cluster, Labels, Pod, ScalarsId, Scored, Template, TemplateId};
use hashbrown::HashMap;

#[derive(Debug, PartialEq, Eq, Hash)]
struct EvaluationKey {
    template: Template,
    /// The labels that some selector reads.
    labels: Labels,
    has_labels: bool,
    request: Vec<(Dim, u64)>,
    amounts: [i64; 3],
    scalars: ScalarsId,
    scored: [i64; 2],
}

/// Every class that was met.
#[derive(Debug, Default)]
pub(super) struct Classes {
    known: HashMap<EvaluationKey, ClassId>,
    /// The last task's fields and class, because tasks of one job follow each other.
    last: Option<(TemplateId, Labels, Resource, Scored, ClassId)>,
}

impl Classes {
    pub(super) fn of(&mut self, cluster: &Cluster, pod: &Pod, request: &Resource) -> ClassId {
        let labels = cluster.selected_labels(pod);
        if let Some((template, known, last, scored, class)) = &self.last
            && *template == pod.template
            && *known == labels
            && last == request
            && *scored == pod.scored
        {
            return *class;
        }
        let amounts = &pod.amounts;
        let key = EvaluationKey {
            has_labels: !pod.labels().is_empty(),
            template: cluster.template(pod).clone(),
            labels: labels.clone(),
            request: request
                .iter()
                .map(|(dim, amount)| (dim, amount.to_bits()))
                .collect(),
            amounts: [amounts.cpu, amounts.memory, amounts.ephemeral_storage],
            scalars: amounts.scalars,
            scored: [pod.scored.cpu, pod.scored.memory],
        };
        let next = ClassId::of(self.known.len());
        let class = *self.known.entry(key).or_insert(next);
        self.last = Some((pod.template, labels, request.clone(), pod.scored, class));
        class
    }
}
