//! Where the API server is and who we are there.

use crate::{ApiError, Peer, Reader, actions::Actions};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

/// A server that is there answers this soon, from wherever in the cluster.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest silence of a watch that lives: the server sends a bookmark every minute.
const SILENCE: Duration = Duration::from_secs(100);

/// Which kubeconfig counts, and what of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// `None`: found by itself.
    pub kubeconfig: Option<PathBuf>,
    /// Empty: the kubeconfig's current one.
    pub context: String,
}

/// The way to one API server.
#[derive(Clone)]
pub struct Access {
    origin: String,
    config: Config,
    peer: Peer,
}

impl Access {
    /// As configured; else this pod's service account, `$KUBECONFIG`, `~/.kube/config`: the first that is there counts.
    /// Nothing is sent. To be called anew where credentials are refused: those on disk may be fresh.
    pub async fn find(settings: &Credentials) -> Result<Self, ApiError> {
        let of_cluster = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
        if settings.kubeconfig.is_none() && settings.context.is_empty() && of_cluster {
            let config = Config::incluster().map_err(ApiError::ServiceAccount)?;
            return Ok(Self::new("this pod's service account".to_owned(), config));
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

    /// The way to a kubelet, as this kubeconfig says, which is in no file.
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

    /// The way that is described here already.
    pub fn new(origin: String, mut config: Config) -> Self {
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.default_retry = false;
        if config.cluster_url.scheme_str() == Some("http") && config.root_cert.is_none() {
            // Without TLS there is nothing to verify, and no need to load the machine's hundred certificates for it.
            config.root_cert = Some(Vec::new());
        }
        Self {
            origin,
            config,
            peer: Peer::ApiServer,
        }
    }

    /// What to watch through: a silent connection is given up. Must be called within a runtime.
    pub fn watch_client(&self) -> Result<Client, ApiError> {
        let mut config = self.config.clone();
        config.read_timeout = Some(SILENCE);
        config.reset_reader_on_write = true;
        self.client(config)
    }

    /// What to act through. Must be called within a runtime.
    pub fn actions(&self) -> Result<Actions, ApiError> {
        Ok(Actions {
            peer: self.peer,
            ..Actions::new(self.client(self.config.clone())?)
        })
    }

    /// What to read through, where each answer gets so much time. Must be called within a runtime.
    pub fn reader(&self, within: Duration) -> Result<Reader, ApiError> {
        Ok(Reader::new(self.actions()?, within))
    }

    /// Whether this is a pod of the cluster.
    pub fn is_in_cluster(&self) -> bool {
        self.config.root_cert_file.is_some()
    }

    /// The server's address.
    pub fn server(&self) -> String {
        let url = self.config.cluster_url.to_string();
        url.trim_end_matches('/').to_owned()
    }

    fn client(&self, config: Config) -> Result<Client, ApiError> {
        Client::try_from(config).map_err(|cause| ApiError::Client {
            server: self.server(),
            cause: Box::new(cause),
            peer: self.peer,
        })
    }
}

/// `https://10.0.0.1:6443, by this pod's service account`
impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, by {}", self.server(), self.origin)
    }
}

/// Credentials stay out of the log.
impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Access({self})")
    }
}

/// The kubeconfig that counts, and what to call it.
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
        // $HTTPS_PROXY is about the world outside, which a node's API server is not in.
        config.proxy_url = None;
    }
    Ok(config)
}
