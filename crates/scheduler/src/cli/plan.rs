//! `evictd-scheduler plan`: the preemption that kube-scheduler would choose for a pod.

use super::input::Input;
use crate::attempt::Gang;
use crate::clock::Stopwatch;
use crate::dump::Nominations;
use crate::plan::{Answer, Case, html, page};
use crate::preempt_extender::PreemptExtender;
use anyhow::anyhow;
use clap::{Args, ValueEnum};
use evictd_command::{Failure, PageOutput, warn};
use evictd_preemption::{BudgetPolicy, Compat, Extender, Nodes, Options};
use std::hash::{BuildHasher, RandomState};

const EXAMPLE: &str = concat!(
    "Example:
  evictd-scheduler dump --context prod > cluster.json
  evictd-scheduler plan --cluster cluster.json --pod pending.yaml
  evictd-scheduler plan --context prod --pod shop/checkout

Instead of dump, which writes the kinds that the server has:
",
    super::kubectl_get!(),
    "
The pod is a manifest (a Pod, a list with one, or a workload with a pod
template) or namespace/name of a pending pod in the cluster. Missing fields are
set as the API server would: requests from limits, the priority from its class."
);

/// Shows the victims and the node that kube-scheduler would choose to preempt for a pod, and why no other node.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    #[command(flatten)]
    input: Input,
    /// The version of kube-scheduler whose rules apply.
    #[arg(long, value_name = "VERSION", default_value = Compat::V1_36.as_str(), value_parser = form)]
    form: Compat,
    /// Try every node (the default).
    #[arg(long, conflicts_with = "sample")]
    all_nodes: bool,
    /// Try only as many nodes as kube-scheduler: until a tenth of them, at least 100, are candidates.
    #[arg(long)]
    sample: bool,
    /// The node at which the sample begins, modulo the number of nodes. Default: a random node.
    #[arg(long, value_name = "N", requires = "sample")]
    seed: Option<u64>,
    /// Evict pods for their devices where no other eviction helps. kube-scheduler never does that.
    #[arg(long)]
    free_devices: bool,
    /// Never violate a PodDisruptionBudget. kube-scheduler does so as a last resort.
    #[arg(long, value_enum, value_name = "POLICY")]
    budget: Option<Policy>,
    /// Show the steps of the preemption on this node.
    #[arg(long, value_name = "NAME")]
    explain_node: Option<String>,
    /// An extender, as the URL of its preempt verb, that must agree to candidates and victims. May be given several times.
    #[arg(long, value_name = "URL")]
    extender: Vec<String>,
    /// The extenders cache the cluster themselves, and get only node names and pod UIDs.
    #[arg(long, requires = "extender")]
    node_cache_capable: bool,
    #[command(flatten)]
    output: PageOutput,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Policy {
    NeverViolatePdb,
}

fn form(name: &str) -> Result<Compat, String> {
    Compat::parse(name).ok_or_else(|| {
        let known: Vec<&str> = Compat::ALL.into_iter().map(Compat::as_str).collect();
        format!("known are {}", known.join(", "))
    })
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let mut extenders = self.extenders()?;
        let watch = Stopwatch::start();
        let (loaded, preemptor) = self.input.read(false, Nominations::OfTriedPods)?;
        let mut case = Case::new(loaded, preemptor, self.options()).map_err(Failure::input)?;
        let explained = match &self.explain_node {
            None => None,
            Some(name) => {
                let unknown = || anyhow!("--explain-node {name}: is not in the input");
                let id = case.find_node(name);
                Some(id.ok_or_else(|| Failure::Input(unknown()))?)
            }
        };
        let load = watch.seconds();
        if let Some(reason) = &case.attempt.not_tried {
            return self.print(&Answer::not_tried(&case, reason, load));
        }
        let watch = Stopwatch::start();
        if let Some(gang) = case.attempt.preempt_for_gang(case.options.policy) {
            let elapsed = (load, watch.seconds());
            return self.print(&Answer::of_gang(&mut case, Gang::of(gang), elapsed));
        }
        let mut extenders: Vec<&mut dyn Extender> =
            extenders.iter_mut().map(|extender| extender as _).collect();
        let plan = case.plan(&mut extenders)?;
        let answer = Answer::new(&case, &plan, explained, (load, watch.seconds()));
        self.print(&answer)
    }

    fn print(&self, answer: &Answer) -> Result<(), Failure> {
        for warning in &answer.warnings {
            warn("evictd-scheduler", warning);
        }
        self.output.print(answer, page, html)
    }

    fn extenders(&self) -> Result<Vec<PreemptExtender>, Failure> {
        let urls = self.extender.iter();
        let extenders = urls.map(|url| PreemptExtender::new(url.clone(), self.node_cache_capable));
        extenders.collect::<Result<_, _>>().map_err(Failure::input)
    }

    fn options(&self) -> Options {
        let nodes = if self.sample {
            // The keys of the hasher are random.
            let random = || RandomState::new().hash_one(0);
            Nodes::Sample {
                offset: self.seed.unwrap_or_else(random),
            }
        } else {
            Nodes::All
        };
        let policy = match self.budget {
            None => BudgetPolicy::Prefer,
            Some(Policy::NeverViolatePdb) => BudgetPolicy::NeverViolate,
        };
        Options {
            compat: self.form,
            nodes,
            policy,
            frees_devices: self.free_devices,
        }
    }
}
