//! Decides about one pod and shows how.

mod answer;
mod page;

pub(crate) use answer::Answer;
pub(crate) use page::page;

use crate::dump::{Doubts, Loaded};
use crate::preemptor::full_name;
use evictd_placement::{Cluster, Mistake, Pod};
use evictd_pod::wire;
use evictd_preemption::Budget;
use evictd_scheduling::Framework;

/// The input of a decision.
pub(crate) struct Case {
    pub(crate) cluster: Cluster,
    pub(crate) budgets: Vec<Budget>,
    pub(crate) pod: Pod,
    pub(crate) framework: Framework,
    /// Assumptions that were made.
    doubts: Doubts,
}

/// Why nothing can be decided.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CaseError {
    #[error("{pod}: {mistake}")]
    Pod { pod: String, mistake: Mistake },
}

impl Case {
    pub(crate) fn new(loaded: Loaded, pod: wire::Pod) -> Result<Self, CaseError> {
        let Loaded {
            mut cluster,
            budgets,
            doubts,
            ..
        } = loaded;
        let framework = Framework::of_default(&mut cluster);
        let name = full_name(&pod);
        let pod = cluster.pod(pod);
        let pod = pod.map_err(|mistake| CaseError::Pod { pod: name, mistake })?;
        Ok(Self {
            cluster,
            budgets,
            pod,
            framework,
            doubts,
        })
    }
}
