//! What packaging/ ships does what it says.

mod packages;
mod policies;
mod protection;
mod render;
mod tolerations;
