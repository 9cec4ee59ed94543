//! Cron jobs, flows and job templates on the command line.

use crate::cluster::{Cluster, cells, file};
use evictd_testkit::program::{answer, page, refusal};
use serde_json::{Value, json};

const CRON_JOB: &str = "metadata:
  name: nightly
  namespace: default
spec:
  schedule: '0 3 * * *'
  jobTemplate: {spec: {tasks: [{name: w, replicas: 1}]}}
";

fn created(cluster: &Cluster, command: &str, text: &str) -> String {
    let file = file(text);
    page(&cluster.run(&format!("{command} create -f {}", file.path().display())))
}

#[test]
fn a_cron_job_is_created_listed_suspended_resumed_and_deleted() {
    let cluster = Cluster::start();
    assert_eq!(page(&cluster.run("cronjob list")), "No resources found\n");
    let made = created(&cluster, "cronjob", CRON_JOB);
    assert_eq!(made, "create cron job nightly successfully\n");
    let stored = || cluster.only("cronjobs");
    assert_eq!(stored()["kind"], "CronJob");
    let suspended = page(&cluster.run("cronjob suspend -N nightly"));
    assert_eq!(suspended, "suspend cron job nightly successfully\n");
    assert_eq!(stored()["spec"]["suspend"], true);
    let list = answer(&cluster.run("cronjob list --all-namespaces -o json"));
    assert_eq!(
        (
            &list[0]["namespace"],
            &list[0]["schedule"],
            &list[0]["suspend"]
        ),
        (&json!("default"), &json!("0 3 * * *"), &json!(true))
    );
    let table = page(&cluster.run("cronjob get -N nightly"));
    assert_eq!(cells(&table)[1][0], "nightly");
    page(&cluster.run("cronjob resume -N nightly"));
    assert_eq!(stored()["spec"]["suspend"], false);
    page(&cluster.run("cronjob delete -N nightly"));
    assert_eq!(cluster.admin.list("cronjobs"), Vec::<Value>::new());
    let missing = refusal(&cluster.run("cronjob suspend -N nightly"), 1);
    assert!(missing.contains("not found"), "{missing}");
    let unnamed = refusal(&cluster.run("cronjob suspend"), 2);
    assert!(unnamed.contains("is mandatory"), "{unnamed}");
}

#[test]
fn a_flow_and_its_template_are_created_shown_and_deleted() {
    let cluster = Cluster::start();
    let template =
        "kind: JobTemplate\nmetadata: {name: t}\nspec: {tasks: [{name: w, replicas: 1}]}\n";
    let made = created(&cluster, "jobtemplate", template);
    assert_eq!(made, "create job template t successfully\n");
    let flow = "metadata: {name: f}\nspec: {flows: [{name: t}]}\n";
    let made = created(&cluster, "jobflow", flow);
    assert_eq!(made, "create job flow f successfully\n");
    let list = answer(&cluster.run("jobflow list -o json"));
    assert_eq!(
        (&list[0]["name"], &list[0]["flows"]),
        (&json!("f"), &json!(1))
    );
    let described = page(&cluster.run("jobflow describe -N f"));
    assert!(described.contains("flows:\n  - name: t\n"), "{described}");
    let list = answer(&cluster.run("jobtemplate list -o json"));
    assert_eq!(list[0]["jobs"], 0);
    page(&cluster.run("jobflow delete -N f"));
    page(&cluster.run("jobtemplate delete -N t"));
    assert_eq!(cluster.admin.list("jobflows"), Vec::<Value>::new());
    assert_eq!(cluster.admin.list("jobtemplates"), Vec::<Value>::new());
}

#[test]
fn a_file_with_another_kind_is_refused() {
    let cluster = Cluster::start();
    let other = file("kind: Job\n");
    let refused = cluster.run(&format!("cronjob create -f {}", other.path().display()));
    let refused = refusal(&refused, 2);
    assert!(refused.contains("is not CronJob"), "{refused}");
}
