//! Answers for people.

mod session;

pub(crate) use session::session;
