//! The files of a directory that may hold objects: an unpacked support bundle, `kubectl cluster-info dump
//! --output-directory`, or the output of a chart.

use crate::error::DocumentError;
use crate::objects::Source;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The deepest folder of a directory that is read.
const DEEPEST: usize = 16;
/// The most files of a directory that are read.
const MOST_FILES: usize = 100_000;

/// A file of a command line, or one below a directory of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputFile {
    /// Its path; `-` is stdin.
    pub path: PathBuf,
    /// Whether it was found in a directory. It may hold something else than objects then.
    pub is_found: bool,
}

impl InputFile {
    /// The path itself, or in the order of their names the JSON and YAML files of a directory and its folders. Hidden files and
    /// links to directories are left out.
    ///
    /// # Errors
    /// If a directory is unreadable, has no such file, or too many.
    pub fn at(path: &Path) -> Result<Vec<Self>, DocumentError> {
        if path == Path::new("-") || !path.is_dir() {
            let path = path.to_owned();
            return Ok(vec![Self {
                path,
                is_found: false,
            }]);
        }
        let name = || path.display().to_string();
        let mut files = Vec::new();
        walk(path, 0, &mut files).map_err(|source| DocumentError::Read {
            name: name(),
            source,
        })?;
        if files.is_empty() {
            return Err(DocumentError::EmptyDirectory(name()));
        }
        Ok(files)
    }

    /// A source that opens the file when it is read, because a directory may hold more files than a process may have open.
    pub fn source(&self) -> Source<LazyFile> {
        let Self { path, is_found } = self;
        Source {
            name: path.display().to_string(),
            text: LazyFile::Closed(path.clone()),
            is_found: *is_found,
        }
    }
}

/// A file that is opened by the first read.
#[derive(Debug)]
pub enum LazyFile {
    /// Not read yet.
    Closed(PathBuf),
    /// Read in part.
    Open(File),
}

impl Read for LazyFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Self::Closed(path) = self {
            *self = Self::Open(File::open(path)?);
        }
        match self {
            Self::Open(file) => file.read(buffer),
            Self::Closed(_) => Ok(0),
        }
    }
}

fn walk(directory: &Path, depth: usize, files: &mut Vec<InputFile>) -> io::Result<()> {
    let entries = fs::read_dir(directory)?;
    let mut entries: Vec<_> = entries.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if is_hidden {
            continue;
        }
        if entry.file_type()?.is_dir() {
            if depth < DEEPEST {
                walk(&path, depth + 1, files)?;
            }
        } else if is_text_of_objects(&path) && path.is_file() {
            if files.len() == MOST_FILES {
                return Err(io::Error::other(format!(
                    "holds more than {MOST_FILES} files"
                )));
            }
            files.push(InputFile {
                path,
                is_found: true,
            });
        }
    }
    Ok(())
}

fn is_text_of_objects(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("json" | "yaml" | "yml"))
}
