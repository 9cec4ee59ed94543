//! Reads the configuration again on a thread of its own: a file may be on a disk that hangs, or be a pipe into which
//! nothing writes, and evictions must not wait for it.

use crate::config::{Effective, Refused};
use std::sync::Arc;
use tokio::task::{JoinHandle, spawn_blocking};

/// How the configuration is read.
type Read = Arc<dyn Fn() -> Result<Effective, Refused> + Send + Sync>;

pub(super) struct Rereading {
    read: Read,
    under_way: Option<JoinHandle<Result<Effective, Refused>>>,
    /// Another request came during a read, which may have seen the state before it.
    again: bool,
}

impl Rereading {
    pub(super) fn by(read: Read) -> Self {
        Self {
            read,
            under_way: None,
            again: false,
        }
    }

    pub(super) fn begin(&mut self) {
        if self.under_way.is_some() {
            self.again = true;
            return;
        }
        let read = Arc::clone(&self.read);
        self.under_way = Some(spawn_blocking(move || read()));
    }

    /// The configuration that was read, or `None` if the reading thread panicked; pending while no read is under way.
    /// Cancel safe.
    pub(super) async fn read(&mut self) -> Option<Result<Effective, Refused>> {
        loop {
            let Some(under_way) = &mut self.under_way else {
                return std::future::pending().await;
            };
            let read = under_way.await;
            self.under_way = None;
            if std::mem::take(&mut self.again) {
                self.begin();
            } else {
                return read.ok();
            }
        }
    }
}
