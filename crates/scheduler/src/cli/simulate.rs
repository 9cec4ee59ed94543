//! `evictd-scheduler simulate`: schedules a sequence of pods onto a dump, or runs a timeline of events through the queue.

use super::input;
use crate::attempt::not_asked;
use crate::configuration;
use crate::dump::DumpError;
use crate::emulation::Emulation;
use crate::live::Omissions;
use crate::progress;
use crate::simulate::new_nodes::NewNodes;
use crate::simulate::what_if::{WhatIf, WhatIfError, WhatIfOutcome};
use crate::simulate::{html, rebalance, sequence, timeline};
use anyhow::anyhow;
use clap::{ArgGroup, Args, ValueEnum};
use evictd_command::{Failure, PageOutput, Progress, warn};
use evictd_document::{Assumptions, Document, LARGE};
use evictd_pod::compatibility::Compatibility;
use evictd_scheduling::Framework;
use evictd_scheduling::config::InvalidField;
use evictd_scheduling::simulation::{self, Sequence, SequenceFile, SequenceOutcome, Timeline};
use jiff::Timestamp;
use serde::Deserialize;
use std::path::PathBuf;

const EXAMPLE: &str = r#"Examples:
  evictd-scheduler dump --context prod > cluster.json
  evictd-scheduler simulate --cluster cluster.json --pods deployment.yaml
  evictd-scheduler simulate --cluster cluster.json --without node-1,node-2
  evictd-scheduler simulate --cluster cluster.json --add-nodes 3 --like node-1
  evictd-scheduler simulate --context prod --rebalance
  evictd-scheduler simulate --cluster cluster.json --pods new.yaml \
    --compare most-allocated.yaml
  evictd-scheduler simulate timeline.json

A file holds either a sequence of pods,
  { "now": "2026-01-01T00:00:00Z", "config": { a KubeSchedulerConfiguration },
    "objects": [ objects at the start ], "pending": [ pods in their order ] }
or a timeline:
  { "now": "2026-01-01T00:00:00Z",
    "config": { "podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 10 },
    "objects": [ objects at the start ],
    "steps": [
      { "at": 1, "do": "add", "object": { "kind": "Pod", ... } },
      { "at": 20, "do": "pop" },
      { "at": 30, "do": "unschedulable", "pod": "shop/web",
        "plugins": ["NodeResourcesFit"] },
      { "at": 40, "do": "update", "object": { "kind": "Node", ... } } ] }

at is in milliseconds after now. Steps are add, update, delete (object), pop,
unschedulable (pod, plugins, pending, nominate), error, done, bindingError
(pod), assume (pod, node), permitRejected (pod, plugins), activate (pods),
flushBackoff and flushUnschedulable."#;

/// Schedules pods onto a cluster one after the other, without changing it, or runs a timeline of events through the queue.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE, group(ArgGroup::new("source").args(["cluster", "context"])))]
pub(super) struct Arguments {
    /// A sequence of pods or a timeline, JSON or YAML; - is stdin.
    #[arg(required_unless_present_any = ["cluster", "context"], conflicts_with_all = ["cluster", "context"])]
    file: Option<PathBuf>,
    /// A dump of a cluster; - is stdin, and of a directory all JSON and YAML files are read. Its pending pods are
    /// scheduled, too. May be given several times.
    #[arg(long, value_name = "FILE")]
    cluster: Vec<PathBuf>,
    /// The context of the kubeconfig for the cluster to read. Nothing is changed in it.
    #[arg(long, value_name = "NAME", conflicts_with = "cluster")]
    context: Option<String>,
    /// Pods to schedule: files, - or directories. A workload stands for the pods that its controllers create. May be given
    /// several times.
    #[arg(long, value_name = "FILE", requires = "source")]
    pods: Vec<PathBuf>,
    /// Nodes to drain first. Their pods are scheduled onto the others.
    #[arg(long, value_name = "NODES", requires = "source", value_delimiter = ',')]
    without: Vec<String>,
    /// How many nodes to add first. They run what each node like --like runs: pods of daemon sets and static pods.
    #[arg(long, value_name = "COUNT", requires_all = ["source", "like"], value_parser = clap::value_parser!(u32).range(1..=5000))]
    add_nodes: Option<u32>,
    /// The node that the added ones are like: its labels, taints, capacity, devices and attach limits.
    #[arg(long, value_name = "NODE", requires = "add_nodes")]
    like: Option<String>,
    /// Find the fewest moves of running pods after which their spread constraints hold again, each tried with all filters.
    /// With =all also constraints that only lower a score.
    #[arg(long, value_name = "CONSTRAINTS", requires = "source", num_args = 0..=1, require_equals = true,
        default_missing_value = "hard", conflicts_with_all = ["pods", "without", "compare"])]
    rebalance: Option<Constraints>,
    /// A KubeSchedulerConfiguration. Default: kube-scheduler's.
    #[arg(long, value_name = "FILE", requires = "source")]
    config: Option<PathBuf>,
    /// A second KubeSchedulerConfiguration to compare with the first.
    #[arg(long, value_name = "FILE", requires = "source")]
    compare: Option<PathBuf>,
    #[command(flatten)]
    emulation: Emulation,
    #[command(flatten)]
    output: PageOutput,
}

/// The spread constraints that are repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Constraints {
    /// Those with `DoNotSchedule`.
    Hard,
    /// Also those with `ScheduleAnyway`.
    All,
}

/// Distinguishes the two kinds of files: only a sequence has pending pods.
#[derive(Deserialize)]
struct Shape {
    pending: Option<serde::de::IgnoredAny>,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        if !self.cluster.is_empty() || self.context.is_some() {
            return self.what_if();
        }
        let file = self.file.clone().unwrap_or_default();
        let document = Document::read(&file, LARGE).map_err(Failure::input)?;
        let shape: Shape = document.parse().map_err(Failure::input)?;
        if shape.pending.is_none() {
            return self.timeline(&document);
        }
        let file: SequenceFile = document.parse().map_err(Failure::input)?;
        let compatibility = self.emulation.of_files()?;
        let outcome = file.read(Timestamp::now()).and_then(|mut sequence| {
            sequence.compatibility = compatibility;
            placed(&sequence)
        });
        let outcome = outcome.map_err(|mistakes| {
            let fields = mistakes
                .into_iter()
                .map(|mistake| (mistake.field, mistake.message));
            Failure::input(document.wrong_fields(fields))
        })?;
        print_warnings(&outcome);
        self.output.print(&outcome, sequence::page, html::html)
    }

    fn timeline(&self, document: &Document) -> Result<(), Failure> {
        // The queue is that of every release; the flags may still be wrong.
        self.emulation.of_files()?;
        let read: Timeline = document.parse().map_err(Failure::input)?;
        let steps: Vec<_> = read.steps.iter().map(timeline::Row::of).collect();
        let outcome = simulation::run(read).map_err(|mistakes| {
            let name = document.name();
            let mistakes = mistakes.iter().map(|mistake| format!("{name}: {mistake}"));
            Failure::Input(anyhow!(mistakes.collect::<Vec<_>>().join("\n")))
        })?;
        for (index, warning) in &outcome.warnings {
            warn("evictd-scheduler", &format!("steps[{index}]: {warning}"));
        }
        let mut assumptions = Assumptions::default();
        assumptions.ignore(&outcome.ignored, "");
        for line in assumptions.lines() {
            warn("evictd-scheduler", &line);
        }
        let table = |outcome: &_, view| timeline::page(outcome, &steps, view);
        let html = |outcome: &_| html::html_of_timeline(outcome, &steps);
        self.output.print(&outcome, table, html)
    }

    /// Schedules the pods onto the dump, with one configuration or with two.
    fn what_if(&self) -> Result<(), Failure> {
        let (what_if, compatibility) = self.read()?;
        for line in what_if.assumptions.lines() {
            warn("evictd-scheduler", &line);
        }
        if let Some(constraints) = self.rebalance {
            return self.moves(what_if, constraints, compatibility);
        }
        let run = |path: &Option<PathBuf>| -> Result<WhatIfOutcome, Failure> {
            let wire = path.as_deref().map(configuration::read_wire).transpose()?;
            let outcome = placed(&what_if.sequence(wire, compatibility));
            let outcome = outcome.map_err(|mistakes| refused(&mistakes))?;
            print_warnings(&outcome);
            Ok(what_if.outcome(outcome))
        };
        let first = run(&self.config)?;
        if self.compare.is_none() {
            return self
                .output
                .print(&first, sequence::page_of_what_if, html::html_of_what_if);
        }
        let other = run(&self.compare)?;
        let both = sequence::Comparison { first, other };
        self.output
            .print(&both, sequence::comparison, html::html_of_comparison)
    }

    /// Reads the cluster and the pods to schedule.
    fn read(&self) -> Result<(WhatIf, Compatibility), Failure> {
        input::check_stdin(self.cluster.iter().chain(&self.pods))?;
        let manifests = input::open_all(&self.pods).map_err(Failure::input)?;
        let mut omissions = Omissions::default();
        let (clusters, compatibility) = match &self.context {
            None => {
                let clusters = input::open_all(&self.cluster).map_err(Failure::input)?;
                (clusters, self.emulation.of_files()?)
            }
            Some(context) => {
                let live = input::live(context, true, &self.emulation)?;
                omissions = live.omissions;
                (vec![live.text], live.compatibility)
            }
        };
        let new_nodes = self.add_nodes.zip(self.like.clone());
        let new_nodes = new_nodes.map(|(count, like)| NewNodes { count, like });
        let what_if = WhatIf::new(clusters, manifests, &self.without, new_nodes.as_ref());
        let mut what_if = what_if.map_err(|error| match error {
            WhatIfError::Objects(error) => input::failure(DumpError::Objects(error)),
            error => Failure::input(error),
        })?;
        for omission in omissions.take() {
            what_if.assumptions.note(omission);
        }
        Ok((what_if, compatibility))
    }

    /// The moves that repair the spread of running pods.
    fn moves(
        &self,
        what_if: WhatIf,
        constraints: Constraints,
        compatibility: Compatibility,
    ) -> Result<(), Failure> {
        let read = |path| configuration::read(path, &[]);
        let config = self.config.as_deref().map(read).transpose();
        let config = config?.unwrap_or_default();
        for extender in &config.extenders {
            warn("evictd-scheduler", &not_asked(&extender.url_prefix));
        }
        let (mut built, running) = what_if.running(compatibility);
        for object in &built.left_out {
            warn("evictd-scheduler", &format!("left out: {object}"));
        }
        let profiles = config.profiles.iter();
        let frameworks = profiles.map(|profile| Framework::new(&mut built.cluster, profile, &[]));
        let frameworks: Vec<Framework> = frameworks
            .collect::<Result<_, _>>()
            .map_err(|error| Failure::Input(anyhow!("--config: {error}")))?;
        let soft = constraints == Constraints::All;
        let answer = simulation::rebalance(&mut built.cluster, &frameworks, running, soft);
        self.output
            .print(&answer, rebalance::page, html::html_of_rebalance)
    }
}

/// Schedules the pods with a progress bar.
fn placed(sequence: &Sequence) -> Result<SequenceOutcome, Vec<InvalidField>> {
    let mut bar = Progress::default();
    simulation::run_sequence(sequence, &mut |done, all| {
        progress::placed(&mut bar, done, all);
    })
}

fn refused(mistakes: &[InvalidField]) -> Failure {
    let lines = mistakes.iter().map(ToString::to_string);
    Failure::Input(anyhow!(lines.collect::<Vec<_>>().join("\n")))
}

fn print_warnings(outcome: &SequenceOutcome) {
    for url in &outcome.extenders {
        warn("evictd-scheduler", &not_asked(url));
    }
    for warning in &outcome.warnings {
        warn("evictd-scheduler", &format!("left out: {warning}"));
    }
}
