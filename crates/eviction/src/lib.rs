#![doc = include_str!("../README.md")]
//!
//! The caller passes in the time and carries out the results. It begins a cycle with an observation of the node
//! ([`Housekeeper::begin`]) and fetches the data that the returned [`Step`] names. It answers ([`Answer`]) until
//! [`Step::Rest`], and carries out each [`Decision`](evictd_decision::Decision).
//! The daemon, `simulate`, `explain` and the demo all work this way.
//!
//! | for | look at |
//! |---|---|
//! | the rules of a kubelet, and those of evictd | [`Rules`] |
//! | which pod is evicted first | [`rank`] |
//! | the limits of a pod on local storage | [`local_storage`] |
//! | the message of an eviction | [`message`] |
//! | how long evicted pods are kept | [`retention`] |
//! | many cycles over captured statistics | [`simulation`] |
//!
//! The crates below it, from the lowest:
//!
//! | crate | contains |
//! |---|---|
//! | `evictd-signals` | what can run out, and its thresholds |
//! | `evictd-usage` | what a pod uses |
//! | `evictd-admission` | which new pod the node takes |
//! | `evictd-reclaim` | what is removed before a pod is evicted: dead containers, unused images |
//! | `evictd-decision` | a decision, why it was made, and its record |
//! | `evictd-departures` | the stages of a pod that must leave |
//!
//! `examples/cycle.rs` ranks more pods, from the statistics of a kubelet.
#![forbid(unsafe_code)]

mod containerfs;
mod futility;
mod housekeeper;
pub mod local_storage;
pub mod message;
pub mod rank;
mod relief;
pub mod retention;
mod returning;
pub mod rules;
pub mod simulation;
mod step;
mod unevictable;
mod watched;

pub use housekeeper::{Answer, Housekeeper};
pub use returning::{Backoff, Returned};
pub use rules::Rules;
pub use step::{Reclaim, Step};
