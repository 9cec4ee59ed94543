//! Searches for the smallest changes that start a job. Each proposal was tried.

use super::change::Change;
use super::subject::Subject;
use super::what_if::WhatIf;
use serde::Serialize;

/// Changes that start the job, together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Proposal {
    /// None of them can be left out.
    pub changes: Vec<Change>,
    /// The same for people.
    pub words: String,
    /// How many sessions it takes then.
    pub sessions: usize,
}

/// Tries changes.
pub(super) struct Search<'s, 'w> {
    pub(super) what_if: &'s mut WhatIf<'w>,
    pub(super) subject: &'s Subject,
    /// Changes without which nothing else helps.
    pub(super) first: Vec<Change>,
    /// How many tries are left.
    tries: usize,
}

/// The most tries.
const TRIES: usize = 600;
/// So many nodes and pods are looked at by all tries together; a large cluster has fewer tries.
const EFFORT: usize = 5_000_000;
const FEWEST_TRIES: usize = 60;

impl<'s, 'w> Search<'s, 'w> {
    pub(super) fn new(what_if: &'s mut WhatIf<'w>, subject: &'s Subject) -> Self {
        let size = 1 + what_if.nodes.len() + what_if.pods.len();
        Self {
            tries: (EFFORT / size).clamp(FEWEST_TRIES, TRIES),
            what_if,
            subject,
            first: Vec::new(),
        }
    }

    /// Whether more would have been tried.
    pub(super) const fn is_exhausted(&self) -> bool {
        self.tries == 0
    }

    /// After how many sessions these changes start the job.
    pub(super) fn sessions(&mut self, changes: &[Change]) -> Option<usize> {
        self.tries = self.tries.checked_sub(1)?;
        let mark = self.what_if.mark();
        for change in self.first.iter().chain(changes) {
            change.apply(self.what_if, self.subject);
        }
        let sessions = self.what_if.starts(self.subject);
        self.what_if.undo(mark);
        sessions
    }

    /// Whether these changes start it.
    pub(super) fn proves(&mut self, changes: &[Change]) -> bool {
        self.sessions(changes).is_some()
    }

    /// The proposal of these changes. They are tried once more, and without each that may be unnecessary.
    pub(super) fn proposal(&mut self, changes: Vec<Change>) -> Option<Proposal> {
        let first = std::mem::take(&mut self.first);
        let proposal = self.minimal(first.iter().cloned().chain(changes).collect());
        self.first = first;
        proposal
    }

    fn minimal(&mut self, mut changes: Vec<Change>) -> Option<Proposal> {
        // These tries are always there.
        self.tries += 2 + changes.len();
        let mut sessions = self.sessions(&changes)?;
        let all = changes.len();
        for index in (0..all).rev() {
            let mut without = changes.clone();
            without.remove(index);
            if !without.is_empty() && self.proves(&without) {
                changes = without;
            }
        }
        if changes.len() < all {
            // Amounts that were needed together may be too large alone.
            changes = self.tightened(changes);
            sessions = self.sessions(&changes)?;
        }
        let words: Vec<String> = changes.iter().map(ToString::to_string).collect();
        Some(Proposal {
            words: words.join(", and "),
            changes,
            sessions,
        })
    }

    /// The smallest number for which `change` starts the job; `enough` is known to suffice.
    pub(super) fn least(
        &mut self,
        (none, enough): (i64, i64),
        change: impl Fn(i64) -> Vec<Change>,
    ) -> i64 {
        let (mut low, mut high) = (none, enough);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.proves(&change(middle)) {
                high = middle;
            } else {
                low = middle;
            }
        }
        high
    }

    /// Removes unnecessary changes, as many as possible at a time, last first. The full list starts the job, and so
    /// does the rest.
    pub(super) fn needed<T: Clone>(
        &mut self,
        mut all: Vec<T>,
        change: impl Fn(&[T]) -> Vec<Change>,
    ) -> Vec<T> {
        let mut size = all.len() / 2;
        while size > 0 {
            let before = all.len();
            let mut end = all.len();
            while end > 0 {
                let begin = end.saturating_sub(size);
                let without: Vec<T> = all[..begin].iter().chain(&all[end..]).cloned().collect();
                if !without.is_empty() && self.proves(&change(&without)) {
                    all = without;
                }
                end = begin;
            }
            // A change that was needed beside another may be unnecessary without it.
            if size > 1 || all.len() == before {
                size /= 2;
            }
        }
        all
    }
}
