//! One session: it looks at jobs, queues and nodes, takes the actions of the configuration in their order, and says at
//! its end what is to be bound, evicted and written (S6-087 to S6-142).
//!
//! It works on the scheduler's own [`Cluster`] with tentative placements and leaves it as it found it, so that whoever
//! carries the [`Outcome`] out tells the cluster of what really happened.
//!
//! Where a file says nothing of the order among equals, the name decides; so a session with the same objects always comes
//! to the same end.
//!
//! ```
//! use evictd_batch::conf::Conf;
//! use evictd_batch::session::{Cache, Form, Objects, Setting};
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
//! let outcome = cache.session(&mut cluster, &conf, &Form::default());
//! assert!(outcome.bound.is_empty());
//! assert_eq!(outcome.phases["default/train"], "Pending");
//!
//! // With another node both are.
//! let two = serde_json::json!({"metadata": {"name": "two"}, "status": {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "10"}}});
//! let two = serde_json::from_value(two)?;
//! cluster.add_node(&two);
//! cache.node(&cluster, &two);
//! let outcome = cache.session(&mut cluster, &conf, &Form::default());
//! assert_eq!(outcome.binds["default/train-worker-0"], "one");
//! assert_eq!(outcome.binds["default/train-worker-1"], "two");
//! # Ok::<(), serde_json::Error>(())
//! ```

mod actions;
mod cache;
mod close;
mod closeup;
mod dispatch;
mod domains;
mod fit;
mod form;
mod gang;
mod judge;
mod known;
mod model;
mod objects;
mod order;
mod outcome;
mod packing;
mod parts;
mod plain;
mod plugins;
mod reservation;
mod resource;
mod rooms;
mod simulation;
mod statement;
mod task;
mod tournament;
mod turns;
mod upstream;
mod watch;
mod within;

pub use cache::Cache;
pub use closeup::{
    Ahead, Closeup, Hold, Lack, NearNode, Places, QueueStand, RolePlaces, Scarce, Stand,
};
pub use form::Form;
pub use known::Known;
pub(crate) use objects::{GROUP, TASK_SPEC};
pub use objects::{Objects, Setting, reads_annotation};
pub use outcome::{
    Amounts, Event, Eviction, GroupOutcome, JobShareOutcome, Outcome, PodCondition, QueueOutcome,
    Refused, Said, UpstreamOutcome,
};

pub use plain::plain_job;
pub use simulation::simulate;
pub use turns::Turns;
pub use upstream::{upstream_job, upstream_job_of};

use crate::conf::{Action, Conf};
use evictd_placement::{Cluster, Statement};
use judge::{Judge, View};
use model::Model;
use plugins::Plugins;
use reservation::Reservation;
use task::Status;
use watch::Watch;
use within::KnownDomains;

/// A session under way.
pub(crate) struct Session<'c> {
    cluster: &'c mut Cluster,
    placement: Statement,
    conf: &'c Conf,
    form: &'c Form,
    model: Model,
    plugins: Plugins,
    judge: Judge,
    /// Nodes that are kept for a job that has waited long.
    reservation: Option<Reservation>,
    /// Domains of which groups have to be in one.
    domains: KnownDomains,
    /// The nodes that changed, one after the other.
    log: Vec<usize>,
    /// Tasks that were put somewhere or sent away, with what they were before, in the order in which that was done.
    touched: Vec<(usize, Status)>,
    /// Tasks with their nodes.
    binds: Vec<(usize, usize)>,
    evicted: Vec<(usize, &'static str)>,
    events: Vec<Event>,
}

impl<'c> Session<'c> {
    /// Runs a session; the model is given back as it was.
    fn run(
        cluster: &'c mut Cluster,
        mut model: Model,
        conf: &'c Conf,
        form: &'c Form,
        watch: &mut impl Watch,
    ) -> (Model, Outcome) {
        model.note_freed(cluster);
        model.set_priorities(form);
        let mut session = Session {
            placement: Statement::default(),
            conf,
            form,
            plugins: Plugins::open(&model, conf, form),
            judge: Judge::new(&conf.tiers, &model),
            reservation: None,
            domains: KnownDomains::default(),
            log: Vec::new(),
            touched: Vec::new(),
            binds: Vec::new(),
            evicted: Vec::new(),
            events: Vec::new(),
            model,
            cluster,
        };
        let mut outcome = Outcome::default();
        session.report_open(&mut outcome);
        watch.opened(&session);
        session.reserve();
        session.act(watch);
        session.report_actions(&mut outcome);
        session.close(&mut outcome);
        outcome.again_at = session.reservation.as_ref().map(|own| own.until);
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

    /// Who is asked about nodes, and what is looked at.
    fn asking(&mut self) -> (&mut Judge, View<'_>) {
        let view = View {
            cluster: self.cluster,
            model: &self.model,
            log: self.log.as_slice(),
            domains: &self.domains,
            kept: self
                .reservation
                .as_ref()
                .map_or(&[], |own| own.nodes.as_slice()),
        };
        (&mut self.judge, view)
    }

    /// Something that is told of a pod group.
    fn group_event(&mut self, job: usize, kind: &str, reason: &str, message: String) {
        let own = &self.model.jobs[job];
        // A group of scheduling.k8s.io is told everything by its conditions, and so is a pod that is a job of its own.
        if own.has_object() {
            let event = Event::new("PodGroup", &own.key, kind, reason, message);
            self.events.push(event);
        }
    }
}
