//! A custom plugin: it filters the nodes without the label `batch` for pods of the namespace `batch`, and scores cheaper nodes
//! higher. It is one type with one trait, and is enabled by its name in the configuration.
#![allow(clippy::print_stdout, reason = "it shows what it does")]

use evictd_placement::{
    Cluster, Code, Filter, Here, NodeId, Plugin, Pod, PreFilter, Rejection, Score,
    normalize_by_highest,
};
use evictd_scheduling::config::{Configuration, KubeSchedulerConfiguration, Point};
use evictd_scheduling::{CustomPlugin, Framework, SchedulingAlgorithm};
use serde_json::{Value, json};
use std::sync::Arc;

const NAME: &str = "CheapBatch";

struct CheapBatch {
    /// The label that holds a node's price.
    label: String,
}

impl CheapBatch {
    fn concerns(cluster: &Cluster, pod: &Pod) -> bool {
        cluster.symbols().text(cluster.template(pod).namespace) == "batch"
    }
}

impl Plugin for CheapBatch {
    fn name(&self) -> &'static str {
        NAME
    }

    /// Without a single node that has a price nothing has to be looked at.
    fn pre_filter(&self, cluster: &Cluster, pod: &Pod) -> PreFilter {
        let label = cluster.symbols().get(&self.label);
        let mut nodes = cluster.nodes().iter();
        let any = label.is_some_and(|label| nodes.any(|node| node.labels.get(label).is_some()));
        if !Self::concerns(cluster, pod) || any {
            return PreFilter::Pass;
        }
        PreFilter::Rejected(
            Code::UnschedulableAndUnresolvable,
            "no node has a price".to_owned(),
        )
    }

    fn filter(&self, cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
        let priced = Priced(self.label.clone());
        Self::concerns(cluster, pod).then(|| Box::new(priced) as _)
    }

    fn score(&self, cluster: &Cluster, pod: &Pod, _nodes: &[NodeId]) -> Option<Box<dyn Score>> {
        let priced = Priced(self.label.clone());
        Self::concerns(cluster, pod).then(|| Box::new(priced) as _)
    }
}

struct Priced(String);

impl Priced {
    fn price(&self, here: Here<'_>) -> Option<i64> {
        let symbols = here.cluster.symbols();
        let value = here.node.labels.get(symbols.get(&self.0)?)?;
        symbols.text(value).parse().ok()
    }
}

impl Filter for Priced {
    fn check(&self, here: Here<'_>) -> Result<(), Rejection> {
        match self.price(here) {
            Some(_) => Ok(()),
            None => Err(Rejection::unresolvable("node(s) had no price")),
        }
    }
}

impl Score for Priced {
    fn raw(&self, here: Here<'_>) -> i64 {
        self.price(here).unwrap_or(0)
    }

    fn normalize(&self, scores: &mut [i64]) {
        normalize_by_highest(scores, true);
    }
}

/// Makes the plugin from its `pluginConfig`.
#[allow(
    clippy::unnecessary_wraps,
    reason = "others may find their arguments wrong"
)]
fn make(_cluster: &mut Cluster, args: &Value) -> Result<Arc<dyn Plugin>, String> {
    let label = args["label"].as_str().unwrap_or("example.com/price");
    Ok(Arc::new(CheapBatch {
        label: label.to_owned(),
    }))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let points: &[Point] = &[Point::PreFilter, Point::Filter, Point::Score];
    let plugin = CustomPlugin {
        name: NAME,
        points,
        make,
    };
    let config: KubeSchedulerConfiguration = serde_json::from_value(json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [{
            "plugins": { "multiPoint": { "enabled": [{ "name": NAME, "weight": 5 }] } },
            "pluginConfig": [{ "name": NAME, "args": { "label": "price" } }],
        }],
    }))?;
    let config =
        Configuration::new(&config, &[(NAME, points)]).map_err(|wrong| format!("{wrong:?}"))?;
    let mut cluster = Cluster::new();
    for (name, labels) in [
        ("dear", json!({ "price": "9" })),
        ("cheap", json!({ "price": "2" })),
        ("unpriced", json!({})),
    ] {
        let node = json!({ "metadata": { "name": name, "labels": labels },
            "status": { "allocatable": { "cpu": "8", "memory": "32Gi", "pods": "110" } } });
        cluster.add_node(&serde_json::from_value(node)?);
    }
    let framework = Framework::new(&mut cluster, &config.profiles[0], &[plugin])?;
    let pod = json!({ "metadata": { "name": "job", "namespace": "batch" }, "spec": { "containers": [{ "name": "main" }] } });
    let pod = cluster.pod(serde_json::from_value(pod)?)?;
    let decided = SchedulingAlgorithm::default().schedule(&framework, &cluster, &pod);
    let decided = decided.map_err(|_| "it fits nowhere")?;
    let node = cluster.node_name(decided.chosen);
    println!(
        "batch/job goes to {node}, one of {} nodes that have a price",
        decided.feasible
    );
    assert_eq!((node, decided.feasible), ("cheap", 2));
    Ok(())
}
