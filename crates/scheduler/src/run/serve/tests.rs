//! The secure port over TLS: probes, Prometheus, and clients without access.

use super::{
    Answers, CacheTimes, Check, DelegatedAuth, Health, LIMITS, Page, Port as Secure,
    published_authorities,
};
use crate::run::metrics::Metrics;
use axum::response::IntoResponse;
use evictd_cluster_client::{Actions, Credentials};
use evictd_daemon::server::{self, ListenAddress};
use evictd_daemon::tls::{Handshake, NamedFile, Pair, PrivateKey, Serving};
use evictd_testkit::{ApiServer, Authority, Fault, Identity};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_util::sync::CancellationToken;

struct Port {
    api: ApiServer,
    address: SocketAddr,
    health: Health,
    authority: Authority,
}

fn file(text: &str) -> (tempfile::NamedTempFile, PathBuf) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let path = file.path().to_owned();
    (file, path)
}

async fn actions(api: &ApiServer) -> Actions {
    let (_file, path) = file(&api.kubeconfig());
    let credentials = Credentials {
        kubeconfig: Some(path),
        context: String::new(),
    };
    let access = evictd_cluster_client::Access::find(&credentials).await;
    access.unwrap().actions().unwrap()
}

/// The default of kube-scheduler.
fn always_allowed() -> Vec<String> {
    ["/healthz", "/readyz", "/livez"]
        .map(str::to_owned)
        .to_vec()
}

impl Port {
    async fn open() -> Self {
        let api = ApiServer::start().unwrap();
        let actions = actions(&api).await;
        let (metrics, exposition) = Metrics::new(false);
        let auth = DelegatedAuth::new(
            Some(actions.clone()),
            Some(actions.clone()),
            always_allowed(),
            CacheTimes::default(),
        );
        let auth = auth.counted(metrics);
        let authority = Authority::new("test").unwrap();
        let identity = authority.sign(&["localhost"]).unwrap();
        let published = json!({ "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "extension-apiserver-authentication", "namespace": "kube-system" },
            "data": { "client-ca-file": authority.pem() } });
        api.actor("test").create(published).unwrap();
        let handshake = Handshake {
            client_authorities: published_authorities(&actions).await,
            only_tls13: false,
        };
        let pair = Pair {
            certificate: identity.certificate(),
            key: PrivateKey::new(identity.key()),
        };
        let tls = Serving::default();
        tls.show(&pair, &handshake).unwrap();
        let anywhere: ListenAddress = "127.0.0.1:0".parse().unwrap();
        let listener = server::bind("--secure-port", &anywhere).await.unwrap();
        let address = listener.local_addr().unwrap();
        let health = Health::default();
        let configz: Page = Arc::new(|request| {
            Box::pin(async move { json!({"asked": request.query}).to_string().into_response() })
        });
        let answers = Answers {
            health: health.clone(),
            exposition,
            pages: [("/configz", configz)].into(),
            auth,
        };
        let never = CancellationToken::new();
        let router = answers.router();
        tokio::spawn(server::serve(listener, Some(tls), router, LIMITS, never));
        Self {
            api,
            address,
            health,
            authority,
        }
    }

    async fn get(&self, path: &str, token: &str) -> (u16, String) {
        self.ask("GET", path, token, None).await
    }

    async fn ask(
        &self,
        method: &str,
        path: &str,
        token: &str,
        identity: Option<&Identity>,
    ) -> (u16, String) {
        let mut roots = RootCertStore::empty();
        let pem = self.authority.pem();
        let root = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        roots.add(root).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let certificate = identity.certificate();
                let chain = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(identity.key().as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![chain], key).unwrap()
            }
        };
        let stream = TcpStream::connect(self.address).await.unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        let name = "localhost".try_into().unwrap();
        let stream = connector.connect(name, stream).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        let mut request = hyper::Request::builder().method(method).uri(path);
        if !token.is_empty() {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Empty::<Bytes>::new()).unwrap();
        let response = sender.send_request(request).await.unwrap();
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        connection.abort();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }

    fn asked(&self, what: &str) -> usize {
        let log = self.api.log();
        log.iter().filter(|entry| entry.what == what).count()
    }
}

#[tokio::test]
async fn everybody_may_ask_for_health() {
    let port = Port::open().await;
    assert_eq!(port.get("/livez", "").await, (200, "ok".to_owned()));
    assert_eq!(port.get("/readyz", "").await.0, 500);
    port.health.set(Check::HandlerSync, true);
    let verbose = "[+]ping ok\n[+]sched-handler-sync ok\n[+]shutdown ok\nreadyz check passed\n";
    let verbose_text = port.get("/readyz?verbose", "").await;
    assert_eq!(verbose_text, (200, verbose.to_owned()));
    let reviews = ["tokenreviews", "subjectaccessreviews"];
    assert_eq!(reviews.map(|what| port.asked(what)), [0, 0]);
}

#[tokio::test]
async fn a_rejected_token_gets_401_on_every_path_as_upstream() {
    let port = Port::open().await;
    port.api.grant("admin", "admin", None);
    for path in [
        "/healthz",
        "/livez",
        "/readyz",
        "/livez/ping",
        "/metrics",
        "/other",
    ] {
        assert_eq!(port.get(path, "stranger").await.0, 401, "{path}");
    }
    // Health is for everybody else, also for a user without any right.
    port.api.grant("nobody", "nobody", Some(json!([])));
    for token in ["", "nobody", "admin"] {
        assert_eq!(port.get("/healthz", token).await.0, 200, "{token:?}");
    }
    // A token that cannot be reviewed is not known to be a good one.
    port.api.fault(Fault::answer(503));
    assert_eq!(port.get("/healthz", "another").await.0, 401);
}

#[tokio::test]
async fn metrics_are_for_those_whom_the_api_server_allows() {
    let port = Port::open().await;
    let rules = json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]);
    let account = "system:serviceaccount:monitoring:prometheus";
    port.api.grant("scraper", account, Some(rules));
    let (code, text) = port.get("/metrics", "scraper").await;
    assert_eq!(code, 200);
    assert!(text.contains("scheduler_pending_pods"));
    for requests in 2..5 {
        let (code, text) = port.get("/metrics", "scraper").await;
        assert_eq!(code, 200);
        // The name itself would let every client make a series.
        let line = format!("\nauthenticated_user_requests{{username=\"other\"}} {requests}\n");
        assert!(text.contains(&line), "{text}");
    }
    // The answers are kept.
    assert_eq!(port.asked("tokenreviews"), 1);
    assert_eq!(port.asked("subjectaccessreviews"), 1);

    let (code, text) = port.get("/configz", "scraper").await;
    let status: Value = serde_json::from_str(&text).unwrap();
    let message = format!("forbidden: User {account:?} cannot get path \"/configz\"");
    assert_eq!((code, &status["message"]), (403, &json!(message)));
    assert_eq!(port.get("/metrics", "stranger").await.0, 401);
    let (code, text) = port.get("/metrics", "").await;
    assert_eq!(code, 403);
    assert!(text.contains("system:anonymous"), "{text}");
    assert_eq!(port.ask("POST", "/metrics", "scraper", None).await.0, 403);
}

#[tokio::test]
async fn pages_get_the_query_and_unknown_paths_are_not_found() {
    let port = Port::open().await;
    port.api.grant("admin", "admin", None);
    let configz = port.get("/configz?a=b", "admin").await;
    assert_eq!(configz, (200, "{\"asked\":\"a=b\"}".to_owned()));
    assert_eq!(port.get("/other", "admin").await.0, 404);
    assert_eq!(port.ask("DELETE", "/metrics", "admin", None).await.0, 405);
}

#[tokio::test]
async fn a_client_certificate_says_who_asks() {
    let port = Port::open().await;
    let ours = port.authority.sign(&["client"]).unwrap();
    // The name in the certificates of the testkit.
    port.api.grant("unused", "rcgen self signed cert", None);
    let (code, _) = port.ask("GET", "/metrics", "", Some(&ours)).await;
    assert_eq!((code, port.asked("tokenreviews")), (200, 0));
}

/// The port of a scheduler with these files.
fn secure(certificate: Option<(NamedFile, NamedFile)>, client_ca: Option<NamedFile>) -> Secure {
    Secure {
        address: "127.0.0.1:0".parse().unwrap(),
        certificate,
        client_ca,
        skip_lookup: false,
        only_tls13: true,
        authentication: None,
        authorization: None,
        always_allowed: always_allowed(),
    }
}

#[tokio::test]
async fn authorities_come_from_a_file_or_from_the_server_if_it_says_them() {
    let api = ApiServer::start().unwrap();
    assert!(published_authorities(&actions(&api).await).await.is_none());
    let authority = Authority::new("test").unwrap();
    let (_file, path) = file(&authority.pem());
    let flag = "--client-ca-file";
    let port = secure(None, Some(NamedFile { flag, path }));
    assert!(port.open("node-1", Timestamp::UNIX_EPOCH).await.is_ok());
}

/// A client that fills the port with connections and endless heads, before and after the TLS handshake.
#[tokio::test]
async fn hundreds_of_silent_connections_keep_no_probe_and_no_scrape_waiting() {
    let port = Port::open().await;
    port.api.grant("admin", "admin", None);
    let mut silent = Vec::new();
    for index in 0..600 {
        let mut stream = TcpStream::connect(port.address).await.unwrap();
        if index % 2 == 0 {
            // The beginning of a handshake. The connection may be closed already.
            let _ = stream.write_all(&[22, 3, 1]).await;
        }
        silent.push(stream);
    }
    for (path, token) in [("/livez", ""), ("/metrics", "admin")] {
        let answered = timeout(Duration::from_secs(5), port.get(path, token)).await;
        assert_eq!(answered.expect("it waits").0, 200, "{path}");
    }
}

#[tokio::test]
async fn without_the_api_server_only_health_is_answered() {
    let port = Port::open().await;
    port.api.fault(Fault::answer(503));
    assert_eq!(port.get("/metrics", "scraper").await.0, 401);
    assert_eq!(port.get("/metrics", "").await.0, 500);
    assert_eq!(port.get("/healthz", "").await.0, 200);
}

#[tokio::test]
async fn a_certificate_is_made_where_none_is_given_and_mistakes_name_the_flag() {
    let now = Timestamp::UNIX_EPOCH;
    assert!(secure(None, None).open("0.0.0.0", now).await.is_ok());
    let (_file, path) = file("nothing");
    let named = |flag| NamedFile {
        flag,
        path: path.clone(),
    };
    let wrong = async |port: Secure| port.open("node-1", now).await.err().unwrap().to_string();
    let files = (named("--tls-cert-file"), named("--tls-private-key-file"));
    let error = wrong(secure(Some(files), None)).await;
    assert!(error.starts_with("--tls-cert-file /"), "{error}");
    let error = wrong(secure(None, Some(named("--client-ca-file")))).await;
    assert!(error.starts_with("--client-ca-file /"), "{error}");
    let far = Secure {
        address: "192.0.2.1:1".parse().unwrap(),
        ..secure(None, None)
    };
    let error = wrong(far).await;
    assert!(
        error.starts_with("cannot listen on 192.0.2.1:1 (--bind-address, --secure-port)"),
        "{error}"
    );
}
