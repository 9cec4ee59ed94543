//! The file that says how batch sessions go.

use super::watches::{BatchChange, News};
use evictd_batch::conf::{Conf, ConfError};
use evictd_cluster_client::NewsSender;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::sleep;
use tracing::{debug, info, warn};

/// Why a configuration of sessions cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// The file cannot be read.
    #[error("--batch-conf {0}: {1}")]
    Unreadable(PathBuf, io::Error),
    /// What it says cannot be used.
    #[error("--batch-conf {0}: {1}")]
    Wrong(PathBuf, ConfError),
    /// The same pods would be placed in two ways.
    #[error(
        "--batch-scheduler-name {0}: a profile of the scheduler has this name, so that its pods would not be those of batch sessions"
    )]
    Profile(String),
}

/// A `volcano-scheduler.conf`, as it was read last.
pub(super) struct ConfFile {
    path: PathBuf,
    text: String,
}

impl ConfFile {
    /// Reads it.
    ///
    /// # Errors
    /// A file that cannot be read or used.
    pub(super) fn open(path: PathBuf) -> Result<(Self, Conf), BatchError> {
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) => return Err(BatchError::Unreadable(path, error)),
        };
        let own = Self { path, text };
        match Conf::read(&own.text) {
            Ok(conf) => {
                own.warn_of(&conf);
                Ok((own, conf))
            }
            Err(error) => Err(BatchError::Wrong(own.path, error)),
        }
    }

    /// Reads it anew every so often, and tells of a change as long as somebody listens.
    pub(super) async fn follow(mut self, period: Duration, news: NewsSender<News>) {
        while !news.is_closed() {
            sleep(period).await;
            let text = match read(&self.path).await {
                Ok(text) if text == self.text => continue,
                Ok(text) => text,
                Err(error) => {
                    // A file that is just being replaced is there the next time.
                    debug!("{}: {error}", self.path.display());
                    continue;
                }
            };
            self.text = text;
            if let Some(conf) = self.conf() {
                // The receiver is dropped when the scheduler ends.
                news.send(News::Batch(BatchChange::Conf(Box::new(conf))));
            }
        }
    }

    /// What it says now that it has changed. One that cannot be used changes nothing (S6-087).
    fn conf(&self) -> Option<Conf> {
        let path = self.path.display();
        match Conf::read(&self.text) {
            Ok(conf) => {
                info!("{path} has changed and is in force");
                self.warn_of(&conf);
                Some(conf)
            }
            Err(error) => {
                warn!("{path} has changed and cannot be used, the one before stays: {error}");
                None
            }
        }
    }

    fn warn_of(&self, conf: &Conf) {
        for warning in &conf.warnings {
            warn!("{}: {warning}", self.path.display());
        }
    }
}

/// Reads a file on a thread of its own: a disk that does not answer holds up nothing else, and no end of the program either.
async fn read(path: &Path) -> io::Result<String> {
    let (tell, told) = oneshot::channel();
    let path = path.to_owned();
    let reader = move || {
        // Who waited may have ended.
        let _ = tell.send(std::fs::read_to_string(path));
    };
    let thread = thread::Builder::new().name("batch-conf".to_owned());
    thread.spawn(reader)?;
    told.await.map_err(io::Error::other)?
}
