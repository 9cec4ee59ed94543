//! How the daemon is asked: a Unix socket for its operators, and HTTP on the loopback for probes and scrapers.
//!
//! Both run beside the loop on its one thread. What is asked often is read from [`state::Shared`], which the loop
//! keeps up to date in place; what needs the loop's own knowledge is a [`state::Question`] that it answers between
//! two turns. Nothing here can hold the loop up.

pub mod http;
mod serve;
pub mod socket;
pub mod state;
#[cfg(test)]
mod tests;
