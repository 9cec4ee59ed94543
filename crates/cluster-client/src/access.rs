//! The address of the API server, and the credentials for it.

use crate::message::{CONNECT_TIMEOUT, named};
use crate::{ApiError, Peer, Reader, actions::Actions, requests::Requests};
use kube::{
    Client, Config,
    client::ClientBuilder,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};
use tower::util::MapErrLayer;

/// A watch that is silent for longer is given up; a live one gets a bookmark every minute.
const READ_TIMEOUT: Duration = Duration::from_secs(100);

/// Which kubeconfig to use, and which of its contexts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// `None`: the usual places are searched.
    pub kubeconfig: Option<PathBuf>,
    /// Empty: the kubeconfig's current context.
    pub context: String,
}

/// The access to one API server.
#[derive(Clone)]
pub struct Access {
    origin: String,
    config: Config,
    peer: Peer,
    requests: Requests,
}

impl Access {
    /// As configured; otherwise the first that exists of this pod's service account, `$KUBECONFIG`,
    /// `~/.kube/config`. Sends nothing. Call it again when credentials are refused, because those on disk may have
    /// been renewed.
    pub async fn find(settings: &Credentials) -> Result<Self, ApiError> {
        if settings.kubeconfig.is_none()
            && settings.context.is_empty()
            && let Some(access) = Self::of_this_pod()?
        {
            return Ok(access);
        }
        let (origin, kubeconfig) = kubeconfig(settings)?;
        let cannot = |source| ApiError::Kubeconfig {
            origin: origin.clone(),
            source: Box::new(source),
        };
        let kubeconfig = kubeconfig.map_err(cannot)?;
        let config = chosen(kubeconfig, settings).await.map_err(cannot)?;
        Ok(Self::new(origin, config))
    }

    /// By this pod's service account. `None` outside of a cluster.
    pub fn of_this_pod() -> Result<Option<Self>, ApiError> {
        if std::env::var_os("KUBERNETES_SERVICE_HOST").is_none() {
            return Ok(None);
        }
        let config = Config::incluster().map_err(ApiError::ServiceAccount)?;
        Ok(Some(Self::new(
            "this pod's service account".to_owned(),
            config,
        )))
    }

    /// An access to a kubelet, from a kubeconfig that is in memory only.
    pub(super) async fn to_kubelet(
        origin: &str,
        kubeconfig: &serde_json::Value,
    ) -> Result<Self, ApiError> {
        let cannot = |source| ApiError::Kubeconfig {
            origin: origin.to_owned(),
            source: Box::new(source),
        };
        let kubeconfig = Kubeconfig::from_yaml(&kubeconfig.to_string()).map_err(cannot)?;
        let config = chosen(kubeconfig, &Credentials::default())
            .await
            .map_err(cannot)?;
        Ok(Self {
            peer: Peer::Kubelet,
            ..Self::new(origin.to_owned(), config)
        })
    }

    /// An access to another server than Kubernetes' own, with these keys of `cluster` and `user` as in a kubeconfig.
    /// `origin` names their source for messages. `null` counts as absent.
    pub async fn to_server(
        origin: &str,
        cluster: &serde_json::Value,
        user: &serde_json::Value,
    ) -> Result<Self, ApiError> {
        let kubeconfig = serde_json::json!({
            "current-context": "server",
            "contexts": [{"name": "server", "context": {"cluster": "server", "user": "server"}}],
            "clusters": [{"name": "server", "cluster": cluster}],
            "users": [{"name": "server", "user": user}],
        });
        Ok(Self {
            peer: Peer::Other,
            ..Self::to_kubelet(origin, &kubeconfig).await?
        })
    }

    /// From a complete client configuration; `origin` names its source for messages.
    pub fn new(origin: String, mut config: Config) -> Self {
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.default_retry = false;
        if config.cluster_url.scheme_str() == Some("http") && config.root_cert.is_none() {
            // Without TLS no certificate is verified, so the machine's hundred certificates need not be loaded.
            config.root_cert = Some(Vec::new());
        }
        let host = config.cluster_url.authority();
        Self {
            requests: Requests::new(host.map_or("", |host| host.as_str())),
            origin,
            config,
            peer: Peer::ApiServer,
        }
    }

    /// The same credentials for the secure port of another of our daemons. Its certificate must be known to this machine, unless it
    /// is not to be verified at all.
    #[must_use]
    pub fn towards(&self, server: http::Uri, unverified: bool) -> Self {
        let mut config = self.config.clone();
        config.cluster_url = server;
        config.root_cert = None;
        config.root_cert_file = None;
        config.accept_invalid_certs = unverified;
        Self {
            config,
            peer: Peer::SecurePort,
            ..self.clone()
        }
    }

    /// The same server at another address: its certificate is verified as before.
    #[must_use]
    pub fn at(&self, address: http::Uri) -> Self {
        let mut access = self.clone();
        access.config.cluster_url = address;
        access
    }

    /// A client for watches: it gives up a silent connection. Must be called inside the runtime.
    pub fn watch_client(&self) -> Result<Client, ApiError> {
        let mut config = self.config.clone();
        config.read_timeout = Some(READ_TIMEOUT);
        config.reset_reader_on_write = true;
        self.client(config)
    }

    /// A client for calls that change something. Must be called inside the runtime.
    pub fn actions(&self) -> Result<Actions, ApiError> {
        Ok(Actions {
            peer: self.peer,
            requests: Some(self.requests.clone()),
            ..Actions::new(self.client(self.config.clone())?)
        })
    }

    /// A reader whose requests have this time limit. Must be called inside the runtime.
    pub fn reader(&self, within: Duration) -> Result<Reader, ApiError> {
        Ok(Reader::new(self.actions()?, within))
    }

    /// Whether this process runs in a pod of the cluster and uses its service account.
    pub fn is_in_cluster(&self) -> bool {
        self.config.root_cert_file.is_some()
    }

    /// Whether the server may show any certificate: `insecure-skip-tls-verify`.
    pub fn trusts_any_certificate(&self) -> bool {
        self.config.accept_invalid_certs
    }

    /// The URL of the API server, without a `/` at its end.
    pub fn server(&self) -> String {
        let url = self.config.cluster_url.to_string();
        url.trim_end_matches('/').to_owned()
    }

    /// The requests by this access.
    pub const fn requests(&self) -> &Requests {
        &self.requests
    }

    fn client(&self, config: Config) -> Result<Client, ApiError> {
        let builder = ClientBuilder::try_from(config).map_err(|cause| ApiError::Client {
            server: self.server(),
            cause: Box::new(cause),
            peer: self.peer,
        })?;
        let (server, peer) = (self.server(), self.peer);
        let named = MapErrLayer::new(move |error| named(error, &server, peer));
        Ok(builder
            .with_layer(&self.requests)
            .with_layer(&named)
            .build())
    }
}

/// `https://10.0.0.1:6443, by this pod's service account`
impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, by {}", self.server(), self.origin)
    }
}

/// Leaves out the credentials, so that they cannot be logged.
impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Access({self})")
    }
}

/// The kubeconfig to use, and its name for messages.
fn kubeconfig(
    settings: &Credentials,
) -> Result<(String, Result<Kubeconfig, KubeconfigError>), ApiError> {
    let read = |path: &Path| {
        let origin = format!("the kubeconfig {}", path.display());
        (origin, Kubeconfig::read_from(path))
    };
    if let Some(path) = &settings.kubeconfig {
        return Ok(read(path));
    }
    if let Some(kubeconfig) = Kubeconfig::from_env().transpose() {
        return Ok(("the kubeconfig in $KUBECONFIG".to_owned(), kubeconfig));
    }
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".kube/config"));
    let at_home = home.filter(|path| path.exists());
    at_home.map(|path| read(&path)).ok_or(ApiError::Unknown)
}

async fn chosen(kubeconfig: Kubeconfig, settings: &Credentials) -> Result<Config, KubeconfigError> {
    let mut clusters = kubeconfig.clusters.iter();
    let names_a_proxy = clusters.any(|named| {
        let cluster = named.cluster.as_ref();
        cluster.is_some_and(|cluster| cluster.proxy_url.is_some())
    });
    let options = KubeConfigOptions {
        context: Some(settings.context.clone()).filter(|context| !context.is_empty()),
        ..KubeConfigOptions::default()
    };
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    if !names_a_proxy {
        // $HTTPS_PROXY is meant for servers outside; the API server of this node is not one of them.
        config.proxy_url = None;
    }
    Ok(config)
}
