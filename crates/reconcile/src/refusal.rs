//! Why the API server refused a call.

/// Why a call failed, as far as controllers act on it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such object.
    #[error("not found")]
    NotFound,
    /// An object of this name exists.
    #[error("already exists")]
    AlreadyExists,
    /// The namespace is being deleted, in the words of the API server.
    #[error("{0}")]
    NamespaceTerminating(String),
    /// Any other error, in words.
    #[error("{0}")]
    Other(String),
}

impl Refusal {
    /// The error of a call to an object, as client-go words it. The resource has its group: `jobs.batch.volcano.sh`.
    pub fn about(&self, resource: &str, name: &str) -> String {
        match self {
            Self::NotFound | Self::AlreadyExists => format!("{resource} \"{name}\" {self}"),
            Self::NamespaceTerminating(message) | Self::Other(message) => message.clone(),
        }
    }
}
