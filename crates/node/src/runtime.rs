//! The container runtime of this node, as configured.

use crate::config::Effective;
use evictd_cri::{Client, Error, Settings};

/// The client that all parts of the agent share. Asks nothing yet.
///
/// # Errors
/// [`Error::NotASocket`] if `containerRuntimeEndpoint` names no unix socket.
pub fn client(config: &Effective) -> Result<Client, Error> {
    let endpoint = config.container_runtime_endpoint.clone();
    Client::new(Settings {
        endpoint: Some(endpoint).filter(|endpoint| !endpoint.is_empty()),
        ..Settings::default()
    })
}
