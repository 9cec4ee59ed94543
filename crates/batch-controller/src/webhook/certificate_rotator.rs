//! Provides the serving certificate, and replaces it in time. It comes from files, or is generated and shared with the other
//! replicas in a Secret. The webhook configurations get an authority before the server uses a certificate of it.

use super::ca_bundle::CaBundles;
use super::health::{Check, Health};
use super::objects::Objects;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use evictd_cluster_client::ApiError;
use evictd_daemon::tls::{Handshake, Made, NamedFile, Pair, PrivateKey, Serving, TlsError, make};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::time::Duration;
use tracing::{info, warn};

/// The time between two checks.
const CHECK_PERIOD: Duration = Duration::from_secs(5);
/// The time until the next check after a failure.
const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// The validity of a generated certificate. It is renewed when a third of it is left.
const VALIDITY: SignedDuration = SignedDuration::from_hours(24 * 90);
/// The name of generated authorities.
const AUTHORITY: &str = "evictd-batch webhook";
/// The annotation of a Secret with a generated certificate: the end of its validity.
const EXPIRY: &str = "batch.evictd.dev/certificate-until";

/// The source of the serving certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Files, which are read again when they change.
    Files {
        /// The certificate chain, PEM.
        certificate: NamedFile,
        /// The private key, PEM.
        key: NamedFile,
        /// The certificate authority, PEM. Without it the webhook configurations are not changed.
        authority: Option<NamedFile>,
    },
    /// A Secret with `tls.crt`, `tls.key` and `ca.crt`. A missing Secret is created, and a generated certificate is renewed. A
    /// Secret without the annotation is only read.
    Secret {
        /// The namespace of the Secret and of the Service.
        namespace: String,
        /// The name of the Secret.
        name: String,
        /// The Service that the API server calls.
        service: String,
    },
}

/// A certificate with its authorities.
struct Current {
    pair: Pair,
    /// `None` if the API server trusts the certificate already.
    authorities: Option<String>,
}

#[derive(Debug, thiserror::Error)]
enum RotationError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Certificate(#[from] TlsError),
    #[error("the Secret {0}: {1} is missing or is no text")]
    Secret(String, &'static str),
    #[error("another client changed {0} at the same time; the change is tried again")]
    Conflict(&'static str),
}

pub(super) struct CertificateRotator {
    pub(super) source: Source,
    pub(super) objects: Objects,
    pub(super) ca_bundles: CaBundles,
    pub(super) serving: Serving,
    pub(super) health: Health,
    pub(super) now: fn() -> Timestamp,
}

impl CertificateRotator {
    /// Runs until the task is aborted.
    pub(super) async fn run(mut self) {
        let mut served: Option<Pair> = None;
        loop {
            let pause = match self.check(&mut served).await {
                Ok(()) => CHECK_PERIOD,
                Err(error) => {
                    warn!("{error}");
                    RETRY_PERIOD
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Reads or generates the certificate, writes its authority to the webhook configurations, and then serves with it.
    async fn check(&mut self, served: &mut Option<Pair>) -> Result<(), RotationError> {
        let current = match &self.source {
            Source::Files {
                certificate,
                key,
                authority,
            } => Current {
                pair: Pair::read(certificate, key)?,
                authorities: authority.as_ref().map(NamedFile::read).transpose()?,
            },
            Source::Secret {
                namespace,
                name,
                service,
            } => self.read_or_renew(namespace, name, service).await?,
        };
        if let Some(authorities) = &current.authorities
            && !self.ca_bundles.write(authorities).await?
        {
            return Err(RotationError::Conflict("the webhook configurations"));
        }
        self.health.set(Check::Bundle, true);
        if served.as_ref() != Some(&current.pair) {
            self.serving.show(&current.pair, &Handshake::default())?;
            self.health.set(Check::Certificate, true);
            info!("serves with a new certificate");
            *served = Some(current.pair);
        }
        Ok(())
    }

    /// Reads the Secret. Creates it if it is missing, and renews a generated certificate that is due.
    async fn read_or_renew(
        &self,
        namespace: &str,
        name: &str,
        service: &str,
    ) -> Result<Current, RotationError> {
        let secrets = format!("/api/v1/namespaces/{namespace}/secrets");
        let path = format!("{secrets}/{name}");
        let stored = self.objects.get(&path).await?;
        let now = (self.now)();
        if let Some(secret) = stored.as_ref().filter(|secret| !is_due(secret, now)) {
            return current(secret, name);
        }
        let generated = make(AUTHORITY, &names(namespace, service), VALIDITY, now)?;
        let secret = secret(stored.as_ref(), namespace, name, &generated);
        let written = match stored {
            None => self.objects.create(&secrets, &secret).await?,
            Some(_) => self.objects.replace(&path, &secret).await?,
        };
        if !written {
            // Another replica was faster. The next check reads its certificate.
            return Err(RotationError::Conflict("the Secret"));
        }
        info!(
            "generated a certificate that is valid until {}",
            generated.until
        );
        current(&secret, name)
    }
}

/// The names by which the API server calls the Service, and names for tests.
fn names(namespace: &str, service: &str) -> Vec<String> {
    vec![
        format!("{service}.{namespace}.svc"),
        format!("{service}.{namespace}.svc.cluster.local"),
        // For probes and tests on the same machine.
        "localhost".to_owned(),
        "127.0.0.1".to_owned(),
    ]
}

/// Whether the certificate was generated and less than a third of its validity is left.
fn is_due(secret: &Value, now: Timestamp) -> bool {
    let expiry = secret["metadata"]["annotations"][EXPIRY].as_str();
    // An unreadable time counts as expired.
    let expiry = expiry.map(|expiry| expiry.parse::<Timestamp>().unwrap_or(now));
    expiry.is_some_and(|expiry| expiry.duration_since(now) < VALIDITY / 3)
}

/// The Secret with a new certificate. The previous authority stays trusted, because other replicas still serve with a
/// certificate of it.
fn secret(previous: Option<&Value>, namespace: &str, name: &str, generated: &Made) -> Value {
    let authorities = previous.and_then(|secret| decoded(&secret["data"]["ca.crt"]));
    let previous_authorities = authorities.unwrap_or_default();
    let authorities = format!("{}{}\n", generated.authority, first(&previous_authorities));
    let encode = |text: &str| BASE64_STANDARD.encode(text);
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/name": "evictd-batch"},
            "annotations": {EXPIRY: generated.until.to_string()},
            "resourceVersion": previous.map(|secret| &secret["metadata"]["resourceVersion"]),
        },
        "data": {
            "tls.crt": encode(&generated.pair.certificate),
            "tls.key": encode(generated.pair.key.pem()),
            "ca.crt": encode(authorities.trim_end()),
        },
    })
}

/// The first of several certificates, which is the newest.
fn first(authorities: &str) -> &str {
    let end = "-----END CERTIFICATE-----";
    match authorities.find(end) {
        Some(at) => &authorities[..at + end.len()],
        None => authorities,
    }
}

fn current(secret: &Value, name: &str) -> Result<Current, RotationError> {
    let text = |key: &'static str| {
        let text = decoded(&secret["data"][key]);
        text.ok_or_else(|| RotationError::Secret(name.to_owned(), key))
    };
    Ok(Current {
        pair: Pair {
            certificate: text("tls.crt")?,
            key: PrivateKey::new(text("tls.key")?),
        },
        authorities: Some(text("ca.crt")?),
    })
}

fn decoded(field: &Value) -> Option<String> {
    let bytes = BASE64_STANDARD.decode(field.as_str()?).ok()?;
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_renewed_in_time_and_the_previous_authority_stays_trusted() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let made = make(AUTHORITY, &names("ns", "svc"), VALIDITY, now).unwrap();
        let one = secret(None, "ns", "s", &made);
        let after = |days: i64| now + jiff::SignedDuration::from_hours(24 * days);
        assert!(!is_due(&one, now) && !is_due(&one, after(59)));
        assert!(is_due(&one, after(61)) && is_due(&one, after(100)));
        let next = make(AUTHORITY, &names("ns", "svc"), VALIDITY, after(61)).unwrap();
        let two = secret(Some(&one), "ns", "s", &next);
        let authorities = decoded(&two["data"]["ca.crt"]).unwrap();
        let both = format!("{}{}", next.authority, made.authority);
        assert_eq!(authorities, both.trim_end());
        let third = secret(Some(&two), "ns", "s", &made);
        let authorities = decoded(&third["data"]["ca.crt"]).unwrap();
        assert_eq!(authorities.matches("BEGIN").count(), 2);
        // A Secret without the annotation is never renewed.
        assert!(!is_due(&json!({"metadata": {}}), after(1000)));
    }

    #[test]
    fn a_secret_without_a_key_is_an_error_that_names_the_key() {
        let error = current(&json!({"data": {"tls.crt": "eA=="}}), "s")
            .err()
            .unwrap();
        assert_eq!(
            error.to_string(),
            "the Secret s: tls.key is missing or is no text"
        );
    }
}
