//! The pod as both wings see it: what it asks for, how important it is, and the one door from the wire.
//!
//! No clock, no I/O, no logging; nothing above this crate touches a raw quantity string.
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
