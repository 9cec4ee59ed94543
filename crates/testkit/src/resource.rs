//! The kinds of objects that are served.

/// One kind of object as discovery names it.
#[derive(Debug, PartialEq, Eq)]
pub struct Resource {
    /// API group; empty for the core.
    pub group: &'static str,
    /// Version within the group.
    pub version: &'static str,
    /// As in a path: `pods`.
    pub plural: &'static str,
    /// Its storage name: the plural, qualified by the group if another group has the same plural.
    pub stored: &'static str,
    /// As in an object: `Pod`.
    pub kind: &'static str,
    /// Whether its objects live in a namespace.
    pub namespaced: bool,
    /// Its short names for kubectl.
    pub short: &'static [&'static str],
    /// Paths below an object, `status` among them where status is written apart from the rest.
    pub subresources: &'static [&'static str],
}

const fn namespaced(
    group: &'static str,
    plural: &'static str,
    kind: &'static str,
    short: &'static [&'static str],
    subresources: &'static [&'static str],
) -> Resource {
    Resource {
        group,
        version: "v1",
        plural,
        stored: plural,
        kind,
        namespaced: true,
        short,
        subresources,
    }
}

const fn cluster_wide(
    group: &'static str,
    plural: &'static str,
    kind: &'static str,
    short: &'static [&'static str],
    subresources: &'static [&'static str],
) -> Resource {
    Resource {
        namespaced: false,
        ..namespaced(group, plural, kind, short, subresources)
    }
}

/// Everything that is served. Objects that are stored as the same are the same objects: events have two groups.
pub(crate) static RESOURCES: [Resource; 54] = [
    namespaced(
        "",
        "pods",
        "Pod",
        &["po"],
        &["status", "eviction", "binding"],
    ),
    namespaced("", "bindings", "Binding", &[], &[]),
    namespaced("", "services", "Service", &["svc"], &["status"]),
    namespaced(
        "",
        "replicationcontrollers",
        "ReplicationController",
        &["rc"],
        &["status"],
    ),
    cluster_wide("", "nodes", "Node", &["no"], &["status", "proxy"]),
    cluster_wide("", "namespaces", "Namespace", &["ns"], &["status"]),
    Resource {
        version: "v1alpha1",
        ..cluster_wide(
            "nodeinfo.volcano.sh",
            "numatopologies",
            "Numatopology",
            &["numatopo"],
            &[],
        )
    },
    Resource {
        version: "v1alpha1",
        ..cluster_wide(
            "topology.volcano.sh",
            "hypernodes",
            "HyperNode",
            &["hn"],
            &["status"],
        )
    },
    Resource {
        version: "v1beta1",
        stored: "nodes.metrics.k8s.io",
        ..cluster_wide("metrics.k8s.io", "nodes", "NodeMetrics", &[], &[])
    },
    namespaced("", "events", "Event", &["ev"], &[]),
    namespaced("", "configmaps", "ConfigMap", &["cm"], &[]),
    namespaced("", "secrets", "Secret", &[], &[]),
    namespaced("", "limitranges", "LimitRange", &["limits"], &[]),
    namespaced(
        "",
        "resourcequotas",
        "ResourceQuota",
        &["quota"],
        &["status"],
    ),
    cluster_wide("node.k8s.io", "runtimeclasses", "RuntimeClass", &[], &[]),
    namespaced(
        "resource.k8s.io",
        "resourceclaimtemplates",
        "ResourceClaimTemplate",
        &[],
        &[],
    ),
    namespaced("", "serviceaccounts", "ServiceAccount", &["sa"], &[]),
    namespaced(
        "",
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        &["pvc"],
        &["status"],
    ),
    cluster_wide(
        "",
        "persistentvolumes",
        "PersistentVolume",
        &["pv"],
        &["status"],
    ),
    namespaced("events.k8s.io", "events", "Event", &["ev"], &[]),
    namespaced(
        "policy",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        &["pdb"],
        &["status"],
    ),
    cluster_wide(
        "scheduling.k8s.io",
        "priorityclasses",
        "PriorityClass",
        &["pc"],
        &[],
    ),
    Resource {
        version: "v1beta1",
        ..namespaced(
            "scheduling.k8s.io",
            "podgroups",
            "PodGroup",
            &[],
            &["status"],
        )
    },
    Resource {
        version: "v1alpha3",
        ..namespaced(
            "scheduling.k8s.io",
            "compositepodgroups",
            "CompositePodGroup",
            &[],
            &["status"],
        )
    },
    Resource {
        version: "v1beta1",
        ..namespaced("scheduling.k8s.io", "workloads", "Workload", &[], &[])
    },
    cluster_wide(
        "admissionregistration.k8s.io",
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        &[],
        &[],
    ),
    cluster_wide(
        "admissionregistration.k8s.io",
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
        &[],
        &[],
    ),
    cluster_wide(
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        &[],
        &[],
    ),
    cluster_wide(
        "admissionregistration.k8s.io",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        &[],
        &[],
    ),
    namespaced(
        "networking.k8s.io",
        "networkpolicies",
        "NetworkPolicy",
        &["netpol"],
        &[],
    ),
    namespaced("coordination.k8s.io", "leases", "Lease", &[], &[]),
    namespaced(
        "apps",
        "deployments",
        "Deployment",
        &["deploy"],
        &["status"],
    ),
    namespaced("apps", "replicasets", "ReplicaSet", &["rs"], &["status"]),
    namespaced("apps", "daemonsets", "DaemonSet", &["ds"], &["status"]),
    namespaced("apps", "statefulsets", "StatefulSet", &["sts"], &["status"]),
    cluster_wide(
        "storage.k8s.io",
        "storageclasses",
        "StorageClass",
        &["sc"],
        &[],
    ),
    cluster_wide("storage.k8s.io", "csinodes", "CSINode", &[], &[]),
    cluster_wide("storage.k8s.io", "csidrivers", "CSIDriver", &[], &[]),
    namespaced(
        "storage.k8s.io",
        "csistoragecapacities",
        "CSIStorageCapacity",
        &[],
        &[],
    ),
    cluster_wide(
        "storage.k8s.io",
        "volumeattachments",
        "VolumeAttachment",
        &[],
        &["status"],
    ),
    namespaced(
        "resource.k8s.io",
        "resourceclaims",
        "ResourceClaim",
        &[],
        &["status"],
    ),
    cluster_wide("resource.k8s.io", "deviceclasses", "DeviceClass", &[], &[]),
    cluster_wide(
        "resource.k8s.io",
        "devicetaintrules",
        "DeviceTaintRule",
        &[],
        &["status"],
    ),
    cluster_wide(
        "resource.k8s.io",
        "resourceslices",
        "ResourceSlice",
        &[],
        &[],
    ),
    cluster_wide(
        "authentication.k8s.io",
        "tokenreviews",
        "TokenReview",
        &[],
        &[],
    ),
    cluster_wide(
        "authorization.k8s.io",
        "subjectaccessreviews",
        "SubjectAccessReview",
        &[],
        &[],
    ),
    // The server ignores definitions: it always has the kinds below.
    cluster_wide(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        &["crd"],
        &["status"],
    ),
    // Custom resources, as Volcano defines them: groups of pods have their status beside their spec.
    Resource {
        version: "v1alpha1",
        ..namespaced(
            "batch.volcano.sh",
            "jobs",
            "Job",
            &["vcjob", "vj"],
            &["status"],
        )
    },
    Resource {
        version: "v1alpha1",
        ..namespaced(
            "batch.volcano.sh",
            "cronjobs",
            "CronJob",
            &["cronvcjob", "cronvj"],
            &["status"],
        )
    },
    Resource {
        version: "v1alpha1",
        ..namespaced(
            "flow.volcano.sh",
            "jobflows",
            "JobFlow",
            &["jf"],
            &["status"],
        )
    },
    Resource {
        version: "v1alpha1",
        ..namespaced(
            "flow.volcano.sh",
            "jobtemplates",
            "JobTemplate",
            &["jt"],
            &["status"],
        )
    },
    Resource {
        version: "v1alpha1",
        ..namespaced("bus.volcano.sh", "commands", "Command", &[], &[])
    },
    Resource {
        version: "v1beta1",
        stored: "podgroups.scheduling.volcano.sh",
        ..namespaced(
            "scheduling.volcano.sh",
            "podgroups",
            "PodGroup",
            &["pg", "podgroup-v1beta1"],
            &[],
        )
    },
    Resource {
        version: "v1beta1",
        ..cluster_wide(
            "scheduling.volcano.sh",
            "queues",
            "Queue",
            &["q", "queue-v1beta1"],
            &["status"],
        )
    },
];

impl Resource {
    /// The one at `plural` of a group.
    pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static Self> {
        RESOURCES.iter().find(|resource| {
            resource.group == group && resource.version == version && resource.plural == plural
        })
    }

    /// The one that an object says it is.
    pub fn of(api_version: &str, kind: &str) -> Option<&'static Self> {
        RESOURCES
            .iter()
            .find(|resource| resource.kind == kind && resource.api_version() == api_version)
    }

    /// As in an object: `v1`, `policy/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// As in messages: `pods`, `poddisruptionbudgets.policy`.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_owned()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// Whether its objects can only be made, and nothing is kept of them.
    pub fn is_only_asked(&self) -> bool {
        matches!(
            self.plural,
            "bindings" | "tokenreviews" | "subjectaccessreviews"
        )
    }

    /// Whether it is a custom resource, which the server knows only by its definition.
    pub fn is_custom(&self) -> bool {
        self.group.ends_with("volcano.sh")
    }

    /// Whether status is written by its own path only.
    pub fn has_status(&self) -> bool {
        self.subresources.contains(&"status")
    }
}
