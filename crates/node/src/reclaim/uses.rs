//! Since when each image is here and when it was last used, in a file in the runtime directory.

use crate::{regular_file, whole_file};
use evictd_reclaim::{ImageUses, Inventory};
use jiff::Timestamp;
use std::{io, path::PathBuf, sync::Mutex, sync::PoisonError};
use tokio::task::spawn_blocking;

/// File name in the runtime directory.
const FILE: &str = "images.json";

/// The times, and where they are kept over a restart.
#[derive(Debug)]
pub(super) struct UsesFile {
    directory: PathBuf,
    uses: Mutex<ImageUses>,
    /// Why the file could not be written; logged once.
    problem: Mutex<Option<String>>,
}

impl UsesFile {
    /// Reads the times that an earlier run kept. Without a file, or with an invalid one, times count from now on.
    pub(super) fn open(directory: PathBuf) -> Self {
        let read = regular_file::read(&directory.join(FILE));
        let uses = match read {
            // The first start on this node.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(ImageUses::default()),
            Err(error) => Err(error.to_string()),
            Ok(text) => serde_json::from_str(&text).map_err(|error| error.to_string()),
        };
        let uses = uses.unwrap_or_else(|error| {
            let path = directory.join(FILE);
            tracing::warn!(
                "the last use of images counts from now on: {} cannot be used: {error}",
                path.display()
            );
            ImageUses::default()
        });
        Self {
            directory,
            uses: Mutex::new(uses),
            problem: Mutex::new(None),
        }
    }

    /// Notes which images are used now, sets their times in the inventory, and keeps them.
    pub(super) async fn note(&self, now: Timestamp, inventory: &mut Inventory) {
        let text = {
            let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
            uses.note(now, inventory);
            serde_json::to_vec(&*uses).unwrap_or_default()
        };
        let directory = self.directory.clone();
        // The file is usually in memory, but may be on a disk that hangs.
        let written =
            spawn_blocking(move || whole_file::write(&directory, FILE, 0o600, &text)).await;
        let problem = written.ok().and_then(Result::err).map(|it| it.to_string());
        let mut logged = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(problem) = problem.as_ref().filter(|_| *logged != problem) {
            let path = self.directory.join(FILE);
            tracing::warn!("cannot write {}: {problem}", path.display());
        }
        *logged = problem;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    #[test]
    fn a_pipe_at_images_json_does_not_hang_the_start() {
        let place = tempfile::tempdir().unwrap();
        mkfifo(&place.path().join(FILE), Mode::S_IRWXU).unwrap();
        let read = UsesFile::open(place.path().to_owned());
        assert!(read.uses.into_inner().is_ok());
    }
}
