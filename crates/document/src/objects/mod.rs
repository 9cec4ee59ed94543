//! Reads the objects of a cluster from files, one by one, as an API server would have stored them.
//!
//! A file is the output of `kubectl get -o json` or `-o yaml`, a list of such lists, several documents, or a manifest that a
//! person wrote. Only the objects are kept that [`evictd_manifests::Kind`] names, so that the size of a dump does not matter.

mod assumptions;
mod file_kind;
mod items;
mod loader;
mod other_groups;
mod receiver;
mod scan;
#[cfg(test)]
mod tests;
mod yaml;

pub use assumptions::Assumptions;
pub use loader::{Loaded, Loader};
pub use receiver::{InvalidField, OtherObject, Receiver};

use crate::error::DocumentError;
use crate::mistake::Mistakes;
use std::io::{self, Read};

/// The most bytes of YAML that are read, because all of it is in memory several times at once.
const LARGEST_YAML: u64 = 256 << 20;

/// A file or another source of objects.
pub struct Source<R> {
    /// Its name in messages.
    pub name: String,
    /// Its text: JSON (Lists, single objects, several documents) or YAML.
    pub text: R,
    /// Whether it was found in a directory, so that it may hold something else. It is left out then, and named.
    pub(crate) is_found: bool,
}

impl<R> Source<R> {
    /// A source that was named by the user, so that it must hold objects.
    pub const fn new(name: String, text: R) -> Self {
        Self {
            name,
            text,
            is_found: false,
        }
    }

    /// Wraps the text, for example to count what was read of it.
    pub fn map<T>(self, wrap: impl FnOnce(R) -> T) -> Source<T> {
        let Self {
            name,
            text,
            is_found,
        } = self;
        Source {
            name,
            text: wrap(text),
            is_found,
        }
    }
}

/// Why objects cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ObjectsError {
    /// A source cannot be read.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// Their content is wrong; one text for each source.
    #[error("{}", texts(.0))]
    Mistakes(Vec<Mistakes>),
}

impl ObjectsError {
    /// With the mistakes of further sources, so that one attempt finds all of them. Only what they say themselves is checked,
    /// because admission depends on the objects that could not be read.
    #[must_use]
    pub fn with_those_of<R: Read>(self, sources: impl IntoIterator<Item = Source<R>>) -> Self {
        let Self::Mistakes(mut mistakes) = self else {
            return self;
        };
        let mut objects: Vec<evictd_manifests::Object> = Vec::new();
        let mut loader = Loader::of_kubelet(&mut objects);
        for source in sources {
            if let Err(error) = loader.read(source) {
                return Self::Document(error);
            }
        }
        if let Err(Self::Mistakes(more)) = loader.finish() {
            mistakes.extend(more);
        }
        Self::Mistakes(mistakes)
    }
}

fn texts(mistakes: &[Mistakes]) -> String {
    let texts: Vec<String> = mistakes.iter().map(Mistakes::to_string).collect();
    texts.join("\n")
}

enum Text {
    Json,
    Empty,
    Other,
}

/// Reads JSON, or finds that it is something else.
fn read_json<R: Read, S: items::Sink>(
    scanner: &mut scan::Scanner<R>,
    sink: &mut S,
) -> io::Result<Text> {
    let first = scanner.skip_byte_order_mark().and_then(|()| scanner.peek());
    match first {
        Ok(Some(b'{' | b'[')) => items::read(scanner, sink).map(|()| Text::Json),
        Ok(None) => Ok(Text::Empty),
        Err(scan::Stop::Read(error)) => Err(error),
        Ok(Some(_)) | Err(scan::Stop::Syntax(_)) => Ok(Text::Other),
    }
}
