//! Tells background tasks whether this is a dry run, which a new configuration may change.

use super::Publish;
use crate::fact::{Fact, Look};
use tokio::sync::watch;

/// Passes on the dry run setting when it changes.
#[derive(Debug)]
pub struct DryRunPublisher(pub watch::Sender<bool>);

impl Publish for DryRunPublisher {
    fn publish(&mut self, fact: &Fact<'_>) {
        if let Fact::Looked(look) = fact {
            self.looked(look);
        }
    }
}

impl DryRunPublisher {
    fn looked(&mut self, look: &Look<'_>) {
        let changed = |dry_run: &mut bool| std::mem::replace(dry_run, look.dry_run) != look.dry_run;
        self.0.send_if_modified(changed);
    }
}
