//! A log line with its fields, as an owned value that another thread can write.

use evictd_command::printable;
use log::kv::{self, Key, Value, VisitSource};
use log::{Level, RecordBuilder};
use std::fmt::Debug;
use std::io;
use systemd_journal_logger::JournalLog;
use tracing::Metadata;
use tracing::field::{Field, Visit};

/// One journal entry, as an owned value that another thread can write.
#[derive(Debug)]
pub(super) struct Entry {
    level: Level,
    target: String,
    module: Option<String>,
    file: Option<String>,
    line: Option<u32>,
    fields: Fields,
}

impl Entry {
    pub(super) fn new(metadata: &Metadata<'_>, fields: Fields) -> Self {
        Self {
            level: level(*metadata.level()),
            target: metadata.target().to_owned(),
            module: metadata.module_path().map(str::to_owned),
            file: metadata.file().map(str::to_owned),
            line: metadata.line(),
            fields,
        }
    }

    /// The entry that replaces lines which did not fit into the queue.
    pub(super) fn lost(lines: u64) -> Self {
        Self {
            level: Level::Warn,
            target: module_path!().to_owned(),
            module: None,
            file: None,
            line: None,
            fields: Fields {
                message: format!("{lines} log lines were lost because their reader was too slow"),
                others: Vec::new(),
            },
        }
    }

    pub(super) fn message(&self) -> &str {
        &self.fields.message
    }

    pub(super) fn send(&self, journal: &JournalLog) -> io::Result<()> {
        journal.journal_send(
            &RecordBuilder::new()
                .level(self.level)
                .target(&self.target)
                .module_path(self.module.as_deref())
                .file(self.file.as_deref())
                .line(self.line)
                .key_values(&self.fields)
                .args(format_args!("{}", self.fields.message))
                .build(),
        )
    }
}

const fn level(level: tracing::Level) -> Level {
    match level {
        tracing::Level::ERROR => Level::Error,
        tracing::Level::WARN => Level::Warn,
        tracing::Level::INFO => Level::Info,
        tracing::Level::DEBUG => Level::Debug,
        tracing::Level::TRACE => Level::Trace,
    }
}

/// The fields of an event or span, in order.
#[derive(Debug, Default, Clone)]
pub(super) struct Fields {
    pub(super) message: String,
    pub(super) others: Vec<(&'static str, String)>,
}

impl Fields {
    /// Removes control characters: names of pods, processes and servers are chosen by others.
    fn put(&mut self, field: &Field, value: &str) {
        let value = printable(value).into_owned();
        match field.name() {
            "message" => self.message = value,
            // Fields in which the `log` bridge repeats the metadata.
            name if name.starts_with("log.") => {}
            name => self.others.push((name, value)),
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, &format!("{value:?}"));
    }
}

impl kv::Source for Fields {
    fn visit<'kvs>(&'kvs self, visitor: &mut dyn VisitSource<'kvs>) -> Result<(), kv::Error> {
        for (name, value) in &self.others {
            visitor.visit_pair(Key::from_str(name), Value::from(value.as_str()))?;
        }
        Ok(())
    }
}
