//! Gangs that have their nodes: their pods are bound all at once, when every plugin has permitted each of them, or all give
//! their nodes back.

use super::permits::{Waiting, refused};
use super::{Attempt, Outcome, Rejected, Scheduler};
use crate::framework::Refusal;
use crate::gang::{GroupNews, GroupOutcome};
use jiff::Timestamp;
use std::sync::Arc;

impl Scheduler {
    /// The pods of a gang that have a node wait for the last permit, or are bound.
    pub(super) fn hold_or_bind(
        &mut self,
        now: Timestamp,
        gang: &Arc<str>,
        pods: Vec<(Arc<str>, Waiting)>,
    ) {
        let waits = pods.iter().any(|(_, own)| !own.by.is_empty());
        // Whoever comes later must not go before the others.
        if !waits && !self.permits.holds(gang) {
            return self.bind_gang(now, gang, pods);
        }
        for (key, waiting) in pods {
            let node = Arc::clone(&waiting.node);
            self.tell(&key, &waiting, Outcome::Waits { node });
            self.permits.insert(key, waiting);
        }
    }

    pub(super) fn bind_permitted_gangs(&mut self, now: Timestamp) {
        for gang in self.permits.permitted_gangs() {
            let pods = self.permits.take_gang(&gang);
            self.bind_gang(now, &gang, pods);
        }
    }

    /// All of them are bound, unless a plugin finds something wrong with one.
    fn bind_gang(&mut self, now: Timestamp, gang: &str, pods: Vec<(Arc<str>, Waiting)>) {
        let wrong = pods.iter().find_map(|(_, own)| {
            let chosen = self.chosen(&own.pod, &own.node);
            let message = self.frameworks[own.profile].wrong_before_binding(chosen)?;
            Some(format!("pod {:?}: {message}", own.pod.metadata.name))
        });
        if let Some(message) = wrong {
            let message = format!("pod group {gang:?}: {message}");
            for (key, own) in pods {
                self.bind_failed(now, &key, &own.pod, &own.node);
                self.tell(&key, &own, Outcome::Error(message.clone()));
            }
            return self.tell_group(gang, GroupOutcome::Unschedulable(message));
        }
        if pods.iter().any(|(_, own)| !own.prepares.is_empty()) {
            let keys = pods.iter().map(|(key, _)| Arc::clone(key));
            self.together.push(keys.collect());
        }
        self.tell_group(gang, GroupOutcome::Placed);
        for (key, own) in pods {
            self.queue.done(&key);
            let (pod, number) = (own.pod, own.number);
            let outcome = Outcome::Placed {
                node: own.node,
                decided: own.decided,
                prepares: own.prepares,
            };
            self.decided.push_back(Attempt {
                key,
                pod,
                number,
                outcome,
            });
        }
    }

    /// All pods of a gang that wait for a permit give their nodes back, because of what a plugin says of one.
    pub(super) fn withdraw_gang(&mut self, now: Timestamp, gang: &str, refusal: &Refusal) {
        let none = format!("pod group {gang:?}: its pods are bound all at once or not at all.");
        let message = format!("{} {none}", refused(refusal.clone()).message);
        let pods = self.permits.take_gang(gang);
        for (_, own) in &pods {
            self.leave_node(&own.pod, &own.node);
        }
        let keys: Vec<Arc<str>> = pods.iter().map(|(key, _)| Arc::clone(key)).collect();
        let rejectors = refused(refusal.clone()).failure().rejectors;
        self.moved
            .extend(self.queue.gang_rejected(now, &keys, rejectors));
        for (key, own) in pods {
            self.nominate(&key);
            let rejected = Rejected {
                message: message.clone(),
                ..refused(refusal.clone())
            };
            self.tell(&key, &own, Outcome::Unschedulable(rejected));
        }
        self.tell_group(gang, GroupOutcome::Unschedulable(message));
    }

    fn tell(&mut self, key: &Arc<str>, own: &Waiting, outcome: Outcome) {
        self.decided.push_back(Attempt {
            key: Arc::clone(key),
            pod: Arc::clone(&own.pod),
            number: own.number,
            outcome,
        });
    }

    fn tell_group(&mut self, name: &str, what: GroupOutcome) {
        if let Some(group) = self.queue.group(name).cloned() {
            self.groups.push(GroupNews { group, what });
        }
    }
}
