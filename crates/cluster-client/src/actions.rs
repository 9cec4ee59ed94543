//! Calls that change something.

use super::{ApiError, Peer};
use kube::Client;
use std::time::Duration;

/// The time a call gets where its caller knows of no reason for another.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Asks the API server to change something: once, and for a limited time.
#[derive(Clone)]
pub struct Actions {
    pub(crate) client: Client,
    pub(crate) peer: Peer,
}

impl Actions {
    /// Through this client, which must not ask twice by itself.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            peer: Peer::ApiServer,
        }
    }

    /// For an `Api`; its calls go through [`Self::call`].
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// One call. The client itself would wait for ever for an answer on a connection that is half dead. `what` says
    /// what is asked, in the words of an operator.
    pub async fn call<T>(
        &self,
        what: &str,
        within: Duration,
        call: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, ApiError> {
        match tokio::time::timeout(within, call).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(cause)) => Err(ApiError::Call {
                what: what.to_owned(),
                cause: Box::new(cause),
                peer: self.peer,
            }),
            Err(_) => Err(ApiError::TimedOut {
                what: what.to_owned(),
                within,
            }),
        }
    }
}
