//! The main loop's only timer, a timerfd. The runtime's own timer wakes the process three times per sleep; at one
//! cycle per second those wake-ups would be a large part of the agent's cost.

use rustix::{
    fd::OwnedFd,
    io::{Errno, read},
    time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    },
};
use std::{io, time::Duration};
use tokio::io::{Interest, unix::AsyncFd};

/// Fires once each time it is set.
#[derive(Debug)]
pub struct Timer(Option<AsyncFd<OwnedFd>>);

impl Timer {
    /// A timer that is not set. Must be called inside the runtime.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        #[expect(
            deprecated,
            reason = "its successor is unsafe; the descriptor is owned and stays open"
        )]
        Ok(Self(Some(AsyncFd::with_interest(
            timer,
            Interest::READABLE,
        )?)))
    }

    /// The runtime's own timer in its place, whose time a test can pause.
    #[cfg(test)]
    pub(super) const fn of_runtime() -> Self {
        Self(None)
    }

    /// Waits for `sleep`. Cancel safe: the next call sets the timer again.
    pub(super) async fn after(&self, sleep: Duration) {
        let nothing = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let once = Itimerspec {
            it_interval: nothing,
            // A value of zero would switch the timer off.
            it_value: Timespec::try_from(sleep.max(Duration::from_nanos(1))).unwrap_or(nothing),
        };
        let set =
            |timer: &AsyncFd<OwnedFd>| timerfd_settime(timer, TimerfdTimerFlags::empty(), &once);
        let Some(timer) = self.0.as_ref().filter(|timer| set(timer).is_ok()) else {
            return tokio::time::sleep(sleep).await;
        };
        // The driver of the runtime returns an error only when it shuts down.
        while let Ok(mut ready) = timer.readable().await {
            ready.clear_ready();
            if read(timer, &mut [0; 8]) != Err(Errno::AGAIN) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{Instant, timeout};

    #[tokio::test]
    async fn it_rings_once_for_each_time_it_is_set() {
        let timer = Timer::new().unwrap();
        for millis in [0, 1, 20, 5] {
            let (begun, sleep) = (Instant::now(), Duration::from_millis(millis));
            timeout(Duration::from_secs(10), timer.after(sleep))
                .await
                .unwrap();
            assert!(begun.elapsed() >= sleep);
        }
        // After a cancelled wait, the next wait neither ends at once nor never.
        assert!(
            timeout(
                Duration::from_millis(5),
                timer.after(Duration::from_mins(1))
            )
            .await
            .is_err()
        );
        timeout(
            Duration::from_secs(10),
            timer.after(Duration::from_millis(5)),
        )
        .await
        .unwrap();
    }
}
