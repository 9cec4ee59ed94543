//! Searches for the smallest changes that start a job. Each proposal was tried.

use super::change::{Change, NodeNames};
use super::subject::Subject;
use super::what_if::WhatIf;
use evictd_what_if::{Trial, least, one_by_one};
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

    /// After how many sessions these changes start the job, whatever the names of new nodes are.
    pub(super) fn sessions(&mut self, changes: &[Change]) -> Option<usize> {
        let mut most = None;
        for names in names_to_try(changes) {
            most = most.max(Some(self.sessions_with(changes, *names)?));
        }
        most
    }

    fn sessions_with(&mut self, changes: &[Change], names: NodeNames) -> Option<usize> {
        // A search without tries left fails, and the answer says that not every change was tried.
        self.tries = self.tries.checked_sub(1)?;
        let mark = self.what_if.mark();
        for change in self.first.iter().chain(changes) {
            change.apply(self.what_if, self.subject, names);
        }
        let sessions = self.what_if.starts(self.subject);
        self.what_if.undo(mark);
        sessions
    }

    /// The proposal of these changes. They are tried once more, and without each that may be unnecessary.
    pub(super) fn proposal(&mut self, changes: Vec<Change>) -> Option<Proposal> {
        // They become part of the changes, so that an unnecessary one of them is removed, too.
        let first = std::mem::take(&mut self.first);
        let proposal = self.minimal(first.iter().cloned().chain(changes).collect());
        self.first = first;
        proposal
    }

    fn minimal(&mut self, mut changes: Vec<Change>) -> Option<Proposal> {
        // These tries are always there.
        self.tries += (2 + changes.len()) * names_to_try(&changes).len();
        let mut sessions = self.sessions(&changes)?;
        let all = changes.len();
        changes = one_by_one(self, changes);
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

    /// The proposal with the smallest number for which `change` starts the job; `None` if it does not even for `enough`.
    pub(super) fn smallest(
        &mut self,
        (too_few, enough): (i64, i64),
        change: impl Fn(i64) -> Vec<Change>,
    ) -> Option<Proposal> {
        if !self.suffices(&change(enough)) {
            return None;
        }
        let least = least(self, (too_few, enough), &change);
        self.proposal(change(least))
    }
}

/// The names of new nodes that changes are tried with.
fn names_to_try(changes: &[Change]) -> &'static [NodeNames] {
    let adds = |change: &Change| matches!(change, Change::MoreNodes { .. });
    if changes.iter().any(adds) {
        &NodeNames::ALL
    } else {
        &[NodeNames::Last]
    }
}

impl Trial for Search<'_, '_> {
    type Change = Change;
    type Obstacle = ();

    /// Whether the job does not start.
    fn obstacle(&mut self, changes: &[Change]) -> Option<()> {
        self.sessions(changes).is_none().then_some(())
    }
}
