//! A text that a leader keeps in an annotation of its Lease, so that the next leader finds it. Only those who may write the Lease
//! can change it.

use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::watch;

/// The leader's side.
#[derive(Debug, Clone)]
pub struct Memo {
    found: watch::Receiver<Option<String>>,
    text: watch::Sender<Option<String>>,
}

/// The side of the Lease.
#[derive(Debug, Clone)]
pub(super) struct Annotation {
    key: &'static str,
    found: Arc<watch::Sender<Option<String>>>,
    text: watch::Receiver<Option<String>>,
}

pub(super) fn memo(key: &'static str) -> (Memo, Annotation) {
    let (found_by, found) = watch::channel(None);
    let (text, written) = watch::channel(None);
    let annotation = Annotation {
        key,
        found: Arc::new(found_by),
        text: written,
    };
    (Memo { found, text }, annotation)
}

impl Memo {
    /// The text as the Lease had it last; `None` where it has none.
    pub fn found(&self) -> Option<String> {
        self.found.borrow().clone()
    }

    /// Writes a text with the next renewal.
    pub fn write(&self, text: String) {
        self.text.send_replace(Some(text));
    }
}

impl Annotation {
    /// Takes the text from a Lease that was read.
    pub(super) fn learn(&self, lease: &Value) {
        let text = lease["metadata"]["annotations"][self.key].as_str();
        self.found.send_replace(text.map(str::to_owned));
    }

    /// Puts the text into a Lease that is about to be written.
    pub(super) fn put(&self, lease: &mut Value) {
        let Some(text) = &*self.text.borrow() else {
            return;
        };
        let annotations = &mut lease["metadata"]["annotations"];
        if !annotations.is_object() {
            *annotations = json!({});
        }
        annotations[self.key] = json!(text);
    }
}
