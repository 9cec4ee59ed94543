//! `evictd-scheduler plan`: what would be preempted for a pod, where, and why.

use crate::clock::Stopwatch;
use crate::dump::{self, DumpError, Loaded, Source, Wanted};
use crate::extender::HttpExtender;
use crate::live::Live;
use crate::plan::{Answer, Case, page};
use crate::preemptor::Asked;
use crate::progress::Progress;
use anyhow::anyhow;
use clap::{Args, ValueEnum};
use evictd_cluster_client::ApiError;
use evictd_command::{Failure, Output, warn};
use evictd_document::{Document, DocumentError, SMALL};
use evictd_preemption::{BudgetPolicy, Extender, Form, Nodes, Options};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

const EXAMPLE: &str = "Example:
  kubectl get nodes,ns,pods,pdb,pc -A -o json > cluster.json
  evictd-scheduler plan --cluster cluster.json --pod pending.yaml
  evictd-scheduler plan --context prod --pod shop/checkout

For a pod with volume claims, kubectl must also get pvc,pv,sc,csinodes.

The pod is a manifest (a Pod, a list with one, or a workload with a pod
template) or namespace/name of a pending pod in the cluster. Missing fields are
set as the API server would: requests from limits, the priority from its class.";

/// What kube-scheduler would preempt for a pod, on which node, and why not on the others.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// The cluster: nodes, namespaces, pods, PodDisruptionBudgets and PriorityClasses, JSON or YAML; - is stdin. May be
    /// given several times.
    #[arg(long, value_name = "FILE", required_unless_present = "context")]
    cluster: Vec<PathBuf>,
    /// The cluster to read, as a context of the kubeconfig; nothing is changed.
    #[arg(long, value_name = "NAME", conflicts_with = "cluster")]
    context: Option<String>,
    /// The pod to schedule: a manifest, or namespace/name of a pod in the cluster.
    #[arg(long, value_name = "FILE")]
    pod: PathBuf,
    /// The version of kube-scheduler whose behaviour is computed.
    #[arg(long, value_name = "VERSION", default_value = Form::V1_36.as_str(), value_parser = form)]
    form: Form,
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

fn form(name: &str) -> Result<Form, String> {
    Form::parse(name).ok_or_else(|| {
        let known: Vec<&str> = Form::ALL.into_iter().map(Form::as_str).collect();
        format!("known are {}", known.join(", "))
    })
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let stdin = Path::new("-");
        let inputs = self.cluster.iter().chain([&self.pod]);
        if inputs.filter(|path| *path == stdin).count() > 1 {
            return Err(Failure::Input(anyhow!("only one file can be - (stdin)")));
        }
        let mut extenders = self.extenders()?;
        let watch = Stopwatch::start();
        let asked = asked(&self.pod)?;
        let mut loaded = self.load(&asked.wanted())?;
        let preemptor = asked.pod(&mut loaded).map_err(Failure::input)?;
        let case = Case::new(loaded, preemptor, self.options()).map_err(Failure::input)?;
        let explained = self.explain_node.as_deref();
        let explained = explained.map(|name| case.find_node(name)).transpose();
        let explained = explained.map_err(Failure::input)?;
        let load = watch.seconds();
        let watch = Stopwatch::start();
        let mut extenders: Vec<&mut dyn Extender> =
            extenders.iter_mut().map(|own| own as _).collect();
        let plan = case.plan(&mut extenders)?;
        let answer = Answer::new(&case, &plan, explained, (load, watch.seconds()));
        for warning in &answer.warnings {
            warn("evictd-scheduler", warning);
        }
        self.output.print(&answer, page)
    }

    fn load(&self, wanted: &Wanted) -> Result<Loaded, Failure> {
        let sources = if let Some(context) = &self.context {
            vec![live(context)?]
        } else {
            let sources = self.cluster.iter().map(|path| open(path));
            sources.collect::<Result<_, _>>().map_err(Failure::input)?
        };
        dump::load(sources, Some(wanted)).map_err(failure)
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
            form: self.form,
            nodes,
            policy,
        }
    }
}

/// The manifest; or a pod's name, if no such file exists and a pod can have that name.
fn asked(path: &Path) -> Result<Asked, Failure> {
    let document = match Document::read(path, SMALL) {
        Err(DocumentError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            let named = path.to_str().and_then(Asked::of_name);
            return named.ok_or_else(|| {
                let path = path.display();
                Failure::Input(anyhow!(
                    "--pod {path}: there is no such file, and no pod has such a name; namespace/name is needed"
                ))
            });
        }
        document => document.map_err(Failure::input)?,
    };
    Asked::of_manifest(&document).map_err(Failure::input)
}

/// A source of objects, with its length if known.
fn source(name: &str, text: impl Read + 'static, length: Option<u64>) -> Text {
    Source {
        name: name.to_owned(),
        text: Progress::new(Box::new(text), name, length),
    }
}

type Text = Source<Progress<Box<dyn Read>>>;

fn live(context: &str) -> Result<Text, Failure> {
    let live = Live::new(context)?;
    Ok(source(&format!("context {context}"), live, None))
}

/// An error of a dump is bad input; one of a live cluster is a failure.
fn failure(error: DumpError) -> Failure {
    let live = match &error {
        DumpError::Document(DocumentError::Read { source, .. }) => source.get_ref(),
        _ => None,
    };
    match live.and_then(|error| error.downcast_ref::<ApiError>()) {
        None => Failure::input(error),
        Some(ApiError::Forbidden { .. }) => Failure::not_permitted(error),
        Some(_) => Failure::from(error),
    }
}

fn open(path: &Path) -> Result<Text, DocumentError> {
    if path == Path::new("-") {
        return Ok(source("standard input", io::stdin().lock(), None));
    }
    let name = path.display().to_string();
    let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
    let (metadata, file) = match opened {
        Ok(opened) => opened,
        Err(source) => return Err(DocumentError::Read { name, source }),
    };
    if metadata.is_dir() {
        return Err(DocumentError::Directory(name));
    }
    let length = metadata.is_file().then_some(metadata.len());
    Ok(source(&name, file, length))
}
