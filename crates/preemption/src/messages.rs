//! Messages about a plan.

use crate::actions::cleared;
use crate::candidate::NotCandidate;
use crate::groups::{KnownGroups, VictimGroups};
use crate::pick::{Rule, Why};
use crate::plan::Plan;
use crate::units::{self, Collected, Units};
use evictd_placement::{Checks, Cluster, Code, NO_START, NodeId, Pod};
use hashbrown::HashMap;
use std::collections::BTreeMap;

impl NotCandidate {
    /// kube-scheduler's status code and messages for it.
    pub fn status(self, checks: &Checks<'_>) -> (Code, Vec<String>) {
        match self {
            Self::NoVictims => (
                Code::UnschedulableAndUnresolvable,
                vec!["No preemption victims found for incoming pod".to_owned()],
            ),
            Self::DoesNotFit(rejection) | Self::Budget(rejection) => {
                (rejection.code, checks.messages(rejection))
            }
            Self::NoVictimNeeded => (
                Code::Unschedulable,
                vec!["expected at least one victim pod".to_owned()],
            ),
        }
    }
}

impl Plan {
    /// kube-scheduler's message if no node is picked: why the pod may not preempt, or the result of each node (S4-010).
    pub fn message(&self, checks: &Checks<'_>) -> Option<String> {
        if let Some(why) = self.ineligible {
            return Some(why.as_str().to_owned());
        }
        if self.fits() || self.chosen.is_some() {
            return None;
        }
        if self.tried > self.not_candidates.len() {
            return Some("no candidate node for preemption".to_owned());
        }
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        // Many nodes share one reason, so each message is built once.
        let mut alike: HashMap<NotCandidate, usize> = HashMap::new();
        for (_, why) in &self.not_candidates {
            *alike.entry(*why).or_default() += 1;
        }
        for (why, count) in alike {
            for message in why.status(checks).1 {
                *counts.entry(message).or_default() += count;
            }
        }
        let untried = self.filter.len() - self.not_candidates.len();
        if untried > 0 {
            let message = "Preemption is not helpful for scheduling".to_owned();
            *counts.entry(message).or_default() += untried;
        }
        let mut reasons: Vec<String> = counts
            .iter()
            .map(|(message, count)| format!("{count} {message}"))
            .collect();
        reasons.sort();
        let nodes = self.filter.len();
        Some(format!(
            "0/{nodes} nodes are available: {}.",
            reasons.join(", ")
        ))
    }

    /// `namespace/name` of the pods whose nomination is cleared (S3-032).
    pub fn clear_nominations(&self, cluster: &Cluster, preemptor: &Pod) -> Vec<String> {
        cleared(self, cluster, preemptor)
            .map(|pod| cluster.full_name(pod))
            .collect()
    }

    /// One line for each rule that decided, with both figures.
    pub fn reasons(&self, cluster: &Cluster) -> Vec<String> {
        let name = |index: usize| cluster.node_name(self.candidates[index].node);
        let mut reasons: Vec<String> = self.why.iter().map(|why| why.message(&name)).collect();
        if reasons.is_empty() && self.chosen.is_some() {
            reasons.push("the only candidate".to_owned());
        }
        reasons
    }

    /// Why the pod would not fit even if all pods of lower priority left the node. `None` if the rejection already
    /// names it all.
    pub fn obstacle(
        checks: &mut Checks<'_>,
        groups: Option<&dyn VictimGroups>,
        node: NodeId,
    ) -> Option<String> {
        let priority = checks.pod().priority;
        let mut groups = KnownGroups::new(checks.cluster(), groups);
        let mut trial = checks.on(node);
        match units::collect(&trial, priority, &mut groups) {
            Collected::Pods(pods) => pods.remove_all(&mut trial, 0..pods.len()),
            Collected::Groups(groups) => groups.remove_all(&mut trial, 0..groups.len()),
        }
        trial.obstacle()
    }
}

impl Why {
    fn message<'n>(&self, node: &impl Fn(usize) -> &'n str) -> String {
        let figure = |figure: i64| match self.rule {
            Rule::LatestStart if figure == NO_START => "not started yet".to_owned(),
            Rule::LatestStart => start(figure),
            _ => figure.to_string(),
        };
        let what = match self.rule {
            Rule::NoVictims => "no victim is needed",
            Rule::FewestViolations => "fewest PodDisruptionBudget violations",
            Rule::LowestFirstPriority => "lowest priority of the first victim",
            Rule::SmallestPrioritySum => "smallest sum of the victims' priorities (each + 2^31)",
            Rule::FewestVictims => "fewest victims",
            Rule::LatestStart => {
                "latest start of the longest running of the most important victims"
            }
            Rule::FirstName => {
                return format!(
                    "first by name among {} nodes that are equal in every rule",
                    self.among
                );
            }
        };
        let best = figure(self.best);
        let next = self.next.map_or(String::new(), |(score, index)| {
            format!(", next {} on {}", figure(score), node(index))
        });
        let (among, left) = (self.among, self.left);
        format!("{what}: {best}{next} ({left} of {among} nodes left)")
    }
}

fn start(seconds: i64) -> String {
    // A timestamp of the input may lie outside jiff's range.
    jiff::Timestamp::from_second(seconds)
        .map_or_else(|_| seconds.to_string(), |time| time.to_string())
}
