//! The plugin for each name of a configuration.

use super::{
    Plugin, capacity, cdp, conformance, drf, extender, gang, network_topology_aware, node_group,
    numa_aware, overcommit, pdb, priority, proportion, rescheduling, resource_quota,
    resource_strategy_fit, sla, task_topology, tdm, usage,
};
use crate::conf::{self, PluginName};
use crate::session::snapshot::Snapshot;
use evictd_batch_objects::Compat;
use evictd_placement::Cluster;

/// The plugin of a name as it is when a session opens; `None` for one that only filters or scores nodes.
pub(super) fn build(
    plugin: &conf::Plugin,
    snapshot: &Snapshot,
    cluster: &Cluster,
    (conf, compat): (&conf::Conf, Compat),
) -> Option<Box<dyn Plugin>> {
    let arguments = &plugin.arguments;
    Some(match plugin.name {
        PluginName::Gang => Box::new(gang::Gang::new(compat)),
        PluginName::Priority => Box::new(priority::Priority),
        PluginName::Conformance => Box::new(conformance::Conformance),
        PluginName::Drf => Box::new(drf::Drf::open(snapshot, plugin)),
        PluginName::Proportion => {
            let plugin = proportion::Proportion::open(snapshot, cluster, (conf, compat));
            Box::new(plugin)
        }
        PluginName::Capacity => Box::new(capacity::Capacity::open(snapshot, plugin, compat)),
        PluginName::Overcommit => {
            let factor = plugin.arguments.number("overcommit-factor", 1.2);
            Box::new(overcommit::Overcommit::open(snapshot, compat, factor))
        }
        PluginName::Sla => Box::new(sla::Sla::open(arguments)),
        PluginName::Cdp => Box::new(cdp::Cdp),
        PluginName::Tdm => Box::new(tdm::Tdm::open(snapshot, cluster, arguments, compat)),
        PluginName::Pdb => Box::new(pdb::Pdb::open(snapshot, cluster)),
        PluginName::ResourceQuota => Box::new(resource_quota::ResourceQuotas::default()),
        PluginName::NodeGroup => Box::new(node_group::NodeGroup::open(snapshot, cluster, plugin)),
        PluginName::ResourceStrategyFit => {
            let plugin = resource_strategy_fit::ResourceStrategyFit::open(snapshot, arguments);
            Box::new(plugin)
        }
        PluginName::TaskTopology => Box::new(task_topology::TaskTopology::open(
            snapshot, arguments, compat,
        )),
        PluginName::NetworkTopologyAware => {
            let plugin = network_topology_aware::NetworkTopologyAware::open(snapshot, arguments);
            Box::new(plugin)
        }
        PluginName::NumaAware => Box::new(numa_aware::NumaAware::open(
            snapshot, cluster, arguments, compat,
        )),
        PluginName::Usage => Box::new(usage::Usage::open(
            snapshot,
            cluster,
            arguments,
            conf.metrics_interval(),
            compat,
        )),
        PluginName::Rescheduling => {
            let plugin = rescheduling::Rescheduling::open(snapshot, cluster, arguments, compat);
            Box::new(plugin)
        }
        PluginName::Extender => {
            let calls = snapshot.facts.extender.clone()?;
            let around = (snapshot, cluster);
            Box::new(extender::Extender::open(calls, around, arguments, compat))
        }
        PluginName::Predicates | PluginName::NodeOrder | PluginName::Binpack => return None,
    })
}
