//! Small clusters, in a few words.

use evictd_batch::conf::Conf;
use evictd_batch::session::{Cache, Objects, Outcome, Setting, simulate};
use evictd_batch_objects::Compat;
use evictd_placement::Cluster;
use evictd_test_objects as objects;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// A tier of a configuration: plugins in YAML's flow style.
pub(crate) type Tier<'t> = &'t [&'t str];

/// A configuration.
pub(crate) fn conf(actions: &str, tiers: &[Tier<'_>]) -> String {
    let mut conf = format!("actions: \"{actions}\"\ntiers:\n");
    for tier in tiers {
        conf.push_str("- plugins:\n");
        for plugin in *tier {
            let own = if plugin.starts_with('{') {
                (*plugin).to_owned()
            } else {
                format!("{{name: {plugin}}}")
            };
            writeln!(conf, "  - {own}").unwrap();
        }
    }
    conf
}

/// What is in a cluster. Objects are made one second after the other.
pub(crate) struct Scenario {
    conf: String,
    nodes: Vec<Value>,
    queues: Vec<Value>,
    groups: Vec<Value>,
    pods: Vec<Value>,
    classes: Vec<Value>,
    made: u32,
    namespace: String,
    /// Further lists of objects.
    further: Value,
}

fn patch(value: &mut Value, with: &Value) {
    match (value, with) {
        (Value::Object(own), Value::Object(with)) => {
            for (key, with) in with {
                patch(own.entry(key.clone()).or_insert(Value::Null), with);
            }
        }
        (own, with) => *own = with.clone(),
    }
}

impl Scenario {
    /// Nodes are added with [`Scenario::node`], and the queue `q` is there.
    pub(crate) fn new(conf: &str) -> Self {
        let own = Self {
            conf: conf.to_owned(),
            nodes: Vec::new(),
            queues: Vec::new(),
            groups: Vec::new(),
            pods: Vec::new(),
            classes: Vec::new(),
            made: 0,
            namespace: "default".to_owned(),
            further: json!({}),
        };
        own.queue("q", &json!({}))
    }

    fn now(&mut self) -> String {
        self.made += 1;
        format!(
            "2026-01-01T{:02}:{:02}:{:02}Z",
            self.made / 3600,
            self.made / 60 % 60,
            self.made % 60
        )
    }

    /// A node with so many cores, 100 GiB and room for 110 pods.
    pub(crate) fn node(self, name: &str, cpu: &str) -> Self {
        self.node_with(name, cpu, &json!({}))
    }

    pub(crate) fn node_with(mut self, name: &str, cpu: &str, with: &Value) -> Self {
        let node = objects::node(name).label("kubernetes.io/hostname", name);
        let node = node.cpu(cpu).memory("100Gi").merge(with.clone());
        self.nodes.push(node.json());
        self
    }

    pub(crate) fn queue(mut self, name: &str, spec: &Value) -> Self {
        let now = self.now();
        let queue = objects::queue(name).open().spec(spec.clone());
        let queue = queue.set("/metadata/creationTimestamp", now);
        self.queues.push(queue.json());
        self
    }

    /// Changes the last queue.
    pub(crate) fn queue_with(mut self, with: &Value) -> Self {
        patch(self.queues.last_mut().unwrap(), with);
        self
    }

    pub(crate) fn class(mut self, name: &str, value: i32) -> Self {
        self.classes
            .push(json!({"metadata": {"name": name}, "value": value}));
        self
    }

    /// Adds a list of objects that no other function has.
    pub(crate) fn further(mut self, list: &str, objects: Value) -> Self {
        self.further[list] = objects;
        self
    }

    /// What comes now is in another namespace.
    pub(crate) fn in_namespace(mut self, name: &str) -> Self {
        name.clone_into(&mut self.namespace);
        self
    }

    /// A job in the queue `q`.
    pub(crate) fn job(self, name: &str, min: i32, phase: &str) -> Self {
        self.job_with(name, min, phase, &json!({}))
    }

    pub(crate) fn job_with(mut self, name: &str, min: i32, phase: &str, spec: &Value) -> Self {
        let now = self.now();
        let group = objects::volcano_group(name, min).namespace(&self.namespace);
        let group = group.set("/metadata/creationTimestamp", now).phase(phase);
        let group = group.set("/spec/queue", "q").spec(spec.clone());
        self.groups.push(group.json());
        self
    }

    /// Changes the group of the last job.
    pub(crate) fn group_with(mut self, with: &Value) -> Self {
        patch(self.groups.last_mut().unwrap(), with);
        self
    }

    /// Pods of a job that wait.
    pub(crate) fn waiting(self, job: &str, count: usize, cpu: &str) -> Self {
        (0..count).fold(self, |own, index| {
            own.pod(&format!("{job}-work-{index}"), job, cpu, &json!({}))
        })
    }

    /// Pods of a job that run on a node, with this index and those after it.
    pub(crate) fn running(self, job: &str, from: usize, nodes: &[&str], cpu: &str) -> Self {
        let pods = nodes.iter().enumerate();
        pods.fold(self, |own, (index, node)| {
            let with = json!({"spec": {"nodeName": node}, "status": {"phase": "Running"}});
            own.pod(&format!("{job}-work-{}", from + index), job, cpu, &with)
        })
    }

    pub(crate) fn pod(mut self, name: &str, job: &str, cpu: &str, with: &Value) -> Self {
        let now = self.now();
        let mut pod = objects::volcano_pod(name, job).of_task("work");
        if cpu != "0" {
            pod = pod.cpu(cpu);
        }
        let pod = pod
            .namespace(&self.namespace)
            .set("/metadata/creationTimestamp", now);
        self.pods.push(pod.merge(with.clone()).json());
        self
    }

    pub(crate) fn objects(&self) -> Objects {
        let mut objects = json!({
            "conf": self.conf, "nodes": self.nodes, "queues": self.queues, "podGroups": self.groups,
            "pods": self.pods, "priorityClasses": self.classes,
        });
        patch(&mut objects, &self.further);
        serde_json::from_value(objects).unwrap()
    }

    /// The session as Volcano runs it.
    pub(crate) fn run(&self) -> Outcome {
        self.run_as(Compat::VOLCANO)
    }

    /// At a point in time.
    pub(crate) fn run_at(&self, now: &str, compat: Compat) -> Outcome {
        let objects = self.objects();
        let mut cluster = Cluster::new();
        for node in &objects.nodes {
            assert!(cluster.add_node(node));
        }
        let pods = objects.pods.iter();
        for pod in pods.filter(|pod| !pod.spec.node_name.is_empty()) {
            cluster.add_pod(pod.clone()).unwrap();
        }
        let mut cache = Cache::of(&mut cluster, &objects, Setting::default());
        cache.set_now(now.parse().unwrap());
        let conf = Conf::read(&objects.conf).unwrap();
        cache.session(&mut cluster, &conf, compat)
    }

    pub(crate) fn run_as(&self, compat: Compat) -> Outcome {
        simulate(&self.objects(), &Setting::default(), compat)
            .unwrap()
            .0
    }
}

/// Names without the namespace.
pub(crate) fn short<'n>(names: impl IntoIterator<Item = &'n String>) -> Vec<&'n str> {
    let names = names.into_iter();
    names
        .map(|name| name.trim_start_matches("default/"))
        .collect()
}

/// The pods that are evicted.
pub(crate) fn evicted(outcome: &Outcome) -> Vec<&str> {
    short(outcome.evicted.iter().map(|own| &own.pod))
}

/// The node of a pod that is bound.
pub(crate) fn bound<'o>(outcome: &'o Outcome, pod: &str) -> Option<&'o str> {
    outcome
        .binds
        .get(&format!("default/{pod}"))
        .map(String::as_str)
}

/// The events of an object.
pub(crate) fn events_of(outcome: &Outcome, object: &str) -> Vec<String> {
    let events = outcome.events.iter();
    let events = events.filter(|own| own.object == format!("default/{object}"));
    events
        .map(|own| format!("{} {} {}", own.kind.as_str(), own.reason, own.message))
        .collect()
}
