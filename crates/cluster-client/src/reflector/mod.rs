//! Follows collections of objects: lists, then watches, and bounds the cost of any single object.
//!
//! The author of an object decides how large it is. A long one is parsed while it arrives, so that ignored fields take
//! no memory. One that is too long is skipped to its end, and reported by its identity.

mod body;
mod budget;
mod cache;
mod follow;
mod health;
mod incoming;
mod list;
mod metrics;
mod news;
mod outline;
mod run;
mod split;
mod store;
mod table;
mod watch;

pub use budget::Budget;
pub use cache::Reflector;
pub use follow::{Follow, Parsed, Unreadable, WatchError, parse};
pub use health::{WatchState, Watches};
pub(crate) use list::read_list;
pub use metrics::WatchMetrics;
pub use news::{NewsReceiver, NewsSender, news};
pub use outline::Outline;
pub use run::{Connect, Retry, WATCH_LIFE};
pub use store::Store;
pub use table::{ByKey, Key, Keyed, Table};
pub use watch::Watch;

#[cfg(test)]
mod tests;
