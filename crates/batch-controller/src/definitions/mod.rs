//! The definitions of Volcano's custom resources, with all fields, defaults and limits (S6-001 to S6-011), generated from the
//! types in `evictd_batch_objects` and `evictd_hyper_nodes`. A cluster that has Volcano's definitions keeps them.
//!
//! The specs of pod templates and claims are stored unchecked: the API server checks them when the controllers create pods and
//! claims. evictd stores its additions to an object in annotations.

mod schema;

use evictd_batch_objects::{Command, Job, PodGroup, Queue};
use evictd_batch_workflows::{CronJob, JobFlow, JobTemplate};
use evictd_hyper_nodes::HyperNode;
use schema::of;
use serde_json::{Value, json};

/// The definitions, in the order of their names.
pub fn all() -> [Value; 8] {
    [
        command(),
        cron_job(),
        hyper_node(),
        job_flow(),
        job(),
        job_template(),
        pod_group(),
        queue(),
    ]
    .map(|definition| definition.document())
}

/// The column with the age of an object.
const AGE: Column = ("AGE", "date", ".metadata.creationTimestamp", 0);

fn command() -> Definition {
    Definition {
        group: "bus.volcano.sh",
        version: "v1alpha1",
        kind: "Command",
        plural: "commands",
        short_names: &[],
        namespaced: true,
        columns: &[],
        status: false,
        schema: of::<Command>(),
    }
}

fn cron_job() -> Definition {
    Definition {
        group: "batch.volcano.sh",
        version: "v1alpha1",
        kind: "CronJob",
        plural: "cronjobs",
        short_names: &["cronvcjob", "cronvj"],
        namespaced: true,
        columns: &[
            ("SCHEDULE", "string", ".spec.schedule", 0),
            ("SUSPEND", "boolean", ".spec.suspend", 0),
            ("LAST SCHEDULE", "date", ".status.lastScheduleTime", 0),
            AGE,
        ],
        status: true,
        schema: of::<CronJob>(),
    }
}

fn hyper_node() -> Definition {
    Definition {
        group: "topology.volcano.sh",
        version: "v1alpha1",
        kind: "HyperNode",
        plural: "hypernodes",
        short_names: &["hn"],
        namespaced: false,
        columns: &[
            ("Tier", "string", ".spec.tier", 0),
            ("TierName", "string", ".spec.tierName", 0),
            ("NodeCount", "integer", ".status.nodeCount", 0),
            AGE,
        ],
        status: true,
        schema: of::<HyperNode>(),
    }
}

fn job_flow() -> Definition {
    Definition {
        group: "flow.volcano.sh",
        version: "v1alpha1",
        kind: "JobFlow",
        plural: "jobflows",
        short_names: &["jf"],
        namespaced: true,
        columns: &[("STATUS", "string", ".status.state.phase", 0), AGE],
        status: true,
        schema: of::<JobFlow>(),
    }
}

fn job_template() -> Definition {
    Definition {
        group: "flow.volcano.sh",
        version: "v1alpha1",
        kind: "JobTemplate",
        plural: "jobtemplates",
        short_names: &["jt"],
        namespaced: true,
        columns: &[],
        status: true,
        schema: of::<JobTemplate>(),
    }
}

fn job() -> Definition {
    Definition {
        group: "batch.volcano.sh",
        version: "v1alpha1",
        kind: "Job",
        plural: "jobs",
        short_names: &["vcjob", "vj"],
        namespaced: true,
        columns: &[
            ("STATUS", "string", ".status.state.phase", 0),
            ("minAvailable", "integer", ".status.minAvailable", 0),
            ("RUNNINGS", "integer", ".status.running", 0),
            AGE,
            ("QUEUE", "string", ".spec.queue", 1),
        ],
        status: true,
        schema: of::<Job>(),
    }
}

fn pod_group() -> Definition {
    Definition {
        group: "scheduling.volcano.sh",
        version: "v1beta1",
        kind: "PodGroup",
        plural: "podgroups",
        short_names: &["pg", "podgroup-v1beta1"],
        namespaced: true,
        columns: &[
            ("STATUS", "string", ".status.phase", 0),
            ("minMember", "integer", ".spec.minMember", 0),
            ("RUNNINGS", "integer", ".status.running", 0),
            AGE,
            ("QUEUE", "string", ".spec.queue", 1),
        ],
        // As Volcano's: programs write it with the rest of the object.
        status: false,
        schema: of::<PodGroup>(),
    }
}

fn queue() -> Definition {
    Definition {
        group: "scheduling.volcano.sh",
        version: "v1beta1",
        kind: "Queue",
        plural: "queues",
        short_names: &["q", "queue-v1beta1"],
        namespaced: false,
        columns: &[("PARENT", "string", ".spec.parent", 0)],
        status: true,
        schema: of::<Queue>(),
    }
}

/// Name, type, JSON path, priority: those above 0 are shown with `-o wide`.
type Column = (&'static str, &'static str, &'static str, u8);

struct Definition {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    namespaced: bool,
    columns: &'static [Column],
    /// Whether status is written by a path of its own.
    status: bool,
    schema: Value,
}

impl Definition {
    /// A `CustomResourceDefinition`.
    fn document(&self) -> Value {
        let scope = if self.namespaced {
            "Namespaced"
        } else {
            "Cluster"
        };
        let columns = self.columns.iter().map(|(name, kind, path, priority)| {
            json!({"name": name, "type": kind, "jsonPath": path, "priority": priority})
        });
        let mut version = json!({
            "name": self.version,
            "served": true,
            "storage": true,
            "additionalPrinterColumns": columns.collect::<Value>(),
            "schema": {"openAPIV3Schema": self.schema},
        });
        if self.status {
            version["subresources"] = json!({"status": {}});
        }
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": format!("{}.{}", self.plural, self.group),
                // Helm would delete every job with it.
                "annotations": {"helm.sh/resource-policy": "keep"},
            },
            "spec": {
                "group": self.group,
                "scope": scope,
                "names": {
                    "kind": self.kind,
                    "listKind": format!("{}List", self.kind),
                    "plural": self.plural,
                    "singular": self.kind.to_lowercase(),
                    "shortNames": self.short_names,
                },
                "versions": [version],
            },
        })
    }
}
