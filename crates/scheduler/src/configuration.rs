//! Reads a `KubeSchedulerConfiguration` from a file, and writes it into one.

use anyhow::Context;
use evictd_command::Failure;
use evictd_document::{Document, DocumentError, SMALL};
use evictd_scheduling::CustomPlugin;
use evictd_scheduling::config::{
    API_VERSION, Configuration, KubeSchedulerConfiguration, Point, version_error,
};
use serde::Deserialize;
use std::path::Path;

/// The configuration in a file, which may name these plugins beside the built-in ones; every mistake is told with its place.
pub(crate) fn read(path: &Path, own: &[CustomPlugin]) -> Result<Configuration, DocumentError> {
    let document = Document::read(path, SMALL)?;
    parse(&document, own)
}

/// The same as it is written, which has been checked.
pub(crate) fn read_wire(path: &Path) -> Result<KubeSchedulerConfiguration, DocumentError> {
    let document = Document::read(path, SMALL)?;
    parse(&document, &[])?;
    document.parse()
}

/// The version alone, whatever the other fields are.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Versioned {
    api_version: String,
}

/// The same from a text.
pub(crate) fn parse(
    document: &Document,
    own: &[CustomPlugin],
) -> Result<Configuration, DocumentError> {
    // Fields of another version need not be told one by one.
    let Versioned { api_version } = document.parse()?;
    if api_version != API_VERSION {
        let field = ("apiVersion".to_owned(), version_error(&api_version));
        return Err(document.wrong_fields([field]));
    }
    let wire: KubeSchedulerConfiguration = document.parse()?;
    let own: Vec<(&str, &[Point])> = own.iter().map(|own| (own.name, own.points)).collect();
    Configuration::new(&wire, &own).map_err(|mistakes| {
        let fields = mistakes.into_iter().map(|own| (own.field, own.message));
        document.wrong_fields(fields)
    })
}

/// Writes a configuration as YAML.
pub(crate) fn write(path: &Path, config: &Configuration) -> Result<(), Failure> {
    let text = serde_saphyr::to_string(&config.to_json())?;
    let written = std::fs::write(path, text);
    let written = written.with_context(|| format!("--write-config-to {}", path.display()));
    written.map_err(Failure::Input)
}
