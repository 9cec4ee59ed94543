//! A job as a page for people, with vcctl's headings.

use evictd_batch::wire::{Job, TaskSpec};
use evictd_command::printable_line;
use serde_json::Value;
use std::fmt::{Display, Write};

/// Lines of `Key:  value`, indented by their level.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn head(&mut self, level: usize, key: &str) {
        self.push(level, &format!("{key}:"));
    }

    /// Keys with their values, which begin in the same column.
    fn block<V: Display>(&mut self, level: usize, pairs: &[(&str, V)]) {
        let longest = pairs.iter().map(|(key, _)| key.len()).max();
        let width = longest.unwrap_or_default() + 1;
        for (key, value) in pairs {
            self.push(level, &format!("{:width$}  {value}", format!("{key}:")));
        }
    }

    fn push(&mut self, level: usize, line: &str) {
        let line = printable_line(line.trim_end());
        // A `String` takes whatever it is given.
        let _ = writeln!(self.0, "{:indent$}{line}", "", indent = 2 * level);
    }
}

/// A text or a number; nothing for what is absent.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Labels or annotations; an object of no fields is none.
fn map(value: &Value) -> String {
    match value.as_object() {
        Some(fields) if !fields.is_empty() => value.to_string(),
        _ => "<none>".to_owned(),
    }
}

/// The page; `stored` is the same job as the server has it.
pub(super) fn of(stored: &Value, job: &Job) -> String {
    let mut lines = Lines::default();
    let metadata = &stored["metadata"];
    lines.block(
        0,
        &[
            ("Name", shown(&metadata["name"])),
            ("Namespace", shown(&metadata["namespace"])),
            ("Labels", map(&metadata["labels"])),
            ("Annotations", map(&metadata["annotations"])),
            ("API Version", shown(&stored["apiVersion"])),
            ("Kind", shown(&stored["kind"])),
        ],
    );
    lines.head(0, "Metadata");
    lines.block(
        1,
        &[
            ("Creation Timestamp", shown(&metadata["creationTimestamp"])),
            ("Generate Name", shown(&metadata["generateName"])),
            ("Generation", shown(&metadata["generation"])),
            ("Resource Version", shown(&metadata["resourceVersion"])),
            ("UID", shown(&metadata["uid"])),
        ],
    );
    spec(&mut lines, job);
    status(&mut lines, job);
    lines.0
}

fn spec(lines: &mut Lines, job: &Job) {
    let spec = &job.spec;
    lines.head(0, "Spec");
    lines.block(
        1,
        &[
            ("Min Available", spec.min_available.to_string()),
            ("Queue", spec.queue.clone()),
            ("Scheduler Name", spec.scheduler_name.clone()),
        ],
    );
    lines.head(1, "Plugins");
    for (name, arguments) in &spec.plugins {
        let arguments = arguments.as_deref().unwrap_or_default();
        lines.block(2, &[(name.as_str(), format!("[{}]", arguments.join(" ")))]);
    }
    lines.head(1, "Tasks");
    for task in &spec.tasks {
        self::task(lines, task);
    }
}

fn task(lines: &mut Lines, task: &TaskSpec) {
    let replicas = task.replicas.to_string();
    lines.block(2, &[("Name", &task.name), ("Replicas", &replicas)]);
    let pod = &task.template["spec"];
    lines.head(2, "Template");
    let annotations = map(&task.template["metadata"]["annotations"]);
    lines.block(3, &[("Annotations", annotations)]);
    lines.head(3, "Containers");
    for container in pod["containers"].as_array().into_iter().flatten() {
        let amounts = &container["resources"];
        let command = container["command"].as_array().into_iter().flatten();
        let command: Vec<String> = command.map(shown).collect();
        let ports = container["ports"].as_array().into_iter().flatten();
        let ports: Vec<String> = ports.map(|port| shown(&port["containerPort"])).collect();
        lines.block(
            4,
            &[
                ("Name", shown(&container["name"])),
                ("Image", shown(&container["image"])),
                ("Command", command.join(" ")),
                ("Ports", ports.join(", ")),
                ("Limits", map(&amounts["limits"])),
                ("Requests", map(&amounts["requests"])),
                ("Working Dir", shown(&container["workingDir"])),
            ],
        );
    }
    let secrets = pod["imagePullSecrets"].as_array().into_iter().flatten();
    let secrets: Vec<String> = secrets.map(|secret| shown(&secret["name"])).collect();
    lines.block(
        3,
        &[
            ("Image Pull Secrets", secrets.join(", ")),
            ("Restart Policy", shown(&pod["restartPolicy"])),
        ],
    );
}

/// Counts that are zero are left out.
fn status(lines: &mut Lines, job: &Job) {
    let status = &job.status;
    lines.head(0, "Status");
    let counts = [
        ("Succeeded", status.succeeded),
        ("Pending", status.pending),
        ("Running", status.running),
        ("Failed", status.failed),
        ("Terminating", status.terminating),
        ("Unknown", status.unknown),
        ("RetryCount", status.retry_count),
        ("Min Available", status.min_available),
        ("Version", status.version),
    ];
    let counts: Vec<(&str, i32)> = counts.into_iter().filter(|(_, count)| *count > 0).collect();
    lines.block(1, &counts);
    lines.head(1, "State");
    let state = &status.state;
    let state = [
        ("Phase", &state.phase),
        ("Reason", &state.reason),
        ("Message", &state.message),
    ];
    let told: Vec<_> = state
        .into_iter()
        .filter(|(key, text)| *key == "Phase" || !text.is_empty())
        .collect();
    lines.block(2, &told);
    let resources = status.controlled_resources.iter().flatten();
    let resources: Vec<_> = resources
        .map(|(key, value)| (key.as_str(), value))
        .collect();
    if !resources.is_empty() {
        lines.head(1, "Controlled Resources");
        lines.block(2, &resources);
    }
    if !status.conditions.is_empty() {
        lines.head(1, "Conditions");
        let conditions = status.conditions.iter().map(|condition| {
            let since = condition.last_transition_time;
            let since = since.map_or_else(String::new, |time| time.to_string());
            (condition.status.as_str(), since)
        });
        lines.block(2, &conditions.collect::<Vec<_>>());
    }
}
