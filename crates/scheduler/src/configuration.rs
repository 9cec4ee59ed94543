//! Reads and writes files with a `KubeSchedulerConfiguration`.

use anyhow::Context;
use evictd_command::Failure;
use evictd_document::{Document, DocumentError, SMALL};
use evictd_scheduling::CustomPlugin;
use evictd_scheduling::config::{
    API_VERSION, Configuration, KubeSchedulerConfiguration, Point, version_error,
};
use serde::Deserialize;
use std::path::Path;

/// Reads a configuration, which may name `plugins` beside the built-in ones. The error lists every mistake with its place.
pub(crate) fn read(path: &Path, plugins: &[CustomPlugin]) -> Result<Configuration, DocumentError> {
    let document = Document::read(path, SMALL)?;
    parse(&document, plugins)
}

/// Reads and checks a configuration, and returns it in its wire format.
pub(crate) fn read_wire(path: &Path) -> Result<KubeSchedulerConfiguration, DocumentError> {
    let document = Document::read(path, SMALL)?;
    parse(&document, &[])?;
    document.parse()
}

/// The version alone. It can be read from a file of any version.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Versioned {
    api_version: String,
}

pub(crate) fn parse(
    document: &Document,
    plugins: &[CustomPlugin],
) -> Result<Configuration, DocumentError> {
    // The fields of another version would all be reported as unknown.
    let Versioned { api_version } = document.parse()?;
    if api_version != API_VERSION {
        let field = ("apiVersion".to_owned(), version_error(&api_version));
        return Err(document.wrong_fields([field]));
    }
    let wire: KubeSchedulerConfiguration = document.parse()?;
    let plugins: Vec<(&str, &[Point])> = plugins
        .iter()
        .map(|plugins| (plugins.name, plugins.points))
        .collect();
    Configuration::new(&wire, &plugins).map_err(|mistakes| {
        let fields = mistakes
            .into_iter()
            .map(|mistake| (mistake.field, mistake.message));
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
