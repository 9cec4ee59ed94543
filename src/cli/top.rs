//! `evictd top`: a live screen of signals, thresholds, and the pods that would be evicted next.

mod picture;

use super::daemon::Daemon;
use clap::Args;
use evictd_command::{Failure, show_live};
use picture::Picture;
use std::time::Duration;

const REFRESH: Duration = Duration::from_secs(1);

const EXAMPLE: &str = "Example:
  evictd top
  evictd top | head -20    # not a terminal: one frame";

/// A live screen of signals, thresholds and the pods that would be evicted next; q quits.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    #[command(flatten)]
    daemon: Daemon,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        // At start an unreachable daemon is an error; later it is shown in the picture.
        let first = Picture::take(&self.daemon)?;
        let again = |_: &Picture| Picture::take(&self.daemon);
        show_live(first, REFRESH, again, Picture::page)
    }
}
