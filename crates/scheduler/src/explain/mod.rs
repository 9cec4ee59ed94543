//! One scheduling attempt for one pod, from a dump or a live cluster, as JSON, as a page and as HTML.

mod answer;
mod html;
mod page;

pub(crate) use answer::Answer;
pub(crate) use html::html;
pub(crate) use page::{blockers, obstacles, page, replicas, suggestions};
