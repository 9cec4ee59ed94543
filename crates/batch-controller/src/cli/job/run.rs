//! `evictd-batch job run`: creates a job from options or from a file.

use crate::cli::connection::Connection;
use crate::cli::kind::{JOBS, required};
use crate::cli::manifest_file::read;
use clap::Args;
use evictd_batch_objects::Job;
use evictd_command::{Failure, write_to_stdout};
use evictd_pod::Quantity;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

const EXAMPLE: &str = "Example:
  evictd-batch job run -N hello -i busybox -r 3 -m 2
  evictd-batch job run -f train.yaml";

/// The label of pods with the name of the job.
const JOB_NAME: &str = "job.volcano.sh";

/// Runs a job: one task with one container by options, or any job from a file
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// The namespace of the job. Default: that in the file, or `default`.
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    #[command(flatten)]
    simple: Simple,
    /// A YAML file with the job. Of the other options only -n applies then.
    #[arg(short, long, value_name = "FILE")]
    filename: Option<PathBuf>,
    #[command(flatten)]
    connection: Connection,
}

/// The options of a job with one task and one container.
#[derive(Debug, Args)]
pub(in crate::cli) struct Simple {
    /// The name of the job.
    #[arg(
        short = 'N',
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    name: String,
    /// The image of the container.
    #[arg(short, long, value_name = "IMAGE", default_value = "busybox")]
    image: String,
    /// The scheduler of the pods.
    #[arg(short = 'S', long, value_name = "NAME", default_value = "volcano")]
    scheduler: String,
    /// The size of the gang: so many pods start together, or none starts.
    #[arg(short, long, value_name = "COUNT", default_value_t = 1, value_parser = count())]
    min: i32,
    /// The number of pods.
    #[arg(short, long, value_name = "COUNT", default_value_t = 1, value_parser = count())]
    replicas: i32,
    /// The requests of a pod.
    #[arg(short = 'R', long, value_name = "NAME=AMOUNT,..", default_value = "cpu=1000m,memory=100Mi", value_parser = amounts)]
    requests: Value,
    /// The limits of a pod.
    #[arg(short = 'L', long, value_name = "NAME=AMOUNT,..", default_value = "cpu=1000m,memory=100Mi", value_parser = amounts)]
    limits: Value,
}

fn count() -> clap::builder::RangedI64ValueParser<i32> {
    clap::value_parser!(i32).range(0..)
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        if let Some(file) = &self.filename {
            let (namespace, job) = read::<Job>(&JOBS, file, self.namespace)?;
            return run(&self.connection, &namespace, &job);
        }
        let namespace = self.namespace.as_deref().unwrap_or("default");
        self.simple.run(&self.connection, namespace, &[])
    }
}

/// Creates the job (S6-145).
fn run(connection: &Connection, namespace: &str, job: &Value) -> Result<(), Failure> {
    let created = connection.open()?.create(&JOBS, namespace, job)?;
    let name = created["metadata"]["name"].as_str().unwrap_or_default();
    write_to_stdout(&format!("run job {name} successfully"))
}

impl Simple {
    /// Creates the job. Without `words` the container runs the command of its image.
    pub(in crate::cli) fn run(
        &self,
        connection: &Connection,
        namespace: &str,
        words: &[String],
    ) -> Result<(), Failure> {
        required(&self.name, "job name cannot be left blank")?;
        run(connection, namespace, &self.job(namespace, words))
    }

    fn job(&self, namespace: &str, words: &[String]) -> Value {
        let name = &self.name;
        let mut container = json!({
            "name": name, "image": self.image, "imagePullPolicy": "IfNotPresent",
            "resources": {"limits": self.limits, "requests": self.requests},
        });
        if !words.is_empty() {
            container["command"] = json!(words);
        }
        json!({
            "apiVersion": JOBS.api_version(), "kind": JOBS.name,
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "minAvailable": self.min, "schedulerName": self.scheduler,
                // The webhook would set this name. Without a webhook the task needs one, too: pods name their task.
                "tasks": [{
                    "name": "default0",
                    "replicas": self.replicas,
                    "template": {
                        "metadata": {"name": name, "labels": {JOB_NAME: name}},
                        "spec": {"restartPolicy": "Never", "containers": [container]},
                    },
                }],
            },
        })
    }
}

/// Parses `cpu=1000m,memory=100Mi`. An empty text has no amounts.
fn amounts(text: &str) -> Result<Value, String> {
    let mut amounts = Map::new();
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let pair = part.split_once('=');
        let Some((name, amount)) = pair.filter(|(_, amount)| !amount.contains('=')) else {
            return Err(format!(
                "invalid argument syntax {part}, expected <resource>=<value>"
            ));
        };
        let quantity: Quantity = amount
            .parse()
            .map_err(|error| format!("{name}={amount}: {error}"))?;
        amounts.insert(name.to_owned(), quantity.to_string().into());
    }
    Ok(Value::Object(amounts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_parsed_as_quantities_of_kubernetes() {
        let read = amounts("cpu=1000m,nvidia.com/gpu=2");
        assert_eq!(read, Ok(json!({"cpu": "1", "nvidia.com/gpu": "2"})));
        assert_eq!(amounts(""), Ok(json!({})));
        for (text, expected) in [
            (
                "cpu",
                "invalid argument syntax cpu, expected <resource>=<value>",
            ),
            (
                "cpu=1=2",
                "invalid argument syntax cpu=1=2, expected <resource>=<value>",
            ),
            (
                "cpu=1,",
                "invalid argument syntax , expected <resource>=<value>",
            ),
        ] {
            assert_eq!(amounts(text).unwrap_err(), expected);
        }
        assert!(amounts("cpu=much").unwrap_err().starts_with("cpu=much: "));
    }
}
