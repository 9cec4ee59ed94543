//! `evictd-batch cronjob`, `jobflow` and `jobtemplate`: the subcommands for objects that create jobs. vcctl has those of flows and
//! templates; cron jobs have the same, and are suspended and resumed.

mod table;

use super::connection::Connection;
use super::kind::{CRON_JOBS, JOB_FLOWS, JOB_TEMPLATES, Kind};
use super::manifest_file::read;
use super::named::Named;
use clap::{Args, Subcommand};
use evictd_batch_workflows::{CronJob, JobFlow, JobTemplate};
use evictd_command::{Failure, Output, write_to_stdout};
use serde::de::DeserializeOwned;
use serde_json::json;
use std::path::PathBuf;
use table::Row;

const NO_NAME: &str = "name (specified by --name or -N) is mandatory";
const CRON_JOB: &str = "Examples:
  evictd-batch cronjob create -f nightly.yaml
  evictd-batch cronjob list -n research
  evictd-batch cronjob suspend -n research -N nightly";
const JOB_FLOW: &str = "Examples:
  evictd-batch jobflow create -f pipeline.yaml
  evictd-batch jobflow describe -n research -N pipeline";
const JOB_TEMPLATE: &str = "Examples:
  evictd-batch jobtemplate create -f train.yaml
  evictd-batch jobtemplate list --all-namespaces -o json";

/// Creates, shows, suspends and deletes cron jobs
#[derive(Debug, Args)]
#[command(after_help = CRON_JOB)]
pub(super) struct CronJobs {
    #[command(subcommand)]
    command: CronJobCommand,
}

/// Creates, shows and deletes job flows
#[derive(Debug, Args)]
#[command(after_help = JOB_FLOW)]
pub(super) struct JobFlows {
    #[command(subcommand)]
    command: Command,
}

/// Creates, shows and deletes job templates
#[derive(Debug, Args)]
#[command(after_help = JOB_TEMPLATE)]
pub(super) struct JobTemplates {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum CronJobCommand {
    #[command(flatten)]
    Common(Command),
    /// Suspends a cron job: it creates no jobs, and those that it created run on
    Suspend(Named),
    /// Resumes a suspended cron job
    Resume(Named),
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Creates an object from a file
    Create(File),
    /// Lists the objects of a namespace
    List(List),
    /// Shows one object as a row of the list
    Get(Shown),
    /// Shows all fields of one object
    Describe(Shown),
    /// Deletes one object
    Delete(Named),
}

#[derive(Debug, Args)]
struct File {
    /// The namespace. Default: that in the file, or `default`.
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// A YAML file with the object.
    #[arg(short, long, value_name = "FILE")]
    filename: PathBuf,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Args)]
struct List {
    /// The namespace.
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    namespace: String,
    /// Objects of all namespaces.
    #[arg(long)]
    all_namespaces: bool,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
struct Shown {
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    output: Output,
}

impl CronJobs {
    pub(super) fn run(self) -> Result<(), Failure> {
        match self.command {
            CronJobCommand::Common(command) => command.run::<CronJob>(&CRON_JOBS),
            CronJobCommand::Suspend(named) => suspend(&named, true),
            CronJobCommand::Resume(named) => suspend(&named, false),
        }
    }
}

impl JobFlows {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.command.run::<JobFlow>(&JOB_FLOWS)
    }
}

impl JobTemplates {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.command.run::<JobTemplate>(&JOB_TEMPLATES)
    }
}

impl Command {
    fn run<T: Row + DeserializeOwned>(self, kind: &Kind) -> Result<(), Failure> {
        match self {
            Self::Create(file) => {
                let (namespace, object) = read::<T>(kind, &file.filename, file.namespace)?;
                let created = file.connection.open()?.create(kind, &namespace, &object)?;
                let name = created["metadata"]["name"].as_str().unwrap_or_default();
                write_to_stdout(&format!("create {} {name} successfully", kind.word))
            }
            Self::List(list) => {
                let namespace = if list.all_namespaces {
                    ""
                } else {
                    &list.namespace
                };
                let objects: Vec<T> = list.connection.open()?.list(kind, namespace)?;
                table::print(&objects, list.all_namespaces, list.output)
            }
            Self::Get(Shown { named, output }) => {
                let object: T = serde_json::from_value(named.get(kind, NO_NAME)?)?;
                table::print(&[object], false, output)
            }
            Self::Describe(Shown { named, output }) => {
                output.print_fields(&named.get(kind, NO_NAME)?)
            }
            Self::Delete(named) => {
                let name = named.required(NO_NAME)?;
                named
                    .connection
                    .open()?
                    .delete(kind, &named.namespace, name)?;
                write_to_stdout(&format!("delete {} {name} successfully", kind.word))
            }
        }
    }
}

fn suspend(named: &Named, suspend: bool) -> Result<(), Failure> {
    let name = named.required(NO_NAME)?;
    let patch = json!({"spec": {"suspend": suspend}});
    let cluster = named.connection.open()?;
    cluster.merge(&CRON_JOBS, &named.namespace, name, &patch)?;
    let verb = if suspend { "suspend" } else { "resume" };
    write_to_stdout(&format!("{verb} cron job {name} successfully"))
}
