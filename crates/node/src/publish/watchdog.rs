//! Publishes to systemd: a finished cycle of the main loop resets the watchdog, and nothing else does. The status
//! line says whether pods are evicted or evictions are paused.

use super::Publish;
use crate::fact::{Fact, Look};
use crate::{notify::Notifier, pause::Pause};

/// The normal status line.
pub const WATCHING: &str = "watching this node";

/// Tells systemd that the main loop works.
#[derive(Debug)]
pub struct Watchdog {
    notifier: Notifier,
    paused: Option<Pause>,
}

impl Watchdog {
    /// Notifies the service manager through `notifier`.
    pub const fn new(notifier: Notifier) -> Self {
        Self {
            notifier,
            paused: None,
        }
    }
}

/// The status line of systemd.
pub fn status_line(paused: Option<&Pause>) -> String {
    paused.map_or(WATCHING.to_owned(), |pause| {
        format!("PAUSED {pause}; no pod is terminated")
    })
}

impl Publish for Watchdog {
    fn publish(&mut self, fact: &Fact<'_>) {
        if let Fact::Looked(look) = fact {
            self.looked(look);
        }
    }
}

impl Watchdog {
    fn looked(&mut self, look: &Look<'_>) {
        if self.paused.as_ref() != look.paused {
            self.paused = look.paused.cloned();
            self.notifier.status(&status_line(look.paused));
        }
        self.notifier.alive(look.now);
    }
}
