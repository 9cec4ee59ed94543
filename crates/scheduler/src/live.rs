//! A live cluster, read page by page as one text of lists.

use kube::config::KubeConfigOptions;
use kube::{Client, Config};
use serde::Deserialize;
use std::io::{self, Cursor, Read};
use tokio::runtime::{Builder, Runtime};

/// What is listed; nodes first, since pods find them then.
const LISTS: [&str; 9] = [
    "/api/v1/nodes",
    "/api/v1/namespaces",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/policy/v1/poddisruptionbudgets",
    "/api/v1/persistentvolumeclaims",
    "/api/v1/persistentvolumes",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/apis/storage.k8s.io/v1/csinodes",
    "/api/v1/pods",
];

/// Who may not list these plans without them; the plan says what it could not check.
const OPTIONAL: [&str; 4] = [LISTS[4], LISTS[5], LISTS[6], LISTS[7]];

/// So many objects come at once.
const PAGE: usize = 500;

/// Why a cluster cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LiveError {
    /// The kubeconfig does not tell how.
    #[error("--context {context}: {source}")]
    Context {
        context: String,
        source: kube::config::KubeconfigError,
    },
    /// It does not answer as it should.
    #[error("GET {path}: {source}")]
    Request {
        path: &'static str,
        source: Box<kube::Error>,
    },
    /// It answers that this user may not.
    #[error(
        "GET {path}: not permitted; the RBAC verb list on {} is needed cluster-wide",
        resource(path)
    )]
    Forbidden { path: &'static str },
}

fn resource(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The lists of a cluster, one after the other.
pub(crate) struct Live {
    runtime: Runtime,
    client: Client,
    /// What is still to be listed; the last is next.
    left: Vec<&'static str>,
    /// Where the next page of the present list goes on.
    token: String,
    page: Cursor<String>,
}

/// What a page says of the next.
#[derive(Deserialize)]
struct Outline {
    #[serde(default)]
    metadata: Option<ListMetadata>,
}

#[derive(Deserialize)]
struct ListMetadata {
    #[serde(default, rename = "continue")]
    token: Option<String>,
}

impl Live {
    /// Connects as the kubeconfig's context says.
    pub(crate) fn new(context: &str) -> anyhow::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let options = KubeConfigOptions {
            context: Some(context.to_owned()),
            ..KubeConfigOptions::default()
        };
        let client = runtime.block_on(async {
            let config = Config::from_kubeconfig(&options).await;
            let config = config.map_err(|source| LiveError::Context {
                context: context.to_owned(),
                source,
            })?;
            anyhow::Ok(Client::try_from(config)?)
        })?;
        Ok(Self {
            runtime,
            client,
            left: LISTS.iter().rev().copied().collect(),
            token: String::new(),
            page: Cursor::default(),
        })
    }

    /// Gets the next page, which may be empty; false after the last.
    fn turn(&mut self) -> Result<bool, LiveError> {
        let Some(path) = self.left.last().copied() else {
            return Ok(false);
        };
        let failed = |source: kube::Error| match &source {
            kube::Error::Api(status) if status.code == 403 => LiveError::Forbidden { path },
            _ => LiveError::Request {
                path,
                source: Box::new(source),
            },
        };
        let token = escaped(&self.token);
        let url = format!("{path}?limit={PAGE}&continue={token}");
        let request = http::Request::get(url).body(Vec::new());
        let request = request.map_err(|error| failed(kube::Error::HttpError(error)))?;
        let page = self.runtime.block_on(self.client.request_text(request));
        let page = match page.map_err(failed) {
            Err(LiveError::Forbidden { path }) if OPTIONAL.contains(&path) => {
                self.left.pop();
                return Ok(true);
            }
            page => page?,
        };
        let outline = serde_json::from_str::<Outline>(&page);
        let outline = outline.map_err(|error| failed(kube::Error::SerdeError(error)))?;
        self.token = outline
            .metadata
            .and_then(|metadata| metadata.token)
            .unwrap_or_default();
        if self.token.is_empty() {
            self.left.pop();
        }
        self.page = Cursor::new(page);
        Ok(true)
    }
}

/// As part of a query.
fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        _ if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

impl Read for Live {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.page.read(buffer)?;
            if count > 0 || buffer.is_empty() || !self.turn().map_err(io::Error::other)? {
                return Ok(count);
            }
        }
    }
}
