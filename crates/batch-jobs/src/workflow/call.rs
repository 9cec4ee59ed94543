//! The calls of a sync, their answers, and the objects that syncs are about.

use evictd_batch_objects::Job;
use evictd_batch_objects::cron::CronJob;
use evictd_batch_objects::flow::{JobFlow, JobTemplate};
use evictd_pod::wire::Metadata;
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

    /// Its kind, namespace and name.
    pub fn key(&self) -> WorkflowKey {
        let metadata = self.metadata();
        WorkflowKey {
            kind: match self {
                Self::CronJob(_) => Kind::CronJob,
                Self::JobFlow(_) => Kind::JobFlow,
                Self::JobTemplate(_) => Kind::JobTemplate,
            },
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

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such object.
    NotFound,
    /// An object of this name exists.
    AlreadyExists,
    /// The namespace is being deleted, in the words of the API server.
    NamespaceTerminating(String),
    /// Any other error, in words.
    Other(String),
}

impl Refusal {
    /// The error of a call to a job, as client-go words it.
    pub(super) fn about_job(&self, name: &str) -> String {
        match self {
            Self::NotFound => format!("jobs.batch.volcano.sh \"{name}\" not found"),
            Self::AlreadyExists => format!("jobs.batch.volcano.sh \"{name}\" already exists"),
            Self::NamespaceTerminating(message) | Self::Other(message) => message.clone(),
        }
    }
}

/// The answer to one call.
pub type Answer = Result<Done, Refusal>;
