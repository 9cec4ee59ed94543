//! Questions to extenders about the pods of a gang. Each pod is asked about with the nodes where it fits beside the pods before
//! it. After the last answer the gang is tried again on the cluster as it is then.

use super::{Attempt, Outcome, Scheduler};
use crate::extenders::{ExtenderRequest, ExtenderResponse};
use crate::gang::Member;
use crate::queue::Popped;
use crate::scheduling_queue::Gang;
use hashbrown::HashSet;
use jiff::Timestamp;
use std::sync::Arc;

/// The most rounds of questions in one attempt. A further round asks about nodes that only the last answers made feasible.
pub(super) const ROUNDS: u32 = 64;

/// A gang that waits for answers of extenders.
#[derive(Debug)]
pub(super) struct Asking {
    members: Vec<Popped>,
    /// The pods without an answer.
    outstanding: HashSet<Arc<str>>,
    rounds: u32,
    /// Whether further pods of its group were added meanwhile.
    late: bool,
}

impl Scheduler {
    /// Asks extenders about the members. Meanwhile none of them holds a node.
    pub(super) fn ask_about_gang(&mut self, gang: Gang, members: Vec<Member>, rounds: u32) {
        let mut outstanding = HashSet::new();
        for mut member in members {
            if let Some(pod) = member.pod.take() {
                self.cluster.release(pod);
            }
            if member.question.is_empty() {
                continue;
            }
            outstanding.insert(Arc::clone(&member.key));
            let asked = self.asked.entry(Arc::clone(&member.key)).or_default();
            asked.nodes.extend(member.question.iter().cloned());
            let nodes = member.question.into_iter().collect();
            self.decided.push_back(Attempt {
                key: member.key,
                pod: member.wire,
                number: member.number,
                outcome: Outcome::AskExtenders(ExtenderRequest::Nodes(nodes)),
            });
        }
        let asking = Asking {
            members: gang.members,
            outstanding,
            rounds: rounds + 1,
            late: false,
        };
        self.asking.insert(gang.name, asking);
    }

    /// Whether a gang waits for answers. Its further pods then wait for the result.
    pub(super) fn is_asked_about(&mut self, gang: &str) -> bool {
        let asking = self.asking.get_mut(gang);
        asking.is_some_and(|asking| {
            asking.late = true;
            true
        })
    }

    /// Takes the answer about a pod of a gang; after the last one the gang is tried again. False for other pods.
    pub(super) fn answered_of_gang(
        &mut self,
        now: Timestamp,
        (key, reply): (&Arc<str>, &ExtenderResponse),
    ) -> bool {
        let mut all = self.asking.iter_mut();
        let Some((name, asking)) = all.find(|(_, asking)| asking.outstanding.contains(key)) else {
            return false;
        };
        asking.outstanding.remove(key);
        if let Some(asked) = self.asked.get_mut(key) {
            asked.hear(reply.clone());
        }
        let name = Arc::clone(name);
        if !asking.outstanding.is_empty() {
            return true;
        }
        let Some(asking) = self.asking.remove(&name) else {
            return true;
        };
        let gang = self.queue.gang(Arc::clone(&name), asking.members);
        self.interruptible(|own| own.attempt_gang(now, gang, asking.rounds));
        match self.asking.get_mut(&name) {
            Some(again) => again.late |= asking.late,
            None if asking.late => self.moved.extend(self.queue.retry_group(&name)),
            None => {}
        }
        true
    }
}
