//! All checks of one pod, asked of one node after the other, as it is or as it would be without some of its pods.

use crate::cluster::Cluster;
use crate::filter::{self, Filter, Here, Rejection};
use crate::id::NodeId;
use crate::interrupt::INTERRUPTED;
use crate::plugins;
use crate::pod::Pod;
use hashbrown::HashMap;

/// After so many answers it is asked whether the attempt is to end. Most answers take less time than that question.
const LOOK: u8 = 16;

/// Every check that concerns one pod.
pub struct Checks<'c> {
    cluster: &'c Cluster,
    pod: &'c Pod,
    filters: Vec<Box<dyn Filter>>,
    /// Of `filters`, those whose answer pods that come or go can change.
    changing: Vec<usize>,
    /// Of these, those that must know at the end that everybody is back.
    remembering: Vec<usize>,
    /// Pods of equal or higher priority that a node is being freed for: they count as if they were there already
    /// (S3-019), if the scheduler itself has tried them. It says so together with the nomination (S4-002), and one that
    /// it does not have in its queue counts for nothing there.
    nominated: HashMap<NodeId, Vec<&'c Pod>>,
    /// Which of the pods of the node on trial have left.
    away: Vec<bool>,
    /// Which of the filters rejected last.
    rejecting: usize,
    /// How many answers are given before it is asked whether the attempt is to end.
    until_look: u8,
}

impl<'c> Checks<'c> {
    /// Compiles the checks of a pod of this cluster: those of kube-scheduler's default profile.
    pub fn new(cluster: &'c Cluster, pod: &'c Pod) -> Self {
        let filters = plugins::default_filters(cluster, pod);
        let mut checks = Self::with(cluster, pod, filters);
        // A dump shows whom the scheduler has tried only by the pod's condition.
        checks.nominated.retain(|_, pods| {
            pods.retain(|pod| pod.identity.tried);
            !pods.is_empty()
        });
        checks
    }

    /// The same with these filters, compiled for the pod, in the order in which they are asked. All nominated pods are the
    /// scheduler's own.
    pub fn with(cluster: &'c Cluster, pod: &'c Pod, filters: Vec<Box<dyn Filter>>) -> Self {
        let those = |which: fn(&dyn Filter) -> bool| -> Vec<usize> {
            let all = filters.iter().enumerate();
            let some = all.filter(|(_, filter)| which(&***filter));
            some.map(|(index, _)| index).collect()
        };
        let (changing, remembering) = (
            those(|filter| filter.changes()),
            those(|filter| filter.remembers()),
        );
        let mut nominated: HashMap<NodeId, Vec<&Pod>> = HashMap::new();
        for other in cluster.nominated() {
            let itself = other.name() == pod.name()
                && cluster.template(other).namespace == cluster.template(pod).namespace;
            let name = other
                .identity
                .nominated
                .map(|name| cluster.symbols().text(name));
            if let Some(id) = name.and_then(|name| cluster.find_node(name))
                && other.priority >= pod.priority
                && !itself
            {
                nominated.entry(id).or_default().push(other);
            }
        }
        Self {
            cluster,
            pod,
            changing,
            remembering,
            filters,
            nominated,
            away: Vec::new(),
            rejecting: 0,
            until_look: 0,
        }
    }

    /// The cluster that is asked.
    pub const fn cluster(&self) -> &'c Cluster {
        self.cluster
    }

    /// The pod that is to be placed.
    pub const fn pod(&self) -> &'c Pod {
        self.pod
    }

    /// What could not be checked because the cluster was not told of it, a line each that begins with
    /// the names of the checks.
    pub fn unchecked(&self) -> Vec<String> {
        filter::unchecked(self.cluster, self.pod)
    }

    /// The filters, to be used again with [`Checks::with`].
    pub fn into_filters(self) -> Vec<Box<dyn Filter>> {
        self.filters
    }

    /// Whether the pod fits on a node as it is, and if not, which of the filters says so, by its index.
    pub fn verdict(&mut self, id: NodeId) -> Result<(), (usize, Rejection)> {
        let mut trial = self.on(id);
        let asked = trial.fits();
        asked.map_err(|rejection| (trial.checks.rejecting, rejection))
    }

    /// Whether the pod fits on a node as it is.
    pub fn fits(&mut self, id: NodeId) -> Result<(), Rejection> {
        self.on(id).fits()
    }

    /// Lets some pods of a node count no more on other nodes, whose checks look beyond themselves; the node itself goes on
    /// counting them.
    pub fn forget(&mut self, id: NodeId, pods: &[usize]) {
        let here = Here::new(self.cluster, id);
        for index in &self.remembering {
            let filter = &mut self.filters[*index];
            filter.enter(here);
            for pod in pods {
                filter.change(here, &here.node.pods[*pod], -1);
            }
        }
    }

    /// Tries what would be on a node.
    pub fn on(&mut self, id: NodeId) -> Trial<'_, 'c> {
        let here = Here::new(self.cluster, id);
        for filter in &mut self.filters {
            filter.enter(here);
        }
        self.away.clear();
        self.away.resize(here.node.pods.len(), false);
        Trial { checks: self, here }
    }

    /// Whether no check is asked any more.
    fn is_over(&mut self) -> bool {
        let interrupt = self.cluster.interrupt();
        if self.until_look > 0 {
            self.until_look -= 1;
            return interrupt.is_raised();
        }
        self.until_look = LOOK;
        interrupt.look()
    }

    /// The words of a rejection.
    pub fn words(&self, rejection: Rejection) -> Vec<String> {
        filter::words(self.cluster, self.pod, rejection.reason)
    }
}

/// A node from which pods are taken, and put back, to see whether the pod would fit. At its end everything is back.
pub struct Trial<'t, 'c> {
    checks: &'t mut Checks<'c>,
    here: Here<'c>,
}

impl<'c> Trial<'_, 'c> {
    /// The node's pods, the most important first; their indices name them here.
    pub const fn pods(&self) -> &'c [Pod] {
        self.here.node.pods.as_slice()
    }

    /// The pods below a priority: the end of [`Trial::pods`], from this index on.
    pub fn first_below(&self, priority: i32) -> usize {
        self.here.node.first_below(priority)
    }

    /// Takes a pod away, if it is there.
    pub fn remove(&mut self, index: usize) {
        if !std::mem::replace(&mut self.checks.away[index], true) {
            self.change(&self.here.node.pods[index], -1);
        }
    }

    /// Puts a pod back, if it is away.
    pub fn put_back(&mut self, index: usize) {
        if std::mem::replace(&mut self.checks.away[index], false) {
            self.change(&self.here.node.pods[index], 1);
        }
    }

    fn change(&mut self, pod: &Pod, times: i64) {
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

    /// Whether the pod fits now, asking every check.
    pub fn fits(&mut self) -> Result<(), Rejection> {
        // Without a filter there is none to say so, and nothing that takes time.
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

    /// Whether the pod fits now, after [`Trial::fits`] has once said that it did: checks that pods cannot change are
    /// not asked again.
    pub fn still_fits(&mut self) -> bool {
        if self.checks.is_over() {
            return false;
        }
        self.twice(|checks, here| {
            let mut changing = checks.changing.iter();
            changing.try_for_each(|index| {
                let answer = checks.filters[*index].check(here);
                answer.map_err(|rejection| (*index, rejection))
            })
        })
        .is_ok()
    }

    /// Asks with and then without the pods that the node is being freed for: the first because they may come, the second
    /// because they may not (S3-019).
    fn twice(
        &mut self,
        ask: impl Fn(&Checks<'c>, Here<'c>) -> Result<(), (usize, Rejection)>,
    ) -> Result<(), (usize, Rejection)> {
        if !self.checks.nominated.is_empty()
            && let Some(coming) = self.checks.nominated.get(&self.here.id).cloned()
        {
            for pod in &coming {
                self.each_changing(|filter, here| filter.visit(here, pod));
            }
            let answer = ask(self.checks, self.here);
            for pod in &coming {
                self.each_changing(|filter, here| filter.end_visit(here, pod));
            }
            answer?;
        }
        ask(self.checks, self.here)
    }

    /// What keeps the pod away now, in figures and names where more can be said than in the rejection.
    pub fn obstacle(&self) -> Option<String> {
        let checks = &self.checks;
        let mut filters = checks.filters.iter();
        let filter = filters.find(|filter| filter.check(self.here).is_err())?;
        filter.obstacle(self.here, &|index| checks.away[index])
    }
}

impl Drop for Trial<'_, '_> {
    fn drop(&mut self) {
        let Checks {
            filters,
            remembering,
            away,
            ..
        } = &mut *self.checks;
        for index in remembering {
            let away = self.here.node.pods.iter().zip(away.iter());
            for (pod, _) in away.filter(|(_, away)| **away) {
                filters[*index].change(self.here, pod, 1);
            }
        }
    }
}
