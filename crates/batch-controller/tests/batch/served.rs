//! A running webhook beside an API server, and its clients.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use evictd_testkit::{Actor, ApiServer};
use http_body_util::{BodyExt, Channel, Either, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;
use tempfile::NamedTempFile;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// The kinds of webhook configurations.
pub(crate) const KINDS: [(&str, &str); 2] = [
    (
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
    ),
    (
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
    ),
];

/// A running webhook.
pub(crate) struct Webhook {
    pub(crate) program: Child,
    pub(crate) address: SocketAddr,
    /// Where probes are answered over plain HTTP.
    pub(crate) probes: SocketAddr,
    /// What it said so far.
    pub(crate) log: Arc<Mutex<String>>,
    _kubeconfig: NamedTempFile,
}

impl Drop for Webhook {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// An API server with an open queue, and the configurations that ask the webhook.
pub(crate) fn cluster() -> ApiServer {
    let api = ApiServer::start().unwrap();
    let admin = api.actor("test");
    admin
        .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "volcano-system"}}))
        .unwrap();
    for (name, parent) in [("root", ""), ("default", "root")] {
        admin
            .create(json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
                "metadata": {"name": name}, "spec": {"parent": parent, "weight": 1}, "status": {"state": "Open"}}))
            .unwrap();
    }
    for (kind, _) in KINDS {
        let hook = |name: &str| json!({"name": name, "clientConfig": {"service": {"name": "evictd-batch-webhook", "namespace": "volcano-system"}}});
        admin
            .create(json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
                "metadata": {"name": "evictd-batch"}, "webhooks": [hook("a.evictd.dev"), hook("b.evictd.dev")]}))
            .unwrap();
    }
    api
}

impl Webhook {
    /// By this kubeconfig, with these further flags.
    pub(crate) fn start(kubeconfig: &str, flags: &[&str]) -> Self {
        let mut file = NamedTempFile::new().unwrap();
        write!(file, "{kubeconfig}").unwrap();
        let mut program = Command::new(env!("CARGO_BIN_EXE_evictd-batch"))
            .args([
                "webhook",
                "--listen-address=127.0.0.1",
                "--port=0",
                "--enable-healthz",
            ])
            .args([
                "--healthz-address=127.0.0.1:0",
                "--webhook-namespace=volcano-system",
            ])
            .arg("--kubeconfig")
            .arg(file.path())
            .args(flags)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (message, addresses) = mpsc::channel();
        let log = Arc::new(Mutex::new(String::new()));
        let (stderr, all) = (program.stderr.take().unwrap(), Arc::clone(&log));
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                for scheme in ["https://", "http://"] {
                    if let Some((_, address)) = line.split_once(scheme)
                        && (line.contains("listens on") || line.contains("answers probes"))
                    {
                        // Who started it may have given up.
                        let _ = message.send(address.parse::<SocketAddr>());
                    }
                }
                let mut all = all.lock().unwrap();
                all.push_str(&line);
                all.push('\n');
            }
        });
        let next = || {
            let message = addresses.recv_timeout(Duration::from_secs(30));
            let message = message.unwrap_or_else(|_| panic!("{}", log.lock().unwrap()));
            message.unwrap()
        };
        let (address, probes) = (next(), next());
        Self {
            program,
            address,
            probes,
            log,
            _kubeconfig: file,
        }
    }

    /// Whether `/readyz` passes, over plain HTTP.
    pub(crate) async fn is_ready(&self) -> bool {
        let stream = TcpStream::connect(self.probes).await.unwrap();
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let (code, _) = Connection(sender).get("/readyz").await;
        code == 200
    }
}

/// The authorities in `caBundle`, which are the same in every webhook of both configurations.
pub(crate) fn bundle(admin: &Actor) -> Option<String> {
    let mut bundles = KINDS.iter().flat_map(|(_, plural)| {
        let configuration = admin.get(plural, "evictd-batch").unwrap();
        let hooks = configuration["webhooks"].as_array().unwrap().clone();
        hooks
            .into_iter()
            .map(|hook| hook["clientConfig"]["caBundle"].as_str().map(str::to_owned))
    });
    let first = bundles.next().unwrap()?;
    if bundles.any(|other| other.as_ref() != Some(&first)) {
        return None;
    }
    let text = BASE64_STANDARD.decode(first).unwrap();
    Some(String::from_utf8(text).unwrap())
}

/// TLS to this address, trusting these authorities for the Service's name.
pub(crate) async fn connect(address: SocketAddr, authorities: &str) -> std::io::Result<Connection> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
        roots.add(authority.unwrap()).unwrap();
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await?;
    let name = "evictd-batch-webhook.volcano-system.svc"
        .try_into()
        .unwrap();
    let stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    Ok(Connection(sender))
}

/// An open connection.
pub(crate) struct Connection(SendRequest<Body>);

type Body = Either<Full<Bytes>, Channel<Bytes>>;

impl Connection {
    pub(crate) async fn get(&mut self, path: &str) -> (u16, String) {
        let request = Request::get(path).header("host", "webhook");
        self.send(request.body(Either::Left(Full::default())).unwrap())
            .await
    }

    /// Posts a body.
    pub(crate) async fn post(
        &mut self,
        path: &str,
        kind: &str,
        body: impl Into<Bytes>,
    ) -> (u16, String) {
        let request = Request::post(path)
            .header("host", "webhook")
            .header("content-type", kind);
        self.send(request.body(Either::Left(Full::new(body.into()))).unwrap())
            .await
    }

    /// Posts a body that never ends.
    pub(crate) async fn post_endlessly(&mut self, path: &str) -> (u16, String) {
        let (mut sender, body) = Channel::new(1);
        sender.send_data(Bytes::from_static(b"{")).await.unwrap();
        let request = Request::post(path)
            .header("host", "webhook")
            .header("content-type", "application/json");
        let answer = self.send(request.body(Either::Right(body)).unwrap()).await;
        drop(sender);
        answer
    }

    /// The response to a review of this object.
    pub(crate) async fn review(&mut self, path: &str, operation: &str, object: &Value) -> Value {
        let name = &object["metadata"]["name"];
        let request = json!({"uid": "42", "operation": operation, "name": name, "object": object, "oldObject": null});
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
        let (code, text) = self
            .post(path, "application/json", review.to_string())
            .await;
        assert_eq!(code, 200, "{text}");
        let mut answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(answer["response"]["uid"], "42");
        answer["response"].take()
    }

    async fn send(&mut self, request: Request<Body>) -> (u16, String) {
        self.0.ready().await.unwrap();
        let response = self.0.send_request(request).await.unwrap();
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8_lossy(&body).into_owned())
    }
}

/// A job that is right, in this queue.
pub(crate) fn job(name: &str, queue: &str) -> Value {
    let template = json!({"spec": {"containers": [{"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1000m"}}}]}});
    json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name, "namespace": "default"},
        "spec": {"queue": queue, "tasks": [{"name": "w", "replicas": 3, "template": template}]}})
}
