//! One attempt to place all pods of a gang.

use super::gang_extenders::ROUNDS;
use super::waiting_pods::refused;
use super::{Attempt, Outcome, Rejected, Scheduler, UNANSWERED};
use crate::gang::{
    Answers, End, GroupOutcome, GroupResult, Member, Preemption, Preemptor, Trial, preempt,
};
use crate::plugins::PluginName;
use crate::pod_lifecycle::WaitingPod;
use crate::pre_bind::ClaimRef;
use crate::scheduling_queue::Gang;
use evictd_placement::{Cluster, Domain, Domains, INTERRUPTED, NodeId, Statement};
use evictd_preemption::{Action, Ineligible};
use jiff::Timestamp;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The message for all pods of a rejected gang, and the plugins that rejected some of them.
type Said = (String, BTreeSet<String>);

/// The nominated node of a member, with its victims.
#[derive(Debug, Default)]
struct Freed {
    node: Option<String>,
    victims: Vec<(String, String)>,
    actions: Vec<Action>,
}

/// The result of a preemption for a gang.
#[derive(Debug, Default)]
struct Preempted {
    /// Of each member; empty if no victims were found.
    freed: Vec<Freed>,
    is_eligible: bool,
}

impl Scheduler {
    /// Tries the pods of a gang together and queues their attempts. `rounds` counts the earlier questions to extenders.
    pub(super) fn attempt_gang(&mut self, now: Timestamp, gang: Gang, rounds: u32) {
        let members = self.members(now, &gang);
        if self.is_asked_about(&gang.name) {
            let words = format!("pod group {:?} is being decided about", gang.name);
            return self.reject_gang(now, members, &(words, BTreeSet::new()), None);
        }
        let name = Arc::clone(&gang.name);
        let keys = gang.members.iter().map(|member| Arc::clone(&member.pod));
        let keys: Vec<Arc<str>> = keys.collect();
        self.cluster.begin_sharing();
        self.try_gang(now, gang, members, rounds);
        self.cluster.end_sharing();
        if !self.asking.contains_key(&name) {
            for key in keys {
                self.asked.remove(&key);
            }
        }
    }

    fn try_gang(&mut self, now: Timestamp, gang: Gang, mut members: Vec<Member>, rounds: u32) {
        if self.cluster.nodes().is_empty() {
            let message = "no nodes available to schedule pods";
            return self.end_gang(now, members, |_, _| Err(message.to_owned()));
        }
        if members
            .iter()
            .any(|member| self.queue.lifecycles().awaits_answer(&member.key))
        {
            return self.end_gang(now, members, |_, _| Err(UNANSWERED.to_owned()));
        }
        if gang.must_wait {
            let words = format!("pod group {:?} has not all its pods yet", gang.name);
            return self.reject_gang(now, members, &(words, BTreeSet::new()), None);
        }
        let nodes = self.queue.nodes_of_group(&gang.name);
        let taken = nodes.filter_map(|name| self.cluster.find_node(name));
        let keys = gang.object.spec.scheduling_constraints.topology.iter();
        let domains = Domains::new(&self.cluster, keys.map(|constraint| &*constraint.key));
        let domains = domains.choice(taken);
        let mut statement = Statement::default();
        let mut trial = self.trial(gang.missing, rounds);
        trial.reserves = true;
        let found = trial.run(&mut statement, &mut members, &domains).is_some();
        let failed = failed(trial.cluster, &members);
        let asks = found && members.iter().any(|member| !member.question.is_empty());
        if found && !asks && failed.is_none() {
            statement.commit(trial.cluster);
            return self.place_gang(now, &gang, members);
        }
        trial.take_back(&mut statement, &mut members);
        statement.undo(trial.cluster);
        if let Some(message) = failed {
            self.end_failed_gang(now, members, &message);
        } else if asks {
            self.ask_about_gang(gang, members, rounds);
        } else {
            self.refuse_gang(now, (gang, rounds), members, &domains);
        }
    }

    /// Too few pods of a gang fit: looks for victims.
    fn refuse_gang(
        &mut self,
        now: Timestamp,
        (gang, rounds): (Gang, u32),
        mut members: Vec<Member>,
        domains: &[Domain<'_>],
    ) {
        let (words, plugins) = said(&gang, &members, self.cluster.nodes().len());
        let refuses = |member: &Member| matches!(member.end, End::Refused(_));
        if members.iter().any(refuses) {
            // No eviction changes the answer of a plugin about a node.
            self.groups.push(GroupResult {
                group: gang.object,
                outcome: GroupOutcome::Unschedulable(words.clone()),
            });
            return self.reject_gang(now, members, &(words, plugins), None);
        }
        for member in &mut members {
            member.question.clear();
        }
        let ends = members.iter_mut();
        let ends: Vec<End> = ends.map(|member| std::mem::take(&mut member.end)).collect();
        let found = self.preempt_for_gang((&gang, rounds), &mut members, domains);
        let failed = failed(&self.cluster, &members);
        if failed.is_none() && members.iter().any(|member| !member.question.is_empty()) {
            return self.ask_about_gang(gang, members, rounds);
        }
        for (member, end) in members.iter_mut().zip(ends) {
            member.end = end;
        }
        if let Some(message) = failed {
            return self.end_failed_gang(now, members, &message);
        }
        let (message, freed) = match &found {
            Ok(Some(found)) => (words, self.freed(&members, found)),
            Ok(None) => {
                let reason = "No preemption victims found for incoming preemptor";
                (format!("{words} preemption: {reason}"), Vec::new())
            }
            Err(reason) => (
                format!("{words} preemption: {}", reason.as_str()),
                Vec::new(),
            ),
        };
        let preempted = Preempted {
            freed,
            is_eligible: found.is_ok(),
        };
        self.groups.push(GroupResult {
            group: gang.object,
            outcome: GroupOutcome::Unschedulable(message.clone()),
        });
        self.reject_gang(now, members, &(message, plugins), Some(preempted));
    }

    /// The members of a gang that can be tried. The attempts of the others end here.
    fn members(&mut self, now: Timestamp, gang: &Gang) -> Vec<Member> {
        let mut members = Vec::new();
        for popped in &gang.members {
            let key = &popped.pod;
            let Some(wire) = self.queue.pod(key).cloned() else {
                self.queue.done(now, key);
                continue;
            };
            let outcome = match self.profile_of(&wire) {
                _ if wire.metadata.deletion_timestamp.is_some() => Outcome::Deleting,
                None => Outcome::NoProfile,
                Some(profile) => {
                    let name = (Arc::clone(key), popped.attempts);
                    let mut member = Member::new(&mut self.cluster, name, wire, profile);
                    if let Some(pod) = member.pod.take() {
                        self.charge(&pod);
                        member.pod = Some(pod);
                    }
                    member.nominated = self.queue.nominated_node(key);
                    members.push(member);
                    continue;
                }
            };
            self.queue.done(now, key);
            self.decided.push_back(Attempt {
                key: Arc::clone(key),
                pod: wire,
                number: popped.attempts,
                outcome,
            });
        }
        members
    }

    fn trial(&mut self, missing: usize, rounds: u32) -> Trial<'_> {
        Trial {
            cluster: &mut self.cluster,
            decider: &mut self.decider,
            frameworks: &self.frameworks,
            missing,
            answers: Answers {
                extenders: &self.extenders,
                asked: &self.asked,
                more: rounds < ROUNDS,
            },
            reserves: false,
        }
    }

    /// Ends the attempt of each member with the outcome, or the error message, of `end`.
    fn end_gang(
        &mut self,
        now: Timestamp,
        members: Vec<Member>,
        mut end: impl FnMut(&mut Self, &mut Member) -> Result<Outcome, String>,
    ) {
        for mut member in members {
            let ended = match std::mem::take(&mut member.end) {
                End::Wrong(message) => Err(message),
                other => {
                    member.end = other;
                    end(self, &mut member)
                }
            };
            if let Some(pod) = member.pod.take() {
                self.cluster.release(pod);
            }
            let outcome = match ended {
                Ok(Outcome::Unschedulable(rejected)) => {
                    self.failed(now, &member.key, &rejected.failure());
                    Outcome::Unschedulable(rejected)
                }
                Ok(outcome) => outcome,
                Err(message) => self.error(now, &member.key, message),
            };
            self.decided.push_back(Attempt {
                key: member.key,
                pod: member.wire,
                number: member.number,
                outcome,
            });
        }
    }

    /// Something failed about one of the pods, or the attempt was ended.
    fn end_failed_gang(&mut self, now: Timestamp, members: Vec<Member>, message: &str) {
        if !self.is_interrupted() {
            return self.end_gang(now, members, |_, _| Err(message.to_owned()));
        }
        self.end_gang(now, members, |own, member| {
            Ok(own.end_interrupted(now, &member.key, &member.wire))
        });
    }

    /// Enough pods of a gang fit: they are placed, and the others are tried later.
    fn place_gang(&mut self, now: Timestamp, gang: &Gang, members: Vec<Member>) {
        let (mut placed, mut others) = (Vec::new(), Vec::new());
        for mut member in members {
            let decided = match std::mem::take(&mut member.end) {
                End::Fits(decided) => decided,
                end => {
                    member.end = end;
                    others.push(member);
                    continue;
                }
            };
            let node: Arc<str> = self.cluster.node_name(decided.chosen).into();
            self.queue.assume(now, &member.key, &node);
            let waiting = WaitingPod {
                pod: member.wire,
                number: member.number,
                profile: member.profile,
                node,
                decided,
                pre_bind: member.pre_bind,
                since: now,
                by: member.waits,
                gang: Some(Arc::clone(&gang.name)),
            };
            placed.push((member.key, waiting));
        }
        self.hold_or_bind(now, &gang.name, placed);
        self.end_gang(now, others, |_, member| {
            Ok(Outcome::Unschedulable(left_out(std::mem::take(
                &mut member.end,
            ))))
        });
    }

    /// No pod of a gang is placed. All of them wait for the events that may help one of those that fit nowhere.
    fn reject_gang(
        &mut self,
        now: Timestamp,
        members: Vec<Member>,
        said: &Said,
        preempted: Option<Preempted>,
    ) {
        // The gang counts as one preemption.
        let mut first = preempted.is_some();
        let preempted = preempted.unwrap_or_default();
        let mut freed = preempted.freed.into_iter();
        self.end_gang(now, members, |_, member| {
            let node = freed.next().unwrap_or_default();
            // A pod that may not preempt keeps the nomination that it has.
            let clears_nomination = preempted.is_eligible && node.node.is_none();
            Ok(Outcome::Unschedulable(Rejected {
                preempts: std::mem::take(&mut first),
                clears_nomination,
                deallocates: deallocates(&mut member.end),
                ..rejected(said.clone(), node)
            }))
        });
    }

    fn preempt_for_gang(
        &mut self,
        (gang, rounds): (&Gang, u32),
        members: &mut [Member],
        domains: &[Domain<'_>],
    ) -> Result<Option<Preemption>, Ineligible> {
        let together = self.queue.together();
        let left = members
            .iter()
            .flat_map(|member| self.stuck.left_by(&member.key));
        let not_freed: Vec<NodeId> = left
            .filter_map(|node| self.cluster.find_node(node))
            .collect();
        let spec = &gang.object.spec;
        let never = |policy: &str| policy == "Never";
        let never = never(&spec.preemption_policy)
            || members
                .iter()
                .any(|member| never(&member.wire.spec.preemption_policy));
        let preemptor = Preemptor {
            priority: spec.priority.unwrap_or(0),
            never,
            domains,
            budgets: &self.budgets,
            together: &together,
            not_freed: &not_freed,
        };
        let mut trial = Trial {
            cluster: &mut self.cluster,
            decider: &mut self.decider,
            frameworks: &self.frameworks,
            missing: gang.missing,
            answers: Answers {
                extenders: &self.extenders,
                asked: &self.asked,
                more: rounds < ROUNDS,
            },
            reserves: false,
        };
        let found = preempt(&mut trial, members, &preemptor)?;
        let found = found.filter(|_| !trial.cluster.interrupt().is_raised());
        let groups = found.iter().flat_map(|found| &found.groups);
        let whole = groups.map(|group| GroupResult {
            group: Arc::clone(&together.groups[*group]),
            outcome: GroupOutcome::Preempted,
        });
        self.groups.extend(whole);
        Ok(found)
    }

    /// The nominated node and the victims of each member, by index. A victim belongs to a member that gets its node.
    fn freed(&self, members: &[Member], found: &Preemption) -> Vec<Freed> {
        let mut freed: Vec<Freed> = members.iter().map(|_| Freed::default()).collect();
        for (member, node) in &found.nominations {
            freed[*member].node = Some(self.cluster.node_name(*node).to_owned());
        }
        for victim in &found.victims {
            let mut nominations = found.nominations.iter();
            let on_node = nominations.find(|(_, node)| *node == victim.node);
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
            let mut pods = self.cluster.node(victim.node).pods.iter();
            let waits = pods.any(|pod| pod.uid() == uid && self.queue.lifecycles().is_placed(&uid));
            freed.actions.push(if waits {
                Action::RejectWaiting { pod, uid }
            } else {
                Action::Delete { pod, uid }
            });
        }
        freed
    }
}

/// Why the whole gang is tried again later: the attempt was ended, or something about one of the pods failed.
fn failed(cluster: &Cluster, members: &[Member]) -> Option<String> {
    if cluster.interrupt().is_raised() {
        return Some(INTERRUPTED.to_owned());
    }
    members.iter().find_map(Member::failed)
}

fn rejected((message, mut plugins): Said, freed: Freed) -> Rejected {
    if plugins.is_empty() {
        plugins.insert(PluginName::GangScheduling.as_str().to_owned());
    }
    Rejected {
        message,
        plugins,
        rejections: Arc::default(),
        preempts: false,
        nominated: freed.node,
        deallocates: None,
        victims: freed.victims,
        actions: freed.actions,
        nominations_cleared: Vec::new(),
        clears_nomination: false,
    }
}

/// The result of a pod whose gang was placed without it.
fn left_out(end: End) -> Rejected {
    match end {
        End::FitsNowhere(nowhere) => {
            // A pod of a gang does not preempt alone (S4-039).
            let declined = "not eligible due to workload aware preemption enabled.";
            let message = format!("{} preemption: {declined}", nowhere.words);
            Rejected {
                deallocates: nowhere.deallocates,
                ..rejected((message, nowhere.plugins), Freed::default())
            }
        }
        End::Refused(refusal) => refused(refusal),
        _ => rejected(Said::default(), Freed::default()),
    }
}

fn deallocates(end: &mut End) -> Option<ClaimRef> {
    match end {
        End::FitsNowhere(nowhere) => nowhere.deallocates.take(),
        _ => None,
    }
}

/// The message of a gang that could not be placed: why the first of its pods did not fit, and how many did.
fn said(gang: &Gang, members: &[Member], nodes: usize) -> Said {
    let (mut first, mut plugins, mut fit) = (None, BTreeSet::new(), 0);
    for member in members {
        match &member.end {
            End::Fits(_) => fit += 1,
            End::FitsNowhere(nowhere) => {
                first.get_or_insert(nowhere.words.clone());
                plugins.extend(nowhere.plugins.iter().cloned());
            }
            End::Refused(refusal) => {
                let refused = refused(refusal.clone());
                first.get_or_insert(refused.message);
                plugins.extend(refused.plugins);
            }
            End::NotTried | End::Failed(_) | End::Wrong(_) => {}
        }
    }
    let first = first.unwrap_or_else(|| format!("0/{nodes} nodes are available."));
    let (name, missing) = (&gang.name, gang.missing);
    let words = format!(
        "{first} pod group {name:?}: of the {missing} pods that it needs at once {fit} fit."
    );
    (words, plugins)
}
