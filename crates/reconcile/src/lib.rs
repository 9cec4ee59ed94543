//! Shared parts of controllers as state machines: retries with a growing delay, refusals of the API server, events, and merge
//! patches.
//!
//! ```
//! use evictd_reconcile::{Refusal, Retries};
//! use jiff::{SignedDuration, Timestamp};
//!
//! let mut retries = Retries::new();
//! let now = Timestamp::UNIX_EPOCH;
//! assert!(retries.failed("ml/train", None, now));
//! assert_eq!(retries.due(now), None);
//! assert_eq!(retries.due(now + SignedDuration::from_millis(5)), Some("ml/train"));
//!
//! let refusal = Refusal::NotFound.about("jobs.batch.volcano.sh", "train");
//! assert_eq!(refusal, "jobs.batch.volcano.sh \"train\" not found");
//! ```
#![forbid(unsafe_code)]

mod case;
mod event;
mod merge_patch;
mod refusal;
mod retries;

pub use case::{Unanswerable, seconds};
pub use event::{Notice, Tone};
pub use merge_patch::{apply, difference};
pub use refusal::Refusal;
pub use retries::Retries;
