//! Picks one candidate. The first rule in which candidates differ decides (S3-025 to S3-031).

use crate::candidate::Candidate;
use crate::compat::Compat;
use crate::groups::Victim;
use evictd_placement::{Cluster, NO_START};

/// The rules that compare candidates, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A node without victims. Only `V1_18` has such candidates (S3-025).
    NoVictims,
    /// The fewest violated budgets (S3-026).
    FewestViolations,
    /// The lowest priority of the first victim (S3-027).
    LowestFirstPriority,
    /// The smallest sum of the victims' priorities, each raised by 2^31 (S3-028).
    SmallestPrioritySum,
    /// The fewest victims (S3-029).
    FewestVictims,
    /// The latest start of the longest running victim of the highest priority (S3-030).
    LatestStart,
    /// The first name, if all rules tie (S3-031).
    FirstName,
}

impl Rule {
    /// Every rule that compares a figure.
    const ALL: [Self; 6] = [
        Self::NoVictims,
        Self::FewestViolations,
        Self::LowestFirstPriority,
        Self::SmallestPrioritySum,
        Self::FewestVictims,
        Self::LatestStart,
    ];
}

/// A rule that decided between candidates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Why {
    /// The rule.
    pub rule: Rule,
    /// How many candidates were equal before the rule.
    pub among: usize,
    /// How many were equal after it.
    pub left: usize,
    /// The best figure: the smallest, or the latest start in seconds since 1970.
    pub best: i64,
    /// The best figure of the eliminated candidates, and the candidate's index.
    pub next: Option<(i64, usize)>,
}

/// The figure of a rule; the smaller the better.
fn score(rule: Rule, candidate: &Candidate, victims: &[Victim], cluster: &Cluster) -> i64 {
    let priority = |victim: &Victim| i64::from(victim.pod(cluster).priority);
    match rule {
        Rule::NoVictims => i64::from(!victims.is_empty()),
        Rule::FewestViolations => i64::try_from(candidate.violations).unwrap_or(i64::MAX),
        Rule::LowestFirstPriority => victims.first().map_or(i64::MIN, priority),
        // The sum cannot overflow: no node runs that many pods.
        Rule::SmallestPrioritySum => victims
            .iter()
            .map(|victim| priority(victim) + (1 << 31))
            .sum(),
        Rule::FewestVictims => i64::try_from(victims.len()).unwrap_or(i64::MAX),
        Rule::LatestStart => -earliest_start(victims, cluster),
        Rule::FirstName => 0,
    }
}

/// The earliest start among the victims of the highest priority. A pod that has not started counts as starting now.
fn earliest_start(victims: &[Victim], cluster: &Cluster) -> i64 {
    let pods = || victims.iter().map(|victim| victim.pod(cluster));
    let highest = pods().map(|pod| pod.priority).max();
    pods()
        .filter(|pod| Some(pod.priority) == highest)
        .map(|pod| pod.start)
        .min()
        .unwrap_or(NO_START)
}

/// Picks a candidate by its index and returns the rules that decided.
pub(crate) fn pick<'v>(
    cluster: &Cluster,
    candidates: &[Candidate],
    victims: impl Fn(&Candidate) -> &'v [Victim],
    compat: Compat,
) -> Option<(usize, Vec<Why>)> {
    let mut equal: Vec<usize> = (0..candidates.len()).collect();
    let mut scores: Vec<i64> = Vec::with_capacity(equal.len());
    let mut why = Vec::new();
    for rule in Rule::ALL {
        if equal.len() < 2 {
            break;
        }
        if rule == Rule::NoVictims && compat > Compat::V1_18 {
            continue;
        }
        scores.clear();
        scores.extend(equal.iter().map(|index| {
            let candidate = &candidates[*index];
            score(rule, candidate, victims(candidate), cluster)
        }));
        let Some(best) = scores.iter().min().copied() else {
            break;
        };
        let next = equal
            .iter()
            .zip(&scores)
            .filter(|(_, score)| **score > best)
            .min_by_key(|(index, score)| (**score, cluster.node_name(candidates[**index].node)))
            .map(|(index, score)| (*score, *index));
        let among = equal.len();
        // `retain` visits the candidates in the order of their scores.
        let mut remaining = scores.iter();
        equal.retain(|_| remaining.next() == Some(&best));
        if next.is_some() {
            let sign = if rule == Rule::LatestStart { -1 } else { 1 };
            why.push(Why {
                rule,
                among,
                left: equal.len(),
                best: sign * best,
                next: next.map(|(score, index)| (sign * score, index)),
            });
        }
        if rule == Rule::NoVictims && best == 0 {
            break;
        }
    }
    let name = |index: &usize| cluster.node_name(candidates[*index].node);
    if equal.len() > 1 {
        why.push(Why {
            rule: Rule::FirstName,
            among: equal.len(),
            left: 1,
            best: 0,
            next: None,
        });
    }
    let first = equal.into_iter().min_by(|a, b| name(a).cmp(name(b)))?;
    Some((first, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_pod::{Node, wire};

    /// Filters never produce such a node, because a node that fits needs no preemption.
    #[test]
    fn s3_025_only_v1_18_picks_a_node_without_victims_at_once() {
        let mut cluster = Cluster::new();
        for name in ["a", "b"] {
            let node = format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
            cluster.add_node(&serde_json::from_str::<Node>(&node).unwrap());
            let pod = format!(r#"{{"metadata":{{"name":"p"}},"spec":{{"nodeName":"{name}"}}}}"#);
            let pod: wire::Pod = serde_json::from_str(&pod).unwrap();
            cluster.add_pod(pod).unwrap();
        }
        let candidates: Vec<Candidate> = cluster
            .node_ids()
            .zip([(0, 0..1), (1, 1..1)])
            .map(|(node, (violations, victims))| Candidate {
                node,
                violations,
                victims,
            })
            .collect();
        let all = [Victim::new(candidates[0].node, 0)];
        let victims = |candidate: &Candidate| {
            &all[candidate.victims.start as usize..candidate.victims.end as usize]
        };
        let chosen = |compat| pick(&cluster, &candidates, victims, compat).unwrap().0;
        assert_eq!(chosen(Compat::V1_18), 1);
        assert_eq!(chosen(Compat::V1_19), 0);
    }
}
