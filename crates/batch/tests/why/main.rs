//! Why a job waits, and that each change that is proposed starts it.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

mod causes;
mod jobs;
mod oracle;
mod proof;
mod properties;
#[allow(dead_code, unreachable_pub, reason = "not all of it is needed here")]
#[path = "../rows/scenario.rs"]
mod scenario;
mod upstream;

use evictd_batch::conf::Conf;
use evictd_batch::session::{Objects, Setting};
use evictd_batch::why::{Answer, Case, Unknown};
use evictd_batch_objects::{Compat, Job};
use evictd_placement::Cluster;

/// Every plugin and action of the built-in configuration.
pub(crate) const ALL: &str = "";

/// The answer about `train`.
pub(crate) fn why(objects: &Objects, jobs: &[Job]) -> Answer {
    ask(objects, jobs, "train").unwrap()
}

pub(crate) fn ask(objects: &Objects, jobs: &[Job], name: &str) -> Result<Answer, Unknown> {
    ask_by((objects, jobs), ("default", name), Compat::EVICTD)
}

/// The same by these rules, without jobs.
pub(crate) fn by_form(objects: &Objects, compat: Compat) -> Answer {
    ask_by((objects, &[]), ("default", "train"), compat).unwrap()
}

pub(crate) fn ask_by(
    (objects, jobs): (&Objects, &[Job]),
    (namespace, name): (&str, &str),
    compat: Compat,
) -> Result<Answer, Unknown> {
    let case = Case {
        cluster: Cluster::new(),
        objects: objects.clone(),
        jobs: jobs.to_vec(),
        events: Vec::new(),
        setting: Setting::default(),
        conf: &Conf::read(&objects.conf).unwrap(),
        compat,
    };
    case.why(namespace, name)
}

/// What is proposed, in words.
pub(crate) fn words(answer: &Answer) -> Vec<&str> {
    let words = answer.soonest.iter();
    words.map(|own| own.words.as_str()).collect()
}
