//! Reads a `KubeSchedulerConfiguration` from a file.

use evictd_document::{Document, DocumentError, SMALL};
use evictd_scheduling::config::{Configuration, KubeSchedulerConfiguration};
use std::path::Path;

/// The configuration in a file; every mistake is told with its place.
pub(crate) fn read(path: &Path) -> Result<Configuration, DocumentError> {
    let document = Document::read(path, SMALL)?;
    parse(&document)
}

/// The same as it is written, which has been checked.
pub(crate) fn read_wire(path: &Path) -> Result<KubeSchedulerConfiguration, DocumentError> {
    let document = Document::read(path, SMALL)?;
    parse(&document)?;
    document.parse()
}

/// The same from a text.
pub(crate) fn parse(document: &Document) -> Result<Configuration, DocumentError> {
    let wire: KubeSchedulerConfiguration = document.parse()?;
    Configuration::new(&wire, &[]).map_err(|mistakes| {
        let fields = mistakes.into_iter().map(|own| (own.field, own.message));
        document.wrong_fields(fields)
    })
}
