//! Notifies systemd: ready, reloading, stopping, a status line, and that the main loop still works.
//!
//! Does nothing if the daemon was not started by systemd with `Type=notify` or `notify-reload`.

use jiff::{SignedDuration, Timestamp};
use sd_notify::NotifyState;
use std::time::Duration;

/// Sends notifications to the service manager that `NOTIFY_SOCKET` names.
#[derive(Debug)]
pub(crate) struct Notifier {
    /// Half of the watchdog's timeout.
    watchdog_interval: Option<Duration>,
    last_alive: Option<Timestamp>,
    failing: bool,
}

impl Notifier {
    /// Reads `WATCHDOG_USEC` and `WATCHDOG_PID`.
    pub(crate) fn from_environment() -> Self {
        Self {
            watchdog_interval: sd_notify::watchdog_enabled().map(|granted| granted / 2),
            last_alive: None,
            failing: false,
        }
    }

    /// The longest the loop may sleep so that [`Notifier::alive`] comes in time; `None` without a watchdog.
    pub(crate) fn longest_sleep(&self) -> Option<Duration> {
        self.watchdog_interval
    }

    /// Start or reload is complete.
    pub(crate) fn ready(&mut self, status: &str) {
        self.send(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    /// A reload begins; [`Notifier::ready`] ends it, whether the new configuration took effect or not.
    pub(crate) fn reloading(&mut self) {
        // Without the time systemd counts the reload as failed and stops the service. So no reload is announced then.
        match NotifyState::monotonic_usec_now() {
            Ok(now) => self.send(&[NotifyState::Reloading, now]),
            Err(error) => self.note(Err(error)),
        }
    }

    /// One line for `systemctl status`.
    pub(crate) fn status(&mut self, status: &str) {
        self.send(&[NotifyState::Status(status)]);
    }

    /// Resets the watchdog. Only the main loop may call this, once per cycle: if the loop stops, the watchdog must act, whatever
    /// else still runs. Most calls send nothing.
    pub(crate) fn alive(&mut self, now: Timestamp) {
        let Some(watchdog_interval) = self.watchdog_interval else {
            return;
        };
        let due = self.last_alive.is_none_or(|last| {
            now.duration_since(last)
                >= SignedDuration::try_from(watchdog_interval).unwrap_or_default()
        });
        if due {
            self.last_alive = Some(now);
            self.send(&[NotifyState::Watchdog]);
        }
    }

    /// The daemon stops in an orderly way.
    pub(crate) fn stopping(&mut self) {
        self.send(&[NotifyState::Stopping]);
    }

    fn send(&mut self, states: &[NotifyState<'_>]) {
        self.note(sd_notify::notify(states));
    }

    /// Warns once when notifications begin to fail, not in each cycle.
    fn note(&mut self, outcome: std::io::Result<()>) {
        match outcome {
            Ok(()) => self.failing = false,
            Err(error) => {
                if !self.failing {
                    tracing::warn!(%error, "systemd cannot be notified");
                }
                self.failing = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;
    use std::process::Command;

    const CHILD: &str = "EVICTD_TEST_NOTIFY_CHILD";

    fn seconds(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    /// The daemon's side, in a process of its own whose environment names the socket.
    fn speak() {
        let mut notifier = Notifier::from_environment();
        notifier.ready("3 pods");
        notifier.status("memory low");
        for second in [100, 101, 104, 105, 106, 110] {
            notifier.alive(seconds(second));
        }
        notifier.reloading();
        notifier.stopping();
    }

    /// Runs this very test again as a child with `environment`.
    fn child(environment: &[(&str, &str)]) {
        let name = "notify::tests::each_state_is_sent_to_systemd_once";
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, "1")
            .envs(environment.iter().copied())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    #[test]
    fn each_state_is_sent_to_systemd_once() {
        if std::env::var_os(CHILD).is_some() {
            return speak();
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        let path = path.to_str().unwrap();
        child(&[("NOTIFY_SOCKET", path), ("WATCHDOG_USEC", "10000000")]);
        socket.set_nonblocking(true).unwrap();
        let told = || {
            let mut buffer = [0; 256];
            let length = socket.recv(&mut buffer).ok()?;
            Some(String::from_utf8(buffer[..length].to_vec()).unwrap())
        };
        let all: Vec<String> = std::iter::from_fn(told).collect();
        assert_eq!(
            all[..2],
            ["READY=1\nSTATUS=3 pods\n", "STATUS=memory low\n"]
        );
        // Half of 10 s apart: at 100, 105 and 110.
        assert_eq!(all[2..5], ["WATCHDOG=1\n"; 3]);
        assert!(
            all[5].starts_with("RELOADING=1\nMONOTONIC_USEC="),
            "{all:?}"
        );
        assert_eq!(all[6..], ["STOPPING=1\n"]);
    }

    #[test]
    fn a_watchdog_meant_for_another_process_is_not_fed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        let path = path.to_str().unwrap();
        child(&[
            ("NOTIFY_SOCKET", path),
            ("WATCHDOG_USEC", "10000000"),
            ("WATCHDOG_PID", "1"),
        ]);
        socket.set_nonblocking(true).unwrap();
        let mut buffer = [0; 256];
        while let Ok(length) = socket.recv(&mut buffer) {
            assert!(!buffer[..length].starts_with(b"WATCHDOG"));
        }
    }

    #[test]
    fn without_a_notify_socket_nothing_is_sent() {
        child(&[]);
        child(&[
            ("NOTIFY_SOCKET", "/nonexistent/notify"),
            ("WATCHDOG_USEC", "10000000"),
        ]);
    }
}
