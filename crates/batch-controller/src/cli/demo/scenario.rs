//! The scenario of the demo: its jobs, the log of its sessions, and the checks of the result.

use anyhow::Context;
use evictd_batch::conf::Conf;
use evictd_batch::session::Outcome;
use evictd_batch_objects::{Compat, PodGroupConditionType};
use evictd_batch_trace::{Seconds, Simulator, SimulatorOptions, Trace};
use evictd_pod::wire::PodPhase;
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

/// The cores of a node.
pub(super) const CORES: u32 = 4;
const NODES: u32 = 4;

/// A job of the scenario, with times in seconds.
struct DemoJob {
    name: &'static str,
    queue: &'static str,
    arrival: u32,
    duration: u32,
    pods: u32,
    min_available: u32,
    cores_per_pod: u32,
}

const JOBS: [DemoJob; 3] = [
    DemoJob {
        name: "sweep",
        queue: "research",
        arrival: 0,
        duration: 45,
        pods: 8,
        min_available: 1,
        cores_per_pod: 2,
    },
    DemoJob {
        name: "train",
        queue: "production",
        arrival: 10,
        duration: 20,
        pods: 3,
        min_available: 3,
        cores_per_pod: 2,
    },
    DemoJob {
        name: "report",
        queue: "production",
        arrival: 40,
        duration: 10,
        pods: 2,
        min_available: 2,
        cores_per_pod: 5,
    },
];

/// A pod on a node.
#[derive(Debug, Clone)]
pub(super) struct PodOnNode {
    pub(super) name: String,
    pub(super) queue: &'static str,
    pub(super) cores: u32,
    pub(super) is_terminating: bool,
}

/// The cores of a queue.
#[derive(Debug, Clone, Default)]
pub(super) struct QueueCores {
    pub(super) allocated: u32,
    pub(super) pending: u32,
    /// As of the last session.
    pub(super) deserved: f64,
}

/// A line of the log.
#[derive(Debug, Clone)]
pub(super) struct LogLine {
    pub(super) seconds: i64,
    pub(super) text: String,
}

/// The cluster after a session.
#[derive(Debug, Clone)]
pub(super) struct Scene {
    pub(super) seconds: i64,
    pub(super) nodes: BTreeMap<String, Vec<PodOnNode>>,
    pub(super) queues: BTreeMap<&'static str, QueueCores>,
    /// The log so far.
    pub(super) log: Vec<LogLine>,
}

/// A session.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Step {
    seconds: i64,
    bound: Vec<String>,
    evicted: Vec<String>,
    /// Jobs without a pod on a node, with the reason.
    waiting: BTreeMap<String, String>,
}

/// An expectation.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    pub(super) what: &'static str,
    pub(super) holds: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    as_expected: bool,
    pub(super) checks: Vec<Check>,
    steps: Vec<Step>,
}

/// A run of the scenario.
pub(super) struct Recording {
    pub(super) scenes: Vec<Scene>,
    pub(super) report: Report,
}

impl Recording {
    /// The whole log.
    pub(super) fn log(&self) -> &[LogLine] {
        self.scenes.last().map_or(&[], |scene| &scene.log)
    }
}

pub(super) fn run() -> anyhow::Result<Recording> {
    let jobs: Vec<_> = JOBS
        .iter()
        .map(|job| {
            let cpu = job.cores_per_pod.to_string();
            json!({"name": job.name, "queue": job.queue, "arrival": job.arrival, "duration": job.duration, "tasks": [
                {"name": "pod", "replicas": job.pods, "minAvailable": job.min_available, "requests": {"cpu": cpu}}]})
        })
        .collect();
    let trace: Trace = serde_json::from_value(json!({
        "nodes": [{"name": "node", "count": NODES, "allocatable": {"cpu": CORES.to_string()}}],
        "queues": [{"name": "research"}, {"name": "production"}], "jobs": jobs,
    }))
    .context("the trace of the demo")?;
    let options = SimulatorOptions {
        conf: Conf::read(CONF).context("the configuration of the demo")?,
        compat: Compat::EVICTD,
        period: Seconds::from_millis(1000),
    };
    let mut simulator = Simulator::new(&trace, &options);
    let mut recorder = Recorder::default();
    while simulator.step() {
        recorder.record(&simulator);
    }
    recorder.record_end(&simulator);
    let checks = recorder.checks(simulator.ended());
    let report = Report {
        as_expected: checks.iter().all(|check| check.holds),
        checks,
        steps: recorder.steps,
    };
    Ok(Recording {
        scenes: recorder.scenes,
        report,
    })
}

/// The job of a pod: `default/sweep-pod-3` belongs to `sweep`.
fn job_name(pod: &str) -> &str {
    let name = pod.split_once('/').map_or(pod, |(_, name)| name);
    name.split_once('-').map_or(name, |(job, _)| job)
}

fn find_job(name: &str) -> Option<&'static DemoJob> {
    JOBS.iter().find(|job| job.name == name)
}

#[derive(Default)]
struct Recorder {
    scenes: Vec<Scene>,
    steps: Vec<Step>,
    log: Vec<LogLine>,
    /// Jobs whose arrival is in the log.
    arrived: BTreeSet<&'static str>,
    /// Jobs whose waiting is in the log.
    waiting: BTreeSet<String>,
    /// Jobs whose end is in the log.
    ended: BTreeSet<&'static str>,
}

impl Recorder {
    /// Records a session.
    fn record(&mut self, simulator: &Simulator<'_>) {
        let seconds = simulator.now().as_secs();
        let present: BTreeSet<&str> = simulator
            .pods()
            .map(|pod| job_name(&pod.metadata.name))
            .collect();
        for job in &JOBS {
            if present.contains(job.name) && self.arrived.insert(job.name) {
                let DemoJob {
                    name,
                    queue,
                    pods,
                    cores_per_pod,
                    ..
                } = job;
                self.add_line(
                    seconds,
                    format!("{name} arrives in {queue}: {pods} pods of {cores_per_pod} cores"),
                );
            }
        }
        self.record_ended(&present, seconds);
        let step = step(seconds, simulator);
        for (job, count) in by_job(&step.evicted) {
            let queue = find_job(job).map_or("", |job| job.queue);
            self.add_line(
                seconds,
                format!("reclaim evicts {count} pods of {job}: {queue} has more than its share"),
            );
        }
        for (job, count) in by_job(&step.bound) {
            self.add_line(seconds, start_message(job, count));
        }
        for (job, reason) in &step.waiting {
            let is_pipelined = simulator
                .outcome()
                .pipelined
                .keys()
                .any(|pod| job_name(pod) == job);
            if !is_pipelined && self.waiting.insert(job.clone()) {
                self.add_line(seconds, format!("{job} waits: {reason}"));
            }
        }
        self.steps.push(step);
        self.add_scene(simulator);
    }

    fn add_line(&mut self, seconds: i64, text: String) {
        self.log.push(LogLine { seconds, text });
    }

    /// Adds a scene if the log has new lines.
    fn add_scene(&mut self, simulator: &Simulator<'_>) {
        let shown = self.scenes.last().map_or(0, |scene| scene.log.len());
        if self.log.len() > shown {
            self.scenes.push(self.scene(simulator));
        }
    }

    /// Records the jobs that end after the last session.
    fn record_end(&mut self, simulator: &Simulator<'_>) {
        let present = simulator.pods().map(|pod| job_name(&pod.metadata.name));
        self.record_ended(&present.collect(), simulator.now().as_secs());
        self.add_scene(simulator);
    }

    fn record_ended(&mut self, present: &BTreeSet<&str>, seconds: i64) {
        // A job without pods has ended: the simulator removes ended pods.
        for job in self.arrived.clone() {
            if !present.contains(job) && self.ended.insert(job) {
                self.add_line(seconds, format!("{job} has ended"));
            }
        }
    }

    fn scene(&self, simulator: &Simulator<'_>) -> Scene {
        let nodes = (0..NODES).map(|index| (format!("node-{index}"), Vec::new()));
        let mut nodes: BTreeMap<String, Vec<PodOnNode>> = nodes.collect();
        let mut queues: BTreeMap<&'static str, QueueCores> = BTreeMap::new();
        for job in &JOBS {
            queues.entry(job.queue).or_default().deserved =
                deserved_cores(simulator.outcome(), job.queue);
        }
        for pod in simulator
            .pods()
            .filter(|pod| pod.status.phase != PodPhase::Succeeded)
        {
            let Some(job) = find_job(job_name(&pod.metadata.name)) else {
                continue;
            };
            let queue = queues.entry(job.queue).or_default();
            match nodes.get_mut(&pod.spec.node_name) {
                Some(pods) => {
                    queue.allocated += job.cores_per_pod;
                    pods.push(PodOnNode {
                        name: pod.metadata.name.clone(),
                        queue: job.queue,
                        cores: job.cores_per_pod,
                        is_terminating: pod.metadata.deletion_timestamp.is_some(),
                    });
                }
                None => queue.pending += job.cores_per_pod,
            }
        }
        Scene {
            seconds: simulator.now().as_secs(),
            nodes,
            queues,
            log: self.log.clone(),
        }
    }

    fn checks(&self, ended: usize) -> Vec<Check> {
        let bound = |job: &str| -> Vec<usize> {
            self.steps
                .iter()
                .filter_map(|step| by_job(&step.bound).get(job).copied())
                .collect()
        };
        let evicted: Vec<&String> = self.steps.iter().flat_map(|step| &step.evicted).collect();
        let only_sweep = evicted.iter().all(|pod| job_name(pod) == "sweep");
        let report_has_a_reason = self
            .steps
            .iter()
            .filter_map(|step| step.waiting.get("report"))
            .any(|reason| reason.contains("no room now for 2 pods"));
        [
            (
                "research fills the cluster",
                bound("sweep").first() == Some(&8),
            ),
            (
                "reclaim evicts no more pods than the gang needs",
                evicted.len() == 3 && only_sweep,
            ),
            ("the gang starts as a whole", bound("train") == [3]),
            (
                "a gang that fits nowhere waits as a whole, and its condition says why",
                report_has_a_reason && bound("report").is_empty(),
            ),
            ("all other jobs end", ended == JOBS.len() - 1),
        ]
        .map(|(what, holds)| Check { what, holds })
        .into()
    }
}

fn start_message(job: &str, count: usize) -> String {
    let is_gang = find_job(job).is_some_and(|job| job.min_available as usize == count);
    if is_gang {
        return format!("{job} starts: all {count} pods of the gang at once");
    }
    format!("{count} pods of {job} start")
}

fn by_job(pods: &[String]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for pod in pods {
        *counts.entry(job_name(pod)).or_default() += 1;
    }
    counts
}

fn step(seconds: i64, simulator: &Simulator<'_>) -> Step {
    let outcome = simulator.outcome();
    let evicted = outcome.evicted.iter().map(|eviction| eviction.pod.clone());
    let on_nodes: BTreeSet<&str> = simulator
        .pods()
        .filter(|pod| !pod.spec.node_name.is_empty())
        .map(|pod| job_name(&pod.metadata.name))
        .collect();
    let waiting = outcome.pod_groups.iter().filter_map(|(key, group)| {
        let job = key.split_once('/').map_or(key.as_str(), |(_, name)| name);
        let unschedulable = group
            .conditions
            .iter()
            .find(|condition| condition.kind == PodGroupConditionType::Unschedulable)?;
        (!on_nodes.contains(job)).then(|| (job.to_owned(), unschedulable.message.clone()))
    });
    Step {
        seconds,
        bound: outcome.bound.clone(),
        evicted: evicted.collect(),
        waiting: waiting.collect(),
    }
}

fn deserved_cores(outcome: &Outcome, queue: &str) -> f64 {
    let queues = outcome.queues_at_open.as_ref();
    let deserved = queues
        .and_then(|queues| queues.get(queue))
        .and_then(|queue| queue.deserved.as_ref());
    let cpu = deserved.and_then(|amounts| amounts.get("cpu"));
    cpu.map_or(0.0, |millicores| millicores.0 / 1000.0)
}
