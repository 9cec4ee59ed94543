//! The objects of a YAML text, each with the places of its values.

use super::items::{
    DEEPEST, Found, Items, NO_KIND, Sink, exported_kind, is_a_list, items_of, mistake,
};
use crate::mistake::Step;
use crate::yaml::Span;
use serde_json::Value;

/// Passes every object of the documents to `sink`. `spans` are their places, one for each document.
pub(super) fn read<S: Sink>(documents: Vec<Value>, spans: &[Span], sink: &mut S) {
    for (number, document) in documents.into_iter().enumerate() {
        let span = spans.get(number);
        let mut walk = Walk {
            span,
            sink,
            path: Vec::new(),
            way: Vec::new(),
        };
        // Charts leave empty documents between others.
        if !document.is_null() {
            walk.value(document, Items::Any);
        }
    }
}

struct Walk<'w, S> {
    span: Option<&'w Span>,
    sink: &'w mut S,
    /// The indices in Lists.
    path: Vec<usize>,
    /// The same as a path in the document.
    way: Vec<Step>,
}

impl<S: Sink> Walk<'_, S> {
    fn value(&mut self, mut value: Value, inherited: Items<'_>) {
        if self.sink.has_enough() {
            return;
        }
        if let Value::Array(items) = value {
            return self.items(items, Items::Any, None);
        }
        if !value.is_object() {
            return self.refuse("is no object; a Kubernetes object or a list of them is needed");
        }
        let kind = value["kind"].as_str().unwrap_or_default().to_owned();
        if is_a_list(&kind) {
            match value.get_mut("items").map(Value::take) {
                Some(Value::Array(items)) => {
                    return self.items(items, items_of(&kind), Some("items"));
                }
                Some(Value::Null) => return,
                _ => {}
            }
        }
        if kind.is_empty() && self.path.is_empty() && self.exports(&mut value) {
            return;
        }
        let in_lists = self.sink.kind_in_lists().filter(|_| !self.path.is_empty());
        let kind = match (kind.as_str(), inherited, in_lists) {
            ("", Items::Of(kind), _) | ("", _, Some(kind)) => kind,
            ("", ..) => return self.refuse(NO_KIND),
            (kind, ..) => kind,
        };
        let api_version = value["apiVersion"].as_str().unwrap_or_default();
        // A value that came from YAML can be written as JSON, into memory.
        let text = serde_json::to_vec(&value).unwrap_or_default();
        let (span, way) = (self.span, &self.way);
        self.sink.take(Found {
            kind,
            api_version,
            text: &text,
            place: &|inside| span?.place(&[way, inside].concat()),
            path: &self.path,
            value: Some(&value),
        });
    }

    /// Reads the lists of an export; false if the document is none.
    fn exports(&mut self, document: &mut Value) -> bool {
        let Some(keys) = document.as_object_mut() else {
            return false;
        };
        let mut is_export = false;
        for (key, value) in keys {
            if let (Some(kind), Value::Array(items)) = (exported_kind(key.as_bytes()), value) {
                is_export = true;
                self.items(std::mem::take(items), Items::Of(kind), Some(key));
            }
        }
        is_export
    }

    fn items(&mut self, items: Vec<Value>, implied: Items<'_>, key: Option<&str>) {
        if self.path.len() == DEEPEST {
            return self.refuse("Lists inside Lists, too deep");
        }
        let depth = self.way.len();
        self.way.extend(key.map(|key| Step::Key(key.to_owned())));
        for (index, item) in items.into_iter().enumerate() {
            self.way.push(Step::Index(index));
            self.path.push(index);
            self.value(item, implied);
            self.path.pop();
            self.way.pop();
        }
        self.way.truncate(depth);
    }

    fn refuse(&mut self, message: &str) {
        let place = self.span.and_then(|span| span.place(&self.way));
        self.sink.refuse(mistake(place, &self.path, message));
    }
}
