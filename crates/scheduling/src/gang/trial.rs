//! Places all pods of a gang tentatively, one after the other.

use super::{FitError, Member, MemberOutcome};
use crate::config::Extender;
use crate::cycle::Filtered;
use crate::extenders::{ExtenderState, apply_filter, considers_nodes, select_host};
use crate::framework::Framework;
use crate::pre_bind::PreBindPlan;
use crate::scheduling_algorithm::{ScheduleResult, SchedulingAlgorithm};
use evictd_placement::{Chosen, Cluster, Domain, NodeId, Pod, Statement, shared_claims};
use hashbrown::HashMap;
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
    /// How many members must fit.
    pub(crate) missing: usize,
    pub(crate) responses: ExtenderResponses<'s>,
    /// Whether the Reserve and Permit plugins run.
    pub(crate) reserves: bool,
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

/// The best domain so far.
struct Best {
    fit: usize,
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
    /// Tries all members, in each topology domain if all of them must be in one. If enough fit, they stay placed, and the index
    /// of the domain is returned. Otherwise none stays.
    pub(crate) fn run(
        &mut self,
        statement: &mut Statement,
        members: &mut [Member],
        domains: &[Domain<'_>],
    ) -> Option<usize> {
        let mut best: Option<Best> = None;
        // The outcomes to report if no domain is found: later placings avoid nodes, which would only confuse.
        let mut first: Option<Vec<MemberOutcome>> = None;
        for (index, domain) in domains.iter().enumerate() {
            for member in &mut *members {
                member.avoids.clear();
            }
            for _ in 0..MAX_PLACINGS {
                let fit = self.place(statement, members, *domain);
                let owner = self.claim_owner(members);
                let is_only = domains.len() == 1 && owner.is_none() && best.is_none();
                if fit == members.len() || (fit >= self.missing && is_only) {
                    return Some(index);
                }
                self.take_back(statement, members);
                if fit >= self.missing && best.as_ref().is_none_or(|best| fit > best.fit) {
                    let avoids = members.iter().map(|member| member.avoids.clone());
                    best = Some(Best {
                        fit,
                        domain: index,
                        avoids: avoids.collect(),
                    });
                }
                let Some(owner) = owner else {
                    break;
                };
                let outcomes = members
                    .iter_mut()
                    .map(|member| std::mem::take(&mut member.outcome))
                    .collect();
                first.get_or_insert(outcomes);
                members[owner.member].avoids.extend(owner.nodes);
            }
        }
        let Some(best) = best else {
            for (member, outcome) in members.iter_mut().zip(first.into_iter().flatten()) {
                member.outcome = outcome;
            }
            return None;
        };
        for (member, avoids) in members.iter_mut().zip(best.avoids) {
            member.avoids = avoids;
        }
        // Placing is deterministic, so the same members fit as before.
        self.place(statement, members, domains[best.domain]);
        Some(best.domain)
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

    /// Places one member after the other until too few are left. Returns how many were placed.
    fn place(
        &mut self,
        statement: &mut Statement,
        members: &mut [Member],
        domain: Domain<'_>,
    ) -> usize {
        for member in members.iter_mut().filter(|member| member.pod.is_some()) {
            member.outcome = MemberOutcome::NotTried;
        }
        let (mut fit, mut left) = (0, members.len());
        for member in members {
            // The others are not tried: their results would not count.
            if fit + left < self.missing {
                break;
            }
            left -= 1;
            fit += usize::from(self.place_one(statement, member, domain));
        }
        fit
    }

    /// Places one member, if it fits.
    pub(super) fn place_one(
        &mut self,
        statement: &mut Statement,
        member: &mut Member,
        domain: Domain<'_>,
    ) -> bool {
        let Some(pod) = member.pod.take() else {
            return false;
        };
        let decided = self
            .schedule(member, &pod, domain)
            .and_then(|result| self.reserve(member, result));
        match decided {
            Ok(result) => {
                let node = result.chosen;
                member.pre_bind = PreBindPlan::of(self.cluster, &pod, node);
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
        domain: Domain<'_>,
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
            .map_err(|filtered| fits_nowhere(profile, self.cluster, pod, &filtered))
    }

    /// The best of the nodes that the extenders accept. As long as further requests may be sent, nodes not yet sent to the
    /// extenders count as accepted. The responses count when the gang is tried again.
    fn schedule_with_extenders(
        &self,
        member: &mut Member,
        pod: &Pod,
        domain: Domain<'_>,
    ) -> Result<ScheduleResult, Box<MemberOutcome>> {
        let profile = &self.profiles[member.profile];
        let cluster = &*self.cluster;
        let mut filtered = Box::new(profile.filter(cluster, pod));
        filtered
            .feasible
            .retain(|id| domain.contains(*id) && !member.avoids.contains(id));
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
            return Err(fits_nowhere(profile, cluster, pod, &filtered));
        }
        let names = new.iter().map(|id| Arc::from(cluster.node_name(*id)));
        member.to_request.extend(names);
        Ok(select_host(profile, cluster, pod, &new, None))
    }

    /// Runs the Reserve and Permit plugins on the chosen node (S5-058, S5-059).
    fn reserve(
        &self,
        member: &mut Member,
        result: ScheduleResult,
    ) -> Result<ScheduleResult, Box<MemberOutcome>> {
        if !self.reserves {
            return Ok(result);
        }
        let chosen = Chosen {
            cluster: self.cluster,
            pod: &member.wire,
            node: self.cluster.node_name(result.chosen),
        };
        match self.profiles[member.profile].reserve_and_permit(chosen) {
            Ok(pending) => {
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

fn fits_nowhere(
    profile: &Framework,
    cluster: &Cluster,
    pod: &Pod,
    filtered: &Filtered,
) -> Box<MemberOutcome> {
    Box::new(MemberOutcome::FitsNowhere(FitError {
        message: filtered.fit_error(cluster, pod),
        plugins: profile.rejectors(filtered),
        deallocates: profile.unavailable_claim(cluster, pod, filtered),
    }))
}
