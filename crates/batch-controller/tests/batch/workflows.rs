//! `evictd-batch controllers` on an API server: cron jobs, flows and job templates.

use crate::live::{Live, job, start_pods};
use evictd_testkit::testing::wait_until;
use serde_json::{Value, json};

/// A cron job that is due each second.
pub(crate) fn cron_job(name: &str, change: impl FnOnce(&mut Value)) -> Value {
    let spec = job(name, |_| {})["spec"].take();
    let mut cron = json!({
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "CronJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedule": "@every 1s", "concurrencyPolicy": "Forbid", "jobTemplate": {"spec": spec}},
    });
    change(&mut cron);
    cron
}

/// The parts of a flow, and a template for each.
pub(crate) fn flow(live: &Live, name: &str, flows: Value, policy: &str) -> Value {
    for flow in flows.as_array().unwrap() {
        let template = json!({
            "apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobTemplate",
            "metadata": {"name": flow["name"], "namespace": "default"},
            "spec": job("any", |_| {})["spec"],
        });
        live.admin.create(template).unwrap();
    }
    json!({
        "apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"flows": flows, "jobRetainPolicy": policy},
    })
}

fn jobs_of(live: &Live, owner: &str) -> Vec<Value> {
    let jobs = live.admin.list("jobs").into_iter();
    let jobs = jobs.filter(|job| job["metadata"]["ownerReferences"][0]["name"] == owner);
    jobs.collect()
}

pub(crate) fn complete(live: &Live, name: &str) {
    wait_until(&format!("there is {name}"), || live.job(name).is_object());
    live.until_phase(name, "Pending");
    start_pods(live, name);
    for pod in live.pods(name) {
        live.set_phase(&pod, "Succeeded");
    }
    live.until_phase(name, "Completed");
}

#[test]
fn s6_226_a_flow_creates_each_job_after_its_targets_and_deletes_all_at_its_end() {
    let live = Live::new(&[]);
    let flows = json!([
        {"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}},
    ]);
    let flow = flow(&live, "f", flows, "delete");
    live.admin.create(flow).unwrap();
    wait_until("there is a job", || live.job("f-a").is_object());
    assert!(live.job("f-b").is_null());
    assert_eq!(live.event_note("f", "Created"), "create a job named f-a!");
    complete(&live, "f-a");
    wait_until("the template names its job", || {
        let template = live.admin.get("jobtemplates", "default/a");
        template.unwrap()["status"]["jobDependsOnList"] == json!(["f-a"])
    });
    complete(&live, "f-b");
    let phase = || {
        let flow = live.admin.get("jobflows", "default/f").unwrap();
        flow["status"]["state"]["phase"].clone()
    };
    wait_until("the flow has succeeded", || phase() == "Succeed");
    wait_until("its jobs are deleted", || jobs_of(&live, "f").is_empty());
}

#[test]
fn s6_235_a_cron_job_creates_one_job_at_a_time_and_deletes_those_that_have_ended() {
    let live = Live::new(&[]);
    live.admin
        .create(cron_job("tick", |cron| {
            cron["spec"]["successfulJobsHistoryLimit"] = json!(0);
        }))
        .unwrap();
    let mut first = Value::Null;
    wait_until("there is a job", || {
        first = jobs_of(&live, "tick").pop().unwrap_or_default();
        first.is_object()
    });
    let name = first["metadata"]["name"].as_str().unwrap();
    live.until_phase(name, "Pending");
    start_pods(&live, name);
    assert_eq!(jobs_of(&live, "tick").len(), 1);
    for pod in live.pods(name) {
        live.set_phase(&pod, "Succeeded");
    }
    // The job that has ended is deleted, and the next one may have its name.
    wait_until("there is the next job, and no other", || {
        let jobs = jobs_of(&live, "tick");
        jobs.len() == 1 && jobs[0]["metadata"]["uid"] != first["metadata"]["uid"]
    });
    let cron = live.admin.get("cronjobs", "default/tick").unwrap();
    assert!(cron["status"]["lastSuccessfulTime"].is_string(), "{cron}");
}

#[test]
fn s6_240_a_job_that_is_not_in_the_status_is_adopted() {
    let live = Live::new(&[]);
    live.until_leader();
    live.admin
        .create(cron_job("once", |cron| {
            cron["spec"]["suspend"] = json!(true);
        }))
        .unwrap();
    // As a crash between the creation and the write of the status leaves it.
    let cron = live.admin.get("cronjobs", "default/once").unwrap();
    let owner = json!([{
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "CronJob", "name": "once",
        "uid": cron["metadata"]["uid"], "controller": true,
    }]);
    live.admin
        .create(job("once-1", |job| {
            job["metadata"]["ownerReferences"] = owner;
        }))
        .unwrap();
    wait_until("the job is active", || {
        let cron = live.admin.get("cronjobs", "default/once").unwrap();
        cron["status"]["active"][0]["name"] == "once-1"
    });
    live.event_note("once", "AdoptedJob");
}
