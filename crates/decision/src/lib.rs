//! A decision with all its evidence, and the record of its outcome.
//!
//! A [`Decision`] says which pod is evicted or why none is ([`Withheld`]): the threshold, every ranked pod with the
//! keys of its rank, and the expected gain. Its [`record::Record`] adds the outcome, and the notice for the
//! cluster. Logs, events, history, metrics and `explain` are views of these two.
//!
//! ```
//! use evictd_decision::record::Kind;
//!
//! assert_eq!(serde_json::to_string(&Kind::LocalStorage)?, r#""localStorage""#);
//! # Ok::<(), serde_json::Error>(())
//! ```
#![forbid(unsafe_code)]

mod decision;
mod owner;
pub mod record;
pub mod report;
mod shares;
pub mod why;

pub use decision::{
    ActingThreshold, Cause, Decision, Eviction, Excess, LocalStorageLimit, OwnerCount,
    PartDirectory, PassedOver, Preference, RankedPod, RequestNote, Shares, Spared,
    UnevictableGrowth, Unreachable, UsagePart, Withheld,
};
pub use owner::Owner;
pub use shares::sum_of_gains;
