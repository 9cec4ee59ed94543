//! What a simulation led to, for people; and the question whether pods fit, as a simulation.

pub(crate) mod question;
pub(crate) mod sequence;
pub(crate) mod timeline;
