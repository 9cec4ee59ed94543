//! A configuration that is refused as a whole.

use evictd_configuration::{InvalidConfiguration, Mistake};
use std::fmt;

/// A configuration that cannot be used, with all its mistakes.
#[derive(Debug, Clone, Default, PartialEq, Eq, thiserror::Error)]
pub struct Refused {
    /// The first error, in the words of the kubelet, which reports only one.
    pub kubelet_first_error: String,
    /// Every mistake, in the order of the file.
    pub mistakes: Vec<Mistake>,
    /// Warnings.
    pub warnings: Vec<Mistake>,
}

impl fmt::Display for Refused {
    /// One mistake a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mistakes = self.mistakes.clone();
        InvalidConfiguration { mistakes }.fmt(f)
    }
}
