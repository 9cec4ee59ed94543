//! `evictd run`: the daemon.

use anyhow::{Context, anyhow};
use clap::Args;
use evictd_command::Failure;
use evictd_kernel::{clock::Clock, threads};
use evictd_node::{
    agent::{
        Order,
        start::{self, StartError},
    },
    config::{self, Effective, PodsSource},
    logging,
    notify::Notifier,
    publish::{
        heartbeat::{WATCHING, status_line},
        lines::Lines,
        startup::Begun,
    },
    server::state::Shared,
};
use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    signal::unix::{Signal, SignalKind, signal},
};

/// Read where no other file is named; without it everything is at its default.
const DEFAULT_CONFIG: &str = "/etc/evictd/evictd.yaml";

/// Threads are kept this long, however little they have to do: a year or more.
const KEPT: Duration = Duration::from_hours(24 * 365);

/// How long calls that block are waited for at the end.
const FAREWELL: Duration = Duration::from_secs(1);

const EXAMPLE: &str = "Example:
  evictd run --config /etc/evictd/evictd.yaml --dry-run";

/// The daemon: watches this node, and ends one pod at a time before the node runs out.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// An `EvictionConfiguration` or a `KubeletConfiguration`, YAML or JSON; /etc/evictd/evictd.yaml where it exists.
    /// What conf.d beside it holds comes on top, in the order of its names
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Decide and tell, but end nothing
    #[arg(long)]
    dry_run: bool,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let log = logging::init().context("cannot begin to log")?;
        let config = self.load()?;
        evictd_kernel::protect::protect_self();
        let runtime = runtime().context("cannot start the runtime")?;
        start_threads(runtime.handle(), &log)?;
        let ended = runtime.block_on(self.serve(config));
        runtime.shutdown_timeout(FAREWELL);
        ended
    }

    fn load(&self) -> Result<Effective, Failure> {
        let mut effective = load(self.config.as_ref())?;
        effective.dry_run |= self.dry_run;
        Ok(effective)
    }

    async fn serve(self, config: Effective) -> Result<(), Failure> {
        let clock = Clock::start();
        let sources = Arc::new(OnceLock::new());
        let lines = Lines::new(Begun {
            configuration: named(self.config.as_ref())
                .map_or(String::new(), |file| file.display().to_string()),
            rules: config.kind.as_str(),
            drop_ins: named(self.config.as_ref())
                .and_then(|file| config::drop_ins(file).ok())
                .unwrap_or_default(),
            sources: Arc::clone(&sources),
        });
        let ready = start::ready(&config, clock, Some(Box::new(lines)))
            .await
            .map_err(cannot_start)?;
        // Nobody else tells it.
        let _ = sources.set(ready.shared.status().sources);
        // Before the word is out that we are ready: whoever hears it may send one at once.
        let mut signals = Signals::new()?;
        let mut notifier = Notifier::from_environment();
        notifier.ready(WATCHING);
        let pods_source = ready.pods_source;
        let mut agent = std::pin::pin!(ready.agent.run(ready.questions, ready.orders));
        loop {
            tokio::select! {
                ended = &mut agent => {
                    notifier.stopping();
                    tracing::info!("evictd {} has stopped", env!("CARGO_PKG_VERSION"));
                    return ended.map_err(|error| Failure::not_permitted(anyhow!(error)));
                }
                reload = signals.next() => {
                    let order = if reload {
                        self.reload((&config, pods_source), &ready.shared, &mut notifier)
                    } else {
                        Some(Order::Stop)
                    };
                    if let Some(order) = order {
                        // The agent takes orders as long as it runs, and it is awaited right here.
                        let _ = ready.give_order.try_send(order);
                    }
                }
            }
        }
    }

    /// A bad new file leaves the old configuration in force.
    fn reload(
        &self,
        (running, pods_source): (&Effective, PodsSource),
        shared: &Shared,
        notifier: &mut Notifier,
    ) -> Option<Order> {
        notifier.reloading();
        let order = match self.load() {
            Ok(config) => {
                if start::needs_restart(running, &config) {
                    tracing::warn!(
                        "some changed settings (sources, paths, doors) take effect at the next start only"
                    );
                }
                shared.update(|status| {
                    status.dry_run = config.dry_run;
                    config.kind.as_str().clone_into(&mut status.rules);
                });
                tracing::info!("the configuration is read again and in force");
                Some(Order::Reload(Box::new(start::behaviour(
                    &config,
                    pods_source,
                ))))
            }
            Err(failure) => {
                tracing::error!(
                    "the new configuration is refused, the old one stays in force: {failure}"
                );
                None
            }
        };
        notifier.ready(&status_line(shared.status().paused.as_ref()));
        order
    }
}

/// Ends none of its threads before its own end.
fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(threads::CALLS)
        .thread_keep_alive(KEPT)
        .build()
}

/// All of them now: later, when all ids are taken, there are none to be had.
fn start_threads(runtime: &Handle, log: &logging::Guard) -> Result<(), Failure> {
    threads::start(runtime).context(
        "cannot start: no thread is to be had; it takes three free process ids (pids.max, TasksMax, threads-max)",
    )?;
    if let Err(error) = log.start() {
        tracing::warn!(
            "no thread is to be had that writes the log ({error}); lines that their reader does not take at once are lost"
        );
    }
    let missing = threads::fill(runtime);
    if missing > 0 {
        tracing::warn!(
            "{missing} of this process's threads are not to be had (pids.max, TasksMax or threads-max is reached): walks \
             of directories and questions to other machines wait for each other until they are"
        );
    }
    Ok(())
}

/// The file to read, if any.
fn named(file: Option<&PathBuf>) -> Option<&Path> {
    let default = Path::new(DEFAULT_CONFIG);
    // Drop-ins alone are not passed over in silence: the file that they belong to is missed.
    let is_there = |file: &&Path| file.exists() || file.with_file_name(config::DROP_INS).exists();
    file.map(PathBuf::as_path)
        .or(Some(default).filter(is_there))
}

/// The configuration in force: a missing default file is fine, a missing named one is not.
pub(super) fn load(file: Option<&PathBuf>) -> Result<Effective, Failure> {
    let Some(file) = named(file) else {
        return Ok(config::built_in());
    };
    let loaded = config::open(file).map_err(Failure::input)?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    Ok(loaded.effective)
}

fn cannot_start(error: StartError) -> Failure {
    if matches!(error, StartError::NotBuilt(_) | StartError::NoCluster) {
        return Failure::input(error);
    }
    if error.is_not_permitted() {
        let advice = "the node agent runs as root, with the capabilities that systemd/evictd.service grants it";
        return Failure::not_permitted(anyhow!(error).context(advice));
    }
    Failure::from(error)
}

/// What systemd and operators send.
struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            hangup: listen(SignalKind::hangup())?,
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    /// True: read the configuration again. False: end.
    async fn next(&mut self) -> bool {
        tokio::select! {
            _ = self.hangup.recv() => true,
            _ = self.terminate.recv() => false,
            _ = self.interrupt.recv() => false,
        }
    }
}
