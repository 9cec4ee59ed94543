//! `--form`: the rules of evictd, or exactly those of Volcano.

use clap::ValueEnum;
use evictd_batch_objects::Compat;

/// The value of `--form`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum CompatArg {
    /// The rules of evictd.
    Evictd,
    /// The rules of Volcano, including its bugs.
    Volcano,
}

impl CompatArg {
    pub(super) const fn compat(self) -> Compat {
        match self {
            Self::Evictd => Compat::EVICTD,
            Self::Volcano => Compat::VOLCANO,
        }
    }
}
