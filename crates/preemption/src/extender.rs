//! Extenders may remove candidates, or spare victims of one (S3-024, S4-020).

use crate::groups::Victim;
use evictd_placement::{Cluster, NodeId, Pod};

/// A candidate as an extender receives and returns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The node.
    pub node: NodeId,
    /// The victims. Pods of a group may be on other nodes.
    pub victims: Vec<Victim>,
    /// How many victims violate a budget.
    pub violations: usize,
}

/// An extender failed or returned an invalid answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("extender {name}: {problem}")]
pub struct ExtenderError {
    /// The extender's name.
    pub name: String,
    /// Its error, or why its answer is invalid.
    pub problem: String,
}

/// An extender that filters the candidates before one is picked.
pub trait Extender {
    /// The name in error messages.
    fn name(&self) -> &str;

    /// Whether it manages the preemption for this pod.
    fn is_interested(&self, cluster: &Cluster, preemptor: &Pod) -> bool;

    /// Whether its errors, and nodes that it returns without victims, are ignored.
    fn is_ignorable(&self) -> bool;

    /// Returns the candidates that it accepts, each with the victims that it still needs.
    fn process(
        &mut self,
        cluster: &Cluster,
        preemptor: &Pod,
        offers: &[Offer],
    ) -> Result<Vec<Offer>, ExtenderError>;
}

/// Calls the extenders in order. Each receives the candidates that the previous one accepted.
pub(crate) fn ask_all(
    extenders: &mut [&mut dyn Extender],
    cluster: &Cluster,
    preemptor: &Pod,
    mut offers: Vec<Offer>,
) -> Result<Vec<Offer>, ExtenderError> {
    for extender in extenders {
        if offers.is_empty() {
            break;
        }
        if !extender.is_interested(cluster, preemptor) {
            continue;
        }
        match ask(*extender, cluster, preemptor, &offers) {
            Ok(answer) => offers = answer,
            Err(_) if extender.is_ignorable() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(offers)
}

fn ask(
    extender: &mut dyn Extender,
    cluster: &Cluster,
    preemptor: &Pod,
    offers: &[Offer],
) -> Result<Vec<Offer>, ExtenderError> {
    let mut answer = extender.process(cluster, preemptor, offers)?;
    let wrong = |problem| ExtenderError {
        name: extender.name().to_owned(),
        problem,
    };
    for offer in &answer {
        let node = cluster.node_name(offer.node);
        if offer.victims.is_empty() && !extender.is_ignorable() {
            return Err(wrong(format!(
                "expected at least one victim pod on node \"{node}\""
            )));
        }
        let asked = offers
            .iter()
            .find(|asked| asked.node == offer.node)
            .ok_or_else(|| wrong(format!("node \"{node}\" was not offered")))?;
        if let Some(victim) = offer
            .victims
            .iter()
            .find(|victim| !asked.victims.contains(victim))
        {
            let pods = &cluster.node(victim.node).pods;
            let pod = pods
                .get(victim.index())
                .map(|pod| cluster.full_name(pod))
                .unwrap_or_default();
            return Err(wrong(format!(
                "{pod} on node \"{node}\" was not offered as a victim"
            )));
        }
    }
    // Only an ignorable extender gets here with a node without victims, and that node is dropped.
    answer.retain(|offer| !offer.victims.is_empty());
    answer.sort_by_key(|offer| offer.node);
    Ok(answer)
}
