//! Extenders: others who may take candidates, or victims, off the list (S3-024, S4-020).

use evictd_placement::{Cluster, NodeId, Pod};

/// A candidate as an extender sees it and answers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The node.
    pub node: NodeId,
    /// The victims, as indices of the node's pods.
    pub victims: Vec<u32>,
    /// How many of them break a budget.
    pub violations: usize,
}

/// An extender did not answer as it must.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("extender {name}: {problem}")]
pub struct ExtenderError {
    /// Its name.
    pub name: String,
    /// What went wrong.
    pub problem: String,
}

/// Someone who is asked about candidates before one is picked.
pub trait Extender {
    /// What it is called in errors.
    fn name(&self) -> &str;

    /// Whether it takes part in the preemption for this pod.
    fn is_interested(&self, cluster: &Cluster, preemptor: &Pod) -> bool;

    /// Whether its errors, and nodes that it returns without victims, are passed over.
    fn is_ignorable(&self) -> bool;

    /// The candidates that it agrees to, each with those of the victims that it finds necessary.
    fn process(
        &mut self,
        cluster: &Cluster,
        preemptor: &Pod,
        offers: &[Offer],
    ) -> Result<Vec<Offer>, ExtenderError>;
}

/// Asks one after the other.
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
        let asked = offers.iter().find(|asked| asked.node == offer.node);
        let asked = asked.ok_or_else(|| wrong(format!("node \"{node}\" was not offered")))?;
        if let Some(index) = offer
            .victims
            .iter()
            .find(|own| !asked.victims.contains(own))
        {
            let pods = &cluster.node(offer.node).pods;
            let pod = pods.get(*index as usize).map(|pod| cluster.full_name(pod));
            let pod = pod.unwrap_or_default();
            return Err(wrong(format!(
                "{pod} on node \"{node}\" was not offered as a victim"
            )));
        }
    }
    answer.retain(|offer| !offer.victims.is_empty());
    answer.sort_by_key(|offer| offer.node);
    Ok(answer)
}
