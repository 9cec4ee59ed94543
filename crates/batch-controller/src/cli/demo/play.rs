//! What happens in the demo, session by session, and whether it is what was expected.

use anyhow::Context;
use evictd_batch::compat::Compat;
use evictd_batch::conf::Conf;
use evictd_batch::session::Outcome;
use evictd_batch_trace::{Seconds, Simulator, SimulatorOptions, Trace};
use serde::Serialize;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

const CONF: &str = "\
actions: \"enqueue, allocate, reclaim, backfill\"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
  - name: proportion
  - name: nodeorder
";

/// What each node has, in cores.
pub(super) const CORES: u32 = 4;
const NODES: u32 = 4;
/// The jobs: name, queue, arrival and duration in seconds, pods, how many of them start together, and cores of each.
const JOBS: [(&str, &str, u32, u32, u32, u32, u32); 3] = [
    ("sweep", "research", 0, 45, 8, 1, 2),
    ("train", "production", 10, 20, 3, 3, 2),
    ("report", "production", 40, 10, 2, 2, 5),
];

/// A pod on a node.
#[derive(Debug, Clone)]
pub(super) struct Block {
    pub(super) pod: String,
    pub(super) queue: &'static str,
    pub(super) cores: u32,
    /// Whether it has to go.
    pub(super) going: bool,
}

/// A queue, in cores.
#[derive(Debug, Clone, Default)]
pub(super) struct Line {
    pub(super) holds: u32,
    pub(super) waits: u32,
    /// What it deserves, as the last session saw it.
    pub(super) deserves: f64,
}

/// How things stand after a session.
#[derive(Debug, Clone)]
pub(super) struct Scene {
    pub(super) seconds: i64,
    pub(super) nodes: BTreeMap<String, Vec<Block>>,
    pub(super) queues: BTreeMap<&'static str, Line>,
    /// What has happened so far: seconds and words.
    pub(super) log: Vec<(i64, String)>,
}

/// A session that did something.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Step {
    seconds: i64,
    bound: Vec<String>,
    evicted: Vec<String>,
    /// Jobs without a pod on any node, and why.
    waiting: BTreeMap<String, String>,
}

/// Something that was expected.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    pub(super) what: &'static str,
    pub(super) holds: bool,
}

/// What the demo came to.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    as_expected: bool,
    pub(super) checks: Vec<Check>,
    steps: Vec<Step>,
}

/// The demo as it was played.
pub(super) struct Played {
    pub(super) scenes: Vec<Scene>,
    pub(super) report: Report,
}

impl Played {
    /// All that happened.
    pub(super) fn log(&self) -> &[(i64, String)] {
        self.scenes.last().map_or(&[], |scene| &scene.log)
    }
}

/// Plays it.
pub(super) fn play() -> anyhow::Result<Played> {
    let jobs = JOBS.map(|(name, queue, arrival, duration, replicas, least, cores)| {
        json!({"name": name, "queue": queue, "arrival": arrival, "duration": duration, "tasks": [
            {"name": "pod", "replicas": replicas, "minAvailable": least, "requests": {"cpu": cores.to_string()}}]})
    });
    let trace: Trace = serde_json::from_value(json!({
        "nodes": [{"name": "node", "count": NODES, "allocatable": {"cpu": CORES.to_string()}}],
        "queues": [{"name": "research"}, {"name": "production"}], "jobs": jobs,
    }))
    .context("the demo's own trace")?;
    let options = SimulatorOptions {
        conf: Conf::read(CONF).context("the demo's own configuration")?,
        compat: Compat::EVICTD,
        period: Seconds::from_millis(1000),
    };
    let mut simulator = Simulator::new(&trace, &options);
    let mut stage = Stage::default();
    while simulator.step() {
        stage.look(&simulator);
    }
    stage.end(&simulator);
    let checks = stage.checks(simulator.ended());
    let report = Report {
        as_expected: checks.iter().all(|check| check.holds),
        checks,
        steps: stage.steps,
    };
    Ok(Played {
        scenes: stage.scenes,
        report,
    })
}

/// The job of a pod: `default/sweep-pod-3` is one of `sweep`.
fn job_of(pod: &str) -> &str {
    let name = pod.split_once('/').map_or(pod, |(_, name)| name);
    name.split_once('-').map_or(name, |(job, _)| job)
}

fn queue_of(job: &str) -> &'static str {
    let found = JOBS.iter().find(|own| own.0 == job);
    found.map_or("", |own| own.1)
}

#[derive(Default)]
struct Stage {
    scenes: Vec<Scene>,
    steps: Vec<Step>,
    log: Vec<(i64, String)>,
    /// Jobs that are known to have come, to wait and to have ended.
    come: BTreeSet<&'static str>,
    told: BTreeSet<String>,
    ended: BTreeSet<&'static str>,
}

impl Stage {
    /// Takes down what a session has done.
    fn look(&mut self, simulator: &Simulator<'_>) {
        let seconds = simulator.now().as_secs();
        let there: BTreeSet<&str> = simulator
            .pods()
            .map(|pod| job_of(&pod.metadata.name))
            .collect();
        for (name, queue, _, _, pods, _, cores) in JOBS {
            if there.contains(name) && self.come.insert(name) {
                let text = format!("{name} comes to {queue}: {pods} pods of {cores} cores");
                self.log.push((seconds, text));
            }
        }
        self.tell_ended(&there, seconds);
        let step = step(seconds, simulator);
        for (job, count) in by_job(&step.evicted) {
            let text = format!(
                "reclaim: {count} pods of {job} have to go, {} has more than its share",
                queue_of(job)
            );
            self.log.push((seconds, text));
        }
        for (job, count) in by_job(&step.bound) {
            self.log.push((seconds, starts(job, count)));
        }
        for (job, why) in &step.waiting {
            let promised = simulator
                .outcome()
                .pipelined
                .keys()
                .any(|pod| job_of(pod) == job);
            if !promised && self.told.insert(job.clone()) {
                self.log.push((seconds, format!("{job} waits: {why}")));
            }
        }
        self.steps.push(step);
        self.show(simulator);
    }

    /// A scene, if something has happened since the last one.
    fn show(&mut self, simulator: &Simulator<'_>) {
        let before = self.scenes.last().map_or(0, |scene| scene.log.len());
        if self.log.len() > before {
            self.scenes.push(self.scene(simulator));
        }
    }

    /// After the last session what runs comes to its end.
    fn end(&mut self, simulator: &Simulator<'_>) {
        let there = simulator.pods().map(|pod| job_of(&pod.metadata.name));
        self.tell_ended(&there.collect(), simulator.now().as_secs());
        self.show(simulator);
    }

    fn tell_ended(&mut self, there: &BTreeSet<&str>, seconds: i64) {
        for name in &self.come {
            if !there.contains(name) && self.ended.insert(name) {
                self.log.push((seconds, format!("{name} has ended")));
            }
        }
    }

    fn scene(&self, simulator: &Simulator<'_>) -> Scene {
        let nodes = (0..NODES).map(|index| (format!("node-{index}"), Vec::new()));
        let mut nodes: BTreeMap<String, Vec<Block>> = nodes.collect();
        let mut queues: BTreeMap<&'static str, Line> = BTreeMap::new();
        for (_, queue, ..) in JOBS {
            queues.entry(queue).or_default().deserves = deserved(simulator.outcome(), queue);
        }
        for pod in simulator
            .pods()
            .filter(|pod| pod.status.phase != "Succeeded")
        {
            let job = job_of(&pod.metadata.name);
            let Some((_, queue, .., cores)) = JOBS.iter().find(|own| own.0 == job) else {
                continue;
            };
            let line = queues.entry(queue).or_default();
            match nodes.get_mut(&pod.spec.node_name) {
                Some(blocks) => {
                    line.holds += cores;
                    blocks.push(Block {
                        pod: pod.metadata.name.clone(),
                        queue,
                        cores: *cores,
                        going: pod.metadata.deletion_timestamp.is_some(),
                    });
                }
                None => line.waits += cores,
            }
        }
        Scene {
            seconds: simulator.now().as_secs(),
            nodes,
            queues,
            log: self.log.clone(),
        }
    }

    /// Whether all that was expected has happened.
    fn checks(&self, ended: usize) -> Vec<Check> {
        let bound = |job: &str| -> Vec<usize> {
            let counts = self.steps.iter().map(|step| by_job(&step.bound));
            counts
                .filter_map(|counts| counts.get(job).copied())
                .collect()
        };
        let evicted: Vec<&String> = self.steps.iter().flat_map(|step| &step.evicted).collect();
        let of_sweep = evicted.iter().all(|pod| job_of(pod) == "sweep");
        let told = |job: &str| {
            let mut told = self.steps.iter().filter_map(|step| step.waiting.get(job));
            told.any(|why| why.contains("no room now for 2 pods"))
        };
        [
            (
                "research fills the cluster",
                bound("sweep").first() == Some(&8),
            ),
            (
                "reclaim takes the fewest pods that make room for the gang",
                evicted.len() == 3 && of_sweep,
            ),
            ("the gang starts whole", bound("train") == [3]),
            (
                "a gang that fits nowhere waits whole, and is told why",
                told("report") && bound("report").is_empty(),
            ),
            ("all others come to their end", ended == JOBS.len() - 1),
        ]
        .map(|(what, holds)| Check { what, holds })
        .into()
    }
}

fn starts(job: &str, count: usize) -> String {
    let gang = JOBS
        .iter()
        .any(|own| own.0 == job && own.5 as usize == count);
    if gang {
        return format!("{job} starts: all {count} pods of the gang at once");
    }
    format!("{count} pods of {job} start")
}

fn by_job(pods: &[String]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for pod in pods {
        *counts.entry(job_of(pod)).or_default() += 1;
    }
    counts
}

fn step(seconds: i64, simulator: &Simulator<'_>) -> Step {
    let outcome = simulator.outcome();
    let evicted = outcome.evicted.iter().map(|own| own.pod.clone());
    let has_node = simulator
        .pods()
        .filter(|pod| !pod.spec.node_name.is_empty());
    let there: BTreeSet<&str> = has_node.map(|pod| job_of(&pod.metadata.name)).collect();
    let waiting = outcome.pod_groups.iter().filter_map(|(key, group)| {
        let job = key.split_once('/').map_or(key.as_str(), |(_, name)| name);
        let mut conditions = group.conditions.iter();
        let why = conditions.find(|own| own.kind == "Unschedulable")?;
        (!there.contains(job)).then(|| (job.to_owned(), why.message.clone()))
    });
    Step {
        seconds,
        bound: outcome.bound.clone(),
        evicted: evicted.collect(),
        waiting: waiting.collect(),
    }
}

/// What a queue deserves, in cores.
fn deserved(outcome: &Outcome, queue: &str) -> f64 {
    let own = outcome
        .queues_at_open
        .as_ref()
        .and_then(|own| own.get(queue));
    let deserved = own.and_then(|own| own.deserved.as_ref());
    let cpu = deserved.and_then(|amounts| amounts.get("cpu"));
    cpu.map_or(0.0, |millicores| millicores.0 / 1000.0)
}
