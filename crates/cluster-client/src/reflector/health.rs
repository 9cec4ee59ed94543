//! Which watches work, for readiness and metrics.

use super::Budget;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// A watch may fail for this long: a server that restarts is away for less.
const TOLERATED: Duration = Duration::from_mins(1);

/// The watches of a program, and the budget for their objects. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Watches {
    all: Arc<Mutex<All>>,
    budget: Budget,
}

#[derive(Debug, Default)]
struct All {
    /// By path; several watches may have the same one.
    states: BTreeMap<(String, u64), State>,
    begun: u64,
}

#[derive(Debug)]
struct State {
    /// Since when it fails, and why; `None` while it works.
    failing: Option<(Instant, String)>,
    skipped: u64,
}

/// The state of one watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchState {
    /// The path of the collection, with its field selector.
    pub path: String,
    /// Whether it has failed for longer than a restart of the server takes.
    pub broken: bool,
    /// The last problem while it fails.
    pub problem: Option<String>,
    /// How many objects could not be taken: too long, malformed, or beyond the budget.
    pub skipped: u64,
}

impl Watches {
    /// Watches that keep at most as much as this budget allows.
    pub fn within(budget: Budget) -> Self {
        Self {
            budget,
            ..Self::default()
        }
    }

    /// The budget that they share.
    pub const fn budget(&self) -> &Budget {
        &self.budget
    }

    /// A watch begins, and has answered nothing yet.
    pub(super) fn add(&self, path: &str, fields: &str) -> Handle {
        let path = match fields {
            "" => path.to_owned(),
            fields => format!("{path}?{fields}"),
        };
        let state = State {
            failing: Some((Instant::now(), "it has not answered yet".to_owned())),
            skipped: 0,
        };
        let mut all = self.all();
        all.begun += 1;
        let key = (path, all.begun);
        all.states.insert(key.clone(), state);
        Handle {
            watches: self.clone(),
            key,
        }
    }

    fn all(&self) -> MutexGuard<'_, All> {
        // A thread that panicked with the lock left every state whole.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of each watch, by path.
    pub fn states(&self) -> Vec<WatchState> {
        let all = self.all();
        let states = all.states.iter().map(|((path, _), state)| WatchState {
            path: path.clone(),
            broken: state.failing.as_ref().is_some_and(is_broken),
            problem: state.failing.as_ref().map(|(_, problem)| problem.clone()),
            skipped: state.skipped,
        });
        states.collect()
    }

    /// The problem of the first broken watch.
    pub fn broken(&self) -> Option<String> {
        let all = self.all();
        let mut failing = all
            .states
            .iter()
            .filter_map(|((path, _), state)| Some((path, state.failing.as_ref()?)));
        let (path, (_, problem)) = failing.find(|(_, failing)| is_broken(failing))?;
        Some(format!("cannot watch {path}: {problem}"))
    }
}

fn is_broken((since, _): &(Instant, String)) -> bool {
    since.elapsed() > TOLERATED
}

/// One watch as it reports its state.
#[derive(Debug)]
pub(super) struct Handle {
    watches: Watches,
    key: (String, u64),
}

impl Handle {
    pub(super) const fn budget(&self) -> &Budget {
        &self.watches.budget
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        self.watches.all().states.get_mut(&self.key).map(change);
    }

    pub(super) fn works(&self) {
        self.change(|state| state.failing = None);
    }

    pub(super) fn fails(&self, problem: &str) {
        self.change(|state| {
            let since = state.failing.take().map(|(since, _)| since);
            let since = since.unwrap_or_else(Instant::now);
            state.failing = Some((since, problem.to_owned()));
        });
    }

    pub(super) fn skipped(&self) {
        self.change(|state| state.skipped += 1);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.watches.all().states.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn a_watch_is_broken_once_it_has_failed_for_a_minute_and_no_more_when_it_works() {
        let watches = Watches::default();
        let pods = watches.add("/api/v1/pods", "");
        let nodes = watches.add("/api/v1/nodes", "metadata.name=one");
        nodes.works();
        advance(TOLERATED / 2).await;
        pods.fails("503");
        assert_eq!(watches.broken(), None);
        advance(TOLERATED / 2 + Duration::from_secs(1)).await;
        assert_eq!(
            watches.broken().as_deref(),
            Some("cannot watch /api/v1/pods: 503")
        );
        pods.skipped();
        let states = watches.states();
        assert_eq!(states[0].path, "/api/v1/nodes?metadata.name=one");
        assert_eq!(
            (states[0].broken, states[1].broken, states[1].skipped),
            (false, true, 1)
        );
        pods.works();
        assert_eq!(watches.broken(), None);
        drop(pods);
        assert_eq!(watches.states().len(), 1);
    }
}
