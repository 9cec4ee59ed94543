//! Calls that change something.

use super::answer::text;
use super::{ApiError, Peer};
use kube::Client;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// The usual time limit of a call.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Makes calls to the API server that change something: each is sent once and has a time limit.
#[derive(Clone)]
pub struct Actions {
    pub(crate) client: Client,
    pub(crate) peer: Peer,
}

impl Actions {
    /// With this client, which must not retry by itself.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            peer: Peer::ApiServer,
        }
    }

    /// The client, to build an `Api` from; pass its calls to [`Self::call`].
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Sends one request and parses its answer; the limits are those of [`Self::call`].
    pub async fn request<T: DeserializeOwned>(
        &self,
        what: &str,
        within: Duration,
        request: http::Result<http::Request<Vec<u8>>>,
    ) -> Result<T, ApiError> {
        let client = self.client();
        let call = async {
            let request = request.map_err(kube::Error::HttpError)?;
            client.request(request).await
        };
        self.call(what, within, call).await
    }

    /// The same for a server that is not trusted: at most so many bytes of the answer are read.
    pub async fn request_at_most<T: DeserializeOwned>(
        &self,
        what: &str,
        (within, longest): (Duration, usize),
        request: http::Result<http::Request<Vec<u8>>>,
    ) -> Result<T, ApiError> {
        let client = self.client();
        let call = async {
            let request = request.map_err(kube::Error::HttpError)?;
            let text = text(client, request, longest).await?;
            serde_json::from_str(&text).map_err(kube::Error::SerdeError)
        };
        self.call(what, within, call).await
    }

    /// Makes one call with a time limit, since the client itself would wait for ever on a connection that is half
    /// open. `what` describes the call in an operator's words, for the error.
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
