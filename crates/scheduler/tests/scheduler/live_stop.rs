//! `evictd-scheduler run` at SIGTERM: what has begun is finished, and events are written before the process ends.

use crate::live_scheduling::{Live, pod};
use evictd_testkit::Fault;
use evictd_testkit::testing::wait_until;
use std::collections::BTreeSet;
use std::time::Duration;

/// The pods that are bound, and those with an event about it.
fn bound_and_reported(live: &Live) -> (BTreeSet<String>, BTreeSet<String>) {
    let pods = live.admin.list("pods").into_iter();
    let bound = pods.filter(|pod| pod["spec"]["nodeName"].is_string());
    let bound = bound.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned());
    let events = live.admin.list("events").into_iter();
    let scheduled = events.filter(|event| event["reason"] == "Scheduled");
    let reported = scheduled.map(|event| {
        let name = &event["involvedObject"]["name"];
        name.as_str().unwrap().to_owned()
    });
    (bound.collect(), reported.collect())
}

#[test]
fn the_event_of_every_binding_is_written_before_the_process_ends() {
    let mut live = Live::new(&[("one", "8")]);
    live.api
        .fault(Fault::delay(Duration::from_millis(300)).on("create", "events"));
    for number in 0..100 {
        live.admin
            .create(pod(&format!("p{number}"), "1m", 0))
            .unwrap();
    }
    wait_until("all pods are bound", || {
        bound_and_reported(&live).0.len() == 100
    });
    live.terminate();
    assert!(live.ended().success());
    let (bound, reported) = bound_and_reported(&live);
    assert_eq!(bound, reported);
}

#[test]
fn a_binding_that_is_under_way_at_the_stop_gets_its_event() {
    let mut live = Live::new(&[("one", "8")]);
    // The answers come one after the other.
    for number in 0..20 {
        let delay = Duration::from_millis(100 + 20 * number);
        live.api
            .fault(Fault::delay(delay).on("create", "pods/binding").times(1));
    }
    for number in 0..20 {
        live.admin
            .create(pod(&format!("p{number}"), "1m", 0))
            .unwrap();
    }
    wait_until("a pod is bound", || !bound_and_reported(&live).0.is_empty());
    live.terminate();
    assert!(live.ended().success());
    let (bound, reported) = bound_and_reported(&live);
    assert_eq!(bound, reported);
}

#[test]
fn events_that_are_not_written_do_not_delay_the_end_for_long() {
    let mut live = Live::new(&[("one", "8")]);
    live.api
        .fault(Fault::delay(Duration::from_hours(1)).on("create", "events"));
    live.admin.create(pod("web", "1m", 0)).unwrap();
    live.bound("default/web");
    live.terminate();
    // This waits for 10 seconds, which is less than a call and its repeats take.
    assert!(live.ended().success());
}
