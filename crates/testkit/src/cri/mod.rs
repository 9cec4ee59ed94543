//! Container runtimes for tests: [`Double`] answers CRI v1 from memory, as the test sets it; [`Containerd`] is a real
//! one with a root of its own.

mod cleanup;
mod containerd;
mod double;
pub mod driver;
mod grpc;
mod image;
mod state;
pub mod wire;

pub use containerd::{Containerd, Pod, has_ended};
pub use double::Double;
pub use grpc::Behaviour;
pub use image::{Contents, import, import_with};
pub use state::State;
