//! The input of one attempt for one pod, which `explain` and `plan` share.

use crate::dump::Loaded;
use evictd_document::Assumptions;
use evictd_placement::{Checks, Cluster, InvalidObject, Pod};
use evictd_pod::wire;
use evictd_preemption::{Action, Budget, BudgetPolicy, VictimRules};
use evictd_scheduling::config::Configuration;
use evictd_scheduling::{
    CustomPlugin, Filtered, Framework, GangPlacement, NotTried, PodGroups, Verdict, replicas,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// The input of an attempt.
pub(crate) struct Case {
    pub(crate) cluster: Cluster,
    pub(crate) budgets: Vec<Budget>,
    pub(crate) pod: Pod,
    /// The pod in its wire format, which suggestions change.
    pub(crate) wire: wire::Pod,
    pub(crate) framework: Framework,
    /// Why the pod is not tried.
    pub(crate) not_tried: Option<NotTried>,
    groups: PodGroups,
    assumptions: Assumptions,
}

/// The warning about an extender of a configuration.
pub(crate) fn not_asked(url: &str) -> String {
    format!(
        "the extender {url} of --config is not asked, so that it counts as if it accepted every node"
    )
}

/// Why the pod cannot be tried.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CaseError {
    #[error("{pod}: {mistake}")]
    Pod { pod: String, mistake: InvalidObject },
    #[error("--config: {0}")]
    Plugin(String),
    #[error("--config: holds no profile")]
    NoProfile,
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
            mut objects,
            mut groups,
            ..
        } = loaded;
        for extender in &config.extenders {
            objects.assumptions.note(not_asked(&extender.url_prefix));
        }
        let names = || {
            config
                .profiles
                .iter()
                .map(|profile| &*profile.scheduler_name)
        };
        groups.add_pod(&pod);
        groups.keep_pods_of(|pod| NotTried::of_profiles(pod, names()).is_none());
        let other_scheduler = NotTried::of_profiles(&pod, names());
        let not_tried = other_scheduler
            .or_else(|| NotTried::of(&pod))
            .or_else(|| groups.waits_for(&pod));
        let profile = config.profile(pod.spec.scheduler_name_or_default());
        let profile = profile.or(config.profiles.first());
        let profile = profile.ok_or(CaseError::NoProfile)?;
        let framework =
            Framework::new(&mut cluster, profile, plugins).map_err(CaseError::Plugin)?;
        let not_tried = not_tried.or_else(|| framework.waits_for(&cluster, &pod));
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
            not_tried,
            groups,
            assumptions: objects.assumptions,
        })
    }

    /// Places the pod's gang as a whole, and takes it back. `None` if the pod is in no gang.
    pub(crate) fn place_gang(&mut self) -> Option<GangPlacement> {
        self.groups
            .place(&mut self.cluster, &self.framework, &self.wire, None)
    }

    /// The same, with a preemption if the gang does not fit.
    pub(crate) fn preempt_for_gang(&mut self, policy: BudgetPolicy) -> Option<GangPlacement> {
        let budgets = Some((&*self.budgets, policy));
        self.groups
            .place(&mut self.cluster, &self.framework, &self.wire, budgets)
    }

    /// The budgets and the groups of the pods that may be preempted.
    pub(crate) fn victim_rules(&self) -> VictimRules<'_> {
        VictimRules {
            budgets: &self.budgets,
            groups: Some(&self.groups),
        }
    }

    /// How many pods like this one fit beside each other, this one included. Pods of a `DaemonSet` are one for each node.
    pub(crate) fn replicas(&mut self) -> Option<usize> {
        let mut owners = self.wire.metadata.owner_references.iter();
        if owners.any(|owner| owner.controller && owner.kind == "DaemonSet") {
            return None;
        }
        replicas(&mut self.cluster, &self.framework, &self.wire)
    }

    /// The objects that keep the pod from every node.
    pub(crate) fn blockers(&self) -> Vec<String> {
        self.framework.blockers(&self.cluster, &self.pod)
    }

    pub(crate) fn filter(&self) -> Filtered {
        self.framework.filter(&self.cluster, &self.pod)
    }

    /// The error with which the attempt ends, if a filter could not decide about a node and none is feasible.
    pub(crate) fn error(&self, filtered: &Filtered) -> Option<String> {
        filtered.error(&self.framework, &self.cluster, &self.pod, &|_| true)
    }

    /// Objects that are missing in the input, with the checks that need them.
    pub(crate) fn unchecked(&self) -> Vec<String> {
        Checks::new(&self.cluster, &self.pod).unchecked()
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        self.assumptions.lines()
    }

    /// The rejection of each node that was tried and is not feasible.
    pub(crate) fn statuses(&self, filtered: &Filtered) -> BTreeMap<String, Status> {
        let (cluster, pod) = (&self.cluster, &self.pod);
        let verdicts = cluster.node_ids().zip(&filtered.verdicts);
        let verdicts = verdicts.filter(|(_, verdict)| **verdict != Verdict::NotTried);
        let statuses = verdicts.filter_map(|(id, verdict)| {
            let code = filtered.code(*verdict)?;
            let plugin = match verdict {
                Verdict::Rejected(index, _) => Some(self.framework.filters[*index].name()),
                _ => filtered.pre_filter_rejection().map(|(plugin, _)| plugin),
            };
            let status = Status {
                code: code.as_str(),
                reasons: filtered.reasons_on(&self.framework, cluster, pod, id),
                plugin: plugin.map(str::to_owned),
            };
            Some((cluster.node_name(id).to_owned(), status))
        });
        statuses.collect()
    }
}

/// The rejection of a node.
#[derive(Debug, Serialize)]
pub(crate) struct Status {
    pub(crate) code: &'static str,
    pub(crate) reasons: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plugin: Option<String>,
}

/// The gang of the pod, which is placed all at once or not at all.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Gang {
    /// `namespace/name` of its PodGroup.
    pub(crate) pod_group: String,
    /// The root of its tree, as `CompositePodGroup shop/web`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) root: Option<String>,
    /// How many more of its pods must be placed at once.
    pub(crate) needed: usize,
    /// How many of its pods wait.
    pub(crate) waiting: usize,
    /// The nodes of the pods of its tree that fit together, by `namespace/name`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) placed: BTreeMap<String, String>,
    /// Why too few fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    /// The evictions and nominations for it, or why there are none.
    #[serde(skip)]
    pub(crate) preemption: Option<Result<Vec<Action>, String>>,
}

impl Gang {
    pub(crate) fn of(placement: GangPlacement) -> Self {
        let GangPlacement {
            group,
            root,
            needed,
            waiting,
            nodes,
            message,
            preemption,
        } = placement;
        Self {
            pod_group: group,
            root,
            needed,
            waiting,
            placed: nodes,
            message,
            preemption,
        }
    }

    /// The state of the gang in a clause.
    pub(crate) fn state(&self) -> String {
        let (group, needed, fit) = (&self.pod_group, self.needed, self.placed.len());
        match (&self.message, &self.root) {
            (None, Some(root)) => {
                format!("with its PodGroup {group} in {root}: {fit} pods of the tree fit at once")
            }
            (None, None) => format!(
                "with its PodGroup {group}: {fit} of its pods fit at once, and it needs {needed}"
            ),
            (Some(message), _) => format!("its PodGroup {group} is not placed: {message}"),
        }
    }
}
