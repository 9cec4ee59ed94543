//! All pods of a gang are put on nodes for the time being, one after the other.

use super::{End, Member, Nowhere};
use crate::config::Extender;
use crate::cycle::Filtered;
use crate::extenders::{ExtenderState, asks, choose, narrow};
use crate::framework::Framework;
use crate::pre_bind::PreBindPlan;
use crate::scheduling_algorithm::{ScheduleResult, SchedulingAlgorithm};
use evictd_placement::{Chosen, Cluster, Domain, NodeId, Pod, Statement, shared_claims};
use hashbrown::HashMap;
use std::collections::BTreeSet;
use std::sync::Arc;

/// So often the pods are placed anew in one domain because one with a claim that others share was where those cannot be.
const PLACINGS: usize = 32;

/// What a gang is tried with.
pub(crate) struct Trial<'s> {
    pub(crate) cluster: &'s mut Cluster,
    pub(crate) decider: &'s mut SchedulingAlgorithm,
    pub(crate) frameworks: &'s [Framework],
    /// So many of the members have to fit.
    pub(crate) missing: usize,
    pub(crate) answers: Answers<'s>,
    /// Whether plugins reserve what the members need on their nodes, and are asked for permits.
    pub(crate) reserves: bool,
}

/// What the extenders have said so far.
#[derive(Clone, Copy)]
pub(crate) struct Answers<'s> {
    pub(crate) extenders: &'s [Extender],
    /// About the members, by key.
    pub(crate) asked: &'s HashMap<Arc<str>, ExtenderState>,
    /// Whether they can be asked about further nodes.
    pub(crate) more: bool,
}

/// The best that was found.
struct Best {
    fit: usize,
    domain: usize,
    /// Of each member.
    avoids: Vec<BTreeSet<NodeId>>,
}

impl Trial<'_> {
    /// Tries all members, in each domain of the group if all of them must be in one. Leaves those that fit placed if they
    /// are enough, and none otherwise; the index of the domain.
    pub(crate) fn run(
        &mut self,
        statement: &mut Statement,
        members: &mut [Member],
        domains: &[Domain<'_>],
    ) -> Option<usize> {
        let mut best: Option<Best> = None;
        // What is told if there is none.
        let mut first: Option<Vec<End>> = None;
        for (index, domain) in domains.iter().enumerate() {
            for member in &mut *members {
                member.avoids.clear();
            }
            for _ in 0..PLACINGS {
                let fit = self.place(statement, members, *domain);
                let elsewhere = self.elsewhere(members);
                let last = domains.len() == 1 && elsewhere.is_none() && best.is_none();
                if fit == members.len() || (fit >= self.missing && last) {
                    return Some(index);
                }
                self.take_back(statement, members);
                if fit >= self.missing && best.as_ref().is_none_or(|best| fit > best.fit) {
                    best = Some(Best {
                        fit,
                        domain: index,
                        avoids: members.iter().map(|own| own.avoids.clone()).collect(),
                    });
                }
                let Some((owner, nodes)) = elsewhere else {
                    break;
                };
                let ends = members.iter_mut().map(|own| std::mem::take(&mut own.end));
                let ends: Vec<End> = ends.collect();
                first.get_or_insert(ends);
                members[owner].avoids.extend(nodes);
            }
        }
        let Some(best) = best else {
            for (member, end) in members.iter_mut().zip(first.into_iter().flatten()) {
                member.end = end;
            }
            return None;
        };
        for (member, avoids) in members.iter_mut().zip(best.avoids) {
            member.avoids = avoids;
        }
        self.place(statement, members, domains[best.domain]);
        Some(best.domain)
    }

    /// Where a member fits nowhere that shares a claim with one before it: that one, by index, and the nodes where the devices
    /// that it has got for the claim can be used. It could go elsewhere, and the claim with it.
    fn elsewhere(&self, members: &[Member]) -> Option<(usize, Vec<NodeId>)> {
        let mut members_away = members.iter().filter(|own| own.lacks_devices());
        members_away.find_map(|member| {
            let pod = member.pod.as_ref()?;
            let mut claims = shared_claims(self.cluster, pod).into_iter();
            claims.find_map(|(uid, nodes)| {
                let has = |own: &Member| {
                    let mut devices = own.pre_bind.devices.iter();
                    own.node().is_some() && devices.any(|choice| choice.uid == uid)
                };
                Some((members.iter().position(has)?, nodes))
            })
        })
    }

    /// Places one member after the other until too few are left; how many were placed.
    fn place(
        &mut self,
        statement: &mut Statement,
        members: &mut [Member],
        domain: Domain<'_>,
    ) -> usize {
        for member in members.iter_mut().filter(|own| own.pod.is_some()) {
            member.end = End::NotTried;
        }
        let (mut fit, mut left) = (0, members.len());
        for member in members {
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
        let decided = self.decide(member, &pod, domain);
        let decided = decided.and_then(|decided| {
            self.reserve(member, decided.chosen)?;
            Ok(decided)
        });
        match decided {
            Ok(decided) => {
                let node = decided.chosen;
                member.pre_bind = PreBindPlan::of(self.cluster, &pod, node);
                member.end = End::Fits(decided);
                member.pod = Some(pod);
                member.put(self.cluster, statement, node);
                true
            }
            Err(end) => {
                member.end = *end;
                member.pod = Some(pod);
                false
            }
        }
    }

    fn decide(
        &mut self,
        member: &mut Member,
        pod: &Pod,
        domain: Domain<'_>,
    ) -> Result<ScheduleResult, Box<End>> {
        let mut extenders = self.answers.extenders.iter();
        if extenders.any(|own| asks(own, &member.wire)) {
            return self.decide_with_extenders(member, pod, domain);
        }
        let framework = &self.frameworks[member.profile];
        let allowed = |id| domain.contains(id) && !member.avoids.contains(&id);
        let decided = self
            .decider
            .decide_among(framework, self.cluster, pod, &allowed);
        decided.map_err(|filtered| nowhere(framework, self.cluster, pod, &filtered))
    }

    /// The best of the nodes that the extenders want. Of those about which they were not asked yet they are thought to want
    /// all, as long as they can be asked: the answers count when the gang is tried again.
    fn decide_with_extenders(
        &self,
        member: &mut Member,
        pod: &Pod,
        domain: Domain<'_>,
    ) -> Result<ScheduleResult, Box<End>> {
        let framework = &self.frameworks[member.profile];
        let cluster = &*self.cluster;
        let mut filtered = Box::new(framework.filter(cluster, pod));
        let allowed = |id: &NodeId| domain.contains(*id) && !member.avoids.contains(id);
        filtered.feasible.retain(allowed);
        let asked = self.answers.asked.get(&member.key);
        let reply = match asked.and_then(|asked| asked.reply.as_ref()) {
            Some(Err(message)) => return Err(Box::new(End::Failed(message.clone()))),
            Some(Ok(reply)) => Some(reply),
            None => None,
        };
        let feasible = filtered.feasible.clone();
        let is_new = |id: &&NodeId| {
            let name = cluster.node_name(**id);
            asked.is_none_or(|asked| !asked.nodes.contains(name))
        };
        let new: Vec<NodeId> = feasible.iter().filter(is_new).copied().collect();
        if let Some(reply) = reply {
            filtered = narrow(cluster, reply, filtered);
        }
        if let (Some(reply), false) = (reply, filtered.feasible.is_empty()) {
            return Ok(choose(
                framework,
                cluster,
                pod,
                &filtered.feasible,
                Some(reply),
            ));
        }
        if new.is_empty() || !self.answers.more {
            return Err(nowhere(framework, cluster, pod, &filtered));
        }
        let names = new.iter().map(|id| Arc::from(cluster.node_name(*id)));
        member.question.extend(names);
        Ok(choose(framework, cluster, pod, &new, None))
    }

    /// Has plugins reserve what a member needs on its node, and asks them for a permit (S5-058, S5-059).
    fn reserve(&self, member: &mut Member, node: NodeId) -> Result<(), Box<End>> {
        let framework = &self.frameworks[member.profile];
        if !self.reserves {
            return Ok(());
        }
        let chosen = Chosen {
            cluster: self.cluster,
            pod: &member.wire,
            node: self.cluster.node_name(node),
        };
        match framework.reserve_and_permit(chosen) {
            Ok(waits) => {
                member.waits = waits;
                member.reserved = true;
                Ok(())
            }
            Err(refusal) => Err(Box::new(End::Refused(refusal))),
        }
    }

    /// Takes all members off their nodes again, the last one first.
    pub(crate) fn take_back(&mut self, statement: &mut Statement, members: &mut [Member]) {
        for member in members.iter_mut().rev() {
            if let Some(node) = member.node().filter(|_| member.reserved) {
                let chosen = Chosen {
                    cluster: self.cluster,
                    pod: &member.wire,
                    node: self.cluster.node_name(node),
                };
                self.frameworks[member.profile].unreserve(chosen);
                member.reserved = false;
            }
            member.waits.clear();
            member.take_back(self.cluster, statement);
        }
    }
}

fn nowhere(framework: &Framework, cluster: &Cluster, pod: &Pod, filtered: &Filtered) -> Box<End> {
    Box::new(End::FitsNowhere(Nowhere {
        words: filtered.fit_error(cluster, pod),
        plugins: framework.rejectors(filtered),
        deallocates: framework.unavailable_claim(cluster, pod, filtered),
    }))
}
