//! `PodDisruptionBudgets`: how many pods of a kind may be missing at once.

use crate::form::Form;
use evictd_placement::{Cluster, Group, Pod, PodSelector, SelectorError};
use evictd_pod::wire;
use hashbrown::HashSet;
use std::ops::Range;

/// Whether a plan may break a budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BudgetPolicy {
    /// Rather not, as kube-scheduler: nodes where fewer are broken are preferred.
    #[default]
    Prefer,
    /// Never: pods beyond a budget are no victims.
    NeverViolate,
}

/// A budget, compiled.
#[derive(Debug, PartialEq, Eq)]
pub struct Budget {
    /// `namespace/name`.
    pub name: String,
    pods: PodSelector,
    allowed: i32,
    /// Pods by name that are accounted for already (S4-006).
    disrupted: HashSet<Box<str>>,
}

impl Budget {
    /// Compiles a budget against a cluster's texts. Without a status nothing may be disrupted yet.
    pub fn new(
        cluster: &mut Cluster,
        wire: &wire::PodDisruptionBudget,
    ) -> Result<Self, SelectorError> {
        let (metadata, selector) = (&wire.metadata, wire.spec.selector.as_ref());
        let pods = cluster.pod_selector(metadata, selector)?;
        let disrupted = wire.status.disrupted_pods.keys();
        Ok(Self {
            name: format!("{}/{}", metadata.namespace_or_default(), metadata.name),
            pods,
            allowed: wire.status.disruptions_allowed.unwrap_or(0),
            disrupted: disrupted.map(|name| name.as_str().into()).collect(),
        })
    }

    /// Gives back to the cluster what was compiled, when the budget is deleted or takes another form.
    pub fn release(self, cluster: &mut Cluster) {
        cluster.release_selector(self.pods);
    }

    /// Whether its selector is absent or empty, so that it covers no pod (S3-021).
    pub fn selects_nothing(&self) -> bool {
        self.pods.selector.is_empty()
    }

    /// Whether it covers pods of a group. A selector that selects everything selects nothing here, and pods without
    /// labels are covered by none (S3-021).
    fn covers(&self, cluster: &Cluster, group: &Group) -> bool {
        self.pods.namespace == group.namespace
            && group.has_labels
            && !self.selects_nothing()
            && self.pods.selector.matches(cluster.symbols(), &group.labels)
    }
}

/// The names of the budgets that a pod counts against.
pub fn budgets_of<'b>(
    cluster: &Cluster,
    budgets: &'b [Budget],
    pod: &Pod,
    form: Form,
) -> Vec<&'b str> {
    let group = &cluster.groups()[pod.group.index()];
    let accounted = |budget: &Budget| form > Form::V1_18 && budget.disrupted.contains(pod.name());
    budgets
        .iter()
        .filter(|budget| budget.covers(cluster, group) && !accounted(budget))
        .map(|budget| budget.name.as_str())
        .collect()
}

/// Which of these pods, going one after the other, break a budget (S3-021).
pub fn breaking<'p>(
    cluster: &Cluster,
    budgets: &[Budget],
    pods: impl Iterator<Item = &'p Pod>,
) -> Vec<bool> {
    let mut ledger = Ledger::new(cluster, budgets, true);
    pods.map(|pod| ledger.count(pod)).collect()
}

/// Counts the pods of one node against every budget.
pub(crate) struct Ledger<'b> {
    budgets: &'b [Budget],
    /// Of each group, the budgets that cover its pods: where they begin in `covering`.
    begins: Vec<u32>,
    covering: Vec<u32>,
    honours_disrupted: bool,
    left: Vec<i32>,
    /// Budgets of which `left` is not the beginning any more.
    touched: Vec<u32>,
}

impl<'b> Ledger<'b> {
    /// Finds out once which budgets cover which pods.
    pub(crate) fn new(cluster: &Cluster, budgets: &'b [Budget], honours_disrupted: bool) -> Self {
        let mut begins = Vec::with_capacity(cluster.groups().len() + 1);
        let mut covering = Vec::new();
        for group in cluster.groups() {
            begins.push(u32::try_from(covering.len()).unwrap_or(u32::MAX));
            let own = (0..).zip(budgets);
            let own = own.filter(|(_, budget)| budget.covers(cluster, group));
            covering.extend(own.map(|(index, _): (u32, _)| index));
        }
        begins.push(u32::try_from(covering.len()).unwrap_or(u32::MAX));
        Self {
            left: budgets.iter().map(|budget| budget.allowed).collect(),
            budgets,
            begins,
            covering,
            honours_disrupted,
            touched: Vec::new(),
        }
    }

    /// Begins with another node.
    pub(crate) fn reset(&mut self) {
        for index in self.touched.drain(..) {
            self.left[index as usize] = self.budgets[index as usize].allowed;
        }
    }

    /// Where the budgets that cover a pod stand in `covering`.
    fn range(&self, pod: &Pod) -> Range<usize> {
        let group = pod.group.index();
        self.begins[group] as usize..self.begins[group + 1] as usize
    }

    /// Whether a budget has accounted for a pod already.
    fn is_disrupted(&self, budget: usize, pod: &Pod) -> bool {
        self.honours_disrupted && self.budgets[budget].disrupted.contains(pod.name())
    }

    /// The budgets that a pod counts against.
    fn covering(&self, pod: &Pod) -> impl Iterator<Item = usize> {
        let covering = self.covering[self.range(pod)].iter();
        let covering = covering.map(|index| *index as usize);
        covering.filter(|index| !self.is_disrupted(*index, pod))
    }

    /// Counts a pod as gone; whether that breaks a budget.
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

    /// Whether a pod could go without breaking a budget, given those that were counted.
    pub(crate) fn allows(&self, pod: &Pod) -> bool {
        self.covering(pod).all(|index| self.left[index] > 0)
    }
}
