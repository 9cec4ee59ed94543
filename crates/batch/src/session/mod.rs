//! A scheduling session takes a snapshot of jobs, queues and nodes and runs the configured actions in order. It returns
//! the pods to bind and evict and the statuses to write (S6-087 to S6-142).
//!
//! It works on the scheduler's own [`Cluster`] with tentative placements and leaves it as it was. The caller carries
//! the [`Outcome`] out and updates the cluster.
//!
//! Where a file says nothing of the order among equals, the name decides; so a session with the same objects always comes
//! to the same end.
//!
//! ```
//! use evictd_batch::compat::Compat;
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
//! cache.node(&cluster, &two);
//! let outcome = cache.session(&mut cluster, &conf, Compat::EVICTD);
//! assert_eq!(outcome.binds["default/train-worker-0"], "one");
//! assert_eq!(outcome.binds["default/train-worker-1"], "two");
//! # Ok::<(), serde_json::Error>(())
//! ```

mod actions;
mod cache;
mod close;
mod diagnosis;
mod dispatch;
mod domains;
mod evaluate;
mod fit;
mod free_capacity;
mod gang;
mod known;
mod objects;
mod observer;
mod outcome;
mod packing;
mod parts;
mod plain;
mod plugins;
mod priority_queue;
mod reservation;
mod resource;
mod roles;
mod simulation;
mod snapshot;
mod task;
mod topology;
mod transaction;
mod turns;
mod upstream;
mod winner_tree;

pub use cache::Cache;
pub use diagnosis::{
    Ahead, BlockingReason, Feasibility, JobDiagnosis, MissingAmount, NearMiss, QueueUsage,
    ResourceUsage, RoleFeasibility, Shortfall,
};
pub use known::Known;
pub(crate) use objects::{GROUP, TASK_SPEC};
pub use objects::{Objects, Setting, reads_annotation};
pub use outcome::{
    Amounts, Event, Eviction, GroupCondition, GroupOutcome, JobShareOutcome, Outcome, PodCondition,
    QueueOutcome, Refused, UpstreamOutcome,
};

pub use plain::plain_job;
pub use simulation::simulate;
pub use turns::Turns;
pub use upstream::{upstream_job, upstream_job_of};

use crate::compat::Compat;
use crate::conf::{Action, Conf};
use evaluate::{Evaluator, View};
use evictd_placement::{Cluster, Statement};
use observer::Watch;
use plugins::Plugins;
use reservation::Reservation;
use snapshot::Snapshot;
use task::Status;
use topology::TopologyDomains;

/// A session under way.
pub(crate) struct Session<'c> {
    cluster: &'c mut Cluster,
    placement: Statement,
    conf: &'c Conf,
    compat: Compat,
    snapshot: Snapshot,
    plugins: Plugins,
    evaluator: Evaluator,
    /// Nodes that are reserved for a job that has waited long.
    reservation: Option<Reservation>,
    /// Domains of which groups have to be in one.
    domains: TopologyDomains,
    /// The nodes that changed, one after the other.
    log: Vec<usize>,
    /// Tasks that were placed or evicted, with their status before, in order.
    touched: Vec<(usize, Status)>,
    /// Tasks with their nodes.
    binds: Vec<(usize, usize)>,
    evicted: Vec<(usize, &'static str)>,
    events: Vec<Event>,
}

impl<'c> Session<'c> {
    /// Runs a session; the snapshot is given back as it was.
    fn run(
        cluster: &'c mut Cluster,
        mut snapshot: Snapshot,
        conf: &'c Conf,
        compat: Compat,
        watch: &mut impl Watch,
    ) -> (Snapshot, Outcome) {
        snapshot.note_freed(cluster);
        snapshot.set_priorities(compat);
        let mut session = Session {
            placement: Statement::default(),
            conf,
            compat,
            plugins: Plugins::open(&snapshot, conf, compat),
            evaluator: Evaluator::new(&conf.tiers, &snapshot),
            reservation: None,
            domains: TopologyDomains::default(),
            log: Vec::new(),
            touched: Vec::new(),
            binds: Vec::new(),
            evicted: Vec::new(),
            events: Vec::new(),
            snapshot,
            cluster,
        };
        let mut outcome = Outcome::default();
        session.report_open(&mut outcome);
        watch.opened(&session);
        session.reserve();
        session.act(watch);
        session.report_actions(&mut outcome);
        session.close(&mut outcome);
        outcome.again_at = session
            .reservation
            .as_ref()
            .map(|reservation| reservation.until);
        watch.closed(&mut session);
        (session.leave(), outcome)
    }
}

impl Session<'_> {
    /// Takes the actions in their order.
    fn act(&mut self, watch: &mut impl Watch) {
        for action in &self.conf.actions {
            match action {
                Action::Enqueue => self.enqueue(),
                Action::Allocate => self.allocate(),
                Action::Backfill => self.backfill(),
                Action::Preempt => self.preempt(),
                Action::Reclaim => self.reclaim(),
            }
            watch.acted(self, *action);
        }
    }

    /// The node evaluation, and the state that it reads.
    fn evaluation(&mut self) -> (&mut Evaluator, View<'_>) {
        let view = View {
            cluster: self.cluster,
            snapshot: &self.snapshot,
            log: self.log.as_slice(),
            domains: &self.domains,
            reserved: self
                .reservation
                .as_ref()
                .map_or(&[], |reservation| reservation.nodes.as_slice()),
        };
        (&mut self.evaluator, view)
    }

    /// Records an event of a pod group.
    fn group_event(&mut self, job: usize, kind: &str, reason: &str, message: String) {
        let job = &self.snapshot.jobs[job];
        // Groups of scheduling.k8s.io and bare pods are described by their conditions alone.
        if job.has_object() {
            let event = Event::new("PodGroup", &job.key, kind, reason, message);
            self.events.push(event);
        }
    }
}
