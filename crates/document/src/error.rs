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
    /// It is too large to be what it should be.
    #[error("{name}: is larger than {limit} bytes")]
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
