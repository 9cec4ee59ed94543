//! Admission webhooks: those that are stored and have a URL are asked about objects that are about to be made, over TLS, as a
//! real server asks them. One behind a Service is never asked, since there is no network of Services here.

use crate::access::User;
use crate::call::Call;
use crate::cluster::Cluster;
use crate::patch;
use crate::policy::covers;
use crate::select::selects;
use crate::status::Status;
use crate::store::Key;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, Uri, header};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// First those that change objects.
const KINDS: [&str; 2] = [
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
];

/// How long a webhook may take that does not say so, in seconds.
const TIMEOUT: u64 = 10;

/// The body of a request after admission: every webhook for its kind reviews an object that is to be created.
pub(crate) async fn admit(
    cluster: &Cluster,
    user: &User,
    call: &Call,
    mut object: Value,
) -> Result<Value, Status> {
    if call.verb != "create" || !call.subresource.is_empty() || call.resource.is_only_asked() {
        return Ok(object);
    }
    for kind in KINDS {
        for hook in asked(cluster, kind, call) {
            let name = hook["name"].as_str().unwrap_or_default();
            let response = match ask(&hook, &review(user, call, &object)).await {
                Ok(response) => response,
                Err(_) if hook["failurePolicy"] == "Ignore" => continue,
                Err(error) => return Err(failed(&hook, name, &*error)),
            };
            if response["allowed"] != true {
                return Err(denied(name, &response["status"]));
            }
            if let Some(changes) = response["patch"].as_str() {
                let changes = BASE64_STANDARD.decode(changes).unwrap_or_default();
                let changes = serde_json::from_slice(&changes).unwrap_or_default();
                patch::json(&mut object, changes)?;
            }
        }
    }
    Ok(object)
}

/// The webhooks of this kind that are about the call, in the order of their names.
fn asked(cluster: &Cluster, kind: &'static str, call: &Call) -> Vec<Value> {
    let store = cluster.store();
    let space = store.get(&Key {
        stored: "namespaces",
        namespace: String::new(),
        name: call.namespace.clone(),
    });
    let mut labels = space.map_or(json!({}), |space| space["metadata"]["labels"].clone());
    if let Some(labels) = labels.as_object_mut() {
        // Every real namespace has it.
        let name = "kubernetes.io/metadata.name".to_owned();
        labels.insert(name, call.namespace.clone().into());
    }
    let is_about = |hook: &&Value| {
        let selector = &hook["namespaceSelector"];
        let rules = hook["rules"].as_array();
        hook["clientConfig"]["url"].is_string()
            && (selector.is_null() || call.namespace.is_empty() || selects(selector, &labels))
            && rules
                .into_iter()
                .flatten()
                .any(|rule| covers(rule, call, "CREATE"))
    };
    let configurations = store.list(kind, "");
    let hooks =
        configurations.flat_map(|(_, one)| one["webhooks"].as_array().into_iter().flatten());
    hooks.filter(is_about).cloned().collect()
}

fn review(user: &User, call: &Call, object: &Value) -> Value {
    let resource = call.resource;
    let mut object = object.clone();
    object["apiVersion"] = resource.api_version().into();
    object["kind"] = resource.kind.into();
    if resource.namespaced {
        object["metadata"]["namespace"] = call.namespace.clone().into();
    }
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "asked", "operation": "CREATE", "dryRun": call.asks("dryRun"),
            "kind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
            "resource": {"group": resource.group, "version": resource.version, "resource": resource.plural},
            "name": object["metadata"]["name"], "namespace": call.namespace,
            "userInfo": {"username": user.name}, "object": object, "oldObject": null,
        },
    })
}

type Failure = Box<dyn Error + Send + Sync>;

/// The webhook's response, within its time.
async fn ask(hook: &Value, review: &Value) -> Result<Value, Failure> {
    let seconds = hook["timeoutSeconds"].as_u64().unwrap_or(TIMEOUT);
    let answer = tokio::time::timeout(Duration::from_secs(seconds), post(hook, review)).await;
    let mut answer = answer.map_err(|_| "context deadline exceeded")??;
    Ok(answer["response"].take())
}

async fn post(hook: &Value, review: &Value) -> Result<Value, Failure> {
    let client = &hook["clientConfig"];
    let url: Uri = client["url"].as_str().unwrap_or_default().parse()?;
    let host = url.host().ok_or("its URL has no host")?.to_owned();
    let stream = TcpStream::connect((host.as_str(), url.port_u16().unwrap_or(443))).await?;
    let trust = TlsConnector::from(Arc::new(trust(client["caBundle"].as_str())?));
    let name = ServerName::try_from(host.clone())?;
    let stream = trust.connect(name, stream).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::post(path)
        .header(header::HOST, host)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(review.to_string())))?;
    let response = sender.send_request(request).await?;
    let code = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    if !code.is_success() {
        return Err(format!("it answers {code}").into());
    }
    Ok(serde_json::from_slice(&body)?)
}

/// Trust in these authorities only.
fn trust(bundle: Option<&str>) -> Result<ClientConfig, Failure> {
    let bundle = BASE64_STANDARD.decode(bundle.unwrap_or_default())?;
    let mut roots = RootCertStore::empty();
    for one in pem::parse_many(bundle)? {
        roots.add(CertificateDer::from(one.into_contents()))?;
    }
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

fn failed(hook: &Value, name: &str, error: &(dyn Error + Send + Sync)) -> Status {
    let url = hook["clientConfig"]["url"].as_str().unwrap_or_default();
    let message = format!(
        "Internal error occurred: failed calling webhook \"{name}\": failed to call webhook: Post \"{url}\": {error}"
    );
    Status::new(500, "InternalError", message)
}

/// Never with a code that means success.
fn denied(name: &str, status: &Value) -> Status {
    let code = status["code"]
        .as_u64()
        .and_then(|code| code.try_into().ok());
    let message = status["message"].as_str().unwrap_or_default();
    let why = match message {
        "" => " without explanation".to_owned(),
        message => format!(": {message}"),
    };
    let message = format!("admission webhook \"{name}\" denied the request{why}");
    Status::new(code.unwrap_or(400).max(400), "", message)
}
