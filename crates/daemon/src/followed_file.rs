//! A configuration file that is read again when it changes.

use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::sleep;
use tracing::debug;

/// The file with the text that was last read.
#[derive(Debug)]
pub struct FollowedFile {
    path: PathBuf,
    text: String,
    /// Whether a missing file counts as an empty one.
    optional: bool,
}

impl FollowedFile {
    /// Reads the file, which has to exist.
    pub fn open(path: PathBuf) -> io::Result<Self> {
        let text = std::fs::read_to_string(&path)?;
        Ok(Self {
            path,
            text,
            optional: false,
        })
    }

    /// Reads a file that may be missing, which is the same as an empty one.
    pub fn open_optional(path: PathBuf) -> io::Result<Self> {
        let text = existing(std::fs::read_to_string(&path))?;
        Ok(Self {
            path,
            text,
            optional: true,
        })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The text that was last read.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Reads the file after each period until it has another text.
    pub async fn changed(&mut self, period: Duration) {
        loop {
            sleep(period).await;
            let mut read = read(&self.path).await;
            if self.optional {
                read = existing(read);
            }
            match read {
                Ok(text) if text == self.text => {}
                Ok(text) => {
                    self.text = text;
                    return;
                }
                // A file that is being replaced exists again the next time.
                Err(error) => debug!("{}: {error}", self.path.display()),
            }
        }
    }
}

fn existing(read: io::Result<String>) -> io::Result<String> {
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read,
    }
}

/// Reads a file on a separate thread, which a disk that does not answer may block. A thread of the runtime would delay the end
/// of the process.
async fn read(path: &Path) -> io::Result<String> {
    let (send, text) = oneshot::channel();
    let path = path.to_owned();
    let reader = move || {
        // The receiver is dropped when the process ends.
        let _ = send.send(std::fs::read_to_string(path));
    };
    let thread = thread::Builder::new().name("conf".to_owned());
    thread.spawn(reader)?;
    text.await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_missing_file_is_empty_and_each_other_text_is_a_change() {
        let name = format!("evictd-followed-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        assert!(FollowedFile::open(path.clone()).is_err());
        let mut file = FollowedFile::open_optional(path.clone()).unwrap();
        assert_eq!(file.text(), "");
        let (period, soon) = (Duration::from_millis(1), Duration::from_secs(30));
        for text in ["a", ""] {
            match text {
                "" => std::fs::remove_file(&path).unwrap(),
                text => std::fs::write(&path, text).unwrap(),
            }
            // A write is no single step: its beginning may be seen as an empty file.
            while file.text() != text {
                tokio::time::timeout(soon, file.changed(period))
                    .await
                    .unwrap();
            }
        }
    }
}
