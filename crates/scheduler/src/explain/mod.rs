//! One scheduling attempt for one pod, from a dump or a live cluster, as JSON and as a page.

mod answer;
mod page;

pub(crate) use answer::Answer;
pub(crate) use page::{blockers, obstacles, page, replicas, suggestions};
