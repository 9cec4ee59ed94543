//! No sequence of sessions evicts and starts the same jobs for ever: random traces with gangs, elastic jobs and all orders of actions.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "in a test a panic is the report; the command that plays many prints its figures"
)]

mod wide;

use evictd_batch::conf::Conf;
use evictd_batch_objects::Compat;
use evictd_batch_trace::{QueueReport, Report, Seconds, SimulatorOptions, Trace, play};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::ops::Range;

/// How queues share the cluster.
const SHARES: [&str; 5] = [
    "{name: proportion}",
    "{name: capacity}",
    "{name: capacity, enableHierarchy: true}",
    "{name: capacity, enableHierarchy: true, arguments: {ancestorReclaimLevel: 1}}",
    "{name: capacity, enableHierarchy: true, arguments: {ancestorReclaimLevel: 2}}",
];

const ACTIONS: [[&str; 3]; 6] = [
    ["allocate", "preempt", "reclaim"],
    ["allocate", "reclaim", "preempt"],
    ["preempt", "allocate", "reclaim"],
    ["preempt", "reclaim", "allocate"],
    ["reclaim", "allocate", "preempt"],
    ["reclaim", "preempt", "allocate"],
];

/// Those that evict for whole gangs, alone and beside the others.
const GANG_ACTIONS: [[&str; 3]; 12] = [
    ["allocate", "gangpreempt", "gangreclaim"],
    ["allocate", "gangreclaim", "gangpreempt"],
    ["gangpreempt", "allocate", "gangreclaim"],
    ["gangpreempt", "gangreclaim", "allocate"],
    ["gangreclaim", "allocate", "gangpreempt"],
    ["gangreclaim", "gangpreempt", "allocate"],
    ["allocate", "preempt", "gangreclaim"],
    ["preempt", "gangreclaim", "allocate"],
    ["gangreclaim", "allocate", "preempt"],
    ["allocate", "gangpreempt", "reclaim"],
    ["reclaim", "gangpreempt", "allocate"],
    ["gangpreempt", "allocate", "reclaim"],
];

#[derive(Debug, Clone)]
struct Case {
    conf: String,
    trace: Value,
}

prop_compose! {
    fn confs(all: &'static [[&'static str; 3]])(
        share in prop::sample::select(&SHARES),
        actions in prop::sample::select(all),
        count in 2_usize..=3,
        enqueue in any::<bool>(),
        drf in any::<bool>(),
        overcommit in any::<bool>(),
    ) -> String {
        let mut all: Vec<&str> = actions.to_vec();
        // One of the two that evict may be absent.
        if count == 2 {
            let last = all.iter().rposition(|action| *action != "allocate").unwrap();
            all.remove(last);
        }
        if enqueue {
            all.insert(0, "enqueue");
        }
        all.push("backfill");
        let mut conf = format!("actions: \"{}\"\ntiers:\n- plugins:\n", all.join(", "));
        conf.push_str("  - name: priority\n  - name: gang\n  - name: conformance\n- plugins:\n");
        if overcommit {
            conf.push_str("  - name: overcommit\n");
        }
        if drf {
            conf.push_str("  - {name: drf, enablePreemptable: false}\n");
        }
        writeln!(conf, "  - name: predicates\n  - {share}\n  - name: nodeorder").unwrap();
        conf
    }
}

prop_compose! {
    /// Leaf queues below two parents. Plugins without a hierarchy see them side by side.
    fn queue(index: usize)(
        weight in 1_u32..4,
        parent in prop::sample::select(&["a", "b"]),
        cpu in prop::option::weighted(0.8, 1_u32..8),
        memory in prop::option::weighted(0.4, 4_u32..40),
        guarantee in prop::option::weighted(0.1, 1_u32..3),
        capability in prop::option::weighted(0.1, 8_u32..16),
    ) -> Value {
        let mut queue = json!({"name": format!("q{index}"), "parent": parent, "weight": weight});
        let mut deserved = json!({});
        if let Some(cpu) = cpu {
            deserved["cpu"] = json!(cpu);
        }
        if let Some(memory) = memory {
            deserved["memory"] = json!(format!("{memory}Gi"));
        }
        queue["deserved"] = deserved;
        if let Some(cpu) = guarantee {
            queue["guarantee"] = json!({"cpu": cpu});
        }
        if let Some(cpu) = capability {
            queue["capability"] = json!({"cpu": cpu});
        }
        queue
    }
}

prop_compose! {
    fn job(index: usize)(
        queue in 0_usize..3,
        arrival in 0_u32..60,
        duration in 5_u32..300,
        pods in 1_u32..6,
        least in 1_u32..6,
        cpu in 1_u32..5,
        memory in 1_u32..8,
        priority in prop::sample::select(&[0, 0, 0, 10]),
    ) -> Value {
        json!({"name": format!("j{index}"), "queue": format!("q{queue}"), "arrival": arrival,
            "duration": duration, "priority": priority, "tasks": [{"name": "w", "replicas": pods,
            "minAvailable": least.min(pods), "requests": {"cpu": cpu, "memory": format!("{memory}Gi")}}]})
    }
}

prop_compose! {
    fn cases(actions: &'static [[&'static str; 3]])(
        conf in confs(actions),
        nodes in 1_u32..4,
        cores in prop::sample::select(&[4_u32, 8]),
        queues in (queue(0), queue(1), queue(2)),
        of_parents in (1_u32..12, 1_u32..12),
        jobs in (2_usize..7).prop_flat_map(|count| (0..count).map(job).collect::<Vec<_>>()),
    ) -> Case {
        let trace = json!({
            "nodes": [{"name": "node", "count": nodes, "allocatable": {"cpu": cores, "memory": "32Gi"}}],
            "terminationSeconds": 3,
            "queues": [
                {"name": "a", "deserved": {"cpu": of_parents.0}}, {"name": "b", "deserved": {"cpu": of_parents.1}},
                queues.0, queues.1, queues.2,
            ],
            "jobs": jobs,
        });
        Case { conf, trace }
    }
}

/// Which nodes of a job have to be near to each other, if any.
const TOPOLOGIES: [&str; 5] = [
    "null",
    "null",
    r#"{"highestTierAllowed": 1}"#,
    r#"{"highestTierAllowed": 2}"#,
    r#"{"mode": "soft", "highestTierAllowed": 1}"#,
];

prop_compose! {
    /// The same with racks in a row, and jobs that ask for near nodes.
    fn near_cases(actions: &'static [[&'static str; 3]])(
        Case { conf, mut trace } in cases(actions),
        racks in prop::collection::vec(1_u32..4, 1..4),
        topologies in prop::collection::vec(prop::sample::select(&TOPOLOGIES), 6),
    ) -> Case {
        let allocatable = trace["nodes"][0]["allocatable"].take();
        let name = |kind: &str, index: usize| format!("{kind}-{index}");
        let names = |kind: &str| (0..racks.len()).map(|index| name(kind, index)).collect::<Vec<_>>();
        let nodes = racks.iter().zip(names("node"));
        trace["nodes"] = nodes
            .map(|(count, name)| json!({"name": name, "count": count, "allocatable": allocatable}))
            .collect();
        let groups = names("rack").into_iter().zip(names("node"));
        let groups = groups.map(|(rack, node)| json!({"name": rack, "tier": 1, "nodes": [node]}));
        let row = json!({"name": "row", "tier": 2, "hyperNodes": names("rack")});
        trace["hyperNodes"] = groups.chain([row]).collect();
        for (job, topology) in trace["jobs"].as_array_mut().unwrap().iter_mut().zip(topologies) {
            job["networkTopology"] = serde_json::from_str(topology).unwrap();
        }
        let plugin = "  - name: predicates\n";
        let conf = conf.replace(plugin, &format!("{plugin}  - name: network-topology-aware\n"));
        Case { conf, trace }
    }
}

fn played(trace: &Value, conf: &str, compat: Compat) -> Report {
    let trace: Trace = serde_json::from_value(trace.clone()).unwrap();
    assert_eq!(trace.mistakes(), []);
    let options = SimulatorOptions {
        conf: Conf::read(conf).unwrap(),
        compat,
        period: Seconds::from_millis(1000),
    };
    play(&trace, &options, &mut |_, _| ())
}

const fn evictions(report: &Report) -> u64 {
    report.preempted_pods + report.reclaimed_pods
}

/// The results of a trace in both forms.
struct Both {
    ours: Report,
    volcano: Report,
}

impl Both {
    fn of(case: &Case) -> Self {
        Self {
            ours: played(&case.trace, &case.conf, Compat::EVICTD),
            volcano: played(&case.trace, &case.conf, Compat::VOLCANO),
        }
    }

    const fn evictions(&self) -> (u64, u64) {
        (evictions(&self.ours), evictions(&self.volcano))
    }

    /// Whether fewer jobs end than under Volcano's rules, or jobs wait longer for their start.
    fn is_later(&self) -> bool {
        let waits = |report: &Report| report.wait_seconds.as_ref().map_or(0.0, |wait| wait.mean);
        self.ours.finished < self.volcano.finished
            || self.ours.finished == self.volcano.finished
                && waits(&self.ours) > waits(&self.volcano) + 1.0
    }
}

/// The mistake of a trace.
fn mistake(case: &Case, Both { ours, volcano }: &Both) -> Option<String> {
    let counts = (evictions(ours), evictions(volcano));
    if ours.broken_off {
        return Some("it goes in circles".to_owned());
    }
    // A zone that is open for some hours may have been open for the other form alone.
    let has_zones = case.conf.contains("tdm.");
    let left = ours.unfinished.iter().find(|left| {
        let elsewhere = volcano.unfinished.iter().any(|other| other.job == left.job);
        !elsewhere && !has_zones || ends_alone(case, &left.job, ours.makespan_seconds)
    });
    let stuck = left.map(|left| format!("{} does not end: {}", left.job, left.reason));
    let in_vain = || is_clearly_more(counts) && !helps(ours, volcano) && !would_help(case);
    stuck.or_else(|| in_vain().then(|| "no queue waits less for its evictions".to_owned()))
}

/// Whether a trace has clearly more evictions than under Volcano's rules.
const fn is_clearly_more((ours, volcano): (u64, u64)) -> bool {
    ours > 2 * volcano + 8
}

/// Whether the jobs of some queue start earlier than under Volcano's rules, or more jobs end.
fn helps(ours: &Report, volcano: &Report) -> bool {
    let mut queues = ours.queues.iter();
    ours.finished > volcano.finished
        || queues.any(|(name, queue)| {
            let mean = |queue: &QueueReport| queue.wait_seconds.as_ref().map(|wait| wait.mean);
            let waits = mean(queue).zip(mean(&volcano.queues[name]));
            waits.is_some_and(|(ours, other)| ours < other)
        })
}

/// Whether evictions help if pods terminate at once. No session knows that pods end sooner than their victims terminate.
fn would_help(case: &Case) -> bool {
    let mut case = case.clone();
    case.trace["terminationSeconds"] = json!(1);
    let both = Both::of(&case);
    !is_clearly_more(both.evictions()) || helps(&both.ours, &both.volcano)
}

/// Whether a job ends in one of the forms if it comes to the empty cluster at some time. Hours of zones have passed by then.
fn ends_alone(case: &Case, job: &str, since: f64) -> bool {
    let mut trace = case.trace.clone();
    let jobs = trace["jobs"].as_array_mut().unwrap();
    jobs.retain(|other| format!("default/{}", other["name"].as_str().unwrap()) == job);
    for alone in jobs {
        alone["arrival"] = json!(alone["arrival"].as_f64().unwrap() + since);
    }
    let ends = |compat| played(&trace, &case.conf, compat).finished == 1;
    ends(Compat::EVICTD) || ends(Compat::VOLCANO)
}

#[test]
fn no_trace_goes_in_circles_and_every_job_that_can_end_does() {
    no_circles("traces", &cases(&ACTIONS), 200);
}

#[test]
fn no_trace_with_actions_for_gangs_goes_in_circles() {
    no_circles("traces with gang actions", &cases(&GANG_ACTIONS), 60);
}

#[test]
fn no_trace_of_jobs_on_near_nodes_goes_in_circles() {
    no_circles("traces with HyperNodes", &near_cases(&ACTIONS), 40);
    let name = "traces with HyperNodes and gang actions";
    no_circles(name, &near_cases(&GANG_ACTIONS), 40);
}

#[test]
fn no_trace_of_many_shapes_goes_in_circles() {
    no_circles("traces of many shapes", &wide::cases(), 60);
}

/// Each was once among those with a mistake: a configuration, and a trace in the line after it.
#[test]
fn traces_that_were_found_with_a_mistake_have_none() {
    let mut conf = String::new();
    for line in include_str!("found.txt").lines() {
        if !line.starts_with('{') {
            conf.push_str(line);
            conf.push('\n');
            continue;
        }
        let case = Case {
            conf: std::mem::take(&mut conf),
            trace: serde_json::from_str(line).unwrap(),
        };
        assert_eq!(mistake(&case, &Both::of(&case)), None, "{}", case.conf);
    }
}

/// The sums over many traces.
#[derive(Default)]
struct Sums {
    circles: [u32; 2],
    evictions: (u64, u64),
    clearly_more: u32,
    later: u32,
}

/// The traces that are played: `EVICTD_TRACES` is their number, or a part of them such as `3000..6000`.
fn numbers(count: usize) -> Range<usize> {
    let Ok(asked) = std::env::var("EVICTD_TRACES") else {
        return 0..count;
    };
    let (from, to) = asked.split_once("..").unwrap_or(("0", &asked));
    from.parse().unwrap()..to.parse().unwrap()
}

/// Plays so many traces, or those that are asked for; always the same ones.
fn no_circles(name: &str, strategy: &impl Strategy<Value = Case>, count: usize) {
    let numbers = numbers(count);
    let count = numbers.len();
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let (mut sums, mut mistakes) = (Sums::default(), Vec::new());
    for number in 0..numbers.end {
        let case = strategy.new_tree(&mut runner).unwrap().current();
        if number < numbers.start {
            continue;
        }
        let both = Both::of(&case);
        let (ours, other) = both.evictions();
        sums.circles[0] += u32::from(both.ours.broken_off);
        sums.circles[1] += u32::from(both.volcano.broken_off);
        sums.evictions.0 += ours;
        sums.evictions.1 += other;
        sums.clearly_more += u32::from(is_clearly_more((ours, other)));
        sums.later += u32::from(both.is_later());
        if let Some(wrong) = mistake(&case, &both) {
            let Case { conf, trace } = case;
            mistakes.push(format!(
                "{number}: {wrong}; {ours} evictions, volcano {other}\n{conf}\n{trace}"
            ));
        }
    }
    let Sums {
        circles: [our_circles, other_circles],
        evictions: (ours, other),
        clearly_more,
        later,
    } = sums;
    // The figures of the command that plays many.
    println!(
        "{count} {name}: {our_circles} circles, volcano {other_circles}; {ours} evictions, volcano {other}; \
         {clearly_more} traces with clearly more; {later} traces with a longer wait"
    );
    assert!(
        mistakes.is_empty(),
        "{} of {count} {name}:\n{}",
        mistakes.len(),
        mistakes.join("\n")
    );
    assert!(ours <= other, "{ours} evictions, volcano {other}");
}

/// A gang that holds the whole cluster, more than its queue deserves, and a small job of another queue that is owed room.
#[test]
fn a_gang_above_its_queues_share_and_an_owner_do_not_reclaim_from_each_other_for_ever() {
    let task = |replicas: u32, memory: &str| {
        json!([{"name": "w", "replicas": replicas, "minAvailable": replicas,
            "requests": {"cpu": 4, "memory": memory}}])
    };
    let trace = json!({
        "nodes": [{"name": "n", "count": 2, "allocatable": {"cpu": 8, "memory": "64Gi"}}],
        "queues": [
            {"name": "q0", "weight": 4, "deserved": {"cpu": 5, "memory": "42Gi"}},
            {"name": "q2", "weight": 4, "deserved": {"cpu": 5}},
        ],
        "jobs": [
            {"name": "gang", "queue": "q0", "arrival": 0, "duration": 30, "tasks": task(4, "1Gi")},
            {"name": "owner", "queue": "q2", "arrival": 1, "duration": 3000, "tasks": task(1, "2Gi")},
        ],
    });
    for actions in ACTIONS {
        for enqueue in ["", "enqueue, "] {
            let conf = format!(
                "actions: \"{enqueue}{}\"\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n- plugins:\n  \
                 - name: predicates\n  - name: capacity\n  - name: nodeorder\n",
                actions.join(", ")
            );
            let report = played(&trace, &conf, Compat::EVICTD);
            assert_eq!(report.finished, 2, "{conf}");
            assert!(evictions(&report) <= 4, "{conf}: {}", evictions(&report));
        }
    }
}

/// Three nodes of 4 cores hold three tasks of 3 cores, so that a gang of four never starts.
#[test]
fn a_gang_that_the_nodes_cannot_hold_keeps_no_other_queue_waiting() {
    let tasks = |replicas: u32, least: u32, cpu: u32| json!([{"name": "w", "replicas": replicas, "minAvailable": least, "requests": {"cpu": cpu}}]);
    let trace = json!({
        "nodes": [{"name": "node", "count": 3, "allocatable": {"cpu": 4, "memory": "32Gi"}}],
        "queues": [{"name": "q0", "weight": 3}, {"name": "q1", "weight": 3}],
        "jobs": [
            {"name": "never", "queue": "q1", "arrival": 0, "duration": 30, "tasks": tasks(5, 4, 3)},
            {"name": "whole", "queue": "q0", "arrival": 1, "duration": 30, "tasks": tasks(5, 3, 4)},
        ],
    });
    let conf = "actions: \"preempt, allocate, backfill\"\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n\
                - plugins:\n  - name: overcommit\n  - name: predicates\n  - name: proportion\n";
    assert_eq!(played(&trace, conf, Compat::EVICTD).finished, 1);
}

/// Room was freed for `gang`. By the time that it is free, the share of its queue is too small for the gang.
#[test]
fn room_that_a_job_may_not_use_is_promised_to_it_no_longer() {
    let job = |name: &str,
               queue: &str,
               (arrival, duration): (u32, u32),
               [replicas, least, cpu, memory]: [u32; 4]| {
        let requests = json!({"cpu": cpu, "memory": format!("{memory}Gi")});
        let task =
            json!({"name": "w", "replicas": replicas, "minAvailable": least, "requests": requests});
        json!({"name": name, "queue": queue, "arrival": arrival, "duration": duration, "tasks": [task]})
    };
    let trace = json!({
        "nodes": [{"name": "node", "count": 1, "allocatable": {"cpu": 8, "memory": "32Gi"}}],
        "queues": [
            {"name": "q0", "weight": 3}, {"name": "q1", "weight": 1},
            {"name": "q2", "weight": 3, "guarantee": {"cpu": 2}},
        ],
        "jobs": [
            job("never", "q0", (8, 96), [2, 2, 4, 1]),
            job("first", "q1", (15, 290), [3, 1, 4, 6]),
            job("gang", "q2", (50, 92), [2, 2, 3, 1]),
            job("other", "q0", (51, 53), [5, 1, 4, 7]),
        ],
        "terminationSeconds": 3,
    });
    let conf = "actions: \"enqueue, reclaim, preempt, allocate, backfill\"\ntiers:\n- plugins:\n  - name: priority\n  \
                - name: gang\n  - name: conformance\n- plugins:\n  - {name: drf, enablePreemptable: false}\n  \
                - name: predicates\n  - name: proportion\n  - name: nodeorder\n";
    assert_eq!(played(&trace, conf, Compat::EVICTD).finished, 3);
}

#[test]
fn a_job_of_high_priority_starts_at_once_in_a_full_queue() {
    let low = (0..8).map(|index| {
        json!({"name": format!("low-{index}"), "arrival": index, "duration": 36000, "priority": 1,
            "tasks": [{"name": "w", "replicas": 1, "requests": {"cpu": 2, "memory": "1Gi"}}]})
    });
    let mut jobs: Vec<Value> = low.collect();
    jobs.push(
        json!({"name": "high", "arrival": 100, "duration": 600, "priority": 1000,
        "tasks": [{"name": "w", "replicas": 2, "requests": {"cpu": 2, "memory": "1Gi"}}]}),
    );
    let trace = json!({
        "nodes": [{"name": "n", "count": 2, "allocatable": {"cpu": 8, "memory": "32Gi"}}], "jobs": jobs,
    });
    let conf = "actions: \"enqueue, allocate, preempt, backfill\"\ntiers:\n- plugins:\n  - name: priority\n  \
                - {name: gang, enablePreemptable: false}\n  - name: conformance\n- plugins:\n  - name: overcommit\n  \
                - {name: drf, enablePreemptable: false}\n  - name: predicates\n  - name: proportion\n  - name: nodeorder\n";
    let report = played(&trace, conf, Compat::EVICTD);
    assert_eq!((report.finished, report.preempted_pods), (9, 2));
    let volcano = played(&trace, conf, Compat::VOLCANO);
    // There it waits for the end of the others.
    assert_eq!(volcano.preempted_pods, 0);
    assert!(report.queues["default"].finished == 9 && volcano.wait_seconds.unwrap().max > 30_000.0);
}
