//! A copy of the cluster for trials: objects are changed, sessions are run, and all is restored.

use crate::conf::Conf;
use crate::session::{Cache, JobDiagnosis, Objects, Outcome, Setting, upstream_job};
use evictd_batch_objects::{Compat, PodGroup, Queue};
use evictd_placement::Cluster;
use evictd_pod::Node;
use evictd_pod::wire::{self, Pod, PriorityClass, full_name};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Restores an object as it was before a change.
type Restore<'a> = Box<dyn FnOnce(&mut WhatIf<'a>) + 'a>;

/// A kind of object that can be changed.
pub(super) trait Object: Sized + 'static {
    fn table<'w>(what_if: &'w mut WhatIf<'_>) -> &'w mut BTreeMap<String, Arc<Self>>;

    /// Whether an object takes the place of another of its name without being another object.
    fn is_same(&self, _old: &Self) -> bool {
        true
    }

    fn show(&self, what_if: &mut WhatIf<'_>);

    fn hide(&self, what_if: &mut WhatIf<'_>);
}

impl Object for Node {
    fn table<'w>(what_if: &'w mut WhatIf<'_>) -> &'w mut BTreeMap<String, Arc<Self>> {
        &mut what_if.nodes
    }

    fn show(&self, what_if: &mut WhatIf<'_>) {
        what_if.cluster.update_node(self);
    }

    fn hide(&self, what_if: &mut WhatIf<'_>) {
        what_if.cluster.remove_node(&self.metadata.name);
    }
}

impl Object for Pod {
    fn table<'w>(what_if: &'w mut WhatIf<'_>) -> &'w mut BTreeMap<String, Arc<Self>> {
        &mut what_if.pods
    }

    /// A pod that is created again has another UID.
    fn is_same(&self, old: &Self) -> bool {
        self.metadata.uid == old.metadata.uid
    }

    fn show(&self, what_if: &mut WhatIf<'_>) {
        let (cluster, cache) = (&mut what_if.cluster, &mut what_if.cache);
        if self.spec.node_name.is_empty() {
            cluster.remove_pod(&self.metadata);
        } else {
            // A pod that cannot be read takes no room there, as in any session.
            let _ = cluster.add_pod(self.clone());
        }
        cache.pod(cluster, self);
    }

    fn hide(&self, what_if: &mut WhatIf<'_>) {
        let (cluster, cache) = (&mut what_if.cluster, &mut what_if.cache);
        cache.remove_pod(cluster, &self.metadata);
        cluster.remove_pod(&self.metadata);
    }
}

impl Object for PodGroup {
    fn table<'w>(what_if: &'w mut WhatIf<'_>) -> &'w mut BTreeMap<String, Arc<Self>> {
        &mut what_if.groups
    }

    fn show(&self, what_if: &mut WhatIf<'_>) {
        what_if.cache.group(self);
    }

    fn hide(&self, what_if: &mut WhatIf<'_>) {
        what_if.cache.remove_group(&self.metadata);
    }
}

impl Object for Queue {
    fn table<'w>(what_if: &'w mut WhatIf<'_>) -> &'w mut BTreeMap<String, Arc<Self>> {
        &mut what_if.queues
    }

    fn show(&self, what_if: &mut WhatIf<'_>) {
        what_if.cache.queue(self);
    }

    fn hide(&self, what_if: &mut WhatIf<'_>) {
        what_if.cache.remove_queue(&self.metadata.name);
    }
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
    journal: Vec<Restore<'a>>,
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
        what_if.cache.facts(&objects);
        for class in &objects.priority_classes {
            what_if.cache.class(class);
        }
        for hyper_node in &objects.hyper_nodes {
            what_if.cache.hyper_node(hyper_node);
        }
        for node in objects.nodes {
            let name = node.metadata.name.clone();
            // The first object of a name counts, as in a session on files.
            if !what_if.nodes.contains_key(&name) {
                what_if.set(&name, Some(Arc::new(node)));
            }
        }
        for queue in objects.queues {
            let name = queue.metadata.name.clone();
            what_if.set(&name, Some(Arc::new(queue)));
        }
        for group in objects.pod_groups {
            let key = group.metadata.full_name();
            what_if.set(&key, Some(Arc::new(group)));
        }
        for workload in &objects.workloads {
            what_if.cache.workload(workload);
        }
        for owner in &objects.owners {
            what_if.cache.owner(&owner.metadata);
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
                what_if.set(&key, Some(Arc::new(pod)));
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

    /// The job that a pod of no group is.
    pub(super) fn bare_job(&self, pod: &Pod) -> Arc<str> {
        self.cache.bare_job(&pod.metadata)
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
            |owner| full_name(namespace, &owner.name),
        )
    }

    /// Where changes are now.
    pub(super) const fn mark(&self) -> Mark {
        Mark(self.journal.len())
    }

    /// Restores everything that was changed since.
    pub(super) fn undo(&mut self, mark: Mark) {
        while self.journal.len() > mark.0 {
            if let Some(restore) = self.journal.pop() {
                restore(self);
            }
        }
    }

    /// The new state of an object; `None` if it is removed.
    pub(super) fn set<O: Object>(&mut self, key: &str, new: Option<Arc<O>>) {
        let old = self.replace(key, new);
        let key = key.to_owned();
        self.journal.push(Box::new(move |what_if| {
            what_if.replace(&key, old);
        }));
    }

    /// Changes an object, if it is there.
    pub(super) fn change<O: Object + Clone>(&mut self, key: &str, change: impl FnOnce(&mut O)) {
        if let Some(mut object) = O::table(self).get(key).cloned() {
            change(Arc::make_mut(&mut object));
            self.set(key, Some(object));
        }
    }

    /// Adds a priority class.
    pub(super) fn add_class(&mut self, name: &str, value: i32) {
        let mut class = PriorityClass::default();
        name.clone_into(&mut class.metadata.name);
        class.value = value;
        self.cache.class(&class);
        self.journal.push(Box::new(move |what_if| {
            what_if.cache.remove_class(&class.metadata.name);
        }));
    }

    /// Returns the object as it was before.
    fn replace<O: Object>(&mut self, key: &str, new: Option<Arc<O>>) -> Option<Arc<O>> {
        let table = O::table(self);
        let old = match &new {
            Some(new) => table.insert(key.to_owned(), Arc::clone(new)),
            None => table.remove(key),
        };
        let stays = |old: &Arc<O>| new.as_ref().is_some_and(|new| new.is_same(old));
        if let Some(old) = old.as_ref().filter(|old| !stays(old)) {
            old.hide(self);
        }
        if let Some(new) = new {
            new.show(self);
        }
        old
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_test_objects as objects;
    use serde_json::json;

    fn objects() -> Objects {
        let node = |name: &str| objects::node(name).cpu("4").memory("8Gi").json();
        let pod = |name: &str, group: &str, node: Option<&str>| {
            objects::volcano_pod(name, group)
                .cpu("3")
                .runs_on(node)
                .json()
        };
        let group = |name: &str, phase: &str| objects::volcano_group(name, 1).phase(phase).json();
        let objects = json!({
            "nodes": [node("a"), node("b")],
            "queues": [objects::queue("default").open().json()],
            "podGroups": [group("runs", "Running"), group("waits", "Inqueue")],
            "pods": [pod("runs-0", "runs", Some("a")), pod("waits-0", "waits", None), pod("waits-1", "waits", None)],
        });
        serde_json::from_value(objects).unwrap()
    }

    #[test]
    fn changes_of_a_trial_are_undone_exactly() {
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
        what_if.set::<Pod>("default/runs-0", None);
        what_if.set::<PodGroup>("default/runs", None);
        what_if.change("default/waits-0", |pod: &mut Pod| {
            "b".clone_into(&mut pod.spec.node_name);
        });
        what_if.change("default/waits-1", |pod: &mut Pod| {
            pod.metadata.uid = "anew".into();
        });
        what_if.change("default", |queue: &mut Queue| {
            queue.status.state = evictd_batch_objects::QueueState::Closed.into();
        });
        what_if.add_class("first", 7);
        what_if.change("default/waits", |group: &mut PodGroup| {
            "first".clone_into(&mut group.spec.priority_class_name);
        });
        let mut node = Node::clone(&what_if.nodes["a"]);
        "c".clone_into(&mut node.metadata.name);
        what_if.set("c", Some(Arc::new(node)));
        what_if.set::<Node>("a", None);
        assert_ne!(json_of(&mut what_if), before);
        what_if.undo(mark);
        assert_eq!(json_of(&mut what_if), before);
    }
}
