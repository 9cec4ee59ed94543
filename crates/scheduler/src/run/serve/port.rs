//! The secure port as the flags configure it.

use super::{Access, CacheTimes, published_authorities};
use evictd_cluster_client::{Actions, ApiError, Credentials};
use evictd_daemon::server::{self, BindError, ListenAddress};
use evictd_daemon::tls::{Handshake, NamedFile, Pair, Serving, TlsError, make};
use jiff::{SignedDuration, Timestamp};
use std::net::IpAddr;
use std::path::PathBuf;
use tokio::net::TcpListener;

/// How long a certificate is valid that was made at the start: longer than a process runs.
const VALIDITY: SignedDuration = SignedDuration::from_hours(24 * 3650);

/// The secure port, as the flags say it.
#[derive(Debug, Clone)]
pub struct Port {
    /// Where it listens.
    pub address: ListenAddress,
    /// Its certificate and key; without them one is made.
    pub certificate: Option<(NamedFile, NamedFile)>,
    /// Whose client certificates it takes; by default those of the authorities that the API server publishes.
    pub client_ca: Option<NamedFile>,
    /// Whether the API server is not asked for them.
    pub skip_lookup: bool,
    /// Whether TLS 1.2 is refused.
    pub only_tls13: bool,
    /// Who asks who a client is; without one no token is known.
    pub authentication: Option<PathBuf>,
    /// Who asks what a client may do.
    pub authorization: Option<PathBuf>,
    /// Paths that everybody may get.
    pub always_allowed: Vec<String>,
}

/// Why the secure port cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// The API server cannot be reached as it is configured.
    #[error(transparent)]
    Access(#[from] ApiError),
    /// The certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The address cannot be listened on.
    #[error(transparent)]
    Bind(#[from] BindError),
}

/// A secure port that listens.
pub struct OpenPort {
    /// The listener.
    pub listener: TcpListener,
    /// Its certificate.
    pub tls: Serving,
    /// Who may see what.
    pub access: Access,
}

impl Port {
    /// Opens it, with a certificate for this host unless files have one.
    pub async fn open(&self, hostname: &str, now: Timestamp) -> Result<OpenPort, PortError> {
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
        let access = Access::new(
            authentication,
            authorization,
            allowed,
            CacheTimes::default(),
        );
        Ok(OpenPort {
            listener: server::bind("--bind-address, --secure-port", &self.address).await?,
            tls,
            access,
        })
    }
}

async fn actions(path: Option<&PathBuf>) -> Result<Option<Actions>, ApiError> {
    let Some(path) = path else { return Ok(None) };
    let credentials = Credentials {
        kubeconfig: Some(path.clone()),
        context: String::new(),
    };
    let access = evictd_cluster_client::Access::find(&credentials).await?;
    Ok(Some(access.actions()?))
}

/// The names in a certificate that was made. An address that stands for all of them is the name of none.
fn names(hostname: &str) -> Vec<String> {
    let local = ["localhost", "127.0.0.1"].map(str::to_owned);
    let host = hostname
        .parse::<IpAddr>()
        .is_ok_and(|ip| ip.is_unspecified());
    let host = (!hostname.is_empty() && !host).then(|| hostname.to_owned());
    local.into_iter().chain(host).collect()
}
