//! Small clusters in few words: cpu in whole cores, a minute of starting time a digit.
#![allow(dead_code, reason = "each test file uses its part")]

use evictd_placement::{Checks, Cluster, Pod};
use evictd_pod::compatibility::{Compatibility, Release};
use evictd_preemption::{
    Action, Budget, BudgetPolicy, Candidate, Compat, Extender, Nodes, Options, Plan, VictimGroup,
    VictimGroups, VictimRules, plan,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

fn object<T: DeserializeOwned>(value: &Value) -> T {
    T::deserialize(value).unwrap()
}

/// A pod that asks for cores.
pub(crate) fn pod(name: &str, priority: i32, cores: u32) -> Value {
    json!({
        "metadata": { "name": name, "namespace": "default", "uid": format!("uid-{name}"),
            "labels": { "app": name } },
        "spec": { "priority": priority, "schedulerName": "default-scheduler",
            "containers": [{ "name": "c", "resources": { "requests": { "cpu": cores.to_string() } } }] },
        "status": { "phase": "Running" },
    })
}

/// A pod of a group.
pub(crate) fn in_group(pod: Value, group: &str) -> Value {
    with(
        pod,
        "/spec/schedulingGroup",
        json!({ "podGroupName": group }),
    )
}

/// Sets the value at a path like `/spec/x`.
pub(crate) fn with(mut pod: Value, path: &str, value: Value) -> Value {
    let (holder, key) = path.rsplit_once('/').unwrap();
    pod.pointer_mut(holder).unwrap()[key] = value;
    pod
}

pub(crate) fn started(pod: Value, minute: u32) -> Value {
    with(
        pod,
        "/status/startTime",
        json!(format!("2026-01-01T00:{minute:02}:00Z")),
    )
}

pub(crate) fn terminating(pod: Value) -> Value {
    with(
        pod,
        "/metadata/deletionTimestamp",
        json!("2026-01-01T00:00:00Z"),
    )
}

/// Terminating as a victim of preemption.
pub(crate) fn preempted(pod: Value) -> Value {
    let condition = json!([{ "type": "DisruptionTarget", "status": "True",
        "reason": "PreemptionByScheduler" }]);
    with(terminating(pod), "/status/conditions", condition)
}

pub(crate) fn nominated(pod: Value, node: &str) -> Value {
    let pod = with(pod, "/status/nominatedNodeName", json!(node));
    let condition =
        json!([{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" }]);
    let pod = with(pod, "/status/conditions", condition);
    with(pod, "/status/phase", json!("Pending"))
}

/// A budget for the pods with this label `app`.
pub(crate) fn budget(app: &str, allowed: i32) -> Value {
    json!({
        "metadata": { "name": format!("pdb-{app}"), "namespace": "default" },
        "spec": { "selector": { "matchLabels": { "app": app } } },
        "status": { "disruptionsAllowed": allowed },
    })
}

/// A cluster, the preemptor and the options.
pub(crate) struct Scenario {
    pub(crate) cluster: Cluster,
    pub(crate) budgets: Vec<Budget>,
    pub(crate) preemptor: Pod,
    pub(crate) options: Options,
    pub(crate) groups: Groups,
}

/// A plan in names.
pub(crate) struct Answer {
    pub(crate) plan: Plan,
    /// The chosen node.
    pub(crate) chosen: Option<String>,
    /// Its victims.
    pub(crate) victims: Vec<String>,
    /// Nodes that could be freed.
    pub(crate) candidates: Vec<String>,
    /// The actions in short form.
    pub(crate) actions: Vec<String>,
    pub(crate) message: Option<String>,
    pub(crate) why: Vec<String>,
}

impl Scenario {
    /// Nodes of as many cores as given, and the pods on them.
    pub(crate) fn new(nodes: &[(&str, u32, Vec<Value>)], preemptor: &Value) -> Self {
        let mut cluster = Cluster::new();
        let mut seen: HashMap<String, u32> = HashMap::new();
        for (name, cores, pods) in nodes {
            cluster.add_node(&object(&json!({
                "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name, "zone": "z" } },
                "status": { "allocatable": { "cpu": cores.to_string(), "pods": "110" } },
            })));
            for pod in pods {
                let mut pod = with(pod.clone(), "/spec/nodeName", json!(name));
                // Scenes repeat pods; a UID means one.
                let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
                let times = seen.entry(uid.to_owned()).or_insert(0);
                *times += 1;
                if *times > 1 {
                    pod["metadata"]["uid"] = json!(format!("{uid}-{times}"));
                }
                cluster.add_pod(object(&pod)).unwrap();
            }
        }
        let preemptor = cluster.pod(object(preemptor)).unwrap();
        Self {
            cluster,
            budgets: Vec::new(),
            preemptor,
            options: Options::default(),
            groups: Groups::default(),
        }
    }

    /// Kubernetes 1.37 with these groups: their priority, and whether their pods are preempted together.
    pub(crate) fn groups(mut self, groups: &[(&str, i32, bool)]) -> Self {
        self.cluster
            .set_compatibility(Compatibility::of(Release::V1_37));
        for (name, priority, together) in groups {
            let atomic = together.then(|| Arc::from(*name));
            let group = VictimGroup {
                priority: *priority,
                atomic,
            };
            self.groups.by_name.insert((*name).to_owned(), group);
        }
        for id in self.cluster.node_ids() {
            for pod in &self.cluster.node(id).pods {
                if let Some(group) = self.cluster.template(pod).scheduling_group {
                    let group = self.cluster.symbols().text(group).to_owned();
                    let key = self.cluster.pod_key(pod);
                    self.groups.pods.entry(group).or_default().push(key);
                }
            }
        }
        self
    }

    /// Adds a pod that waits.
    pub(crate) fn waits(mut self, pod: &Value) -> Self {
        self.cluster.add_pod(object(pod)).unwrap();
        self
    }

    pub(crate) fn budgets(mut self, budgets: &[Value]) -> Self {
        let compiled = budgets.iter().map(|wire| {
            let wire = object(wire);
            Budget::new(&mut self.cluster, &wire).unwrap()
        });
        self.budgets = compiled.collect();
        self
    }

    pub(crate) fn compat(mut self, compat: Compat) -> Self {
        self.options.compat = compat;
        self
    }

    pub(crate) fn nodes(mut self, nodes: Nodes) -> Self {
        self.options.nodes = nodes;
        self
    }

    pub(crate) fn policy(mut self, policy: BudgetPolicy) -> Self {
        self.options.policy = policy;
        self
    }

    pub(crate) fn plan(&self) -> Answer {
        self.plan_with(&mut [], &[])
    }

    /// Plans with extenders, and with these pods waiting for their binding.
    pub(crate) fn plan_with(
        &self,
        extenders: &mut [&mut dyn Extender],
        waiting: &[&str],
    ) -> Answer {
        let Self {
            cluster,
            budgets,
            preemptor,
            options,
            groups,
        } = self;
        let rules = VictimRules {
            budgets,
            groups: Some(groups),
        };
        let waits = |pod: &Pod| waiting.contains(&pod.name());
        let plan = plan(cluster, rules, preemptor, *options, extenders, &waits).unwrap();
        let node = |candidate: &Candidate| cluster.node_name(candidate.node).to_owned();
        let choice = plan.choice();
        Answer {
            chosen: choice.map(node),
            victims: choice.map_or(Vec::new(), |choice| self.victims(&plan, choice)),
            candidates: plan.candidates.iter().map(node).collect(),
            actions: plan.actions.iter().map(words).collect(),
            message: plan.message(&Checks::new(cluster, preemptor)),
            why: plan.reasons(cluster),
            plan,
        }
    }

    pub(crate) fn victims(&self, plan: &Plan, candidate: &Candidate) -> Vec<String> {
        let victims = plan.victims(candidate).iter();
        victims
            .map(|victim| victim.pod(&self.cluster).name().to_owned())
            .collect()
    }
}

/// The groups of a scenario.
#[derive(Default)]
pub(crate) struct Groups {
    by_name: HashMap<String, VictimGroup>,
    pods: HashMap<String, Vec<Arc<str>>>,
}

impl Groups {
    /// The keys of the pods of a group.
    pub(crate) fn pods_of(&self, group: &str) -> &[Arc<str>] {
        self.pods.get(group).map_or(&[], Vec::as_slice)
    }
}

impl VictimGroups for Groups {
    fn group(&self, _namespace: &str, name: &str) -> Option<VictimGroup> {
        self.by_name.get(name).cloned()
    }

    fn pods(&self, atomic: &Arc<str>) -> Vec<Arc<str>> {
        self.pods_of(atomic).to_vec()
    }
}

fn words(action: &Action) -> String {
    let value = serde_json::to_value(action).unwrap();
    let what = value["do"].as_str().unwrap();
    let pod = value["pod"]
        .as_str()
        .unwrap()
        .trim_start_matches("default/");
    format!("{what} {pod}")
}
