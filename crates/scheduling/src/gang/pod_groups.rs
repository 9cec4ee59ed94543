//! The groups of the pods of a dump: whether one is complete, and whether its pods fit together. There is no queue here.

use super::members::{Groups, group_of};
use super::tree::{GroupTree, ScheduledPods};
use super::tree_trial::TreeTrial;
use super::{Member, Preemption, Preemptor, Quorum, Trial, of_other_pod, preempt, validate};
use crate::framework::{Framework, PostFilter};
use crate::gang::{ExtenderResponses, MemberOutcome};
use crate::not_tried::NotTried;
use crate::scheduling_algorithm::SchedulingAlgorithm;
use evictd_placement::{Cluster, Statement};
use evictd_pod::wire;
use evictd_preemption::{Action, Budget, BudgetPolicy, VictimGroup, VictimGroups};
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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GangPlacement {
    /// `namespace/name` of the group.
    pub group: String,
    /// The root of its tree, as `CompositePodGroup shop/web`; `None` without a parent.
    pub root: Option<String>,
    /// How many more of its pods must be placed at once.
    pub needed: usize,
    /// How many of its pods wait.
    pub waiting: usize,
    /// The nodes of the pods of the whole tree that fit, by `namespace/name`. Empty if too few fit.
    pub nodes: BTreeMap<String, String>,
    /// Why too few fit.
    pub message: Option<String>,
    /// The evictions and nominations that make room, or why there are none. `None` if no preemption was looked for.
    pub preemption: Option<Result<Vec<Action>, String>>,
}

impl PodGroups {
    /// Adds a group.
    pub fn add_group(&mut self, group: &wire::PodGroup) {
        let object = Some(Arc::new(group.clone()));
        self.groups.set(&group.metadata, object);
    }

    /// Adds a composite group.
    pub fn add_composite_group(&mut self, group: &wire::CompositePodGroup) {
        let object = Some(Arc::new(group.clone()));
        self.groups.set_composite(&group.metadata, object);
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

    /// Places the waiting pods of a pod's gang together, with those of its whole tree, and takes them back. With budgets it also
    /// looks for victims if they do not fit. `None` if the pod is in no gang, or in a valid group with the policy `basic`.
    pub fn place(
        &self,
        cluster: &mut Cluster,
        framework: &Framework,
        pod: &wire::Pod,
        budgets: Option<(&[Budget], BudgetPolicy)>,
    ) -> Option<GangPlacement> {
        let name = group_of(pod)?;
        self.groups.object(&name)?;
        let root = self.groups.root(&name).ok()?;
        let tree = match GroupTree::of(&self.groups, &root, &|group| self.scheduled(group)) {
            Ok(tree) => tree?,
            Err(error) => {
                return Some(GangPlacement {
                    group: name.to_string(),
                    message: Some(error),
                    ..GangPlacement::default()
                });
            }
        };
        let root = tree.root()?;
        let leaf = tree.leaf(&name)?;
        let quorum = tree.groups[leaf].quorum;
        let mut members = self.members(cluster, &tree);
        let of_group = members.iter().filter(|member| member.group == leaf);
        let mut placement = GangPlacement {
            group: name.to_string(),
            root: (leaf > 0).then(|| root.object.title()),
            needed: quorum.min_count.saturating_sub(quorum.scheduled),
            waiting: of_group.count(),
            ..GangPlacement::default()
        };
        let leaves = tree.leaves();
        let scheduled = leaves.flat_map(|leaf| self.groups.common_of_bound(leaf));
        let scheduled: Vec<_> = scheduled.collect();
        let release = cluster.compatibility().release();
        let is_tried_together = root.object.is_barrier();
        if is_tried_together && leaf == 0 && placement.waiting < placement.needed {
            let message = format!("pod group {name:?} has not all its pods yet");
            placement.message = Some(message);
        } else if let Some(invalid) = validate(release, &root.object, &members, &scheduled) {
            placement.message = Some(invalid);
        } else if is_tried_together {
            cluster.begin_sharing();
            let release = cluster.compatibility().release();
            let plugins = framework.post_filters_of_groups(release);
            let preempts = plugins.contains(&PostFilter::DefaultPreemption);
            let grouped = self.groups.grouped_pods(|_| false);
            let preemptor = budgets
                .filter(|_| preempts)
                .map(|(budgets, policy)| Preemptor {
                    priority: root.object.priority(),
                    never: members
                        .iter()
                        .any(|member| member.wire.spec.preemption_policy == "Never"),
                    budgets,
                    policy,
                    grouped: &grouped,
                    not_freed: &[],
                });
            let framework = std::slice::from_ref(framework);
            let tree = (&tree, leaf);
            placement.try_members(cluster, framework, tree, (&mut members, preemptor));
            cluster.end_sharing();
        }
        for pod in members.into_iter().filter_map(|member| member.pod) {
            cluster.release(pod);
        }
        // A pod of the policy `basic` gets a node by itself, unless its group is invalid.
        (is_tried_together || placement.message.is_some()).then_some(placement)
    }

    fn scheduled(&self, group: &str) -> ScheduledPods {
        let pods = self.groups.pods_with_nodes(group);
        pods.map(|(pod, node)| (Arc::clone(pod), Arc::clone(node)))
            .collect()
    }

    /// The pods of a tree that can be tried, in the order of their attempts.
    fn members(&self, cluster: &mut Cluster, tree: &GroupTree) -> Vec<Member> {
        let tried = self.waiting.iter().filter_map(|pod| {
            let leaf = tree.leaf(&group_of(pod)?)?;
            NotTried::of(pod).is_none().then_some((leaf, pod))
        });
        let mut pods: Vec<(usize, &Arc<wire::Pod>)> = tried.collect();
        pods.sort_by_cached_key(|(leaf, pod)| {
            let priority = pod.spec.priority.unwrap_or(0);
            (*leaf, Reverse(priority), pod.metadata.name.clone())
        });
        let member = |(leaf, pod): (usize, &Arc<wire::Pod>)| {
            let attempt = (pod.metadata.key(), 1);
            Member::new(cluster, attempt, Arc::clone(pod), (0, leaf))
        };
        pods.into_iter().map(member).collect()
    }
}

impl VictimGroups for PodGroups {
    fn group(&self, namespace: &str, name: &str) -> Option<VictimGroup> {
        self.groups.of_victims(namespace, name)
    }

    fn pods(&self, atomic: &Arc<str>) -> Vec<Arc<str>> {
        let leaves = self.groups.leaves(atomic);
        let pods = leaves
            .iter()
            .flat_map(|leaf| self.groups.pods_with_nodes(leaf));
        pods.map(|(pod, _)| Arc::clone(pod)).collect()
    }
}

impl GangPlacement {
    /// Tries the members, notes the result for this group and takes them back. Then looks for victims of the preemptor.
    fn try_members(
        &mut self,
        cluster: &mut Cluster,
        profiles: &[Framework],
        (tree, leaf): (&GroupTree, usize),
        (members, preemptor): (&mut [Member], Option<Preemptor<'_>>),
    ) {
        let domains = tree.domains(cluster);
        let mut statement = Statement::default();
        let mut trial = Trial {
            cluster,
            algorithm: &mut SchedulingAlgorithm::default(),
            profiles,
            quorum: Quorum::default(),
            responses: ExtenderResponses {
                extenders: &[],
                states: &HashMap::new(),
                can_request: false,
            },
            reserves: false,
            is_repetition: false,
        };
        let mut attempt = TreeTrial::new(tree, &domains, members);
        if attempt.run(&mut trial, &mut statement, members) {
            let named = members.iter().filter_map(|one| one.named(trial.cluster));
            self.nodes = named.collect();
        }
        let message = attempt.error().or_else(|| attempt.message(leaf));
        let error = members.iter().find_map(Member::last_error);
        let error = error.filter(|_| self.nodes.is_empty());
        self.message = error.map(|error| of_other_pod(&error)).or_else(|| {
            message.map(|message| {
                let does_not_fit = |member: &&Member| {
                    member.group == leaf && matches!(member.outcome, MemberOutcome::FitsNowhere(_))
                };
                match members.iter().find(does_not_fit) {
                    Some(member) => format!(
                        "{message} (pod {:?}: {})",
                        member.wire.metadata.name,
                        member.message("")
                    ),
                    None => message.to_owned(),
                }
            })
        });
        trial.take_back(&mut statement, members);
        statement.undo(trial.cluster);
        // As in a live attempt an error, or the rejection of a plugin, ends it.
        let is_final = attempt.error().is_some()
            || members.iter().any(|member| {
                let is_rejected = matches!(member.outcome, MemberOutcome::Rejected(_));
                is_rejected || member.last_error().is_some()
            });
        let preemptor = preemptor.filter(|_| self.nodes.is_empty() && !is_final);
        self.preemption = preemptor.map(|preemptor| {
            let found = preempt(&mut trial, &mut attempt, members, &preemptor);
            let found = found.map(|found| found.actions(trial.cluster, members));
            found.map_err(|why| format!("pod group preemption: {}", why.message()))
        });
    }
}

impl Preemption {
    /// The evictions, and then the nominations. A terminating pod is not deleted again (S4-030).
    fn actions(&self, cluster: &Cluster, members: &[Member]) -> Vec<Action> {
        let victims = self.victims.iter().filter(|victim| !victim.terminating);
        let evictions = victims.map(|victim| Action::Delete {
            pod: victim.name.clone(),
            uid: victim.uid.clone(),
        });
        let nominations = self.nominations.iter();
        let nominations = nominations.map(|(member, node)| Action::Nominate {
            pod: members[*member].wire.metadata.full_name(),
            node: cluster.node_name(*node).to_owned(),
        });
        evictions.chain(nominations).collect()
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
