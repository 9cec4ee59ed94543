//! The rows of behaviour of the job controller, and what holds for every sequence of events.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![allow(
    clippy::needless_pass_by_value,
    reason = "so that JSON is written where it is used"
)]

mod job {
    mod cluster;
    mod dependencies;
    mod events;
    mod kills;
    mod life;
    mod machine;
    mod objects;
    mod phases;
    mod plugins;
    mod policies;
    mod properties;
    mod scaling;
    mod support;
    mod switches;
    mod syncs;
}
