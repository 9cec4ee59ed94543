//! Runs all filters of one pod on one node after the other. A trial runs them as if some pods had left the node.

use crate::cluster::Cluster;
use crate::cost::{CHANGE, CHECK};
use crate::filter::{self, Filter, Here, Rejection};
use crate::id::NodeId;
use crate::interrupt::{INTERRUPTED, STEPS_OF_UNIT};
use crate::plugins;
use crate::pod::Pod;
use hashbrown::{HashMap, HashSet};

/// How many results pass between two looks at the interrupt, because most results take less time than a look.
const LOOK: u8 = 16;

/// The filters of one pod, compiled.
pub struct Checks<'c> {
    cluster: &'c Cluster,
    pod: &'c Pod,
    filters: Vec<Box<dyn Filter>>,
    /// Indices of the filters whose result depends on the pods of the node.
    changing: Vec<usize>,
    /// Indices of the changing filters that keep state between nodes. They must see the end of a trial.
    stateful: Vec<usize>,
    /// Pods that are nominated to a node and count as if they were there: those of equal or higher priority (S3-019), and all
    /// while the victims of this pod terminate.
    nominated: HashMap<NodeId, Vec<&'c Pod>>,
    /// For each pod of the node on trial, whether it is removed. Between trials no pod is.
    away: Vec<bool>,
    /// How many of them are removed.
    away_count: usize,
    /// The pods of other nodes that are removed.
    away_elsewhere: HashSet<(NodeId, usize)>,
    /// The index of the filter that rejected last.
    rejecting: usize,
    /// How many results remain until the next look at the interrupt.
    until_look: u8,
    /// How much the changing filters compare for each pod that is removed or put back, and each time that they are asked.
    comparisons: usize,
    /// The steps of trials that are not charged yet.
    steps: usize,
}

impl<'c> Checks<'c> {
    /// Compiles the filters of kube-scheduler's default profile for a pod of this cluster.
    pub fn new(cluster: &'c Cluster, pod: &'c Pod) -> Self {
        Self::with(cluster, pod, plugins::default_filters(cluster, pod))
    }

    /// Uses these filters, compiled for the pod, in this order.
    pub fn with(cluster: &'c Cluster, pod: &'c Pod, filters: Vec<Box<dyn Filter>>) -> Self {
        let those = |which: fn(&dyn Filter) -> bool| -> Vec<usize> {
            let all = filters.iter().enumerate();
            let some = all.filter(|(_, filter)| which(&***filter));
            some.map(|(index, _)| index).collect()
        };
        let (changing, stateful) = (
            those(|filter| filter.changes()),
            those(|filter| filter.keeps_state()),
        );
        let mut nominated: HashMap<NodeId, Vec<&Pod>> = HashMap::new();
        let awaited = cluster.node_of_ending_victims(pod);
        for other in cluster.nominated() {
            let itself = other.name() == pod.name()
                && cluster.template(other).namespace == cluster.template(pod).namespace;
            let name = other
                .identity
                .nominated
                .map(|name| cluster.symbols().text(name));
            // Only pods that are at least as important keep their room, as in kube-scheduler. But a pod that will soon have the room
            // that was made for it leaves others theirs: else they would preempt again.
            if let Some(id) = name.and_then(|name| cluster.find_node(name))
                && (other.priority >= pod.priority || awaited.is_some_and(|node| node != id))
                && !itself
            {
                nominated.entry(id).or_default().push(other);
            }
        }
        let template = cluster.template(pod);
        let comparisons = changing.len()
            + template.affinity.len()
            + template.anti_affinity.len()
            + template.spread.len();
        Self {
            cluster,
            pod,
            comparisons,
            changing,
            stateful,
            filters,
            nominated,
            away: Vec::new(),
            away_count: 0,
            away_elsewhere: HashSet::new(),
            rejecting: 0,
            until_look: 0,
            steps: 0,
        }
    }

    /// Counts work for the pod besides its filters.
    #[inline]
    pub fn count_steps(&mut self, steps: usize) {
        self.steps = self.steps.saturating_add(steps);
        if self.steps >= STEPS_OF_UNIT {
            self.charge_steps();
        }
    }

    #[cold]
    fn charge_steps(&mut self) {
        self.steps = self.cluster.interrupt().charge_steps(self.steps);
    }

    /// The cluster of the nodes.
    pub const fn cluster(&self) -> &'c Cluster {
        self.cluster
    }

    /// The pod to place.
    pub const fn pod(&self) -> &'c Pod {
        self.pod
    }

    /// The checks that lack an object in the input. Each line begins with the names of the checks.
    pub fn unchecked(&self) -> Vec<String> {
        filter::unchecked(self.cluster, self.pod)
    }

    /// The objects that keep the pod from every node, one line each: claims, their classes and volumes, holders of devices.
    pub fn blockers(&self) -> Vec<String> {
        filter::blockers::of(self.cluster, self.pod)
    }

    /// Returns the filters for reuse with [`Checks::with`].
    pub fn into_filters(self) -> Vec<Box<dyn Filter>> {
        self.filters
    }

    /// Runs the filters on a node. A rejection comes with the filter's index.
    pub fn verdict(&mut self, id: NodeId) -> Result<(), (usize, Rejection)> {
        let mut trial = self.on(id);
        let asked = trial.fits();
        asked.map_err(|rejection| (trial.checks.rejecting, rejection))
    }

    /// Runs the filters on a node.
    pub fn fits(&mut self, id: NodeId) -> Result<(), Rejection> {
        self.on(id).fits()
    }

    /// Counts pods of a node as evicted for the filters of other nodes. The node itself still counts them.
    pub fn assume_evicted(&mut self, id: NodeId, pods: &[usize]) {
        let here = Here::new(self.cluster, id);
        for index in &self.stateful {
            let filter = &mut self.filters[*index];
            filter.enter(here);
            for pod in pods {
                filter.change(here, &here.node.pods[*pod], -1);
            }
        }
    }

    /// From now on a pod that is removed gives back the devices that only removed pods use, as the controller of claims does
    /// after its end. Returns whether that can change the result of a filter.
    pub fn free_devices(&mut self) -> bool {
        let mut freeing = 0;
        for filter in &mut self.filters {
            freeing += usize::from(filter.free_devices(self.cluster));
        }
        let filters = self.filters.iter().enumerate();
        let changing = filters.filter(|(_, filter)| filter.changes());
        self.changing = changing.map(|(index, _)| index).collect();
        self.comparisons += freeing;
        freeing > 0
    }

    /// Starts a trial on a node.
    pub fn on(&mut self, id: NodeId) -> Trial<'_, 'c> {
        let here = Here::new(self.cluster, id);
        for filter in &mut self.filters {
            filter.enter(here);
        }
        // A trial is begun for every node, and most of them remove nothing: only the length changes.
        self.away.resize(here.node.pods.len(), false);
        Trial { checks: self, here }
    }

    /// Whether the attempt is interrupted, so that no filter runs any more.
    fn is_over(&mut self) -> bool {
        let interrupt = self.cluster.interrupt();
        // Reading the interrupt at every node would cost more than the filters of a simple pod.
        if self.until_look > 0 {
            self.until_look -= 1;
            return interrupt.is_raised();
        }
        self.until_look = LOOK;
        interrupt.look()
    }

    /// The messages of a rejection.
    pub fn messages(&self, rejection: Rejection) -> Vec<String> {
        filter::messages(self.cluster, self.pod, rejection.reason)
    }
}

/// A node from which pods are removed and put back to see whether the pod fits. Dropping it restores the node.
pub struct Trial<'t, 'c> {
    checks: &'t mut Checks<'c>,
    here: Here<'c>,
}

impl<'c> Trial<'_, 'c> {
    /// The cluster.
    pub const fn cluster(&self) -> &'c Cluster {
        self.here.cluster
    }

    /// The node.
    pub const fn node(&self) -> NodeId {
        self.here.id
    }

    /// The node's pods, the most important first. The trial names a pod by its index here.
    pub const fn pods(&self) -> &'c [Pod] {
        self.here.node.pods.as_slice()
    }

    /// The index in [`Trial::pods`] from which all pods are below a priority.
    pub fn first_below(&self, priority: i32) -> usize {
        self.here.node.first_below(priority)
    }

    /// Runs one filter alone.
    pub fn check(&self, filter: usize) -> Result<(), Rejection> {
        let filter = self.checks.filters.get(filter);
        filter.map_or(Ok(()), |filter| filter.check(self.here))
    }

    /// Whether a pod is removed.
    pub fn is_removed(&self, index: usize) -> bool {
        self.checks.away[index]
    }

    /// Removes a pod, unless it is removed already.
    pub fn remove(&mut self, index: usize) {
        // A pod that is away already must not be subtracted twice.
        if !std::mem::replace(&mut self.checks.away[index], true) {
            self.checks.away_count += 1;
            self.change(&self.here.node.pods[index], -1);
        }
    }

    /// Removes pods, each unless it is removed already.
    pub fn remove_all(&mut self, indices: impl Iterator<Item = usize>) {
        let (here, checks) = (self.here, &mut *self.checks);
        let mut removed = 0;
        for index in indices {
            if std::mem::replace(&mut checks.away[index], true) {
                continue;
            }
            removed += 1;
            for filter in &checks.changing {
                checks.filters[*filter].change(here, &here.node.pods[index], -1);
            }
        }
        checks.away_count += removed;
        let steps = CHANGE * checks.comparisons;
        checks.count_steps(steps.saturating_mul(removed));
    }

    /// Puts a removed pod back.
    pub fn put_back(&mut self, index: usize) {
        if std::mem::replace(&mut self.checks.away[index], false) {
            self.checks.away_count -= 1;
            self.change(&self.here.node.pods[index], 1);
        }
    }

    /// Removes pods of other nodes, unless they are removed already. Only filters that compare nodes notice it.
    pub fn remove_elsewhere(&mut self, pods: impl Iterator<Item = (NodeId, usize)>) {
        if self.checks.stateful.is_empty() {
            return;
        }
        let away = &mut self.checks.away_elsewhere;
        let changed: Vec<_> = pods.filter(|pod| away.insert(*pod)).collect();
        self.change_elsewhere(&changed, -1);
    }

    /// Puts back removed pods of other nodes.
    pub fn put_back_elsewhere(&mut self, pods: impl Iterator<Item = (NodeId, usize)>) {
        let away = &mut self.checks.away_elsewhere;
        let changed: Vec<_> = pods.filter(|pod| away.remove(pod)).collect();
        self.change_elsewhere(&changed, 1);
    }

    fn change_elsewhere(&mut self, pods: &[(NodeId, usize)], times: i64) {
        if pods.is_empty() {
            return;
        }
        let steps = CHANGE * self.checks.comparisons;
        self.checks.count_steps(steps.saturating_mul(pods.len()));
        let Checks {
            cluster,
            filters,
            stateful,
            ..
        } = &mut *self.checks;
        let pods: Vec<(NodeId, &Pod)> = pods
            .iter()
            .map(|(node, index)| (*node, &cluster.node(*node).pods[*index]))
            .collect();
        for index in stateful {
            filters[*index].change_elsewhere(&pods, times);
        }
    }

    fn forget_removed(&mut self) {
        let Checks {
            filters,
            stateful,
            away,
            ..
        } = &mut *self.checks;
        // Only these would miss the removed pods on the next node; the others start over when they enter it.
        for index in stateful {
            let away = self.here.node.pods.iter().zip(away.iter());
            for (pod, _) in away.filter(|(_, away)| **away) {
                filters[*index].change(self.here, pod, 1);
            }
        }
        away.fill(false);
        self.checks.away_count = 0;
    }

    fn change(&mut self, pod: &Pod, times: i64) {
        self.checks.count_steps(CHANGE * self.checks.comparisons);
        self.each_changing(|filter, here| filter.change(here, pod, times));
    }

    fn each_changing(&mut self, tell: impl Fn(&mut dyn Filter, Here<'c>)) {
        let Checks {
            filters, changing, ..
        } = &mut *self.checks;
        for index in changing {
            tell(&mut *filters[*index], self.here);
        }
    }

    /// Runs all filters.
    pub fn fits(&mut self) -> Result<(), Rejection> {
        // Without filters there is neither a filter to blame nor work to interrupt.
        if self.checks.is_over() && !self.checks.filters.is_empty() {
            self.checks.rejecting = 0;
            return Err(Rejection::unresolvable(INTERRUPTED));
        }
        self.twice(|checks, here| {
            let filters = checks.filters.iter().enumerate();
            let mut answers = filters.map(|(index, filter)| (index, filter.check(here)));
            let rejected = answers.find_map(|(index, answer)| Some((index, answer.err()?)));
            rejected.map_or(Ok(()), Err)
        })
        .map_err(|(index, rejection)| {
            self.checks.rejecting = index;
            rejection
        })
    }

    /// Runs the filters that depend on pods. The other filters cannot change after [`Trial::fits`] succeeded once.
    pub fn still_fits(&mut self) -> bool {
        let visits = self.checks.nominated.get(&self.here.id).map_or(0, Vec::len);
        let steps = CHECK * self.checks.comparisons * (1 + visits);
        self.checks.count_steps(steps);
        if self.checks.is_over() {
            return false;
        }
        self.twice(|checks, here| {
            let mut changing = checks.changing.iter();
            let accepts = changing.all(|index| checks.filters[*index].accepts(here));
            accepts.then_some(()).ok_or(())
        })
        .is_ok()
    }

    /// Runs the filters with and without the nominated pods, because those may come or not (S3-019).
    fn twice<E>(&mut self, ask: impl Fn(&Checks<'c>, Here<'c>) -> Result<(), E>) -> Result<(), E> {
        if !self.checks.nominated.is_empty()
            && let Some(coming) = self.checks.nominated.get(&self.here.id).cloned()
        {
            for pod in &coming {
                self.each_changing(|filter, here| filter.visit(here, pod));
            }
            // With the nominated pods, whose room must stay free; below without them, because affinity must not rely on pods
            // that may never come.
            let answer = ask(self.checks, self.here);
            for pod in &coming {
                self.each_changing(|filter, here| filter.end_visit(here, pod));
            }
            answer?;
        }
        ask(self.checks, self.here)
    }

    /// More detail on why the pod does not fit, where the rejection has less.
    pub fn obstacle(&self) -> Option<String> {
        let checks = &self.checks;
        let mut filters = checks.filters.iter();
        if let Some(filter) = filters.find(|filter| filter.check(self.here).is_err()) {
            return filter.obstacle(self.here, &|index| checks.away[index]);
        }
        let coming = checks.nominated.get(&self.here.id)?.iter();
        let named = coming.map(|pod| {
            let name = checks.cluster.full_name(pod);
            format!("{name} (priority {})", pod.priority)
        });
        let named = named.collect::<Vec<_>>().join(", ");
        Some(format!(
            "it has room only until {named} comes, nominated to it"
        ))
    }
}

impl Drop for Trial<'_, '_> {
    fn drop(&mut self) {
        if self.checks.away_count > 0 {
            self.forget_removed();
        }
        if !self.checks.away_elsewhere.is_empty() {
            // The last, because filters compare the nodes again then.
            let elsewhere: Vec<_> = self.checks.away_elsewhere.drain().collect();
            self.change_elsewhere(&elsewhere, 1);
        }
    }
}
