//! The daemon's servers: a Unix socket for operators, and HTTP on the loopback address for probes and metrics.
//!
//! Both run in the background on the same thread as the main loop. Frequent requests read [`state::Shared`], which
//! the loop keeps up to date. Requests that need the loop's own state are sent to it as a [`state::Question`],
//! which it answers between two cycles. Nothing here can block the loop.

pub(crate) mod http;
pub(crate) mod socket;
pub(crate) mod state;
#[cfg(test)]
mod tests;
