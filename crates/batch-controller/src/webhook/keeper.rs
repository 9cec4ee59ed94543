//! Keeps a certificate at hand: from files, or made by itself and shared with other replicas in a Secret. The API server is
//! told of an authority before a certificate of it is shown.

use super::bundles::Bundles;
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

/// How often everything is looked at again.
const PERIOD: Duration = Duration::from_secs(5);
/// The same after a failure.
const PAUSE: Duration = Duration::from_secs(2);
/// How long a certificate is valid that is made here. A new one is made when a third of it is left.
const VALIDITY: SignedDuration = SignedDuration::from_hours(24 * 90);
/// The name of the authorities that are made here.
const AUTHORITY: &str = "evictd-batch webhook";
/// Marks a Secret whose certificate was made here; the end of its time.
const UNTIL: &str = "batch.evictd.dev/certificate-until";

/// Where the certificate comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Files; they are read again when they change.
    Files {
        /// The certificate and what signed it, PEM.
        certificate: NamedFile,
        /// Its key, PEM.
        key: NamedFile,
        /// Who signed it, PEM. Without one the webhook configurations are left alone.
        authority: Option<NamedFile>,
    },
    /// A Secret with `tls.crt`, `tls.key` and `ca.crt`. Where it is missing, it is made, and then renewed in time; one that
    /// somebody else made is only read.
    Secret {
        /// Its namespace, which is that of the Service.
        namespace: String,
        /// Its name.
        name: String,
        /// The Service that the API server calls.
        service: String,
    },
}

/// A certificate with who signed it.
struct Current {
    pair: Pair,
    /// `None`: the API server knows already.
    authorities: Option<String>,
}

/// Why there is no certificate at the moment.
#[derive(Debug, thiserror::Error)]
enum KeepError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Certificate(#[from] TlsError),
    #[error("the Secret {0}: {1} is missing or no text")]
    Secret(String, &'static str),
    #[error("somebody else changed {0} at the same time")]
    Conflict(&'static str),
}

/// Keeps the certificate.
pub(super) struct Keeper {
    pub(super) source: Source,
    pub(super) objects: Objects,
    pub(super) bundles: Bundles,
    pub(super) shown: Serving,
    pub(super) health: Health,
    pub(super) now: fn() -> Timestamp,
}

impl Keeper {
    /// Goes on until the task is ended.
    pub(super) async fn run(mut self) {
        let mut present: Option<Pair> = None;
        loop {
            let pause = match self.look(&mut present).await {
                Ok(()) => PERIOD,
                Err(error) => {
                    warn!("{error}");
                    PAUSE
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Once: what should be shown, whom the API server should trust for it, and then it is shown.
    async fn look(&mut self, present: &mut Option<Pair>) -> Result<(), KeepError> {
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
            } => self.shared(namespace, name, service).await?,
        };
        if let Some(authorities) = &current.authorities
            && !self.bundles.keep(authorities).await?
        {
            return Err(KeepError::Conflict("the webhook configurations"));
        }
        self.health.set(Check::Bundle, true);
        if present.as_ref() != Some(&current.pair) {
            self.shown.show(&current.pair, &Handshake::default())?;
            self.health.set(Check::Certificate, true);
            info!("shows a new certificate");
            *present = Some(current.pair);
        }
        Ok(())
    }

    async fn shared(
        &self,
        namespace: &str,
        name: &str,
        service: &str,
    ) -> Result<Current, KeepError> {
        let all = format!("/api/v1/namespaces/{namespace}/secrets");
        let path = format!("{all}/{name}");
        let found = self.objects.get(&path).await?;
        let now = (self.now)();
        if found.as_ref().is_some_and(|secret| !is_due(secret, now)) {
            return current(&found.unwrap_or_default(), name);
        }
        let made = make(AUTHORITY, &names(namespace, service), VALIDITY, now)?;
        let secret = secret(found.as_ref(), namespace, name, &made);
        let written = match found {
            None => self.objects.create(&all, &secret).await?,
            Some(_) => self.objects.replace(&path, &secret).await?,
        };
        if !written {
            return Err(KeepError::Conflict("the Secret"));
        }
        info!("made a certificate that is good until {}", made.until);
        current(&secret, name)
    }
}

/// The names that the API server calls the Service by, and those of a test.
fn names(namespace: &str, service: &str) -> Vec<String> {
    vec![
        format!("{service}.{namespace}.svc"),
        format!("{service}.{namespace}.svc.cluster.local"),
        "localhost".to_owned(),
        "127.0.0.1".to_owned(),
    ]
}

/// Whether it was made here and only a third of its time is left.
fn is_due(secret: &Value, now: Timestamp) -> bool {
    let until = secret["metadata"]["annotations"][UNTIL].as_str();
    let until = until.map(|until| until.parse::<Timestamp>().unwrap_or(now));
    until.is_some_and(|until| until.duration_since(now) < VALIDITY / 3)
}

/// The Secret with this certificate. Who signed the one before stays trusted, because other replicas still show it.
fn secret(before: Option<&Value>, namespace: &str, name: &str, made: &Made) -> Value {
    let old = before.map(|secret| &secret["data"]["ca.crt"]);
    let old = old.and_then(decoded).unwrap_or_default();
    let authorities = format!("{}{}\n", made.authority, first(&old));
    let encode = |text: &str| BASE64_STANDARD.encode(text);
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/name": "evictd-batch"},
            "annotations": {UNTIL: made.until.to_string()},
            "resourceVersion": before.map(|secret| &secret["metadata"]["resourceVersion"]),
        },
        "data": {
            "tls.crt": encode(&made.pair.certificate),
            "tls.key": encode(made.pair.key.pem()),
            "ca.crt": encode(authorities.trim_end()),
        },
    })
}

/// The first certificate of a text: of several authorities the newest.
fn first(authorities: &str) -> &str {
    let end = "-----END CERTIFICATE-----";
    match authorities.find(end) {
        Some(place) => &authorities[..place + end.len()],
        None => authorities,
    }
}

fn current(secret: &Value, name: &str) -> Result<Current, KeepError> {
    let text = |key: &'static str| {
        let text = decoded(&secret["data"][key]);
        text.ok_or_else(|| KeepError::Secret(name.to_owned(), key))
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
    fn a_certificate_is_renewed_in_time_and_the_authority_before_stays_trusted() {
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
        // Whatever somebody else made is never renewed.
        assert!(!is_due(&json!({"metadata": {}}), after(1000)));
    }

    #[test]
    fn a_secret_that_lacks_something_is_told() {
        let error = current(&json!({"data": {"tls.crt": "eA=="}}), "s")
            .err()
            .unwrap();
        assert_eq!(
            error.to_string(),
            "the Secret s: tls.key is missing or no text"
        );
    }
}
