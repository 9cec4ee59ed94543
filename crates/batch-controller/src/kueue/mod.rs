//! Converts Kueue objects to queues: cohorts become parent queues, nominal quotas become deserved amounts.

mod amounts;
mod cohorts;
mod notes;
mod objects;
mod queue;

use amounts::Sums;
use cohorts::{BUILT_IN, CohortQuotas, Member, Tree};
use evictd_document::{InvalidField, Mistake, OtherObject, Receiver};
use evictd_manifests::Object;
use evictd_pod::wire::Metadata;
use notes::ObjectNotes;
use objects::{ClusterQueue, Cohort, LocalQueue, ResourceFlavor};
use queue::{Guarantee, Queue, Spec};
use std::collections::{BTreeMap, BTreeSet};

const GROUP: &str = "kueue.x-k8s.io/";

/// Reads Kueue objects, and notes the fields without a counterpart.
#[derive(Debug, Default)]
pub(crate) struct Conversion {
    queues: Vec<Member>,
    cohorts: BTreeMap<String, CohortQuotas>,
    /// The kinds and names of the objects so far.
    names: BTreeSet<(&'static str, String)>,
    /// The name of the current file.
    file: String,
    /// Notes about the current file.
    notes: Vec<Mistake>,
    /// How many objects of Kueue were read.
    pub(crate) count: usize,
}

impl Receiver for Conversion {
    fn take(&mut self, _: Object) -> Result<(), InvalidField> {
        Ok(())
    }

    fn take_other(&mut self, other: &OtherObject<'_>) -> Option<Result<(), Vec<Mistake>>> {
        if !other.api_version().starts_with(GROUP) {
            return None;
        }
        self.count += 1;
        Some(match other.kind() {
            "ClusterQueue" => other.read().map(|read| self.cluster_queue(other, read)),
            "Cohort" => other.read().map(|read| self.cohort(other, read)),
            "LocalQueue" => other.read().map(|read| self.local_queue(other, &read)),
            "ResourceFlavor" => other.read().map(|read| self.flavor(other, &read)),
            kind => {
                let message = "has no counterpart, and is left out".to_owned();
                self.notes.push(other.note(kind.to_owned(), "", message));
                Ok(())
            }
        })
    }
}

impl Conversion {
    /// The following objects are those of this file.
    pub(crate) fn begin(&mut self, file: &str) {
        file.clone_into(&mut self.file);
    }

    /// The notes about the file that was read last.
    pub(crate) fn take_notes(&mut self) -> Vec<String> {
        let notes = self.notes.drain(..);
        notes.map(|note| format!("{}{note}", self.file)).collect()
    }

    /// The queues, parents first, and the notes that need all files.
    pub(crate) fn queues(self) -> (Vec<Queue>, Vec<String>) {
        Tree::new(self.cohorts, self.queues).queues()
    }

    /// Whether an object is used: it has a name that no earlier one of its kind has.
    fn is_used(&mut self, object: &OtherObject<'_>, kind: &'static str, of: &Metadata) -> bool {
        let name = match of.namespace.as_str() {
            "" => of.name.clone(),
            _ => of.full_name(),
        };
        let mut notes = ObjectNotes::new(&mut self.notes, object, format!("{kind} {name}"));
        let message = if of.name.is_empty() {
            "is missing: the object is left out"
        } else if !self.names.insert((kind, name)) {
            "an earlier object has this name: this one is left out"
        } else {
            return true;
        };
        notes.add("metadata.name", message);
        false
    }

    fn cluster_queue(&mut self, object: &OtherObject<'_>, read: ClusterQueue) {
        let ClusterQueue { metadata, spec } = read;
        if !self.is_used(object, "ClusterQueue", &metadata) {
            return;
        }
        let name = metadata.name;
        let sums = Sums::of(&spec.resource_groups);
        let (cohort, key) = if spec.cohort_name.is_empty() {
            (spec.cohort.clone(), "spec.cohort")
        } else {
            (spec.cohort_name.clone(), "spec.cohortName")
        };
        let title = format!("ClusterQueue {name}");
        let mut notes = ObjectNotes::new(&mut self.notes, object, title);
        if BUILT_IN.contains(&name.as_str()) {
            let message = "a queue of this name is built in: give this one another name";
            notes.add("metadata.name", message);
        }
        notes.add_flavors(&spec.resource_groups);
        let selects_all = |selector: &serde_json::Value| {
            selector.as_object().is_some_and(serde_json::Map::is_empty)
        };
        if !spec.namespace_selector.as_ref().is_some_and(selects_all) {
            notes.add(
                "spec.namespaceSelector",
                "queues are open to every namespace; limit it with the right to create jobs",
            );
        }
        notes.add_policies(&spec, !cohort.is_empty());
        let weight = spec.fair_sharing.and_then(|sharing| sharing.weight);
        let weight = notes.weight_of(weight);
        // Without a cohort there is nothing to borrow.
        let capability = if cohort.is_empty() {
            sums.nominal.clone()
        } else {
            let limited = sums.limits.into_iter();
            limited
                .filter(|(resource, _)| !sums.unlimited.contains(resource))
                .collect()
        };
        let resource = sums.not_lent;
        let queue = Queue::new(
            name,
            Spec {
                weight,
                deserved: sums.nominal,
                capability,
                guarantee: Guarantee { resource },
                dequeue_strategy: match spec.queueing_strategy.as_str() {
                    "StrictFIFO" => "fifo",
                    _ => "traverse",
                },
                ..Spec::default()
            },
        );
        let origin = notes.origin(&self.file, key);
        self.queues.push(Member {
            queue,
            cohort,
            origin,
        });
    }

    fn cohort(&mut self, object: &OtherObject<'_>, read: Cohort) {
        let Cohort { metadata, spec } = read;
        if !self.is_used(object, "Cohort", &metadata) {
            return;
        }
        let sums = Sums::of(&spec.resource_groups);
        let name = metadata.name;
        let mut notes = ObjectNotes::new(&mut self.notes, object, format!("Cohort {name}"));
        notes.add_flavors(&spec.resource_groups);
        if !sums.limits.is_empty() || !sums.not_lent.is_empty() {
            notes.add(
                "spec.resourceGroups",
                "limits of borrowing and lending between cohorts are left out",
            );
        }
        let weight = spec.fair_sharing.and_then(|sharing| sharing.weight);
        let weight = notes.weight_of(weight);
        let (parent, key) = if spec.parent_name.is_empty() && !spec.parent.is_empty() {
            (spec.parent, "spec.parent")
        } else {
            (spec.parent_name, "spec.parentName")
        };
        let cohort = CohortQuotas {
            parent,
            quotas: sums.nominal,
            weight,
            origin: notes.origin(&self.file, key),
        };
        self.cohorts.insert(name, cohort);
    }

    fn local_queue(&mut self, object: &OtherObject<'_>, read: &LocalQueue) {
        if !self.is_used(object, "LocalQueue", &read.metadata) {
            return;
        }
        let (name, spec) = (read.metadata.full_name(), &read.spec);
        let title = format!("LocalQueue {name}");
        let mut notes = ObjectNotes::new(&mut self.notes, object, title);
        let queue = &spec.cluster_queue;
        let message = format!(
            "queues have no namespace: jobs of this one name the queue themselves (spec.queue: {queue})"
        );
        notes.add("spec.clusterQueue", message);
        if notes::is_stopped(spec.stop_policy.as_deref()) {
            notes.add(
                "spec.stopPolicy",
                "a queue is closed for all namespaces; take away the right to create jobs in this one",
            );
        }
    }

    fn flavor(&mut self, object: &OtherObject<'_>, read: &ResourceFlavor) {
        if !self.is_used(object, "ResourceFlavor", &read.metadata) {
            return;
        }
        let spec = &read.spec;
        let fields = [
            (
                "spec.nodeLabels",
                &spec.node_labels,
                "queues choose nodes by groups (plugin nodegroup): give these nodes the label volcano.sh/nodegroup-name, and name the group in spec.affinity of the queues",
            ),
            (
                "spec.nodeTaints",
                &spec.node_taints,
                "queues know no taints: taint the nodes, and give the pods the tolerations",
            ),
            (
                "spec.tolerations",
                &spec.tolerations,
                "queues add no tolerations to pods: the jobs name them",
            ),
            (
                "spec.topologyName",
                &spec.topology_name,
                "topologies are not those of flavors here: use HyperNodes and networkTopology of jobs",
            ),
        ];
        let title = format!("ResourceFlavor {}", read.metadata.name);
        let mut notes = ObjectNotes::new(&mut self.notes, object, title);
        for (key, value, message) in fields {
            if value.is_some() {
                notes.add(key, message);
            }
        }
    }
}
