//! Whoever acts beside the loop hears as a publisher whether it is only a rehearsal, which may change with a new
//! configuration.

use super::{Decided, Landed, Look, Publish};
use tokio::sync::watch;

/// Says whether this is a dry run, when that changes.
#[derive(Debug)]
pub struct Rehearsal(pub watch::Sender<bool>);

impl Publish for Rehearsal {
    fn looked(&mut self, look: &Look<'_>) {
        let changed = |dry_run: &mut bool| std::mem::replace(dry_run, look.dry_run) != look.dry_run;
        self.0.send_if_modified(changed);
    }

    fn decided(&mut self, _: &Decided<'_>) {}

    fn landed(&mut self, _: &Landed<'_>) {}
}
