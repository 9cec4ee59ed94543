//! Jobs on the command line.

use crate::cluster::{Cluster, cells, file};
use evictd_testkit::program::{answer, page, refusal, stderr};
use serde_json::json;

#[test]
fn s6_145_a_job_is_run_by_options() {
    let cluster = Cluster::start();
    let ran = cluster.run("job run -N hello");
    assert_eq!(page(&ran), "run job hello successfully\n");
    let job = cluster.only("jobs");
    assert_eq!(job["metadata"]["namespace"], "default");
    let container = json!({
        "name": "hello", "image": "busybox", "imagePullPolicy": "IfNotPresent",
        "resources": {"requests": {"cpu": "1", "memory": "100Mi"}, "limits": {"cpu": "1", "memory": "100Mi"}},
    });
    assert_eq!(
        job["spec"],
        json!({
            "minAvailable": 1, "schedulerName": "volcano",
            "tasks": [{"name": "default0", "replicas": 1, "template": {
                "metadata": {"name": "hello", "labels": {"job.volcano.sh": "hello"}},
                "spec": {"restartPolicy": "Never", "containers": [container]},
            }}],
        })
    );
}

#[test]
fn s6_145_every_option_of_run_reaches_the_job() {
    let cluster = Cluster::start();
    let ran = cluster.run(
        "job run --namespace kube-system --name big --image sleep:1 --min 2 --replicas 3 --requests cpu=2 \
         --limits cpu=4,memory=1Gi --scheduler other",
    );
    assert_eq!(page(&ran), "run job big successfully\n");
    let job = cluster.admin.get("jobs", "kube-system/big").unwrap();
    let (spec, task) = (&job["spec"], &job["spec"]["tasks"][0]);
    let container = &task["template"]["spec"]["containers"][0];
    assert_eq!(
        (&spec["minAvailable"], &task["replicas"]),
        (&json!(2), &json!(3))
    );
    assert_eq!(
        (&spec["schedulerName"], &container["image"]),
        (&json!("other"), &json!("sleep:1"))
    );
    let resources = json!({"requests": {"cpu": "2"}, "limits": {"cpu": "4", "memory": "1Gi"}});
    assert_eq!(container["resources"], resources);
}

#[test]
fn s6_145_a_job_is_run_by_a_file_with_every_field_that_it_has() {
    let cluster = Cluster::start();
    let job = file(
        "metadata: {name: of-file, namespace: kube-system}\nspec:\n  novel: 1\n  tasks: [{replicas: 2}]\n",
    );
    let ran = cluster.run(&format!("job run -N ignored -f {}", job.path().display()));
    assert_eq!(page(&ran), "run job of-file successfully\n");
    let job = cluster.admin.get("jobs", "kube-system/of-file").unwrap();
    assert_eq!(job["spec"], json!({"novel": 1, "tasks": [{"replicas": 2}]}));
}

#[test]
fn s6_145_errors_in_a_job_have_volcanos_words() {
    let cluster = Cluster::start();
    let message = |arguments: &str| refusal(&cluster.run(arguments), 2);
    assert_eq!(
        message("job run"),
        "evictd-batch: job name cannot be left blank\n"
    );
    assert_eq!(
        message("job run -f job.json"),
        "evictd-batch: only support yaml file\n"
    );
    let missing = message("job run -f /nowhere/job.yml");
    assert!(missing.contains("/nowhere/job.yml"), "{missing}");
    let wrong = message("job run -N a -R cpu:1");
    let expected = "invalid argument syntax cpu:1, expected <resource>=<value>";
    assert!(wrong.contains(expected), "{wrong}");
    assert!(cluster.admin.list("jobs").is_empty());
}

#[test]
fn s6_146_jobs_are_listed_with_volcanos_columns() {
    let cluster = Cluster::start();
    let status = json!({
        "metadata": {"labels": {"volcano.sh/job-type": "MPI"}},
        "status": {
            "state": {"phase": "Running"}, "minAvailable": 4, "pending": 1, "running": 2, "succeeded": 3, "failed": 4,
            "unknown": 5, "retryCount": 6,
        },
    });
    let job = cluster.job("default", "train", status);
    cluster.job("kube-system", "other", json!({}));
    let listed = page(&cluster.run("job list"));
    let table = cells(&listed);
    let columns = "Name Creation Phase JobType Replicas Min Pending Running Succeeded Failed Unknown RetryCount";
    assert_eq!(table[0].join(" "), columns);
    let day = &job["metadata"]["creationTimestamp"].as_str().unwrap()[..10];
    let row = [
        "train", day, "Running", "MPI", "5", "4", "1", "2", "3", "4", "5", "6",
    ];
    assert_eq!(table[1..], [row.to_vec()]);
    // Scripts cut by position: the name takes three blanks more than the longest one, the others what vcctl gives them.
    let lines: Vec<&str> = listed.lines().collect();
    let starts = [0, 8, 23, 35, 47, 59, 65, 75, 85, 97, 107, 119];
    for (line, words) in lines.iter().zip(&table) {
        let found = starts.map(|at| line[at..].split(' ').next().unwrap());
        assert_eq!(&found[..], &words[..], "{line:?}");
        assert_eq!(line.len(), 129, "{line:?}");
    }
    let listed = page(&cluster.run("job list --all-namespaces"));
    let table = cells(&listed);
    assert_eq!(table[0].join(" "), format!("Namespace {columns}"));
    assert_eq!((table[1][0], table[2][0]), ("default", "kube-system"));
    assert_eq!(table[2][3], "Batch");
}

#[test]
fn s6_146_jobs_are_filtered_by_queue_scheduler_and_a_part_of_their_name() {
    let cluster = Cluster::start();
    cluster.job("default", "train-1", json!({"spec": {"queue": "gold"}}));
    cluster.job(
        "default",
        "train-2",
        json!({"spec": {"schedulerName": "other"}}),
    );
    cluster.job("default", "serve", json!({}));
    for (filter, expected) in [
        ("-q gold", vec!["train-1"]),
        ("-S other", vec!["train-2"]),
        ("--selector rain", vec!["train-1", "train-2"]),
        ("--scheduler volcano --queue default", vec!["serve"]),
    ] {
        let listed = answer(&cluster.run(&format!("job list -o json {filter}")));
        let listed = listed.as_array().unwrap();
        let names: Vec<&str> = listed
            .iter()
            .map(|job| job["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, expected, "{filter}");
    }
    for nothing in ["-q none", "-S none", "--selector none", "-n kube-system"] {
        let listed = page(&cluster.run(&format!("job list {nothing}")));
        assert_eq!(listed, "No resources found\n");
    }
    assert_eq!(answer(&cluster.run("job list -q none -o json")), json!([]));
}

#[test]
fn s6_012_s6_147_suspend_and_resume_make_commands_for_the_job() {
    let cluster = Cluster::start();
    let job = cluster.job("default", "train", json!({}));
    for (verb, action) in [("suspend", "AbortJob"), ("resume", "ResumeJob")] {
        let message = page(&cluster.run(&format!("job {verb} -N train")));
        let command = cluster.only("commands");
        let metadata = &command["metadata"];
        let name = metadata["name"].as_str().unwrap();
        let expected = format!("job train: created command {name} ({action})\n");
        assert_eq!(message, expected);
        let prefix = format!("train-{}-", action.to_lowercase());
        assert_eq!(metadata["generateName"], prefix);
        assert!(name.starts_with(&prefix), "{name}");
        assert_eq!(metadata["namespace"], "default");
        let reference = json!({
            "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train",
            "uid": job["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
        });
        assert_eq!(command["target"], reference);
        assert_eq!(metadata["ownerReferences"], json!([reference]));
        assert_eq!(command["action"], action);
        cluster.admin.delete("commands", name, json!({})).unwrap();
    }
}

#[test]
fn s6_147_a_job_is_deleted_and_a_missing_job_is_an_error() {
    let cluster = Cluster::start();
    cluster.job("kube-system", "train", json!({}));
    let elsewhere = refusal(&cluster.run("job delete -N train"), 1);
    let expected =
        "evictd-batch: delete job: 404 NotFound: jobs.batch.volcano.sh \"train\" not found\n";
    assert_eq!(elsewhere, expected);
    let deleted = page(&cluster.run("job delete -n kube-system -N train"));
    assert_eq!(deleted, "delete job train successfully\n");
    assert!(cluster.admin.list("jobs").is_empty());
    for verb in ["suspend", "resume", "view"] {
        let message = refusal(&cluster.run(&format!("job {verb} -N train")), 1);
        assert!(
            message.contains("jobs.batch.volcano.sh \"train\" not found"),
            "{message}"
        );
    }
    assert!(cluster.admin.list("commands").is_empty());
}

#[test]
fn s6_147_a_job_must_be_named() {
    let cluster = Cluster::start();
    for verb in ["suspend", "resume", "delete"] {
        let message = refusal(&cluster.run(&format!("job {verb}")), 2);
        let expected = format!("evictd-batch: job name is mandatory to {verb} a particular job\n");
        assert_eq!(message, expected);
    }
    let message = refusal(&cluster.run("job view"), 2);
    let expected = "job name (specified by --name or -N) is mandatory to view a particular job";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn s6_147_view_shows_the_spec_the_status_and_the_events() {
    let cluster = Cluster::start();
    let job = cluster.job(
        "default",
        "train",
        json!({
            "metadata": {"annotations": {"note": "a\u{1b}[2J\nPhase: forged"}},
            "spec": {"minAvailable": 2, "plugins": {"ssh": [], "env": ["--x"]}, "tasks": [{
                "name": "worker", "replicas": 2, "template": {"spec": {
                    "containers": [{"name": "main", "image": "busybox", "command": ["sleep", "9"]}],
                }},
            }]},
            "status": {
                "state": {"phase": "Running"}, "running": 2, "minAvailable": 2,
                "conditions": [{"status": "Pending", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            },
        }),
    );
    let event = |name: &str, uid: &serde_json::Value, message: &str| {
        json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "type": "Normal",
            "reason": "ExecuteAction", "message": message, "source": {"component": "vc-controller-manager"},
            "involvedObject": {"kind": "Job", "namespace": "default", "name": "train", "uid": uid},
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z", "count": 1,
        })
    };
    let mine = event("train.1", &job["metadata"]["uid"], "it began");
    cluster.admin.create(mine).unwrap();
    let earlier = event("train.0", &json!("another"), "of an earlier job");
    cluster.admin.create(earlier).unwrap();
    let viewed = page(&cluster.run("job view -N train"));
    let words: Vec<String> = cells(&viewed)
        .into_iter()
        .map(|line| line.join(" "))
        .collect();
    for expected in [
        "Name: train",
        "Labels: <none>",
        "Kind: Job",
        "Min Available: 2",
        "env: [--x]",
        "Name: worker",
        "Replicas: 2",
        "Command: sleep 9",
        "Running: 2",
        "Phase: Running",
        "Pending: 2026-01-01T00:00:00Z",
    ] {
        assert!(
            words.iter().any(|line| line == expected),
            "{expected}\n{viewed}"
        );
    }
    assert!(
        !viewed.contains('\u{1b}') && !words.iter().any(|line| line == "Phase: forged"),
        "{viewed}"
    );
    assert!(
        viewed.contains("vc-controller-manager  it began"),
        "{viewed}"
    );
    assert!(!viewed.contains("of an earlier job"), "{viewed}");
    let all = answer(&cluster.run("job view -N train -o json"));
    assert_eq!(all["job"]["spec"]["tasks"][0]["name"], "worker");
    assert_eq!(all["job"]["kind"], "Job");
    assert_eq!(all["events"][0]["message"], "it began");
}

#[test]
fn s6_147_a_job_without_events_is_shown() {
    let cluster = Cluster::start();
    cluster.job("default", "train", json!({}));
    let viewed = page(&cluster.run("job view -N train"));
    assert!(viewed.ends_with("Events:  <none>\n"), "{viewed}");
    let yaml = cluster.run("job view -N train -o yaml");
    assert!(page(&yaml).contains("apiVersion: batch.volcano.sh/v1alpha1"));
    assert_eq!(stderr(&yaml), "");
}
