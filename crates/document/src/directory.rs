//! The files of a directory that may hold objects: an unpacked support bundle, `kubectl cluster-info dump
//! --output-directory`, or the output of a chart.

use crate::error::DocumentError;
use crate::objects::Source;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The deepest folder of a directory that is read. Deeper ones are an error, because an answer without their objects is wrong.
const DEEPEST: usize = 16;
/// The most files of a directory that are read.
const MOST_FILES: usize = 100_000;
/// The most entries of a directory and its folders, of any kind: all names of a folder are in memory at once.
const MOST_ENTRIES: usize = 1_000_000;

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
    /// If a directory or one of its folders is unreadable, has no such file, too many, or folders that are nested too deep.
    pub fn at(path: &Path) -> Result<Vec<Self>, DocumentError> {
        if path == Path::new("-") || !path.is_dir() {
            let path = path.to_owned();
            return Ok(vec![Self {
                path,
                is_found: false,
            }]);
        }
        let mut walk = Walk::default();
        walk.folder(path, 0)?;
        if walk.files.is_empty() {
            return Err(DocumentError::EmptyDirectory(path.display().to_string()));
        }
        Ok(walk.files)
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

/// The files of a directory that were found so far.
#[derive(Default)]
struct Walk {
    files: Vec<InputFile>,
    entries: usize,
}

impl Walk {
    fn folder(&mut self, folder: &Path, depth: usize) -> Result<(), DocumentError> {
        let refuse = |source| DocumentError::Read {
            name: folder.display().to_string(),
            source,
        };
        if depth > DEEPEST {
            let message = format!("folders are nested deeper than {DEEPEST}");
            return Err(refuse(io::Error::other(message)));
        }
        let mut entries = Vec::new();
        for entry in fs::read_dir(folder).map_err(refuse)? {
            self.entries += 1;
            if self.entries > MOST_ENTRIES {
                return Err(refuse(too_many(MOST_ENTRIES, "entries")));
            }
            entries.push(entry.map_err(refuse)?);
        }
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            if is_hidden {
                continue;
            }
            let path = entry.path();
            if entry.file_type().map_err(refuse)?.is_dir() {
                self.folder(&path, depth + 1)?;
            } else if is_text_of_objects(&path) && path.is_file() {
                if self.files.len() == MOST_FILES {
                    return Err(refuse(too_many(MOST_FILES, "JSON and YAML files")));
                }
                self.files.push(InputFile {
                    path,
                    is_found: true,
                });
            }
        }
        Ok(())
    }
}

fn too_many(limit: usize, what: &str) -> io::Error {
    io::Error::other(format!(
        "with it the directory has more than {limit} {what}"
    ))
}

fn is_text_of_objects(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("json" | "yaml" | "yml"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use tempfile::TempDir;

    fn nested(depth: usize) -> (TempDir, PathBuf) {
        let root = TempDir::new().unwrap();
        let folder = (0..depth).fold(root.path().to_owned(), |path, _| path.join("f"));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("pods.json");
        fs::write(&file, "{}").unwrap();
        (root, file)
    }

    fn paths(root: &Path) -> Result<Vec<PathBuf>, String> {
        let files = InputFile::at(root).map_err(|error| error.to_string())?;
        Ok(files.into_iter().map(|file| file.path).collect())
    }

    #[test]
    fn folders_that_are_nested_too_deep_are_refused_by_name() {
        let (root, file) = nested(DEEPEST);
        assert_eq!(paths(root.path()).unwrap(), [file]);
        let (root, file) = nested(DEEPEST + 1);
        let folder = file.parent().unwrap().display();
        let error = paths(root.path()).unwrap_err();
        let message = format!("{folder}: folders are nested deeper than 16");
        assert!(error.starts_with(&message), "{error}");
    }

    #[test]
    fn files_come_in_the_order_of_their_names_without_hidden_ones_and_links_to_directories() {
        let (root, file) = nested(1);
        for name in ["b.yml", "a.yaml", ".c.json", "d.txt"] {
            fs::write(root.path().join(name), "{}").unwrap();
        }
        symlink(root.path(), root.path().join("loop")).unwrap();
        symlink(&file, root.path().join("link.json")).unwrap();
        symlink("/nowhere", root.path().join("broken.json")).unwrap();
        let at = |name: &str| root.path().join(name);
        let expected = [at("a.yaml"), at("b.yml"), file, at("link.json")];
        assert_eq!(paths(root.path()).unwrap(), expected);
    }

    #[test]
    fn an_error_names_the_folder_that_cannot_be_read() {
        let (root, file) = nested(2);
        let folder = file.parent().unwrap();
        fs::set_permissions(folder, Permissions::from_mode(0o000)).unwrap();
        let found = paths(root.path());
        fs::set_permissions(folder, Permissions::from_mode(0o700)).unwrap();
        // Root may read everything.
        if let Err(error) = found {
            let start = format!("{}: ", folder.display());
            assert!(error.starts_with(&start), "{error}");
        }
    }
}
