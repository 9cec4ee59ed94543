//! Whoever acts beside the loop hears as a publisher whether it is only a rehearsal, which may change with a new
//! configuration.

use super::Publish;
use crate::fact::{Fact, Look};
use tokio::sync::watch;

/// Says whether this is a dry run, when that changes.
#[derive(Debug)]
pub struct Rehearsal(pub watch::Sender<bool>);

impl Publish for Rehearsal {
    fn publish(&mut self, fact: &Fact<'_>) {
        if let Fact::Looked(look) = fact {
            self.looked(look);
        }
    }
}

impl Rehearsal {
    fn looked(&mut self, look: &Look<'_>) {
        let changed = |dry_run: &mut bool| std::mem::replace(dry_run, look.dry_run) != look.dry_run;
        self.0.send_if_modified(changed);
    }
}
