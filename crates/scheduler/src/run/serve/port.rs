//! The secure port as the flags configure it.

use super::{CacheTimes, DelegatedAuth, published_authorities};
use evictd_cluster_client::{Access, Actions, ApiError, Credentials};
use evictd_daemon::server::{self, BindError, ListenAddress};
use evictd_daemon::tls::{Handshake, NamedFile, Pair, Serving, TlsError, make};
use jiff::{SignedDuration, Timestamp};
use std::net::IpAddr;
use std::path::PathBuf;
use tokio::net::TcpListener;
use tracing::warn;

/// The validity of a certificate that is made at the start. It exceeds the life of any process.
const VALIDITY: SignedDuration = SignedDuration::from_hours(24 * 3650);

/// The secure port as the flags describe it.
#[derive(Debug, Clone)]
pub(crate) struct Port {
    pub(crate) address: ListenAddress,
    /// Certificate and key. Without them a certificate is made.
    pub(crate) certificate: Option<(NamedFile, NamedFile)>,
    /// The authorities of client certificates. By default those that the API server publishes.
    pub(crate) client_ca: Option<NamedFile>,
    /// `--authentication-skip-lookup`: the published authorities are not read.
    pub(crate) skip_lookup: bool,
    pub(crate) only_tls13: bool,
    /// The kubeconfig to review tokens with. By default this pod's service account; outside of a pod no token is accepted.
    pub(crate) authentication: Option<PathBuf>,
    /// The kubeconfig to review access with. By default this pod's service account.
    pub(crate) authorization: Option<PathBuf>,
    /// Paths that need no authorization.
    pub(crate) always_allowed: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PortError {
    #[error(transparent)]
    Access(#[from] ApiError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Bind(#[from] BindError),
}

/// A secure port that listens.
pub(crate) struct OpenPort {
    pub(crate) listener: TcpListener,
    pub(crate) tls: Serving,
    pub(crate) auth: DelegatedAuth,
}

impl Port {
    /// Begins to listen. A certificate is made for this host, unless the flags name one.
    pub(crate) async fn open(&self, hostname: &str, now: Timestamp) -> Result<OpenPort, PortError> {
        let authentication = actions(self.authentication.as_ref()).await?;
        let authorization = actions(self.authorization.as_ref()).await?;
        let client_authorities = match (&self.client_ca, &authentication) {
            (Some(file), _) => Some(file.authorities()?),
            (None, Some(actions)) if !self.skip_lookup => published_authorities(actions).await,
            _ => None,
        };
        let pair = match &self.certificate {
            Some((certificate, key)) => Pair::read(certificate, key)?,
            None => make("evictd-scheduler", &names(hostname), VALIDITY, now)?.pair,
        };
        let tls = Serving::default();
        let handshake = Handshake {
            client_authorities,
            only_tls13: self.only_tls13,
        };
        tls.show(&pair, &handshake)?;
        let allowed = self.always_allowed.clone();
        let auth = DelegatedAuth::new(
            authentication,
            authorization,
            allowed,
            CacheTimes::default(),
        );
        Ok(OpenPort {
            listener: server::bind("--bind-address, --secure-port", &self.address).await?,
            tls,
            auth,
        })
    }
}

async fn actions(path: Option<&PathBuf>) -> Result<Option<Actions>, ApiError> {
    let Some(path) = path else {
        return Ok(actions_of_this_pod());
    };
    let credentials = Credentials {
        kubeconfig: Some(path.clone()),
        context: String::new(),
    };
    let access = Access::find(&credentials).await?;
    Ok(Some(access.actions()?))
}

/// As kube-scheduler: without a kubeconfig of its own the port uses the service account, and works without one.
fn actions_of_this_pod() -> Option<Actions> {
    let actions = Access::of_this_pod()
        .and_then(|access| access.map(|access| access.actions()).transpose())
        .inspect_err(|error| warn!("the secure port accepts no tokens: {error}"));
    actions.ok().flatten()
}

/// The names in a certificate that is made.
fn names(hostname: &str) -> Vec<String> {
    let local = ["localhost", "127.0.0.1"].map(str::to_owned);
    // No client connects to 0.0.0.0.
    let is_unspecified = hostname
        .parse::<IpAddr>()
        .is_ok_and(|ip| ip.is_unspecified());
    let host = (!hostname.is_empty() && !is_unspecified).then(|| hostname.to_owned());
    local.into_iter().chain(host).collect()
}
