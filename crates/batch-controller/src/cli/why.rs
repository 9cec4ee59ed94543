//! `evictd-batch why`: why a job waits, and the smallest change after which it would start.

mod dump;
mod further;
mod html;
mod live;
mod objects;
mod page;

use super::compat::CompatArg;
use super::connection::Connection;
use super::extender::ExtenderFlag;
use anyhow::anyhow;
use clap::Args;
use evictd_batch::conf::Conf;
use evictd_batch::session::Setting;
use evictd_batch::why::{Answer, Case};
use evictd_command::{Failure, PageOutput, warn};
use evictd_document::{Document, SMALL};
use objects::ClusterObjects;
use std::path::PathBuf;

const EXAMPLE: &str = "Examples:
  evictd-batch why train -n research --context prod
  evictd-batch why train -n research --conf volcano-scheduler.conf

  kubectl get nodes,pods,pc,jobs.batch.volcano.sh,queues.scheduling.volcano.sh,\\
podgroups.scheduling.volcano.sh -A -o json > cluster.json
  evictd-batch why research/train --cluster cluster.json

JOB is the name of a Job, a PodGroup, a pod, or an owner of pods. The file holds a
list as above, or a session as for evictd-batch simulate.";

/// Explains why a job waits, was preempted or runs in part, and what would start it
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// The name of the job, or namespace/name.
    job: String,
    /// The namespace of the job [default: default].
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// A file instead of a cluster: objects or a session, JSON or YAML; - is stdin. Objects may be in several files, or in
    /// a directory.
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with_all = ["kubeconfig", "context", "master"])]
    cluster: Vec<PathBuf>,
    /// The volcano-scheduler.conf of the scheduler. Default: that in the file, or the built-in one.
    #[arg(long, value_name = "FILE")]
    conf: Option<PathBuf>,
    /// The rules of evictd, or exactly those of Volcano.
    #[arg(long, value_enum, default_value_t = CompatArg::Evictd)]
    form: CompatArg,
    /// The batch scheduler: `schedulerName` of its pods.
    #[arg(long, value_name = "NAME", default_value = "volcano")]
    scheduler_name: String,
    /// The queue of jobs without a queue.
    #[arg(long, value_name = "NAME", default_value = "default")]
    default_queue: String,
    #[command(flatten)]
    extender: ExtenderFlag,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: PageOutput,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let (namespace, job) = self.full_name()?;
        let cluster = if self.cluster.is_empty() {
            let of_scheduler = (&*self.scheduler_name, &self.given_conf()?);
            live::read(&self.connection, namespace, of_scheduler)?
        } else {
            dump::read(&self.cluster)?
        };
        let (conf, is_given) = self.conf(&cluster)?;
        let of_conf = conf.warnings.iter().map(ToString::to_string);
        for warning in cluster.warnings.iter().cloned().chain(of_conf) {
            warn("evictd-batch", &warning);
        }
        self.extender.warn(&conf);
        let answer = self.answer(cluster, &conf, (namespace, job))?;
        let title = format!("evictd-batch why {namespace}/{job}");
        let table = |answer: &Answer, view| page::page(answer, is_given, view);
        let html = |answer: &Answer| html::html(answer, &title, is_given);
        self.output.print(&answer, table, html)
    }

    /// The namespace and the name of the job.
    fn full_name(&self) -> Result<(&str, &str), Failure> {
        let given = self.namespace.as_deref();
        let Some((namespace, name)) = self.job.split_once('/') else {
            return Ok((given.unwrap_or("default"), &self.job));
        };
        if let Some(other) = given.filter(|given| *given != namespace) {
            let job = &self.job;
            return Err(Failure::Input(anyhow!(
                "{job} is not in the namespace {other}: leave -n {other} out"
            )));
        }
        Ok((namespace, name))
    }

    /// The configuration, and whether it was given. If not, it may differ from that of the scheduler.
    fn conf(&self, cluster: &ClusterObjects) -> Result<(Conf, bool), Failure> {
        if self.conf.is_some() {
            return Ok((self.given_conf()?, true));
        }
        let text = &cluster.objects.conf;
        let conf = Conf::parse("conf", text).map_err(Failure::input)?;
        Ok((conf, !text.trim().is_empty()))
    }

    /// The configuration of the option, or the built-in one.
    fn given_conf(&self) -> Result<Conf, Failure> {
        let Some(file) = &self.conf else {
            return Conf::read("").map_err(Failure::input);
        };
        let document = Document::read(file, SMALL).map_err(Failure::input)?;
        Conf::parse(document.name(), document.text()).map_err(Failure::input)
    }

    fn answer(
        &self,
        cluster: ClusterObjects,
        conf: &Conf,
        (namespace, job): (&str, &str),
    ) -> Result<Answer, Failure> {
        let ClusterObjects {
            cluster,
            objects,
            jobs,
            events,
            ..
        } = cluster;
        let compat = self.form.compat();
        let case = Case {
            cluster,
            objects,
            jobs,
            events,
            setting: self.extender.setting(Setting {
                scheduler: self.scheduler_name.clone(),
                default_queue: self.default_queue.clone(),
                ..Setting::default()
            }),
            conf,
            compat,
        };
        case.why(namespace, job).map_err(Failure::input)
    }
}
