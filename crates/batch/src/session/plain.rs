//! Bare pods: a pod without a group is a job of its own, without an object (volcano#4348).

use super::objects::key;
use evictd_pod::wire::Metadata;
use std::sync::Arc;

/// The job that a pod of no group is, as the outcome of a session names it: `namespace/name@pod`.
pub fn plain_job(pod: &Metadata) -> Arc<str> {
    format!("{}@pod", key(pod)).into()
}
