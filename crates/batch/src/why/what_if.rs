//! A copy of the cluster for trials: objects are changed, sessions are run, and all is restored.

use crate::compat::Compat;
use crate::conf::Conf;
use crate::session::{Cache, JobDiagnosis, Objects, Outcome, Setting, upstream_job};
use crate::wire::{PodGroup, Queue};
use evictd_placement::Cluster;
use evictd_pod::Node;
use evictd_pod::wire::{self, Pod, PriorityClass};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An object as it was before a change; `None` where there was none.
enum Before {
    Node(String, Option<Arc<Node>>),
    Pod(String, Option<Arc<Pod>>),
    Group(String, Option<Arc<PodGroup>>),
    Queue(String, Option<Arc<Queue>>),
    /// A class that was not there.
    Class(String),
}

/// A position in the list of changes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark(usize);

/// Every object that a session reads.
pub(super) struct WhatIf<'a> {
    pub(super) cluster: Cluster,
    cache: Cache,
    conf: &'a Conf,
    pub(super) compat: Compat,
    pub(super) nodes: BTreeMap<String, Arc<Node>>,
    pub(super) pods: BTreeMap<String, Arc<Pod>>,
    pub(super) groups: BTreeMap<String, Arc<PodGroup>>,
    /// Kubernetes' own, by the name of the job that each is. They stay as they are.
    pub(super) upstream: BTreeMap<Arc<str>, wire::PodGroup>,
    pub(super) queues: BTreeMap<String, Arc<Queue>>,
    journal: Vec<Before>,
}

impl<'a> WhatIf<'a> {
    /// All these objects; the first of several with one name counts. The cluster has neither nodes nor pods yet.
    pub(super) fn new(
        cluster: Cluster,
        objects: Objects,
        setting: Setting,
        (conf, compat): (&'a Conf, Compat),
    ) -> Self {
        let mut what_if = Self {
            cluster,
            cache: Cache::new(setting),
            conf,
            compat,
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            groups: BTreeMap::new(),
            upstream: BTreeMap::new(),
            queues: BTreeMap::new(),
            journal: Vec::new(),
        };
        for class in &objects.priority_classes {
            what_if.cache.class(class);
        }
        for node in objects.nodes {
            let name = node.metadata.name.clone();
            if !what_if.nodes.contains_key(&name) {
                what_if.set_node(&name, Some(Arc::new(node)));
            }
        }
        for queue in objects.queues {
            let name = queue.metadata.name.clone();
            what_if.set_queue(&name, Some(Arc::new(queue)));
        }
        for group in objects.pod_groups {
            let key = group.metadata.full_name();
            what_if.set_group(&key, Some(Arc::new(group)));
        }
        for workload in &objects.workloads {
            what_if.cache.workload(workload);
        }
        for group in objects.upstream_pod_groups {
            what_if.cache.upstream_group(&group);
            what_if
                .upstream
                .insert(upstream_job(&group.metadata), group);
        }
        for pod in objects.pods {
            let key = pod.metadata.full_name();
            if !what_if.pods.contains_key(&key) {
                what_if.set_pod(&key, Some(Arc::new(pod)));
            }
        }
        what_if.journal.clear();
        what_if
    }

    /// Runs a session; nothing changes.
    pub(super) fn session(&mut self) -> Outcome {
        self.cache
            .session(&mut self.cluster, self.conf, self.compat)
    }

    /// The same with a close look at the job of this pod group.
    pub(super) fn diagnosis(&mut self, group: &str) -> (Outcome, Option<JobDiagnosis>) {
        self.cache
            .diagnosis(&mut self.cluster, self.conf, self.compat, group)
    }

    /// `namespace/name` of the job of a pod group; without a job, of the group itself.
    pub(super) fn job_of(&self, group: &str) -> String {
        let known = self.groups.get(group);
        let owner = known.and_then(|group| {
            let mut owners = group.metadata.owner_references.iter();
            owners.find(|owner| owner.controller)
        });
        let namespace = group.split('/').next().unwrap_or_default();
        owner.map_or_else(
            || match self.upstream.get(group) {
                Some(upstream) => upstream.metadata.full_name(),
                None => group.to_owned(),
            },
            |owner| format!("{namespace}/{}", owner.name),
        )
    }

    /// Where changes are now.
    pub(super) const fn mark(&self) -> Mark {
        Mark(self.journal.len())
    }

    /// Puts all back that was changed since.
    pub(super) fn undo(&mut self, mark: Mark) {
        while self.journal.len() > mark.0 {
            match self.journal.pop() {
                Some(Before::Node(name, old)) => self.put_node(&name, old).map(drop),
                Some(Before::Pod(key, old)) => self.put_pod(&key, old).map(drop),
                Some(Before::Group(key, old)) => self.put_group(&key, old).map(drop),
                Some(Before::Queue(name, old)) => self.put_queue(&name, old).map(drop),
                Some(Before::Class(name)) => {
                    self.cache.remove_class(&name);
                    None
                }
                None => None,
            };
        }
    }

    /// The new state of a node; `None` if it is removed.
    pub(super) fn set_node(&mut self, name: &str, new: Option<Arc<Node>>) {
        let old = self.put_node(name, new);
        self.journal.push(Before::Node(name.to_owned(), old));
    }

    /// A pod as it is from now on.
    pub(super) fn set_pod(&mut self, key: &str, new: Option<Arc<Pod>>) {
        let old = self.put_pod(key, new);
        self.journal.push(Before::Pod(key.to_owned(), old));
    }

    /// A pod group as it is from now on.
    pub(super) fn set_group(&mut self, key: &str, new: Option<Arc<PodGroup>>) {
        let old = self.put_group(key, new);
        self.journal.push(Before::Group(key.to_owned(), old));
    }

    /// A queue as it is from now on.
    pub(super) fn set_queue(&mut self, name: &str, new: Option<Arc<Queue>>) {
        let old = self.put_queue(name, new);
        self.journal.push(Before::Queue(name.to_owned(), old));
    }

    /// A new class of priorities.
    pub(super) fn add_class(&mut self, name: &str, value: i32) {
        let mut class = PriorityClass::default();
        name.clone_into(&mut class.metadata.name);
        class.value = value;
        self.cache.class(&class);
        self.journal.push(Before::Class(name.to_owned()));
    }

    /// Changes a pod group.
    pub(super) fn change_group(&mut self, key: &str, change: impl FnOnce(&mut PodGroup)) {
        if let Some(mut group) = self.groups.get(key).cloned() {
            change(Arc::make_mut(&mut group));
            self.set_group(key, Some(group));
        }
    }

    /// Changes a pod.
    pub(super) fn change_pod(&mut self, key: &str, change: impl FnOnce(&mut Pod)) {
        if let Some(mut pod) = self.pods.get(key).cloned() {
            change(Arc::make_mut(&mut pod));
            self.set_pod(key, Some(pod));
        }
    }

    /// Changes a queue.
    pub(super) fn change_queue(&mut self, name: &str, change: impl FnOnce(&mut Queue)) {
        if let Some(mut queue) = self.queues.get(name).cloned() {
            change(Arc::make_mut(&mut queue));
            self.set_queue(name, Some(queue));
        }
    }

    fn put_node(&mut self, name: &str, new: Option<Arc<Node>>) -> Option<Arc<Node>> {
        if let Some(node) = &new {
            self.cluster.update_node(node);
        } else {
            self.cluster.remove_node(name);
        }
        replace(&mut self.nodes, name, new)
    }

    fn put_pod(&mut self, key: &str, new: Option<Arc<Pod>>) -> Option<Arc<Pod>> {
        let old = replace(&mut self.pods, key, new.clone());
        let Some(pod) = new else {
            if let Some(old) = &old {
                self.cache.remove_pod(&mut self.cluster, &old.metadata);
                self.cluster.remove_pod(&old.metadata);
            }
            return old;
        };
        // A pod that is created again has another UID, by which the cluster knows it.
        if let Some(old) = old
            .as_ref()
            .filter(|old| old.metadata.uid != pod.metadata.uid)
        {
            self.cache.remove_pod(&mut self.cluster, &old.metadata);
            self.cluster.remove_pod(&old.metadata);
        }
        if pod.spec.node_name.is_empty() {
            self.cluster.remove_pod(&pod.metadata);
        } else {
            // One that cannot be read takes no room there, as in any session.
            let _ = self.cluster.add_pod((*pod).clone());
        }
        self.cache.pod(&mut self.cluster, &pod);
        old
    }

    fn put_group(&mut self, key: &str, new: Option<Arc<PodGroup>>) -> Option<Arc<PodGroup>> {
        match (&new, self.groups.get(key)) {
            (Some(group), _) => self.cache.group(group),
            (None, Some(old)) => self.cache.remove_group(&old.metadata),
            (None, None) => {}
        }
        replace(&mut self.groups, key, new)
    }

    fn put_queue(&mut self, name: &str, new: Option<Arc<Queue>>) -> Option<Arc<Queue>> {
        match &new {
            Some(queue) => self.cache.queue(queue),
            None => self.cache.remove_queue(name),
        }
        replace(&mut self.queues, name, new)
    }
}

fn replace<T>(
    all: &mut BTreeMap<String, Arc<T>>,
    key: &str,
    new: Option<Arc<T>>,
) -> Option<Arc<T>> {
    match new {
        Some(new) => all.insert(key.to_owned(), new),
        None => all.remove(key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn objects() -> Objects {
        let node = |name: &str| json!({"metadata": {"name": name}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "9"}}});
        let pod = |name: &str, group: &str, node: Value| {
            json!({"metadata": {"name": name, "uid": name, "annotations": {"scheduling.k8s.io/group-name": group}},
                "spec": {"nodeName": node, "schedulerName": "volcano",
                    "containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]},
                "status": {"phase": if node.is_null() { "Pending" } else { "Running" }}})
        };
        let group = |name: &str, phase: &str| json!({"metadata": {"name": name}, "spec": {"minMember": 1}, "status": {"phase": phase}});
        let objects = json!({
            "nodes": [node("a"), node("b")],
            "queues": [{"metadata": {"name": "default"}, "spec": {"weight": 1}, "status": {"state": "Open"}}],
            "podGroups": [group("runs", "Running"), group("waits", "Inqueue")],
            "pods": [pod("runs-0", "runs", json!("a")), pod("waits-0", "waits", Value::Null), pod("waits-1", "waits", Value::Null)],
        });
        serde_json::from_value(objects).unwrap()
    }

    #[test]
    fn what_is_changed_for_a_try_is_put_back_exactly() {
        let (conf, compat) = (Conf::read("").unwrap(), Compat::EVICTD);
        let mut what_if = WhatIf::new(
            Cluster::new(),
            objects(),
            Setting::default(),
            (&conf, compat),
        );
        let json_of = |what_if: &mut WhatIf<'_>| serde_json::to_value(what_if.session()).unwrap();
        let before = json_of(&mut what_if);
        let mark = what_if.mark();
        what_if.set_pod("default/runs-0", None);
        what_if.set_group("default/runs", None);
        what_if.change_pod("default/waits-0", |pod| {
            "b".clone_into(&mut pod.spec.node_name);
        });
        what_if.change_pod("default/waits-1", |pod| pod.metadata.uid = "anew".into());
        what_if.change_queue("default", |queue| {
            "Closed".clone_into(&mut queue.status.state);
        });
        what_if.add_class("first", 7);
        what_if.change_group("default/waits", |group| {
            "first".clone_into(&mut group.spec.priority_class_name);
        });
        let mut node = Node::clone(&what_if.nodes["a"]);
        "c".clone_into(&mut node.metadata.name);
        what_if.set_node("c", Some(Arc::new(node)));
        what_if.set_node("a", None);
        assert_ne!(json_of(&mut what_if), before);
        what_if.undo(mark);
        assert_eq!(json_of(&mut what_if), before);
    }
}
