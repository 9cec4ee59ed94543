//! The destination of log lines: the journal under systemd, else stderr as text (terminal) or JSON.
//!
//! Lines are written by a separate thread. When the machine is short of memory or disk, so are the journal and the
//! readers of stderr, and an eviction must not wait for them. If a reader falls behind by more than the queue,
//! lines are dropped, and their number is logged when it reads again.

mod entry;
mod journal;
mod queue;
#[cfg(test)]
mod tests;

use evictd_daemon::logging::one_line;
use journal::JournalLayer;
pub use queue::Guard;
use queue::Queue;
use std::io::{self, IsTerminal};
use systemd_journal_logger::{JournalLog, connected_to_journal};
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, filter::Targets, layer::SubscriberExt};

/// The environment variable with the filter, in the grammar of `tracing_subscriber::filter::Targets`. The more
/// powerful `EnvFilter` would add a megabyte of regular expressions.
pub const FILTER_VARIABLE: &str = "EVICTD_LOG";

/// These targets log every refused connection or certificate as an error. evictd's caller gets the error anyway, and logs it
/// once.
const OF_OTHERS: [&str; 3] = ["kube_client", "kube_runtime", "rustls_platform_verifier"];

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    /// The filter in `EVICTD_LOG` cannot be parsed.
    #[error(
        "{FILTER_VARIABLE}={value:?} is not a log filter such as `debug` or `info,evictd_node::server=trace`: {reason}"
    )]
    Filter {
        /// The filter.
        value: String,
        /// The parse error.
        reason: String,
    },
    /// Logging was set up before in this process.
    #[error("logging is set up already: {0}")]
    Twice(#[from] tracing_subscriber::util::TryInitError),
}

/// Sets up logging for the whole process. Lines are queued until [`Guard::start`] starts the writing thread. Dropping
/// the guard writes the queued lines.
pub fn init() -> Result<Guard, LoggingError> {
    let filter = filter(
        std::env::var_os(FILTER_VARIABLE).map(|value| value.to_string_lossy().into_owned()),
    )?;
    let mut missing = None;
    let journal = if connected_to_journal() {
        // A container may inherit JOURNAL_STREAM without having the socket.
        open_journal().map_err(|error| missing = Some(error)).ok()
    } else {
        None
    };
    let (queue, guard) = Queue::new(journal);
    subscriber(filter, queue).try_init()?;
    if let Some(error) = missing {
        tracing::warn!(%error, "the journal's socket does not answer; log lines go to stderr");
    }
    Ok(guard)
}

fn open_journal() -> io::Result<JournalLog> {
    Ok(JournalLog::empty()?.with_syslog_identifier("evictd".to_owned()))
}

fn filter(value: Option<String>) -> Result<Targets, LoggingError> {
    let value = value.unwrap_or_default();
    let refused = |error: tracing_subscriber::filter::ParseError| LoggingError::Filter {
        reason: error.to_string(),
        value: value.clone(),
    };
    let given: Targets = match value.trim() {
        "" => Targets::new(),
        given => given.parse().map_err(refused)?,
    };
    let default = given.default_level().unwrap_or(LevelFilter::INFO);
    let quiet = OF_OTHERS.map(|target| (target, LevelFilter::OFF));
    Ok(Targets::new()
        .with_targets(quiet)
        .with_targets(given)
        .with_default(default))
}

fn subscriber(filter: Targets, queue: Queue) -> impl Subscriber + Send + Sync {
    let to_journal = queue.writes_to_journal();
    let to_terminal = !to_journal && io::stderr().is_terminal();
    let to_file = !to_journal && !to_terminal;
    let journal = to_journal.then(|| JournalLayer::new(queue.clone()));
    let text = to_terminal.then(|| {
        fmt::layer()
            .fmt_fields(one_line())
            .with_writer(queue.clone())
    });
    let json = to_file.then(|| {
        fmt::layer()
            .json()
            .flatten_event(true)
            .with_writer(queue.plain())
    });
    Registry::default()
        .with(filter)
        .with(journal)
        .with(text)
        .with(json)
}

/// An error with its causes, in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
