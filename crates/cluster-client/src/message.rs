//! Errors as one line of text, with advice if the cause is known.

use kube::core::Status;
use std::error::Error;
use std::time::Duration;
use tokio::time::error::Elapsed;
use tower::BoxError;

/// The longest time to connect. A server that is reachable answers sooner, from anywhere in the cluster. Below the usual limit of
/// a call, so that its error says that there was no connection.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);

/// The server of a request. The settings that help depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// The API server, as a kubeconfig or this pod's service account names it.
    ApiServer,
    /// This node's kubelet, as the settings under `kubelet` name it.
    Kubelet,
    /// The secure port of another of our daemons, as the flags of a command name it.
    SecurePort,
    /// Another one, whose settings are not known here.
    Other,
}

/// No connection was made in time.
#[derive(Debug, thiserror::Error)]
#[error(
    "no connection to {server} within {} s: check that it runs, that no firewall drops packets to it, and that the address {} is right",
    CONNECT_TIMEOUT.as_secs(),
    source_of_address(*peer)
)]
struct NotConnected {
    server: String,
    peer: Peer,
}

const fn source_of_address(peer: Peer) -> &'static str {
    match peer {
        Peer::ApiServer => "in the kubeconfig",
        Peer::Kubelet => "under kubelet in the configuration",
        Peer::SecurePort => "after --server",
        Peer::Other => "in the configuration",
    }
}

/// The error of a request to a server, where the library's own names neither the server nor the time.
pub(crate) fn named(error: BoxError, server: &str, peer: Peer) -> BoxError {
    let is_timeout = causes(&*error).any(<Cause>::is::<Elapsed>);
    if !is_timeout {
        return error;
    }
    let server = server.to_owned();
    NotConnected { server, peer }.into()
}

/// An error that another one can have as its cause.
type Cause = dyn Error + 'static;

/// The error and its causes, the innermost last.
fn causes(error: &Cause) -> impl Iterator<Item = &Cause> {
    std::iter::successors(Some(error), |error| cause(*error))
}

fn cause(error: &Cause) -> Option<&Cause> {
    // A custom error of the system is no source of it, but its content.
    let system = error.downcast_ref::<std::io::Error>();
    match system.and_then(std::io::Error::get_ref) {
        Some(content) => Some(content),
        None => error.source(),
    }
}

/// An error of the client in one line: the server's own message, else the innermost cause.
pub(crate) fn of(error: &kube::Error, peer: Peer) -> String {
    if let kube::Error::Api(status) = error {
        return answer(status);
    }
    let last = causes(error).last();
    let cause = last.map_or_else(|| error.to_string(), ToString::to_string);
    match what_to_do(&cause, peer) {
        Some(advice) => format!("{advice} ({cause})"),
        None => cause,
    }
}

/// A refusal in one line.
pub(crate) fn answer(status: &Status) -> String {
    let (code, reason) = (status.code, status.reason.as_str());
    match status.message.trim() {
        "" => format!("{code} {reason}"),
        message => format!("{code} {reason}: {message}"),
    }
}

/// Advice for failures of TLS: the words of rustls, and for each peer the error and the setting that helps.
const ADVICE: [(&str, &str, &str); 7] = [
    (
        "certificate: UnknownIssuer",
        "the API server's certificate is signed by an authority that is not trusted here: set certificate-authority in the kubeconfig to the one that signed it",
        "this kubelet's certificate is signed by an authority that is not trusted here: set kubelet.certificateAuthority to \
         /var/lib/kubelet/pki/kubelet.crt, where a kubelet keeps its self-signed one, or to that authority",
    ),
    (
        "CaUsedAsEndEntity",
        "the API server's certificate is that of an authority, which a server may not use: give it one that an authority \
         signed",
        "this kubelet's certificate is that of an authority, which a server may not use: give it one that an authority signed \
         (tlsCertFile), or set kubelet.insecure, which verifies nothing",
    ),
    (
        "certificate: BadSignature",
        "another authority of the same name signed the API server's certificate: certificate-authority in the kubeconfig is \
         outdated or of another cluster",
        "another authority of the same name signed this kubelet's certificate: the file kubelet.certificateAuthority is \
         outdated or of another kubelet",
    ),
    (
        "certificate expired",
        "the API server's certificate has expired: renew it, or set this machine's clock",
        "this kubelet's certificate has expired: renew it, or set this machine's clock",
    ),
    (
        "certificate not valid yet",
        "the API server's certificate is not valid yet: set this machine's clock, or that server's",
        "this kubelet's certificate is not valid yet: set this machine's clock",
    ),
    (
        "certificate not valid for name",
        "the API server's certificate is for other names: use one of them in the kubeconfig",
        "this kubelet's certificate is for other names than nodeName: set nodeName to one of them",
    ),
    (
        "fatal alert: CertificateRequired",
        "the API server requires a client certificate: set one in the kubeconfig",
        "this kubelet requires a client certificate: set kubelet.clientCertificate and kubelet.clientKey",
    ),
];

/// Advice for connections to a secure port, which made its certificate itself unless it was given one.
const ADVICE_FOR_PORTS: [(&str, &str); 4] = [
    (
        "certificate: UnknownIssuer",
        "the certificate of this port is not trusted here, because the port made it itself or its authority is unknown: add \
         --insecure-skip-tls-verify if no other program can answer at this address",
    ),
    (
        "certificate not valid for name",
        "the certificate of this port is for other names: give --server one of them, or add --insecure-skip-tls-verify if no other \
         program can answer at this address",
    ),
    (
        "invalid HTTP version",
        "this port expects TLS: the URL after --server begins with https://",
    ),
    (
        "InvalidContentType",
        "this port does not answer with TLS: it is not the secure port",
    ),
];

fn what_to_do(cause: &str, peer: Peer) -> Option<&'static str> {
    if peer == Peer::SecurePort {
        let mut advice = ADVICE_FOR_PORTS.iter();
        let found = advice.find(|(words, _)| cause.contains(words));
        return found.map(|(_, advice)| *advice);
    }
    let found = ADVICE.iter().find(|(words, ..)| cause.contains(words));
    let (_, api_server, kubelet) = found?;
    match peer {
        Peer::ApiServer => Some(*api_server),
        Peer::Kubelet => Some(*kubelet),
        Peer::SecurePort | Peer::Other => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_not_made_in_time_is_reported_with_address_time_and_advice() {
        let never = std::future::pending::<()>();
        let elapsed = tokio::time::timeout(CONNECT_TIMEOUT, never).await;
        let elapsed = elapsed.unwrap_err();
        let error = std::io::Error::new(std::io::ErrorKind::TimedOut, elapsed);
        let error = named(error.into(), "https://10.0.0.1:6443", Peer::ApiServer);
        assert_eq!(
            of(&kube::Error::Service(error), Peer::ApiServer),
            "no connection to https://10.0.0.1:6443 within 4 s: check that it runs, that no firewall drops packets to it, and that \
             the address in the kubeconfig is right"
        );
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let refused = named(refused.into(), "https://10.0.0.1:6443", Peer::ApiServer);
        assert_eq!(refused.to_string(), "connection refused");
    }

    #[test]
    fn an_untrusted_kubelet_is_told_in_one_sentence_with_what_to_set() {
        let cause = "invalid peer certificate: UnknownIssuer";
        let error = kube::Error::Service(cause.into());
        assert_eq!(
            of(&error, Peer::Kubelet),
            "this kubelet's certificate is signed by an authority that is not trusted here: set kubelet.certificateAuthority to \
             /var/lib/kubelet/pki/kubelet.crt, where a kubelet keeps its self-signed one, or to that authority (invalid peer \
             certificate: UnknownIssuer)"
        );
        assert!(of(&error, Peer::ApiServer).contains("in the kubeconfig"));
    }
}
