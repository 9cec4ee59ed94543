//! The calls of a sync, their answers, and the objects that syncs are about.

use crate::objects::{CronJob, JobFlow, JobTemplate};
use evictd_batch_objects::Job;
use evictd_pod::wire::Metadata;
use evictd_reconcile::Refusal;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// The kinds of objects that create jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A cron job.
    CronJob,
    /// A flow.
    JobFlow,
    /// A job template.
    JobTemplate,
}

impl Kind {
    /// The resource with its API group, as client-go names it in errors.
    pub const fn resource(self) -> &'static str {
        match self {
            Self::CronJob => "cronjobs.batch.volcano.sh",
            Self::JobFlow => "jobflows.flow.volcano.sh",
            Self::JobTemplate => "jobtemplates.flow.volcano.sh",
        }
    }
}

/// One object that creates jobs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkflowKey {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for WorkflowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// An object that creates jobs, as it was last seen.
#[derive(Debug, Clone)]
pub enum Object {
    /// A cron job.
    CronJob(Arc<CronJob>),
    /// A flow.
    JobFlow(Arc<JobFlow>),
    /// A job template.
    JobTemplate(Arc<JobTemplate>),
}

impl Object {
    /// Its name, namespace and UID.
    pub fn metadata(&self) -> &Metadata {
        match self {
            Self::CronJob(object) => &object.metadata,
            Self::JobFlow(object) => &object.metadata,
            Self::JobTemplate(object) => &object.metadata,
        }
    }

    /// Its kind.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::CronJob(_) => Kind::CronJob,
            Self::JobFlow(_) => Kind::JobFlow,
            Self::JobTemplate(_) => Kind::JobTemplate,
        }
    }

    /// Its kind, namespace and name.
    pub fn key(&self) -> WorkflowKey {
        let metadata = self.metadata();
        WorkflowKey {
            kind: self.kind(),
            namespace: metadata.namespace_or_default().to_owned(),
            name: metadata.name.clone(),
        }
    }
}

/// One call to the API server.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// Creates a job.
    CreateJob {
        /// The whole object.
        job: Value,
    },
    /// Reads a job.
    ReadJob {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// Deletes a job.
    DeleteJob {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its UID, so that no later job of the name is deleted.
        uid: String,
    },
    /// Writes the status of the object that the sync is about.
    WriteStatus {
        /// The whole status.
        status: Value,
        /// The merge patch that leads to it. It fails if the object has changed.
        patch: Value,
    },
}

/// The result of a successful call.
#[derive(Debug, Clone)]
pub enum Done {
    /// No object.
    Nothing,
    /// The job that was created or read.
    Job(Arc<Job>),
    /// The object as it is stored now.
    Stored(Object),
}

/// The answer to one call.
pub type Answer = Result<Done, Refusal>;
