//! Opens regular files only, because a pipe would block evictd for ever. In evictd's own directories symbolic links are
//! refused, because they could lead elsewhere.

use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a file in a directory of evictd's own.
pub(crate) fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    checked(path, options, OFlags::NOFOLLOW)
}

/// Opens a file to read it, also by a link: for directories that others fill.
pub(crate) fn open_linked(path: &Path) -> io::Result<File> {
    checked(path, OpenOptions::new().read(true), OFlags::empty())
}

/// The text of a file in a directory of evictd's own.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open(path, OpenOptions::new().read(true))?.read_to_string(&mut text)?;
    Ok(text)
}

/// A pipe would be waited for, but for the flag, which changes nothing of a regular file.
fn checked(path: &Path, options: &mut OpenOptions, flags: OFlags) -> io::Result<File> {
    let flags = (flags | OFlags::NONBLOCK).bits().cast_signed();
    let file = options.custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    // Of a kind that no waiting cures.
    let kind = io::ErrorKind::InvalidInput;
    Err(io::Error::new(kind, "it is not a regular file"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn pipes_directories_and_links_are_not_opened() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::write(at("file"), "text").unwrap();
        fs::create_dir(at("directory")).unwrap();
        mkfifo(&at("pipe"), Mode::S_IRWXU).unwrap();
        symlink(at("file"), at("link")).unwrap();
        symlink(at("pipe"), at("link-to-pipe")).unwrap();
        assert_eq!(read(&at("file")).unwrap(), "text");
        for wrong in ["directory", "pipe", "link", "link-to-pipe"] {
            assert!(read(&at(wrong)).is_err(), "{wrong}");
            let mut options = OpenOptions::new();
            options.append(true).create(true);
            assert!(open(&at(wrong), &mut options).is_err(), "{wrong}");
        }
        let missing = read(&at("missing")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert!(open_linked(&at("link")).is_ok());
        for wrong in ["directory", "pipe", "link-to-pipe"] {
            assert!(open_linked(&at(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_pipe_in_the_place_of_a_file_that_is_kept_does_not_hang_the_start() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().to_owned();
        for name in [
            "conditions",
            "paused",
            "intents",
            "decisions.log",
            "decisions.1.log",
            ".paused.new",
        ] {
            mkfifo(&directory.join(name), Mode::S_IRWXU).unwrap();
        }
        let now = jiff::Timestamp::UNIX_EPOCH;
        let file = crate::pause::PauseFile::new(directory.clone());
        let paused = file.read(now).unwrap();
        assert!(paused.reason.contains("not a regular file"), "{paused:?}");
        assert!(file.write(Some(&paused)).is_err());
        crate::kept::KeptFile::new(directory.clone()).read("boot");
        assert!(crate::history::read(&directory).is_err());
        assert!(crate::history::Intents::open(&directory).is_err());
    }
}
