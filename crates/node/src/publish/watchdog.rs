//! Publishes to systemd: a finished cycle of the main loop resets the watchdog, and nothing else does. The status
//! line says whether pods are evicted or evictions are paused.

use super::Publish;
use crate::fact::{Cycle, Fact};
use crate::{notify::Notifier, pause::Pause};

/// The normal status line.
pub(crate) const WATCHING: &str = "watching this node";

/// Notifies systemd that the main loop works.
#[derive(Debug)]
pub(crate) struct Watchdog {
    notifier: Notifier,
    paused: Option<Pause>,
}

impl Watchdog {
    /// Notifies the service manager through `notifier`.
    pub(crate) const fn new(notifier: Notifier) -> Self {
        Self {
            notifier,
            paused: None,
        }
    }
}

/// The status line of systemd.
pub(crate) fn status_line(paused: Option<&Pause>) -> String {
    paused.map_or(WATCHING.to_owned(), |pause| {
        format!("PAUSED {pause}; no pod is terminated")
    })
}

impl Publish for Watchdog {
    fn publish(&mut self, fact: &Fact<'_>) {
        if let Fact::CycleEnded(cycle) = fact {
            self.cycle_ended(cycle);
        }
    }
}

impl Watchdog {
    fn cycle_ended(&mut self, cycle: &Cycle<'_>) {
        if self.paused.as_ref() != cycle.paused {
            self.paused = cycle.paused.cloned();
            self.notifier.status(&status_line(cycle.paused));
        }
        self.notifier.alive(cycle.now);
    }
}
