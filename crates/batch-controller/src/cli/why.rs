//! `evictd-batch why`: why a job waits, and what would start it soonest.

mod dump;
mod gathered;
mod live;
mod page;

use super::compat::CompatArg;
use super::connection::Connection;
use anyhow::{Context, anyhow};
use clap::Args;
use evictd_batch::conf::Conf;
use evictd_batch::session::Setting;
use evictd_batch::why::{Answer, Case};
use evictd_command::{Failure, Output, warn};
use evictd_document::{Document, SMALL};
use gathered::Gathered;
use std::path::PathBuf;

const EXAMPLE: &str = "Examples:
  evictd-batch why train -n research --context prod
  evictd-batch why train -n research --conf volcano-scheduler.conf

  kubectl get nodes,pods,pc,jobs.batch.volcano.sh,queues.scheduling.volcano.sh,\\
podgroups.scheduling.volcano.sh -A -o json > cluster.json
  evictd-batch why train -n research --cluster cluster.json

JOB is the name of a Job, a PodGroup, a pod, or of whoever owns pods. The file
is such a list, or one for evictd-batch simulate.";

/// Why a job waits, was preempted or runs in part, and what would start it soonest
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// The job.
    job: String,
    /// Its namespace.
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    namespace: String,
    /// A file in place of a cluster: a list of objects or a session, JSON or YAML; - is stdin.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kubeconfig", "context", "master"])]
    cluster: Option<PathBuf>,
    /// The scheduler's volcano-scheduler.conf. Default: the built-in one, or that of the session in the file.
    #[arg(long, value_name = "FILE")]
    conf: Option<PathBuf>,
    /// Decide as evictd, or exactly as Volcano.
    #[arg(long, value_enum, default_value_t = CompatArg::Evictd)]
    form: CompatArg,
    /// `schedulerName` of the pods that sessions place.
    #[arg(long, value_name = "NAME", default_value = "volcano")]
    scheduler_name: String,
    /// The queue of jobs that name none.
    #[arg(long, value_name = "NAME", default_value = "default")]
    default_queue: String,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let gathered = match &self.cluster {
            Some(file) => dump::read(file)?,
            None => live::read(&self.connection, &self.namespace, &self.scheduler_name)?,
        };
        let (conf, known) = self.conf(&gathered)?;
        for warning in gathered.warnings.iter().chain(&conf.warnings) {
            warn("evictd-batch", warning);
        }
        let answer = self.answer(gathered, &conf)?;
        self.output
            .print(&answer, |answer, view| page::page(answer, known, view))
    }

    /// The configuration, and whether it is known to be the scheduler's.
    fn conf(&self, gathered: &Gathered) -> Result<(Conf, bool), Failure> {
        let Some(file) = &self.conf else {
            let text = &gathered.objects.conf;
            let conf =
                Conf::read(text).map_err(|error| Failure::Input(anyhow!("conf: {error}")))?;
            return Ok((conf, !text.trim().is_empty()));
        };
        let document = Document::read(file, SMALL).map_err(Failure::input)?;
        let conf = Conf::read(document.text());
        let conf = conf.with_context(|| format!("--conf {}", document.name()));
        Ok((conf.map_err(Failure::Input)?, true))
    }

    fn answer(&self, gathered: Gathered, conf: &Conf) -> Result<Answer, Failure> {
        let Gathered {
            cluster,
            objects,
            jobs,
            events,
            ..
        } = gathered;
        let compat = self.form.compat();
        let case = Case {
            cluster,
            objects,
            jobs,
            events,
            setting: Setting {
                scheduler: self.scheduler_name.clone(),
                default_queue: self.default_queue.clone(),
                ..Setting::default()
            },
            conf,
            compat,
        };
        case.why(&self.namespace, &self.job).map_err(Failure::input)
    }
}
