//! The certificate that is shown at the moment.

use super::{Pair, TlsError, chain, wrong};
use std::sync::{Arc, PoisonError, RwLock};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, version};

/// How connections begin.
#[derive(Debug, Clone, Default)]
pub struct Handshake {
    /// Client certificates of these authorities are taken; none has to be shown.
    pub client_authorities: Option<RootCertStore>,
    /// Whether TLS 1.2 is refused.
    pub only_tls13: bool,
}

/// The certificate that a listener shows to its clients. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Serving(Arc<RwLock<Option<Arc<ServerConfig>>>>);

impl Serving {
    /// From now on this certificate is shown; connections that are open continue.
    pub fn show(&self, pair: &Pair, handshake: &Handshake) -> Result<(), TlsError> {
        let config = Arc::new(config(pair, handshake)?);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(config);
        Ok(())
    }

    /// `None` before there is any.
    pub fn current(&self) -> Option<Arc<ServerConfig>> {
        let shown = self.0.read().unwrap_or_else(PoisonError::into_inner);
        shown.clone()
    }
}

fn config(pair: &Pair, handshake: &Handshake) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let both = [&version::TLS13, &version::TLS12];
    let versions = if handshake.only_tls13 {
        &both[..1]
    } else {
        &both[..]
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .map_err(wrong)?;
    let builder = match &handshake.client_authorities {
        None => builder.with_no_client_auth(),
        Some(roots) => {
            let roots = Arc::new(roots.clone());
            // A client may have a token in place of a certificate, which the handler checks.
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider)
                .allow_unauthenticated()
                .build();
            builder.with_client_cert_verifier(verifier.map_err(wrong)?)
        }
    };
    let chain = chain(&pair.certificate)?;
    if chain.is_empty() {
        return Err(wrong("there is no certificate in PEM form"));
    }
    let key = PrivateKeyDer::from_pem_slice(pair.key.pem().as_bytes())
        .map_err(|error| wrong(format_args!("its key: {error}")))?;
    let mut config = builder.with_single_cert(chain, key).map_err(wrong)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::super::{PrivateKey, make};
    use super::*;
    use jiff::{SignedDuration, Timestamp};

    #[test]
    fn only_a_certificate_that_fits_its_key_is_shown_and_no_text_has_the_key() {
        let now: Timestamp = "2026-11-24T00:00:00Z".parse().unwrap();
        let make = || {
            let valid = SignedDuration::from_hours(24);
            make("test", &["localhost".to_owned()], valid, now).unwrap()
        };
        let (one, other) = (make(), make());
        let (serving, handshake) = (Serving::default(), Handshake::default());
        assert!(serving.current().is_none());
        serving.show(&one.pair, &handshake).unwrap();
        assert!(serving.current().is_some());
        let mixed = Pair {
            certificate: one.pair.certificate.clone(),
            key: other.pair.key,
        };
        assert!(serving.show(&mixed, &handshake).is_err());
        for (certificate, key) in [("", "x"), (mixed.certificate.as_str(), "x")] {
            let pair = Pair {
                certificate: certificate.to_owned(),
                key: PrivateKey::new(key.to_owned()),
            };
            assert!(serving.show(&pair, &handshake).is_err());
        }
        let text = format!("{one:?}");
        assert!(
            text.contains("PrivateKey(..)") && !text.contains("BEGIN PRIVATE"),
            "{text}"
        );
    }
}
