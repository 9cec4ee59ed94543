//! One scheduling attempt for one pod, from a dump or a live cluster, as JSON and as a page.

mod answer;
mod page;
mod replicas;

pub(crate) use answer::Answer;
pub(crate) use page::{page, suggestions};

use crate::dump::Loaded;
use evictd_document::Assumptions;
use evictd_placement::{Cluster, InvalidObject, Pod};
use evictd_pod::wire;
use evictd_preemption::Budget;
use evictd_scheduling::config::Configuration;
use evictd_scheduling::{CustomPlugin, Framework};

/// The input of an attempt.
pub(crate) struct Case {
    pub(crate) cluster: Cluster,
    pub(crate) budgets: Vec<Budget>,
    pub(crate) pod: Pod,
    /// The pod in its wire format, which suggestions change.
    wire: wire::Pod,
    pub(crate) framework: Framework,
    assumptions: Assumptions,
}

/// Why the pod cannot be tried.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CaseError {
    #[error("{pod}: {mistake}")]
    Pod { pod: String, mistake: InvalidObject },
    #[error("{pod}: spec.schedulerName: no profile is named {scheduler:?}; there is {known}")]
    Profile {
        pod: String,
        scheduler: String,
        known: String,
    },
    #[error("--config: {0}")]
    Plugin(String),
}

impl Case {
    pub(crate) fn new(
        loaded: Loaded,
        pod: wire::Pod,
        config: &Configuration,
        plugins: &[CustomPlugin],
    ) -> Result<Self, CaseError> {
        let Loaded {
            mut cluster,
            budgets,
            objects,
            ..
        } = loaded;
        let scheduler = pod.spec.scheduler_name_or_default();
        let profile = config.profile(scheduler).ok_or_else(|| {
            let known = config.profiles.iter();
            let known: Vec<&str> = known
                .map(|profile| profile.scheduler_name.as_str())
                .collect();
            CaseError::Profile {
                pod: pod.metadata.full_name(),
                scheduler: scheduler.to_owned(),
                known: known.join(", "),
            }
        })?;
        let framework =
            Framework::new(&mut cluster, profile, plugins).map_err(CaseError::Plugin)?;
        let name = pod.metadata.full_name();
        // Compiling consumes the pod.
        let wire = pod.clone();
        let pod = cluster.pod(pod);
        let pod = pod.map_err(|mistake| CaseError::Pod { pod: name, mistake })?;
        Ok(Self {
            cluster,
            budgets,
            pod,
            wire,
            framework,
            assumptions: objects.assumptions,
        })
    }
}
