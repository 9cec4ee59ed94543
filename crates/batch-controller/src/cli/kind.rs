//! The kinds that the command line reads and writes, with their paths.

use anyhow::anyhow;
use evictd_command::Failure;

#[derive(Debug)]
pub(super) struct Kind {
    pub(super) group: &'static str,
    version: &'static str,
    pub(super) plural: &'static str,
    /// The field `kind` of an object.
    pub(super) name: &'static str,
    /// The word for messages.
    pub(super) word: &'static str,
}

pub(super) const JOBS: Kind = Kind {
    group: "batch.volcano.sh",
    version: "v1alpha1",
    plural: "jobs",
    name: "Job",
    word: "job",
};

pub(super) const CRON_JOBS: Kind = Kind {
    group: "batch.volcano.sh",
    version: "v1alpha1",
    plural: "cronjobs",
    name: "CronJob",
    word: "cron job",
};

pub(super) const JOB_FLOWS: Kind = Kind {
    group: "flow.volcano.sh",
    version: "v1alpha1",
    plural: "jobflows",
    name: "JobFlow",
    word: "job flow",
};

pub(super) const JOB_TEMPLATES: Kind = Kind {
    group: "flow.volcano.sh",
    version: "v1alpha1",
    plural: "jobtemplates",
    name: "JobTemplate",
    word: "job template",
};

pub(super) const QUEUES: Kind = Kind {
    group: "scheduling.volcano.sh",
    version: "v1beta1",
    plural: "queues",
    name: "Queue",
    word: "queue",
};

pub(super) const POD_GROUPS: Kind = Kind {
    group: "scheduling.volcano.sh",
    version: "v1beta1",
    plural: "podgroups",
    name: "PodGroup",
    word: "pod group",
};

/// Pod groups of Kubernetes itself.
pub(super) const UPSTREAM_POD_GROUPS: Kind = Kind {
    group: "scheduling.k8s.io",
    version: "v1beta1",
    plural: "podgroups",
    name: "PodGroup",
    word: "pod group",
};

pub(super) const WORKLOADS: Kind = Kind {
    group: "scheduling.k8s.io",
    version: "v1beta1",
    plural: "workloads",
    name: "Workload",
    word: "workload",
};

pub(super) const HYPER_NODES: Kind = Kind {
    group: "topology.volcano.sh",
    version: "v1alpha1",
    plural: "hypernodes",
    name: "HyperNode",
    word: "hyper node",
};

pub(super) const COMMANDS: Kind = Kind {
    group: "bus.volcano.sh",
    version: "v1alpha1",
    plural: "commands",
    name: "Command",
    word: "command",
};

pub(super) const EVENTS: Kind = Kind {
    group: "",
    version: "v1",
    plural: "events",
    name: "Event",
    word: "event",
};

pub(super) const PODS: Kind = Kind {
    group: "",
    version: "v1",
    plural: "pods",
    name: "Pod",
    word: "pod",
};

pub(super) const REPLICA_SETS: Kind = Kind {
    group: "apps",
    version: "v1",
    plural: "replicasets",
    name: "ReplicaSet",
    word: "replica set",
};

pub(super) const STATEFUL_SETS: Kind = Kind {
    group: "apps",
    version: "v1",
    plural: "statefulsets",
    name: "StatefulSet",
    word: "stateful set",
};

pub(super) const NODES: Kind = Kind {
    group: "",
    version: "v1",
    plural: "nodes",
    name: "Node",
    word: "node",
};

pub(super) const NAMESPACES: Kind = Kind {
    group: "",
    version: "v1",
    plural: "namespaces",
    name: "Namespace",
    word: "namespace",
};

pub(super) const PRIORITY_CLASSES: Kind = Kind {
    group: "scheduling.k8s.io",
    version: "v1",
    plural: "priorityclasses",
    name: "PriorityClass",
    word: "priority class",
};

pub(super) const CLAIMS: Kind = Kind {
    group: "",
    version: "v1",
    plural: "persistentvolumeclaims",
    name: "PersistentVolumeClaim",
    word: "claim",
};

pub(super) const VOLUMES: Kind = Kind {
    group: "",
    version: "v1",
    plural: "persistentvolumes",
    name: "PersistentVolume",
    word: "volume",
};

pub(super) const STORAGE_CLASSES: Kind = Kind {
    group: "storage.k8s.io",
    version: "v1",
    plural: "storageclasses",
    name: "StorageClass",
    word: "storage class",
};

pub(super) const CSI_NODES: Kind = Kind {
    group: "storage.k8s.io",
    version: "v1",
    plural: "csinodes",
    name: "CSINode",
    word: "CSI node",
};

pub(super) const VOLUME_ATTACHMENTS: Kind = Kind {
    group: "storage.k8s.io",
    version: "v1",
    plural: "volumeattachments",
    name: "VolumeAttachment",
    word: "volume attachment",
};

pub(super) const CSI_DRIVERS: Kind = Kind {
    group: "storage.k8s.io",
    version: "v1",
    plural: "csidrivers",
    name: "CSIDriver",
    word: "CSI driver",
};

pub(super) const STORAGE_CAPACITIES: Kind = Kind {
    group: "storage.k8s.io",
    version: "v1",
    plural: "csistoragecapacities",
    name: "CSIStorageCapacity",
    word: "storage capacity",
};

pub(super) const QUOTAS: Kind = Kind {
    group: "",
    version: "v1",
    plural: "resourcequotas",
    name: "ResourceQuota",
    word: "quota",
};

pub(super) const BUDGETS: Kind = Kind {
    group: "policy",
    version: "v1",
    plural: "poddisruptionbudgets",
    name: "PodDisruptionBudget",
    word: "disruption budget",
};

/// The processors of nodes.
pub(super) const NUMATOPOLOGIES: Kind = Kind {
    group: "nodeinfo.volcano.sh",
    version: "v1alpha1",
    plural: "numatopologies",
    name: "Numatopology",
    word: "numatopology",
};

/// The measured use of nodes.
pub(super) const NODE_METRICS: Kind = Kind {
    group: "metrics.k8s.io",
    version: "v1beta1",
    plural: "nodes",
    name: "NodeMetrics",
    word: "use of a node",
};

pub(super) const RESOURCE_CLAIMS: Kind = Kind {
    group: "resource.k8s.io",
    version: "v1",
    plural: "resourceclaims",
    name: "ResourceClaim",
    word: "resource claim",
};

pub(super) const RESOURCE_SLICES: Kind = Kind {
    group: "resource.k8s.io",
    version: "v1",
    plural: "resourceslices",
    name: "ResourceSlice",
    word: "resource slice",
};

pub(super) const DEVICE_CLASSES: Kind = Kind {
    group: "resource.k8s.io",
    version: "v1",
    plural: "deviceclasses",
    name: "DeviceClass",
    word: "device class",
};

impl Kind {
    /// The field `apiVersion` of an object: `batch.volcano.sh/v1alpha1`.
    pub(super) fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The path of a namespace, or of the whole cluster if `namespace` is empty.
    pub(super) fn path(&self, namespace: &str) -> Result<String, Failure> {
        let Self { plural, .. } = self;
        let root = match self.group {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        if namespace.is_empty() {
            return Ok(format!("{root}/{plural}"));
        }
        check_name(namespace, "namespace")?;
        Ok(format!("{root}/namespaces/{namespace}/{plural}"))
    }

    /// The path of one object.
    pub(super) fn path_of(&self, namespace: &str, name: &str) -> Result<String, Failure> {
        check_name(name, self.word)?;
        Ok(format!("{}/{name}", self.path(namespace)?))
    }
}

/// Only valid names become parts of a path, so that an argument cannot name another path.
fn check_name(name: &str, what: &str) -> Result<(), Failure> {
    let allowed = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '.');
    if name.starts_with(|first: char| first.is_ascii_alphanumeric()) && name.chars().all(allowed) {
        return Ok(());
    }
    Err(Failure::Input(anyhow!(
        "{name:?} cannot be the name of a {what}"
    )))
}

/// The value of an option that must not be empty. The error has the words of Volcano.
pub(super) fn required<'a>(name: &'a str, message: &'static str) -> Result<&'a str, Failure> {
    match name {
        "" => Err(Failure::Input(anyhow!(message))),
        name => Ok(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_names_become_parts_of_a_path() {
        let path = |namespace: &str, name: &str| JOBS.path_of(namespace, name);
        assert_eq!(
            path("shop", "a-1.b").unwrap(),
            "/apis/batch.volcano.sh/v1alpha1/namespaces/shop/jobs/a-1.b"
        );
        assert_eq!(
            QUEUES.path_of("", "q").unwrap(),
            "/apis/scheduling.volcano.sh/v1beta1/queues/q"
        );
        for (namespace, name) in [
            ("shop", ".."),
            ("..", "a"),
            ("shop", "a/b"),
            ("shop", "a?b"),
        ] {
            assert!(path(namespace, name).is_err(), "{namespace} {name}");
        }
    }
}
