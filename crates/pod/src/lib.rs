//! The pod as every crate of this repository sees it: what it requests, how important it is, on which nodes it may run.
//!
//! [`wire`] has the objects as an API server, a kubelet or a manifest sends them, with only the fields that are used.
//! [`Pod::from_wire`] turns one into the [`Pod`] on which decisions are based. It computes once what decisions need: requests
//! and limits including those of sidecars and of the pod as a whole, the QoS class, the priority, and whether the pod is
//! critical. [`requests`] is the one place that says what a pod asks for, also while it is being resized, and [`defaults`]
//! the one that fills in what a manifest leaves out. Amounts are [`Quantity`], exact to a billionth of a unit; no other
//! crate parses a quantity, nor a [`duration`]. [`predicates`]
//! check whether a pod may run on a node, and [`selector`] evaluates selectors.
//!
//! ```
//! use evictd_pod::{Pod, QosClass, Quantity};
//!
//! let json = r#"{
//!     "metadata": {"name": "web", "namespace": "shop", "uid": "1"},
//!     "spec": {"priority": 1000, "containers": [
//!         {"name": "main", "resources": {"requests": {"memory": "200Mi"}, "limits": {"memory": "1Gi"}}}
//!     ]}
//! }"#;
//! let pod = Pod::from_wire(serde_json::from_str(json)?);
//! assert_eq!(pod.full_name(), "shop/web");
//! assert_eq!(pod.qos, QosClass::Burstable);
//! assert_eq!(pod.memory_request, Quantity::bytes(200 << 20));
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! No clock, no I/O, no logging.
#![forbid(unsafe_code)]

pub mod defaults;
pub mod duration;
pub mod node;
pub mod pod;
pub mod predicates;
pub mod pressure;
pub mod quantity;
pub mod requests;
mod resource_list;
pub mod resources;
pub mod selector;
mod shared;
mod text_map;
mod time;
mod toleration;
pub mod wire;

pub use node::Node;
pub use pod::{Container, Critical, Pod, Volume};
pub use quantity::Quantity;
pub use requests::{Counted, Requests};
pub use resource_list::{ResourceList, TooManyResources};
pub use resources::QosClass;
