//! One attempt to place all pods of a gang.

use super::binding_cycle::BindingCycle;
use super::cost::CostMeter;
use super::extender_calls::GangCalls;
use super::gang_binding::PlacedPods;
use super::gang_preemption::{
    FreedNode, GangPreemption, add_preemption_messages, freed_nodes, preempt_for_gang,
};
use super::scheduling_cycle::UNANSWERED;
use super::{Attempt, Outcome, Rejected, Scheduler};
use crate::extenders::ExtenderRequest;
use crate::framework::PostFilter;
use crate::gang::{
    ExtenderResponses, FitError, GangFitError, GroupNames, GroupOutcome, Member, MemberOutcome,
    NoPreemption, Preemption, Quorum, TreeTrial, Trial, group_of, of_other_pod, rejectors, title,
    validate,
};
use crate::plugins::PluginName;
use crate::pod_lifecycle::WaitingPod;
use crate::pre_bind::ClaimRef;
use crate::recorder::{SUCCESS, timed};
use crate::scheduling_queue::Gang;
use evictd_placement::{Cluster, Domains, INTERRUPTED, Statement, share_claims_of_group};
use hashbrown::HashSet;
use jiff::Timestamp;
use std::sync::Arc;

/// The most rounds of requests to extenders in one attempt. A further round asks about nodes that only the last responses made
/// feasible.
const MAX_ROUNDS: u32 = 64;
/// The end of a pod's message when its attempt gives back a claim of its group (S7-103).
const UNRESERVED: &str = " ResourceClaim unreserved for PodGroup";

impl Scheduler {
    /// Tries the pods of a gang together and queues their attempts. `rounds` counts the earlier requests to extenders.
    pub(super) fn schedule_gang(&mut self, now: Timestamp, gang: &Gang, rounds: u32) {
        let members = self.members(now, gang);
        if self.extenders.holds_gang(&gang.name) {
            let message = format!("{} is being decided about", title(&gang.name));
            return self.reject_members(now, members, &GangFitError::of(message), None);
        }
        let name = Arc::clone(&gang.name);
        let keys: Vec<Arc<str>> = gang
            .members
            .iter()
            .map(|member| Arc::clone(&member.pod))
            .collect();
        // The members of a gang may share devices that one of them was promised in this attempt.
        let cluster = self.state.cluster_mut();
        cluster.begin_sharing();
        for pod in members.iter().filter_map(|member| member.pod.as_ref()) {
            share_claims_of_group(cluster, pod);
        }
        // Without members there is no attempt, and no condition (S7-031).
        if let Some(profile) = members.first().map(|member| member.profile) {
            self.measure_gang(profile, |scheduler| {
                scheduler.try_gang(now, gang, members, rounds);
            });
        }
        self.state.cluster_mut().end_sharing();
        if !self.extenders.is_gang_waiting(&name) {
            for key in keys {
                self.extenders.pods.remove(&key);
            }
        }
    }

    /// Measures an attempt of a gang whose pods have this profile.
    fn measure_gang(&mut self, profile: usize, attempt: impl FnOnce(&mut Self)) {
        let profiles = Arc::clone(&self.binding.profiles);
        let Some(profile) = profiles.get(profile) else {
            return attempt(self);
        };
        let recorder = &*profile.recorder;
        let ((), took) = timed(recorder, || attempt(self));
        if let Some(result) = self.binding.results.take_of_gang() {
            recorder.on_group_attempt(&profile.scheduler_name, result, took);
        }
    }

    fn try_gang(&mut self, now: Timestamp, gang: &Gang, members: Vec<Member>, rounds: u32) {
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
        if let Some(message) = &gang.must_wait {
            return self.reject_members(now, members, &GangFitError::of(message.clone()), None);
        }
        let scheduled = self.state.queue.common_of_scheduled(&gang.tree);
        let root = gang.tree.root().map(|root| &root.object);
        let release = self.state.cluster().compatibility().release();
        let validate = |root| validate(release, root, &members, &scheduled);
        if let Some(message) = root.and_then(validate) {
            return self.fail_group(now, gang, members, &message);
        }
        let domains = gang.tree.domains(self.state.cluster());
        self.try_tree(now, (gang, rounds), members, &domains);
    }

    fn try_tree(
        &mut self,
        now: Timestamp,
        (gang, rounds): (&Gang, u32),
        mut members: Vec<Member>,
        domains: &[Domains],
    ) {
        let mut statement = Statement::default();
        let mut tree = TreeTrial::new(&gang.tree, domains, &members);
        let mut trial = self.trial(rounds);
        trial.reserves = true;
        let is_placed = tree.run(&mut trial, &mut statement, &mut members);
        let failed = failed(trial.cluster, &members);
        let asks = is_placed && members.iter().any(Member::has_request);
        if is_placed && !asks && failed.is_none() && tree.error().is_none() {
            statement.commit(trial.cluster);
            return self.place_gang(now, gang, &tree, members);
        }
        trial.take_back(&mut statement, &mut members);
        // Before the outcome is reported: other pods must not see the members on their nodes.
        statement.undo(trial.cluster);
        if let Some(message) = failed {
            self.end_failed(now, gang, members, &message);
        } else if let Some(message) = tree.error() {
            self.fail_group(now, gang, members, message);
        } else if asks {
            self.ask_about_gang(gang, members, rounds);
        } else {
            self.reject_gang(now, (gang, rounds), members, (tree, domains));
        }
    }

    /// Too few pods of a gang fit: looks for victims.
    fn reject_gang(
        &mut self,
        now: Timestamp,
        (gang, rounds): (&Gang, u32),
        mut members: Vec<Member>,
        (mut tree, domains): (TreeTrial<'_>, &[Domains]),
    ) {
        if let Some(error) = members.iter().find_map(Member::last_error) {
            return self.end_failed(now, gang, members, &error);
        }
        let is_rejected = |member: &Member| matches!(member.outcome, MemberOutcome::Rejected(_));
        let profiles = &self.binding.profiles;
        let release = self.state.cluster().compatibility().release();
        let preempts = members.iter().all(|member| {
            let plugins = profiles[member.profile].post_filters_of_groups(release);
            plugins.contains(&PostFilter::DefaultPreemption)
        });
        if !preempts || members.iter().any(is_rejected) {
            // No eviction changes the answer of a plugin about a node.
            self.report_failed(&tree);
            self.binding.results.end_gang("unschedulable");
            let error = of_tree(&tree, &members);
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
        let can_request = rounds < MAX_ROUNDS;
        let found = self.measured_preemption((gang, can_request), &mut members, domains);
        let failed = failed(self.state.cluster(), &members);
        if failed.is_none() && members.iter().any(Member::has_request) {
            return self.ask_about_gang(gang, members, rounds);
        }
        for (member, outcome) in members.iter_mut().zip(outcomes) {
            member.outcome = outcome;
        }
        if let Some(message) = failed {
            return self.end_failed(now, gang, members, &message);
        }
        let mut preemption = GangPreemption {
            is_eligible: found
                .as_ref()
                .map_or_else(NoPreemption::was_evaluated, |_| true),
            ..GangPreemption::default()
        };
        // S7-052, S7-053.
        tree.append(&match &found {
            Ok(found) => {
                preemption.freed = freed_nodes(self, &members, found);
                let count = found.victims.len();
                format!(
                    "pod group preemption found a placement for podgroup, preempting {count} victims"
                )
            }
            Err(reason) => format!("pod group preemption: {}", reason.message()),
        });
        let awaits_victims = matches!(found, Ok(_) | Err(NoPreemption::Ongoing));
        self.binding.results.end_gang(if awaits_victims {
            "waiting_on_preemption"
        } else {
            "unschedulable"
        });
        self.report_failed(&tree);
        add_preemption_messages(self, gang, &mut members);
        let error = of_tree(&tree, &members);
        self.reject_members(now, members, &error, Some(preemption));
    }

    /// Looks for victims, and measures that.
    fn measured_preemption(
        &mut self,
        (gang, can_request): (&Gang, bool),
        members: &mut [Member],
        domains: &[Domains],
    ) -> Result<Preemption, NoPreemption> {
        let profiles = Arc::clone(&self.binding.profiles);
        let profile = members
            .first()
            .and_then(|member| profiles.get(member.profile));
        let mut search = || preempt_for_gang(self, (gang, can_request), members, domains);
        let Some(profile) = profile else {
            return search();
        };
        let recorder = &*profile.recorder;
        let (found, took) = timed(recorder, search);
        let status = found
            .as_ref()
            .map_or_else(NoPreemption::status, |_| SUCCESS);
        recorder.on_group_preemption(status);
        if found
            .as_ref()
            .map_or_else(NoPreemption::was_evaluated, |_| true)
        {
            recorder.on_preemption("podgroup", status, took);
        }
        if let Ok(found) = &found {
            recorder.on_group_victims(found.victims.len(), found.disruptions);
        }
        found
    }

    fn report_failed(&mut self, tree: &TreeTrial<'_>) {
        for (group, message) in tree.failed() {
            let outcome = GroupOutcome::Unschedulable(message);
            let results = &mut self.binding.results;
            results.push_group(group.clone(), outcome);
        }
    }

    /// The members of a gang that can be tried. The attempts of the others end here.
    fn members(&mut self, now: Timestamp, gang: &Gang) -> Vec<Member> {
        let (mut members, mut names) = (Vec::new(), GroupNames::default());
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
                    let group = names.of(&wire).and_then(|name| gang.tree.leaf(&name));
                    let place = (profile, group.unwrap_or_default());
                    let mut member = Member::new(self.state.cluster_mut(), attempt, wire, place);
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

    fn trial(&mut self, rounds: u32) -> Trial<'_> {
        Trial {
            cluster: self.state.cluster_mut(),
            algorithm: &mut self.algorithm,
            profiles: &self.binding.profiles,
            quorum: Quorum::default(),
            responses: ExtenderResponses {
                extenders: &self.extenders.extenders,
                states: &self.extenders.pods,
                can_request: rounds < MAX_ROUNDS,
            },
            reserves: false,
            is_repetition: false,
        }
    }

    /// Asks extenders about the members. Meanwhile none of them holds a node.
    fn ask_about_gang(&mut self, gang: &Gang, members: Vec<Member>, rounds: u32) {
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
            members: gang.members.clone(),
            outstanding,
            rounds: rounds + 1,
            has_new_pods: false,
        };
        self.extenders.begin_gang(Arc::clone(&gang.name), calls);
    }

    /// Tries a gang again on the cluster as it is now, after the last response about its pods.
    pub(super) fn resume_gang(&mut self, now: Timestamp, name: &Arc<str>, calls: GangCalls) {
        let gang = self.state.queue.gang(Arc::clone(name), calls.members);
        // As for a single pod: a gang whose extenders have answered is not put off.
        let root = gang.tree.root().map(|root| root.object.metadata());
        let namespace: Arc<str> = match root {
            Some(root) => root.namespace_or_default().into(),
            None => "".into(),
        };
        let ((), cost) = self.interruptible(true, |scheduler| {
            scheduler.schedule_gang(now, &gang, calls.rounds);
        });
        self.state.queue.count_cost(&namespace, cost, false);
        let waits_again = self.extenders.keep_new_pods(name, calls.has_new_pods);
        if !waits_again && calls.has_new_pods {
            self.state.retry_tree(now, name);
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
        self.fail_group(now, gang, members, &of_other_pod(message));
    }

    /// There was no decision about a group: its pods are tried again after their backoff (S7-037).
    fn fail_group(&mut self, now: Timestamp, gang: &Gang, members: Vec<Member>, message: &str) {
        self.binding.results.end_gang("error");
        for group in &gang.tree.groups {
            let outcome = GroupOutcome::Error(message.to_owned());
            let results = &mut self.binding.results;
            results.push_group(group.object.clone(), outcome);
        }
        self.end_members(now, members, |_, member| {
            Err(member.last_error().unwrap_or_else(|| message.to_owned()))
        });
    }

    /// Enough pods of a gang fit: they are placed, and the others are tried later.
    fn place_gang(
        &mut self,
        now: Timestamp,
        gang: &Gang,
        tree: &TreeTrial<'_>,
        members: Vec<Member>,
    ) {
        self.report_failed(tree);
        self.binding.results.end_gang("scheduled");
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
        if gang
            .tree
            .root()
            .is_some_and(|root| root.object.is_barrier())
        {
            binding.bind_or_wait(&mut self.state, now, &gang.name, placed);
        } else {
            binding.bind_each(&mut self.state, now, &gang.name, placed);
        }
        let left: Vec<Arc<str>> = others
            .iter()
            .map(|member| Arc::clone(&member.key))
            .collect();
        self.end_members(now, others, |scheduler, member| {
            if let Some(error) = member.last_error() {
                return Err(error);
            }
            let deallocates = scheduler.claim_to_deallocate(member);
            let outcome = std::mem::take(&mut member.outcome);
            let of_group = tree.message(member.group).unwrap_or_default();
            Ok(Outcome::Unschedulable(Rejected {
                deallocates,
                ..left_out(outcome, of_group)
            }))
        });
        // They are tried again at once, and may preempt then, unless they wait for an answer of the API server (S7-029).
        self.state.activate(now, left.iter().map(|key| &**key));
    }

    /// The claim of a pod that fits nowhere whose devices must be deallocated. One of its group keeps them while a pod of the
    /// group has a node, because that pod may use them (S7-103).
    fn claim_to_deallocate(&self, member: &mut Member) -> Option<ClaimRef> {
        let claim = match &mut member.outcome {
            MemberOutcome::FitsNowhere(error) => error.deallocates.take(),
            _ => None,
        };
        let is_in_use = || {
            let group = group_of(&member.wire);
            group.is_some_and(|group| self.state.queue.has_scheduled_pods(&group))
        };
        claim.filter(|claim| !claim.is_of_group || !is_in_use())
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
        self.end_members(now, members, |scheduler, member| {
            let freed = freed.next().unwrap_or_default();
            // A pod that may not preempt keeps the nomination that it has.
            let clears_nomination = is_eligible && freed.node.is_none();
            let mut of_member = GangFitError {
                message: member.message(error.of_group(member.group)),
                plugins: error.plugins.clone(),
                ..GangFitError::default()
            };
            let deallocates = scheduler.claim_to_deallocate(member);
            if deallocates.as_ref().is_some_and(|claim| claim.is_of_group) {
                of_member.message.push_str(UNRESERVED);
            }
            Ok(Outcome::Unschedulable(Rejected {
                preempts: std::mem::take(&mut counts_preemption),
                clears_nomination,
                deallocates,
                ..rejected(of_member, freed)
            }))
        });
    }
}

/// Why the groups of a tree were not placed.
fn of_tree(tree: &TreeTrial<'_>, members: &[Member]) -> GangFitError {
    GangFitError {
        message: tree.message(0).unwrap_or_default().to_owned(),
        plugins: rejectors(members),
        groups: members
            .iter()
            .filter_map(|member| Some((member.group, tree.message(member.group)?.to_owned())))
            .collect(),
    }
}

impl GangFitError {
    fn of(message: String) -> Self {
        Self {
            message,
            ..Self::default()
        }
    }

    /// The message about a group of the tree.
    fn of_group(&self, group: usize) -> &str {
        self.groups.get(&group).unwrap_or(&self.message)
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
fn left_out(outcome: MemberOutcome, of_group: &str) -> Rejected {
    match outcome {
        MemberOutcome::FitsNowhere(FitError {
            message, plugins, ..
        }) => rejected(
            GangFitError {
                message,
                plugins,
                ..GangFitError::default()
            },
            FreedNode::default(),
        ),
        MemberOutcome::Rejected(rejection) => Rejected::on_chosen_node(rejection),
        _ => rejected(GangFitError::of(of_group.to_owned()), FreedNode::default()),
    }
}
