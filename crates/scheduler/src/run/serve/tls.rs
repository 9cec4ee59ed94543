//! The certificate of the secure port, and whose client certificates it takes.

use super::client_ca::{self, ClientCa};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, version};

/// Where the server's certificate comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Certificate {
    /// `--tls-cert-file` and `--tls-private-key-file`.
    Files {
        /// The certificate and what signed it, PEM.
        certificate: PathBuf,
        /// Its key, PEM.
        key: PathBuf,
    },
    /// None was given: one is made in memory, for these names and for `localhost`.
    SelfSigned(Vec<String>),
}

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file that cannot be used.
    #[error("{flag} {}: {problem}", path.display())]
    File {
        /// The flag that names it.
        flag: &'static str,
        /// Its path.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// No certificate could be made, or it does not fit its key.
    #[error("the certificate of the secure port: {0}")]
    Certificate(String),
}

/// TLS as the secure port speaks it.
#[derive(Clone)]
pub struct Tls(Arc<ServerConfig>);

impl Tls {
    /// With client certificates of the authorities in `client_ca`; `only_13` is `--tls-min-version=VersionTLS13`.
    pub fn new(
        certificate: &Certificate,
        client_ca: Option<&ClientCa>,
        only_13: bool,
    ) -> Result<Self, TlsError> {
        let wrong = |error: &dyn std::fmt::Display| TlsError::Certificate(error.to_string());
        let provider = Arc::new(ring::default_provider());
        let both = [&version::TLS13, &version::TLS12];
        let versions = if only_13 { &both[..1] } else { &both[..] };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .map_err(|error| wrong(&error))?;
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(authorities) => {
                let roots = Arc::new(roots(authorities)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider)
                    .allow_unauthenticated()
                    .build();
                builder.with_client_cert_verifier(verifier.map_err(|error| wrong(&error))?)
            }
        };
        let (chain, key) = match certificate {
            Certificate::Files { certificate, key } => from_files(certificate, key)?,
            Certificate::SelfSigned(names) => self_signed(names).map_err(|error| wrong(&error))?,
        };
        let config = builder.with_single_cert(chain, key);
        let mut config = config.map_err(|error| wrong(&error))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config)))
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.0))
    }
}

type Pair = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn in_file(flag: &'static str, path: &Path, problem: &dyn std::fmt::Display) -> TlsError {
    TlsError::File {
        flag,
        path: path.to_owned(),
        problem: problem.to_string(),
    }
}

fn certificates(flag: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let found: Vec<_> = found.map_err(|error| in_file(flag, path, &error))?;
    if found.is_empty() {
        return Err(in_file(flag, path, &"holds no certificate in PEM form"));
    }
    Ok(found)
}

fn from_files(certificate: &Path, key: &Path) -> Result<Pair, TlsError> {
    let chain = certificates("--tls-cert-file", certificate)?;
    let found = PrivateKeyDer::from_pem_file(key);
    let found = found.map_err(|error| in_file("--tls-private-key-file", key, &error))?;
    Ok((chain, found))
}

fn roots(authorities: &ClientCa) -> Result<RootCertStore, TlsError> {
    let path = match authorities {
        ClientCa::File(path) => path,
        ClientCa::Published(roots) => return Ok(roots.clone()),
    };
    let flag = "--client-ca-file";
    let found = certificates(flag, path)?;
    client_ca::roots(found).map_err(|error| in_file(flag, path, &error))
}

fn self_signed(names: &[String]) -> io::Result<Pair> {
    let wrong = |error: rcgen::Error| io::Error::other(error);
    // An address that means all of them is the name of none.
    let is_any = |name: &String| name.parse().is_ok_and(|ip: IpAddr| ip.is_unspecified());
    let mut all = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    all.extend(names.iter().filter(|name| !is_any(name)).cloned());
    let made = rcgen::generate_simple_self_signed(all).map_err(wrong)?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    Ok((vec![made.cert.der().clone()], PrivateKeyDer::Pkcs8(key)))
}
