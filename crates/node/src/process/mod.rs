//! The agent as a process: everything is connected here, and ends here.

mod rereading;

use crate::agent::start::{self, Ready, StartError};
use crate::config::{Effective, Refused};
use crate::evict::EvictError;
use crate::notify::Notifier;
use crate::publish::{
    startup::StartInfo,
    transitions::Transitions,
    watchdog::{WATCHING, status_line},
};
use evictd_daemon::tasks::{Daemon, Reloads};
use evictd_kernel::clock::Clock;
use rereading::Rereading;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long a scrape that is under way may take once the process must stop.
const FINISH: Duration = Duration::from_secs(1);

/// Why the agent ended that should not have.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It cannot start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The system refuses to tell of signals.
    #[error("cannot listen for signals: {0}")]
    Signals(#[from] io::Error),
    /// It lacks a permission without which it is useless.
    #[error(transparent)]
    Evict(#[from] EvictError),
}

/// The configuration, and where it comes from.
pub struct Configuration {
    /// The configuration in force at the start.
    pub effective: Effective,
    /// Its file; empty if everything has its default.
    pub file: String,
    /// Files that are merged over it.
    pub drop_ins: Vec<PathBuf>,
    /// Reads it again, on a thread of its own.
    pub read: Arc<dyn Fn() -> Result<Effective, Refused> + Send + Sync>,
}

/// Watches this node until a signal comes.
pub async fn run(configuration: Configuration) -> Result<(), RunError> {
    let Configuration {
        effective,
        file,
        drop_ins,
        read,
    } = configuration;
    let (daemon, reloads) = Daemon::start_with_reloads()?;
    let sources = Arc::new(OnceLock::new());
    let lines = Transitions::new(StartInfo {
        configuration: file,
        rules: effective.kind.as_str(),
        drop_ins,
        sources: Arc::clone(&sources),
    });
    let with = (&daemon, Clock::start());
    let starting = Box::pin(start::ready(&effective, with, Some(Box::new(lines))));
    let ready = tokio::select! {
        ready = starting => Some(ready?),
        () = daemon.stop_requested() => None,
    };
    let mut notifier = Notifier::from_environment();
    let recorders = ready.as_ref().map(|ready| ready.recorders.clone());
    let ended = match ready {
        Some(ready) => {
            // No other code sets it.
            let _ = sources.set(ready.shared.status().sources);
            notifier.ready(WATCHING);
            let again = (&reloads, Rereading::by(read));
            Box::pin(watch(&daemon, ready, again, &mut notifier)).await
        }
        // A start may wait for a disk or a server; it ends like any other run.
        None => Ok(()),
    };
    notifier.stopping();
    if let Some(recorders) = recorders {
        recorders.flush_at_stop().await;
    }
    daemon.end(FINISH).await;
    tracing::info!("evictd {} has stopped", env!("CARGO_PKG_VERSION"));
    Ok(ended?)
}

/// Runs the agent until its end, and hands it each new configuration.
async fn watch(
    daemon: &Daemon,
    ready: Ready,
    (reloads, mut rereading): (&Reloads, Rereading),
    notifier: &mut Notifier,
) -> Result<(), EvictError> {
    let running = ready
        .agent
        .run(ready.questions, ready.changes, daemon.stopping());
    let mut agent = std::pin::pin!(running);
    loop {
        tokio::select! {
            ended = &mut agent => return ended,
            () = reloads.next() => {
                notifier.reloading();
                rereading.begin();
            }
            read = rereading.read() => {
                let taken = read.and_then(|read| ready.reload.take(read));
                notifier.ready(&status_line(ready.shared.status().paused.as_ref()));
                if let Some(behaviour) = taken {
                    // The agent takes it as long as it runs, and this task waits for its end.
                    let _ = ready.change.try_send(Box::new(behaviour));
                }
            }
        }
    }
}
