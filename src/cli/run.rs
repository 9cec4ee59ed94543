//! `evictd run`: the daemon.

use anyhow::{Context, anyhow};
use clap::Args;
use evictd_command::Failure;
use evictd_kernel::threads;
use evictd_node::{Configuration, RunError, logging, start::StartError};
use evictd_node_config::{self as config, Effective, Refused};
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::runtime::{Builder, Handle, Runtime};

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
        let effective = self.read(file.as_deref()).map_err(Failure::input)?;
        // Before the runtime and its threads, which take memory.
        evictd_kernel::protect::protect_self();
        let runtime = runtime().context("cannot start the runtime")?;
        start_threads(runtime.handle(), &log)?;
        let named = file.as_deref();
        let configuration = Configuration {
            effective,
            file: named.map_or(String::new(), |file| file.display().to_string()),
            drop_ins: named
                .and_then(|file| config::drop_ins(file).ok())
                .unwrap_or_default(),
            read: Arc::new(move || self.read_again(file.as_deref())),
        };
        // One thread: the loop must not wait for another one that is about to allocate.
        let ended = runtime.block_on(evictd_node::run(configuration));
        runtime.shutdown_timeout(SHUTDOWN_WAIT);
        ended.map_err(why_ended)
    }

    fn read(&self, file: Option<&Path>) -> Result<Effective, Refused> {
        let mut effective = read(file)?;
        // Here and not at the start alone, so that a reload cannot end a dry run of the command line.
        effective.dry_run |= self.dry_run;
        Ok(effective)
    }

    /// A reload needs the file that the daemon was started with: without it every protection would be reset to its
    /// default.
    fn read_again(&self, file: Option<&Path>) -> Result<Effective, Refused> {
        self.read(file.or_else(|| named(self.config.as_ref())))
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
    // All of them now: when the node runs out of process ids, none can be made any more.
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

fn why_ended(error: RunError) -> Failure {
    match error {
        RunError::Start(error) => cannot_start(error),
        RunError::Signals(_) => Failure::from(error),
        RunError::Evict(error) => Failure::not_permitted(anyhow!(error)),
    }
}

fn cannot_start(error: StartError) -> Failure {
    if matches!(error, StartError::NoCluster) {
        return Failure::input(error);
    }
    // An exit code of its own tells a missing permission from a fault.
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
