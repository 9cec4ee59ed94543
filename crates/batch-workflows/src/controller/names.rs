//! API groups, labels and annotations, by Volcano's names.

use serde_json::{Value, json};

/// `apiVersion` of jobs and cron jobs.
pub(super) const BATCH_API: &str = "batch.volcano.sh/v1alpha1";
/// `apiVersion` of flows and job templates.
pub(super) const FLOW_API: &str = "flow.volcano.sh/v1alpha1";
/// Jobs, as client-go names them in errors.
pub(super) const JOBS: &str = "jobs.batch.volcano.sh";
/// The flow of a job, as `namespace.name`.
pub(super) const CREATED_BY_FLOW: &str = "volcano.sh/createdByJobFlow";
/// The template of a job, as `namespace.name`.
pub(super) const CREATED_BY_TEMPLATE: &str = "volcano.sh/createdByJobTemplate";
/// The time that a job was created for.
pub(super) const SCHEDULED_TIME: &str = "volcano.sh/cronjob-scheduled-timestamp";

/// The reference of a job to the object that created it.
pub(super) fn controller(api_version: &str, kind: &str, name: &str, uid: &str) -> Value {
    json!([{
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": true,
        "blockOwnerDeletion": true,
    }])
}
