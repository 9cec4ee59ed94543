//! The cost of an attempt: an estimate of what each node costs, and a meter of other work. One unit takes about as long as one unit of a device
//! selector's cost, so that all work of an attempt is counted in the same unit.

use crate::cluster::Cluster;
use crate::interrupt::{Interrupt, STEPS_OF_UNIT};
use crate::pod::Pod;
use crate::selector::{NodeSelector, Selector};
use crate::template::{PodTerm, Spread};

/// The steps to tell a filter of a pod that is removed or put back.
pub(crate) const CHANGE: usize = 16;
/// The steps to ask a filter again.
pub(crate) const CHECK: usize = 32;
/// After so many steps of metered work they are charged.
const STEPS_OF_CHARGE: usize = 64 * STEPS_OF_UNIT;
/// The units of an attempt besides its nodes.
const ATTEMPT: u64 = 100;
/// The steps of a node with the filters that every pod has.
const NODE: usize = 128;
/// The steps to find a label and to begin a comparison.
const REQUIREMENT: usize = 32;
/// The steps of a term, constraint, volume or claim besides its requirements.
const TERM: usize = 32;

/// The cost of an attempt to place a pod, as far as each node takes part in it. An attempt that ends early costs less. Devices
/// and pods that selectors compare are metered where they are compared.
pub fn estimated_cost(cluster: &Cluster, pod: &Pod) -> u64 {
    let template = cluster.template(pod);
    let preferred_nodes = template.preferred_nodes.iter();
    let node_selectors = template
        .node_affinity
        .iter()
        .chain(preferred_nodes.map(|(_, selector)| selector));
    let things = template.node_selector.iter().count()
        + template.tolerations.len()
        + template.ports.len()
        + template.volumes.len()
        + template.images.len()
        + template.device_claims.len()
        + template.affinity.len()
        + template.anti_affinity.len()
        + template.preferred.len()
        + template.spread.len()
        + template.soft_spread.len();
    let of_node = NODE + TERM * things + node_selectors.map(of_node_selector).sum::<usize>();
    let nodes = cluster.nodes().len().saturating_mul(of_node);
    // A cost that does not fit is as high as any.
    let units = u64::try_from(nodes / STEPS_OF_UNIT).unwrap_or(u64::MAX);
    ATTEMPT.saturating_add(units)
}

fn of_node_selector(selector: &NodeSelector) -> usize {
    let (requirements, values) = selector.size();
    REQUIREMENT * requirements + values
}

fn of_selector(selector: &Selector) -> usize {
    let (requirements, values) = selector.size();
    REQUIREMENT * requirements + values
}

/// The most steps to compare a term with a group of pods.
pub(crate) fn of_term(term: &PodTerm) -> usize {
    TERM + term.namespaces.len()
        + of_selector(&term.selector)
        + of_selector(&term.namespace_selector)
}

/// The most steps to compare a constraint with a group of pods.
pub(crate) fn of_spread(spread: &Spread) -> usize {
    TERM + of_selector(&spread.selector)
}

/// Counts the work that an attempt has really done, in whole units.
#[derive(Debug)]
pub(crate) struct Meter<'c> {
    interrupt: &'c Interrupt,
    steps: usize,
}

impl<'c> Meter<'c> {
    pub(crate) fn new(cluster: &'c Cluster) -> Self {
        Self {
            interrupt: cluster.interrupt(),
            steps: 0,
        }
    }

    /// Counts steps. Returns false once the attempt is interrupted: then its result does not count.
    pub(crate) fn goes_on(&mut self, steps: usize) -> bool {
        self.steps = self.steps.saturating_add(steps);
        if self.steps < STEPS_OF_CHARGE {
            return true;
        }
        self.charge();
        !self.interrupt.is_raised()
    }

    fn charge(&mut self) {
        self.steps = self.interrupt.charge_steps(self.steps);
    }
}

impl Drop for Meter<'_> {
    fn drop(&mut self) {
        self.charge();
    }
}
