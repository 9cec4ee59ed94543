//! `explain`, `plan` and `simulate` never contradict each other about the same files.

use crate::scheduler;
use evictd_testkit::program::{self, answer};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::{NamedTempFile, TempDir};

/// The answers of the commands about one pod.
pub(crate) struct Answers {
    pub(crate) pod: String,
    pub(crate) explained: Value,
    /// Only about kube-scheduler's default profile.
    planned: Option<Value>,
    simulated: Value,
}

/// Asks each command about the files of a cluster and a pod.
pub(crate) fn ask(clusters: &[PathBuf], pod: &Value, config: Option<&Value>) -> Answers {
    let file = |value: &Value| {
        let file = NamedTempFile::new().unwrap();
        fs::write(file.path(), value.to_string()).unwrap();
        file
    };
    let (pod_file, config_file) = (file(pod), config.map(file));
    let asked = |command: &str, flag: &str| {
        let mut program = scheduler();
        program.args([command, "-o", "json"]);
        for cluster in clusters {
            program.arg("--cluster").arg(cluster);
        }
        program.arg(flag).arg(pod_file.path());
        if let Some(config) = config_file.as_ref().filter(|_| command != "plan") {
            program.arg("--config").arg(config.path());
        }
        answer(&program::run(&mut program, ""))
    };
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or("default");
    let name = pod["metadata"]["name"].as_str().unwrap();
    Answers {
        pod: format!("{namespace}/{name}"),
        explained: asked("explain", "--pod"),
        planned: config.is_none().then(|| asked("plan", "--pod")),
        simulated: asked("simulate", "--pods"),
    }
}

fn names(list: &Value) -> BTreeSet<String> {
    let list = list.as_array().into_iter().flatten();
    list.map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// What an attempt says of nodes that a pod leaves out by name. The recorded plans have the reason of a filter there.
const LEFT_OUT: &str = "node(s) didn't satisfy plugin(s) [NodeAffinity]";

/// The code and the reasons of each rejected node.
fn statuses(of: &Value, explained: &Value) -> BTreeMap<String, (String, BTreeSet<String>)> {
    let nodes = of["filterStatus"].as_object().into_iter().flatten();
    let status = |(node, status): (&String, &Value)| {
        let code = status["code"].as_str().unwrap().to_owned();
        let mut reasons = names(&status["reasons"]);
        if names(&explained["filterStatus"][node]["reasons"]).contains(LEFT_OUT) {
            reasons.clear();
        }
        (node.clone(), (code, reasons))
    };
    nodes.map(status).collect()
}

/// The message about a pod that fits on no node, or the error of its attempt.
fn said(explained: &Value) -> &Value {
    explained.get("error").unwrap_or(&explained["message"])
}

/// The differences between two answers.
#[derive(Default)]
struct Contradictions(Vec<String>);

impl Contradictions {
    fn same(&mut self, what: &str, one: &Value, other: &Value) {
        if one != other {
            self.0.push(format!("{what}: {one} and {other}"));
        }
    }

    /// About a pod that `explain` does not try, for this reason.
    fn not_tried(&mut self, reason: &Value, answers: &Answers) {
        let placed = &answers.simulated["placed"][&answers.pod];
        self.same("placed of a pod that is not tried", &Value::Null, placed);
        if let Some(planned) = &answers.planned {
            self.same("reason", reason, &planned["ineligibleReason"]);
            self.same("fits", &json!(false), &planned["fitsWithoutPreemption"]);
        }
    }

    fn explained_and_planned(&mut self, explained: &Value, planned: &Value) {
        let fits = !names(&explained["feasible"]).is_empty();
        self.same("fits", &json!(fits), &planned["fitsWithoutPreemption"]);
        let status = |of: &Value| json!(statuses(of, explained));
        self.same("status", &status(explained), &status(planned));
        let chosen = &planned["chosen"];
        self.same("nominated", &explained["nominated"], &chosen["node"]);
        let victims = |of: &Value| json!(names(&of["victims"]));
        self.same("victims", &victims(explained), &victims(chosen));
        if !fits && chosen["node"].is_null() {
            self.same("message", said(explained), &planned["message"]);
        }
    }

    fn explained_and_simulated(&mut self, explained: &Value, answers: &Answers) {
        let simulated = &answers.simulated;
        let mut attempts = simulated["attempts"].as_array().unwrap().iter();
        let attempt = attempts.find(|attempt| attempt["pod"] == *answers.pod);
        let attempt = attempt.unwrap_or(&Value::Null);
        self.same("chosen", &explained["chosen"], &attempt["chosen"]);
        let list = |of: &Value, key: &str| json!(names(&of[key]));
        let feasible = names(&explained["feasible"]);
        if feasible.is_empty() {
            let message = match said(explained) {
                Value::Null => &explained["fitError"],
                message => message,
            };
            self.same("attempt's message", message, &attempt["message"]);
            let (nominated, node) = (&explained["nominated"], &attempt["nominated"]);
            self.same("attempt's node", nominated, node);
            let victims = [explained, attempt].map(|of| list(of, "victims"));
            self.same("attempt's victims", &victims[0], &victims[1]);
        } else {
            let count = json!(feasible.len());
            self.same("feasible nodes", &count, &attempt["feasibleCount"]);
            let best = [explained, attempt].map(|of| list(of, "top"));
            self.same("best nodes", &best[0], &best[1]);
            let placed = &simulated["placed"][&answers.pod];
            // The devices of a driver may fail to be bound, which comes after the choice.
            if attempt["bindError"].is_null() {
                self.same("placed", &explained["chosen"], placed);
            }
        }
    }
}

impl Answers {
    pub(crate) fn contradictions(&self) -> Vec<String> {
        let mut found = Contradictions::default();
        let explained = &self.explained;
        if let Some(reason) = explained.get("notTried") {
            found.not_tried(reason, self);
            return found.0;
        }
        if let Some(planned) = &self.planned {
            found.explained_and_planned(explained, planned);
        }
        found.explained_and_simulated(explained, self);
        found.0
    }
}

/// Takes out nominations, about which the commands answer differently (INTERFACES), and the other pending pods, which the
/// simulation would schedule first.
fn prepare(objects: &[Value]) -> Vec<Value> {
    let is_pending = |object: &Value| {
        let node = object["spec"]["nodeName"].as_str().unwrap_or_default();
        object["kind"] == "Pod" && node.is_empty()
    };
    let others = objects.iter().filter(|object| !is_pending(object));
    others.cloned().map(without_nomination).collect()
}

fn without_nomination(mut pod: Value) -> Value {
    if let Some(status) = pod.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("nominatedNodeName");
    }
    pod
}

/// The cases of a folder of recorded answers, with the cluster, the pod and the configuration of each.
fn oracle(folder: &str) -> Vec<(String, Vec<Value>, Value, Option<Value>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut cases = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let case: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let input = &case["input"];
        let objects = match input["objects"].as_array() {
            Some(objects) => objects.clone(),
            None => crate::oracle::objects(input),
        };
        let pod = input.get("pod").unwrap_or(&input["preemptor"]);
        let config = input.get("config").cloned();
        cases.push((path.display().to_string(), objects, pod.clone(), config));
    }
    cases
}

pub(crate) fn written(folder: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    path
}

pub(crate) fn list(items: &[Value]) -> String {
    json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string()
}

#[test]
fn a4_the_commands_agree_about_every_cluster_of_the_oracles() {
    let folder = TempDir::new().unwrap();
    let mut wrong = Vec::new();
    let schedule = oracle("../scheduling/tests/oracle/schedule");
    let preemption = oracle("../preemption/tests/oracle");
    let devices = oracle("../scheduling/tests/oracle/devices").into_iter();
    // In sequences there is no one pod.
    let devices = devices.filter(|(_, _, pod, _)| pod.is_object());
    let cases: Vec<_> = schedule
        .into_iter()
        .chain(preemption)
        .chain(devices)
        .collect();
    assert!(cases.len() >= 115, "only {} cases found", cases.len());
    for (name, objects, pod, config) in cases {
        let cluster = written(&folder, "cluster.json", &list(&prepare(&objects)));
        let pod = without_nomination(pod);
        let found = ask(&[cluster], &pod, config.as_ref()).contradictions();
        if !found.is_empty() {
            wrong.push(format!("{name}:\n  {}", found.join("\n  ")));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Changes of a pod after which a scheduler does not try it, or tries it with others.
fn states() -> Vec<(&'static str, Value, Value)> {
    let group = json!({ "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": { "name": "g", "namespace": "default", "uid": "g" },
        "spec": { "schedulingPolicy": { "gang": { "minCount": 1 } } } });
    let mut large = group.clone();
    large["spec"]["schedulingPolicy"]["gang"]["minCount"] = json!(3);
    let mut basic = group.clone();
    basic["spec"]["schedulingPolicy"] = json!({ "basic": {} });
    let member = json!({ "spec": { "schedulingGroup": { "podGroupName": "g" } } });
    vec![
        (
            "gated",
            json!({ "spec": { "schedulingGates": [{ "name": "quota" }] } }),
            json!(null),
        ),
        (
            "deleted",
            json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }),
            json!(null),
        ),
        (
            "failed",
            json!({ "status": { "phase": "Failed" } }),
            json!(null),
        ),
        (
            "of another scheduler",
            json!({ "spec": { "schedulerName": "volcano" } }),
            json!(null),
        ),
        ("of no group", member.clone(), json!(null)),
        ("of a group that is incomplete", member.clone(), large),
        ("of a group without a gang", member.clone(), basic),
        ("of a complete group", member, group),
    ]
}

pub(crate) fn merge(into: &mut Value, change: &Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (key, value) in change {
                merge(into.entry(key.clone()).or_insert(json!({})), value);
            }
        }
        (into, change) => *into = change.clone(),
    }
}

#[test]
fn a4_the_commands_agree_about_pods_in_every_state() {
    let folder = TempDir::new().unwrap();
    let cases = oracle("../scheduling/tests/oracle/schedule");
    let mut wrong = Vec::new();
    let mut not_tried = 0;
    for (name, objects, pod, config) in cases.into_iter().take(6) {
        for (state, change, group) in states() {
            let mut objects = prepare(&objects);
            objects.extend(Some(group).filter(|group| !group.is_null()));
            let cluster = written(&folder, "cluster.json", &list(&objects));
            let mut pod = without_nomination(pod.clone());
            pod["metadata"]["namespace"] = json!("default");
            merge(&mut pod, &change);
            let answers = ask(&[cluster], &pod, config.as_ref());
            not_tried += usize::from(answers.explained.get("notTried").is_some());
            let found = answers.contradictions();
            // A group preempts as a whole, which only the simulation tries.
            let is_alone = answers.explained.get("gang").is_none();
            if !found.is_empty() && (is_alone || !names(&answers.explained["feasible"]).is_empty())
            {
                wrong.push(format!("{name}, {state}:\n  {}", found.join("\n  ")));
            }
        }
    }
    assert_eq!(not_tried, 36);
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
