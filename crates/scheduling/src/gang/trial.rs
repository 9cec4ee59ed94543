//! Places all pods of a gang tentatively, one after the other.

use super::placements::Placements;
use super::region::Region;
use super::{FitError, Member, MemberOutcome};
use crate::config::Extender;
use crate::cycle::Filtered;
use crate::extenders::{ExtenderState, apply_filter, considers_nodes, select_host};
use crate::framework::Framework;
use crate::pre_bind::PreBindPlan;
use crate::scheduling_algorithm::{ScheduleResult, SchedulingAlgorithm};
use evictd_placement::{Chosen, Cluster, NodeId, Pod, Statement, shared_claims};
use hashbrown::HashMap;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

/// How often the members are placed anew in one domain. They are if the owner of a shared claim was on a node where the others
/// cannot run.
const MAX_PLACINGS: usize = 32;

/// The means with which a gang is tried.
pub(crate) struct Trial<'s> {
    pub(crate) cluster: &'s mut Cluster,
    pub(crate) algorithm: &'s mut SchedulingAlgorithm,
    pub(crate) profiles: &'s [Framework],
    pub(crate) quorum: Quorum,
    pub(crate) responses: ExtenderResponses<'s>,
    /// Whether the Reserve and Permit plugins run.
    pub(crate) reserves: bool,
    /// Whether it places again what an earlier try has found, which is not measured.
    pub(crate) is_repetition: bool,
}

/// How many pods of a group must have a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Quorum {
    pub(crate) min_count: usize,
    /// The pods that had a node before the attempt.
    pub(crate) scheduled: usize,
}

impl Quorum {
    /// Whether an attempt that placed `placed` pods succeeds. An attempt that placed none fails (S7-042).
    pub(crate) const fn is_met(self, placed: usize) -> bool {
        placed > 0 && self.scheduled + placed >= self.min_count
    }

    /// Whether the quorum can still be met (S7-040).
    pub(crate) const fn is_possible(self, placed: usize, remaining: usize) -> bool {
        self.scheduled + placed + remaining >= self.min_count
    }

    /// Why the quorum cannot be met; `None` if it can (S7-040).
    pub(crate) fn message(self, Progress { placed, remaining }: Progress) -> Option<String> {
        let Self {
            min_count,
            scheduled,
        } = self;
        let scheduled = scheduled + placed;
        (scheduled + remaining < min_count).then(|| {
            format!(
                "minCount ({min_count}) cannot be satisfied: {scheduled} scheduled, {remaining} remaining"
            )
        })
    }
}

/// How far an attempt came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) placed: usize,
    /// The pods that were not tried.
    pub(crate) remaining: usize,
}

/// The result of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrialResult {
    /// Enough members are placed in the region with this index.
    Placed(usize),
    /// Too few fit. The progress is that of the first region; there is none without regions.
    Failed(Option<Progress>),
}

/// The responses of the extenders so far.
#[derive(Clone, Copy)]
pub(crate) struct ExtenderResponses<'s> {
    pub(crate) extenders: &'s [Extender],
    /// By the key of the member.
    pub(crate) states: &'s HashMap<Arc<str>, ExtenderState>,
    /// Whether further requests may be sent.
    pub(crate) can_request: bool,
}

/// A domain where enough members fit.
struct FittingDomain {
    fit: usize,
    utilization: i64,
    domain: usize,
    /// Of each member.
    avoids: Vec<BTreeSet<NodeId>>,
}

/// A member whose devices for a shared claim exclude another member.
struct ClaimOwner {
    /// Index of the member.
    member: usize,
    /// The nodes where those devices can be used.
    nodes: Vec<NodeId>,
}

impl Trial<'_> {
    /// Tries all members, in each topology domain if all of them must be in one. If enough fit, they stay placed. Otherwise
    /// none stays, and the outcomes are those of the first domain (S7-092).
    pub(crate) fn run(
        &mut self,
        statement: &mut Statement,
        members: &mut [Member],
        domains: &[Region<'_>],
    ) -> TrialResult {
        let mut fitting: Vec<FittingDomain> = Vec::new();
        // Later placings avoid nodes or are elsewhere, which would only confuse.
        let mut first: Option<(Progress, Vec<MemberOutcome>)> = None;
        let of_trial = (self.profiles, self.is_repetition);
        let placements = Placements::new(of_trial, members, domains.len());
        for (index, domain) in domains.iter().enumerate() {
            let began = placements.begin();
            for member in &mut *members {
                member.avoids.clear();
            }
            let mut best: Option<FittingDomain> = None;
            for _ in 0..MAX_PLACINGS {
                let progress = self.place(statement, members, domain);
                let fit = progress.placed;
                let owner = self.claim_owner(members);
                let is_met = self.quorum.is_met(fit);
                let is_only = domains.len() == 1 && best.is_none();
                if is_met && is_only && (owner.is_none() || fit == members.len()) {
                    placements.tried(began, true);
                    return TrialResult::Placed(index);
                }
                let is_better = best.as_ref().is_none_or(|best| fit > best.fit);
                let is_best = is_met && is_better;
                // While the members are placed, because they count, too.
                let utilization = if is_best {
                    utilization(self.cluster, domain)
                } else {
                    0
                };
                self.take_back(statement, members);
                // There was no decision, so no other domain is better (S7-091).
                if members.iter().any(|member| member.error().is_some()) {
                    return TrialResult::Failed(Some(progress));
                }
                if is_best {
                    let avoids = members.iter().map(|member| member.avoids.clone());
                    best = Some(FittingDomain {
                        fit,
                        utilization,
                        domain: index,
                        avoids: avoids.collect(),
                    });
                }
                if first.is_none() {
                    let outcomes = members
                        .iter_mut()
                        .map(|member| std::mem::take(&mut member.outcome));
                    first = Some((progress, outcomes.collect()));
                }
                let Some(owner) = owner.filter(|_| fit < members.len()) else {
                    break;
                };
                members[owner.member].avoids.extend(owner.nodes);
            }
            placements.tried(began, best.is_some());
            fitting.extend(best);
        }
        let scores: Vec<(usize, i64)> = fitting
            .iter()
            .map(|domain| (domain.fit, domain.utilization))
            .collect();
        let best = best_of(&scores, self.quorum.scheduled);
        let Some(best) = best.map(|best| fitting.swap_remove(best)) else {
            let Some((progress, outcomes)) = first else {
                return TrialResult::Failed(None);
            };
            for (member, outcome) in members.iter_mut().zip(outcomes) {
                member.outcome = outcome;
            }
            return TrialResult::Failed(Some(progress));
        };
        for (member, avoids) in members.iter_mut().zip(best.avoids) {
            member.avoids = avoids;
        }
        // Placing is deterministic, so the same members fit as before.
        self.place(statement, members, &domains[best.domain]);
        TrialResult::Placed(best.domain)
    }

    /// The earlier member that shares a claim with a member that fits nowhere. It could be placed elsewhere, and the claim with
    /// it.
    fn claim_owner(&self, members: &[Member]) -> Option<ClaimOwner> {
        let lacking = members.iter().filter(|member| member.lacks_devices());
        for pod in lacking.filter_map(|member| member.pod.as_ref()) {
            for (uid, nodes) in shared_claims(self.cluster, pod) {
                let owns_claim = |member: &Member| {
                    let mut devices = member.pre_bind.devices.iter();
                    member.node().is_some() && devices.any(|choice| choice.uid == uid)
                };
                if let Some(member) = members.iter().position(owns_claim) {
                    return Some(ClaimOwner { member, nodes });
                }
            }
        }
        None
    }

    /// Places one member after the other until the quorum cannot be met any more, or there is no decision about one (S7-043).
    fn place(
        &mut self,
        statement: &mut Statement,
        members: &mut [Member],
        domain: &Region<'_>,
    ) -> Progress {
        for member in members.iter_mut().filter(|member| member.pod.is_some()) {
            member.outcome = MemberOutcome::NotTried;
        }
        let mut progress = Progress {
            placed: 0,
            remaining: members.len(),
        };
        for member in members {
            let Progress { placed, remaining } = progress;
            // The others are not tried: their results would not count.
            if !self.quorum.is_possible(placed, remaining) {
                break;
            }
            progress.remaining -= 1;
            progress.placed += usize::from(self.place_one(statement, member, domain));
            if member.error().is_some() {
                break;
            }
        }
        progress
    }

    /// Places one member, if it fits.
    pub(super) fn place_one(
        &mut self,
        statement: &mut Statement,
        member: &mut Member,
        domain: &Region<'_>,
    ) -> bool {
        let Some(pod) = member.pod.take() else {
            return false;
        };
        let decided = self
            .schedule(member, &pod, domain)
            .and_then(|result| self.reserve(member, &pod, result));
        match decided {
            Ok(result) => {
                let node = result.chosen;
                member.outcome = MemberOutcome::Fits(result);
                member.pod = Some(pod);
                member.place(self.cluster, statement, node);
                true
            }
            Err(outcome) => {
                member.outcome = *outcome;
                member.pod = Some(pod);
                false
            }
        }
    }

    fn schedule(
        &mut self,
        member: &mut Member,
        pod: &Pod,
        domain: &Region<'_>,
    ) -> Result<ScheduleResult, Box<MemberOutcome>> {
        let has_extenders = self
            .responses
            .extenders
            .iter()
            .any(|extender| considers_nodes(extender, &member.wire));
        if has_extenders {
            return self.schedule_with_extenders(member, pod, domain);
        }
        let profile = &self.profiles[member.profile];
        let allowed = |id| domain.contains(id) && !member.avoids.contains(&id);
        self.algorithm
            .schedule_among(profile, self.cluster, pod, &allowed)
            .map_err(|filtered| fits_nowhere(profile, self.cluster, pod, &filtered, &allowed))
    }

    /// The best of the nodes that the extenders accept. As long as further requests may be sent, nodes not yet sent to the
    /// extenders count as accepted. The responses count when the gang is tried again.
    fn schedule_with_extenders(
        &self,
        member: &mut Member,
        pod: &Pod,
        domain: &Region<'_>,
    ) -> Result<ScheduleResult, Box<MemberOutcome>> {
        let profile = &self.profiles[member.profile];
        let cluster = &*self.cluster;
        let mut filtered = Box::new(profile.filter(cluster, pod));
        let avoids = member.avoids.clone();
        let allowed = |id| domain.contains(id) && !avoids.contains(&id);
        filtered.feasible.retain(|id| allowed(*id));
        let state = self.responses.states.get(&member.key);
        let response = match state.and_then(|state| state.nodes.as_ref()) {
            Some(Err(message)) => return Err(Box::new(MemberOutcome::Error(message.clone()))),
            Some(Ok(response)) => Some(response),
            None => None,
        };
        let is_new = |id: &&NodeId| {
            let name = cluster.node_name(**id);
            state.is_none_or(|state| !state.requested.contains(name))
        };
        let new: Vec<NodeId> = filtered.feasible.iter().filter(is_new).copied().collect();
        if let Some(response) = response {
            filtered = apply_filter(cluster, response, filtered);
            if !filtered.feasible.is_empty() {
                let feasible = &filtered.feasible;
                return Ok(select_host(profile, cluster, pod, feasible, Some(response)));
            }
        }
        if new.is_empty() || !self.responses.can_request {
            return Err(fits_nowhere(profile, cluster, pod, &filtered, &allowed));
        }
        let names = new.iter().map(|id| Arc::from(cluster.node_name(*id)));
        member.to_request.extend(names);
        Ok(select_host(profile, cluster, pod, &new, None))
    }

    /// Runs the Reserve and Permit plugins on the chosen node (S5-058, S5-059).
    fn reserve(
        &self,
        member: &mut Member,
        pod: &Pod,
        result: ScheduleResult,
    ) -> Result<ScheduleResult, Box<MemberOutcome>> {
        if !self.reserves {
            member.pre_bind = PreBindPlan::of(self.cluster, pod, result.chosen);
            return Ok(result);
        }
        let chosen = Chosen {
            cluster: self.cluster,
            pod: &member.wire,
            node: self.cluster.node_name(result.chosen),
        };
        let profile = &self.profiles[member.profile];
        match profile.reserve_and_permit(chosen, (pod, result.chosen)) {
            Ok((pre_bind, pending)) => {
                member.pre_bind = pre_bind;
                member.pending = pending;
                member.reserved = true;
                Ok(result)
            }
            Err(rejection) => Err(Box::new(MemberOutcome::Rejected(rejection))),
        }
    }

    /// Takes all members off their nodes again, the last one first.
    pub(crate) fn take_back(&mut self, statement: &mut Statement, members: &mut [Member]) {
        // Like Unreserve: in the reverse order of the placements.
        for member in members.iter_mut().rev() {
            if let Some(node) = member.node().filter(|_| member.reserved) {
                let chosen = Chosen {
                    cluster: self.cluster,
                    pod: &member.wire,
                    node: self.cluster.node_name(node),
                };
                self.profiles[member.profile].unreserve(chosen);
                member.reserved = false;
            }
            member.pending.clear();
            member.take_back(self.cluster, statement);
        }
    }
}

/// The domain with the highest score (S7-093): the share of the most pods that fit in one, and how full it is then. Each has
/// the number of pods that fit, and how full it is. The first one wins a tie.
pub(super) fn best_of(fitting: &[(usize, i64)], scheduled: usize) -> Option<usize> {
    let most = fitting.iter().map(|(fit, _)| scheduled + fit).max()?;
    let score = |(fit, utilization): (usize, i64)| {
        let pods = 100 * (scheduled + fit) / most.max(1);
        i64::try_from(pods)
            .unwrap_or(100)
            .saturating_add(utilization)
    };
    (0..fitting.len()).min_by_key(|index| Reverse(score(fitting[*index])))
}

/// How full the nodes of a domain are together, from 0 to 100: the mean of processor and memory, as `MostAllocated` counts them.
pub(super) fn utilization(cluster: &Cluster, domain: &Region<'_>) -> i64 {
    let mut sums = [(0_i64, 0_i64); 2];
    for id in cluster.node_ids().filter(|id| domain.contains(*id)) {
        let node = cluster.node(id);
        let of_node = [
            (node.scored.cpu, node.allocatable.cpu),
            (node.scored.memory, node.allocatable.memory),
        ];
        for ((used, size), (more_used, more)) in sums.iter_mut().zip(of_node) {
            *used = used.saturating_add(more_used);
            *size = size.saturating_add(more);
        }
    }
    let counted = sums.iter().filter(|(_, size)| *size > 0);
    let shares = counted
        .clone()
        .map(|(used, size)| i128::from(*used.min(size)) * 100 / i128::from(*size));
    let count = i128::try_from(counted.clone().count().max(1)).unwrap_or(1);
    i64::try_from(shares.sum::<i128>() / count).unwrap_or(100)
}

fn fits_nowhere(
    profile: &Framework,
    cluster: &Cluster,
    pod: &Pod,
    filtered: &Filtered,
    allowed: &dyn Fn(NodeId) -> bool,
) -> Box<MemberOutcome> {
    let error = filtered.error(profile, cluster, pod, allowed);
    Box::new(MemberOutcome::FitsNowhere(FitError {
        is_undecided: error.is_some(),
        message: error.unwrap_or_else(|| filtered.fit_error(cluster, pod)),
        plugins: profile.rejectors(filtered),
        deallocates: profile.unavailable_claim(cluster, pod, filtered),
    }))
}
