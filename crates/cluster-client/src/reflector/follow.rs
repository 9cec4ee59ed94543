//! The receiver of a collection's objects, and the form in which it gets them.

use super::Outline;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// Receives the objects of a collection.
pub trait Follow {
    /// The part of an object that is parsed.
    type Object: DeserializeOwned + Send + 'static;
    /// The object's `metadata.resourceVersion`.
    fn version(object: &Self::Object) -> &str;
    /// A list begins; known objects that are not part of it are deleted when it ends.
    fn begin(&mut self);
    /// An object in its present state, and the length of its text.
    fn applied(&mut self, object: Parsed<Self::Object>, bytes: usize);
    /// A deleted object in its last state.
    fn deleted(&mut self, object: Parsed<Self::Object>);
    /// The list is complete, or the connection has shown a sign of life.
    fn up_to_date(&mut self);
    /// Waits until there is room for further objects: nothing more is read meanwhile.
    fn room(&mut self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
    /// Waits for a question about all objects. The future may be dropped at any time.
    fn asked(&mut self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
    /// Answers the question.
    fn answer(&mut self) {}
}

/// An object, or the known part of an unreadable one.
pub type Parsed<T> = Result<T, Unreadable>;

/// An object that cannot be read: it is too long, or differs from its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Which object it is.
    pub outline: Box<Outline>,
    /// Why it cannot be read.
    pub problem: String,
}

/// The object in this text; its outline if it cannot be parsed.
pub fn parse<T: DeserializeOwned>(text: &str) -> Parsed<T> {
    parsed(text.as_bytes())
}

pub(super) fn parsed<T: DeserializeOwned>(text: &[u8]) -> Parsed<T> {
    serde_json::from_slice(text).map_err(|error| Unreadable {
        outline: Outline::of(text).into(),
        problem: error.to_string(),
    })
}

/// Why a watch ended early.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchError {
    /// The problem in a sentence.
    pub problem: String,
    /// The HTTP status of the server's answer, if there was one.
    pub code: Option<u16>,
    /// How long the server asks to wait before the next request.
    pub retry_after: Option<Duration>,
}
