//! Logs of a daemon, one line an event.
//!
//! Names, messages and errors may come from tenants. Whatever they contain, they begin no line of their own and steer no
//! terminal: [`one_line`] writes control characters out.

use clap::Args;
use evictd_command::printable_line;
use std::fmt::Debug;
use std::io::{IsTerminal, stderr};
use tracing::field::Field;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// The flag of a daemon's logs.
#[derive(Debug, Clone, Copy, Args)]
pub struct Logging {
    /// The verbosity of the log, as in Kubernetes: 2 and less for messages to act on, 4 and more for every step, 6 and
    /// more for each request.
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 2)]
    pub verbosity: u8,
}

/// Libraries that log each connection.
const CONNECTIONS: [&str; 5] = ["axum", "hyper", "hyper_util", "rustls", "tower"];

impl Logging {
    /// Logs go to stderr from now on, with colours on a terminal.
    pub fn start(self) {
        let lines = tracing_subscriber::fmt::layer()
            .fmt_fields(one_line())
            .with_writer(stderr)
            .with_target(false)
            .with_ansi(stderr().is_terminal());
        let lines = lines.with_filter(self.targets());
        tracing_subscriber::registry().with(lines).init();
    }

    fn targets(self) -> Targets {
        let (level, requests) = match self.verbosity {
            0..=3 => (LevelFilter::INFO, LevelFilter::OFF),
            4..=5 => (LevelFilter::DEBUG, LevelFilter::OFF),
            6 => (LevelFilter::DEBUG, LevelFilter::DEBUG),
            _ => (LevelFilter::TRACE, LevelFilter::TRACE),
        };
        let targets = Targets::new()
            .with_default(level)
            .with_target("kube_client", requests);
        if requests == LevelFilter::TRACE {
            return targets;
        }
        targets.with_targets(CONNECTIONS.map(|target| (target, LevelFilter::OFF)))
    }
}

/// Formats the fields of an event, each without line ends and other control characters.
pub fn one_line() -> impl for<'writer> FormatFields<'writer> + 'static {
    debug_fn(write_field).delimited(" ")
}

fn write_field(writer: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> std::fmt::Result {
    let text = format!("{value:?}");
    let text = printable_line(&text);
    match field.name() {
        "message" => writer.write_str(&text),
        // Where a message of the `log` crate comes from.
        name if name.starts_with("log.") => Ok(()),
        name => write!(writer, "{name}={text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::{Arc, Mutex};
    use tracing_subscriber::fmt::MakeWriter;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Lines {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    #[test]
    fn no_name_begins_a_line_of_its_own_or_steers_a_terminal() {
        for ansi in [false, true] {
            let lines = Lines::default();
            let layer = tracing_subscriber::fmt::layer()
                .fmt_fields(one_line())
                .with_writer(lines.clone())
                .with_ansi(ansi);
            let name = "web\n2026-11-26T00:00:00Z  INFO forged\r\u{1b}[2J";
            tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
                tracing::info!(job = name, debug = ?name, display = %name, "denied: {name}");
            });
            let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
            assert_eq!(text.lines().count(), 1, "{text}");
            let written = "denied: web\\u000a2026-11-26T00:00:00Z  INFO forged\\u000d\\u001b[2J";
            assert!(text.contains(written), "{text}");
            assert!(!text.contains("\u{1b}[2J"), "{text}");
        }
    }

    #[test]
    fn requests_and_connections_are_logged_on_demand_only() {
        let logs = |verbosity, target, level| {
            let targets = Logging { verbosity }.targets();
            targets.would_enable(target, &level)
        };
        for verbosity in 0..=8 {
            assert!(logs(verbosity, "evictd_scheduler", tracing::Level::INFO));
            assert_eq!(
                logs(verbosity, "evictd", tracing::Level::DEBUG),
                verbosity >= 4
            );
            assert_eq!(
                logs(verbosity, "kube_client", tracing::Level::WARN),
                verbosity >= 6
            );
            assert_eq!(
                logs(verbosity, "hyper", tracing::Level::WARN),
                verbosity >= 7
            );
        }
    }
}
