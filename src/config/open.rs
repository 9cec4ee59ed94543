//! From a file, or stdin, to the configuration.

use super::{
    mistake::{Fault, Refused},
    read::{Loaded, parse},
};
use evictd_document::{Document, DocumentError, Place, SMALL};
use std::path::Path;

/// Reads a configuration of either kind from a file, or from stdin where `file` is `-`.
/// An empty file is no mistake: every setting is at its default then.
pub fn open(file: &Path) -> Result<Loaded, Refused> {
    match Document::read(file, SMALL) {
        Ok(document) => parse(document.name(), document.text()),
        Err(error) => unreadable(error),
    }
}

fn unreadable(error: DocumentError) -> Result<Loaded, Refused> {
    let refused = |name: &str, line: Option<u64>, message: String| {
        let at = line.map(|line| Place { line, column: 1 });
        Err(Refused {
            kubelet_first_error: message.clone(),
            mistakes: vec![Fault::new(at, message).of_key(name, "")],
            warnings: Vec::new(),
        })
    };
    match error {
        DocumentError::Empty(name) => parse(&name, ""),
        DocumentError::Read { name, source } => refused(&name, None, source.to_string()),
        DocumentError::Directory(name) => {
            refused(&name, None, "is a directory; a file is needed".to_owned())
        }
        DocumentError::TooLarge { name, limit } => refused(
            &name,
            None,
            format!(
                "is larger than {} MiB, which no configuration is",
                limit >> 20
            ),
        ),
        DocumentError::NotText { name, line } => {
            refused(&name, Some(line), "is not UTF-8 text".to_owned())
        }
        DocumentError::Mistakes(mistakes) => refused(&mistakes.name, None, mistakes.to_string()),
    }
}
