//! The groups of the pods of a dump: whether one is complete, and whether its pods fit together. There is no queue here.

use super::members::{Groups, group_of};
use super::{Member, Quorum, Trial, TrialResult, fit_error, validate};
use crate::framework::Framework;
use crate::gang::{ExtenderResponses, MemberOutcome};
use crate::not_tried::NotTried;
use crate::scheduling_algorithm::SchedulingAlgorithm;
use evictd_placement::{Cluster, Domain, Domains, Statement};
use evictd_pod::wire;
use evictd_preemption::{VictimGroup, VictimGroups};
use hashbrown::HashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The groups of a cluster, with their pods.
#[derive(Debug, Default)]
pub struct PodGroups {
    groups: Groups,
    /// The pods of groups that have no node.
    waiting: Vec<Arc<wire::Pod>>,
}

/// Whether the waiting pods of a gang can be placed together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GangPlacement {
    /// `namespace/name` of the group.
    pub group: String,
    /// How many more of its pods must be placed at once.
    pub needed: usize,
    /// How many of its pods wait.
    pub waiting: usize,
    /// The nodes of the pods that fit, by `namespace/name`. Empty if too few fit.
    pub nodes: BTreeMap<String, String>,
    /// Why too few fit.
    pub message: Option<String>,
}

impl PodGroups {
    /// Adds a group.
    pub fn add_group(&mut self, group: &wire::PodGroup) {
        let object = Some(Arc::new(group.clone()));
        self.groups.set(&group.metadata, object);
    }

    /// Adds a pod. One without a group changes nothing, and one that has ended has left its group.
    pub fn add_pod(&mut self, pod: &wire::Pod) {
        let Some(group) = group_of(pod) else {
            return;
        };
        if matches!(NotTried::of(pod), Some(NotTried::Ended(_))) {
            return;
        }
        let (key, node) = (pod.metadata.key(), &pod.spec.node_name);
        if node.is_empty() {
            self.groups.wait(group, &key);
            self.waiting.push(Arc::new(pod.clone()));
        } else {
            self.groups.bind(group, &key, pod, node);
        }
    }

    /// Removes the waiting pods of other schedulers, which do not count here.
    pub fn keep_pods_of(&mut self, is_responsible: impl Fn(&wire::Pod) -> bool) {
        let groups = &mut self.groups;
        self.waiting.retain(|pod| {
            let keeps = is_responsible(pod);
            if !keeps && let Some(group) = group_of(pod) {
                groups.leave(&group, &pod.metadata.key());
            }
            keeps
        });
    }

    /// Why a pod is not tried before its group is complete; `None` if it is complete, or the pod has no group.
    pub fn waits_for(&self, pod: &wire::Pod) -> Option<NotTried> {
        let reason = self.groups.waits_for(&group_of(pod)?)?;
        Some(NotTried::GroupIncomplete(reason))
    }

    /// Places the waiting pods of a pod's gang together, and takes them back. `None` if the pod is in no gang.
    pub fn place(
        &self,
        cluster: &mut Cluster,
        framework: &Framework,
        pod: &wire::Pod,
    ) -> Option<GangPlacement> {
        let name = group_of(pod)?;
        let object = self.groups.object(&name)?;
        object.spec.scheduling_policy.gang.as_ref()?;
        let bound: Vec<&Arc<str>> = self.groups.nodes(&name).collect();
        let quorum = Quorum {
            min_count: self.groups.min_count(&name)?,
            scheduled: bound.len(),
        };
        let needed = quorum.min_count.saturating_sub(quorum.scheduled);
        let mut members = self.members(cluster, &name);
        let waiting = members.len();
        let mut placement = GangPlacement {
            group: name.to_string(),
            needed,
            waiting,
            nodes: BTreeMap::new(),
            message: None,
        };
        let invalid = validate(&object.spec, &members, &self.groups.common_of_bound(&name));
        if waiting < needed {
            let message = format!("pod group {name:?} has not all its pods yet");
            placement.message = Some(message);
        } else if invalid.is_some() {
            placement.message = invalid;
        } else {
            cluster.begin_sharing();
            let keys = object.spec.scheduling_constraints.topology.iter();
            let keys = keys.map(|constraint| &*constraint.key);
            let domains = Domains::new(cluster, keys);
            match domains.of_group(cluster, self.groups.pods_with_nodes(&name)) {
                Ok(domains_of_group) => {
                    let framework = std::slice::from_ref(framework);
                    let constraint = (domains.keys().len() > 0).then_some(domains_of_group.len());
                    let place = (framework, quorum);
                    placement.try_members(
                        cluster,
                        place,
                        &mut members,
                        (&domains_of_group, constraint),
                    );
                }
                Err(error) => placement.message = Some(error),
            }
            cluster.end_sharing();
        }
        for pod in members.into_iter().filter_map(|member| member.pod) {
            cluster.release(pod);
        }
        Some(placement)
    }

    /// The pods of a group that can be tried, in the order of their attempts.
    fn members(&self, cluster: &mut Cluster, group: &str) -> Vec<Member> {
        let is_tried = |pod: &&Arc<wire::Pod>| {
            group_of(pod).is_some_and(|name| *name == *group) && NotTried::of(pod).is_none()
        };
        let mut pods: Vec<&Arc<wire::Pod>> = self.waiting.iter().filter(is_tried).collect();
        pods.sort_by_cached_key(|pod| {
            let priority = pod.spec.priority.unwrap_or(0);
            (Reverse(priority), pod.metadata.name.clone())
        });
        let member = |pod: &Arc<wire::Pod>| {
            let attempt = (pod.metadata.key(), 1);
            Member::new(cluster, attempt, Arc::clone(pod), 0)
        };
        pods.into_iter().map(member).collect()
    }
}

impl VictimGroups for PodGroups {
    fn group(&self, namespace: &str, name: &str) -> Option<VictimGroup> {
        self.groups.of_victims(namespace, name)
    }

    fn pods(&self, atomic: &str) -> Vec<Arc<str>> {
        let pods = self.groups.pods_with_nodes(atomic);
        pods.map(|(pod, _)| Arc::from(pod)).collect()
    }
}

impl GangPlacement {
    /// Tries the members, notes the result and takes them back.
    fn try_members(
        &mut self,
        cluster: &mut Cluster,
        (profiles, quorum): (&[Framework], Quorum),
        members: &mut [Member],
        (domains, constraint): (&[Domain<'_>], Option<usize>),
    ) {
        let mut statement = Statement::default();
        let mut trial = Trial {
            cluster,
            algorithm: &mut SchedulingAlgorithm::default(),
            profiles,
            quorum,
            responses: ExtenderResponses {
                extenders: &[],
                states: &HashMap::new(),
                can_request: false,
            },
            reserves: false,
        };
        match trial.run(&mut statement, members, domains) {
            TrialResult::Placed(_) => {
                let named = members.iter().filter_map(|one| one.named(trial.cluster));
                self.nodes = named.collect();
            }
            TrialResult::Failed(progress) => {
                let error = fit_error(quorum, progress, constraint, members);
                let does_not_fit =
                    |member: &&Member| matches!(member.outcome, MemberOutcome::FitsNowhere(_));
                self.message = Some(match members.iter().find(does_not_fit) {
                    Some(member) => format!(
                        "{} (pod {:?}: {})",
                        error.message,
                        member.wire.metadata.name,
                        member.message("")
                    ),
                    None => error.message,
                });
            }
        }
        trial.take_back(&mut statement, members);
        statement.undo(trial.cluster);
    }
}

impl Member {
    /// `namespace/name` and the node of a pod that fits.
    fn named(&self, cluster: &Cluster) -> Option<(String, String)> {
        let MemberOutcome::Fits(result) = &self.outcome else {
            return None;
        };
        let node = cluster.node_name(result.chosen).to_owned();
        Some((self.wire.metadata.full_name(), node))
    }
}
