//! One sync of a job template: the names of the jobs that were made of it (S6-233).

use super::call::Object;
use super::job_flow::label;
use super::jobs::Jobs;
use super::replay::{Replay, Stop, write_status};
use crate::objects::{JobTemplate, JobTemplateStatus};
use std::sync::Arc;

/// A template, and the names of its jobs.
#[derive(Debug)]
pub(crate) struct Input {
    template: Arc<JobTemplate>,
    jobs: Vec<String>,
}

impl Input {
    pub(crate) fn new(template: &Arc<JobTemplate>, jobs: &Jobs) -> Self {
        let metadata = &template.metadata;
        let namespace = metadata.namespace_or_default();
        let jobs = jobs.of_template(namespace, label(namespace, &metadata.name));
        let names = jobs.iter().map(|job| job.metadata.name.clone());
        Self {
            jobs: names.collect(),
            template: Arc::clone(template),
        }
    }
}

/// Runs the sync. Without jobs an older list stays, as in Volcano.
pub(super) fn sync(input: &Input, replay: &mut Replay<'_>) -> Result<(), Stop> {
    if input.jobs.is_empty() {
        return Ok(());
    }
    let status = JobTemplateStatus {
        job_depends_on_list: input.jobs.clone(),
    };
    let object = Object::JobTemplate(Arc::clone(&input.template));
    write_status(&object, (&input.template.status, &status), true, replay)
}
