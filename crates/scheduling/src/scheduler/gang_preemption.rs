//! The victims of a gang that does not fit.

use super::Scheduler;
use crate::gang::{
    ExtenderResponses, GroupOutcome, Member, MemberOutcome, NoPreemption, Preemption, Preemptor,
    Quorum, TreeTrial, Trial, preempt,
};
use crate::post_filter::PreemptionInput;
use crate::scheduling_queue::Gang;
use evictd_placement::{Domains, NodeId, Pod};
use evictd_pod::compatibility::Release;
use evictd_preemption::{Action, VictimRules};

/// The nominated node of a member, with its victims.
#[derive(Debug, Default)]
pub(super) struct FreedNode {
    pub(super) node: Option<String>,
    pub(super) victims: Vec<(String, String)>,
    pub(super) actions: Vec<Action>,
}

/// The result of a preemption for a gang.
#[derive(Debug, Default)]
pub(super) struct GangPreemption {
    /// Of each member; empty if no victims were found.
    pub(super) freed: Vec<FreedNode>,
    pub(super) is_eligible: bool,
}

/// Finds the victims of a gang. `can_request`: whether extenders may be asked again.
pub(super) fn preempt_for_gang(
    scheduler: &mut Scheduler,
    (gang, can_request): (&Gang, bool),
    members: &mut [Member],
    domains: &[Domains],
) -> Result<Preemption, NoPreemption> {
    let grouped = scheduler.state.queue.grouped_pods();
    let not_freed: Vec<NodeId> = members
        .iter()
        .flat_map(|member| scheduler.stuck_victims.abandoned_nodes(&member.key))
        .filter_map(|node| scheduler.state.cluster().find_node(node))
        .collect();
    // The pods agree with the group, or with each other if the group has no policy (S7-036).
    let never = members
        .iter()
        .any(|member| member.wire.spec.preemption_policy == "Never");
    let preemptor = Preemptor {
        // Of the root (S7-121).
        priority: gang.tree.root().map_or(0, |root| root.object.priority()),
        never,
        budgets: &scheduler.state.cache.budgets,
        policy: scheduler.options.policy,
        grouped: &grouped,
        not_freed: &not_freed,
    };
    // Not `Scheduler::trial`, because the budgets are borrowed from the same cache as the cluster.
    let mut trial = Trial {
        cluster: &mut scheduler.state.cache.cluster,
        algorithm: &mut scheduler.algorithm,
        profiles: &scheduler.binding.profiles,
        quorum: Quorum::default(),
        responses: ExtenderResponses {
            extenders: &scheduler.extenders.extenders,
            states: &scheduler.extenders.pods,
            can_request,
        },
        reserves: false,
        is_repetition: false,
    };
    let mut tree = TreeTrial::new(&gang.tree, domains, members);
    let found = preempt(&mut trial, &mut tree, members, &preemptor)?;
    if trial.cluster.interrupt().is_raised() {
        return Err(NoPreemption::NoVictims);
    }
    for index in &found.groups {
        let group = grouped.atomic[*index].clone();
        let results = &mut scheduler.binding.results;
        results.push_group(group, GroupOutcome::Preempted { for_group: true });
    }
    Ok(found)
}

/// The nominated node and the victims of each member, by index. A victim belongs to a member that gets its node.
pub(super) fn freed_nodes(
    scheduler: &Scheduler,
    members: &[Member],
    found: &Preemption,
) -> Vec<FreedNode> {
    let cluster = scheduler.state.cluster();
    let mut freed: Vec<FreedNode> = members.iter().map(|_| FreedNode::default()).collect();
    for (member, node) in &found.nominations {
        freed[*member].node = Some(cluster.node_name(*node).to_owned());
    }
    for victim in &found.victims {
        let on_node = found
            .nominations
            .iter()
            .find(|(_, node)| *node == victim.node);
        let Some((member, _)) = on_node.or(found.nominations.first()) else {
            continue;
        };
        let freed = &mut freed[*member];
        let (pod, uid) = (victim.name.clone(), victim.uid.clone());
        freed.victims.push((pod.clone(), uid.clone()));
        // A terminating pod is not deleted again (S4-030).
        if victim.terminating {
            continue;
        }
        let is_there = cluster
            .node(victim.node)
            .pods
            .iter()
            .any(|pod| pod.uid() == uid);
        // The API server does not know the node of a pod that is not bound, so its deletion would free nothing.
        let is_placed = is_there && scheduler.state.queue.lifecycles().is_placed(&uid);
        freed.actions.push(if is_placed {
            Action::RejectWaiting { pod, uid }
        } else {
            Action::Delete { pod, uid }
        });
    }
    freed
}

/// Adds to the messages of pods that fit nowhere why none of them preempts by itself. kube-scheduler 1.36 tries that for each pod
/// of a group, 1.37 only for the group (S7-039).
pub(super) fn add_preemption_messages(scheduler: &Scheduler, gang: &Gang, members: &mut [Member]) {
    let cluster = scheduler.state.cluster();
    let root = gang.tree.root();
    if root.is_some_and(|root| root.object.is_barrier())
        || cluster.compatibility().is_at_least(Release::V1_37)
    {
        return;
    }
    let lifecycles = scheduler.state.queue.lifecycles();
    for member in members {
        let (Some(pod), MemberOutcome::FitsNowhere(error)) = (&member.pod, &mut member.outcome)
        else {
            continue;
        };
        let framework = &scheduler.binding.profiles[member.profile];
        let filtered = framework.filter(cluster, pod);
        let input = PreemptionInput {
            victims: VictimRules {
                budgets: &scheduler.state.cache.budgets,
                groups: Some(&scheduler.state.queue),
            },
            options: scheduler.options,
            extenders: &mut [],
            is_waiting: &|pod: &Pod| lifecycles.is_placed(pod.uid()),
        };
        let result = framework.post_filter(cluster, pod, &filtered, input);
        let message = result.ok().and_then(|result| result.message);
        error.message = message.unwrap_or_else(|| std::mem::take(&mut error.message));
    }
}
