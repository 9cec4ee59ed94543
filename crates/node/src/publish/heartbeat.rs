//! systemd as a publisher: its watchdog is fed by turns of the loop and by nothing else, and its line of status says
//! whether anybody is ended.

use super::Publish;
use crate::fact::{Fact, Look};
use crate::{notify::Notifier, pause::Pause};

/// What the line of status says while nothing special is.
pub const WATCHING: &str = "watching this node";

/// Tells systemd that the loop turns.
#[derive(Debug)]
pub struct Heartbeat {
    notifier: Notifier,
    paused: Option<Pause>,
}

impl Heartbeat {
    /// To the service manager.
    pub const fn new(notifier: Notifier) -> Self {
        Self {
            notifier,
            paused: None,
        }
    }
}

/// The line of status.
pub fn status_line(paused: Option<&Pause>) -> String {
    paused.map_or(WATCHING.to_owned(), |pause| {
        format!("PAUSED {pause}; nobody is ended")
    })
}

impl Publish for Heartbeat {
    fn publish(&mut self, fact: &Fact<'_>) {
        if let Fact::Looked(look) = fact {
            self.looked(look);
        }
    }
}

impl Heartbeat {
    fn looked(&mut self, look: &Look<'_>) {
        if self.paused.as_ref() != look.paused {
            self.paused = look.paused.cloned();
            self.notifier.status(&status_line(look.paused));
        }
        self.notifier.alive(look.now);
    }
}
