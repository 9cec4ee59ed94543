//! Why a job waits, was preempted or runs in part, and the soonest way to start it.
//!
//! Nothing is decided here: a session runs on the cluster as it is, and a diagnosis of the job is recorded. Each
//! proposed change was applied and sessions were run again until they started the job.
//!
//! ```
//! use evictd_batch_objects::Compat;
//! use evictd_batch::conf::Conf;
//! use evictd_batch::session::{Objects, Setting};
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
//!     compat: Compat::EVICTD,
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
mod completion;
mod forecast;
mod history;
mod lifetime;
mod messages;
mod node_changes;
mod queue_changes;
mod search;
mod subject;
mod unknown;
mod what_if;

pub use answer::{Answer, State};
pub use change::Change;
pub use history::Event;
pub use search::{Proposal, Tried};
pub use unknown::Unknown;

use crate::conf::Conf;
use crate::session::{Objects, Setting};
use evictd_batch_objects::{Compat, Difference, Job};
use evictd_placement::Cluster;
use std::sync::Arc;
use subject::Subject;
use what_if::WhatIf;

/// A cluster's objects, and the options of its scheduler.
pub struct Case<'a> {
    /// A cluster with namespaces, claims, volumes and other objects that filters read; without nodes and pods.
    pub cluster: Cluster,
    /// Nodes, pods, pod groups, queues and priority classes. A configuration among them is ignored.
    pub objects: Objects,
    /// Jobs.
    pub jobs: Vec<Job>,
    /// Events of evictions.
    pub events: Vec<Event>,
    /// The scheduler's name, and the queue of jobs that name none.
    pub setting: Setting,
    /// The configuration of the scheduler.
    pub conf: &'a Conf,
    /// How it decides.
    pub compat: Compat,
}

impl Case<'_> {
    /// Why the job of this name waits: a Job, a `PodGroup`, a pod, or the owner of pods.
    pub fn why(self, namespace: &str, name: &str) -> Result<Answer, Unknown> {
        let Self {
            cluster,
            objects,
            jobs,
            events,
            setting,
            conf,
            compat,
        } = self;
        // Which pods are jobs is a matter of the form.
        let setting = Setting {
            plain_pods: compat.has(Difference::BarePods),
            ..setting
        };
        let jobs: Vec<Arc<Job>> = jobs.into_iter().map(Arc::new).collect();
        let mut what_if = WhatIf::new(cluster, objects, setting.clone(), (conf, compat));
        let subject = Subject::find(&what_if, &jobs, (namespace, name))?;
        let mut answer = cause::answer(&mut what_if, &subject, &setting);
        answer.history = history::of(&what_if, &subject, &events);
        Ok(answer)
    }
}
