//! `PodDisruptionBudgets` limit how many pods of a workload may be evicted at once.

use crate::compat::Compat;
use evictd_placement::{Cluster, Group, Pod, PodSelector, SelectorError};
use evictd_pod::wire;
use hashbrown::HashSet;
use std::ops::Range;

/// Whether a plan may break a budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BudgetPolicy {
    /// Prefers nodes with fewer violations, as kube-scheduler does.
    #[default]
    Prefer,
    /// A pod that a budget protects is never a victim.
    NeverViolate,
}

/// A `PodDisruptionBudget` with its selector compiled.
#[derive(Debug, PartialEq, Eq)]
pub struct Budget {
    /// `namespace/name`.
    pub name: String,
    pods: PodSelector,
    allowed: i32,
    /// Names of pods whose disruption `disruptionsAllowed` already counts (S4-006).
    disrupted: HashSet<Box<str>>,
}

impl Budget {
    /// Compiles a budget for this cluster. Without a status it allows no disruption yet.
    pub fn new(
        cluster: &mut Cluster,
        wire: &wire::PodDisruptionBudget,
    ) -> Result<Self, SelectorError> {
        let (metadata, selector) = (&wire.metadata, wire.spec.selector.as_ref());
        let pods = cluster.pod_selector(metadata, selector)?;
        let disrupted = wire.status.disrupted_pods.keys();
        Ok(Self {
            name: metadata.full_name(),
            pods,
            allowed: wire.status.disruptions_allowed.unwrap_or(0),
            disrupted: disrupted.map(|name| name.as_str().into()).collect(),
        })
    }

    /// Releases the compiled selector when the budget is deleted or replaced.
    pub fn release(self, cluster: &mut Cluster) {
        cluster.release_selector(self.pods);
    }

    /// Whether the selector is absent or empty, so that it covers no pod (S3-021).
    pub fn selects_nothing(&self) -> bool {
        self.pods.selector.is_empty()
    }

    /// Whether it covers the pods of a group. As in kube-scheduler, an empty selector covers no pod, and a pod without
    /// labels is never covered (S3-021).
    fn covers(&self, cluster: &Cluster, group: &Group) -> bool {
        self.pods.namespace == group.namespace
            && group.has_labels
            && !self.selects_nothing()
            && self.pods.selector.matches(cluster.symbols(), &group.labels)
    }
}

/// The names of the budgets that evicting a pod counts against.
pub fn budgets_of<'b>(
    cluster: &Cluster,
    budgets: &'b [Budget],
    pod: &Pod,
    compat: Compat,
) -> Vec<&'b str> {
    let group = &cluster.groups()[pod.group.index()];
    let accounted =
        |budget: &Budget| compat > Compat::V1_18 && budget.disrupted.contains(pod.name());
    budgets
        .iter()
        .filter(|budget| budget.covers(cluster, group) && !accounted(budget))
        .map(|budget| budget.name.as_str())
        .collect()
}

/// For each pod, whether evicting it after those before it violates a budget (S3-021).
pub fn breaking<'p>(
    cluster: &Cluster,
    budgets: &[Budget],
    pods: impl Iterator<Item = &'p Pod>,
) -> Vec<bool> {
    let mut usage = BudgetUsage::new(cluster, budgets, true);
    pods.map(|pod| usage.count(pod)).collect()
}

/// Tracks how much of every budget the victims of one node use.
pub(crate) struct BudgetUsage<'b> {
    budgets: &'b [Budget],
    /// Start of each group's range in `covering`, plus the end of the last range.
    starts: Vec<u32>,
    covering: Vec<u32>,
    honours_disrupted: bool,
    left: Vec<i32>,
    /// Budgets whose `left` differs from `allowed`; `reset` restores only these.
    touched: Vec<u32>,
}

impl<'b> BudgetUsage<'b> {
    /// Matches every budget with every group once, so that counting a pod needs no selector.
    pub(crate) fn new(cluster: &Cluster, budgets: &'b [Budget], honours_disrupted: bool) -> Self {
        let mut starts = Vec::with_capacity(cluster.groups().len() + 1);
        let mut covering = Vec::new();
        for group in cluster.groups() {
            starts.push(u32::try_from(covering.len()).unwrap_or(u32::MAX));
            let covers = |(_, budget): &(u32, &Budget)| budget.covers(cluster, group);
            covering.extend((0..).zip(budgets).filter(covers).map(|(index, _)| index));
        }
        starts.push(u32::try_from(covering.len()).unwrap_or(u32::MAX));
        Self {
            left: budgets.iter().map(|budget| budget.allowed).collect(),
            budgets,
            starts,
            covering,
            honours_disrupted,
            touched: Vec::new(),
        }
    }

    /// Restores all budgets for the next node.
    pub(crate) fn reset(&mut self) {
        for index in self.touched.drain(..) {
            self.left[index as usize] = self.budgets[index as usize].allowed;
        }
    }

    /// The pod's range in `covering`.
    fn range(&self, pod: &Pod) -> Range<usize> {
        let group = pod.group.index();
        self.starts[group] as usize..self.starts[group + 1] as usize
    }

    /// Whether the budget's status already counts this pod as disrupted.
    fn is_disrupted(&self, budget: usize, pod: &Pod) -> bool {
        self.honours_disrupted && self.budgets[budget].disrupted.contains(pod.name())
    }

    /// The budgets that a pod counts against.
    fn covering(&self, pod: &Pod) -> impl Iterator<Item = usize> {
        self.covering[self.range(pod)]
            .iter()
            .map(|index| *index as usize)
            .filter(|index| !self.is_disrupted(*index, pod))
    }

    /// Counts a pod as evicted. Returns whether that violates a budget.
    #[inline]
    pub(crate) fn count(&mut self, pod: &Pod) -> bool {
        let mut broken = false;
        for at in self.range(pod) {
            let index = self.covering[at] as usize;
            if !self.is_disrupted(index, pod) {
                self.left[index] = self.left[index].saturating_sub(1);
                broken |= self.left[index] < 0;
                self.touched.push(self.covering[at]);
            }
        }
        broken
    }

    /// Whether a pod could be evicted without violating a budget, after those counted.
    pub(crate) fn allows(&self, pod: &Pod) -> bool {
        self.covering(pod).all(|index| self.left[index] > 0)
    }
}
