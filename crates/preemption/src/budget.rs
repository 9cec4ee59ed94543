//! `PodDisruptionBudgets` limit how many pods of a workload may be evicted at once.

use crate::compat::Compat;
use evictd_placement::{Cluster, Group, Pod, PodSelector, SelectorError, Symbol};
use evictd_pod::wire;
use hashbrown::{HashMap, HashSet};
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
    let breaking = pods.map(|pod| usage.count(pod)).collect();
    cluster.interrupt().charge_steps(usage.take_steps());
    breaking
}

/// For each unit, whether its pods may all be evicted after those of the units before it that may. No budget is violated.
pub fn within_budgets<'p, U: Iterator<Item = &'p Pod>>(
    cluster: &Cluster,
    budgets: &[Budget],
    units: impl Iterator<Item = U>,
) -> Vec<bool> {
    let mut usage = BudgetUsage::new(cluster, budgets, true);
    let allowed = units.map(|pods| usage.count_allowed(pods)).collect();
    cluster.interrupt().charge_steps(usage.take_steps());
    allowed
}

/// The steps to compare a budget with a group of pods, or to count a victim.
const STEPS_OF_BUDGET: usize = 8;

/// Tracks how much of every budget the victims of one node use.
pub(crate) struct BudgetUsage<'b> {
    cluster: &'b Cluster,
    budgets: &'b [Budget],
    /// The budgets of each namespace, by index.
    namespaces: HashMap<Symbol, Vec<u32>>,
    /// For each group whose pods were counted, its range in `covering`.
    ranges: Vec<Option<(u32, u32)>>,
    covering: Vec<u32>,
    honours_disrupted: bool,
    left: Vec<i32>,
    /// Budgets whose `left` differs from `allowed`; `reset` restores only these.
    touched: Vec<u32>,
    /// The work since it was last taken: budgets that were compared with groups of pods, or counted.
    steps: usize,
}

impl<'b> BudgetUsage<'b> {
    /// A budget is compared with a group of pods when the first of them is counted. So the budgets and pods of namespaces
    /// without victims cost nothing.
    pub(crate) fn new(
        cluster: &'b Cluster,
        budgets: &'b [Budget],
        honours_disrupted: bool,
    ) -> Self {
        let mut namespaces: HashMap<Symbol, Vec<u32>> = HashMap::new();
        for (index, budget) in (0..).zip(budgets) {
            let of_namespace = namespaces.entry(budget.pods.namespace).or_default();
            of_namespace.push(index);
        }
        Self {
            cluster,
            left: budgets.iter().map(|budget| budget.allowed).collect(),
            budgets,
            namespaces,
            ranges: vec![None; cluster.groups().len()],
            covering: Vec::new(),
            honours_disrupted,
            touched: Vec::new(),
            steps: budgets.len(),
        }
    }

    /// The steps of the work since the last call.
    pub(crate) const fn take_steps(&mut self) -> usize {
        std::mem::replace(&mut self.steps, 0)
    }

    /// Restores all budgets for the next node.
    pub(crate) fn reset(&mut self) {
        for index in self.touched.drain(..) {
            self.left[index as usize] = self.budgets[index as usize].allowed;
        }
    }

    /// The pod's range in `covering`.
    fn range(&mut self, pod: &Pod) -> Range<usize> {
        let group = pod.group.index();
        let (start, end) = match self.ranges[group] {
            Some(range) => range,
            None => self.match_group(group),
        };
        start as usize..end as usize
    }

    /// Matches the budgets with a group, so that counting its other pods needs no selector.
    #[cold]
    fn match_group(&mut self, index: usize) -> (u32, u32) {
        let group = &self.cluster.groups()[index];
        let budgets = self.namespaces.get(&group.namespace);
        let budgets = budgets.map_or(&[][..], Vec::as_slice);
        self.steps += STEPS_OF_BUDGET * budgets.len();
        let end = |covering: &Vec<u32>| u32::try_from(covering.len()).unwrap_or(u32::MAX);
        let start = end(&self.covering);
        let covers = |budget: &&u32| self.budgets[**budget as usize].covers(self.cluster, group);
        self.covering.extend(budgets.iter().filter(covers));
        let range = (start, end(&self.covering));
        self.ranges[index] = Some(range);
        range
    }

    /// Whether the budget's status already counts this pod as disrupted.
    fn is_disrupted(&self, budget: usize, pod: &Pod) -> bool {
        self.honours_disrupted && self.budgets[budget].disrupted.contains(pod.name())
    }

    /// Counts a pod as evicted. Returns whether that violates a budget.
    #[inline]
    pub(crate) fn count(&mut self, pod: &Pod) -> bool {
        let mut broken = false;
        let range = self.range(pod);
        self.steps += STEPS_OF_BUDGET * (1 + range.len());
        for at in range {
            let index = self.covering[at] as usize;
            if !self.is_disrupted(index, pod) {
                self.left[index] = self.left[index].saturating_sub(1);
                broken |= self.left[index] < 0;
                self.touched.push(self.covering[at]);
            }
        }
        broken
    }

    /// Counts pods as evicted if that violates no budget. Returns whether they are counted.
    pub(crate) fn count_allowed<'p>(&mut self, mut pods: impl Iterator<Item = &'p Pod>) -> bool {
        let before = self.touched.len();
        let is_allowed = !pods.any(|pod| self.count(pod));
        if !is_allowed {
            // A pod that stays uses no budget.
            for index in self.touched.drain(before..) {
                self.left[index as usize] = self.left[index as usize].saturating_add(1);
            }
        }
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn budgets_are_compared_with_groups_that_have_victims_and_others_cost_nothing() {
        let mut cluster = Cluster::new();
        let node = json!({"metadata": {"name": "one"}});
        cluster.add_node(&from_value(node).unwrap());
        let mut add = |namespace: &str, name: &str| {
            let pod = json!({
                "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
                "spec": {"nodeName": "one"},
            });
            cluster.add_pod(from_value(pod).unwrap()).unwrap();
        };
        for number in 0..100 {
            add("mallory", &format!("m-{number}"));
        }
        add("shop", "web");
        let mut budget = |namespace: &str, name: &str, app: &str| {
            let budget = json!({
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"selector": {"matchLabels": {"app": app}}},
            });
            Budget::new(&mut cluster, &from_value(budget).unwrap()).unwrap()
        };
        let mut budgets: Vec<Budget> = (0..100)
            .map(|number| budget("mallory", &format!("b-{number}"), &format!("m-{number}")))
            .collect();
        budgets.push(budget("shop", "all", "web"));
        let mut usage = BudgetUsage::new(&cluster, &budgets, true);
        let of = |name: &str| {
            let pods = &cluster.node(cluster.find_node("one").unwrap()).pods;
            pods.iter().find(|pod| pod.name() == name).unwrap()
        };
        assert!(usage.count(of("web")));
        usage.reset();
        assert!(usage.count(of("web")));
        // Each budget is listed, one is compared, and it is counted twice.
        assert_eq!(usage.take_steps(), budgets.len() + 5 * STEPS_OF_BUDGET);
        assert!(usage.count(of("m-7")));
        assert_eq!(usage.take_steps(), (100 + 2) * STEPS_OF_BUDGET);
    }
}
