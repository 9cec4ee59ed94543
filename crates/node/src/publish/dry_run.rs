//! Passes on to background tasks whether this is a dry run, which a new configuration may change.

use super::Publish;
use crate::fact::{Cycle, Fact};
use tokio::sync::watch;

/// Passes on the dry run setting when it changes.
#[derive(Debug)]
pub(crate) struct DryRunPublisher(pub watch::Sender<bool>);

impl Publish for DryRunPublisher {
    fn publish(&mut self, fact: &Fact<'_>) {
        if let Fact::CycleEnded(cycle) = fact {
            self.cycle_ended(cycle);
        }
    }
}

impl DryRunPublisher {
    fn cycle_ended(&mut self, cycle: &Cycle<'_>) {
        let changed =
            |dry_run: &mut bool| std::mem::replace(dry_run, cycle.dry_run) != cycle.dry_run;
        self.0.send_if_modified(changed);
    }
}
