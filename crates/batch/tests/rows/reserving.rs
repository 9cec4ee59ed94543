//! Nodes are kept for a job that has waited long.

use crate::scenario::{Scenario, conf};
use evictd_batch::conf::Conf;
use evictd_batch::session::{Cache, Objects, Outcome, Setting, Turns};
use evictd_batch_objects::{Compat, Difference, PodGroupCondition};
use evictd_placement::Cluster;
use jiff::Timestamp;
use serde_json::{Value, json};

fn only() -> Compat {
    Compat::VOLCANO.with(Difference::ReserveNodes)
}

fn allocate() -> String {
    conf(
        "enqueue, allocate",
        &[&["priority", "gang"], &["predicates", "nodeorder"]],
    )
}

/// The objects of a scenario in both halves of a cluster.
fn told_of(objects: &Objects) -> (Cluster, Cache) {
    let mut cluster = Cluster::new();
    for node in &objects.nodes {
        assert!(cluster.add_node(node));
    }
    let pods = objects.pods.iter();
    for pod in pods.filter(|pod| !pod.spec.node_name.is_empty()) {
        cluster.add_pod(pod.clone()).unwrap();
    }
    let cache = Cache::of(&mut cluster, objects, Setting::default());
    (cluster, cache)
}

/// A time of the day on which the objects of a scenario are made, from midnight on.
fn time_of_day(time: &str) -> Timestamp {
    format!("2026-01-01T{time}Z").parse().unwrap()
}

/// A session at a time of the day.
fn at(scenario: &Scenario, time: &str, compat: Compat) -> Outcome {
    scenario.run_at(&format!("2026-01-01T{time}Z"), compat)
}

/// The gang `large` needs two of five nodes of four cores; on `a` three are in use, on the others one.
fn five_nodes(conf: &str) -> Scenario {
    Scenario::new(conf)
        .class("high", 10)
        .node("a", "4")
        .node("b", "4")
        .node("c", "4")
        .node("d", "4")
        .node("e", "4")
        .job("old", 0, "Running")
        .running("old", 0, &["a"], "3")
        .running("old", 1, &["b", "c", "d", "e"], "1")
        .job("large", 2, "Inqueue")
        .waiting("large", 2, "4")
}

fn with_small(conf: &str) -> Scenario {
    five_nodes(conf)
        .job("small", 1, "Inqueue")
        .waiting("small", 4, "1")
}

fn bound(outcome: &Outcome) -> Vec<&str> {
    outcome.binds.values().map(String::as_str).collect()
}

/// What the group of `large` is told, and whether it holds.
fn told(outcome: &Outcome) -> Option<(bool, &str, &str)> {
    let mut conditions = outcome.pod_groups["default/large"].conditions.iter();
    let own = conditions.find(|own| own.kind.as_str() == "Reserved")?;
    Some((own.status.as_str() == "True", &own.reason, &own.message))
}

#[test]
fn the_emptiest_nodes_are_kept_for_a_job_that_has_waited_long() {
    let scenario = with_small(&allocate());
    // Before its time, and without the switch, small pods go where most is free.
    for (time, compat) in [("00:09:00", only()), ("01:00:00", Compat::VOLCANO)] {
        let outcome = at(&scenario, time, compat);
        assert_eq!(bound(&outcome).len(), 4);
        assert!(bound(&outcome).iter().all(|node| *node != "a"));
        assert_eq!((told(&outcome), outcome.again_at), (None, None));
    }
    let outcome = at(&scenario, "00:11:00", only());
    assert_eq!(bound(&outcome), ["a"]);
    let words = "nodes are kept for it until 2026-01-01T04:11:00Z at the latest: b, c, d, e";
    assert_eq!(told(&outcome), Some((true, "WaitedLong", words)));
    let until: Timestamp = "2026-01-01T04:11:00Z".parse().unwrap();
    assert_eq!(outcome.again_at, Some(until));
    let small = &outcome.pod_conditions["default/small-work-1"].message;
    assert!(
        small.contains("kept for a job that has waited long"),
        "{small}"
    );
}

#[test]
fn nodes_are_reserved_only_against_jobs_after_the_job() {
    let job = |class: &str| {
        five_nodes(&allocate())
            .job_with("other", 1, "Inqueue", &json!({"priorityClassName": class}))
            .waiting("other", 4, "1")
    };
    assert_eq!(bound(&at(&job(""), "00:11:00", only())), ["a"]);
    assert_eq!(bound(&at(&job("high"), "00:11:00", only())).len(), 4);
    // One that waited before it goes on.
    let before = Scenario::new(&allocate())
        .node("a", "2")
        .job("old", 0, "Running")
        .running("old", 0, &["a"], "1")
        .job("before", 1, "Inqueue")
        .waiting("before", 1, "1")
        .job("large", 1, "Inqueue")
        .waiting("large", 1, "2");
    assert_eq!(bound(&at(&before, "00:11:00", only())), ["a"]);
}

#[test]
fn no_needless_node_is_reserved_and_none_for_a_job_that_fits_nowhere() {
    // Its one pod needs one node; whichever of two becomes free first will do.
    let one = Scenario::new(&allocate())
        .node("a", "4")
        .node("b", "4")
        .node("c", "4")
        .job("old", 0, "Running")
        .running("old", 0, &["a", "b", "c"], "1")
        .job("large", 1, "Inqueue")
        .waiting("large", 1, "4")
        .job("small", 1, "Inqueue")
        .waiting("small", 3, "1");
    let outcome = at(&one, "00:11:00", only());
    assert_eq!(bound(&outcome), ["c", "c", "c"]);
    for (min, cpu) in [(4, "4"), (1, "5")] {
        let too_large = Scenario::new(&allocate())
            .node("a", "4")
            .node("b", "4")
            .node("c", "4")
            .job("large", min, "Inqueue")
            .waiting("large", usize::try_from(min).unwrap(), cpu)
            .job("small", 1, "Inqueue")
            .waiting("small", 12, "1");
        let outcome = at(&too_large, "00:11:00", only());
        assert_eq!((bound(&outcome).len(), told(&outcome)), (12, None));
    }
    // What others than jobs hold does not become free.
    let other = json!({"spec": {"schedulerName": "default-scheduler", "nodeName": "c"}, "status": {"phase": "Running"}});
    let held = with_small(&allocate()).pod("other", "", "1", &other);
    let outcome = at(&held, "00:11:00", only());
    assert!(
        told(&outcome).unwrap().2.ends_with("a, b, d, e"),
        "{outcome:?}"
    );
}

#[test]
fn a_job_whose_pods_are_not_made_is_let_in_and_keeps_no_node() {
    let spec = json!({"minTaskMember": {"work": 2}, "minResources": {"cpu": "8"}});
    let scenario = Scenario::new(&allocate())
        .node("a", "4")
        .node("b", "4")
        .job("old", 0, "Running")
        .running("old", 0, &["a"], "1")
        .job_with("large", 2, "Pending", &spec)
        .job_with(
            "small",
            1,
            "Pending",
            &json!({"minResources": {"cpu": "1"}}),
        );
    let phases = |outcome: &Outcome| {
        ["large", "small"].map(|job| outcome.phases[&format!("default/{job}")].clone())
    };
    let early = at(&scenario, "00:05:00", Compat::EVICTD);
    assert_eq!(phases(&early), ["Pending", "Inqueue"]);
    let outcome = at(&scenario, "00:11:00", Compat::EVICTD);
    assert_eq!(phases(&outcome), ["Inqueue", "Inqueue"]);
    assert_eq!((told(&outcome), outcome.again_at), (None, None));
}

#[test]
fn a_claim_to_need_room_keeps_no_node() {
    let forged = |from: &str| with_small(&allocate()).group_with(&since(true, from));
    let free = |scenario: &Scenario, time: &str| bound(&at(scenario, time, only())).len();
    // A condition that a tenant has written, of before and of the future.
    for from in ["00:00:01", "23:59:59"] {
        assert_eq!(free(&forged(from), "00:05:00"), 4, "{from}");
    }
    // A group of the highest class without pods, and pods that no node may take.
    let claims = |job: Scenario| {
        let job = job.job("small", 1, "Inqueue").waiting("small", 4, "1");
        free(&job, "01:00:00")
    };
    let nodes = || {
        let nodes = Scenario::new(&allocate())
            .class("system-node-critical", 2_000_001_000)
            .node("a", "4");
        nodes
            .job("old", 0, "Running")
            .running("old", 0, &["a"], "1")
    };
    let spec = json!({"priorityClassName": "system-node-critical", "minResources": {"cpu": "4"}});
    assert_eq!(claims(nodes().job_with("large", 1, "Inqueue", &spec)), 3);
    let nowhere = json!({"spec": {"nodeSelector": {"no": "node"}}});
    let selecting = nodes().job_with("large", 1, "Inqueue", &spec);
    assert_eq!(
        claims(selecting.pod("large-work-0", "large", "4", &nowhere)),
        3
    );
    let real = nodes().job_with("large", 1, "Inqueue", &spec);
    assert_eq!(
        claims(real.pod("large-work-0", "large", "4", &json!({}))),
        0
    );
}

/// A condition of the group `large`.
fn since(holds: bool, time: &str) -> Value {
    let status = if holds { "True" } else { "False" };
    let time = format!("2026-01-01T{time}Z");
    json!({"status": {"conditions": [
        {"type": "Reserved", "status": status, "lastTransitionTime": time, "reason": "", "message": ""}]}})
}

/// A session of a scheduler that was restarted after a turn of `large` had begun or ended.
fn after_turn(scenario: &Scenario, [from, until]: [Option<&str>; 2], time: &str) -> Outcome {
    let objects = scenario.objects();
    let mut groups = objects.pod_groups.iter();
    let large = groups.find(|own| own.metadata.name == "large").unwrap();
    let day = |time: &str| format!("2026-01-01T{time}Z");
    let turn = json!([{"job": "default/large", "queue": "q", "created": large.metadata.creation_timestamp,
        "since": from.map(day), "until": until.map(day)}]);
    let (mut cluster, mut cache) = told_of(&objects);
    cache.set_now(time_of_day(time));
    cache.set_turns(Turns::from_text(&turn.to_string(), time_of_day(time)).unwrap());
    let conf = Conf::read(&objects.conf).unwrap();
    cache.session(&mut cluster, &conf, only())
}

#[test]
fn a_reservation_ends_after_a_second_bound_and_the_next_job_has_its_turn() {
    let jobs = five_nodes(&allocate())
        .job("next", 2, "Inqueue")
        .waiting("next", 2, "4")
        .job("small", 1, "Inqueue")
        .waiting("small", 4, "1");
    let of = |outcome: &Outcome, job: &str| {
        let conditions = outcome.pod_groups[&format!("default/{job}")]
            .conditions
            .clone();
        let own = conditions
            .into_iter()
            .find(|own| own.kind.as_str() == "Reserved");
        own.map(|own| (own.status.as_str() == "True", own.reason))
    };
    let true_of = |reason: &str| Some((true, reason.to_owned()));
    let outcome = after_turn(&jobs, [Some("01:00:00"), None], "04:59:00");
    assert_eq!(of(&outcome, "large"), true_of("WaitedLong"));
    assert_eq!(of(&outcome, "next"), None);
    let over = after_turn(&jobs, [Some("01:00:00"), None], "05:00:00");
    assert_eq!(of(&over, "large"), Some((false, "HeldLong".to_owned())));
    // What was kept has stood empty: as long as that has lasted nothing is kept for anybody.
    assert_eq!(of(&over, "next"), None);
    // It waits as long as before until it has another turn.
    let ended = [Some("04:59:00"), Some("05:00:00")];
    let soon = after_turn(&jobs, ended, "05:09:00");
    assert_eq!(of(&soon, "next"), true_of("WaitedLong"));
    let later = after_turn(&jobs, ended, "05:10:00");
    assert_eq!(of(&later, "large"), true_of("WaitedLong"));
}

#[test]
fn a_job_that_starts_gives_its_nodes_back_and_the_bounds_are_arguments() {
    let scenario = Scenario::new(&allocate())
        .node("a", "4")
        .job("large", 1, "Running")
        .group_with(&since(true, "01:00:00"))
        .running("large", 0, &["a"], "1")
        .job("small", 1, "Inqueue")
        .waiting("small", 1, "1");
    let outcome = at(&scenario, "01:10:00", only());
    assert_eq!(bound(&outcome), ["a"]);
    assert!(!told(&outcome).unwrap().0);
    let arguments = |after: u32, hold: u32| {
        let own = allocate();
        format!(
            "{own}configurations:\n- name: allocate\n  arguments:\n    reservation.afterSeconds: {after}\n    reservation.forSeconds: {hold}\n"
        )
    };
    let kept = |after: u32, hold: u32, time: &str| {
        let outcome = at(&with_small(&arguments(after, hold)), time, only());
        bound(&outcome).len() == 1
    };
    assert!(kept(60, 60, "00:02:00") && !kept(300, 60, "00:02:00"));
    assert!(!kept(60, 0, "00:02:00"), "none are kept for no time");
}

#[test]
fn while_its_queue_holds_too_much_only_its_share_is_kept() {
    let conf = conf(
        "enqueue, allocate",
        &[&["gang"], &["proportion", "predicates"]],
    );
    let scenario = Scenario::new(&conf)
        .queue("r", &json!({}))
        .node("a", "4")
        .node("b", "4")
        .job("own", 0, "Running")
        .running("own", 0, &["a"], "3")
        .job("large", 1, "Inqueue")
        .waiting("large", 1, "3")
        .job("small", 1, "Inqueue")
        .waiting("small", 1, "1")
        .job_with("other", 1, "Inqueue", &json!({"queue": "r"}))
        .waiting("other", 8, "1");
    // Its queue deserves four cores and holds three. The fourth is kept for it; on the nodes others have room.
    let outcome = at(&scenario, "00:11:00", only());
    let words = "its part of what its queue may have is kept for it until 2026-01-01T04:11:00Z at the latest";
    assert_eq!(told(&outcome), Some((true, "WaitedLong", words)));
    let of = |outcome: &Outcome, job: &str| {
        let pods = outcome.binds.keys();
        pods.filter(|pod| pod.contains(job)).count()
    };
    assert_eq!((of(&outcome, "small"), of(&outcome, "other")), (0, 4));
}

#[test]
fn the_pause_after_a_turn_is_as_long_as_the_turn() {
    let objects = five_nodes(&allocate())
        .job("next", 2, "Inqueue")
        .waiting("next", 2, "4")
        .objects();
    let (mut cluster, mut cache) = told_of(&objects);
    let conf = Conf::read(&objects.conf).unwrap();
    let mut kept_for = |time: &str| {
        cache.set_now(time_of_day(time));
        let outcome = cache.session(&mut cluster, &conf, only());
        for group in &objects.pod_groups {
            let mut group = group.clone();
            let key = format!("default/{}", group.metadata.name);
            if let Some(told) = outcome.pod_groups.get(&key) {
                group.status.clone_from(&told.status);
                cache.group(&group);
            }
        }
        let mut groups = outcome.pod_groups.into_iter();
        let holds = |own: &PodGroupCondition| {
            own.kind.as_str() == "Reserved" && own.status.as_str() == "True"
        };
        groups.find_map(|(key, told)| told.status.conditions.iter().any(holds).then_some(key))
    };
    assert_eq!(kept_for("01:00:00").as_deref(), Some("default/large"));
    assert_eq!(kept_for("04:59:59").as_deref(), Some("default/large"));
    assert_eq!(kept_for("05:00:00"), None);
    assert_eq!(kept_for("08:59:59"), None);
    assert_eq!(kept_for("09:00:00").as_deref(), Some("default/large"));
}

#[test]
fn a_queue_and_a_namespace_have_no_more_nodes_kept_than_their_share_of_nodes_and_time() {
    let ended = [Some("01:00:00"), Some("05:00:00")];
    let small = |own: Scenario, name: &str, queue: &str| {
        own.job_with(name, 1, "Running", &json!({"queue": queue}))
            .running(name, 0, &["b"], "1")
    };
    let holds = |scenario: &Scenario, time: &str| {
        let outcome = after_turn(scenario, ended, time);
        told(&outcome).is_some_and(|(holds, ..)| holds)
    };
    // All nodes were kept for four hours. The others have waited for as long at nine.
    let alone = five_nodes(&allocate());
    assert!(holds(&alone, "09:00:00"));
    let queues = five_nodes(&allocate())
        .queue("r", &json!({}))
        .queue("s", &json!({}));
    let queues = small(small(queues, "of-r", "r"), "of-s", "s");
    let tenants = small(five_nodes(&allocate()).in_namespace("two"), "of-two", "q");
    let tenants = small(tenants.in_namespace("three"), "of-three", "q");
    for own in [queues, tenants] {
        assert!(!holds(&own, "12:59:00"));
        assert!(holds(&own, "13:00:00"));
    }
}
