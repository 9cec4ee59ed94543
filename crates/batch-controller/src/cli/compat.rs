//! `--form`: decide as evictd or exactly as Volcano.

use clap::ValueEnum;
use evictd_batch::compat::Compat;

/// The value of `--form`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum CompatArg {
    /// As evictd.
    Evictd,
    /// As Volcano, quirks included.
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
