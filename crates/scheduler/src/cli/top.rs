//! `evictd-scheduler top`: a live screen of a running scheduler.

mod page;

use super::pending::Pending;
use super::secure_port::SecurePort;
use clap::Args;
use evictd_command::{Failure, is_live, show_live};
use evictd_daemon::client::PortClient;
use evictd_daemon::metrics::Samples;
use jiff::Timestamp;
use serde::Deserialize;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep};

const REFRESH: Duration = Duration::from_secs(2);
/// Where a page is printed once: the time between the two scrapes that its rates need.
const BETWEEN: Duration = Duration::from_secs(1);
/// How many decisions are asked for.
const DECISIONS: usize = 20;

const EXAMPLE: &str = "Example:
  kubectl -n kube-system port-forward deploy/evictd-scheduler 10259 &
  evictd-scheduler top --insecure-skip-tls-verify
  evictd-scheduler top --insecure-skip-tls-verify | head -20    # prints one page

The requests use the token or client certificate of the kubeconfig's user, who
must be allowed to get the paths /v1/pending, /v1/decisions and /metrics.";

/// A live screen of a running scheduler: its queues, what pods wait on, its rate and its last decisions; q quits.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    #[command(flatten)]
    port: SecurePort,
}

/// The data of one page.
struct Frame {
    server: String,
    pending: Pending,
    /// The newest last.
    decisions: Vec<Decision>,
    samples: Samples,
    taken: Instant,
    /// Since the page before.
    rates: Option<Rates>,
}

/// Attempts a second by their result.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Rates {
    scheduled: f64,
    unschedulable: f64,
    error: f64,
}

/// The part of a decision that is shown.
#[derive(Debug, Clone, Deserialize)]
struct Decision {
    time: Timestamp,
    pod: String,
    feasible: usize,
    node: Option<String>,
    score: Option<i64>,
    message: Option<String>,
    nominated: Option<String>,
    victims: Vec<String>,
}

/// The scheduler that is shown.
struct Source {
    server: String,
    runtime: Runtime,
    port: PortClient,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let source = Source {
            port: runtime.block_on(self.port.open())?,
            server: self.port.server,
            runtime,
        };
        let mut first = source.take(None)?;
        if !is_live() {
            source.runtime.block_on(async { sleep(BETWEEN).await });
            first = source.take(Some(&first))?;
        }
        show_live(first, REFRESH, |last| source.take(Some(last)), Frame::page)
    }
}

impl Source {
    fn take(&self, last: Option<&Frame>) -> Result<Frame, Failure> {
        let Self { port, .. } = self;
        let decisions = format!("/v1/decisions?last={DECISIONS}");
        let (pending, decisions, metrics) = self.runtime.block_on(async {
            let pending = port.get("/v1/pending").await?;
            let decisions = port.get(&decisions).await?;
            Ok::<_, Failure>((pending, decisions, port.get("/metrics").await?))
        })?;
        let misunderstood = || port.misunderstood("a scheduler");
        let mut frame = Frame {
            server: self.server.clone(),
            pending: serde_json::from_str(&pending).map_err(|_| misunderstood())?,
            decisions: serde_json::from_str(&decisions).map_err(|_| misunderstood())?,
            samples: Samples::parse(&metrics),
            taken: Instant::now(),
            rates: None,
        };
        frame.rates = last.and_then(|last| frame.rates_since(last));
        Ok(frame)
    }
}

impl Frame {
    /// Attempts with this result since the start of the scheduler.
    fn attempts(&self, result: &str) -> f64 {
        // A result that no attempt had yet has no counter.
        let counted = [("result", result)];
        let attempts = self
            .samples
            .sum("scheduler_schedule_attempts_total", &counted);
        attempts.unwrap_or(0.0)
    }

    /// `None` if the scheduler has restarted in between.
    fn rates_since(&self, last: &Self) -> Option<Rates> {
        let seconds = self.taken.duration_since(last.taken).as_secs_f64();
        let rate = |result| {
            let more = self.attempts(result) - last.attempts(result);
            (more >= 0.0 && seconds > 0.0).then_some(more / seconds)
        };
        Some(Rates {
            scheduled: rate("scheduled")?,
            unschedulable: rate("unschedulable")?,
            error: rate("error")?,
        })
    }
}
