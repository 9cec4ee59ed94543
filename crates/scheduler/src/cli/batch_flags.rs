//! What `run` is told of batch sessions on its command line.

use super::values::duration;
use crate::run::BatchSettings;
use clap::{Args, ValueEnum};
use evictd_batch::session::{Form, Setting};
use jiff::SignedDuration;
use std::path::PathBuf;
use std::time::Duration;

/// How sessions decide.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum FormName {
    /// Better where Volcano hurts its users.
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
    batch_form: FormName,
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
        let form = match self.batch_form {
            FormName::Evictd => Form::default(),
            FormName::Volcano => Form::volcano(),
        };
        Some(BatchSettings {
            file: self.batch_conf.clone()?,
            period: period.max(Duration::from_millis(1)),
            setting: Setting {
                scheduler: self.batch_scheduler_name.clone(),
                default_queue: self.default_queue.clone(),
                plain_pods: form.plain_pods,
            },
            form,
        })
    }
}
