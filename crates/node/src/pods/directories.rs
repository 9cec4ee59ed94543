//! The content of the manifest directories: each file is read once, and again only if it has changed.

use super::{Listed, Listing, ManifestRules, Warning, manifest::Contents};
use crate::regular_file;
use evictd_document::{Mistake, SMALL};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    ffi::{OsStr, OsString},
    fs, io,
    io::Read,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A directory of manifests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ManifestDirectory {
    /// Its path; it need not exist yet.
    pub path: PathBuf,
    /// Whether it is a kubelet's static pod directory, whose pods are never chosen (S1-046).
    pub static_pods: bool,
}

/// Changes reported since the last scan.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Files that were written or moved in: they are read again even if their times are unchanged.
    pub(super) touched: HashSet<PathBuf>,
    /// Files that were deleted or moved out. They count as removed even if the whole directory is removed by now; the
    /// other files of such a directory are kept.
    pub(super) removed: HashSet<PathBuf>,
}

/// The manifest directories and everything read from them.
#[derive(Debug, Default)]
pub(super) struct Directories {
    watched: Vec<ManifestDirectory>,
    rules: ManifestRules,
    files: BTreeMap<PathBuf, File>,
    unreadable: BTreeMap<PathBuf, String>,
}

/// A manifest file as last read.
#[derive(Debug)]
struct File {
    stamp: Stamp,
    path: Arc<Path>,
    static_pods: bool,
    /// Pods of the last version without a mistake; if there was none yet, the correct pods of this version.
    pods: Vec<evictd_pod::Pod>,
    /// Whether `pods` come from a version without a mistake.
    whole: bool,
    mistakes: Vec<Mistake>,
}

/// Distinguishes versions of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &fs::Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl Directories {
    pub(super) fn new(directories: Vec<ManifestDirectory>, rules: ManifestRules) -> Self {
        Self {
            watched: directories,
            rules,
            files: BTreeMap::new(),
            unreadable: BTreeMap::new(),
        }
    }

    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let paths = self.watched.iter();
        paths.map(|directory| directory.path.clone()).collect()
    }

    /// Scans all directories; true if the listing changed.
    pub(super) fn scan(&mut self, events: &Changes) -> bool {
        let before = self.files.len();
        self.files.retain(|path, _| !events.removed.contains(path));
        let mut changed = self.files.len() != before;
        for directory in self.watched.clone() {
            let scanned = self.scan_directory(&directory, events);
            let no_kubelet_here = |error: &&io::Error| {
                let known = |file: &File| file.path.starts_with(&directory.path);
                directory.static_pods
                    && error.kind() == io::ErrorKind::NotFound
                    && !self.files.values().any(known)
            };
            let problem = scanned
                .as_ref()
                .err()
                .filter(|error| !no_kubelet_here(error))
                .map(ToString::to_string);
            changed |= self.unreadable.get(&directory.path) != problem.as_ref();
            match problem {
                Some(problem) => self.unreadable.insert(directory.path, problem),
                None => self.unreadable.remove(&directory.path),
            };
            changed |= scanned.unwrap_or(false);
        }
        changed
    }

    fn scan_directory(
        &mut self,
        directory: &ManifestDirectory,
        events: &Changes,
    ) -> io::Result<bool> {
        let names = manifest_names(&directory.path)?;
        let static_pods = self.is_static(&directory.path);
        let paths: HashSet<PathBuf> = names.iter().map(|name| directory.path.join(name)).collect();
        let before = self.files.len();
        self.files.retain(|path, _| {
            path.parent() != Some(directory.path.as_path()) || paths.contains(path)
        });
        let mut changed = self.files.len() != before;
        for path in paths {
            let touched = events.touched.contains(&path);
            changed |= self.look_at(path, touched, static_pods);
        }
        Ok(changed)
    }

    /// Whether the directory is a static pod directory, even under another path.
    fn is_static(&self, path: &Path) -> bool {
        let identity = |path: &Path| {
            fs::metadata(path)
                .map(|metadata| (metadata.dev(), metadata.ino()))
                .ok()
        };
        let mut fixed = self
            .watched
            .iter()
            .filter(|directory| directory.static_pods);
        fixed.any(|directory| directory.path == path || identity(&directory.path) == identity(path))
    }

    /// Reads one file again if it changed.
    fn look_at(&mut self, path: PathBuf, touched: bool, static_pods: bool) -> bool {
        let known = self.files.get(&path);
        let stamp = match fs::metadata(&path) {
            Ok(metadata) if !metadata.is_file() => return self.files.remove(&path).is_some(),
            Ok(metadata) => Stamp::of(&metadata),
            // It was deleted after the directory was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return self.files.remove(&path).is_some();
            }
            Err(_) => Stamp::default(),
        };
        if !touched && known.is_some_and(|known| known.stamp == stamp) {
            return false;
        }
        let name = path.to_string_lossy();
        let read = read(&path).map(|bytes| self.rules.read(&name, &bytes, static_pods));
        let contents = read.unwrap_or_else(Contents::unreadable);
        let good = contents.mistakes.is_empty();
        let earlier = self
            .files
            .remove(&path)
            .filter(|earlier| !good && earlier.whole);
        let file = File {
            stamp,
            path: Arc::from(path.as_path()),
            static_pods,
            whole: good || earlier.is_some(),
            pods: earlier.map_or(contents.pods, |earlier| earlier.pods),
            mistakes: contents.mistakes,
        };
        self.files.insert(path, file);
        true
    }

    /// All pods known now, by directory and file name. If several manifests describe one pod, the first counts.
    pub(super) fn listing(&self) -> Listing {
        let mut listing = Listing::default();
        let mut seen: HashMap<String, Arc<Path>> = HashMap::new();
        for (directory, problem) in &self.unreadable {
            listing.warnings.push(Warning::Directory {
                directory: directory.clone(),
                problem: problem.clone(),
            });
        }
        // A static pod is listed as static even if another manifest describes it too.
        let (fixed, others): (Vec<_>, Vec<_>) =
            self.files.values().partition(|file| file.static_pods);
        for file in fixed.into_iter().chain(others) {
            for mistake in &file.mistakes {
                listing.warnings.push(Warning::Manifest {
                    file: Arc::clone(&file.path),
                    mistake: mistake.clone(),
                    earlier_version_in_use: file.whole,
                });
            }
            for pod in &file.pods {
                let name = pod.full_name();
                if let Some(first) = seen.get(&name) {
                    listing.warnings.push(Warning::Duplicate {
                        pod: name,
                        first: Arc::clone(first),
                        second: Arc::clone(&file.path),
                    });
                    continue;
                }
                seen.insert(name, Arc::clone(&file.path));
                listing.pods.push(Listed {
                    pod: Arc::new(pod.clone()),
                    manifest: Some(Arc::clone(&file.path)),
                    wire: None,
                    evicted: false,
                    evicted_at: None,
                });
            }
        }
        listing
    }
}

/// The names in a directory that can be manifests: not hidden (the kubelet's rule), and not the temporary files of
/// editors.
fn manifest_names(directory: &Path) -> io::Result<Vec<OsString>> {
    let mut names = fs::read_dir(directory)?
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect::<io::Result<Vec<_>>>()?;
    names.retain(|name| is_manifest_name(name));
    Ok(names)
}

pub(super) fn is_manifest_name(name: &OsStr) -> bool {
    const LEFT_BEHIND: [&str; 6] = ["~", ".swp", ".swx", ".bak", ".orig", ".tmp"];
    let name = name.to_string_lossy();
    let left_behind = LEFT_BEHIND.iter().any(|suffix| name.ends_with(suffix));
    !(left_behind || name.starts_with('.') || (name.starts_with('#') && name.ends_with('#')))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let file = regular_file::open_linked(path).map_err(|error| error.to_string())?;
    let mut limited = file.take(SMALL + 1);
    limited
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > SMALL {
        return Err(format!("larger than {} MiB", SMALL >> 20));
    }
    Ok(bytes)
}
