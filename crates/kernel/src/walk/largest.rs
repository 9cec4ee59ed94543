//! The deepest directory that holds more than half of what a walk counts: it shows where the space went.

use super::DiskUsage;
use std::{
    ffi::{CStr, CString, OsStr},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
};

/// A directory relative to the top of a walk, with its bytes or inodes and those of all that is below it.
type Directory = (PathBuf, i64);

/// The deepest directories below the top of a walk that hold more than half; `None` where none does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LargestDirectories {
    /// The path from the top, and its bytes.
    pub by_bytes: Option<(PathBuf, i64)>,
    /// The path from the top, and its inodes.
    pub by_inodes: Option<(PathBuf, i64)>,
}

/// The sums of the open directories. Two directories beside each other cannot both hold more than half, so the candidates
/// are at most as many as the walk is deep.
#[derive(Debug, Default)]
pub(super) struct Largest {
    /// The directories below the top that are being read, and the amounts that were counted before them.
    open: Vec<(CString, [i64; 2])>,
    /// By bytes and by inodes, deepest first.
    candidates: [Vec<Directory>; 2],
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
            candidates.retain(|(_, amount)| is_most(*amount));
            let amount = total.saturating_sub(*before);
            if is_most(amount) {
                let names = self.open.iter().map(|(name, _)| name.to_bytes());
                candidates.push((names.map(OsStr::from_bytes).collect(), amount));
            }
        }
        self.open.pop();
    }

    /// A walk that was cut short has open directories.
    pub(super) fn finish(mut self, counted: &DiskUsage) -> LargestDirectories {
        while !self.open.is_empty() {
            self.leave(counted);
        }
        let [bytes, inodes] = amounts(counted);
        let [by_bytes, by_inodes] = self.candidates;
        let deepest = |candidates: Vec<Directory>, total: i64| {
            let mut candidates = candidates.into_iter();
            candidates.find(|(_, amount)| *amount > total / 2)
        };
        LargestDirectories {
            by_bytes: deepest(by_bytes, bytes),
            by_inodes: deepest(by_inodes, inodes),
        }
    }
}
