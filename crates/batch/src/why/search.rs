//! Searches for the smallest changes that start a job. Each proposal was tried.

use super::change::{Change, NodeNames};
use super::subject::Subject;
use super::what_if::WhatIf;
use evictd_pod::resources::units;
use evictd_pod::{Counted, Requests};
use evictd_what_if::{Scaled, Trial, smallest};
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
    /// The results of the sessions for every try.
    pub(super) tried: Vec<Tried>,
}

/// Changes that were tried together.
#[derive(Debug, Clone)]
pub struct Tried {
    /// The changes.
    pub changes: Vec<Change>,
    /// After how many sessions they start the job; `None` if they do not.
    pub sessions: Option<usize>,
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
            tried: Vec::new(),
        }
    }

    /// Whether more would have been tried.
    pub(super) const fn is_exhausted(&self) -> bool {
        self.tries == 0
    }

    /// After how many sessions these changes start the job, whatever the names of new nodes are.
    pub(super) fn sessions(&mut self, changes: &[Change]) -> Option<usize> {
        let all: Vec<Change> = self.first.iter().chain(changes).cloned().collect();
        let mut most = Some(0);
        for names in names_to_try(&all) {
            // A search without tries left fails, and the answer says that not every change was tried.
            self.tries = self.tries.checked_sub(1)?;
            let sessions = self.sessions_with(&all, *names);
            most = most.zip(sessions).map(|(one, other)| one.max(other));
            if most.is_none() {
                break;
            }
        }
        self.tried.push(Tried {
            changes: all,
            sessions: most,
        });
        most
    }

    fn sessions_with(&mut self, changes: &[Change], names: NodeNames) -> Option<usize> {
        let mark = self.what_if.mark();
        for change in changes {
            change.apply(self.what_if, self.subject, names);
        }
        let sessions = self.what_if.starts(self.subject);
        self.what_if.undo(mark);
        sessions
    }

    /// The smallest of these changes, each at its largest, that start the job together.
    pub(super) fn proposal(&mut self, largest: Vec<Change>) -> Option<Proposal> {
        let scaled = largest.into_iter().map(|change| self.scaled(change));
        self.smallest(scaled.collect())
    }

    /// The one way to a proposal: sizes are shrunk and changes left out as long as sessions start the job.
    pub(super) fn smallest(&mut self, scaled: Vec<Scaled<'_, Change>>) -> Option<Proposal> {
        if self.first.is_empty() && scaled.is_empty() {
            return None;
        }
        // They become part of the changes, so that an unnecessary one of them is removed, too.
        let first = std::mem::take(&mut self.first);
        let unavoidable = first.iter().cloned().map(Scaled::fixed);
        let scaled: Vec<_> = unavoidable.chain(scaled).collect();
        // These tries are always there.
        self.tries += (2 + scaled.len()) * NodeNames::ALL.len();
        let proposal = smallest(self, &scaled).and_then(|changes| self.verified(changes));
        self.first = first;
        proposal
    }

    /// Of these changes those that are necessary; `None` if all together do not suffice.
    pub(super) fn necessary(&mut self, changes: Vec<Change>) -> Option<Vec<Change>> {
        let fixed: Vec<_> = changes.into_iter().map(Scaled::fixed).collect();
        smallest(self, &fixed)
    }

    fn verified(&mut self, changes: Vec<Change>) -> Option<Proposal> {
        let sessions = self.sessions(&changes)?;
        let changes = Change::joined(changes);
        let words: Vec<String> = changes.iter().map(ToString::to_string).collect();
        Some(Proposal {
            words: words.join(", and "),
            changes,
            sessions,
        })
    }

    /// A change and its smaller sizes.
    fn scaled(&self, largest: Change) -> Scaled<'static, Change> {
        let mut step = 1;
        let sizes = match &largest {
            Change::Capability {
                resource, from, to, ..
            } => {
                let (low, high) = (units(resource, *from), units(resource, *to));
                // Requests are round numbers, so proposals are. The last step may be beyond the smallest that works.
                step = self.step(resource, low);
                let more = high.saturating_sub(low);
                more / step + i64::from(more % step != 0)
            }
            Change::Weight { from, to, .. } => i64::from(*to) - i64::from(*from),
            Change::MinMember { from, to } => i64::from(*from) - i64::from(*to),
            Change::MoreNodes { count, .. } => i64::try_from(*count).unwrap_or(i64::MAX),
            _ => return Scaled::fixed(largest),
        };
        Scaled::new(sizes, move |size| {
            vec![largest.of_size(size.saturating_mul(step))]
        })
    }

    /// The largest step: every request is a multiple of it.
    fn step(&self, resource: &str, of: i64) -> i64 {
        let pods = self.what_if.pods.values();
        let asked = pods.map(|pod| Requests::of(pod, Counted::Scheduled).get(resource));
        let groups = self.what_if.groups.values();
        let least =
            groups.filter_map(|group| group.spec.min_resources.as_ref()?.get(resource).copied());
        asked
            .chain(least)
            .fold(of, |step, amount| divisor(step, units(resource, amount)))
    }
}

fn divisor(one: i64, other: i64) -> i64 {
    let (mut one, mut other) = (one.saturating_abs(), other.saturating_abs());
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one.max(1)
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
