//! The jobs that wait in the same queue and come first.

use crate::conf::PluginName;
use crate::session::Session;
use crate::session::snapshot::{COMPLETED, Job};
use crate::session::task::Status;
use serde::Serialize;

/// A job that comes first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ahead {
    /// Its pod group, `namespace/name`.
    pub pod_group: String,
    /// The plugin by whose rule it comes first; absent where only their age or their names decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<&'static str>,
    /// Why, for people.
    pub why: String,
    /// The priority of its class.
    pub priority: i32,
    /// How many of its pods wait.
    pub waiting: i32,
}

fn waits(job: &Job) -> bool {
    job.phase != COMPLETED && (job.is_pending() || job.count(Status::Pending) > 0)
}

impl Session<'_> {
    /// The jobs that come before one, as the session finds them.
    pub(super) fn ahead_of(&self, job: usize) -> Vec<Ahead> {
        let queue = self.snapshot.jobs[job].queue;
        let others = self.snapshot.live_jobs();
        let others = others.filter(|(other, other_job)| {
            *other != job
                && other_job.queue == queue
                && waits(other_job)
                && self.job_before(*other, job)
        });
        let mut others: Vec<usize> = others.map(|(other, _)| other).collect();
        // The order is not a total one for every configuration.
        let count = |one: usize| {
            let before = others.iter().filter(|other| self.job_before(**other, one));
            before.count()
        };
        let mut counted: Vec<(usize, usize)> =
            others.iter().map(|other| (count(*other), *other)).collect();
        counted.sort_by_key(|(count, other)| (*count, &self.snapshot.jobs[*other].key));
        others = counted.into_iter().map(|(_, other)| other).collect();
        others
            .into_iter()
            .map(|other| self.ahead(other, job))
            .collect()
    }

    fn ahead(&self, other: usize, job: usize) -> Ahead {
        let (theirs, ours) = (&self.snapshot.jobs[other], &self.snapshot.jobs[job]);
        let plugin = self.job_rule(other, job).map(|(plugin, _)| plugin);
        let why = match plugin {
            Some(PluginName::Priority) => {
                format!("priority {} against {}", theirs.priority, ours.priority)
            }
            Some(PluginName::Gang) if self.is_broken(theirs) => {
                "its gang runs in part, and is completed first".to_owned()
            }
            Some(PluginName::Gang) => "its gang is not complete, and this one's is".to_owned(),
            Some(PluginName::Drf) => self.by_drf(other, job),
            Some(plugin) => format!("plugin {} says so", plugin.as_str()),
            None if theirs.created == ours.created => {
                "made at the same time; the names decide".to_owned()
            }
            None => "made earlier".to_owned(),
        };
        Ahead {
            pod_group: theirs.key.to_string(),
            plugin: plugin.map(PluginName::as_str),
            why,
            priority: theirs.priority,
            waiting: theirs.count(Status::Pending),
        }
    }

    fn by_drf(&self, other: usize, job: usize) -> String {
        let Some(drf) = &self.plugins.drf else {
            return String::new();
        };
        if drf.compare_namespaces(&self.snapshot, other, job).is_lt() {
            return "its namespace holds less".to_owned();
        }
        format!(
            "it holds {:.1} % of the cluster against {:.1} %",
            drf.share(other) * 100.0,
            drf.share(job) * 100.0
        )
    }
}
