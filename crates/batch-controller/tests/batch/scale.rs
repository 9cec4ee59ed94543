//! The requests and the memory that jobs with many pods take.

use crate::live::{Live, job};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Jobs of this many pods each, with these plugins, are created, enqueued, and run. Returns the controllers' requests by
/// verb and resource.
pub(crate) fn run(
    live: &Live,
    [jobs, pods]: [usize; 2],
    plugins: &Value,
    wait: impl Fn(&str, &dyn Fn() -> bool),
) -> BTreeMap<String, usize> {
    let names: Vec<String> = (0..jobs).map(|index| format!("job-{index}")).collect();
    for name in &names {
        let made = job(name, |job| {
            let spec = &mut job["spec"];
            spec["minAvailable"] = json!(pods);
            spec["plugins"] = plugins.clone();
            spec["tasks"][0]["replicas"] = json!(pods);
            spec["tasks"][0]["minAvailable"] = json!(pods);
        });
        live.admin.create(made).unwrap();
    }
    wait("all groups are there", &|| {
        live.admin.list("podgroups.scheduling.volcano.sh").len() == jobs
    });
    for name in &names {
        live.enqueue(name);
    }
    wait("all pods are there", &|| {
        live.admin.list("pods").len() == jobs * pods
    });
    for pod in live.admin.list("pods") {
        live.set_phase(pod["metadata"]["name"].as_str().unwrap(), "Running");
    }
    wait("all jobs run", &|| {
        let runs = |name: &String| {
            let status = live.job(name)["status"].take();
            status["state"]["phase"] == "Running" && status["running"] == pods
        };
        names.iter().all(runs)
    });
    let mut requests = BTreeMap::new();
    for entry in live.api.log() {
        if entry.user == "controllers" && entry.what != "leases" {
            let again = if entry.status == 409 { " again" } else { "" };
            let name = format!("{} {}{again}", entry.verb, entry.what);
            *requests.entry(name).or_insert(0) += 1;
        }
    }
    requests
}

#[test]
fn a_job_of_many_pods_takes_one_request_each_and_a_few_for_itself() {
    const PODS: usize = 300;
    let live = Live::new(&[]);
    let minute = std::time::Duration::from_mins(1);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let plugins = json!({"tensorflow": ["--worker=w"], "svc": []});
    let requests = run(&live, [1, PODS], &plugins, |what, is| {
        // Looks again only after a change, so that the test does not keep the server busy.
        let wait = live.admin.wait(minute, |_| is().then_some(()));
        assert!(runtime.block_on(wait).is_some(), "{what}");
    });
    assert_eq!(requests["create pods"], PODS);
    // Neither a pod nor an object of a plugin is created a second time.
    let mut again = requests.keys().filter(|name| name.ends_with(" again"));
    assert_eq!(again.next(), None, "{requests:?}");
    let others = requests
        .iter()
        .filter(|(name, _)| *name != "create pods")
        .map(|(_, count)| count);
    let others: usize = others.sum();
    // Lists and watches of every kind, the group, what the plugins make, and the status each time that a batch is done.
    assert!(others < PODS / 3, "{requests:?}");
    let peak = live.peak_memory() >> 10;
    assert!(peak < 200, "{peak} MiB");
}
