//! A session with no cluster: objects in, what it comes to out.

use super::objects::{Objects, Setting};
use super::outcome::Outcome;
use super::{Cache, Form};
use crate::conf::{Conf, ConfError};
use evictd_placement::Cluster;
use hashbrown::HashSet;

/// Runs one session on what a cluster holds, by the configuration that stands among it. With the outcome come warnings,
/// a line each: what of the configuration was passed over, and pods that cannot be read.
pub fn simulate(
    objects: &Objects,
    setting: &Setting,
    form: &Form,
) -> Result<(Outcome, Vec<String>), ConfError> {
    let conf = Conf::read(&objects.conf)?;
    let mut warnings: Vec<String> = conf
        .warnings
        .iter()
        .map(|own| format!("conf: {own}"))
        .collect();
    let mut cluster = Cluster::new();
    for (index, node) in objects.nodes.iter().enumerate() {
        if !cluster.add_node(node) {
            let name = &node.metadata.name;
            warnings.push(format!(
                "nodes[{index}]: a second node {name}; it is left out"
            ));
        }
    }
    let mut seen = HashSet::new();
    for (index, pod) in objects.pods.iter().enumerate() {
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
    }
    let setting = Setting {
        plain_pods: form.plain_pods,
        ..setting.clone()
    };
    let mut cache = Cache::of(&mut cluster, objects, setting);
    let outcome = cache.session(&mut cluster, &conf, form);
    Ok((outcome, warnings))
}
