//! Plugins of the job controller (S6-055 to S6-058): the objects that they create for a job, and the fields that they
//! add to its pods. A plugin that has run for a job is recorded in `controlledResources` as `plugin-<name>`, so it
//! creates its objects once.

mod arguments;
mod env;
mod hcclrank;
mod hosts;
mod mpi;
mod names;
mod pytorch;
mod ray;
mod ssh;
mod svc;
mod tensorflow;

pub(super) use names::{Names, names};

use super::call::{Call, KeyPair, Resource};
use super::failure::RoundError;
use super::object::Spec;
use evictd_batch_objects::{Job, JobStatus, TaskSpec};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The plugins that there are, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plugin {
    Env,
    Hcclrank,
    Mpi,
    Pytorch,
    Ray,
    Ssh,
    Svc,
    Tensorflow,
}

impl Plugin {
    const ALL: [Self; 8] = [
        Self::Env,
        Self::Hcclrank,
        Self::Mpi,
        Self::Pytorch,
        Self::Ray,
        Self::Ssh,
        Self::Svc,
        Self::Tensorflow,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Env => "env",
            Self::Hcclrank => "hcclrank",
            Self::Mpi => "mpi",
            Self::Pytorch => "pytorch",
            Self::Ray => "ray",
            Self::Ssh => "ssh",
            Self::Svc => "svc",
            Self::Tensorflow => "tensorflow",
        }
    }

    /// How it is written down in `controlledResources`.
    fn key(self) -> String {
        format!("plugin-{}", self.name())
    }
}

/// A pod that plugins add to.
struct Made<'a> {
    job: &'a Job,
    task: &'a TaskSpec,
    index: i32,
    /// The pod's name.
    name: String,
    spec: Spec<'a>,
}

/// The job's plugins with their arguments, by name.
fn of(job: &Job) -> Result<Vec<(Plugin, &[String])>, RoundError> {
    let named = job.spec.plugins.iter().map(|(name, arguments)| {
        let plugin = Plugin::ALL.into_iter().find(|plugin| plugin.name() == name);
        let plugin = plugin.ok_or_else(|| RoundError::Plugin(name.clone()))?;
        Ok((plugin, arguments.as_deref().unwrap_or_default()))
    });
    named.collect()
}

fn is_recorded(plugin: Plugin, status: &JobStatus) -> bool {
    let controlled = status.controlled_resources.as_ref();
    controlled
        .and_then(|map| map.get(&plugin.key()))
        .map(String::as_str)
        == Some(plugin.name())
}

/// Whether a pair of keys has to be made before [`on_add`].
pub(super) fn needs_keys(job: &Job, status: &JobStatus) -> bool {
    let Ok(plugins) = of(job) else {
        return false;
    };
    let mut ssh = plugins.iter().filter(|(plugin, _)| *plugin == Plugin::Ssh);
    ssh.any(|(plugin, arguments)| !is_recorded(*plugin, status) && ssh::needs_keys(arguments))
}

/// Whether a list of hosts was made for the job.
pub(super) fn has_hosts(job: &Job, status: &JobStatus) -> bool {
    job.spec.plugins.contains_key(Plugin::Svc.name()) && is_recorded(Plugin::Svc, status)
}

/// The objects that plugins create before the job's first pods.
pub(super) fn on_add(
    job: &Job,
    controlled: &mut BTreeMap<String, String>,
    keys: Option<&KeyPair>,
) -> Result<Vec<Call>, RoundError> {
    let mut calls = Vec::new();
    for (plugin, arguments) in of(job)? {
        // Volcano writes down nothing of this one, which makes nothing.
        if plugin == Plugin::Hcclrank {
            continue;
        }
        let before = controlled.insert(plugin.key(), plugin.name().to_owned());
        if before.as_deref() == Some(plugin.name()) {
            continue;
        }
        match plugin {
            Plugin::Svc => calls.extend(svc::on_add(job, arguments)?),
            Plugin::Ssh => calls.extend(ssh::on_add(job, arguments, keys)?),
            Plugin::Ray => calls.push(ray::on_add(job, arguments)),
            Plugin::Env | Plugin::Hcclrank | Plugin::Mpi | Plugin::Pytorch | Plugin::Tensorflow => {
            }
        }
    }
    Ok(calls)
}

/// The changes by plugins when the job may have changed.
pub(super) fn on_update(job: &Job) -> Result<Vec<Call>, RoundError> {
    let plugins = of(job)?;
    let svc = plugins.iter().any(|(plugin, _)| *plugin == Plugin::Svc);
    let hosts = svc.then(|| svc::hosts_of_job(job)).transpose()?;
    Ok(Vec::from_iter(hosts))
}

/// The objects that plugins delete when all pods are killed.
pub(super) fn on_delete(
    job: &Job,
    controlled: &mut BTreeMap<String, String>,
) -> Result<Vec<Call>, RoundError> {
    let mut calls = Vec::new();
    for (plugin, arguments) in of(job)? {
        let key = plugin.key();
        if controlled.get(&key).map(String::as_str) != Some(plugin.name()) {
            continue;
        }
        controlled.remove(&key);
        match plugin {
            Plugin::Svc => calls.extend(svc::on_delete(job, arguments)),
            Plugin::Ssh => calls.push(ssh::on_delete(job)),
            Plugin::Ray => calls.push(ray::on_delete(job)),
            Plugin::Env | Plugin::Hcclrank | Plugin::Mpi | Plugin::Pytorch | Plugin::Tensorflow => {
            }
        }
    }
    Ok(calls)
}

/// The fields that plugins add to a pod. A job with an unknown plugin has no pods.
pub(super) fn on_pod(
    job: &Job,
    task: &TaskSpec,
    index: i32,
    names: &Names,
    pod: &mut Map<String, Value>,
) {
    let plugins = of(job).unwrap_or_default();
    let hcclrank = plugins
        .iter()
        .find(|(plugin, _)| *plugin == Plugin::Hcclrank);
    if let Some((_, arguments)) = hcclrank {
        hcclrank::on_pod((job, task, index), pod, arguments);
    }
    let mut made = Made {
        job,
        task,
        index,
        name: super::object::pod_name(&job.metadata.name, &task.name, index),
        spec: Spec::of(pod),
    };
    for (plugin, arguments) in plugins {
        match plugin {
            Plugin::Env => env::on_pod(&mut made),
            // It adds fields outside of the spec, above.
            Plugin::Hcclrank => {}
            Plugin::Mpi => mpi::on_pod(&mut made, arguments, names.mpi.as_ref()),
            Plugin::Pytorch => pytorch::on_pod(&mut made, arguments),
            Plugin::Ray => ray::on_pod(&mut made, arguments),
            Plugin::Ssh => ssh::on_pod(&mut made, arguments),
            Plugin::Svc => svc::on_pod(&mut made, arguments),
            Plugin::Tensorflow => {
                tensorflow::on_pod(&mut made, arguments, names.tensorflow.as_ref());
            }
        }
    }
}

fn object(job: &Job, resource: Resource, name: &str) -> Value {
    serde_json::json!({
        "apiVersion": resource.api_version(),
        "kind": resource.kind(),
        "metadata": super::object::metadata(job, name),
    })
}

/// Adds a variable to a container's environment.
fn push_env(container: &mut Map<String, Value>, name: &str, value: &str) {
    let env = super::object::list_at(container, "env");
    env.push(serde_json::json!({"name": name, "value": value}));
}

/// Opens a port of a container, if it is not open.
fn open_port(container: &mut Map<String, Value>, name: &str, port: i64) {
    let ports = super::object::list_at(container, "ports");
    let open = ports
        .iter()
        .any(|known| known["containerPort"].as_i64() == Some(port));
    if !open {
        ports.push(serde_json::json!({"name": name, "containerPort": port}));
    }
}
