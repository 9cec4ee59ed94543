//! TLS in front of a server of plain HTTP, and certificate authorities.

use crate::connections;
use crate::worker::Worker;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, crypto::ring};

/// Signs certificates.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: Vec<u8>,
}

/// A certificate and its key.
#[derive(Debug)]
pub struct Identity {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// Accepts TLS connections and forwards their bytes until it is dropped.
#[derive(Debug)]
pub struct TlsProxy {
    address: SocketAddr,
    _worker: Worker,
}

impl Authority {
    /// A new authority of this name.
    pub fn new(name: &str) -> io::Result<Self> {
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let mut params = CertificateParams::default();
        let common = DnType::CommonName;
        params.distinguished_name.push(common, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).map_err(io::Error::other)?;
        Ok(Self {
            certificate: certificate.der().to_vec(),
            issuer: Issuer::new(params, key),
        })
    }

    /// Its own certificate.
    pub fn pem(&self) -> String {
        pem_of("CERTIFICATE", &self.certificate)
    }

    /// A certificate for these names, DNS names or addresses, that is valid today.
    pub fn sign(&self, names: &[&str]) -> io::Result<Identity> {
        self.sign_until(names, 2999)
    }

    /// One that has expired long ago.
    pub fn sign_expired(&self, names: &[&str]) -> io::Result<Identity> {
        self.sign_until(names, 2001)
    }

    fn sign_until(&self, names: &[&str], year: i32) -> io::Result<Identity> {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).map_err(io::Error::other)?;
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let signed = params.signed_by(&key, &self.issuer);
        Ok(Identity {
            certificate: signed.map_err(io::Error::other)?.der().to_vec(),
            key: key.serialize_der(),
        })
    }
}

impl Identity {
    /// The certificate.
    pub fn certificate(&self) -> String {
        pem_of("CERTIFICATE", &self.certificate)
    }

    /// The key.
    pub fn key(&self) -> String {
        pem_of("PRIVATE KEY", &self.key)
    }
}

fn pem_of(label: &str, der: &[u8]) -> String {
    pem::encode(&pem::Pem::new(label, der))
}

impl TlsProxy {
    /// Before the server at this `http://ADDRESS`. Where an authority for clients is given, who has no certificate of its
    /// is turned away.
    pub fn start(
        before: &str,
        identity: &Identity,
        clients: Option<&Authority>,
    ) -> io::Result<Self> {
        let behind: SocketAddr = before
            .trim_start_matches("http://")
            .parse()
            .map_err(io::Error::other)?;
        let acceptor = TlsAcceptor::from(Arc::new(config(identity, clients)?));
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let worker = Worker::start("tls", move || async move {
            if let Ok(listener) = TcpListener::from_std(listener) {
                serve(listener, acceptor, behind).await;
            }
        })?;
        Ok(Self {
            address,
            _worker: worker,
        })
    }

    /// `https://127.0.0.1:PORT`
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }
}

fn config(identity: &Identity, clients: Option<&Authority>) -> io::Result<ServerConfig> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            let root = CertificateDer::from(authority.certificate.clone());
            roots.add(root).map_err(io::Error::other)?;
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().map_err(io::Error::other)?)
        }
    };
    let chain = vec![CertificateDer::from(identity.certificate.clone())];
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(identity.key.clone()));
    builder
        .with_single_cert(chain, key)
        .map_err(io::Error::other)
}

/// Never ends; dropped, it ends every connection.
async fn serve(listener: TcpListener, acceptor: TlsAcceptor, behind: SocketAddr) {
    connections::serve(listener, |stream| {
        let acceptor = acceptor.clone();
        // How a connection ends is its client's business.
        async move {
            let mut outside = acceptor.accept(stream).await?;
            let mut inside = TcpStream::connect(behind).await?;
            tokio::io::copy_bidirectional(&mut outside, &mut inside).await
        }
    })
    .await;
}
