//! Why a job waits, was preempted or runs in part, and what would start it soonest.
//!
//! Nothing is decided here: a session is run on the cluster as it is, the job is looked at closely meanwhile, and each
//! change that is proposed was made and sessions were run again until they started the job.
//!
//! ```
//! use evictd_batch::conf::Conf;
//! use evictd_batch::session::{Form, Objects, Setting};
//! use evictd_batch::why::{Case, State};
//! use evictd_placement::Cluster;
//!
//! let objects: Objects = serde_json::from_value(serde_json::json!({
//!     "nodes": [{"metadata": {"name": "one"}, "status": {"allocatable": {"cpu": "1", "memory": "8Gi", "pods": "10"}}}],
//!     "queues": [{"metadata": {"name": "default"}, "spec": {"weight": 1}, "status": {"state": "Open"}}],
//!     "podGroups": [{"metadata": {"name": "train"}, "spec": {"minMember": 1}, "status": {"phase": "Inqueue"}}],
//!     "pods": [{
//!         "metadata": {"name": "train-0", "annotations": {"scheduling.k8s.io/group-name": "train"}},
//!         "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]},
//!         "status": {"phase": "Pending"},
//!     }],
//! }))?;
//! let case = Case {
//!     cluster: Cluster::new(),
//!     objects,
//!     jobs: Vec::new(),
//!     events: Vec::new(),
//!     setting: Setting::default(),
//!     conf: &Conf::read("").expect("the built-in one"),
//!     form: &Form::default(),
//! };
//! let answer = case.why("default", "train").expect("it is there");
//! assert_eq!(answer.state, State::Waits);
//! assert_eq!(answer.headline, "train waits: its pod fits on no node (too little cpu on the only node)");
//! assert_eq!(answer.soonest[0].words, "node one has 2 more cpu");
//! # Ok::<(), serde_json::Error>(())
//! ```

mod answer;
mod cause;
mod change;
mod ends;
mod history;
mod life;
mod limits;
mod made;
mod play;
mod rooms;
mod search;
mod subject;
mod unknown;
mod words;
mod world;

pub use answer::{Answer, State};
pub use change::Change;
pub use history::Event;
pub use search::Proposal;
pub use unknown::Unknown;

use crate::conf::Conf;
use crate::session::{Form, Objects, Setting};
use crate::wire::Job;
use evictd_placement::Cluster;
use std::sync::Arc;
use subject::Subject;
use world::World;

/// What is known of a cluster, and by which rules its scheduler decides.
pub struct Case<'a> {
    /// Namespaces, claims, volumes and whatever else decides where pods may be; neither nodes nor pods.
    pub cluster: Cluster,
    /// Nodes, pods, pod groups, queues and priority classes. What it says of the configuration does not count.
    pub objects: Objects,
    /// Jobs.
    pub jobs: Vec<Job>,
    /// Events of evictions.
    pub events: Vec<Event>,
    /// Whose pods are placed, and where jobs go that name no queue.
    pub setting: Setting,
    /// The configuration of the scheduler.
    pub conf: &'a Conf,
    /// How it decides.
    pub form: &'a Form,
}

impl Case<'_> {
    /// Why the job of this name waits: a Job, a `PodGroup`, a pod, or whoever owns pods.
    pub fn why(self, namespace: &str, name: &str) -> Result<Answer, Unknown> {
        let Self {
            cluster,
            objects,
            jobs,
            events,
            setting,
            conf,
            form,
        } = self;
        // Which pods are jobs is a matter of the form.
        let setting = Setting {
            plain_pods: form.plain_pods,
            ..setting
        };
        let jobs: Vec<Arc<Job>> = jobs.into_iter().map(Arc::new).collect();
        let mut world = World::new(cluster, objects, setting.clone(), (conf, form));
        let subject = Subject::find(&world, &jobs, (namespace, name))?;
        let mut answer = cause::answer(&mut world, &subject, &setting);
        answer.history = history::of(&world, &subject, &events);
        Ok(answer)
    }
}
