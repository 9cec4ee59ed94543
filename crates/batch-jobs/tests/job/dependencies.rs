//! Tasks that wait for others of their job: what the PodGroup demands, and in which phase the job is meanwhile.

use super::cluster::Cluster;
use super::support::{case, phase, pod, task};
use evictd_batch_objects::Compat;
use serde_json::{Value, json};

/// A driver, and three executors that wait for it; all four are needed.
fn tasks() -> Value {
    let mut executor = task("executor", 3);
    executor["dependsOn"] = json!({"name": ["driver"]});
    json!([task("driver", 1), executor])
}

fn spark(compat: Compat, policies: Value) -> Cluster {
    let mut job = case("", tasks(), json!([]))["job"].take();
    job["status"] = json!({});
    job["spec"]["policies"] = policies;
    let mut cluster = Cluster::new(&job, compat);
    cluster.settle();
    cluster.set_group_phase("Inqueue");
    cluster.settle();
    cluster
}

fn all_to(cluster: &mut Cluster, task: &str, phase: &str) {
    for name in cluster.pods() {
        if name.contains(task) {
            cluster.set_phase(&name, phase);
        }
    }
    cluster.settle();
}

#[test]
fn s6_043_the_gang_of_a_driver_grows_by_its_executors_and_the_job_completes() {
    let mut cluster = spark(Compat::EVICTD, json!([]));
    assert_eq!(cluster.demand(), (1, json!({"driver": 1}), json!("1")));
    assert_eq!(cluster.pods(), ["train-driver-0"]);
    assert_eq!(cluster.phase(), "Pending");
    // The driver starts, which makes the job run, lets the group grow, and makes the executors.
    cluster.set_group_phase("Running");
    all_to(&mut cluster, "driver", "Running");
    let whole = (4, json!({"driver": 1, "executor": 3}), json!("4"));
    assert_eq!(cluster.demand(), whole);
    assert_eq!(cluster.pods().len(), 4);
    assert_eq!(cluster.phase(), "Running");
    // They start one after the other.
    for index in 0..3 {
        cluster.set_phase(&format!("train-executor-{index}"), "Running");
        cluster.settle();
        assert_eq!(cluster.phase(), "Running");
    }
    assert_eq!(cluster.demand(), whole);
    all_to(&mut cluster, "executor", "Succeeded");
    assert_eq!(cluster.phase(), "Running");
    all_to(&mut cluster, "driver", "Succeeded");
    assert_eq!(cluster.phase(), "Completed");
}

#[test]
fn s6_043_with_volcano_the_gang_counts_executors_that_are_not_made() {
    let mut cluster = spark(Compat::VOLCANO, json!([]));
    let whole = (4, json!({"driver": 1, "executor": 3}), json!("4"));
    assert_eq!(cluster.demand(), whole);
    // So its scheduler never starts the driver. If somebody did, the job would not be said to run.
    assert_eq!(cluster.pods(), ["train-driver-0"]);
    all_to(&mut cluster, "driver", "Running");
    assert_eq!(cluster.phase(), "Pending");
}

#[test]
fn a_group_that_grew_does_not_shrink_when_its_driver_is_replaced() {
    let mut cluster = spark(Compat::EVICTD, json!([]));
    all_to(&mut cluster, "driver", "Running");
    all_to(&mut cluster, "executor", "Running");
    cluster.remove_pod("train-driver-0");
    cluster.settle();
    assert_eq!(cluster.demand().0, 4);
    assert_eq!(cluster.pods().len(), 4);
}

#[test]
fn a_job_whose_driver_fails_before_its_executors_are_made_fails() {
    let mut cluster = spark(Compat::EVICTD, json!([]));
    all_to(&mut cluster, "driver", "Running");
    assert_eq!(cluster.phase(), "Running");
    let mut other = spark(Compat::EVICTD, json!([]));
    other.set_phase("train-driver-0", "Failed");
    other.settle();
    assert_eq!((other.phase().as_str(), other.pods().len()), ("Failed", 1));
    // Unless a policy restarts it: then it begins with the driver again.
    let policies = json!([{"action": "RestartJob", "event": "PodFailed"}]);
    let mut again = spark(Compat::EVICTD, policies);
    all_to(&mut again, "driver", "Running");
    all_to(&mut again, "driver", "Failed");
    again.set_group_phase("Inqueue");
    again.settle();
    assert_eq!(again.pods(), ["train-driver-0"]);
    assert_eq!(again.demand().0, 1);
}

#[test]
fn a_group_that_volcano_made_shrinks_to_what_can_start_and_is_marked() {
    let mut job = case("Pending", tasks(), json!([]));
    job["request"] = json!({"action": "SyncJob"});
    job["podGroup"] = json!({
        "metadata": {"name": "train-u1", "namespace": "ml"},
        "spec": {"minMember": 4, "minTaskMember": {"driver": 1, "executor": 3}, "queue": "q"},
        "status": {"phase": "Inqueue"},
    });
    let answer = super::support::answer(job, Compat::EVICTD);
    let group = &answer["podGroups"]["train-u1"];
    assert_eq!(group["minMember"], 1);
    assert_eq!(group["minTaskMember"], json!({"driver": 1}));
}

#[test]
fn the_minimum_of_a_gang_leaves_out_dependent_tasks() {
    let of = |min: i32, driver: (i32, i32), executor: (i32, i32)| {
        let mut tasks = tasks();
        for (at, (replicas, min)) in [driver, executor].into_iter().enumerate() {
            tasks[at]["replicas"] = json!(replicas);
            tasks[at]["minAvailable"] = json!(min);
        }
        let mut job = case("", tasks, json!([]))["job"].take();
        job["status"] = json!({});
        job["spec"]["minAvailable"] = json!(min);
        let mut cluster = Cluster::new(&job, Compat::EVICTD);
        cluster.settle();
        cluster.demand().0
    };
    // Of two drivers one is needed.
    assert_eq!(of(4, (2, 1), (3, 3)), 1);
    assert_eq!(of(5, (2, 1), (3, 3)), 2);
    // Fewer are needed than the tasks need together.
    assert_eq!(of(1, (2, 2), (3, 3)), 1);
    assert_eq!(of(0, (1, 1), (3, 3)), 0);
}

#[test]
fn a_task_that_is_not_waited_for_and_lacks_pods_makes_its_job_wait_again() {
    let pods = json!([
        pod("driver", 0, "Pending"),
        pod("executor", 0, "Running"),
        pod("executor", 1, "Running"),
        pod("executor", 2, "Running"),
    ]);
    let mut job = case("Running", tasks(), pods);
    job["request"] = json!({"action": "SyncJob"});
    assert_eq!(
        phase(&super::support::answer(job, Compat::EVICTD)),
        "Pending"
    );
}
