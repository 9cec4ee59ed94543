//! A preemption for one pod, computed from a dump or a live cluster, as JSON, as a page and as HTML.

mod answer;
mod explanation;
mod html;
mod page;

pub(crate) use answer::Answer;
pub(crate) use html::html;
pub(crate) use page::page;

use crate::attempt::{self, CaseError};
use crate::dump::Loaded;
use evictd_placement::{NodeId, Pod};
use evictd_pod::{Requests, wire};
use evictd_preemption::{Compat, Extender, Options, Plan, PlanError};
use evictd_scheduling::config::Configuration;
use evictd_scheduling::{Filtered, PreemptionInput};

/// The input of a plan.
pub(crate) struct Case {
    pub(crate) attempt: attempt::Case,
    pub(crate) options: Options,
    /// The pod's requests as text.
    requests: String,
}

/// A plan, with the filter results that it comes from.
pub(crate) struct Found {
    filtered: Filtered,
    plan: Plan,
    /// The error with which the attempt ends. Then no pod is preempted.
    error: Option<String>,
    /// The message of the pod's condition.
    message: Option<String>,
    /// How many pods like it fit beside each other, if it fits.
    replicas: Option<usize>,
}

impl Case {
    /// The profile is kube-scheduler's default.
    pub(crate) fn new(
        loaded: Loaded,
        preemptor: wire::Pod,
        options: Options,
    ) -> Result<Self, CaseError> {
        let requests = requests(&preemptor.spec);
        let mut config = Configuration::default();
        for profile in &mut config.profiles {
            profile.args.frees_devices = options.frees_devices;
        }
        Ok(Self {
            attempt: attempt::Case::new(loaded, preemptor, &config, &[])?,
            options,
            requests,
        })
    }

    pub(crate) fn find_node(&self, name: &str) -> Option<NodeId> {
        self.attempt.cluster.find_node(name)
    }

    /// Filters the nodes as `explain` does, and plans a preemption if none is feasible.
    pub(crate) fn plan(&mut self, extenders: &mut [&mut dyn Extender]) -> Result<Found, PlanError> {
        let attempt::Case {
            cluster,
            pod,
            framework,
            ..
        } = &self.attempt;
        let filtered = framework.filter(cluster, pod);
        let error = self.attempt.error(&filtered);
        if !filtered.feasible.is_empty() || error.is_some() {
            let plan = Plan::without_candidates(filtered.rejections_by_node());
            let fits = error.is_none();
            return Ok(Found {
                filtered,
                plan,
                message: error.clone(),
                error,
                replicas: fits.then(|| self.attempt.replicas()).flatten(),
            });
        }
        let input = PreemptionInput {
            victims: self.attempt.victim_rules(),
            options: self.options,
            extenders,
            // A dump does not show which pods wait in Permit.
            is_waiting: &|_: &Pod| false,
        };
        let result = framework.post_filter(cluster, pod, &filtered, input)?;
        let none = || Plan::without_candidates(filtered.rejections_by_node());
        let plan = result.plan.unwrap_or_else(none);
        // Older versions have other messages about the nodes.
        let is_current = self.options.compat == Compat::V1_36;
        Ok(Found {
            filtered,
            plan,
            error: None,
            message: result.message.filter(|_| is_current),
            replicas: None,
        })
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
