//! The flags of `run` for batch sessions.

use crate::run::BatchSettings;
use crate::values::duration;
use anyhow::anyhow;
use clap::{Args, ValueEnum};
use evictd_batch::session::Setting;
use evictd_batch_objects::{Compat, Difference};
use evictd_command::Failure;
use jiff::SignedDuration;
use std::path::PathBuf;
use std::time::Duration;

/// The value of `--batch-form`.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum CompatArg {
    /// evictd's rules
    Evictd,
    /// exactly Volcano's rules
    Volcano,
}

#[derive(Debug, Args)]
pub(super) struct BatchFlags {
    /// A volcano-scheduler.conf. With it, batch sessions schedule jobs, pod groups and queues. A changed file is reloaded.
    #[arg(long, value_name = "FILE")]
    batch_conf: Option<PathBuf>,
    /// Whose rules batch sessions follow.
    #[arg(
        long,
        value_name = "FORM",
        default_value = "evictd",
        requires = "batch_conf"
    )]
    batch_form: CompatArg,
    /// The schedulerName of the pods of batch sessions.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "volcano",
        requires = "batch_conf"
    )]
    batch_scheduler_name: String,
    /// The queue of jobs that name none.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "default",
        requires = "batch_conf"
    )]
    default_queue: String,
    /// The pause between two batch sessions.
    #[arg(long, value_name = "DURATION", default_value = "1s", requires = "batch_conf", value_parser = duration)]
    schedule_period: SignedDuration,
    /// Volcano's shards of nodes, which are refused.
    #[arg(long, value_name = "MODE", hide = true, default_value = "none")]
    scheduler_sharding_mode: String,
    /// The shard of this scheduler, which means nothing without a mode.
    #[arg(long, value_name = "NAME", hide = true, default_value = "")]
    scheduler_sharding_name: String,
}

impl BatchFlags {
    /// Refuses flags of Volcano that would be violated (S6-250).
    pub(super) fn check(&self) -> Result<(), Failure> {
        let (mode, name) = (&self.scheduler_sharding_mode, &self.scheduler_sharding_name);
        let (flag, value) = match mode.as_str() {
            "" | "none" if name.is_empty() => return Ok(()),
            "" | "none" => ("--scheduler-sharding-name", name),
            _ => ("--scheduler-sharding-mode", mode),
        };
        Err(Failure::Input(anyhow!(
            "{flag} {value} is not supported: sessions use all nodes, and a NodeShard is not read; give queues their nodes with plugin nodegroup, or taint the nodes of other schedulers"
        )))
    }

    /// `None` without `--batch-conf`.
    pub(super) fn settings(&self) -> Option<BatchSettings> {
        let period = Duration::try_from(self.schedule_period).unwrap_or_default();
        let compat = match self.batch_form {
            CompatArg::Evictd => Compat::EVICTD,
            CompatArg::Volcano => Compat::VOLCANO,
        };
        Some(BatchSettings {
            file: self.batch_conf.clone()?,
            period: period.max(Duration::from_millis(1)),
            setting: Setting {
                scheduler: self.batch_scheduler_name.clone(),
                default_queue: self.default_queue.clone(),
                plain_pods: compat.has(Difference::BarePods),
                extender: None,
            },
            compat,
        })
    }
}
