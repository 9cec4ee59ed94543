//! The pod as everything in this repository sees it: what it asks for, how important it is, where it may be.
//!
//! [`wire`] has the objects as they come from an API server, a kubelet or a manifest, with only the fields that are used;
//! [`Pod::from_wire`] makes of one the [`Pod`] that decisions are made on. What must be worked out is worked out there, once:
//! requests and limits with those of sidecars and of the pod as a whole, the QoS class, priority and criticality. Amounts
//! are [`Quantity`], exact to the nano unit; nothing above this crate touches a raw quantity string. [`predicates`] say
//! whether a pod may be on a node, [`selector`] what a selector means.
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

pub mod node;
pub mod pod;
pub mod predicates;
pub mod quantity;
mod resource_list;
pub mod resources;
pub mod selector;
mod toleration;
pub mod wire;

pub use node::Node;
pub use pod::{Container, Critical, Pod, Volume};
pub use quantity::Quantity;
pub use resource_list::ResourceList;
pub use resources::QosClass;
