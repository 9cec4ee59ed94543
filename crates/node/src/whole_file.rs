//! Writes small files in the runtime directory so that a later start reads them completely or not at all.

use crate::regular_file;
use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// Replaces the file of this name in the directory, which is created if it does not exist. The file survives this
/// process but not a crash of the machine, because nothing is synced. Takes as long as the directory's filesystem
/// does.
pub(crate) fn write(directory: &Path, name: &str, mode: u32, bytes: &[u8]) -> io::Result<()> {
    replace(directory, name, (mode, false), bytes)
}

/// The same for a file on disk, which also survives a crash of the machine. After an error nothing half written stays.
pub(crate) fn write_to_disk(
    directory: &Path,
    name: &str,
    mode: u32,
    bytes: &[u8],
) -> io::Result<()> {
    let written = replace(directory, name, (mode, true), bytes);
    if written.is_err() {
        // The disk may be full, and this is space.
        let _ = fs::remove_file(beside(directory, name));
    }
    written
}

fn beside(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!(".{name}.new"))
}

fn replace(
    directory: &Path,
    name: &str,
    (mode, synced): (u32, bool),
    bytes: &[u8],
) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(directory)?;
    let beside = beside(directory, name);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(mode);
    let mut file = regular_file::open(&beside, &mut options)?;
    file.write_all(bytes)?;
    if synced {
        file.sync_data()?;
    }
    fs::rename(&beside, directory.join(name))
}
