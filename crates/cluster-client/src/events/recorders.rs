//! The recorders of a process, which are flushed together before it ends.

use super::{Event, EventRecorder};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

/// How long a process that stops waits for its events. With the writes under way this is well within the 30 s that Kubernetes
/// gives a pod to end.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Counts the events that are not written yet. Clones share the count.
#[derive(Debug, Clone)]
pub struct Recorders(watch::Sender<usize>);

/// Passes events to a recorder, which ends with the last clone.
#[derive(Debug, Clone)]
pub struct EventSender {
    events: mpsc::Sender<Event>,
    recorders: Recorders,
}

impl Default for Recorders {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

impl Recorders {
    /// Starts a recorder for which at most so many events wait. Must be called inside the runtime.
    pub fn start(&self, recorder: EventRecorder, waiting: usize) -> EventSender {
        let (events, received) = mpsc::channel(waiting);
        let unwritten = self.0.clone();
        let ended = move || unwritten.send_modify(|count| *count = count.saturating_sub(1));
        tokio::spawn(recorder.run_with(received, ended));
        EventSender {
            events,
            recorders: self.clone(),
        }
    }

    /// Waits for the events that are not written yet, for 5 s at most. Logs how many are lost.
    pub async fn flush_at_stop(&self) {
        let left = self.flush(FLUSH_TIMEOUT).await;
        if left > 0 {
            let seconds = FLUSH_TIMEOUT.as_secs();
            tracing::warn!(
                "{left} events are lost: they were not written within {seconds} s of the stop"
            );
        }
    }

    /// Waits until all events are written, but not longer than this. Returns how many are not.
    pub(super) async fn flush(&self, within: Duration) -> usize {
        let mut unwritten = self.0.subscribe();
        // The sender is `self`, so that only the timeout is an error.
        let _ = timeout(within, unwritten.wait_for(|count| *count == 0)).await;
        *self.0.borrow()
    }
}

impl EventSender {
    /// Returns whether the recorder takes the event. A full one drops it, because memory without a bound would be worse.
    pub fn send(&self, event: Event) -> bool {
        let count = &self.recorders.0;
        count.send_modify(|count| *count += 1);
        let is_taken = self.events.try_send(event).is_ok();
        if !is_taken {
            count.send_modify(|count| *count = count.saturating_sub(1));
        }
        is_taken
    }
}
