//! `evictd-scheduler plan`: what would be preempted for a pod, where, and why.

use super::input::Input;
use crate::clock::Stopwatch;
use crate::extender::HttpExtender;
use crate::plan::{Answer, Case, page};
use clap::{Args, ValueEnum};
use evictd_command::{Failure, Output, warn};
use evictd_preemption::{BudgetPolicy, Compat, Extender, Nodes, Options};
use evictd_scheduling::NotTried;
use std::hash::{BuildHasher, RandomState};

const EXAMPLE: &str = "Example:
  kubectl get nodes,ns,pods,pdb,pc -A -o json > cluster.json
  evictd-scheduler plan --cluster cluster.json --pod pending.yaml
  evictd-scheduler plan --context prod --pod shop/checkout

For a pod with volume claims, kubectl must also get pvc,pv,sc,csinodes,
volumeattachments.

The pod is a manifest (a Pod, a list with one, or a workload with a pod
template) or namespace/name of a pending pod in the cluster. Missing fields are
set as the API server would: requests from limits, the priority from its class.";

/// What kube-scheduler would preempt for a pod, on which node, and why not on the others.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    #[command(flatten)]
    input: Input,
    /// The version of kube-scheduler whose behaviour is computed.
    #[arg(long, value_name = "VERSION", default_value = Compat::V1_36.as_str(), value_parser = form)]
    form: Compat,
    /// Try every node (the default).
    #[arg(long, conflicts_with = "sample")]
    all_nodes: bool,
    /// Try only as many nodes as kube-scheduler does: until a tenth of them, at least 100, are candidates.
    #[arg(long)]
    sample: bool,
    /// The node at which the sample begins, modulo the number of nodes. Default: a random node.
    #[arg(long, value_name = "N", requires = "sample")]
    seed: Option<u64>,
    /// Never violate a PodDisruptionBudget; kube-scheduler only avoids it.
    #[arg(long, value_enum, value_name = "POLICY")]
    budget: Option<Policy>,
    /// Show step by step what happens on this node.
    #[arg(long, value_name = "NAME")]
    explain_node: Option<String>,
    /// Ask this extender, at the URL of its preempt verb, which candidates and victims it agrees to. May be given
    /// several times.
    #[arg(long, value_name = "URL")]
    extender: Vec<String>,
    /// The extenders have their own cache of the cluster's nodes and pods: only node names and pod UIDs are sent to them.
    #[arg(long, requires = "extender")]
    node_cache_capable: bool,
    #[command(flatten)]
    output: Output,
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
        let (loaded, preemptor) = self.input.read(false)?;
        let not_tried = NotTried::of(&preemptor);
        let case = Case::new(loaded, preemptor, self.options()).map_err(Failure::input)?;
        let explained = self.explain_node.as_deref();
        let explained = explained.map(|name| case.find_node(name)).transpose();
        let explained = explained.map_err(Failure::input)?;
        let load = watch.seconds();
        if let Some(reason) = not_tried {
            return self.print(&Answer::not_tried(&case, &reason, load));
        }
        let watch = Stopwatch::start();
        let mut extenders: Vec<&mut dyn Extender> =
            extenders.iter_mut().map(|own| own as _).collect();
        let plan = case.plan(&mut extenders)?;
        let answer = Answer::new(&case, &plan, explained, (load, watch.seconds()));
        self.print(&answer)
    }

    fn print(&self, answer: &Answer) -> Result<(), Failure> {
        for warning in &answer.warnings {
            warn("evictd-scheduler", warning);
        }
        self.output.print(answer, page)
    }

    fn extenders(&self) -> Result<Vec<HttpExtender>, Failure> {
        let urls = self.extender.iter();
        let extenders = urls.map(|url| HttpExtender::new(url.clone(), self.node_cache_capable));
        extenders.collect::<Result<_, _>>().map_err(Failure::input)
    }

    fn options(&self) -> Options {
        let nodes = if self.sample {
            let anywhere = || RandomState::new().hash_one(0);
            Nodes::Sample {
                offset: self.seed.unwrap_or_else(anywhere),
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
        }
    }
}
