//! The contents of the status page before the first cycle.

use super::{kubelet_directories::KubeletDirectories, node_name, pods, signals, usage};
use crate::{
    config::{Effective, EvictMethod, PodsSource, UsageSource},
    server::state::{Shared, SourceStatus, Status},
};
use evictd_kernel::{cgroup::Hierarchies, clock::Clock, kill::warn_of_hidden_processes};

pub(super) fn first(
    config: &Effective,
    (pods, usage): (&pods::Started, &usage::ChosenSource),
    directories: &KubeletDirectories,
    clock: Clock,
) -> Status {
    let source = |port: &str, chosen: &str, why: &str| SourceStatus {
        port: port.to_owned(),
        chosen: chosen.to_owned(),
        why: why.to_owned(),
    };
    let (method, why) = match config.evict.method {
        EvictMethod::Auto => ("cgroup", "works on every node"),
        EvictMethod::Cri => ("cri", "configured"),
        EvictMethod::Cgroup => ("cgroup", "configured"),
        EvictMethod::Delete => ("delete", "configured"),
        EvictMethod::Eviction => ("eviction", "configured"),
    };
    let sources = vec![
        source("pods.source", pods.name(), &pods.why),
        source("usage.source", usage.name(), &usage.why),
        source("evict.method", method, why),
        source(
            "kubelet.rootDir",
            &directories.root.to_string_lossy(),
            &directories.why_root,
        ),
        source(
            "kubelet.podLogsDir",
            &directories.logs.to_string_lossy(),
            &directories.why_logs,
        ),
    ];
    Status {
        node: node_name(config),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        started_at: clock.now(),
        rules: config.kind.as_str().to_owned(),
        dry_run: config.is_dry(pods.source),
        sources,
        ..Status::default()
    }
}

/// The figures and actions that this machine does not support, in the log and on the status page.
pub(super) fn warn_at_start(
    config: &Effective,
    (source, usage): (PodsSource, UsageSource),
    (hierarchies, huge_pages): (&Hierarchies, Option<String>),
    shared: &Shared,
) {
    shared.add_warnings(pods::what_is_unknown(config, source));
    shared.add_warnings(warn_of_hidden_processes(&config.roots.proc));
    let warnings = [
        signals::without_pod_memory(usage, hierarchies),
        signals::without_own_pressure(config, hierarchies),
        huge_pages,
    ];
    for warning in warnings.into_iter().flatten() {
        tracing::warn!("{warning}");
        shared.add_warnings(vec![warning]);
    }
}
