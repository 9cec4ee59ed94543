//! A client of another daemon's secure port, for commands that show its pages.

use anyhow::{Error, anyhow};
use evictd_cluster_client::{Access, ApiError, CALL_TIMEOUT, Credentials, Reader};
use evictd_command::Failure;

/// The secure port of a running daemon. Failures name the flag `--server`.
pub struct PortClient {
    server: String,
    reader: Reader,
}

impl PortClient {
    /// With the token or certificate of these credentials. Sends nothing yet; must be called inside a runtime. `unverified`
    /// accepts any certificate of the port.
    ///
    /// # Errors
    /// [`Failure::Input`] for a server that is no URL, and for credentials that are absent or unreadable.
    pub async fn open(
        credentials: &Credentials,
        server: &str,
        unverified: bool,
    ) -> Result<Self, Failure> {
        let address = parsed(server).ok_or_else(|| {
            let message = "is not a URL such as https://127.0.0.1:10259";
            Failure::Input(anyhow!("--server {server:?}: {message}"))
        })?;
        let access = Access::find(credentials).await.map_err(Failure::input)?;
        let access = access.towards(address, unverified);
        Ok(Self {
            server: server.to_owned(),
            reader: access.reader(CALL_TIMEOUT).map_err(Failure::input)?,
        })
    }

    /// The text of a page.
    ///
    /// # Errors
    /// [`Failure::NotPermitted`] if the user may not get this path.
    pub async fn get(&self, path: &str) -> Result<String, Failure> {
        let flag = || format!("--server {}", self.server);
        let text = self.reader.get(path).await;
        text.map_err(|error| match error {
            ApiError::Forbidden { .. } => Failure::NotPermitted(Error::from(error).context(flag())),
            _ => Failure::Work(Error::from(error).context(flag())),
        })
    }

    /// The failure for a page that is not understood.
    pub fn misunderstood(&self, what: &str) -> Failure {
        let Self { server, .. } = self;
        Failure::Work(anyhow!("--server {server} does not answer as {what}"))
    }
}

/// The address of a server; `None` if the text is no URL of one.
fn parsed(text: &str) -> Option<hyper::Uri> {
    let uri: hyper::Uri = text.parse().ok()?;
    match (uri.scheme_str(), uri.host()) {
        (Some("https" | "http"), Some(host)) if !host.is_empty() => Some(uri),
        _ => None,
    }
}
