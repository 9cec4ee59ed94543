//! One attempt to place all pods of a gang.

use super::binding_cycle::BindingCycle;
use super::cost::CostMeter;
use super::extender_calls::GangCalls;
use super::gang_binding::PlacedPods;
use super::scheduling_cycle::UNANSWERED;
use super::{Attempt, Outcome, Rejected, Scheduler};
use crate::extenders::ExtenderRequest;
use crate::gang::{
    ExtenderResponses, FitError, GangFitError, GroupOutcome, Member, MemberOutcome, NoPreemption,
    Preemption, Preemptor, Quorum, Trial, TrialResult, fit_error, preempt, validate,
};
use crate::plugins::PluginName;
use crate::pod_lifecycle::WaitingPod;
use crate::pre_bind::ClaimRef;
use crate::scheduling_queue::Gang;
use evictd_placement::{Cluster, Domain, Domains, INTERRUPTED, NodeId, Statement};
use evictd_preemption::Action;
use hashbrown::HashSet;
use jiff::Timestamp;
use std::sync::Arc;

/// The most rounds of requests to extenders in one attempt. A further round asks about nodes that only the last responses made
/// feasible.
const MAX_ROUNDS: u32 = 64;

/// The nominated node of a member, with its victims.
#[derive(Debug, Default)]
struct FreedNode {
    node: Option<String>,
    victims: Vec<(String, String)>,
    actions: Vec<Action>,
}

/// The result of a preemption for a gang.
#[derive(Debug, Default)]
struct GangPreemption {
    /// Of each member; empty if no victims were found.
    freed: Vec<FreedNode>,
    is_eligible: bool,
}

impl Scheduler {
    /// Tries the pods of a gang together and queues their attempts. `rounds` counts the earlier requests to extenders.
    pub(super) fn schedule_gang(&mut self, now: Timestamp, gang: Gang, rounds: u32) {
        let members = self.members(now, &gang);
        if self.extenders.holds_gang(&gang.name) {
            let message = format!("pod group {:?} is being decided about", gang.name);
            return self.reject_members(now, members, &GangFitError::of(message), None);
        }
        let name = Arc::clone(&gang.name);
        let keys: Vec<Arc<str>> = gang
            .members
            .iter()
            .map(|member| Arc::clone(&member.pod))
            .collect();
        // The members of a gang may share devices that one of them was promised in this attempt.
        self.state.cluster_mut().begin_sharing();
        self.try_gang(now, gang, members, rounds);
        self.state.cluster_mut().end_sharing();
        if !self.extenders.is_gang_waiting(&name) {
            for key in keys {
                self.extenders.pods.remove(&key);
            }
        }
    }

    fn try_gang(&mut self, now: Timestamp, gang: Gang, members: Vec<Member>, rounds: u32) {
        if self.state.cluster().nodes().is_empty() {
            let message = "no nodes available to schedule pods";
            return self.end_members(now, members, |_, _| Err(message.to_owned()));
        }
        let lifecycles = self.state.queue.lifecycles();
        let is_unanswered = members
            .iter()
            .any(|member| lifecycles.awaits_answer(&member.key));
        if is_unanswered {
            return self.end_members(now, members, |_, _| Err(UNANSWERED.to_owned()));
        }
        if gang.must_wait {
            let message = format!("pod group {:?} has not all its pods yet", gang.name);
            return self.reject_members(now, members, &GangFitError::of(message), None);
        }
        let scheduled = self.state.queue.common_of_scheduled(&gang.name);
        if let Some(message) = validate(&gang.object.spec, &members, &scheduled) {
            return self.fail_group(now, &gang, members, &message);
        }
        let cluster = self.state.cluster();
        let constraints = gang.object.spec.scheduling_constraints.topology.iter();
        let domains = Domains::new(cluster, constraints.map(|constraint| &*constraint.key));
        // Pods that have a node already fix the topology domain of the others.
        let scheduled = self.state.queue.nodes_of_group(&gang.name);
        match domains.of_group(cluster, scheduled) {
            Ok(domains) => self.try_domains(now, (gang, rounds), members, &domains),
            Err(message) => self.fail_group(now, &gang, members, &message),
        }
    }

    fn try_domains(
        &mut self,
        now: Timestamp,
        (gang, rounds): (Gang, u32),
        mut members: Vec<Member>,
        domains: &[Domain<'_>],
    ) {
        let mut statement = Statement::default();
        let mut trial = self.trial(gang.quorum, rounds);
        trial.reserves = true;
        let result = trial.run(&mut statement, &mut members, domains);
        let failed = failed(trial.cluster, &members);
        let is_placed = matches!(result, TrialResult::Placed(_));
        let asks = is_placed && members.iter().any(Member::has_request);
        if is_placed && !asks && failed.is_none() {
            statement.commit(trial.cluster);
            return self.place_gang(now, &gang, members);
        }
        trial.take_back(&mut statement, &mut members);
        // Before the outcome is reported: other pods must not see the members on their nodes.
        statement.undo(trial.cluster);
        if let Some(message) = failed {
            self.end_failed(now, &gang, members, &message);
        } else if asks {
            self.ask_about_gang(gang, members, rounds);
        } else {
            let progress = match result {
                TrialResult::Placed(_) => None,
                TrialResult::Failed(progress) => progress,
            };
            let has_constraint = !gang.object.spec.scheduling_constraints.topology.is_empty();
            let count = has_constraint.then_some(domains.len());
            let error = fit_error(gang.quorum, progress, count, &members);
            self.reject_gang(now, (gang, rounds), members, (domains, error));
        }
    }

    /// Too few pods of a gang fit: looks for victims.
    fn reject_gang(
        &mut self,
        now: Timestamp,
        (gang, rounds): (Gang, u32),
        mut members: Vec<Member>,
        (domains, mut error): (&[Domain<'_>], GangFitError),
    ) {
        let is_rejected = |member: &Member| matches!(member.outcome, MemberOutcome::Rejected(_));
        if members.iter().any(is_rejected) {
            // No eviction changes the answer of a plugin about a node.
            self.report_unschedulable(&gang, &error.message);
            return self.reject_members(now, members, &error, None);
        }
        // The preemption tries the members again, but reports why they did not fit before it.
        let outcomes: Vec<MemberOutcome> = members
            .iter_mut()
            .map(|member| {
                member.to_request.clear();
                std::mem::take(&mut member.outcome)
            })
            .collect();
        let found = self.preempt_for_gang((&gang, rounds), &mut members, domains);
        let failed = failed(self.state.cluster(), &members);
        if failed.is_none() && members.iter().any(Member::has_request) {
            return self.ask_about_gang(gang, members, rounds);
        }
        for (member, outcome) in members.iter_mut().zip(outcomes) {
            member.outcome = outcome;
        }
        if let Some(message) = failed {
            return self.end_failed(now, &gang, members, &message);
        }
        let mut preemption = GangPreemption {
            is_eligible: matches!(found, Ok(_) | Err(NoPreemption::NoVictims)),
            ..GangPreemption::default()
        };
        // S7-052, S7-053.
        let result = match &found {
            Ok(found) => {
                preemption.freed = self.freed_nodes(&members, found);
                let count = found.victims.len();
                format!(
                    "pod group preemption found a placement for podgroup, preempting {count} victims"
                )
            }
            Err(reason) => format!("pod group preemption: {}", reason.as_str()),
        };
        error.message = format!("{}, {result}", error.message);
        self.report_unschedulable(&gang, &error.message);
        self.reject_members(now, members, &error, Some(preemption));
    }

    fn report_unschedulable(&mut self, gang: &Gang, message: &str) {
        let outcome = GroupOutcome::Unschedulable(message.to_owned());
        self.binding
            .results
            .push_group(Arc::clone(&gang.object), outcome);
    }

    /// The members of a gang that can be tried. The attempts of the others end here.
    fn members(&mut self, now: Timestamp, gang: &Gang) -> Vec<Member> {
        let mut members = Vec::new();
        for popped in &gang.members {
            let key = &popped.pod;
            let Some(wire) = self.state.pod(key) else {
                self.state.queue.done(now, key);
                continue;
            };
            let outcome = match self.binding.profile_of(&wire) {
                _ if wire.metadata.deletion_timestamp.is_some() => Outcome::Deleting,
                None => Outcome::NoProfile,
                Some(profile) => {
                    let attempt = (Arc::clone(key), popped.attempts);
                    let mut member = Member::new(self.state.cluster_mut(), attempt, wire, profile);
                    if let Some(pod) = &member.pod {
                        CostMeter::charge(self.state.cluster(), pod);
                    }
                    member.nominated = self.state.queue.nominated_node(key);
                    members.push(member);
                    continue;
                }
            };
            self.state.queue.done(now, key);
            self.binding.results.push(Attempt {
                key: Arc::clone(key),
                pod: wire,
                number: popped.attempts,
                outcome,
            });
        }
        members
    }

    fn trial(&mut self, quorum: Quorum, rounds: u32) -> Trial<'_> {
        Trial {
            cluster: self.state.cluster_mut(),
            algorithm: &mut self.algorithm,
            profiles: &self.binding.profiles,
            quorum,
            responses: ExtenderResponses {
                extenders: &self.extenders.extenders,
                states: &self.extenders.pods,
                can_request: rounds < MAX_ROUNDS,
            },
            reserves: false,
        }
    }

    /// Asks extenders about the members. Meanwhile none of them holds a node.
    fn ask_about_gang(&mut self, gang: Gang, members: Vec<Member>, rounds: u32) {
        let mut outstanding = HashSet::new();
        for mut member in members {
            if let Some(pod) = member.pod.take() {
                self.state.cluster_mut().release(pod);
            }
            if !member.has_request() {
                continue;
            }
            outstanding.insert(Arc::clone(&member.key));
            let calls = &mut self.extenders.pods;
            let state = calls.entry(Arc::clone(&member.key)).or_default();
            state.requested.extend(member.to_request.iter().cloned());
            let nodes = member.to_request.into_iter().collect();
            self.binding.results.push(Attempt {
                key: member.key,
                pod: member.wire,
                number: member.attempt,
                outcome: Outcome::AskExtenders(ExtenderRequest::Nodes(nodes)),
            });
        }
        let calls = GangCalls {
            members: gang.members,
            outstanding,
            rounds: rounds + 1,
            has_new_pods: false,
        };
        self.extenders.begin_gang(gang.name, calls);
    }

    /// Tries a gang again on the cluster as it is now, after the last response about its pods.
    pub(super) fn resume_gang(&mut self, now: Timestamp, name: &Arc<str>, calls: GangCalls) {
        let gang = self.state.queue.gang(Arc::clone(name), calls.members);
        // As for a single pod: a gang whose extenders have answered is not put off.
        let namespace: Arc<str> = gang.object.metadata.namespace_or_default().into();
        let ((), cost) = self.interruptible(true, |scheduler| {
            scheduler.schedule_gang(now, gang, calls.rounds);
        });
        self.state.queue.count_cost(&namespace, cost, false);
        let waits_again = self.extenders.keep_new_pods(name, calls.has_new_pods);
        if !waits_again && calls.has_new_pods {
            self.state.retry_group(now, name);
        }
    }

    /// Ends the attempt of each member with the outcome, or the error message, of `end`.
    fn end_members(
        &mut self,
        now: Timestamp,
        members: Vec<Member>,
        mut end: impl FnMut(&mut Self, &mut Member) -> Result<Outcome, String>,
    ) {
        for mut member in members {
            let ended = match std::mem::take(&mut member.outcome) {
                MemberOutcome::Invalid(message) => Err(message),
                other => {
                    member.outcome = other;
                    end(self, &mut member)
                }
            };
            if let Some(pod) = member.pod.take() {
                self.state.cluster_mut().release(pod);
            }
            let outcome = match ended {
                Ok(Outcome::Unschedulable(rejected)) => {
                    self.state.failed(now, &member.key, &rejected.failure());
                    Outcome::Unschedulable(rejected)
                }
                Ok(outcome) => outcome,
                Err(message) => {
                    self.state.failed_with_error(now, &member.key);
                    Outcome::Error(message)
                }
            };
            self.binding.results.push(Attempt {
                key: member.key,
                pod: member.wire,
                number: member.attempt,
                outcome,
            });
        }
    }

    /// There was an error about one of the pods, or the attempt was interrupted. A pod with an error keeps it (S7-043).
    fn end_failed(&mut self, now: Timestamp, gang: &Gang, members: Vec<Member>, message: &str) {
        if self.is_interrupted() {
            return self.end_members(now, members, |scheduler, member| {
                Ok(scheduler.end_interrupted(now, &member.key, &member.wire))
            });
        }
        let of_group = format!("failed to schedule other pod from a pod group: {message}");
        self.fail_group(now, gang, members, &of_group);
    }

    /// There was no decision about a group: its pods are tried again after their backoff (S7-037).
    fn fail_group(&mut self, now: Timestamp, gang: &Gang, members: Vec<Member>, message: &str) {
        let outcome = GroupOutcome::Error(message.to_owned());
        self.binding
            .results
            .push_group(Arc::clone(&gang.object), outcome);
        self.end_members(now, members, |_, member| {
            Err(member.error().unwrap_or_else(|| message.to_owned()))
        });
    }

    /// Enough pods of a gang fit: they are placed, and the others are tried later.
    fn place_gang(&mut self, now: Timestamp, gang: &Gang, members: Vec<Member>) {
        let mut placed = PlacedPods::new();
        let mut others = Vec::new();
        for mut member in members {
            let result = match std::mem::take(&mut member.outcome) {
                MemberOutcome::Fits(result) => result,
                outcome => {
                    member.outcome = outcome;
                    others.push(member);
                    continue;
                }
            };
            // The statement has put the pod on its node, so only the queue must learn of it.
            let node: Arc<str> = self.state.cluster().node_name(result.chosen).into();
            self.state.queue.assume(now, &member.key, &node);
            let waiting = WaitingPod {
                pod: member.wire,
                attempts: member.attempt,
                profile: member.profile,
                node,
                result,
                pre_bind: member.pre_bind,
                since: now,
                pending: member.pending,
                gang: Some(Arc::clone(&gang.name)),
            };
            placed.push((member.key, waiting));
        }
        let binding: &mut BindingCycle = &mut self.binding;
        if gang.object.spec.scheduling_policy.gang.is_some() {
            binding.bind_or_wait(&mut self.state, now, &gang.name, placed);
        } else {
            binding.bind_each(&mut self.state, now, &gang.name, placed);
        }
        let left: Vec<Arc<str>> = others
            .iter()
            .map(|member| Arc::clone(&member.key))
            .collect();
        self.end_members(now, others, |_, member| {
            let outcome = std::mem::take(&mut member.outcome);
            Ok(Outcome::Unschedulable(left_out(outcome)))
        });
        // They are tried again at once, and may preempt then, unless they wait for an answer of the API server (S7-029).
        self.state.activate(now, left.iter().map(|key| &**key));
    }

    /// No pod of a gang is placed. All of them wait for the events that may help one of those that do not fit.
    fn reject_members(
        &mut self,
        now: Timestamp,
        members: Vec<Member>,
        error: &GangFitError,
        preemption: Option<GangPreemption>,
    ) {
        // The gang counts as one preemption.
        let mut counts_preemption = preemption.is_some();
        let preemption = preemption.unwrap_or_default();
        let is_eligible = preemption.is_eligible;
        let mut freed = preemption.freed.into_iter();
        self.end_members(now, members, |_, member| {
            let freed = freed.next().unwrap_or_default();
            // A pod that may not preempt keeps the nomination that it has.
            let clears_nomination = is_eligible && freed.node.is_none();
            let of_member = GangFitError {
                message: member.message(&error.message),
                plugins: error.plugins.clone(),
            };
            Ok(Outcome::Unschedulable(Rejected {
                preempts: std::mem::take(&mut counts_preemption),
                clears_nomination,
                deallocates: take_claim(&mut member.outcome),
                ..rejected(of_member, freed)
            }))
        });
    }

    fn preempt_for_gang(
        &mut self,
        (gang, rounds): (&Gang, u32),
        members: &mut [Member],
        domains: &[Domain<'_>],
    ) -> Result<Preemption, NoPreemption> {
        let grouped = self.state.queue.grouped_pods();
        let not_freed: Vec<NodeId> = members
            .iter()
            .flat_map(|member| self.stuck_victims.abandoned_nodes(&member.key))
            .filter_map(|node| self.state.cluster().find_node(node))
            .collect();
        let spec = &gang.object.spec;
        // The pods agree with the group, or with each other if the group has no policy (S7-036).
        let never = members
            .iter()
            .any(|member| member.wire.spec.preemption_policy == "Never");
        let preemptor = Preemptor {
            priority: spec.priority.unwrap_or(0),
            never,
            domains,
            budgets: &self.state.cache.budgets,
            grouped: &grouped,
            not_freed: &not_freed,
        };
        // Not `self.trial`, because the budgets are borrowed from the same cache as the cluster.
        let mut trial = Trial {
            cluster: &mut self.state.cache.cluster,
            algorithm: &mut self.algorithm,
            profiles: &self.binding.profiles,
            quorum: gang.quorum,
            responses: ExtenderResponses {
                extenders: &self.extenders.extenders,
                states: &self.extenders.pods,
                can_request: rounds < MAX_ROUNDS,
            },
            reserves: false,
        };
        let found = preempt(&mut trial, members, &preemptor)?;
        if trial.cluster.interrupt().is_raised() {
            return Err(NoPreemption::NoVictims);
        }
        for index in &found.groups {
            let group = Arc::clone(&grouped.atomic[*index]);
            let results = &mut self.binding.results;
            results.push_group(group, GroupOutcome::Preempted { for_group: true });
        }
        Ok(found)
    }

    /// The nominated node and the victims of each member, by index. A victim belongs to a member that gets its node.
    fn freed_nodes(&self, members: &[Member], found: &Preemption) -> Vec<FreedNode> {
        let cluster = self.state.cluster();
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
            let is_placed = is_there && self.state.queue.lifecycles().is_placed(&uid);
            freed.actions.push(if is_placed {
                Action::RejectWaiting { pod, uid }
            } else {
                Action::Delete { pod, uid }
            });
        }
        freed
    }
}

impl GangFitError {
    fn of(message: String) -> Self {
        Self {
            message,
            ..Self::default()
        }
    }
}

/// Why the whole gang is tried again later: the attempt was interrupted, or there was an error about one of the pods.
fn failed(cluster: &Cluster, members: &[Member]) -> Option<String> {
    if cluster.interrupt().is_raised() {
        return Some(INTERRUPTED.to_owned());
    }
    members.iter().find_map(Member::error)
}

fn rejected(mut error: GangFitError, freed: FreedNode) -> Rejected {
    if error.plugins.is_empty() {
        let plugin = PluginName::GangScheduling.as_str();
        error.plugins.insert(plugin.to_owned());
    }
    Rejected {
        message: error.message,
        plugins: error.plugins,
        nominated: freed.node,
        victims: freed.victims,
        actions: freed.actions,
        ..Rejected::default()
    }
}

/// The result of a pod whose gang was placed without it.
fn left_out(outcome: MemberOutcome) -> Rejected {
    match outcome {
        MemberOutcome::FitsNowhere(FitError {
            message,
            plugins,
            deallocates,
        }) => Rejected {
            deallocates,
            ..rejected(GangFitError { message, plugins }, FreedNode::default())
        },
        MemberOutcome::Rejected(rejection) => Rejected::on_chosen_node(rejection),
        _ => rejected(GangFitError::default(), FreedNode::default()),
    }
}

fn take_claim(outcome: &mut MemberOutcome) -> Option<ClaimRef> {
    match outcome {
        MemberOutcome::FitsNowhere(error) => error.deallocates.take(),
        _ => None,
    }
}
