//! The program under the names of Volcano's short programs.

use crate::batch;
use crate::cluster::{Cluster, cells};
use evictd_testkit::pages;
use evictd_testkit::program::{page, refusal};
use serde_json::json;
use std::os::unix::fs::symlink;
use std::process::{Command, Output};

/// Runs a link of this name to the program, with these variables.
fn called(cluster: &Cluster, name: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let links = tempfile::tempdir().unwrap();
    let link = links.path().join(name);
    symlink(batch().get_program(), &link).unwrap();
    let mut command = Command::new(link);
    command.args(arguments).envs(variables.iter().copied());
    cluster.run_command(command)
}

#[test]
fn s6_149_vsub_runs_a_job_with_a_command() {
    let cluster = Cluster::start();
    let ran = called(
        &cluster,
        "vsub",
        &["-n", "a", "-c", "sh -c 'sleep 9'", "-r", "2"],
        &[],
    );
    assert_eq!(page(&ran), "run job a successfully\n");
    let job = cluster.admin.get("jobs", "default/a").unwrap();
    let (spec, task) = (&job["spec"], &job["spec"]["tasks"][0]);
    let container = &task["template"]["spec"]["containers"][0];
    assert_eq!(container["command"], json!(["sh", "-c", "sleep 9"]));
    assert_eq!(
        (&container["image"], &task["replicas"]),
        (&json!("busybox"), &json!(2))
    );
    assert_eq!(spec["schedulerName"], "volcano");
    let unclosed = refusal(
        &called(&cluster, "vsub", &["-n", "b", "-c", "sh 'x"], &[]),
        2,
    );
    assert!(unclosed.contains("a quote is not closed"), "{unclosed}");
    let unnamed = refusal(&called(&cluster, "vsub", &[], &[]), 2);
    assert!(
        unnamed.contains("job name cannot be left blank"),
        "{unnamed}"
    );
}

#[test]
fn s6_149_options_of_vsub_override_its_environment() {
    let cluster = Cluster::start();
    let variables = [
        ("VOLCANO_SCHEDULER_NAME", "mine"),
        ("VOLCANO_DEFAULT_IMAGE", "alpine"),
        ("VOLCANO_DEFAULT_JOB_NAMESPACE", "kube-system"),
    ];
    page(&called(&cluster, "vsub", &["-n", "a"], &variables));
    let options = ["-n", "b", "-N", "default", "-i", "sleep", "-S", "other"];
    page(&called(&cluster, "vsub", &options, &variables));
    // An empty one is none.
    let empty = variables.map(|(name, _)| (name, ""));
    page(&called(&cluster, "vsub", &["-n", "c"], &empty));
    for (at, scheduler, image) in [
        ("default/c", "volcano", "busybox"),
        ("kube-system/a", "mine", "alpine"),
        ("default/b", "other", "sleep"),
    ] {
        let job = cluster.admin.get("jobs", at).unwrap();
        let container = &job["spec"]["tasks"][0]["template"]["spec"]["containers"][0];
        assert_eq!(
            (&job["spec"]["schedulerName"], &container["image"]),
            (&json!(scheduler), &json!(image))
        );
    }
}

#[test]
fn s6_149_jobs_are_suspended_resumed_cancelled_and_shown() {
    let cluster = Cluster::start();
    cluster.job("kube-system", "train", json!({}));
    let of_job = ["-N", "kube-system", "-n", "train"];
    for (name, action) in [("vsuspend", "AbortJob"), ("vresume", "ResumeJob")] {
        page(&called(&cluster, name, &of_job, &[]));
        let command = cluster.only("commands");
        assert_eq!(command["action"], action);
        let at = format!(
            "kube-system/{}",
            command["metadata"]["name"].as_str().unwrap()
        );
        cluster.admin.delete("commands", &at, json!({})).unwrap();
    }
    let listed = page(&called(&cluster, "vjobs", &["--all-namespaces"], &[]));
    assert_eq!(cells(&listed)[1][..2], ["kube-system", "train"]);
    let viewed = page(&called(&cluster, "vjobs", &of_job, &[]));
    assert!(viewed.starts_with("Name:         train\n"), "{viewed}");
    let cancelled = page(&called(&cluster, "vcancel", &of_job, &[]));
    assert_eq!(cancelled, "cancel job train successfully\n");
    assert!(cluster.admin.list("jobs").is_empty());
    let unnamed = refusal(&called(&cluster, "vcancel", &[], &[]), 2);
    assert!(
        unnamed.contains("job name is mandatory to cancel a particular job"),
        "{unnamed}"
    );
}

#[test]
fn s6_149_queues_are_shown_with_fewer_columns() {
    let cluster = Cluster::start();
    cluster.queue("gold", json!({"spec": {"parent": "root"}}));
    cluster.queue("silver", json!({}));
    cluster.pod_group("a", "gold", "Completed");
    cluster.pod_group("b", "gold", "Running");
    let listed = page(&called(&cluster, "vqueues", &[], &[]));
    let table = cells(&listed);
    assert_eq!(
        table[0].join(" "),
        "Name Weight State Inqueue Pending Running Unknown"
    );
    assert_eq!(table[1].join(" "), "gold 1 Open 0 0 1 0");
    let one = page(&called(&cluster, "vqueues", &["-n", "silver"], &[]));
    assert_eq!(cells(&one), [table[0].clone(), table[2].clone()]);
}

#[test]
fn the_documents_show_only_flags_that_the_help_has() {
    let unknown = pages::unknown_in_commands(env!("CARGO_BIN_EXE_evictd-batch"), "evictd-batch");
    assert!(unknown.is_empty(), "{unknown:#?}");
}
