//! The contents of the container runtime, kept fresh, so that a decision knows at once which objects are removable.

use super::{Places, Runtime};
use evictd_kernel::clock::Clock;
use evictd_reclaim::{Inventory, Outlook};
use jiff::{SignedDuration, Timestamp};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{sync::watch, task::JoinHandle};

/// How often the runtime is asked while no disk is near a threshold: often enough to see which images containers use.
const FAR: Duration = Duration::from_mins(1);
/// How often it is asked while one is.
const NEAR: Duration = Duration::from_secs(10);
/// An older list does not exclude that more is removable by now.
const FRESH: SignedDuration = SignedDuration::from_secs(15);
/// An older list does not count.
const STALE: SignedDuration = SignedDuration::from_secs(90);

/// The last reports of the runtime.
#[derive(Debug, Default)]
struct Reports {
    inventory: Option<(Timestamp, Arc<Inventory>)>,
    places: Option<Places>,
    /// How many lists there were.
    lists: u64,
}

/// Asks the runtime again and again.
pub(super) struct Tracker {
    clock: Clock,
    reports: Arc<Mutex<Reports>>,
    period: watch::Sender<Duration>,
    task: Option<JoinHandle<()>>,
}

impl Drop for Tracker {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Tracker {
    /// Asks nothing yet.
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            reports: Arc::default(),
            period: watch::Sender::new(FAR),
            task: None,
        }
    }

    fn reports(&self) -> MutexGuard<'_, Reports> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on this runtime is asked, more often while a disk is near a threshold.
    pub(super) fn track(&mut self, runtime: &Arc<dyn Runtime>, near: bool) {
        let period = if near { NEAR } else { FAR };
        self.period
            .send_if_modified(|known| std::mem::replace(known, period) != period);
        if self.task.is_some() {
            return;
        }
        let (runtime, reports, clock) =
            (Arc::clone(runtime), Arc::clone(&self.reports), self.clock);
        let mut period = self.period.subscribe();
        self.task = Some(tokio::spawn(async move {
            loop {
                let now = clock.now();
                // A reclaim reports errors.
                let places = runtime.places().await.ok().flatten();
                let listed = runtime.list().await.ok();
                {
                    let mut reports = reports.lock().unwrap_or_else(PoisonError::into_inner);
                    reports.places = places.or_else(|| reports.places.take());
                    if let Some(inventory) = listed {
                        reports.take(now, inventory);
                    }
                }
                let pause = *period.borrow_and_update();
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    changed = period.changed() => if changed.is_err() {
                        return;
                    },
                }
            }
        }));
    }

    /// A reclaim has listed this.
    pub(super) fn take(&self, now: Timestamp, inventory: Inventory) {
        self.reports().take(now, inventory);
    }

    /// The runtime does not answer: its earlier reports are not reliable.
    pub(super) fn forget(&self) {
        self.reports().inventory = None;
    }

    /// The contents of the runtime, and the age of that list; `None` if it is too old.
    pub(super) fn inventory(&self, now: Timestamp) -> Option<(SignedDuration, Arc<Inventory>)> {
        let reports = self.reports();
        let (at, inventory) = reports.inventory.as_ref()?;
        let age = now.duration_since(*at);
        (age <= STALE).then(|| (age, Arc::clone(inventory)))
    }

    /// How many lists there were.
    pub(super) fn lists(&self) -> u64 {
        self.reports().lists
    }

    /// Where the runtime keeps its files, if it has reported that.
    pub(super) fn places(&self) -> Option<Places> {
        self.reports().places.clone()
    }

    /// By an older list more may have become removable since.
    pub(super) fn with_age(age: Option<SignedDuration>, mut outlook: Outlook) -> Outlook {
        if age.is_none_or(|age| age > FRESH) {
            outlook.bytes.uncertain = true;
            outlook.inodes.uncertain = true;
        }
        outlook
    }
}

impl Reports {
    fn take(&mut self, now: Timestamp, inventory: Inventory) {
        if self.inventory.as_ref().is_none_or(|(at, _)| *at <= now) {
            self.inventory = Some((now, Arc::new(inventory)));
            self.lists += 1;
        }
    }
}
