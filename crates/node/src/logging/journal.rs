//! Events as journal entries: every field of the event and of the spans around it is a field of the entry.

use super::queue::{Line, Queue};
use evictd_command::printable;
use log::kv::{self, Key, Value, VisitSource};
use log::{Level, RecordBuilder};
use std::fmt::Debug;
use std::io;
use systemd_journal_logger::JournalLog;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use tracing_log::NormalizeEvent;
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, Scope};

/// One journal entry, owned, so that another thread can send it.
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
    fn new(metadata: &Metadata<'_>, fields: Fields) -> Self {
        Self {
            level: level(*metadata.level()),
            target: metadata.target().to_owned(),
            module: metadata.module_path().map(str::to_owned),
            file: metadata.file().map(str::to_owned),
            line: metadata.line(),
            fields,
        }
    }

    /// What takes the place of lines that did not fit into the queue.
    pub(super) fn lost(lines: u64) -> Self {
        Self {
            level: Level::Warn,
            target: module_path!().to_owned(),
            module: None,
            file: None,
            line: None,
            fields: Fields {
                message: format!("{lines} log lines were lost: whoever reads them was too slow"),
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

/// What an event or span was given, in order.
#[derive(Debug, Default, Clone)]
pub(super) struct Fields {
    message: String,
    others: Vec<(&'static str, String)>,
}

impl Fields {
    /// Pods, processes and servers are named by others.
    fn put(&mut self, field: &Field, value: &str) {
        let value = printable(value).into_owned();
        match field.name() {
            "message" => self.message = value,
            // Where the `log` bridge keeps what the metadata says already.
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

/// Queues every event for the journal.
pub(super) struct JournalLayer {
    queue: Queue,
}

impl JournalLayer {
    pub(super) fn new(queue: Queue) -> Self {
        Self { queue }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for JournalLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        for span in context
            .event_scope(event)
            .into_iter()
            .flat_map(Scope::from_root)
        {
            if let Some(of_span) = span.extensions().get::<Fields>() {
                fields.others.extend_from_slice(&of_span.others);
            }
        }
        event.record(&mut fields);
        let normalized = event.normalized_metadata();
        let metadata = normalized.as_ref().unwrap_or_else(|| event.metadata());
        self.queue
            .push(Line::Entry(Box::new(Entry::new(metadata, fields))));
    }
}
