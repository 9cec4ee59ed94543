//! The rows of a session, each in a small cluster, and where ours decides otherwise.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod confined;
mod ends;
mod extender;
mod forms;
mod giving_room;
mod hierarchy;
mod lent_shares;
mod letting_in;
mod near;
mod node_plugins;
mod owed;
mod placing;
mod plain;
mod renewal;
mod reserving;
mod rubbish;
mod scenario;
mod shares;
mod stages;
mod taking_room;
mod upstream;
