//! A scheduling session takes a snapshot of jobs, queues and nodes and runs the configured actions in order. It returns
//! the pods to bind and evict and the statuses to write (S6-087 to S6-142).
//!
//! It works on the scheduler's own [`Cluster`] with tentative placements and leaves it as it was. The caller carries
//! the [`Outcome`] out and updates the cluster.
//!
//! Where Volcano's order among equals is open, the name decides. So a session with the same objects always has the same
//! outcome.
//!
//! ```
//! use evictd_batch_objects::Compat;
//! use evictd_batch::conf::Conf;
//! use evictd_batch::session::{Cache, Objects, Setting};
//! use evictd_placement::Cluster;
//!
//! let pod = |name: &str| {
//!     serde_json::json!({
//!         "metadata": {"name": name, "uid": name, "annotations": {"scheduling.k8s.io/group-name": "train"}},
//!         "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]},
//!         "status": {"phase": "Pending"},
//!     })
//! };
//! let objects: Objects = serde_json::from_value(serde_json::json!({
//!     "nodes": [{"metadata": {"name": "one"}, "status": {"allocatable": {"cpu": "3", "memory": "8Gi", "pods": "10"}}}],
//!     "queues": [{"metadata": {"name": "default"}, "spec": {"weight": 1}, "status": {"state": "Open"}}],
//!     "podGroups": [{"metadata": {"name": "train"}, "spec": {"minMember": 2}}],
//!     "pods": [pod("train-worker-0"), pod("train-worker-1")],
//! }))?;
//! let mut cluster = Cluster::new();
//! cluster.add_node(&objects.nodes[0]);
//! let mut cache = Cache::of(&mut cluster, &objects, Setting::default());
//!
//! // Only one of the two fits, so that the job is not let in.
//! let conf = Conf::read("").expect("the built-in one");
//! let outcome = cache.session(&mut cluster, &conf, Compat::EVICTD);
//! assert!(outcome.bound.is_empty());
//! assert_eq!(outcome.phases["default/train"], "Pending");
//!
//! // With another node both are.
//! let two = serde_json::json!({"metadata": {"name": "two"}, "status": {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "10"}}});
//! let two = serde_json::from_value(two)?;
//! cluster.add_node(&two);
//! let outcome = cache.session(&mut cluster, &conf, Compat::EVICTD);
//! assert_eq!(outcome.binds["default/train-worker-0"], "one");
//! assert_eq!(outcome.binds["default/train-worker-1"], "two");
//! # Ok::<(), serde_json::Error>(())
//! ```

mod actions;
mod cache;
mod close;
pub(crate) mod coscheduling;
mod diagnosis;
mod domain_search;
mod evaluate;
mod eviction_kind;
mod extender_calls;
mod free_capacity;
mod gang;
mod known;
mod objects;
mod observer;
mod outcome;
mod packing;
mod plain;
mod plugins;
mod pod_id;
mod predicates;
mod priority_queue;
mod reservation;
mod simulation;
mod snapshot;
mod topology;
mod transaction;
mod turns;

pub use cache::Cache;
pub use coscheduling::Coscheduling;
pub use diagnosis::{
    Ahead, BlockingReason, Feasibility, JobDiagnosis, LimitingKey, MissingAmount, NearMiss,
    QueueUsage, ResourceUsage, RoleFeasibility, Shortfall,
};
pub use eviction_kind::EvictionKind;
pub use extender_calls::ExtenderCalls;
pub use known::{GroupWrite, Known};
pub use objects::{Objects, Setting, reads_annotation};
pub use outcome::{
    Amounts, Event, Eviction, GroupOutcome, HyperNodeOutcome, JobGroupOutcome, JobShareOutcome,
    NumaAssignment, ObjectKind, Outcome, PodCondition, QueueOutcome, QueueTreeOutcome, Refused,
    UpstreamOutcome,
};

pub use pod_id::PodId;
pub use simulation::simulate;
pub use snapshot::upstream::{upstream_job, upstream_job_of};
pub use turns::Turns;

use crate::conf::{Action, Conf};
use evaluate::{Evaluator, View};
use evictd_batch_objects::{Compat, Difference};
use evictd_placement::Cluster;
use observer::Observer;
use plugins::Plugins;
use reservation::Reservation;
use snapshot::ids::QueueId;
use snapshot::{Dequeue, Snapshot};
use topology::TopologyDomains;
use transaction::Transaction;

/// A session under way.
pub(crate) struct Session<'c> {
    tx: Transaction<'c>,
    conf: &'c Conf,
    evaluator: Evaluator,
    /// Nodes that are reserved for a job that has waited long.
    reservation: Option<Reservation>,
    topology: TopologyDomains,
    /// Whether action allocate comes after the current one.
    allocates_later: bool,
}

impl<'c> Session<'c> {
    /// Runs a session; the snapshot is returned as it was.
    fn run(
        cluster: &'c mut Cluster,
        mut snapshot: Snapshot,
        conf: &'c Conf,
        compat: Compat,
        observer: &mut impl Observer,
    ) -> (Snapshot, Outcome) {
        // Both depend on the state before any action, so they are computed first.
        snapshot.note_freed(cluster);
        snapshot.set_priorities(compat);
        snapshot.open_topologies(cluster, compat);
        let plugins = Plugins::open(&snapshot, cluster, conf, compat);
        let mut session = Session {
            conf,
            evaluator: Evaluator::new(&conf.tiers, &snapshot),
            reservation: None,
            topology: TopologyDomains::new(&snapshot.hyper_nodes),
            allocates_later: false,
            tx: Transaction::new(cluster, snapshot, plugins, compat),
        };
        let mut outcome = Outcome::default();
        close::report_open(&session.tx, observer.lists_groups(), &mut outcome);
        // The observer sees the state before nodes are reserved, as the report does.
        observer.opened(&session);
        reservation::reserve(&mut session);
        session.act(observer);
        close::report_actions(&session.tx, &mut outcome);
        outcome.reserved_free = close::reserved_free(&session);
        close::close(&mut session, &mut outcome);
        outcome.again_at = session
            .reservation
            .as_ref()
            .map(|reservation| reservation.until);
        if session.tx.plugins.close() {
            outcome.again_at = Some(session.tx.snapshot.clock());
        }
        observer.closed(&mut session);
        (session.tx.undo(), outcome)
    }
}

impl Session<'_> {
    /// Runs the configured actions in order.
    fn act(&mut self, observer: &mut impl Observer) {
        let first = self
            .conf
            .actions
            .iter()
            .position(|action| action.takes_room());
        for (at, action) in self.conf.actions.iter().enumerate() {
            self.allocates_later = self.conf.actions[at + 1..].contains(&Action::Allocate);
            if self.allocates_later && first == Some(at) {
                actions::allocate_nominated(self);
            }
            match action {
                Action::Enqueue => actions::enqueue(self),
                Action::Allocate => actions::allocate(self),
                Action::Backfill => actions::backfill(self),
                Action::Preempt => actions::preempt(self),
                Action::Reclaim => actions::reclaim(self),
                Action::GangPreempt => actions::gang_preempt(self),
                Action::GangReclaim => actions::gang_reclaim(self),
                Action::Shuffle => actions::shuffle(self),
            }
            observer.acted(self, *action);
        }
    }

    /// The node evaluation, and the state that it reads.
    fn evaluation(&mut self) -> (&mut Evaluator, View<'_>) {
        let reservation = self.reservation.as_ref();
        let view = View {
            cluster: self.tx.cluster,
            snapshot: &self.tx.snapshot,
            plugins: &self.tx.plugins,
            log: self.tx.changed_nodes.as_slice(),
            domains: &self.topology,
            reserved: reservation.map_or(&[], |reservation| reservation.nodes.as_slice()),
        };
        (&mut self.evaluator, view)
    }

    /// Whether the jobs of a queue wait behind one that cannot start (`dequeueStrategy: fifo`).
    fn is_fifo(&self, queue: QueueId) -> bool {
        self.tx.compat.has(Difference::StrictFifo)
            && self.tx.snapshot.queues[queue].dequeue == Dequeue::Fifo
    }

    /// Whether a job needs a place on nodes to be enqueued.
    fn checks_placement(&self) -> bool {
        let arguments = self.conf.arguments_of(Action::Enqueue);
        let enabled = arguments.is_none_or(|arguments| arguments.boolean("placementEnable", true));
        self.tx.compat.has(Difference::EnqueueWhatFits) && enabled
    }
}
