//! Small files below the runtime directory that a later start reads: as a whole or not at all.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
};

/// Replaces the file of this name in the directory, which is made where it is missing. It survives this process and not the
/// machine: nothing is synced. May take as long as the directory's filesystem does.
pub(crate) fn write(directory: &Path, name: &str, mode: u32, bytes: &[u8]) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(directory)?;
    let beside = directory.join(format!(".{name}.new"));
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(&beside)?;
    file.write_all(bytes)?;
    fs::rename(&beside, directory.join(name))
}
