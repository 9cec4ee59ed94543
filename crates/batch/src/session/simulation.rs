//! A session without a cluster: objects in, outcome out.

use super::Cache;
use super::coscheduling::Coscheduling;
use super::objects::{Objects, Setting};
use super::observer::Observer;
use super::outcome::Outcome;
use crate::conf::{Conf, ConfError};
use evictd_batch_objects::{Compat, Difference};
use evictd_placement::Cluster;
use hashbrown::HashSet;

/// The report of a session that nothing follows.
struct WholeReport;

impl Observer for WholeReport {
    fn lists_groups(&self) -> bool {
        true
    }
}

/// Runs one session on objects, with the configuration among them. Returns warnings beside the outcome: ignored
/// configuration, pods that cannot be read, and groups that sessions do not read.
pub fn simulate(
    objects: &Objects,
    setting: &Setting,
    compat: Compat,
) -> Result<(Outcome, Vec<String>), ConfError> {
    let conf = Conf::parse("conf", &objects.conf)?;
    let mut warnings: Vec<String> = conf.warnings.iter().map(ToString::to_string).collect();
    let mut cluster = Cluster::new();
    for (index, node) in objects.nodes.iter().enumerate() {
        if !cluster.add_node(node) {
            let name = &node.metadata.name;
            warnings.push(format!(
                "nodes[{index}]: a second node {name}; it is left out"
            ));
        }
    }
    let setting = Setting {
        plain_pods: compat.has(Difference::BarePods),
        ..setting.clone()
    };
    let mut seen = HashSet::new();
    let mut coscheduling = Coscheduling::default();
    for (index, pod) in objects.pods.iter().enumerate() {
        // By name, because pods in files need no UID.
        let key = (pod.metadata.namespace_or_default(), &pod.metadata.name);
        if !seen.insert(key) {
            let (namespace, name) = key;
            warnings.push(format!(
                "pods[{index}]: a second pod {namespace}/{name}; it is left out"
            ));
        } else if !pod.spec.node_name.is_empty()
            && let Err(mistake) = cluster.add_pod(pod.clone())
        {
            warnings.push(format!(
                "pods[{index}]: {mistake}; it counts as nothing on its node"
            ));
        }
        warnings.extend(coscheduling.notice(pod, &setting));
    }
    let mut cache = Cache::of(&mut cluster, objects, setting);
    let outcome = cache.watched(&mut cluster, &conf, compat, &mut WholeReport);
    Ok((outcome, warnings))
}
