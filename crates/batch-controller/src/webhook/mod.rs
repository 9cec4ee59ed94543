//! The admission webhook: reviews over HTTPS, decided by `evictd_batch::admission` from what a watch tells of queues and
//! namespaces.
//!
//! ```text
//!   API server --- AdmissionReview, HTTPS ---> server --> review --> evictd_batch::admission
//!       |                                        ^            ^
//!       |--- queues, namespaces (watch) --> known-------------'
//!       `<-- Secret, caBundle <------------ keeper (certificates made and renewed)
//! ```

mod bundles;
mod health;
mod keeper;
mod known;
mod objects;
pub mod process;
mod review;
mod server;

pub use keeper::Source;
pub use review::{Answer, answer};
pub use server::Limits;
