//! The events that wake the main loop early: notifications from the kernel that memory gets short, in addition to its
//! adaptive sleep.
//!
//! All listeners notify one shared `Wakeup`; notifications that arrive close together count as one. Without any source of
//! notifications the sleep alone decides when the loop runs.

mod events;
mod listener;
mod memcg;
mod pressure;

pub use memcg::MemcgNotification;

use crate::signals::RENEWAL;
use events::EventsFile;
use evictd_eviction::Housekeeper;
use evictd_signals::Observations;
use jiff::{SignedDuration, Timestamp};
use pressure::PressureTrigger;
use serde::{Deserialize, Serialize};
use std::{
    path::PathBuf,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{sync::Notify, time::Sleep};

/// The shortest pause after a notification from the kernel.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause. A cgroup at its limit notifies without end, although reclaim may free enough for it.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The event that woke the main loop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WokenBy {
    /// The end of the sleep.
    #[default]
    Sleep,
    /// Tasks of the node waited for memory.
    MemoryPressure,
    /// Tasks of pods waited for memory.
    PodsMemoryPressure,
    /// Tasks of the node waited for I/O.
    IoPressure,
    /// The pods' cgroup reached its limit (`memory.events`).
    MemoryEvents,
    /// The kernel's notification of a cgroup v1 memory threshold (S1-074).
    MemoryThreshold,
    /// A pod's termination ended.
    Departure,
    /// The set of pods changed.
    Pods,
    /// A measurement, a question or an order arrived.
    Request,
}

impl WokenBy {
    /// The name in logs, status and history.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sleep => "sleep",
            Self::MemoryPressure => "memoryPressure",
            Self::PodsMemoryPressure => "podsMemoryPressure",
            Self::IoPressure => "ioPressure",
            Self::MemoryEvents => "memoryEvents",
            Self::MemoryThreshold => "memoryThreshold",
            Self::Departure => "departure",
            Self::Pods => "pods",
            Self::Request => "request",
        }
    }
}

impl WokenBy {
    /// Whether the kernel sent a notification.
    pub const fn is_notification(self) -> bool {
        !matches!(
            self,
            Self::Sleep | Self::Departure | Self::Pods | Self::Request
        )
    }
}

/// By this a listener wakes the main loop. Clones share their state.
#[derive(Debug, Clone, Default)]
struct Wakeup(Arc<(Notify, Mutex<WokenBy>)>);

impl Wakeup {
    fn notify(&self, by: WokenBy) {
        *self.0.1.lock().unwrap_or_else(PoisonError::into_inner) = by;
        self.0.0.notify_one();
    }

    async fn notified(&self) -> WokenBy {
        self.0.0.notified().await;
        *self.0.1.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sources of notifications.
#[derive(Debug, Clone, Default)]
pub struct WakeSources {
    /// `/proc/pressure/memory`, or the pressure file of the cgroup that acts as the node.
    pub memory: Option<PathBuf>,
    /// The same for I/O.
    pub io: Option<PathBuf>,
    /// Directories in the cgroup2 tree that may contain all pods; missing ones are looked for again later.
    pub pods: Vec<PathBuf>,
}

/// Listens to the kernel's notifications.
#[derive(Debug)]
pub struct WakeListeners {
    wakeup: Wakeup,
    triggers: Vec<PressureTrigger>,
    events: Vec<EventsFile>,
    memcg: Option<MemcgNotification>,
    refreshed_at: Option<Timestamp>,
    notified_at: Option<Timestamp>,
    pause: Duration,
    pausing: Option<Pin<Box<Sleep>>>,
}

impl WakeListeners {
    /// Starts listening when [`Self::refresh`] is first called. Must be created inside the runtime.
    pub fn new(sources: WakeSources, memcg: Option<MemcgNotification>) -> Self {
        let trigger = |by| move |file: PathBuf| PressureTrigger::new(file, by);
        let memory = sources.memory.map(trigger(WokenBy::MemoryPressure));
        let io = sources.io.map(trigger(WokenBy::IoPressure));
        let pod_triggers = sources
            .pods
            .iter()
            .map(|group| group.join("memory.pressure"))
            .map(trigger(WokenBy::PodsMemoryPressure));
        Self {
            wakeup: Wakeup::default(),
            triggers: memory.into_iter().chain(io).chain(pod_triggers).collect(),
            events: sources.pods.into_iter().map(EventsFile::new).collect(),
            memcg,
            refreshed_at: None,
            notified_at: None,
            pause: SHORTEST_PAUSE,
            pausing: None,
        }
    }

    /// Updates the listeners: starts those of new files, and ends those of removed ones. Call it in every cycle;
    /// `notified` says whether a notification woke it.
    pub fn refresh(&mut self, now: Timestamp, notified: bool) {
        if notified {
            self.notified_at = Some(now);
        }
        let pause = SignedDuration::try_from(self.pause * 2).unwrap_or(SignedDuration::MAX);
        if self
            .notified_at
            .is_some_and(|notified_at| now.duration_since(notified_at) > pause)
        {
            self.pause = SHORTEST_PAUSE;
        }
        if self
            .refreshed_at
            .is_some_and(|refreshed_at| now.duration_since(refreshed_at) < RENEWAL)
        {
            return;
        }
        self.refreshed_at = Some(now);
        for trigger in &mut self.triggers {
            trigger.refresh(&self.wakeup);
        }
        for events in &mut self.events {
            events.refresh(&self.wakeup);
        }
    }

    /// Sets the levels of the kernel's memcg notification, if it is enabled.
    pub fn notify_at(
        &mut self,
        now: Timestamp,
        housekeeper: &Housekeeper,
        observations: &Observations,
    ) {
        if let Some(memcg) = &mut self.memcg {
            memcg.set(now, housekeeper, observations, &self.wakeup);
        }
    }

    /// Waits for a notification, and then pauses: 50 ms at first, doubled while notifications continue, at most one
    /// second. Cancel safe. Without any source it waits for ever.
    pub async fn notified(&mut self) -> WokenBy {
        if let Some(pausing) = &mut self.pausing {
            pausing.as_mut().await;
            self.pausing = None;
        }
        let by = self.wakeup.notified().await;
        self.pausing = Some(Box::pin(tokio::time::sleep(self.pause)));
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        by
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{Instant, timeout};

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_storm_of_notifications_wakes_at_once_and_then_once_a_second() {
        let mut wake_listeners = WakeListeners::new(WakeSources::default(), None);
        let wakeup = wake_listeners.wakeup.clone();
        tokio::spawn(async move {
            loop {
                wakeup.notify(WokenBy::MemoryEvents);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        let begun = Instant::now();
        let now = || at(i64::try_from(begun.elapsed().as_millis()).unwrap());
        let mut looks = Vec::new();
        while begun.elapsed() < Duration::from_secs(20) {
            assert_eq!(wake_listeners.notified().await, WokenBy::MemoryEvents);
            looks.push(begun.elapsed());
            wake_listeners.refresh(now(), true);
            wake_listeners.refresh(now(), false);
        }
        assert!(looks[0] < Duration::from_millis(5), "{looks:?}");
        let paused = |two: &[Duration]| two[1] >= two[0] + SHORTEST_PAUSE;
        assert!(looks.windows(2).all(paused), "{looks:?}");
        assert!((20..=26).contains(&looks.len()), "{looks:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_quiet_time_a_notification_wakes_at_once_again() {
        let mut wake_listeners = WakeListeners::new(WakeSources::default(), None);
        for _ in 0..10 {
            wake_listeners.wakeup.notify(WokenBy::IoPressure);
            let _ = wake_listeners.notified().await;
            wake_listeners.refresh(at(0), true);
        }
        assert_eq!(wake_listeners.pause, LONGEST_PAUSE);
        wake_listeners.refresh(at(2001), false);
        assert_eq!(wake_listeners.pause, SHORTEST_PAUSE);
        tokio::time::sleep(LONGEST_PAUSE).await;
        wake_listeners.wakeup.notify(WokenBy::IoPressure);
        let heard = timeout(Duration::from_millis(1), wake_listeners.notified()).await;
        assert_eq!(heard, Ok(WokenBy::IoPressure));
        // After a wait is cancelled the next notification is still received.
        let none = timeout(Duration::from_millis(60), wake_listeners.notified()).await;
        assert!(none.is_err());
        wake_listeners.wakeup.notify(WokenBy::MemoryPressure);
        let heard = timeout(Duration::from_millis(1), wake_listeners.notified()).await;
        assert_eq!(heard, Ok(WokenBy::MemoryPressure));
    }
}
