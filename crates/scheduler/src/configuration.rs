//! Reads and writes files with a `KubeSchedulerConfiguration`.

use anyhow::Context;
use evictd_command::Failure;
use evictd_document::{Document, SMALL};
use evictd_scheduling::CustomPlugin;
use evictd_scheduling::config::{Configuration, KubeSchedulerConfiguration, Point};
use std::path::Path;

/// Reads a configuration, which may name `plugins` beside the built-in ones. The error lists every mistake with its place.
pub(crate) fn read(path: &Path, plugins: &[CustomPlugin]) -> Result<Configuration, Failure> {
    let document = Document::read(path, SMALL).map_err(Failure::input)?;
    let plugins: Vec<(&str, &[Point])> = plugins
        .iter()
        .map(|plugins| (plugins.name, plugins.points))
        .collect();
    Configuration::parse(document.name(), document.text(), &plugins).map_err(Failure::input)
}

/// Reads and checks a configuration, and returns it in its wire format.
pub(crate) fn read_wire(path: &Path) -> Result<KubeSchedulerConfiguration, Failure> {
    let document = Document::read(path, SMALL).map_err(Failure::input)?;
    KubeSchedulerConfiguration::parse(document.name(), document.text()).map_err(Failure::input)
}

/// Writes a configuration as YAML.
pub(crate) fn write(path: &Path, config: &Configuration) -> Result<(), Failure> {
    let text = serde_saphyr::to_string(&config.to_json())?;
    let written = std::fs::write(path, text);
    let written = written.with_context(|| format!("--write-config-to {}", path.display()));
    written.map_err(Failure::Input)
}
