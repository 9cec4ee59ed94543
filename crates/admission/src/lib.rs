//! Whether a node takes a new pod: the checks of the kubelet, in its order.
//!
//! [`admit`] looks at the conditions of the node and at the predicates that failed. [`fit`] says which fail, and
//! [`critical`] which pods are preempted so that a critical pod fits.
//!
//! ```
//! use evictd_admission::critical::{Need, victims};
//! use evictd_pod::{Critical, Pod};
//!
//! let read = |json| serde_json::from_str(json).map(Pod::from_wire);
//! let mut critical = read(r#"{"metadata": {"name": "critical"}}"#)?;
//! critical.critical = Some(Critical::Static);
//! let pods = [read(
//!     r#"{"metadata": {"name": "hog"},
//!         "spec": {"containers": [{"name": "c", "resources": {"requests": {"memory": "1Gi"}}}]}}"#,
//! )?];
//! let needs = [Need { resource: "memory".to_owned(), amount: 1 << 20 }];
//! assert_eq!(victims(&critical, &pods, &needs).ok(), Some(vec![0]));
//! # Ok::<(), serde_json::Error>(())
//! ```
#![forbid(unsafe_code)]

mod admission;
pub mod critical;
pub mod fit;

pub use admission::{Answer, Failure, Insufficient, Outcome, admit};
