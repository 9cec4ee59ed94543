//! Somebody who looks on while a session decides, and changes nothing of it.

use super::Session;
use crate::conf::Action;

/// Called at the stages of a session.
pub(crate) trait Watch {
    /// Before any action.
    fn opened(&mut self, _session: &Session<'_>) {}

    /// After an action.
    fn acted(&mut self, _session: &Session<'_>, _action: Action) {}

    /// After all was decided. What is done to the session here is undone, and does not count.
    fn closed(&mut self, _session: &mut Session<'_>) {}
}

/// Nobody looks.
impl Watch for () {}
