//! The `config` of a simulation that has a kind: a configuration, and the filesystem layout, which a daemon detects
//! and a simulation must state.

use super::{reader::Reader, refused::Refused, value::Value};
use evictd_configuration::{Content, Mistake, Node};
use evictd_eviction::{Rules, rules::FilesystemLayout};
use serde_json::Value as Json;

type Field = fn(&mut FilesystemLayout) -> &mut bool;

/// The keys that only a simulation has; each is true or false.
const LAYOUT: [(&str, Field); 2] = [
    ("dedicatedImageFs", |layout| &mut layout.dedicated_image_fs),
    ("splitContainerFs", |layout| &mut layout.split_container_fs),
];

/// The result.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulated {
    /// The rules, with the layout stated.
    pub rules: Rules,
    /// Warnings.
    pub warnings: Vec<Mistake>,
}

/// Reads a simulation's `config` that says its kind; one that does not is a
/// [`PlainConfig`](evictd_eviction::simulation::PlainConfig).
pub fn parse_simulated(config: &Json) -> Result<Simulated, Refused> {
    let mut document = Node::from(config);
    let mut layout = FilesystemLayout::default();
    let mut reader = Reader::new("config");
    if let Content::Map(entries) = &mut document.content {
        for (name, field) in LAYOUT {
            // The reader of files must not see these keys: in a file they are unknown.
            for entry in entries.extract_if(.., |entry| entry.key == name) {
                if entry.value.is_null() {
                    continue;
                }
                match bool::read(&entry.value) {
                    Ok(value) => *field(&mut layout) = value,
                    Err(faults) => faults
                        .into_iter()
                        .for_each(|fault| reader.mistake(name, fault)),
                }
            }
        }
    }
    reader.read(&document);
    let loaded = reader.finish()?;
    Ok(Simulated {
        rules: Rules {
            layout,
            ..loaded.effective.rules()
        },
        warnings: loaded.warnings,
    })
}
