//! About every job of the recorded sessions, and of clusters that people complained about, `why` says what sessions do.

use crate::proof::{Asked, starts, starts_with};
use crate::scenario::{Scenario, conf};
use crate::{ask_by, words};
use evictd_batch::session::Objects;
use evictd_batch::session::{Setting, simulate};
use evictd_batch::why::{Answer, Change, State};
use evictd_batch_objects::Compat;
use serde_json::{Value, json};
use std::path::Path;

/// So many of the changes that were tried for a job are tried again.
const AGAIN: usize = 24;

/// Where the answer contradicts the sessions.
fn contradictions(objects: &Objects, answer: &Answer, asked: Asked<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let settled = [State::Runs, State::Finished, State::Stopped];
    let is_starting = starts(objects, asked);
    if is_starting != (answer.state == State::Starts) && !settled.contains(&answer.state) {
        found.push(format!(
            "{}: sessions start it: {is_starting}",
            answer.headline
        ));
    }
    found.extend(misnomers(objects, answer, asked));
    for (index, proposal) in answer.soonest.iter().enumerate() {
        if answer.soonest[..index].contains(proposal) {
            found.push(format!("proposed twice: {}", proposal.words));
        }
        let changes: Vec<&Change> = proposal.changes.iter().collect();
        if !starts_with(objects, &changes, asked) {
            found.push(format!("not started with: {}", proposal.words));
        }
    }
    let every = answer.tried.len().div_ceil(AGAIN).max(1);
    for tried in answer.tried.iter().step_by(every) {
        let changes: Vec<&Change> = tried.changes.iter().collect();
        if starts_with(objects, &changes, asked) != tried.sessions.is_some() {
            let words: Vec<String> = changes.iter().map(ToString::to_string).collect();
            let words = words.join(", and ");
            found.push(format!("tried, {:?} sessions: {words}", tried.sessions));
        }
    }
    found
}

/// Where the headline names a cause that the next session or the amounts of the queue contradict.
fn misnomers(objects: &Objects, answer: &Answer, asked: Asked<'_>) -> Option<String> {
    let (outcome, _) = simulate(objects, &Setting::default(), asked.compat).unwrap();
    let job_pods: Vec<String> = objects
        .pods
        .iter()
        .filter(|pod| asked.has(pod))
        .map(|pod| pod.metadata.full_name())
        .collect();
    let mut promised = outcome.pipelined.keys();
    let is_promised = promised.any(|pod| job_pods.contains(pod));
    let headline = &answer.headline;
    if is_promised && headline.contains("none of its pods waits") {
        return Some(format!("{headline}: the session promises room to its pods"));
    }
    let is_victim = |pod: &String| headline.contains(pod.as_str());
    let mut victims = outcome.evicted.iter().map(|eviction| &eviction.pod);
    if is_promised
        && answer.state == State::Waits
        && !outcome.evicted.is_empty()
        && !victims.any(is_victim)
    {
        return Some(format!("{headline}: the session evicts others for it"));
    }
    // The amounts are those before the session, which may have given the rest to other jobs.
    let mut placed = outcome.binds.keys().chain(outcome.pipelined.keys());
    if placed.any(|pod| !job_pods.contains(pod)) {
        return None;
    }
    let usage = &answer.diagnosis.as_ref()?.queue.resources;
    let mut full = usage.iter().filter(|usage| {
        let held = Some(usage.allocated);
        held >= usage.capability || held >= usage.deserved
    });
    (headline.contains("holds all") && full.next().is_none())
        .then(|| format!("{headline}: no amount of the queue is at a limit"))
}

/// Every so many sessions of each form are looked at, from this one on.
fn contradictions_of(from: usize, every: usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/session");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort_unstable();
    let (mut wrong, mut answers) = (Vec::new(), 0);
    for path in paths.iter().skip(from).step_by(every) {
        let case: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let objects: Objects = serde_json::from_value(case["input"].clone()).unwrap();
        if evictd_batch::conf::Conf::read(&objects.conf).is_err() {
            continue;
        }
        for compat in [Compat::EVICTD, Compat::VOLCANO] {
            for group in &objects.pod_groups {
                let asked = Asked {
                    namespace: group.metadata.namespace_or_default(),
                    name: &group.metadata.name,
                    compat,
                };
                let name = (asked.namespace, asked.name);
                let answer = ask_by((&objects, &[]), name, compat).unwrap();
                answers += 1;
                for text in contradictions(&objects, &answer, asked) {
                    let file = path.file_stem().unwrap().to_string_lossy();
                    wrong.push(format!("{file} {}/{}: {text}", name.0, name.1));
                }
            }
        }
    }
    assert!(answers > 0);
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn a6_no_answer_contradicts_the_recorded_sessions_0() {
    contradictions_of(0, 4);
}

#[test]
fn a6_no_answer_contradicts_the_recorded_sessions_1() {
    contradictions_of(1, 4);
}

#[test]
fn a6_no_answer_contradicts_the_recorded_sessions_2() {
    contradictions_of(2, 4);
}

#[test]
fn a6_no_answer_contradicts_the_recorded_sessions_3() {
    contradictions_of(3, 4);
}

#[track_caller]
fn answered(scenario: &Scenario, compat: Compat) -> Answer {
    let objects = scenario.objects();
    let asked = Asked {
        namespace: "default",
        name: "train",
        compat,
    };
    let answer = ask_by((&objects, &[]), ("default", "train"), compat).unwrap();
    let wrong = contradictions(&objects, &answer, asked);
    assert!(wrong.is_empty(), "{compat:?}: {}", wrong.join("\n"));
    answer
}

#[test]
fn a6_a_gang_larger_than_its_queue_is_not_said_to_fill_it() {
    let plugins = ["overcommit", "drf", "predicates", "proportion", "nodeorder"];
    let tiers: [&[&str]; 2] = [&["priority", "gang", "conformance"], &plugins];
    let actions = "enqueue, allocate, preempt, reclaim, backfill";
    let scenario = Scenario::new(&conf(actions, &tiers))
        .node("a", "16")
        .queue("team", &json!({"capability": {"cpu": "4"}}))
        .job_with(
            "train",
            7,
            "Inqueue",
            &json!({"queue": "team", "minResources": {"cpu": "7"}}),
        )
        .waiting("train", 7, "1");
    for compat in [Compat::EVICTD, Compat::VOLCANO] {
        let answer = answered(&scenario, compat);
        assert_eq!(
            answer.headline,
            "train waits: queue team may not have so much (cpu 7 of 4 with it)"
        );
        assert_eq!(
            words(&answer),
            [
                "queue team's capability is raised to cpu 7 (from 4)",
                "its minAvailable is lowered to 4 (from 7), and those of its tasks",
            ]
        );
    }
}

#[test]
fn a6_pods_that_a_session_evicts_for_a_job_are_named_whatever_the_order_of_actions() {
    for actions in [
        "enqueue, allocate, preempt, reclaim, backfill",
        "enqueue, preempt, allocate, backfill, reclaim",
        "enqueue, reclaim, allocate, preempt, backfill",
        "preempt, allocate",
        "reclaim, allocate",
    ] {
        let configuration = format!(
            "actions: \"{actions}\"\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n    enableJobStarving: false\n  \
             - name: conformance\n- plugins:\n  - name: overcommit\n  - name: drf\n  - name: predicates\n  - name: proportion\n    \
             enableJobEnqueued: false\n  - name: nodeorder\n  - name: binpack\n"
        );
        for queue in ["q", "other"] {
            let low = json!({"queue": queue, "priorityClassName": "low"});
            let high = json!({"minResources": {"cpu": "4"}, "priorityClassName": "high"});
            let scenario = Scenario::new(&configuration)
                .node("a", "8")
                .queue("other", &json!({}))
                .class("low", 10)
                .class("high", 1000)
                .job_with("low", 1, "Running", &low)
                .running("low", 0, &["a", "a", "a", "a"], "2")
                .job_with("train", 2, "Pending", &high)
                .waiting("train", 2, "2");
            for compat in [Compat::EVICTD, Compat::VOLCANO] {
                answered(&scenario, compat);
            }
        }
    }
}

#[test]
fn a6_a_queue_below_a_closed_one_is_opened_after_it() {
    let closed = json!({"status": {"state": "Closed"}});
    let scenario = Scenario::new("")
        .node("a", "8")
        .queue("parent", &json!({}))
        .queue_with(&closed)
        .queue("child", &json!({"parent": "parent"}))
        .queue_with(&closed)
        .job_with("train", 1, "Inqueue", &json!({"queue": "child"}))
        .waiting("train", 1, "2");
    let answer = answered(&scenario, Compat::EVICTD);
    assert_eq!(
        words(&answer),
        [
            "queue parent and then queue child are opened: evictd-batch queue operate -n parent -a open; \
             evictd-batch queue operate -n child -a open"
        ]
    );
}

#[test]
fn a5_the_guarantees_of_other_queues_are_named_where_they_are_the_limit() {
    let guarantee = json!({"guarantee": {"resource": {"cpu": "7"}}});
    let scenario = Scenario::new("")
        .node("a", "8")
        .queue("greedy", &guarantee)
        .job_with(
            "train",
            1,
            "Pending",
            &json!({"minResources": {"cpu": "2"}}),
        )
        .waiting("train", 1, "2");
    let answer = answered(&scenario, Compat::EVICTD);
    let remark = "Of the cluster's cpu the guarantees of other queues leave it 1: greedy 7.";
    assert!(answer.more.iter().any(|more| more == remark), "{answer:?}");
}
