//! Errors as one line of text, with advice if the cause is known.

use kube::core::Status;
use std::error::Error;

/// The server of a request. The settings that help depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// The API server, as a kubeconfig or this pod's service account names it.
    ApiServer,
    /// This node's kubelet, as the settings under `kubelet` name it.
    Kubelet,
    /// Another one, whose settings are not known here.
    Other,
}

/// An error of the client in one line: the server's own message, else the innermost cause.
pub(crate) fn of(error: &kube::Error, peer: Peer) -> String {
    if let kube::Error::Api(status) = error {
        return answer(status);
    }
    let first: &(dyn Error + 'static) = error;
    let causes = std::iter::successors(Some(first), |error: &&(dyn Error + 'static)| {
        (*error).source()
    });
    let cause = causes.last().unwrap_or(first).to_string();
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

fn what_to_do(cause: &str, peer: Peer) -> Option<&'static str> {
    let found = ADVICE.iter().find(|(words, ..)| cause.contains(words));
    let (_, api_server, kubelet) = found?;
    match peer {
        Peer::ApiServer => Some(*api_server),
        Peer::Kubelet => Some(*kubelet),
        Peer::Other => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
