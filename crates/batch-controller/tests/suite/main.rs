//! What jobs, queues and pod groups become in a cluster. It runs against the testkit, and unchanged against a real cluster;
//! see [`evictd_testkit::SuiteCluster`]. Everything is in a namespace of its own, in queues of its own, for a scheduler of its own
//! name, on a resource that only the test knows. Since controllers work for all jobs of a cluster, it leaves itself out where
//! others have some.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "in a test a panic is the report"
)]
#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

mod ground;
mod jobs;
mod queues;
#[allow(dead_code, reason = "other tests need what these do not")]
#[path = "../../../testkit/tests/support/suite.rs"]
mod support;
mod webhook;
