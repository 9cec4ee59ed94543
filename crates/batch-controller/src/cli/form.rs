//! Whose rules decide.

use clap::ValueEnum;
use evictd_batch::job::Rules;
use evictd_batch::session;

/// Whose rules decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    /// Ours.
    Evictd,
    /// Volcano's, with all that it does by mistake.
    Volcano,
}

impl Form {
    /// The rules of jobs.
    pub(super) const fn rules(self) -> Rules {
        match self {
            Self::Evictd => Rules::OURS,
            Self::Volcano => Rules::VOLCANO,
        }
    }

    /// The rules of sessions.
    pub(super) fn session(self) -> session::Form {
        match self {
            Self::Evictd => session::Form::default(),
            Self::Volcano => session::Form::volcano(),
        }
    }
}
