//! `evictd-batch top`: a live screen of queues and pod groups.

mod page;

use super::cluster::Cluster;
use super::connection::Connection;
use super::kind::{POD_GROUPS, QUEUES};
use clap::Args;
use evictd_batch_objects::{PodGroup, Queue};
use evictd_command::{Failure, show_live};
use evictd_daemon::client::PortClient;
use evictd_daemon::metrics::Samples;
use jiff::Timestamp;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// The lists of a large cluster are too long to be read every second.
const REFRESH: Duration = Duration::from_secs(5);

const EXAMPLE: &str = "Example:
  evictd-batch top
  evictd-batch top | head -20    # prints one page
  kubectl -n kube-system port-forward deploy/evictd-scheduler 10259 &
  evictd-batch top --server https://127.0.0.1:10259 --insecure-skip-tls-verify

With --server the shares that plugins compute are shown, from the scheduler's
metrics: the user must be allowed to get the path /metrics.";

/// A live screen of queues with their shares, what pod groups wait on, and the last decisions; q quits.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// The secure port of evictd-scheduler, or the metrics port of Volcano's scheduler.
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Do not verify the certificate of --server, which the scheduler may have made itself. Only for a connection that no
    /// other program can answer.
    #[arg(long, requires = "server")]
    insecure_skip_tls_verify: bool,
    #[command(flatten)]
    connection: Connection,
}

/// The data of one page.
struct Frame {
    now: Timestamp,
    queues: Vec<Queue>,
    groups: Vec<PodGroup>,
    /// Of the scheduler, if one was named.
    samples: Option<Samples>,
}

struct Source {
    cluster: Cluster,
    scheduler: Option<(Runtime, PortClient)>,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let source = Source {
            scheduler: self.scheduler()?,
            cluster: self.connection.open()?,
        };
        let first = source.take()?;
        show_live(first, REFRESH, |_| source.take(), Frame::page)
    }

    fn scheduler(&self) -> Result<Option<(Runtime, PortClient)>, Failure> {
        let Some(server) = &self.server else {
            return Ok(None);
        };
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let credentials = self.connection.credentials();
        let port = PortClient::open(&credentials, server, self.insecure_skip_tls_verify);
        let port = runtime.block_on(port)?;
        Ok(Some((runtime, port)))
    }
}

impl Source {
    fn take(&self) -> Result<Frame, Failure> {
        let metrics = self.scheduler.as_ref().map(|(runtime, port)| {
            let text = runtime.block_on(port.get("/metrics"));
            text.map(|text| Samples::parse(&text))
        });
        Ok(Frame {
            samples: metrics.transpose()?,
            queues: self.cluster.list(&QUEUES, "")?,
            groups: self.cluster.list(&POD_GROUPS, "")?,
            now: Timestamp::now(),
        })
    }
}
