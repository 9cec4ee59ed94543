//! Tests whose figures other work on the machine would spoil: memory and processor time of the daemon, pressure, and how long an answer takes. `tests/run`
//! runs whatever is below a module of this name by itself, one test after the other.

pub(crate) mod budget;
mod pressure;
mod scale;
mod usage;
