//! Tasks that all nodes judge alike are of one class.

use crate::session::resource::{Dim, Resource};
use evictd_placement::{Cluster, Pod, ScalarsId, Scored, Template, TemplateId};
use hashbrown::HashMap;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    template: Template,
    has_labels: bool,
    request: Vec<(Dim, u64)>,
    amounts: [i64; 3],
    scalars: ScalarsId,
    scored: [i64; 2],
}

/// Every class that was met, as a number.
#[derive(Debug, Default)]
pub(super) struct Classes {
    known: HashMap<Key, usize>,
    /// Tasks of one job follow each other: the last template, request and class.
    last: Option<(TemplateId, Resource, Scored, usize)>,
}

impl Classes {
    pub(super) fn of(&mut self, cluster: &Cluster, pod: &Pod, request: &Resource) -> usize {
        if let Some((template, last, scored, class)) = &self.last
            && *template == pod.template
            && last == request
            && *scored == pod.scored
        {
            return *class;
        }
        let amounts = &pod.amounts;
        let key = Key {
            has_labels: !cluster.template(pod).labels.is_empty(),
            template: cluster.template_as_judged(pod),
            request: request
                .iter()
                .map(|(dim, own)| (dim, own.to_bits()))
                .collect(),
            amounts: [amounts.cpu, amounts.memory, amounts.ephemeral_storage],
            scalars: amounts.scalars,
            scored: [pod.scored.cpu, pod.scored.memory],
        };
        let next = self.known.len();
        let class = *self.known.entry(key).or_insert(next);
        self.last = Some((pod.template, request.clone(), pod.scored, class));
        class
    }
}
