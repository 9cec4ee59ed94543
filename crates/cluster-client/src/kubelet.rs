//! Access to this node's kubelet; it needs the right to `get` `nodes/pods`, `nodes/stats` and `nodes/configz`.

use super::{Access, ApiError, Follow, WatchError, actions::Actions, reflector::read_list};
use serde_json::json;
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{net::TcpStream, time::timeout};

/// The port that kubelets listen on.
const PORT: u16 = 10250;
/// The time limit of a request; a kubelet answers from memory.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The token of a pod's service account.
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
const CLUSTER: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";
/// The certificate that a kubelet signs itself if it is not given one.
const SELF_SIGNED: &str = "/var/lib/kubelet/pki/kubelet.crt";

/// The kubelet's address, the credentials, and the trusted certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KubeletSettings {
    /// `https://10.0.0.7:10250`; empty: derived, see [`KubeletClient::url`].
    pub url: String,
    /// A file with a bearer token; `None`: that of this pod's service account.
    pub token_file: Option<PathBuf>,
    /// A file with a client certificate. With one, the token of the service account is not used by itself.
    pub client_certificate: Option<PathBuf>,
    /// The key of the client certificate.
    pub client_key: Option<PathBuf>,
    /// The certificate authority for the kubelet's certificate; `None`: the usual places.
    pub certificate_authority: Option<PathBuf>,
    /// Whether the kubelet's certificate is not verified.
    pub insecure: bool,
}

/// A connection to this node's kubelet.
#[derive(Clone)]
pub struct KubeletClient {
    url: String,
    actions: Actions,
}

impl KubeletClient {
    /// As configured; `node` is the name that the kubelet's certificate must contain. Sends nothing. Must be called
    /// inside the runtime, and again when credentials are refused.
    pub async fn find(settings: &KubeletSettings, node: &str) -> Result<Self, ApiError> {
        let url = Self::url(settings);
        let by_itself = |configured: &Option<PathBuf>, places: &[&str]| {
            let found = || places.iter().map(Path::new).find(|place| place.exists());
            configured.clone().or_else(|| found().map(Path::to_owned))
        };
        let (certificate, key) = (&settings.client_certificate, &settings.client_key);
        // Beside a client certificate a token that happens to be there is not sent.
        let token = match certificate {
            Some(_) => settings.token_file.clone(),
            None => by_itself(&settings.token_file, &[TOKEN]),
        };
        let authority = if settings.insecure {
            None
        } else {
            by_itself(&settings.certificate_authority, &[SELF_SIGNED, CLUSTER])
        };
        let kubeconfig = json!({
            "current-context": "kubelet",
            "contexts": [{"name": "kubelet", "context": {"cluster": "kubelet", "user": "kubelet"}}],
            "clusters": [{"name": "kubelet", "cluster": {
                "server": url, "tls-server-name": node,
                "certificate-authority": authority, "insecure-skip-tls-verify": settings.insecure,
            }}],
            "users": [{"name": "kubelet", "user": {
                "tokenFile": token, "client-certificate": certificate, "client-key": key,
            }}],
        });
        let access = Access::to_kubelet("the settings under kubelet", &kubeconfig).await?;
        Ok(Self {
            url,
            actions: access.actions()?,
        })
    }

    /// As configured; else from the environment of this pod, because a pod's loopback address is not the node's;
    /// else the loopback address.
    pub fn url(settings: &KubeletSettings) -> String {
        match settings.url.trim_end_matches('/') {
            "" => {
                let address = std::env::var("NODE_IP").ok();
                let node = address
                    .and_then(|address| address.parse().ok())
                    .unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
                format!("https://{}", SocketAddr::new(node, PORT))
            }
            configured => configured.to_owned(),
        }
    }

    /// Whether something accepts connections at that address. Leaves nothing open.
    pub async fn is_listening(settings: &KubeletSettings) -> bool {
        let parsed: Option<hyper::Uri> = Self::url(settings).parse().ok();
        let place = parsed
            .as_ref()
            .and_then(|url| Some((url.host()?, url.port_u16()?)));
        let Some((host, port)) = place else {
            return false;
        };
        let connect = TcpStream::connect((host.trim_matches(['[', ']']), port));
        matches!(timeout(Duration::from_secs(1), connect).await, Ok(Ok(_)))
    }

    /// Calls `follower` for each object of the list at this path as it arrives. Only `Ok` means that the list was
    /// complete.
    pub async fn list(&self, path: &str, follower: &mut impl Follow) -> Result<(), WatchError> {
        let listed = timeout(TIMEOUT, read_list(self.actions.client(), path, follower))
            .await
            .unwrap_or_else(|_| {
                Err(WatchError {
                    problem: format!("no answer within {} s", TIMEOUT.as_secs()),
                    ..WatchError::default()
                })
            });
        listed.map_err(|broken| WatchError {
            problem: format!("{}{path}: {}", self.url, broken.problem),
            ..broken
        })
    }

    /// The kubelet's answer at this path.
    pub async fn get(&self, path: &str) -> Result<String, ApiError> {
        let what = format!("{}{path}", self.url);
        let client = self.actions.client();
        let ask = async {
            let request = hyper::Request::get(path)
                .body(Vec::new())
                .map_err(kube::Error::HttpError)?;
            client.request_text(request).await
        };
        self.actions.call(&what, TIMEOUT, ask).await
    }
}

impl fmt::Display for KubeletClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}
