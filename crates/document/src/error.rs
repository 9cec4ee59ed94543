//! Why a document cannot be used.

use crate::mistake::Mistakes;
use std::io;

/// Why a document cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// It cannot be read.
    #[error("{name}: {source}")]
    Read {
        /// The document.
        name: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// It is a directory.
    #[error("{0}: is a directory; a file is needed")]
    Directory(String),
    /// It holds nothing but white space.
    #[error("{0}: is empty")]
    Empty(String),
    /// It holds `null`, or nothing but comments.
    #[error("{0}: is empty: it holds null instead of an object")]
    Null(String),
    /// It is a pipe or a device, and there is no end to it.
    #[error(
        "{name}: has more than {} MiB and may be endless; more is read only of a regular file",
        limit >> 20
    )]
    Endless {
        /// The document.
        name: String,
        /// The most that is read of it.
        limit: u64,
    },
    /// It is too large to be what it should be.
    #[error("{name}: is larger than {}", size(*.limit))]
    TooLarge {
        /// The document.
        name: String,
        /// The most it may have.
        limit: u64,
    },
    /// It is no text.
    #[error("{name}:{line}: is not UTF-8 text")]
    NotText {
        /// The document.
        name: String,
        /// The line with the first byte that is none.
        line: u64,
    },
    /// It does not hold what it should.
    #[error(transparent)]
    Mistakes(#[from] Mistakes),
}

/// `16 MiB`
fn size(bytes: u64) -> String {
    match bytes >> 20 {
        0 => format!("{bytes} bytes"),
        mebibytes => format!("{mebibytes} MiB"),
    }
}
