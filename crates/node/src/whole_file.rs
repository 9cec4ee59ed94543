//! Writes small files in the runtime directory so that a later start reads them completely or not at all.

use crate::regular_file;
use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
};

/// Replaces the file of this name in the directory, which is created if it does not exist. The file survives this
/// process but not a crash of the machine, because nothing is synced. Takes as long as the directory's filesystem
/// does.
pub(crate) fn write(directory: &Path, name: &str, mode: u32, bytes: &[u8]) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(directory)?;
    let beside = directory.join(format!(".{name}.new"));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(mode);
    let mut file = regular_file::open(&beside, &mut options)?;
    file.write_all(bytes)?;
    fs::rename(&beside, directory.join(name))
}
