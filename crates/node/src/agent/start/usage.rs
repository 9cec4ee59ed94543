//! Chooses the source of usage figures.

use super::{kubelet_directories::KubeletDirectories, node_name};
use crate::{
    config::{CgroupPath, Effective, PodsSource, UsageSource},
    usage::{DiskRoots, SummaryUsage, UsageReader, summary},
};
use evictd_cluster_client::KubeletClient;
use evictd_cri::Client;
use evictd_kernel::{
    cgroup::{Controller, Hierarchies},
    clock::Clock,
};
use std::fs::File;

/// The source of usage figures.
pub(super) struct ChosenSource {
    pub(super) source: UsageSource,
    pub(super) why: String,
}

impl ChosenSource {
    /// Its name in the configuration.
    pub(super) fn name(&self) -> &'static str {
        match self.source {
            UsageSource::Summary => "summary",
            UsageSource::Cri => "cri",
            _ => "cgroup",
        }
    }

    /// A gauge with the sources that were found.
    pub(super) fn reader(
        &self,
        config: &Effective,
        directories: &KubeletDirectories,
        (hierarchies, runtime): (Hierarchies, &Client),
        clock: Clock,
    ) -> UsageReader {
        let summary = match self.source {
            UsageSource::Summary => {
                let access = config.kubelet.access.clone();
                Some(SummaryUsage::new(access, node_name(config), clock))
            }
            UsageSource::Cri => Some(SummaryUsage::of_runtime(runtime.clone(), clock)),
            UsageSource::Auto | UsageSource::Cgroup => None,
        };
        let roots = DiskRoots {
            kubelet: directories.root.clone(),
            logs: directories.logs.clone(),
            proc: config.roots.proc.clone(),
        };
        UsageReader::new(hierarchies, roots, summary)
    }
}

/// The configured source; `auto` uses cgroups if those of pods can be read, else the kubelet.
pub(super) async fn find(
    config: &Effective,
    pods_source: PodsSource,
    hierarchies: &Hierarchies,
) -> ChosenSource {
    let chosen = |source, why: &str| ChosenSource {
        source,
        why: why.to_owned(),
    };
    if config.usage.source != UsageSource::Auto {
        return chosen(config.usage.source, "configured");
    }
    if pods_source == PodsSource::Manifests {
        return chosen(UsageSource::Cgroup, "manifests name the pods' cgroups");
    }
    if can_be_read(config, hierarchies) {
        return chosen(UsageSource::Cgroup, "the pods' cgroups can be read");
    }
    match kubelet_answers(config).await {
        Ok(url) => ChosenSource {
            source: UsageSource::Summary,
            why: format!("the pods' cgroups cannot be read, and the kubelet at {url} answers"),
        },
        Err(problem) => ChosenSource {
            source: UsageSource::Cgroup,
            why: format!("no pod has a cgroup yet, and the kubelet cannot be used ({problem})"),
        },
    }
}

/// Whether the figures of a cgroup above pods can be read.
fn can_be_read(config: &Effective, hierarchies: &Hierarchies) -> bool {
    let mut roots = config.cgroup_roots.iter().map(CgroupPath::as_path);
    roots.any(|root| {
        let directory = hierarchies.dir(Controller::Memory, root);
        directory.is_some_and(|directory| File::open(directory.join("memory.stat")).is_ok())
    })
}

async fn kubelet_answers(config: &Effective) -> Result<String, String> {
    let url = KubeletClient::url(&config.kubelet.access);
    if !KubeletClient::is_listening(&config.kubelet.access).await {
        return Err(format!("none listens at {url}"));
    }
    let kubelet = KubeletClient::find(&config.kubelet.access, &node_name(config))
        .await
        .map_err(|error| error.to_string())?;
    summary(&kubelet).await.map(|_| url)
}
