//! A job as a page, with the headings of vcctl.

use evictd_batch_objects::{Job, TaskSpec};
use evictd_command::printable_line;
use serde_json::Value;
use std::fmt::{Display, Write};

/// Lines of `Key:  value`, indented by level.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn head(&mut self, level: usize, key: &str) {
        self.push(level, &format!("{key}:"));
    }

    /// Adds pairs whose values start in the same column.
    fn block<V: Display>(&mut self, level: usize, pairs: &[(&str, V)]) {
        let longest = pairs.iter().map(|(key, _)| key.len()).max();
        let width = longest.unwrap_or_default() + 1;
        for (key, value) in pairs {
            self.push(level, &format!("{:width$}  {value}", format!("{key}:")));
        }
    }

    fn push(&mut self, level: usize, line: &str) {
        let line = printable_line(line.trim_end());
        // Writing to a `String` does not fail.
        let _ = writeln!(self.0, "{:indent$}{line}", "", indent = 2 * level);
    }
}

/// A text or a number. Empty for an absent field.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Labels, annotations or amounts.
fn map(value: &Value) -> String {
    match value.as_object() {
        Some(fields) if !fields.is_empty() => value.to_string(),
        _ => "<none>".to_owned(),
    }
}

/// The page. `stored` is the same job as JSON, with the fields that `job` has no place for.
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
    for container in items(&pod["containers"]) {
        let amounts = &container["resources"];
        let command: Vec<String> = items(&container["command"]).map(shown).collect();
        let ports: Vec<String> = items(&container["ports"])
            .map(|port| shown(&port["containerPort"]))
            .collect();
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
    let secrets: Vec<String> = items(&pod["imagePullSecrets"])
        .map(|secret| shown(&secret["name"]))
        .collect();
    lines.block(
        3,
        &[
            ("Image Pull Secrets", secrets.join(", ")),
            ("Restart Policy", shown(&pod["restartPolicy"])),
        ],
    );
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn status(lines: &mut Lines, job: &Job) {
    let status = &job.status;
    lines.head(0, "Status");
    // vcctl leaves out zeros.
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
        ("Phase", state.phase.as_str()),
        ("Reason", &*state.reason),
        ("Message", &*state.message),
    ];
    let state: Vec<_> = state
        .into_iter()
        .filter(|(key, text)| *key == "Phase" || !text.is_empty())
        .collect();
    lines.block(2, &state);
    let resources: Vec<_> = status
        .controlled_resources
        .iter()
        .flatten()
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
