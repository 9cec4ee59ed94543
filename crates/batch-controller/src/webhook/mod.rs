//! The admission webhook: it reviews jobs, queues, pod groups and pods over HTTPS. `evictd_batch_admission` decides.
//!
//! ```text
//!   API server --- AdmissionReview, HTTPS ---> server --> review --> evictd_batch_admission
//!       |                                        ^            ^
//!       |--- queues, namespaces (watch) --> cache-------------'
//!       `<-- Secret, caBundle <------------ certificate_rotator
//! ```

mod ca_bundle;
mod cache;
mod certificate_rotator;
mod health;
mod objects;
mod process;
mod review;
mod server;

pub use certificate_rotator::Source;
pub use process::{Options, RunError, run};
pub use review::{Reviewed, review};
pub use server::Limits;
