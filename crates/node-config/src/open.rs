//! Reads the configuration from a file and its drop-ins, or from stdin.

use super::{
    read::{Loaded, parse_with_drop_ins},
    refused::Refused,
};
use evictd_configuration::Fault;
use evictd_document::{Document, DocumentError, Place, SMALL};
use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
};

/// The directory beside a configuration; its files are applied on top of it in the order of their names.
pub const DROP_INS: &str = "conf.d";

/// Reads a configuration of either kind from a file and the drop-ins beside it, or from stdin if `file` is `-`. An
/// empty drop-in is accepted, an empty file is a mistake.
pub fn open(file: &Path) -> Result<Loaded, Refused> {
    let mut unreadable = Vec::new();
    let mut read = |path: &Path| match Document::read(path, SMALL) {
        Ok(document) => (document.name().to_owned(), document.text().to_owned()),
        Err(DocumentError::Empty(name) | DocumentError::Null(name)) => (name, String::new()),
        Err(error) => {
            let (name, at, message) = why(error);
            unreadable.push(Fault::new(at, message).in_file(&name, ""));
            (name, String::new())
        }
    };
    let (name, text) = read(file);
    let drop_ins = match drop_ins(file) {
        Ok(paths) => paths.iter().map(|path| read(path)).collect(),
        Err((directory, error)) => {
            let fault = Fault::new(None, error.to_string());
            unreadable.push(fault.in_file(&directory.display().to_string(), ""));
            Vec::new()
        }
    };
    let drop_ins: Vec<(&str, &str)> = drop_ins
        .iter()
        .map(|(name, text): &(String, String)| (name.as_str(), text.as_str()))
        .collect();
    let parsed = parse_with_drop_ins(&name, &text, &drop_ins);
    let Some(first) = unreadable.first() else {
        return parsed;
    };
    // If a file cannot be read, its content is unknown rather than empty, so no other mistake is reported.
    let mut refused = match parsed {
        Err(refused) if first.file != name => refused,
        Ok(_) | Err(_) => Refused::default(),
    };
    refused.kubelet_first_error.clone_from(&first.message);
    refused.mistakes.splice(..0, unreadable);
    Err(refused)
}

/// The drop-ins of this file, in order: YAML and JSON files in `conf.d` beside it. Names that begin with a dot are left
/// out, because editors and package managers leave such files.
///
/// # Errors
/// When the directory cannot be read, with its path.
pub fn drop_ins(file: &Path) -> Result<Vec<PathBuf>, (PathBuf, io::Error)> {
    let directory = match file.parent() {
        Some(parent) if file != Path::new("-") => parent.join(DROP_INS),
        _ => return Ok(Vec::new()),
    };
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err((directory, error)),
    };
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| (directory, error))?;
    paths.retain(|path| {
        let is_hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let extension = path.extension().and_then(OsStr::to_str);
        !is_hidden && matches!(extension, Some("yaml" | "yml" | "json"))
    });
    // The order of a directory is arbitrary, and later files win.
    paths.sort();
    Ok(paths)
}

/// The file's name, the place if known, and the problem.
fn why(error: DocumentError) -> (String, Option<Place>, String) {
    match error {
        DocumentError::Empty(name) | DocumentError::Null(name) => {
            (name, None, "is empty".to_owned())
        }
        DocumentError::Endless { name, .. } => (name, None, "has no end".to_owned()),
        DocumentError::Read { name, source } => (name, None, source.to_string()),
        DocumentError::Directory(name) | DocumentError::EmptyDirectory(name) => {
            (name, None, "is a directory; a file is needed".to_owned())
        }
        DocumentError::TooLarge { name, limit } => {
            let message = format!(
                "is larger than {} MiB, which no configuration is",
                limit >> 20
            );
            (name, None, message)
        }
        DocumentError::NotText { name, line } => (
            name,
            Some(Place { line, column: 1 }),
            "is not UTF-8 text".to_owned(),
        ),
        DocumentError::Mistakes(mistakes) => (mistakes.name.clone(), None, mistakes.to_string()),
    }
}
