//! Traces: what is played, what is told of it, and what holds for every trace.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_batch::conf::Conf;
use evictd_batch_objects::Compat;
use evictd_batch_trace::{
    Recipe, Report, Seconds, Simulator, SimulatorOptions, Trace, generate, play,
};
use proptest::prelude::*;
use serde_json::{Value, json};

const FIFO: &str = include_str!("../../../config/batch/fifo.conf");
const DRF: &str = include_str!("../../../config/batch/drf.conf");
const PROPORTION: &str = include_str!("../../../config/batch/proportion.conf");

fn trace(value: Value) -> Trace {
    let trace: Trace = serde_json::from_value(value).unwrap();
    assert_eq!(trace.mistakes(), []);
    trace
}

fn options(conf: &str, compat: Compat) -> SimulatorOptions {
    let conf = Conf::read(conf).unwrap();
    assert!(conf.warnings.is_empty(), "{:?}", conf.warnings);
    options_of(conf, compat)
}

fn options_of(conf: Conf, compat: Compat) -> SimulatorOptions {
    SimulatorOptions {
        conf,
        compat,
        period: Seconds::from_millis(1000),
    }
}

fn played(trace: &Trace, conf: &str) -> Report {
    play(trace, &options(conf, Compat::EVICTD), &mut |_, _| ())
}

/// A job in a queue: its arrival and duration, and of its pods how many, how many start together, and cores of each.
fn job(name: &str, queue: &str, [at, lasts]: [u32; 2], [pods, least, cores]: [u32; 3]) -> Value {
    json!({"name": name, "queue": queue, "arrival": at, "duration": lasts,
        "tasks": [{"replicas": pods, "minAvailable": least, "requests": {"cpu": cores}}]})
}

/// Nodes of four cores, and the queues `a` and `b` of equal weight.
fn cluster(nodes: u32, jobs: &[Value]) -> Trace {
    trace(json!({
        "nodes": [{"name": "node", "count": nodes, "allocatable": {"cpu": 4}}],
        "queues": [{"name": "a"}, {"name": "b"}], "jobs": jobs,
    }))
}

#[test]
fn a_job_without_room_waits_for_the_end_of_another() {
    let jobs = [
        job("first", "a", [0, 60], [2, 2, 2]),
        job("second", "a", [10, 30], [1, 1, 3]),
    ];
    let report = played(&cluster(1, &jobs), FIFO);
    assert_eq!((report.jobs, report.finished), (2, 2));
    assert!(
        (report.wait_seconds.as_ref().unwrap().max - 50.0).abs() < 0.001,
        "{report:?}"
    );
    assert!((report.makespan_seconds - 90.0).abs() < 0.001);
    // 60 s of four cores and 30 s of three, of 90 s of four.
    let used = report.utilization["cpu"];
    assert!((used - 330.0 / 360.0).abs() < 1e-9, "{used}");
    assert!((report.work_seconds["cpu"] - 330.0).abs() < 1e-9);
    assert_eq!(report.preempted_pods + report.reclaimed_pods, 0);
    // Only one queue ever wanted something.
    assert_eq!(report.fairness, None);
}

#[test]
fn an_evicted_pod_starts_over_and_its_work_is_lost() {
    let jobs = [
        job("greedy", "a", [0, 100], [8, 1, 1]),
        job("other", "b", [40, 20], [2, 2, 2]),
    ];
    let report = played(&cluster(2, &jobs), PROPORTION);
    assert_eq!(report.finished, 2);
    assert_eq!((report.reclaimed_pods, report.preempted_pods), (4, 0));
    assert_eq!(report.queues["a"].reclaimed_pods, 4);
    assert_eq!(report.evicted_jobs, 1);
    // Each had run for 40 s on one core.
    assert!(
        (report.lost_work_seconds["cpu"] - 160.0).abs() < 1e-9,
        "{report:?}"
    );
    assert!((report.work_seconds["cpu"] - (800.0 + 80.0)).abs() < 1e-9);
    // They hold their room for five seconds more.
    assert!(
        (report.queues["b"].wait_seconds.as_ref().unwrap().max - 5.0).abs() < 1.001,
        "{report:?}"
    );
}

#[test]
fn a_job_that_fits_nowhere_is_left_over_with_the_reason() {
    let jobs = [
        job("huge", "a", [0, 10], [3, 3, 3]),
        job("small", "a", [5, 10], [1, 1, 1]),
    ];
    let report = played(
        &cluster(2, &jobs),
        "actions: \"allocate\"\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n",
    );
    assert_eq!(report.finished, 1);
    let [left] = report.unfinished.as_slice() else {
        panic!("{:?}", report.unfinished);
    };
    assert_eq!((left.job.as_str(), left.started), ("default/huge", false));
    assert!(left.reason.contains("Insufficient cpu"), "{}", left.reason);
    // Who is not even let in is told by whom.
    let report = played(&cluster(1, &jobs), FIFO);
    assert!(
        report.unfinished[0].reason.contains("overused"),
        "{:?}",
        report.unfinished
    );
}

#[test]
fn a_large_job_does_not_wait_for_all_small_ones() {
    // A pod of one core comes every ten seconds and stays for a minute, so that there are never four cores free at once.
    let mut jobs: Vec<Value> = (0..400)
        .map(|number| {
            job(
                &format!("small-{number}"),
                "a",
                [number * 10, 60],
                [1, 1, 1],
            )
        })
        .collect();
    jobs.push(job("large", "a", [30, 60], [1, 1, 4]));
    let wait = |reservation: u32| {
        let conf = format!(
            "{FIFO}configurations:\n- name: allocate\n  arguments: {{reservation.forSeconds: {reservation}}}\n"
        );
        let report = played(&cluster(2, &jobs), &conf);
        assert_eq!(report.finished, 401);
        report.wait_seconds.as_ref().unwrap().max
    };
    assert!(wait(0) > 3000.0, "{}", wait(0));
    // It counts as starving after ten minutes, and a minute later everything has ended that ran then.
    let bounded = 600.0..=670.0;
    assert!(bounded.contains(&wait(14_400)), "{}", wait(14_400));
}

#[test]
fn quiet_time_is_skipped() {
    let jobs = [
        job("first", "a", [0, 100_000_000], [1, 1, 1]),
        job("last", "b", [500_000_000, 10], [1, 1, 1]),
    ];
    let report = played(&cluster(1, &jobs), FIFO);
    assert_eq!(report.finished, 2);
    assert!(report.sessions < 10, "{}", report.sessions);
    assert!(report.series.seconds.len() <= 300);
    assert!((report.makespan_seconds - 500_000_010.0).abs() < 1.0);
}

#[test]
fn sessions_are_a_period_apart() {
    let jobs: Vec<Value> = (0..20)
        .map(|index| job(&format!("job-{index}"), "a", [index, 7], [1, 1, 2]))
        .collect();
    let trace = cluster(1, &jobs);
    let mut options = options(FIFO, Compat::EVICTD);
    options.period = Seconds::from_millis(3000);
    let mut simulator = Simulator::new(&trace, &options);
    let mut before = None;
    while simulator.step() {
        let now = simulator.now().as_millis();
        assert_eq!(now % 3000, 0);
        assert!(before < Some(now), "{before:?} {now}");
        before = Some(now);
    }
    assert_eq!(simulator.ended(), 20);
}

#[test]
fn a_pod_that_has_all_it_waits_for_is_not_looked_at_again() {
    let trace = cluster(1, &[job("only", "a", [0, 50], [2, 2, 2])]);
    let report = played(&trace, FIFO);
    // One that lets it in and binds it, and one by which its group runs.
    assert_eq!(report.sessions, 2);
}

#[test]
fn a_simulation_in_which_jobs_evict_each_other_for_ever_is_stopped() {
    let jobs = [
        job("one", "a", [0, 100], [1, 1, 4]),
        job("other", "b", [10, 100], [1, 1, 4]),
    ];
    // Nobody has a share, and everybody may take from other queues.
    let conf = "actions: \"allocate, reclaim\"\ntiers:\n- plugins:\n  - name: priority\n  - name: conformance\n  - name: predicates\n";
    let with = |compat| {
        let conf = Conf::read(conf).unwrap();
        assert!(conf.warnings[0].message.contains("what a queue deserves"));
        play(
            &cluster(1, &jobs),
            &options_of(conf, compat),
            &mut |_, _| (),
        )
    };
    // Ours takes nothing for a queue of which nobody says what it deserves.
    let ours = with(Compat::EVICTD);
    assert_eq!((ours.finished, ours.reclaimed_pods), (2, 0));
    let report = with(Compat::VOLCANO);
    assert!(report.broken_off);
    assert_eq!((report.finished, report.unfinished.len()), (0, 2));
    assert!(report.reclaimed_pods > 1000, "{}", report.reclaimed_pods);
}

type Change = Box<dyn Fn(&mut Value)>;

#[test]
fn errors_of_a_trace_name_their_fields() {
    let good = json!({"nodes": [{"name": "n", "allocatable": {"cpu": 1}}], "queues": [{"name": "gold"}],
        "jobs": [job("j", "gold", [0, 1], [2, 1, 1])]});
    let mistakes = |change: &dyn Fn(&mut Value)| {
        let mut value = good.clone();
        change(&mut value);
        let trace: Trace = serde_json::from_value(value).unwrap();
        let mistakes = trace.mistakes().into_iter();
        let told = mistakes.map(|(field, message)| format!("{field}: {message}"));
        told.collect::<Vec<_>>().join("\n")
    };
    assert_eq!(mistakes(&|_| ()), "");
    let table: Vec<(Change, &str)> = vec![
        (
            Box::new(|own| own["nodes"] = json!([])),
            "nodes: there are none",
        ),
        (
            Box::new(|own| own["nodes"][0]["count"] = json!(0)),
            "nodes[0].count: must be 1 or more",
        ),
        (
            Box::new(|own| own["nodes"][0]["count"] = json!(u32::MAX)),
            "nodes: 4294967295 nodes in all; at most 100000 can be played",
        ),
        (
            Box::new(|own| own["nodes"][0]["allocatable"]["cpu"] = json!("-1")),
            "nodes[0].allocatable.cpu: -1 is negative",
        ),
        (
            Box::new(|own| own["queues"][0]["weight"] = json!(0)),
            "queues[0].weight: must be 1 or more",
        ),
        (
            Box::new(|own| own["queues"][0]["deserved"] = json!({"cpu": "-2"})),
            "queues[0].deserved.cpu: -2 is negative",
        ),
        (
            Box::new(|own| own["jobs"][0]["queue"] = json!("glod")),
            "jobs[0].queue: there is no queue glod; the nearest is gold",
        ),
        (
            Box::new(|own| own["jobs"][0]["tasks"] = json!([])),
            "jobs[0].tasks: there are none",
        ),
        (
            Box::new(|own| own["jobs"][0]["tasks"][0]["replicas"] = json!(0)),
            "jobs[0].tasks[0].replicas: must be 1 or more\njobs[0].tasks[0].minAvailable: is more than the 0 replicas",
        ),
        (
            Box::new(|own| own["jobs"][0]["tasks"][0]["replicas"] = json!(u32::MAX)),
            "jobs: 4294967295 pods in all; at most 10000000 can be played",
        ),
        (
            Box::new(|own| own["jobs"][0]["tasks"][0]["requests"]["cpu"] = json!("-1")),
            "jobs[0].tasks[0].requests.cpu: -1 is negative",
        ),
        (
            Box::new(|own| own["jobs"] = json!([own["jobs"][0], own["jobs"][0]])),
            "jobs[1].name: default/j is there already\njobs[1].tasks[0].name: default/j-worker is there already",
        ),
    ];
    for (change, wanted) in table {
        assert_eq!(mistakes(&change), wanted);
    }
}

#[test]
fn a_generated_trace_is_what_its_statistics_say() {
    let recipe = Recipe {
        jobs: 10_000,
        seed: 1,
        load: 0.8,
    };
    let trace = generate(&recipe);
    assert_eq!(trace.mistakes(), []);
    assert_eq!(trace, generate(&recipe));
    assert_ne!(trace.jobs, generate(&Recipe { seed: 2, ..recipe }).jobs);
    let measured = &trace.statistics["measured"];
    let pods: u64 = trace
        .jobs
        .iter()
        .flat_map(|job| &job.tasks)
        .map(|task| u64::from(task.replicas))
        .sum();
    assert_eq!(measured["pods"], pods);
    // Half of all jobs are short, and the largest hundredth of them is more than a quarter of the work.
    let median = measured["durationSeconds"]["p50"].as_f64().unwrap();
    assert!((270.0..330.0).contains(&median), "{median}");
    assert!(
        measured["partOfWorkOfLargestHundredth"].as_f64().unwrap() > 0.25,
        "{measured}"
    );
    // More come in the afternoon than late in the evening; the hours before six are covered twice.
    let hours: Vec<u64> = serde_json::from_value(measured["arrivalsByHourOfDay"].clone()).unwrap();
    assert!(2 * hours[14] > 3 * hours[22], "{hours:?}");
    assert_eq!(hours.iter().sum::<u64>(), 10_000);
    let span = measured["arrivalSpanSeconds"].as_f64().unwrap();
    let work = measured["workCoreSeconds"].as_f64().unwrap();
    assert!((work / (span * 640.0) - 0.8).abs() < 0.01);
}

/// Jobs that fit into an empty cluster of three nodes of four cores; or into their queues' shares of it, which are 2, 4 and
/// 6 cores: a job that needs more of a queue than its share may wait for ever under the plugin proportion, also on an idle
/// cluster, if another job that was not let in wants the rest.
fn jobs(into_shares: bool) -> impl Strategy<Value = Vec<Value>> {
    let one = (
        0_u32..80,
        1_u32..50,
        1_u32..5,
        1_u32..5,
        1_u32..5,
        0_usize..3,
        0_i32..2,
    );
    prop::collection::vec(one, 1..14).prop_map(move |jobs| {
        let jobs = jobs.into_iter().enumerate();
        let jobs = jobs.map(
            |(index, (at, lasts, pods, least, cores, queue, priority))| {
                let share = if into_shares { [2, 4, 6][queue] } else { 12 };
                let cores = cores.min(share);
                let room = (3 * (4 / cores)).min(share / cores);
                let least = least.min(pods).min(room);
                let queue = ["a", "b", "c"][queue];
                let mut job = job(
                    &format!("job-{index}"),
                    queue,
                    [at, lasts],
                    [pods, least, cores],
                );
                job["priority"] = json!(priority);
                job
            },
        );
        jobs.collect()
    })
}

fn three_queues(jobs: &[Value]) -> Trace {
    trace(json!({
        "nodes": [{"name": "node", "count": 3, "allocatable": {"cpu": 4}}], "terminationSeconds": 2,
        "queues": [{"name": "a"}, {"name": "b", "weight": 2}, {"name": "c", "weight": 3}], "jobs": jobs,
    }))
}

fn holds_always(trace: &Trace, report: &Report) {
    assert_eq!(report.finished + report.unfinished.len(), report.jobs);
    let queues = report.queues.values();
    assert_eq!(queues.map(|queue| queue.jobs).sum::<usize>(), report.jobs);
    let used = report.utilization["cpu"];
    assert!((0.0..=1.0 + 1e-9).contains(&used), "{used}");
    let spans = report.series.seconds.len();
    for span in 0..spans {
        let held: f64 = report
            .series
            .queues
            .values()
            .map(|queue| queue["cpu"][span])
            .sum();
        assert!((-1e-9..=1.0 + 1e-9).contains(&held), "{held}");
        if let Some(index) = report.series.fairness[span] {
            assert!((1.0 / 3.0 - 1e-9..=1.0 + 1e-9).contains(&index), "{index}");
        }
    }
    let ended = trace.jobs.iter().filter(|job| {
        let mut left = report.unfinished.iter();
        !left.any(|own| own.job == format!("default/{}", job.name))
    });
    let work: f64 = ended
        .map(|job| {
            let task = &job.tasks[0];
            let cores = task.requests.get("cpu").unwrap().milli_value();
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            let (cores, seconds) = (
                cores as f64 / 1000.0,
                job.duration.as_millis() as f64 / 1000.0,
            );
            cores * f64::from(task.replicas) * seconds
        })
        .sum();
    let done = report.work_seconds["cpu"];
    assert!(done >= work - 1e-6, "{done} {work}");
    if report.unfinished.is_empty() {
        assert!((done - work).abs() < 1e-6, "{done} {work}");
        // What was held is what was done, what was lost, and the time in which pods were going.
        let held = used * report.makespan_seconds * 12.0;
        assert!(
            held >= done + report.lost_work_seconds["cpu"] - 1e-6,
            "{held}"
        );
    }
}

fn ends_whole(jobs: &[Value], conf: &str) {
    let trace = three_queues(jobs);
    let report = played(&trace, conf);
    holds_always(&trace, &report);
    assert_eq!(report.unfinished, [], "{conf}");
    // The same again.
    assert_eq!(report, played(&trace, conf));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_job_that_fits_comes_to_its_end_and_nothing_is_lost(jobs in jobs(false)) {
        ends_whole(&jobs, FIFO);
        ends_whole(&jobs, DRF);
        ends_whole(&jobs, &DRF.replace("allocate,", "allocate, preempt,"));
    }

    #[test]
    fn every_job_that_fits_its_queues_share_comes_to_its_end(jobs in jobs(true)) {
        ends_whole(&jobs, PROPORTION);
    }

    #[test]
    fn volcanos_way_counts_alike(jobs in jobs(false)) {
        let trace = three_queues(&jobs);
        for conf in [FIFO, DRF, PROPORTION] {
            let options = options(conf, Compat::VOLCANO);
            holds_always(&trace, &play(&trace, &options, &mut |_, _| ()));
        }
    }
}

/// Actions and plugins as three pages of Volcano's documentation show them: that of `resource-strategy-fit`, that of
/// extenders without the extender, and that of `tdm`.
const PUBLISHED: [&str; 3] = [
    "actions: \"enqueue, reclaim, allocate, backfill, preempt\"\ntiers:\n- plugins:\n  - name: resource-strategy-fit\n    arguments:\n      sra: {enable: true, resources: \"nvidia.com/t4, nvidia.com/a10\", weight: 2, resourceWeight: {nvidia.com/t4: 1, nvidia.com/a10: 1}}\n",
    "actions: \"reclaim, allocate, backfill, preempt\"\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n  - name: conformance\n- plugins:\n  - name: drf\n  - name: predicates\n  - name: proportion\n  - name: nodeorder\n",
    "actions: \"enqueue, reclaim, allocate, preempt\"\ntiers:\n- plugins:\n  - name: tdm\n    arguments:\n      tdm.revocable-zone.rz1: 10:00-21:00\n      tdm.revocable-zone.rz2: 12:00-14:00\n      tdm.evict.period: 1m\n",
];

#[test]
fn a2_published_configurations_bind_what_fits_and_are_reported() {
    let jobs = [
        job("one", "a", [0, 20], [1, 1, 1]),
        job("two", "b", [1, 20], [2, 2, 1]),
        job("three", "a", [2, 20], [2, 1, 2]),
        job("four", "b", [3, 20], [1, 1, 4]),
        job("five", "a", [4, 20], [4, 4, 1]),
        job("six", "b", [5, 20], [1, 1, 1]),
    ];
    for text in PUBLISHED {
        let conf = Conf::read(text).unwrap();
        let told: Vec<String> = conf.warnings.iter().map(ToString::to_string).collect();
        let order = ":1:10: actions: reclaim comes before allocate";
        assert!(told.iter().any(|line| line.contains(order)), "{told:?}");
        let options = SimulatorOptions {
            conf,
            compat: Compat::EVICTD,
            period: Seconds::from_millis(1000),
        };
        // Each has nodes for itself, however the others are spread.
        let report = play(&cluster(12, &jobs), &options, &mut |_, _| ());
        assert_eq!((report.jobs, report.finished), (6, 6), "{text}\n{report:?}");
        assert_eq!(report.preempted_pods + report.reclaimed_pods, 0, "{text}");
        assert!(
            report.wait_seconds.as_ref().unwrap().max < 5.0,
            "{text}\n{report:?}"
        );
    }
}

#[test]
fn what_is_free_while_a_job_waits_is_counted_and_what_of_it_is_reserved() {
    let jobs = [
        job("first", "a", [0, 100], [1, 1, 4]),
        job("gang", "a", [1, 10], [2, 2, 4]),
        job("small", "a", [12, 1], [1, 1, 1]),
    ];
    let conf = format!(
        "{FIFO}configurations:\n- name: allocate\n  arguments: {{reservation.afterSeconds: 10}}\n"
    );
    let report = played(&cluster(2, &jobs), &conf);
    assert_eq!(report.finished, 3);
    // Half of the cluster is free until the gang starts, and reserved for it once it has waited for ten seconds.
    let seconds = |part: f64| part * report.makespan_seconds;
    let free = seconds(report.free_while_waiting["cpu"]);
    assert!((free - 99.0 / 2.0).abs() < 1.5, "{free}");
    let reserved = seconds(report.reserved_while_waiting["cpu"]);
    assert!((reserved - 88.0 / 2.0).abs() < 1.5, "{reserved}");
}
