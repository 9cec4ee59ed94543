//! Reads a dump of a cluster object by object, and keeps only what a plan needs, so that its size does not matter.

mod doubts;
mod items;
mod kind;
mod loader;
mod scan;

pub use doubts::Doubts;
pub use loader::{Loaded, Wanted};

use evictd_document::{Document, DocumentError, Mistakes};
use loader::Loader;
use scan::Scanner;
use std::io::{self, Read};

/// The most bytes of YAML that are read, because all of it is in memory several times at once.
const LARGEST_YAML: u64 = 256 << 20;

/// Why a dump cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// It cannot be read.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// Its content is wrong; one text for each file.
    #[error("{}", texts(.0))]
    Mistakes(Vec<Mistakes>),
    /// None of its objects is a node.
    #[error(
        "{name}: holds no Node; what is needed is what `kubectl get nodes,ns,pods,pdb,pc -A -o json` prints{ignored}"
    )]
    NoNodes {
        /// The files.
        name: String,
        /// Their content.
        ignored: String,
    },
}

fn texts(mistakes: &[Mistakes]) -> String {
    let texts: Vec<String> = mistakes.iter().map(Mistakes::to_string).collect();
    texts.join("\n")
}

/// A file or another source of objects.
pub struct Source<R> {
    /// What messages call it.
    pub name: String,
    /// Its text: JSON (Lists, single objects, several documents) or YAML.
    pub text: R,
}

/// Reads a whole cluster. `wanted` is the pod to schedule: it is not added to the cluster; if the dump contains it, it is
/// returned.
///
/// # Errors
/// Every mistake of every source together, at most a hundred of each.
pub fn load<R: Read>(
    sources: impl IntoIterator<Item = Source<R>>,
    wanted: Option<&Wanted>,
) -> Result<Loaded, DumpError> {
    let mut loader = Loader::new(wanted);
    let (mut mistakes, mut names) = (Vec::new(), Vec::new());
    for Source { name, text } in sources {
        let read_error = |source| DocumentError::Read {
            name: name.clone(),
            source,
        };
        let mut scanner = Scanner::new(text, true);
        match read(&mut scanner, &mut loader).map_err(read_error)? {
            Text::Json => {}
            Text::Empty => return Err(DocumentError::Empty(name).into()),
            Text::Other => {
                let (mut text, rest) = scanner.into_rest();
                // Input that is not text is not read further: it may be endless.
                if !text.contains(&0) {
                    let rest = &mut rest.take(LARGEST_YAML + 1);
                    rest.read_to_end(&mut text).map_err(read_error)?;
                }
                read_yaml(&name, text, &mut loader)?;
            }
        }
        mistakes.extend(loader.take_mistakes(&name));
        names.push(name);
    }
    if !mistakes.is_empty() {
        return Err(DumpError::Mistakes(mistakes));
    }
    loader.finish(&names.join(", "))
}

enum Text {
    Json,
    Empty,
    Other,
}

/// Reads JSON, or finds that it is something else.
fn read<R: Read>(scanner: &mut Scanner<R>, loader: &mut Loader<'_>) -> io::Result<Text> {
    let first = scanner.skip_byte_order_mark().and_then(|()| scanner.peek());
    match first {
        Ok(Some(b'{' | b'[')) => items::read(scanner, loader).map(|()| Text::Json),
        Ok(None) => Ok(Text::Empty),
        Err(scan::Stop::Read(error)) => Err(error),
        Ok(Some(_)) | Err(scan::Stop::Syntax(_)) => Ok(Text::Other),
    }
}

/// Converts YAML to JSON and reads that; places in it would mean nothing to the user.
fn read_yaml(name: &str, text: Vec<u8>, loader: &mut Loader<'_>) -> Result<(), DumpError> {
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > LARGEST_YAML {
        let (name, limit) = (name.to_owned(), LARGEST_YAML);
        return Err(DocumentError::TooLarge { name, limit }.into());
    }
    let document = Document::from_bytes(name, text)?;
    for value in document.values()? {
        // A value that came from YAML can be written as JSON, into memory.
        let text = serde_json::to_vec(&value).unwrap_or_default();
        let mut scanner = Scanner::new(text.as_slice(), false);
        items::read(&mut scanner, loader).map_err(|source| DocumentError::Read {
            name: name.to_owned(),
            source,
        })?;
    }
    Ok(())
}
