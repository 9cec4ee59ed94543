//! What jobs and queues are told: actions (S6-007) and events (S6-008) by the names that Volcano gives them.

mod action;
mod event;

pub use action::Action;
pub use event::Event;
