//! Makes a trace that is like those of real batch clusters: most jobs are small and short, and a few large and long ones make
//! most of the work; they come by day rather than by night, and to some queues much more than to others.

use super::random::Random;
use super::wire::{Job, Nodes, Queue, Seconds, Task, Trace, in_seconds};
use evictd_pod::Quantity;
use evictd_pod::wire::ResourceList;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The options of a generated trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recipe {
    /// How many jobs come.
    pub jobs: u32,
    /// Another seed makes another trace; the same one always the same.
    pub seed: u64,
    /// The work of all jobs as a part of the cluster's capacity while they arrive, above 0.
    pub load: f64,
}

/// The nodes: how many, with so many cores and so much memory for each core, in GiB.
const NODES: [(&str, u32, i64, i64); 2] = [("standard", 16, 32, 4), ("large", 2, 64, 8)];
/// The cores of all nodes.
const CORES: f64 = 16.0 * 32.0 + 2.0 * 64.0;
/// Queues with their weights, the parts of all jobs that come to them, and how many owners they have.
const QUEUES: [(&str, u32, f64, u32); 4] = [
    ("analytics", 1, 0.50, 12),
    ("research", 2, 0.28, 8),
    ("production", 4, 0.15, 3),
    ("interactive", 1, 0.07, 20),
];
/// How often a job has so many pods.
const SIZES: [(f64, u32); 8] = [
    (0.70, 1),
    (0.12, 2),
    (0.09, 4),
    (0.05, 8),
    (0.025, 16),
    (0.01, 32),
    (0.004, 64),
    (0.001, 128),
];
/// How often a pod asks for so many cores, and for so many GiB a core.
const PER_POD: [(f64, i64); 4] = [(0.4, 1), (0.3, 2), (0.2, 4), (0.1, 8)];
const PER_CORE: [(f64, i64); 3] = [(0.3, 1), (0.5, 2), (0.2, 4)];
/// From so many pods on they ask for at most two cores each.
const BIG: u32 = 64;
/// How often a job of several pods can start with half of them.
const ELASTIC: f64 = 0.15;
/// How often a job comes before others of its queue, and its priority.
const URGENT: [(f64, i32); 2] = [(0.9, 0), (0.1, 100)];
/// Durations are lognormal, in seconds: the median, the deviation of the logarithm, the shortest and the longest.
const MEDIAN: f64 = 300.0;
const SIGMA: f64 = 1.5;
const SHORTEST: f64 = 5.0;
const LONGEST: f64 = 21_600.0;
/// The rate of arrivals is `1 + SWING·cos` of the time since `PEAK`, with a period of a day.
const SWING: f64 = 0.5;
const PEAK: f64 = 14.0 * HOUR;
const HOUR: f64 = 3600.0;
const DAY: f64 = 24.0 * HOUR;

/// Generates a trace. Its [`Trace::statistics`] name the distributions, and the resulting figures.
pub fn generate(recipe: &Recipe) -> Trace {
    let mut random = Random::new(recipe.seed);
    let mut jobs: Vec<Job> = (0..recipe.jobs).map(|_| job(&mut random)).collect();
    let work: f64 = jobs.iter().map(core_seconds).sum();
    // The load fixes the time of all arrivals.
    let span = (work / (CORES * recipe.load)).max(1.0);
    let mut arrivals: Vec<u64> = (0..recipe.jobs)
        .map(|_| arrival(&mut random, span))
        .collect();
    arrivals.sort_unstable();
    for ((job, arrival), number) in jobs.iter_mut().zip(arrivals).zip(0..) {
        job.arrival = Seconds::from_millis(arrival * 1000);
        job.name = format!("job-{number:05}");
    }
    let nodes = NODES.map(|(name, count, cores, memory)| Nodes {
        name: name.to_owned(),
        count,
        allocatable: amounts(cores, cores * memory),
        ..Nodes::default()
    });
    let queues = QUEUES.map(|(name, weight, _, _)| Queue {
        name: name.to_owned(),
        weight,
        ..Queue::default()
    });
    Trace {
        description: "Made by evictd-batch simulate --generate.".to_owned(),
        statistics: json!({
            "drawnFrom": drawn_from(recipe),
            "measured": measured(&jobs, work, span),
        }),
        termination_seconds: Seconds::from_millis(5000),
        nodes: nodes.into(),
        hyper_nodes: Vec::new(),
        queues: queues.into(),
        jobs,
    }
}

fn amounts(cores: i64, gibibytes: i64) -> ResourceList {
    let mut list = ResourceList::default();
    list.insert("cpu", Quantity::count(cores));
    list.insert("memory", Quantity::bytes(gibibytes << 30));
    list
}

/// A job without name and arrival.
fn job(random: &mut Random) -> Job {
    let queues = QUEUES.map(|(name, _, part, owners)| (part, (name, owners)));
    let (queue, owners) = random.pick(&queues).unwrap_or((QUEUES[0].0, 1));
    // The first owner of a queue has half of its jobs, the second half of the rest, and so on.
    let owner = (0..owners).find(|_| random.part() < 0.5).unwrap_or(0);
    let replicas = random.pick(&SIZES).unwrap_or(1);
    let mut cores = random.pick(&PER_POD).unwrap_or(1);
    // Otherwise the largest jobs would not fit into the cluster at all.
    if replicas >= BIG {
        cores = cores.min(2);
    }
    let memory = cores * random.pick(&PER_CORE).unwrap_or(1);
    let elastic = replicas > 1 && random.part() < ELASTIC;
    let seconds = (MEDIAN * (SIGMA * random.normal()).exp()).clamp(SHORTEST, LONGEST);
    Job {
        owner: Some(format!("{queue}-{owner}")),
        queue: Some(queue.to_owned()),
        priority: random.pick(&URGENT).unwrap_or(0),
        duration: Seconds::from_millis(whole(seconds) * 1000),
        tasks: vec![Task {
            name: "worker".to_owned(),
            replicas,
            min_available: elastic.then_some(replicas / 2),
            requests: amounts(cores, memory),
            ..Task::default()
        }],
        ..Job::default()
    }
}

/// When a job comes, in whole seconds: any moment of the span is tried, and kept as often as the rate then is.
fn arrival(random: &mut Random, span: f64) -> u64 {
    loop {
        let at = random.part() * span;
        let rate = 1.0 + SWING * (std::f64::consts::TAU * (at - PEAK) / DAY).cos();
        if random.part() * (1.0 + SWING) < rate {
            return whole(at);
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "neither negative nor large"
)]
const fn whole(seconds: f64) -> u64 {
    seconds as u64
}

fn core_seconds(job: &Job) -> f64 {
    let cores = job.tasks.iter().map(|task| {
        let cores = task.requests.get("cpu").map_or(0, Quantity::value);
        f64::from(task.replicas) * f64::from(i32::try_from(cores).unwrap_or(i32::MAX))
    });
    cores.sum::<f64>() * in_seconds(job.duration.as_millis())
}

fn drawn_from(recipe: &Recipe) -> Value {
    let queues = QUEUES.map(|(name, weight, part, owners)| {
        json!({"name": name, "weight": weight, "partOfJobs": part, "owners": owners})
    });
    let table = |choices: &[(f64, i64)]| -> Vec<Value> {
        let rows = choices.iter();
        rows.map(|(part, what)| json!([what, part])).collect()
    };
    let sizes = SIZES.map(|(part, size)| (part, i64::from(size)));
    json!({
        "jobs": recipe.jobs, "seed": recipe.seed, "load": recipe.load,
        "arrivals": format!("Poisson, rate 1 + {SWING}·cos(2π(t - {} h)/24 h)", PEAK / HOUR),
        "durationSeconds": {"distribution": "lognormal", "median": MEDIAN, "sigma": SIGMA, "least": SHORTEST, "most": LONGEST},
        "podsPerJob": table(&sizes),
        "coresPerPod": table(&PER_POD), "fromPods": BIG, "mostCoresFromThere": 2,
        "gibibytesPerCore": table(&PER_CORE),
        "startsWithHalf": ELASTIC,
        "priorities": URGENT.map(|(part, priority)| json!([priority, part])),
        "queues": queues,
    })
}

fn measured(jobs: &[Job], work: f64, span: f64) -> Value {
    let mut durations: Vec<u64> = jobs
        .iter()
        .map(|job| job.duration.as_millis() / 1000)
        .collect();
    durations.sort_unstable();
    let rank = |percent: usize| {
        let rank = (durations.len() * percent).div_ceil(100).max(1);
        durations.get(rank - 1).copied().unwrap_or(0)
    };
    let mut works: Vec<f64> = jobs.iter().map(core_seconds).collect();
    works.sort_unstable_by(|one, other| other.total_cmp(one));
    let largest: f64 = works.iter().take(works.len().div_ceil(100)).sum();
    let mut sizes: BTreeMap<u32, u32> = BTreeMap::new();
    let mut by_queue: BTreeMap<&str, (u32, f64)> = BTreeMap::new();
    let mut hours = [0_u32; 24];
    for job in jobs {
        let pods = job.tasks.iter().map(|task| task.replicas).sum();
        *sizes.entry(pods).or_default() += 1;
        let queue = by_queue.entry(job.queue_name()).or_default();
        queue.0 += 1;
        queue.1 += core_seconds(job) / work;
        let hour = job.arrival.as_millis() / 3_600_000 % 24;
        hours[usize::try_from(hour).unwrap_or(0)] += 1;
    }
    let sizes = sizes.iter().map(|(size, count)| json!([size, count]));
    let by_queue = by_queue.iter().map(
        |(name, (count, part))| json!({"name": name, "jobs": count, "partOfWork": rounded(*part)}),
    );
    json!({
        "jobs": jobs.len(),
        "pods": jobs.iter().flat_map(|job| &job.tasks).map(|task| u64::from(task.replicas)).sum::<u64>(),
        "cores": CORES,
        "arrivalSpanSeconds": whole(span),
        "workCoreSeconds": whole(work),
        "partOfWorkOfLargestHundredth": rounded(largest / work),
        "durationSeconds": {"p50": rank(50), "p90": rank(90), "p99": rank(99), "most": rank(100)},
        "jobsByPods": sizes.collect::<Vec<_>>(),
        "arrivalsByHourOfDay": hours,
        "queues": by_queue.collect::<Vec<_>>(),
    })
}

fn rounded(part: f64) -> f64 {
    (part * 1000.0).round() / 1000.0
}
