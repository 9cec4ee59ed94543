//! An observer of a session that changes nothing.

use super::Session;
use crate::conf::Action;

/// Called at the stages of a session.
pub(crate) trait Observer {
    /// Whether the outcome lists all groups of near nodes with their nodes.
    fn lists_groups(&self) -> bool {
        false
    }

    /// Before any action.
    fn opened(&mut self, _session: &Session<'_>) {}

    /// After an action.
    fn acted(&mut self, _session: &Session<'_>, _action: Action) {}

    /// After the decisions. Changes here are undone and do not count.
    fn closed(&mut self, _session: &mut Session<'_>) {}
}

/// No observer.
impl Observer for () {}
