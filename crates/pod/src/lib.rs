//! The pod for every crate of this repository: its requests, its importance and the nodes on which it may run.
//!
//! [`wire`] has the objects of an API server, kubelet or manifest, with only the fields that are used.
//! [`Pod::from_wire`] compiles such a pod to the [`Pod`] on which decisions are based. It computes requests and limits
//! (with sidecars and pod-level resources), the QoS class, the priority, and whether the pod is critical. Only
//! [`requests`] computes the requests of a pod, also during a resize, and only [`defaults`] sets defaults of a manifest.
//! Amounts are [`Quantity`], exact to a billionth of a unit. No other crate parses a quantity or a [`duration`].
//! [`predicates`] check whether a pod may run on a node, and [`selector`] evaluates selectors.
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

pub mod compatibility;
pub mod defaults;
pub mod duration;
pub mod node;
pub mod pod;
pub mod predicates;
pub mod pressure;
pub mod quantity;
pub mod requests;
pub mod resource_claims;
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
