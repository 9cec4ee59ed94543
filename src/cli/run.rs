//! `evictd run`: the daemon.

use crate::{
    agent::{
        Order,
        start::{self, StartError},
    },
    clock::Clock,
    config::{self, Effective, PodsSource},
    doors::state::Shared,
    logging,
    notify::Notifier,
    usage::HANGING_WALKS,
};
use anyhow::{Context, anyhow};
use clap::Args;
use evictd_command::Failure;
use std::{io, path::PathBuf, time::Duration};
use tokio::{
    runtime::Builder,
    signal::unix::{Signal, SignalKind, signal},
};

/// Read where no other file is named; without it everything is at its default.
const DEFAULT_CONFIG: &str = "/etc/evictd/evictd.yaml";

/// Threads for calls that block, besides those that hang.
const BLOCKING: usize = 4;

/// How long such calls are waited for at the end.
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
        let _guard = logging::init().context("cannot begin to log")?;
        let config = self.load()?;
        crate::protect::protect_self();
        run_to_the_end(self.serve(config)).context("cannot start the runtime")?
    }

    fn load(&self) -> Result<Effective, Failure> {
        let mut effective = load(self.config.as_ref())?;
        effective.dry_run |= self.dry_run;
        Ok(effective)
    }

    async fn serve(self, config: Effective) -> Result<(), Failure> {
        let clock = Clock::start();
        let ready = start::ready(&config, clock, None)
            .await
            .map_err(cannot_start)?;
        // Before the word is out that we are ready: whoever hears it may send one at once.
        let mut signals = Signals::new()?;
        let mut notifier = Notifier::from_environment();
        notifier.ready("watching this node");
        let pods_source = ready.pods_source;
        let mut agent = std::pin::pin!(ready.agent.run(ready.questions, ready.orders));
        loop {
            tokio::select! {
                ended = &mut agent => {
                    notifier.stopping();
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
        notifier.ready("watching this node");
        order
    }
}

/// What hangs in the kernel for ever, as walks of a dead server's directories do, holds up neither other calls that block
/// nor the end.
fn run_to_the_end<T>(work: impl Future<Output = T>) -> io::Result<T> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(HANGING_WALKS + BLOCKING)
        .build()?;
    let done = runtime.block_on(work);
    runtime.shutdown_timeout(FAREWELL);
    Ok(done)
}

/// The configuration in force: a missing default file is fine, a missing named one is not.
pub(super) fn load(file: Option<&PathBuf>) -> Result<Effective, Failure> {
    let default = PathBuf::from(DEFAULT_CONFIG);
    // Drop-ins alone are not passed over in silence: the file that they belong to is missed.
    let is_there =
        |file: &&PathBuf| file.exists() || file.with_file_name(config::DROP_INS).exists();
    let Some(file) = file.or(Some(&default).filter(is_there)) else {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use tokio::task::spawn_blocking;

    #[test]
    fn walks_that_hang_hold_up_neither_another_call_that_blocks_nor_the_end() {
        let (release, hanging) = mpsc::channel();
        let (ended, end) = mpsc::channel();
        std::thread::spawn(move || {
            let done = run_to_the_end(async {
                for _ in 0..HANGING_WALKS {
                    let (release_one, wait) = mpsc::channel::<()>();
                    release.send(release_one).unwrap();
                    spawn_blocking(move || wait.recv());
                }
                spawn_blocking(|| "another").await.unwrap()
            });
            ended.send(done.unwrap()).unwrap();
        });
        let within = Duration::from_secs(20);
        assert_eq!(end.recv_timeout(within), Ok("another"));
        assert_eq!(hanging.try_iter().count(), HANGING_WALKS);
    }
}
