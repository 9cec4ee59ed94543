//! `evictd admit`: would this pod be admitted on this node, and which pods would be preempted for it.

mod question;

use super::daemon::Daemon;
use anyhow::Context;
use clap::Args;
use evictd_admission::Outcome;
use evictd_command::{Colour, Column, Failure, Output, Table, View, warn};
use evictd_document::{Document, SMALL};
use evictd_node::socket::ANSWER_ANNOTATION;
use evictd_pod::{Pod, resources};
use serde_json::{Value, json};
use std::{collections::HashMap, path::PathBuf};

const EXAMPLE: &str = "Example:
  kubectl get pods -A --field-selector spec.nodeName=node-1 -o json > pods.json
  kubectl get node node-1 -o json > node.json
  evictd admit --pod new.yaml --pods pods.json --node node.json
  evictd admit --pod new.yaml --pods pods.json --insufficient cpu=446m
  evictd admit --pod new.yaml --exit-code || echo 'not admitted'

Exit codes: 0 answered, 1 could not be answered, 2 bad usage or bad input,
4 not admitted (only with --exit-code)";

/// Would this pod be admitted to this node; if not, why; if it is critical, which pods would be preempted for it.
///
/// FILE is YAML or JSON, `-` is stdin. With --pod alone, the running daemon answers for its own node.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// The pod to be admitted: a v1 Pod.
    #[arg(long, value_name = "FILE")]
    pod: PathBuf,
    /// The pods already on the node: a v1 `PodList` or List, or a kubelet's /pods; of a directory all JSON and YAML files.
    #[arg(long, value_name = "FILE")]
    pods: Option<PathBuf>,
    /// The node: a v1 Node. Its resources, labels, taints and conditions are checked.
    #[arg(long, value_name = "FILE")]
    node: Option<PathBuf>,
    /// Node conditions that are True, instead of those in --node.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    conditions: Option<Vec<String>>,
    /// Insufficient resources, with the missing amount of each; then nothing else is checked.
    #[arg(long, value_name = "cpu=446m,memory=2Gi", value_delimiter = ',')]
    insufficient: Option<Vec<String>>,
    /// Other predicates that failed, by name; then no pod is preempted.
    #[arg(long, value_name = "NodeAffinity,..", value_delimiter = ',')]
    failed: Option<Vec<String>>,
    /// Exit with 4 if the pod is not admitted. Without this option every answer exits with 0.
    #[arg(long)]
    exit_code: bool,
    #[command(flatten)]
    daemon: Daemon,
    #[command(flatten)]
    output: Output,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let (outcome, pods) = if self.are_offline() {
            let question = self.question()?;
            (question.answer(), question.pods)
        } else {
            (self.ask_the_daemon()?, Vec::new())
        };
        let unchecked = self.unchecked();
        self.output.print(&outcome, |outcome, view| {
            let page = page(outcome, &pods, view);
            match unchecked {
                Some(reason) => format!("{}\n\n{}", page.trim_end(), view.sentence(reason)),
                None => page,
            }
        })?;
        // JSON has no place for it, and a script still shows stderr to a person.
        if let Some(reason) = unchecked.filter(|_| !self.output.is_for_people()) {
            warn("evictd", reason);
        }
        if self.exit_code && !outcome.allowed {
            return Err(Failure::No);
        }
        Ok(())
    }

    /// The parts that an answer without the Node could not check.
    fn unchecked(&self) -> Option<&'static str> {
        let is_whole = !self.are_offline() || self.node.is_some() || self.insufficient.is_some();
        (!is_whole).then_some(
            "Not checked, because --node is missing: free resources, labels, taints and host ports.",
        )
    }

    fn ask_the_daemon(&self) -> Result<Outcome, Failure> {
        let document = Document::read(&self.pod, SMALL).map_err(Failure::input)?;
        let pod = document.pod().map_err(Failure::input)?;
        let mut object: Value = document.parse().map_err(Failure::input)?;
        // `kubectl get -o json` with a label selector gives a list, also of one pod.
        while let Some(item) = item(&mut object) {
            object = item;
        }
        let review = json!({
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": pod.full_name(),
                "kind": { "group": "", "version": "v1", "kind": "Pod" },
                "resource": { "group": "", "version": "v1", "resource": "pods" },
                "name": pod.name,
                "namespace": pod.namespace,
                "operation": "CREATE",
                "dryRun": true,
                "userInfo": {},
                "object": object,
            },
        });
        let answer = self.daemon.post("/v1/admit", &review)?;
        let outcome = &answer["response"]["auditAnnotations"][ANSWER_ANNOTATION];
        let outcome = outcome
            .as_str()
            .context("the daemon's answer holds no outcome")?;
        Ok(serde_json::from_str(outcome).context("the daemon's answer is not an outcome")?)
    }
}

/// The first object of a list.
fn item(object: &mut Value) -> Option<Value> {
    let items = match object {
        Value::Array(_) => object,
        _ => object.get_mut("items")?,
    };
    Some(items.get_mut(0)?.take())
}

/// The answer in a sentence, then the pods that would be preempted.
fn page(outcome: &Outcome, pods: &[Pod], view: View) -> String {
    if !outcome.allowed {
        let message = outcome.message.trim_end();
        let head = view.sentence(&format!("Not admitted: {}", outcome.reason));
        let (head, message) = (view.paint(Colour::Bad, &head), view.sentence(message));
        return format!("{head}\n{message}\n");
    }
    let count = outcome.preempt.len();
    if count == 0 {
        return view.paint(Colour::Good, "Admitted.");
    }
    let known: HashMap<String, &Pod> = pods.iter().map(|pod| (pod.full_name(), pod)).collect();
    let rows = outcome.preempt.iter().enumerate().map(|(index, name)| {
        let qos = outcome.qos.get(name).cloned().unwrap_or_default();
        let mut row = vec![(index + 1).to_string(), name.clone(), qos];
        if let Some(pod) = known.get(name) {
            let requests = [resources::CPU, resources::MEMORY].map(|name| pod.request(name));
            row.push(pod.priority().to_string());
            row.extend(requests.map(|request| request.to_string()));
        }
        row
    });
    // The daemon's answer only has names and QoS classes.
    let columns = [
        Column::figure("#", 5),
        Column::name("POD", 6),
        Column::words("QOS", 3),
        Column::figure("PRIORITY", 4),
        Column::figure("CPU", 1),
        Column::figure("MEMORY", 2),
    ];
    let columns = &columns[..if pods.is_empty() { 3 } else { 6 }];
    let them = if count == 1 {
        "this pod is killed"
    } else {
        "these pods are killed, one after the other"
    };
    let head = view.paint(Colour::Warning, &format!("Admitted, after {them}:"));
    format!("{head}\n\n{}\n", Table::new(columns, rows).shown(view))
}
