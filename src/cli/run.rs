//! `evictd run`: the daemon.

use anyhow::{Context, anyhow};
use clap::Args;
use evictd_command::Failure;
use evictd_daemon::signals::{Signals, Told};
use evictd_kernel::{clock::Clock, threads};
use evictd_node::{
    agent::{
        Order,
        start::{self, StartError},
    },
    config::{self, Effective, Refused},
    logging,
    notify::Notifier,
    publish::{
        startup::StartInfo,
        transitions::Transitions,
        watchdog::{WATCHING, status_line},
    },
};
use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    task::{JoinHandle, spawn_blocking},
};

/// The file that is read if no other is named; without it every setting has its default.
const DEFAULT_CONFIG: &str = "/etc/evictd/evictd.yaml";

/// Idle threads are kept for this long, which means for ever.
const KEPT: Duration = Duration::from_hours(24 * 365);

/// How long to wait for blocking calls at the end.
const SHUTDOWN_WAIT: Duration = Duration::from_secs(1);

const EXAMPLE: &str = "Example:
  evictd run --config /etc/evictd/evictd.yaml --dry-run";

/// The daemon: watches this node and evicts one pod at a time before a resource runs out.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// An `EvictionConfiguration` or a `KubeletConfiguration`, YAML or JSON. Default: /etc/evictd/evictd.yaml if it
    /// exists. Files in conf.d beside it override it, in the order of their names
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Decide and report, but terminate nothing
    #[arg(long)]
    dry_run: bool,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let log = logging::init().context("cannot start logging")?;
        let file = named(self.config.as_ref()).map(Path::to_owned);
        let config = self.read(file.as_deref()).map_err(Failure::input)?;
        evictd_kernel::protect::protect_self();
        let runtime = runtime().context("cannot start the runtime")?;
        start_threads(runtime.handle(), &log)?;
        let ended = runtime.block_on(self.serve(file, config));
        runtime.shutdown_timeout(SHUTDOWN_WAIT);
        ended
    }

    fn read(&self, file: Option<&Path>) -> Result<Effective, Refused> {
        let mut effective = read(file)?;
        effective.dry_run |= self.dry_run;
        Ok(effective)
    }

    async fn serve(self, file: Option<PathBuf>, config: Effective) -> Result<(), Failure> {
        let clock = Clock::start();
        let sources = Arc::new(OnceLock::new());
        let lines = Transitions::new(StartInfo {
            configuration: file
                .as_ref()
                .map_or(String::new(), |file| file.display().to_string()),
            rules: config.kind.as_str(),
            drop_ins: named(self.config.as_ref())
                .and_then(|file| config::drop_ins(file).ok())
                .unwrap_or_default(),
            sources: Arc::clone(&sources),
        });
        let ready = Box::pin(start::ready(&config, clock, Some(Box::new(lines))))
            .await
            .map_err(cannot_start)?;
        // No other code sets it.
        let _ = sources.set(ready.shared.status().sources);
        // Before the daemon reports that it is ready, because signals may arrive right after that.
        let mut signals = Signals::to_stop_or_reload().context("cannot listen for signals")?;
        let mut notifier = Notifier::from_environment();
        notifier.ready(WATCHING);
        let mut reloading = Reloading::new(self, file);
        let mut agent = std::pin::pin!(ready.agent.run(ready.questions, ready.orders));
        loop {
            let order = tokio::select! {
                ended = &mut agent => {
                    notifier.stopping();
                    tracing::info!("evictd {} has stopped", env!("CARGO_PKG_VERSION"));
                    return ended.map_err(|error| Failure::not_permitted(anyhow!(error)));
                }
                told = signals.next() => match told {
                    Told::Reload => {
                        notifier.reloading();
                        reloading.begin();
                        continue;
                    }
                    Told::Stop(_) => Order::Stop,
                },
                read = reloading.read() => {
                    let taken = read.and_then(|read| ready.reload.take(read));
                    notifier.ready(&status_line(ready.shared.status().paused.as_ref()));
                    let Some(behaviour) = taken else { continue };
                    Order::Reload(Box::new(behaviour))
                }
            };
            // The agent takes orders as long as it runs, and this task waits for its end.
            let _ = ready.give_order.try_send(order);
        }
    }

    /// A reload needs the file that the daemon was started with: without it every protection would be reset to its
    /// default.
    fn read_again(&self, file: Option<&Path>) -> Result<Effective, Refused> {
        self.read(file.or_else(|| named(self.config.as_ref())))
    }
}

/// Reads the configuration again on a thread of its own: a file may be on a disk that hangs, or be a pipe into which
/// nobody writes, and evictions must not wait for it.
struct Reloading {
    arguments: Arc<Arguments>,
    file: Option<PathBuf>,
    under_way: Option<JoinHandle<Result<Effective, Refused>>>,
    /// Asked for again meanwhile: what is being read may be the state before that.
    again: bool,
}

impl Reloading {
    fn new(arguments: Arguments, file: Option<PathBuf>) -> Self {
        Self {
            arguments: Arc::new(arguments),
            file,
            under_way: None,
            again: false,
        }
    }

    fn begin(&mut self) {
        if self.under_way.is_some() {
            self.again = true;
            return;
        }
        let (arguments, file) = (Arc::clone(&self.arguments), self.file.clone());
        self.under_way = Some(spawn_blocking(move || {
            arguments.read_again(file.as_deref())
        }));
    }

    /// What has been read, or `None` if the reading thread panicked; pending while nothing is being read. Cancel safe.
    async fn read(&mut self) -> Option<Result<Effective, Refused>> {
        loop {
            let Some(under_way) = &mut self.under_way else {
                return std::future::pending().await;
            };
            let read = under_way.await;
            self.under_way = None;
            if std::mem::take(&mut self.again) {
                self.begin();
            } else {
                return read.ok();
            }
        }
    }
}

/// A runtime that keeps idle threads until it ends.
fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(threads::BLOCKING_THREADS)
        .thread_keep_alive(KEPT)
        .build()
}

/// Starts all threads now: once process ids are exhausted, none can be created.
fn start_threads(runtime: &Handle, log: &logging::Guard) -> Result<(), Failure> {
    threads::start(runtime).context(
        "cannot start: no thread can be created; three free process ids are needed (pids.max, TasksMax, threads-max)",
    )?;
    if let Err(error) = log.start() {
        tracing::warn!(
            "no thread can be created to write the log ({error}); lines that the log's reader does not take at once are lost"
        );
    }
    let missing = threads::fill(runtime);
    if missing > 0 {
        tracing::warn!(
            "{missing} threads of this process cannot be created (pids.max, TasksMax or threads-max is reached): until they \
             can, directory walks and network requests wait for each other"
        );
    }
    Ok(())
}

/// The file to read, if any.
fn named(file: Option<&PathBuf>) -> Option<&Path> {
    let default = Path::new(DEFAULT_CONFIG);
    // If there are only drop-ins, the missing file is reported instead of ignoring them.
    let is_there = |file: &&Path| file.exists() || file.with_file_name(config::DROP_INS).exists();
    file.map(PathBuf::as_path)
        .or(Some(default).filter(is_there))
}

/// The configuration in force. The default file may be missing, a named one may not.
pub(super) fn load(file: Option<&PathBuf>) -> Result<Effective, Failure> {
    read(named(file)).map_err(Failure::input)
}

/// Without a file every setting has its default.
fn read(file: Option<&Path>) -> Result<Effective, Refused> {
    let Some(file) = file else {
        return Ok(config::built_in());
    };
    let loaded = config::open(file)?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    Ok(loaded.effective)
}

fn cannot_start(error: StartError) -> Failure {
    if matches!(error, StartError::NoCluster) {
        return Failure::input(error);
    }
    if error.is_not_permitted() {
        let advice = "the node agent runs as root, with the capabilities that systemd/evictd.service grants it";
        return Failure::not_permitted(anyhow!(error).context(advice));
    }
    Failure::from(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_there_at_the_start_is_missed_at_a_reload() {
        let arguments = Arguments {
            config: None,
            dry_run: true,
        };
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("evictd.yaml");
        std::fs::write(&file, "kind: EvictionConfiguration\n").unwrap();
        assert!(arguments.read_again(Some(&file)).unwrap().dry_run);
        std::fs::remove_file(&file).unwrap();
        let refused = arguments.read_again(Some(&file)).unwrap_err().to_string();
        assert!(refused.contains("No such file"), "{refused}");
    }
}
