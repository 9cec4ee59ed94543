//! What `run` is told of batch sessions on its command line.

use super::values::duration;
use crate::run::BatchSettings;
use clap::{Args, ValueEnum};
use evictd_batch::compat::{Compat, Difference};
use evictd_batch::session::Setting;
use jiff::SignedDuration;
use std::path::PathBuf;
use std::time::Duration;

/// The value of `--batch-form`.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum CompatArg {
    /// As evictd.
    Evictd,
    /// Exactly as Volcano.
    Volcano,
}

/// Flags of batch sessions.
#[derive(Debug, Args)]
pub(super) struct BatchFlags {
    /// A volcano-scheduler.conf: jobs, pod groups and queues are served by it, too. A changed file is taken up.
    #[arg(long, value_name = "FILE")]
    batch_conf: Option<PathBuf>,
    /// How batch sessions decide.
    #[arg(
        long,
        value_name = "FORM",
        default_value = "evictd",
        requires = "batch_conf"
    )]
    batch_form: CompatArg,
    /// The schedulerName of pods that belong to batch sessions.
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
    /// How long after the end of a batch session the next one begins.
    #[arg(long, value_name = "DURATION", default_value = "1s", requires = "batch_conf", value_parser = duration)]
    schedule_period: SignedDuration,
}

impl BatchFlags {
    /// Of sessions, if there are to be any.
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
            },
            compat,
        })
    }
}
