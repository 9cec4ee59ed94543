//! The deepest directory that holds more than half of what a walk counts: it shows where the space went.

use super::DiskUsage;
use std::{
    ffi::{CStr, CString, OsStr},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
};

/// A directory with all that is below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LargestDirectory {
    /// Relative to the top of the walk.
    pub path: PathBuf,
    /// Bytes or inodes.
    pub amount: i64,
}

/// Both are `None` where no directory below the top holds more than half.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LargestDirectories {
    /// By allocated bytes.
    pub by_bytes: Option<LargestDirectory>,
    /// By inodes.
    pub by_inodes: Option<LargestDirectory>,
}

/// The sums of the open directories. Two directories beside each other cannot both hold more than half, so the candidates
/// are at most as many as the walk is deep.
#[derive(Debug, Default)]
pub(super) struct Largest {
    /// The directories below the top that are being read, and the amounts that were counted before them.
    open: Vec<(CString, [i64; 2])>,
    /// By bytes and by inodes, deepest first.
    candidates: [Vec<LargestDirectory>; 2],
}

const fn amounts(usage: &DiskUsage) -> [i64; 2] {
    [usage.bytes, usage.inodes]
}

impl Largest {
    pub(super) fn enter(&mut self, name: &CStr, before: &DiskUsage) {
        self.open.push((name.to_owned(), amounts(before)));
    }

    /// Leaves the innermost directory; nothing at the top.
    pub(super) fn leave(&mut self, counted: &DiskUsage) {
        let totals = amounts(counted);
        let Some((_, before)) = self.open.last() else {
            return;
        };
        for ((candidates, total), before) in self.candidates.iter_mut().zip(totals).zip(before) {
            let is_most = |amount: i64| amount > total / 2;
            candidates.retain(|candidate| is_most(candidate.amount));
            let amount = total.saturating_sub(*before);
            if is_most(amount) {
                let names = self.open.iter().map(|(name, _)| name.to_bytes());
                let path = names.map(OsStr::from_bytes).collect();
                candidates.push(LargestDirectory { path, amount });
            }
        }
        self.open.pop();
    }

    /// A walk that was cut short has open directories.
    pub(super) fn finish(mut self, counted: &DiskUsage) -> LargestDirectories {
        while !self.open.is_empty() {
            self.leave(counted);
        }
        let totals = amounts(counted).into_iter();
        let [by_bytes, by_inodes] = self.candidates;
        let mut deepest =
            [by_bytes, by_inodes]
                .into_iter()
                .zip(totals)
                .map(|(candidates, total)| {
                    let mut candidates = candidates.into_iter();
                    candidates.find(|candidate| candidate.amount > total / 2)
                });
        LargestDirectories {
            by_bytes: deepest.next().flatten(),
            by_inodes: deepest.next().flatten(),
        }
    }
}
