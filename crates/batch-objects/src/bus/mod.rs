//! Actions (S6-007) and events (S6-008), by Volcano's names.

mod action;
mod event;

pub use action::Action;
pub use event::Event;
