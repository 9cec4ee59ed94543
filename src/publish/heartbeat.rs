//! The watchdog as a publisher: it is fed by turns of the loop and by nothing else.

use super::{Decided, Landed, Look, Publish};
use crate::notify::Notifier;

/// Tells systemd that the loop turns.
#[derive(Debug)]
pub struct Heartbeat(pub Notifier);

impl Publish for Heartbeat {
    fn looked(&mut self, look: &Look<'_>) {
        self.0.alive(look.now);
    }

    fn decided(&mut self, _: &Decided<'_>) {}

    fn landed(&mut self, _: &Landed<'_>) {}
}
