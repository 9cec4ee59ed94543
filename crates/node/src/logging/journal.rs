//! Events as journal entries: every field of the event and of the spans around it is a field of the entry.

use super::{
    entry::{Entry, Fields},
    queue::{Line, Queue},
};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_log::NormalizeEvent;
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, Scope};

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
