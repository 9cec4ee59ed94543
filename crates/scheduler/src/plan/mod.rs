//! A preemption for one pod, computed from a dump or a live cluster, as JSON and as a page.

mod answer;
mod explanation;
mod page;

pub(crate) use answer::Answer;
pub(crate) use page::page;

use crate::dump::Loaded;
use evictd_document::Assumptions;
use evictd_placement::{Cluster, NodeId, Pod};
use evictd_pod::{Requests, wire};
use evictd_preemption::{Budget, Extender, Options, Plan, PlanError, plan};

/// The input of a plan.
pub(crate) struct Case {
    pub(crate) cluster: Cluster,
    pub(crate) budgets: Vec<Budget>,
    pub(crate) preemptor: Pod,
    pub(crate) options: Options,
    assumptions: Assumptions,
    /// The pod's requests as text.
    requests: String,
}

/// Why no plan can be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CaseError {
    #[error("{pod}: {mistake}")]
    Pod {
        pod: String,
        mistake: evictd_placement::InvalidObject,
    },
    #[error("--explain-node {0}: is not in the input")]
    Node(String),
}

impl Case {
    pub(crate) fn new(
        loaded: Loaded,
        preemptor: wire::Pod,
        options: Options,
    ) -> Result<Self, CaseError> {
        let Loaded {
            mut cluster,
            budgets,
            objects,
            ..
        } = loaded;
        let (pod, requests) = (preemptor.metadata.full_name(), requests(&preemptor.spec));
        let preemptor = cluster.pod(preemptor);
        let preemptor = preemptor.map_err(|mistake| CaseError::Pod { pod, mistake })?;
        Ok(Self {
            cluster,
            budgets,
            preemptor,
            options,
            assumptions: objects.assumptions,
            requests,
        })
    }

    pub(crate) fn find_node(&self, name: &str) -> Result<NodeId, CaseError> {
        let id = self.cluster.find_node(name);
        id.ok_or_else(|| CaseError::Node(name.to_owned()))
    }

    pub(crate) fn plan(&self, extenders: &mut [&mut dyn Extender]) -> Result<Plan, PlanError> {
        // A dump does not show which pods wait in Permit.
        let waiting = |_: &Pod| false;
        plan(
            &self.cluster,
            &self.budgets,
            &self.preemptor,
            self.options,
            extenders,
            &waiting,
        )
    }
}

/// `cpu 6, memory 24Gi`.
fn requests(spec: &wire::PodSpec) -> String {
    let requests = Requests::of_spec(spec).list();
    let texts: Vec<String> = requests
        .iter()
        .map(|(name, amount)| format!("{name} {amount}"))
        .collect();
    if texts.is_empty() {
        "nothing".to_owned()
    } else {
        texts.join(", ")
    }
}
