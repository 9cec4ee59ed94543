//! A user's Command acts at most once (S6-012): it is deleted first, and only whoever deleted it acts.

use super::call::Refusal;

/// What becomes of a Command after the try to delete it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is deleted, and acts now.
    Act,
    /// Somebody else has deleted it, or it was deleted by a call whose answer was lost.
    Drop,
    /// It is still there; it is tried again.
    Retry,
}

/// The fate of a Command whose deletion was answered like this.
pub fn fate(deletion: &Result<(), Refusal>) -> Fate {
    match deletion {
        Ok(()) => Fate::Act,
        Err(Refusal::NotFound) => Fate::Drop,
        Err(_) => Fate::Retry,
    }
}
