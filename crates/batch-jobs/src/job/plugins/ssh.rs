//! `ssh`: the pods of a job log in to each other without a password (S6-057).

use super::super::call::{Call, KeyPair, Resource};
use super::super::failure::RoundError;
use super::super::object::list_at;
use super::arguments::Arguments;
use super::hosts::Room;
use super::{Made, hosts, object};
use evictd_batch_objects::Job;
use serde_json::{Value, json};
use std::fmt::Write;

const KNOWN: [(&str, bool); 4] = [
    ("ssh-key-file-path", false),
    ("ssh-private-key", false),
    ("ssh-public-key", false),
    ("ssh-port", false),
];
const DIRECTORY: &str = "/root/.ssh";
const FILES: [&str; 4] = ["id_rsa", "id_rsa.pub", "authorized_keys", "config"];

fn secret_name(job: &Job) -> String {
    format!("{}-ssh", job.metadata.name)
}

/// Whether the arguments bring no key.
pub(super) fn needs_keys(arguments: &[String]) -> bool {
    Arguments::read(arguments, &KNOWN)
        .text("ssh-private-key", "")
        .is_empty()
}

/// The `Secret` with the keys, which stay while the job lives: pods that run have read them.
pub(super) fn on_add(
    job: &Job,
    arguments: &[String],
    keys: Option<&KeyPair>,
) -> Result<Option<Call>, RoundError> {
    let arguments = Arguments::read(arguments, &KNOWN);
    let (private, public) = match (arguments.text("ssh-private-key", ""), keys) {
        ("", None) => return Ok(None),
        ("", Some(keys)) => (&*keys.private, &*keys.public),
        (private, _) => (private, arguments.text("ssh-public-key", "")),
    };
    let config = config(job, arguments.number("ssh-port", 22))?;
    let resource = Resource::Secret;
    let mut object = object(job, resource, &secret_name(job));
    // Each pod accepts the key that all pods have.
    let texts = [private, public, public, &config];
    let data = FILES.into_iter().zip(texts);
    let data = data.map(|(file, text)| (file.to_owned(), Value::from(text)));
    object["stringData"] = Value::Object(data.collect());
    let object = object.into();
    Ok(Some(Call::CreateObject { resource, object }))
}

pub(super) fn on_delete(job: &Job) -> Call {
    Call::DeleteObject {
        resource: Resource::Secret,
        name: secret_name(job),
    }
}

fn config(job: &Job, port: i64) -> Result<String, RoundError> {
    // A wrong port would make every connection fail.
    let port = if (1..=65535).contains(&port) {
        port
    } else {
        22
    };
    let mut text = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n".to_owned();
    let mut room = Room::new();
    for task in &job.spec.tasks {
        for host in room.hosts(job, task, hosts::count(task))? {
            let (name, full) = (&host.name, host.full());
            // Writing to a text does not fail.
            let _ = write!(text, "Host {name}\n  HostName {full}\n  Port {port}\n");
        }
    }
    Ok(text)
}

pub(super) fn on_pod(made: &mut Made<'_>, arguments: &[String]) {
    let arguments = Arguments::read(arguments, &KNOWN);
    let directory = arguments.text("ssh-key-file-path", DIRECTORY);
    // Users other than root have to read the files.
    let permissions = if directory == DIRECTORY { 0o600 } else { 0o644 };
    let name = secret_name(made.job);
    let items = FILES.map(|file| json!({"key": file, "path": format!(".ssh/{file}")}));
    let secret = json!({"secretName": name, "items": items, "defaultMode": permissions});
    made.spec
        .push_volume(json!({"name": name, "secret": secret}));
    made.spec.each_container(|container| {
        let mount = json!({"name": name, "mountPath": directory, "subPath": ".ssh"});
        list_at(container, "volumeMounts").push(mount);
    });
}
