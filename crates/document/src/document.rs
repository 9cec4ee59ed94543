//! A text and its source.

use crate::{
    encoding::Utf8,
    error::DocumentError,
    finder::Finder,
    mistake::{Place, Step, lines},
    yaml,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

/// The maximum size of a configuration, a manifest or one node's statistics.
pub const SMALL: u64 = 16 << 20;
/// The maximum size of a list of pods; 100 000 pods take about 1 GiB.
pub const LARGE: u64 = 4 << 30;
/// The maximum size read from a pipe or device, which may never end.
pub const STREAM: u64 = 256 << 20;
/// How much is read before the first check.
const CHUNK: u64 = 1 << 20;

/// A text with a name for messages.
#[derive(Debug, Clone)]
pub struct Document {
    name: String,
    text: String,
}

impl Document {
    /// Reads at most `limit` bytes of a file, or of stdin where `path` is `-`. Pipes and devices are limited to
    /// [`STREAM`], too.
    ///
    /// # Errors
    /// If it is unreadable, a directory, empty, too large, or no text in UTF-8 or UTF-16.
    pub fn read(path: &Path, limit: u64) -> Result<Self, DocumentError> {
        let is_stdin = path.as_os_str() == "-";
        let name = if is_stdin {
            "standard input".to_owned()
        } else {
            path.display().to_string()
        };
        let stdin = || bytes_of(Utf8::new(io::stdin().lock()), 0, limit.min(STREAM));
        let file = || {
            let (file, length, is_regular) = open(path)?;
            // A pipe or device has no size that could be checked before it fills the memory.
            let limit = if is_regular { limit } else { limit.min(STREAM) };
            bytes_of(Utf8::new(file), length, limit)
        };
        let bytes = if is_stdin { stdin() } else { file() };
        let is_file = || path.is_file() && !is_stdin;
        let bytes = bytes.map_err(|source| match source.kind() {
            io::ErrorKind::IsADirectory => DocumentError::Directory(name.clone()),
            io::ErrorKind::FileTooLarge if limit > STREAM && !is_file() => DocumentError::Endless {
                name: name.clone(),
                limit: STREAM,
            },
            io::ErrorKind::FileTooLarge => DocumentError::TooLarge {
                name: name.clone(),
                limit,
            },
            _ => DocumentError::Read {
                name: name.clone(),
                source,
            },
        })?;
        Self::from_bytes(name, bytes)
    }

    /// Uses bytes that were read elsewhere. Messages call the document `name`.
    ///
    /// # Errors
    /// If they are not UTF-8, or empty.
    pub fn from_bytes(name: impl Into<String>, mut bytes: Vec<u8>) -> Result<Self, DocumentError> {
        let name = name.into();
        let not_text = |before: &[u8]| DocumentError::NotText {
            name: name.clone(),
            line: lines(before) + 1,
        };
        // Text contains no NUL. The bytes after it do not count, because reading may have stopped there.
        let nul = bytes.iter().position(|byte| *byte == 0);
        bytes.truncate(nul.unwrap_or(bytes.len()));
        let text = String::from_utf8(bytes).map_err(|error| {
            let valid = error.utf8_error().valid_up_to();
            not_text(&error.as_bytes()[..valid])
        })?;
        if nul.is_some() {
            return Err(not_text(text.as_bytes()));
        }
        Self::new(name, text)
    }

    /// Uses a text that was read elsewhere. Messages call the document `name`.
    ///
    /// # Errors
    /// If it is empty.
    pub fn new(name: impl Into<String>, mut text: String) -> Result<Self, DocumentError> {
        let name = name.into();
        // Editors of Windows put a byte order mark before UTF-8, which no parser expects.
        if text.starts_with('\u{feff}') {
            text.drain(..'\u{feff}'.len_utf8());
        }
        if text.trim_ascii().is_empty() {
            return Err(DocumentError::Empty(name));
        }
        if is_null(&text) {
            return Err(DocumentError::Null(name));
        }
        Ok(Self { name, text })
    }

    /// The name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text alone.
    pub fn into_text(self) -> String {
        self.text
    }

    /// Parses the whole document as one value.
    ///
    /// # Errors
    /// All mistakes that one pass finds, with place and key.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, DocumentError> {
        let mut finder = Finder::new(&self.name);
        let value = if self.is_json() {
            serde_json::from_str(&self.text)
                .map_err(|error| finder.find_in_json::<T>(&self.text, &self.text, "", &error))
        } else {
            finder.parse_yaml(&self.text)
        };
        value.map_err(|()| finder.into_error())
    }

    /// Parses every document of a YAML text without a schema.
    ///
    /// # Errors
    /// The error of the YAML parser.
    pub fn values(&self) -> Result<Vec<Value>, DocumentError> {
        yaml::parse_all(&self.text).map_err(|error| {
            let mut finder = Finder::new(&self.name);
            finder.add_yaml(&error);
            finder.into_error()
        })
    }

    /// The place of a key's value, if it exists: `["spec", "priority"]`.
    pub fn place_of(&self, keys: &[&str]) -> Option<Place> {
        let way: Vec<_> = keys
            .iter()
            .map(|key| Step::Key((*key).to_owned()))
            .collect();
        yaml::spans(&self.text).first()?.place(&way)
    }

    /// Mistakes in fields of a single object, by path (`profiles[0].name`) and message.
    pub fn wrong_fields(
        &self,
        fields: impl IntoIterator<Item = (String, String)>,
    ) -> DocumentError {
        let spans = yaml::spans(&self.text);
        let mut finder = Finder::new(&self.name);
        for (field, message) in fields {
            // A field that is missing has no place; the object that should have it is the nearest.
            let spans = spans.first();
            let place = spans.and_then(|spans| spans.place(&Step::path(&field)));
            finder.add_field(place, field, message);
        }
        finder.into_error()
    }

    /// A mistake of the document as a whole.
    pub fn wrong(&self, message: impl Into<String>) -> DocumentError {
        let mut finder = Finder::new(&self.name);
        finder.add("", message.into());
        finder.into_error()
    }

    /// The first character decides between JSON and YAML. A `{` may start YAML, too, so then the file's name decides.
    pub(crate) fn is_json(&self) -> bool {
        let named_yaml = Path::new(&self.name)
            .extension()
            .is_some_and(|extension| extension == "yaml" || extension == "yml");
        self.text.trim_ascii_start().starts_with(['{', '[']) && !named_yaml
    }
}

/// Opens a file. Returns its length, and whether the length is final, which it is not for devices and pipes.
fn open(path: &Path) -> io::Result<(File, u64, bool)> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Ok((file, metadata.len(), metadata.is_file()))
}

/// Reads `source`, whose expected length is `length`, up to `limit` bytes. Binary data is not read to its end.
pub(crate) fn bytes_of(mut source: impl Read, length: u64, limit: u64) -> io::Result<Vec<u8>> {
    if length > limit {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    loop {
        let before = bytes.len();
        // In pieces, so that an endless source of zeros is refused after the first one.
        let count = source.by_ref().take(CHUNK).read_to_end(&mut bytes)?;
        if count == 0 || bytes[before..].contains(&0) {
            return Ok(bytes);
        }
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
    }
}

/// Whether the text is null in JSON or YAML: only comments, document separators and the word itself.
fn is_null(text: &str) -> bool {
    let nothing = |line: &str| {
        let line = line.split(" #").next().unwrap_or_default().trim();
        let value = line.strip_prefix("---").unwrap_or(line).trim();
        line.starts_with('#') || matches!(value, "" | "..." | "null" | "~")
    };
    text.lines().all(nothing)
}
