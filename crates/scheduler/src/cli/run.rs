//! `evictd-scheduler run`: schedules the pods of a cluster.

use super::batch_flags::BatchFlags;
use super::flags::Flags;
use crate::configuration;
use crate::run::pages::About;
use crate::run::process::{self, RunError};
use clap::Args;
use evictd_cluster_client::Credentials;
use evictd_command::Failure;
use evictd_scheduling::CustomPlugin;
use std::path::PathBuf;
use std::sync::Arc;

const EXAMPLE: &str = "Example:
  evictd-scheduler run --config /etc/kubernetes/scheduler-config.yaml
  evictd-scheduler run --kubeconfig /etc/kubernetes/scheduler.conf
  evictd-scheduler run --batch-conf /etc/volcano/volcano-scheduler.conf";

/// Schedules the pods of a cluster, beside kube-scheduler or in its place.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    #[command(flatten)]
    flags: Flags,
    #[command(flatten)]
    batch: BatchFlags,
}

impl Arguments {
    pub(super) fn run(self, plugins: &[CustomPlugin]) -> Result<(), Failure> {
        self.batch.check()?;
        let config = self.flags.effective(plugins)?;
        // As kube-scheduler: with this flag nothing else is done.
        if let Some(path) = &self.flags.write_config_to {
            return configuration::write(path, &config);
        }
        if let Some(release) = self.flags.emulation.release() {
            let compatible = self.flags.emulation.with(release);
            compatible.map_err(|error| Failure::Input(anyhow::anyhow!(error)))?;
        }
        self.flags.logging.start();
        for warning in &config.warnings {
            tracing::warn!("{warning}");
        }
        let of_rate = self.flags.rate_warnings(&config.client_connection);
        for warning in self.flags.warnings().into_iter().chain(of_rate) {
            tracing::warn!("{warning}");
        }
        let of_config = &config.client_connection.kubeconfig;
        let of_config = (!of_config.is_empty()).then(|| PathBuf::from(of_config));
        let ports = self.flags.ports()?;
        let batch = self.batch.settings();
        let about = About {
            flags: super::flagz::flags(),
            emulation: self.flags.emulation.clone(),
            release: Arc::default(),
        };
        let credentials = Credentials {
            kubeconfig: of_config.or(self.flags.kubeconfig),
            context: self.flags.context,
        };
        // The engine occupies one thread while it decides. Watches, writes and servers share the other.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        runtime
            .block_on(process::run(
                &credentials,
                (&config, plugins),
                &ports,
                batch,
                &about,
            ))
            .map_err(|error| match error {
                RunError::Access(_)
                | RunError::Plugin(_)
                | RunError::Gates(_)
                | RunError::Batch(_)
                | RunError::Port(_)
                | RunError::Probes(_) => Failure::input(error),
                RunError::System(_) | RunError::LeaseLost | RunError::BesideVolcano(_) => {
                    Failure::from(error)
                }
            })
    }
}
