//! The tasks of a daemon, and how they end.
//!
//! ```text
//!   SIGTERM, SIGINT --> stopping: readiness fails, listeners close, requests under way are finished (`finish`)
//!                          |  all of them have ended, or their time is over
//!                          `--> the end: tasks beside (`spawn`) are dropped, and probes with them
//! ```

use crate::probes::{self, Probe};
use crate::server::{self, BindError, Limits, ListenAddress};
use crate::signals::{Request, Signals};
use crate::tls::Serving;
use axum::Router;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

/// A daemon at work.
#[derive(Debug)]
pub struct Daemon {
    stopping: CancellationToken,
    ended: CancellationToken,
    /// Tasks that are finished before the end.
    finishing: TaskTracker,
}

/// Notifies when the configuration must be read again.
#[derive(Debug)]
pub struct Reloads(Arc<Notify>);

impl Reloads {
    /// Waits for the next SIGHUP. Several that come meanwhile count as one. Cancel safe.
    pub async fn next(&self) {
        self.0.notified().await;
    }
}

impl Daemon {
    /// Listens for signals from now on. Must be called inside the runtime.
    pub fn start() -> io::Result<Self> {
        let daemon = Self::without_signals();
        daemon.listen(Signals::to_stop()?, Arc::default());
        Ok(daemon)
    }

    /// The same for a daemon that reads its configuration again at SIGHUP.
    pub fn start_with_reloads() -> io::Result<(Self, Reloads)> {
        let (daemon, reloads) = (Self::without_signals(), Arc::default());
        daemon.listen(Signals::to_stop_or_reload()?, Arc::clone(&reloads));
        Ok((daemon, Reloads(reloads)))
    }

    fn listen(&self, mut signals: Signals, reloads: Arc<Notify>) {
        let stopping = self.stopping();
        self.spawn(async move {
            let name = loop {
                match signals.next().await {
                    Request::Stop(name) => break name,
                    // Several requests before the next reload are one: the file is read once, after all of them.
                    Request::Reload => reloads.notify_one(),
                }
            };
            info!("stops, by {name}");
            stopping.cancel();
        });
    }

    /// One that is part of another program, which ends it by [`Self::end`].
    pub fn without_signals() -> Self {
        Self {
            stopping: CancellationToken::new(),
            ended: CancellationToken::new(),
            finishing: TaskTracker::new(),
        }
    }

    /// Cancelled when the daemon must stop, or when its end begins.
    pub fn stopping(&self) -> CancellationToken {
        self.stopping.clone()
    }

    /// Waits until the daemon must stop.
    pub async fn stop_requested(&self) {
        self.stopping.cancelled().await;
    }

    /// Runs a task beside all others, until it ends or the daemon does.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let ended = self.ended.clone();
        tokio::spawn(async move {
            ended.run_until_cancelled(task).await;
        });
    }

    /// Runs a task for whose end the daemon waits. It watches [`Self::stopping`] itself.
    pub fn finish(&self, task: impl Future<Output = ()> + Send + 'static) {
        let ended = self.ended.clone();
        self.finishing.spawn(async move {
            ended.run_until_cancelled(task).await;
        });
    }

    /// Serves a router; requests that are under way at a stop are answered.
    pub fn serve(
        &self,
        listener: TcpListener,
        tls: Option<Serving>,
        router: Router,
        limits: Limits,
    ) {
        self.finish(server::serve(
            listener,
            tls,
            router,
            limits,
            self.stopping(),
        ));
    }

    /// Serves probes at an address of their own, if there is one, until the end: a daemon that stops says that it is not
    /// ready.
    pub async fn serve_probes(
        &self,
        setting: &'static str,
        address: Option<&ListenAddress>,
        probe: impl Probe,
    ) -> Result<(), BindError> {
        if let Some(address) = address {
            let listener = server::bind(setting, address).await?;
            if let Ok(address) = listener.local_addr() {
                info!("answers probes on http://{address}");
            }
            self.spawn(probes::serve(listener, probe));
        }
        Ok(())
    }

    /// Stops, waits for the tasks to finish, but not longer than this, and ends all tasks.
    pub async fn end(self, within: Duration) {
        self.stopping.cancel();
        // Closed before the wait, which otherwise never ends: further tasks could still come.
        self.finishing.close();
        if tokio::time::timeout(within, self.finishing.wait())
            .await
            .is_err()
        {
            warn!("what is under way is given up");
        }
        self.ended.cancel();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // A daemon that fails to start must not leave servers behind in a process that goes on, such as a test.
        self.stopping.cancel();
        self.ended.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Counts itself away when it is dropped.
    struct Counted(Arc<AtomicUsize>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn counted(running: &Arc<AtomicUsize>) -> Counted {
        running.fetch_add(1, Ordering::SeqCst);
        Counted(Arc::clone(running))
    }

    #[tokio::test(start_paused = true)]
    async fn requests_under_way_are_finished_and_other_tasks_end_with_the_daemon() {
        let (daemon, running) = (Daemon::without_signals(), Arc::default());
        let beside = counted(&running);
        daemon.spawn(async move {
            let _beside = beside;
            std::future::pending::<()>().await;
        });
        let (own, stopping) = (counted(&running), daemon.stopping());
        daemon.finish(async move {
            stopping.cancelled().await;
            tokio::time::sleep(Duration::from_secs(3)).await;
            drop(own);
        });
        let began = tokio::time::Instant::now();
        daemon.end(Duration::from_secs(30)).await;
        assert_eq!(began.elapsed(), Duration::from_secs(3));
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(running.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn sighup_asks_for_the_configuration_and_sigterm_for_the_end() {
        let (daemon, reloads) = Daemon::start_with_reloads().unwrap();
        let signal = |name: &str| {
            let pid = std::process::id().to_string();
            let mut kill = std::process::Command::new("kill");
            assert!(kill.args(["-s", name, &pid]).status().unwrap().success());
        };
        let soon = Duration::from_secs(30);
        for _ in 0..2 {
            signal("HUP");
            tokio::time::timeout(soon, reloads.next()).await.unwrap();
        }
        assert!(!daemon.stopping().is_cancelled());
        signal("TERM");
        let stopped = daemon.stop_requested();
        tokio::time::timeout(soon, stopped).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_does_not_end_is_given_up() {
        let (daemon, running) = (Daemon::without_signals(), Arc::default());
        let own = counted(&running);
        daemon.finish(async move {
            let _own = own;
            std::future::pending::<()>().await;
        });
        let began = tokio::time::Instant::now();
        daemon.end(Duration::from_secs(30)).await;
        assert_eq!(began.elapsed(), Duration::from_secs(30));
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(running.load(Ordering::SeqCst), 0);
    }
}
