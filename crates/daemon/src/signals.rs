//! The signals that stop a daemon or reload its configuration.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A request to a daemon by a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    /// To end, by SIGTERM or SIGINT.
    Stop(&'static str),
    /// To read its configuration again, by SIGHUP.
    Reload,
}

/// Signals from systemd, the kubelet and operators. From its beginning on they no longer end the process.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// `None`: SIGHUP ends the process.
    hangup: Option<Signal>,
}

impl Signals {
    /// For a daemon that reads nothing again.
    pub(crate) fn to_stop() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: None,
        })
    }

    /// For a daemon that reads its configuration again at SIGHUP.
    pub(crate) fn to_stop_or_reload() -> io::Result<Self> {
        Ok(Self {
            hangup: Some(signal(SignalKind::hangup())?),
            ..Self::to_stop()?
        })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) -> Request {
        tokio::select! {
            _ = self.terminate.recv() => Request::Stop("SIGTERM"),
            _ = self.interrupt.recv() => Request::Stop("SIGINT"),
            () = hangup(self.hangup.as_mut()) => Request::Reload,
        }
    }
}

async fn hangup(signal: Option<&mut Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}
