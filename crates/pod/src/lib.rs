#![doc = include_str!("../README.md")]
//!
//! [`wire`] has the objects of an API server, kubelet or manifest, with only the fields that are used.
//! [`Pod::from_wire`] compiles such a pod to the [`Pod`] on which decisions are based. It computes requests and limits
//! (with sidecars and pod-level resources), the QoS class, the priority, and whether the pod is critical. Only
//! [`requests`] computes the requests of a pod, also during a resize, and only [`defaults`] sets defaults of a manifest.
//! Amounts are [`Quantity`], exact to a billionth of a unit. No other crate parses a quantity or a [`duration`]; the
//! selectors of devices also keep how Kubernetes stores a quantity.
//! [`predicates`] check whether a pod may run on a node, and [`selector`] evaluates selectors.
#![forbid(unsafe_code)]

pub mod compatibility;
pub mod defaults;
pub mod duration;
pub mod names;
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
