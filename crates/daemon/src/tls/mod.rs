//! Certificates of our servers: read from files, or made, and shown.

#[cfg(any(test, feature = "make-certificates"))]
mod make;
mod serving;

#[cfg(any(test, feature = "make-certificates"))]
pub use make::{Made, make};
pub use serving::{Handshake, Serving};

use std::fmt;
use std::path::PathBuf;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

/// Why a certificate cannot be used or made.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file that cannot be used.
    #[error("{file}: {problem}")]
    File {
        /// The file, with the setting that names it.
        file: NamedFile,
        /// The error in it.
        problem: String,
    },
    /// No certificate could be made, or it does not fit its key.
    #[error("the certificate: {0}")]
    Certificate(String),
}

fn wrong(error: impl fmt::Display) -> TlsError {
    TlsError::Certificate(error.to_string())
}

/// A file that a flag names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedFile {
    /// The flag.
    pub flag: &'static str,
    /// Its value.
    pub path: PathBuf,
}

impl fmt::Display for NamedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.flag, self.path.display())
    }
}

impl NamedFile {
    fn wrong(&self, problem: impl fmt::Display) -> TlsError {
        TlsError::File {
            file: self.clone(),
            problem: problem.to_string(),
        }
    }

    /// The text of the file.
    pub fn read(&self) -> Result<String, TlsError> {
        std::fs::read_to_string(&self.path).map_err(|error| self.wrong(error))
    }

    /// The authorities in the file.
    pub fn authorities(&self) -> Result<RootCertStore, TlsError> {
        authorities(&self.read()?).map_err(|error| match error {
            TlsError::Certificate(problem) => self.wrong(problem),
            other @ TlsError::File { .. } => other,
        })
    }
}

/// A private key, PEM. Its text is in no log.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateKey(String);

impl PrivateKey {
    /// From its text.
    pub const fn new(pem: String) -> Self {
        Self(pem)
    }

    /// The text.
    pub fn pem(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(..)")
    }
}

/// A certificate, with its issuers, and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The certificate and its issuers, PEM.
    pub certificate: String,
    /// Its key.
    pub key: PrivateKey,
}

impl Pair {
    /// Reads both files. Whether they go together is seen when they are shown.
    pub fn read(certificate: &NamedFile, key: &NamedFile) -> Result<Self, TlsError> {
        let text = certificate.read()?;
        if chain(&text)?.is_empty() {
            return Err(certificate.wrong("holds no certificate in PEM form"));
        }
        let key = PrivateKey::new(key.read()?);
        Ok(Self {
            certificate: text,
            key,
        })
    }
}

fn chain(pem: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all = CertificateDer::pem_slice_iter(pem.as_bytes());
    all.collect::<Result<_, _>>().map_err(wrong)
}

/// The authorities in this text, PEM; an error if there is none.
pub fn authorities(pem: &str) -> Result<RootCertStore, TlsError> {
    let certificates = chain(pem)?;
    if certificates.is_empty() {
        return Err(wrong("no certificate in PEM form"));
    }
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(certificate).map_err(wrong)?;
    }
    Ok(roots)
}
