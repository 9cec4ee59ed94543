//! `evictd-batch controllers`: runs the controllers.

use super::compat::CompatArg;
use super::credentials::{CredentialFlags, runtime};
use crate::controllers::{RunError, Settings, run};
use anyhow::anyhow;
use clap::Args;
use evictd_cluster_client::Credentials;
use evictd_command::Failure;
use evictd_daemon::leadership::LeaseSettings;
use evictd_daemon::logging::Logging;
use evictd_daemon::rate::RateFlags;
use evictd_daemon::server::ListenAddress;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLE: &str = "Examples:
  evictd-batch controllers
  evictd-batch controllers --kubeconfig ~/.kube/config --leader-elect=false";

/// Runs the controllers of jobs, queues and commands, instead of Volcano's.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    #[command(flatten)]
    credentials: CredentialFlags,
    /// The rules of evictd, or exactly those of Volcano.
    #[arg(long, value_enum, default_value_t = CompatArg::Evictd)]
    form: CompatArg,
    /// Bare pods of these schedulers get a PodGroup, with --form volcano. Can be repeated.
    #[arg(long, value_name = "NAME", default_values_t = ["volcano".to_owned()])]
    scheduler_name: Vec<String>,
    /// How often a failed request is retried before the job is terminated. A negative number means no limit.
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 15,
        allow_negative_numbers = true
    )]
    max_requeue_num: i64,
    /// The file with Volcano's volcano-controller.conf: which labels of nodes make HyperNodes. It may be missing.
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/etc/volcano/volcano-controller.conf"
    )]
    hyper_node_conf: PathBuf,
    /// The address of the metrics. Empty means no metrics.
    #[arg(long, value_name = "ADDRESS", default_value = ":8081")]
    listen_address: String,
    /// The address of the health checks. Empty means no health checks.
    #[arg(long, value_name = "ADDRESS", default_value = ":11251")]
    healthz_address: String,
    /// Whether replicas elect a leader. Do not turn it off where Volcano's controllers run.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    leader_elect: bool,
    /// The namespace of the Lease.
    #[arg(long, value_name = "NAMESPACE", default_value = "volcano-system")]
    leader_elect_resource_namespace: String,
    /// The name of the Lease. The default is that of Volcano's controllers, so that only one of both works.
    #[arg(long, value_name = "NAME", default_value = "vc-controller-manager")]
    leader_elect_resource_name: String,
    /// After so many seconds without a renewal another replica takes the Lease.
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=3600))]
    leader_elect_lease_duration: u64,
    #[command(flatten)]
    rate: RateFlags,
    #[command(flatten)]
    logging: Logging,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.logging.start();
        let lease = Duration::from_secs(self.leader_elect_lease_duration);
        let settings = Settings {
            compat: self.form.compat(),
            bare_pod_schedulers: match self.form {
                CompatArg::Evictd => Vec::new(),
                CompatArg::Volcano => self.scheduler_name,
            },
            max_requeues: u32::try_from(self.max_requeue_num).ok(),
            hyper_node_conf: self.hyper_node_conf,
            rate: self.rate,
            listen: address("--listen-address", &self.listen_address)?,
            healthz: address("--healthz-address", &self.healthz_address)?,
            lease: LeaseSettings {
                elect: self.leader_elect,
                namespace: self.leader_elect_resource_namespace,
                name: self.leader_elect_resource_name,
                lease_duration: lease,
                // Close to the ratios of Volcano's defaults: 15 s, 10 s and 2 s.
                renew_deadline: lease * 2 / 3,
                retry_period: lease / 8,
                memo: None,
            },
        };
        let credentials = Credentials::from(&self.credentials);
        runtime()?
            .block_on(run(&credentials, settings))
            .map_err(|error| match error {
                RunError::Access(_) | RunError::Port(_) | RunError::HyperNodes(_) => {
                    Failure::input(error)
                }
                RunError::System(_) | RunError::LeaseLost | RunError::BesideVolcano(_) => {
                    Failure::from(error)
                }
            })
    }
}

fn address(flag: &str, text: &str) -> Result<Option<ListenAddress>, Failure> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse()
        .map(Some)
        .map_err(|error| Failure::Input(anyhow!("{flag} {text}: {error}")))
}
