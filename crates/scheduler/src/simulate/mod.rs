//! The pages of simulations, and the input of one from a dump.

pub(crate) mod html;
pub(crate) mod new_nodes;
pub(crate) mod rebalance;
pub(crate) mod sequence;
pub(crate) mod timeline;
pub(crate) mod what_if;
