//! The controllers are killed in the midst of jobs: no pod too many, none too few, no retry counted twice.

use crate::live::{Live, job, on_failure, start_pods};
use evictd_testkit::testing::wait_until;
use evictd_testkit::{Actor, ApiServer};
use std::time::Duration;

/// How often they are killed; `EVICTD_CRASHES` says another number.
pub(crate) fn crashes() -> u64 {
    let given = std::env::var("EVICTD_CRASHES").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(6)
}

/// Waits until the server has seen so many requests more, or for a moment.
pub(crate) fn requests(api: &ApiServer, admin: &Actor, more: u64) {
    let wanted = api.counters().requests + more;
    wait(admin, Duration::from_millis(500), || {
        api.counters().requests >= wanted
    });
}

/// Waits until this holds, asked after each change; whether it came to that in time.
pub(crate) fn wait(admin: &Actor, at_most: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let seen = admin.wait(at_most, |_| holds().then_some(()));
    runtime.block_on(seen).is_some()
}

#[test]
fn controllers_that_are_killed_create_no_excess_pod_and_count_no_retry_twice() {
    let mut live = Live::new(&[]);
    for round in 0..crashes() {
        let name = format!("train-{round}");
        live.admin.create(job(&name, on_failure)).unwrap();
        // In another place each time: while the job is initiated, ...
        requests(&live.api, &live.admin, round % 7);
        live.kill();
        start_pods(&live, &name);
        let first = format!("default/{name}-w-0");
        let uid = |live: &Live| {
            let pod = live.admin.get("pods", &first).unwrap_or_default();
            pod["metadata"]["uid"].as_str().map(str::to_owned)
        };
        let failed = uid(&live);
        live.set_phase(&format!("{name}-w-0"), "Failed");
        // ... and while it restarts.
        requests(&live.api, &live.admin, round % 9);
        live.kill();
        wait_until("the pod that failed is replaced", || {
            live.enqueue(&name);
            uid(&live).is_some_and(|uid| Some(uid) != failed)
        });
        start_pods(&live, &name);
        let status = live.job(&name)["status"].take();
        assert_eq!(status["retryCount"], 1, "round {round}: {status}");
        wait_until(&format!("{name} is completed"), || {
            live.enqueue(&name);
            for pod in live.pods(&name) {
                live.set_phase(&pod, "Succeeded");
            }
            live.phase(&name) == "Completed"
        });
        assert_eq!(live.pods(&name).len(), 2, "round {round}");
    }
}
