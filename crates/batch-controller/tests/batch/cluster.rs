//! A cluster with Volcano's custom resources, and the program beside it.

use crate::batch;
use evictd_testkit::{Actor, ApiServer, program};
use serde_json::{Value, json};
use std::io::Write;
use std::process::{Command, Output};
use tempfile::NamedTempFile;

pub(crate) struct Cluster {
    pub(crate) api: ApiServer,
    pub(crate) admin: Actor,
    kubeconfig: NamedTempFile,
}

impl Cluster {
    pub(crate) fn start() -> Self {
        let api = ApiServer::start().unwrap();
        let kubeconfig = file(&api.kubeconfig());
        Self {
            admin: api.actor("test"),
            api,
            kubeconfig,
        }
    }

    /// Runs the program with these arguments, split at blanks.
    pub(crate) fn run(&self, arguments: &str) -> Output {
        let mut command = batch();
        command.args(arguments.split_whitespace());
        self.run_command(command)
    }

    /// Runs it for this cluster.
    pub(crate) fn run_command(&self, mut command: Command) -> Output {
        command.env("KUBECONFIG", self.kubeconfig.path());
        program::run(&mut command, "")
    }

    /// The only object of a kind.
    pub(crate) fn only(&self, plural: &str) -> Value {
        let all = self.admin.list(plural);
        assert_eq!(all.len(), 1, "{all:?}");
        all[0].clone()
    }

    pub(crate) fn job(&self, namespace: &str, name: &str, more: Value) -> Value {
        let mut job = json!({
            "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"schedulerName": "volcano", "queue": "default", "tasks": [{"replicas": 3}, {"replicas": 2}]},
        });
        merge(&mut job, more);
        self.admin.create(job).unwrap()
    }

    pub(crate) fn queue(&self, name: &str, more: Value) -> Value {
        let mut queue = json!({
            "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name},
            "spec": {"weight": 1}, "status": {"state": "Open"},
        });
        merge(&mut queue, more);
        self.admin.create(queue).unwrap()
    }

    pub(crate) fn pod_group(&self, name: &str, queue: &str, phase: &str) {
        let group = json!({
            "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name},
            "spec": {"minMember": 1, "queue": queue}, "status": {"phase": phase},
        });
        self.admin.create(group).unwrap();
    }
}

fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

/// A temporary file with this text.
pub(crate) fn file(text: &str) -> NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    write!(file, "{text}").unwrap();
    file
}

/// Lines of a table as words.
pub(crate) fn cells(page: &str) -> Vec<Vec<&str>> {
    page.lines()
        .map(|line| line.split_whitespace().collect())
        .collect()
}
