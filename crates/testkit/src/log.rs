//! The requests to the server.

use jiff::Timestamp;

/// One request, written when its answer begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// When, by the server's own clock, which may be set wrong.
    pub time: Timestamp,
    /// `GET`.
    pub method: String,
    /// With its query.
    pub path: String,
    /// As rules of access name it: `list`, or empty where no objects are served.
    pub verb: &'static str,
    /// As rules of access name it: `events.k8s.io`.
    pub group: &'static str,
    /// As rules of access name it: `pods/status`.
    pub what: String,
    /// HTTP status code; 0 when the connection was cut instead.
    pub status: u16,
    /// The header `User-Agent`.
    pub user_agent: String,
    /// The user of the request's token.
    pub user: String,
    /// Bytes of the request, its head included.
    pub asked: u64,
    /// Bytes of the answer's body; 0 of a watch.
    pub answered: u64,
}

/// Counters since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests, whatever their answer.
    pub requests: u64,
    /// Watches that are open now.
    pub watches: u64,
    /// Bytes of all bodies sent.
    pub bytes: u64,
}
