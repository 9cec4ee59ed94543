//! A custom Permit plugin: pods of the namespace `batch` are bound only while the machine that feeds them is on, which is a
//! label of a node. A gang waits until then as a whole. After ten minutes all its pods give back their nodes.
#![allow(clippy::print_stdout, reason = "it shows what it does")]

use evictd_placement::{Chosen, Cluster, Permit, Plugin};
use evictd_pod::{Node, wire};
use evictd_scheduling::config::{Configuration, KubeSchedulerConfiguration, Point};
use evictd_scheduling::{
    Attempt, Change, CustomPlugin, Delta, Event, Framework, Outcome, Scheduler, Settings,
};
use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::error::Error;
use std::sync::Arc;

const NAME: &str = "FeederOn";

/// Waits for the label `feeder=on` of any node.
struct FeederOn;

impl Plugin for FeederOn {
    fn name(&self) -> &'static str {
        NAME
    }

    /// It is asked for each pod of a gang while the gang is tried, and again about those that it has wait whenever something
    /// changes in the cluster. One pod that waits holds its gang, and one that is rejected takes the gang with it.
    fn permit(&self, chosen: Chosen<'_>) -> Permit {
        let symbols = chosen.cluster.symbols();
        let is_on = |(key, value)| {
            let mut nodes = chosen.cluster.nodes().iter();
            nodes.any(|node| node.labels.get(key) == Some(value))
        };
        let on = symbols.get("feeder").zip(symbols.get("on"));
        if chosen.pod.metadata.namespace.as_str() != "batch" || on.is_some_and(is_on) {
            return Permit::Allow;
        }
        Permit::Wait(SignedDuration::from_mins(10))
    }
}

#[allow(
    clippy::unnecessary_wraps,
    reason = "others may find their arguments wrong"
)]
fn make(_cluster: &mut Cluster, _args: &Value) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(FeederOn))
}

fn new<T: DeserializeOwned>(value: &Value) -> Result<Delta<T>, serde_json::Error> {
    Ok(Delta {
        old: None,
        new: Some(Arc::new(T::deserialize(value)?)),
    })
}

fn node(feeder: &str) -> Result<Event, serde_json::Error> {
    let node = json!({ "metadata": { "name": "one", "labels": { "feeder": feeder } },
        "status": { "allocatable": { "cpu": "8", "memory": "32Gi", "pods": "110" } } });
    Ok(Event::Change(Change::Node(new::<Node>(&node)?)))
}

/// What became of the pods.
fn told(scheduler: &mut Scheduler, now: Timestamp) -> Vec<&'static str> {
    let mut told = Vec::new();
    while let Some(Attempt { key, outcome, .. }) = scheduler.attempt(now) {
        let what = match outcome {
            Outcome::WaitsOnPermit { .. } => "waits",
            Outcome::Placed { .. } => "is bound",
            _ => "gives its node back",
        };
        println!("{key} {what}");
        told.push(what);
    }
    told
}

fn main() -> Result<(), Box<dyn Error>> {
    let points: &[Point] = &[Point::Permit];
    let plugin = CustomPlugin {
        name: NAME,
        points,
        make,
    };
    let config: KubeSchedulerConfiguration = serde_json::from_value(json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [{ "plugins": { "multiPoint": { "enabled": [{ "name": NAME }] } } }],
    }))?;
    let config =
        Configuration::new(&config, &[(NAME, points)]).map_err(|wrong| format!("{wrong:?}"))?;
    let mut scheduler = Scheduler::new(Settings::default(), false, |cluster| {
        let framework = Framework::new(cluster, &config.profiles[0], &[plugin])?;
        Ok::<_, String>(vec![framework])
    })?;
    let mut now = Timestamp::UNIX_EPOCH;
    scheduler.on(now, &node("off")?);
    let group = json!({ "metadata": { "name": "train", "namespace": "batch" },
        "spec": { "schedulingPolicy": { "gang": { "minCount": 2 } } } });
    scheduler.on(now, &Event::PodGroup(new(&group)?));
    for name in ["train-0", "train-1"] {
        let pod = json!({ "metadata": { "name": name, "namespace": "batch", "uid": name }, "spec": {
            "schedulingGroup": { "podGroupName": "train" }, "containers": [{ "name": "main" }] } });
        let pods: Delta<wire::Pod> = new(&pod)?;
        scheduler.on(now, &Event::Change(Change::Pod(pods)));
    }
    assert_eq!(told(&mut scheduler, now), ["waits"; 2]);
    now = now.checked_add(SignedDuration::from_mins(10))?;
    assert_eq!(told(&mut scheduler, now), ["gives its node back"; 2]);
    scheduler.on(now, &node("on")?);
    now = now.checked_add(SignedDuration::from_secs(20))?;
    scheduler.flush_backoff(now);
    assert_eq!(told(&mut scheduler, now), ["is bound"; 2]);
    Ok(())
}
