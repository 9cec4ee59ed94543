//! The certificate of the webhook: read, or made by itself.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use std::sync::{Arc, PoisonError, RwLock};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// How long a certificate that is made by itself is good. A new one is made when a third of it is left.
pub(super) const VALIDITY: SignedDuration = SignedDuration::from_hours(24 * 90);

/// A certificate with its key, PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// One that was made.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) pair: Pair,
    /// Who signed it, PEM. The authority's key is not kept: the next certificate has another.
    pub(super) authority: String,
    /// The end of its time.
    pub(super) until: Timestamp,
}

/// Why a certificate cannot be used or made.
#[derive(Debug, thiserror::Error)]
#[error("the certificate of the webhook: {0}")]
pub(super) struct CertificateError(String);

fn wrong(error: impl std::fmt::Display) -> CertificateError {
    CertificateError(error.to_string())
}

/// Makes a certificate for these names, DNS names or addresses.
pub(super) fn make(names: &[String], now: Timestamp) -> Result<Made, CertificateError> {
    let until = now.saturating_add(VALIDITY).map_err(wrong)?;
    let mut of_authority = CertificateParams::default();
    let name = "evictd-batch webhook";
    of_authority
        .distinguished_name
        .push(DnType::CommonName, name);
    of_authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let mut own = CertificateParams::new(names).map_err(wrong)?;
    for params in [&mut of_authority, &mut own] {
        // Clocks of a cluster differ.
        let before = now.saturating_sub(SignedDuration::from_hours(24));
        let (year, month, day) = date(before.map_err(wrong)?);
        params.not_before = date_time_ymd(year, month, day);
        let (year, month, day) = date(until);
        params.not_after = date_time_ymd(year, month, day);
    }
    let key = KeyPair::generate().map_err(wrong)?;
    let authority = of_authority.self_signed(&key).map_err(wrong)?;
    let issuer = Issuer::new(of_authority, key);
    let key = KeyPair::generate().map_err(wrong)?;
    let certificate = own.signed_by(&key, &issuer).map_err(wrong)?;
    let pair = Pair {
        certificate: text("CERTIFICATE", certificate.der()),
        key: text("PRIVATE KEY", &key.serialize_der()),
    };
    Ok(Made {
        pair,
        authority: text("CERTIFICATE", authority.der()),
        until,
    })
}

/// Year, month and day.
fn date(time: Timestamp) -> (i32, u8, u8) {
    let date = time.to_zoned(TimeZone::UTC).date();
    let unsigned = |part: i8| u8::try_from(part).unwrap_or(1);
    (
        i32::from(date.year()),
        unsigned(date.month()),
        unsigned(date.day()),
    )
}

fn text(label: &str, der: &[u8]) -> String {
    let lines = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_config(&pem::Pem::new(label, der), lines)
}

/// The first certificate of a text: of several authorities the newest.
pub(super) fn first(authorities: &str) -> &str {
    let end = "-----END CERTIFICATE-----";
    match authorities.find(end) {
        Some(place) => &authorities[..place + end.len()],
        None => authorities,
    }
}

/// The certificate that is shown at the moment. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Shown(Arc<RwLock<Option<TlsAcceptor>>>);

impl Shown {
    /// From now on this one is shown; connections that are open go on.
    pub(super) fn show(&self, pair: &Pair) -> Result<(), CertificateError> {
        let chain = CertificateDer::pem_slice_iter(pair.certificate.as_bytes());
        let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(wrong)?;
        if chain.is_empty() {
            return Err(wrong("there is no certificate in PEM form"));
        }
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes())
            .map_err(|error| wrong(format_args!("its key: {error}")))?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(wrong)?
            .with_no_client_auth()
            .with_single_cert(chain, key);
        let mut config = config.map_err(wrong)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let mut shown = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *shown = Some(TlsAcceptor::from(Arc::new(config)));
        Ok(())
    }

    /// `None` before there is any.
    pub(super) fn acceptor(&self) -> Option<TlsAcceptor> {
        let shown = self.0.read().unwrap_or_else(PoisonError::into_inner);
        shown.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_shown_and_each_has_an_authority_of_its_own() {
        let now: Timestamp = "2026-11-24T00:00:00Z".parse().unwrap();
        let names = ["evictd-batch.evictd.svc".to_owned()];
        let (one, other) = (make(&names, now).unwrap(), make(&names, now).unwrap());
        assert_eq!(one.until, "2027-02-22T00:00:00Z".parse().unwrap());
        assert_ne!(one.authority, other.authority);
        let both = format!("{}{}", one.authority, other.authority);
        assert_eq!(first(&both), one.authority.trim_end());
        let shown = Shown::default();
        assert!(shown.acceptor().is_none());
        shown.show(&one.pair).unwrap();
        assert!(shown.acceptor().is_some());
        let mixed = Pair {
            certificate: one.pair.certificate,
            key: other.pair.key,
        };
        assert!(shown.show(&mixed).is_err());
        for (certificate, key) in [("", "x"), (mixed.certificate.as_str(), "x")] {
            let (certificate, key) = (certificate.to_owned(), key.to_owned());
            assert!(shown.show(&Pair { certificate, key }).is_err());
        }
    }
}
