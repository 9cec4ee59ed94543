//! `volcano-scheduler.conf`, the configuration of batch sessions.

use super::watches::{BatchChange, WatchEvent};
use evictd_batch::conf::{Conf, ConfError};
use evictd_cluster_client::NewsSender;
use evictd_daemon::followed_file::FollowedFile;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::watch;
use tracing::{info, warn};

#[derive(Debug, thiserror::Error)]
pub(crate) enum BatchError {
    #[error("--batch-conf {0}: {1}")]
    Unreadable(PathBuf, io::Error),
    #[error("--batch-conf: {0}")]
    Invalid(ConfError),
    /// Sessions and a profile would both place the pods of this scheduler name.
    #[error(
        "--batch-scheduler-name {0}: a profile of the scheduler has this name, so that its pods would not be those of batch sessions"
    )]
    Profile(String),
}

/// The file with the text that was last read.
pub(super) struct ConfFile {
    file: FollowedFile,
    /// How often the use of nodes is read.
    measures: watch::Sender<Option<Duration>>,
}

impl ConfFile {
    pub(super) fn open(path: PathBuf) -> Result<(Self, Conf), BatchError> {
        let file = match FollowedFile::open(path.clone()) {
            Ok(file) => file,
            Err(error) => return Err(BatchError::Unreadable(path, error)),
        };
        let measures = watch::Sender::new(None);
        let file = Self { file, measures };
        let conf = file.read().map_err(BatchError::Invalid)?;
        file.measures.send_replace(conf.measures());
        warn_of(&conf);
        Ok((file, conf))
    }

    /// How often the use of nodes is read, by the current configuration.
    pub(super) fn measures(&self) -> watch::Receiver<Option<Duration>> {
        self.measures.subscribe()
    }

    /// Reads the file again after each period, and reports changes until the receiver is dropped.
    pub(super) async fn follow(mut self, period: Duration, events: NewsSender<WatchEvent>) {
        loop {
            tokio::select! {
                () = events.closed() => return,
                () = self.file.changed(period) => {
                    events.send(WatchEvent::Batch(self.change()));
                }
            }
        }
    }

    /// The changed configuration. An invalid one leaves the last valid one in force (S6-087).
    fn change(&self) -> BatchChange {
        let path = self.file.path().display();
        match self.read() {
            Ok(conf) => {
                info!("{path} was reloaded");
                self.measures.send_replace(conf.measures());
                warn_of(&conf);
                BatchChange::Conf(Box::new(conf))
            }
            Err(error) => {
                warn!(
                    "{path} has changed but is invalid; the last valid configuration stays in force: {error}"
                );
                BatchChange::InvalidConf(error.to_string())
            }
        }
    }

    fn read(&self) -> Result<Conf, ConfError> {
        let path = self.file.path().display().to_string();
        Conf::parse(&path, self.file.text())
    }
}

fn warn_of(conf: &Conf) {
    for warning in &conf.warnings {
        warn!("{warning}");
    }
}
