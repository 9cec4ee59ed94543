//! Document errors.

use crate::mistake::Mistakes;
use std::io;

/// Why a document cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// Reading failed.
    #[error("{name}: {source}")]
    Read {
        /// The document.
        name: String,
        /// The error of the kernel.
        source: io::Error,
    },
    /// It is a directory.
    #[error("{0}: is a directory; a file is needed")]
    Directory(String),
    /// It is a directory without files that may hold objects.
    #[error("{0}: is a directory without a .json, .yaml or .yml file")]
    EmptyDirectory(String),
    /// It contains only white space.
    #[error("{0}: is empty")]
    Empty(String),
    /// It contains only `null` or comments.
    #[error("{0}: is empty: it holds null instead of an object")]
    Null(String),
    /// It is a pipe or a device without an end.
    #[error(
        "{name}: has more than {} MiB and may be endless; more is read only of a regular file",
        limit >> 20
    )]
    Endless {
        /// The document.
        name: String,
        /// The read limit in bytes.
        limit: u64,
    },
    /// It exceeds the size limit of its kind.
    #[error("{name}: is larger than {}", size(*.limit))]
    TooLarge {
        /// The document.
        name: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// It is not UTF-8 text.
    #[error("{name}:{line}: is not UTF-8 text")]
    NotText {
        /// The document.
        name: String,
        /// The line of the first invalid byte.
        line: u64,
    },
    /// It does not match the expected type.
    #[error(transparent)]
    Mistakes(#[from] Mistakes),
}

/// For example `16 MiB`.
fn size(bytes: u64) -> String {
    match bytes >> 20 {
        0 => format!("{bytes} bytes"),
        mebibytes => format!("{mebibytes} MiB"),
    }
}
