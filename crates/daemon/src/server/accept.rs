//! Where connections come from.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// A listener.
pub trait Accept: Send + 'static {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// The next connection, with the address of its peer if it has one.
    fn accept(&mut self)
    -> impl Future<Output = io::Result<(Self::Stream, Option<IpAddr>)>> + Send;
}

impl Accept for TcpListener {
    type Stream = TcpStream;

    async fn accept(&mut self) -> io::Result<(TcpStream, Option<IpAddr>)> {
        let (stream, peer) = Self::accept(self).await?;
        // An IPv4 address has another form where both versions are listened on.
        Ok((stream, Some(peer.ip().to_canonical())))
    }
}

impl Accept for UnixListener {
    type Stream = UnixStream;

    async fn accept(&mut self) -> io::Result<(UnixStream, Option<IpAddr>)> {
        let (stream, _) = Self::accept(self).await?;
        Ok((stream, None))
    }
}

/// An address to listen on: `ADDRESS:PORT`, or `:PORT` for every address of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenAddress {
    /// `None`: every address.
    host: Option<IpAddr>,
    port: u16,
}

/// Neither `ADDRESS:PORT` nor `:PORT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an address; ADDRESS:PORT or :PORT is needed")]
pub struct InvalidAddress;

impl FromStr for ListenAddress {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        if let Some(port) = text.strip_prefix(':') {
            let port = port.parse().map_err(|_| InvalidAddress)?;
            return Ok(Self { host: None, port });
        }
        let address: SocketAddr = text.parse().map_err(|_| InvalidAddress)?;
        Ok(address.into())
    }
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self {
            host: Some(address.ip()),
            port: address.port(),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host {
            Some(host) => SocketAddr::new(host, self.port).fmt(f),
            None => write!(f, ":{}", self.port),
        }
    }
}

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} ({setting}): {source}")]
pub struct BindError {
    address: ListenAddress,
    setting: &'static str,
    source: io::Error,
}

/// Listens on the address; `setting` is the name of the option that configured it.
pub async fn bind(
    setting: &'static str,
    address: &ListenAddress,
) -> Result<TcpListener, BindError> {
    let at = |host| TcpListener::bind(SocketAddr::new(host, address.port));
    let bound = match address.host {
        Some(host) => at(host).await,
        None => match at(Ipv6Addr::UNSPECIFIED.into()).await {
            // A machine without IPv6.
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                at(Ipv4Addr::UNSPECIFIED.into()).await
            }
            bound => bound,
        },
    };
    bound.map_err(|source| BindError {
        address: *address,
        setting,
        source,
    })
}
