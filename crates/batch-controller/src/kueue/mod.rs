//! Objects of Kueue as queues of ours: cohorts become parent queues, nominal quotas become deserved amounts.

mod objects;

use evictd_document::{InvalidField, Mistake, OtherObject, Receiver};
use evictd_manifests::Object;
use evictd_pod::Quantity;
use objects::{ClusterQueue, Cohort, LocalQueue, ResourceFlavor, ResourceGroup};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

const GROUP: &str = "kueue.x-k8s.io/";
/// The most levels of cohorts that are followed.
const DEEPEST: usize = 32;

type Amounts = BTreeMap<String, Quantity>;

/// Reads objects of Kueue, and notes what has no counterpart.
#[derive(Debug, Default)]
pub(crate) struct Conversion {
    queues: Vec<Member>,
    cohorts: BTreeMap<String, CohortQuotas>,
    /// Of the file that is read.
    notes: Vec<Mistake>,
    /// How many objects of Kueue were read.
    pub(crate) count: usize,
}

/// A queue of a `ClusterQueue`, and its cohort.
#[derive(Debug)]
struct Member {
    queue: Queue,
    cohort: String,
}

#[derive(Debug, Default)]
struct CohortQuotas {
    parent: String,
    quotas: Amounts,
    weight: Option<i32>,
}

/// A `Queue` to apply.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Queue {
    api_version: &'static str,
    kind: &'static str,
    metadata: Named,
    spec: Spec,
}

#[derive(Debug, Clone, Serialize)]
struct Named {
    name: String,
}

#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(skip_serializing_if = "String::is_empty")]
    parent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<i32>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    deserved: Amounts,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    capability: Amounts,
    #[serde(skip_serializing_if = "Option::is_none")]
    guarantee: Option<Guarantee>,
    #[serde(skip_serializing_if = "str::is_empty")]
    dequeue_strategy: &'static str,
}

#[derive(Debug, Clone, Serialize)]
struct Guarantee {
    resource: Amounts,
}

impl Queue {
    const fn new(name: String, spec: Spec) -> Self {
        Self {
            api_version: "scheduling.volcano.sh/v1beta1",
            kind: "Queue",
            metadata: Named { name },
            spec,
        }
    }
}

/// The sums of quotas over the flavors.
#[derive(Debug, Default)]
struct Sums {
    nominal: Amounts,
    /// With the amounts that may be borrowed.
    limits: Amounts,
    /// Resources that may be borrowed without a limit in some flavor.
    unlimited: BTreeSet<String>,
    /// Amounts that are never lent.
    kept: Amounts,
}

impl Sums {
    fn of(groups: &[ResourceGroup]) -> Self {
        let mut sums = Self::default();
        let flavors = groups.iter().flat_map(|group| &group.flavors);
        for quota in flavors.flat_map(|flavor| &flavor.resources) {
            let nominal = quota.nominal_quota;
            add(&mut sums.nominal, &quota.name, nominal);
            match quota.borrowing_limit {
                Some(limit) => add(&mut sums.limits, &quota.name, nominal + limit),
                None => {
                    sums.unlimited.insert(quota.name.clone());
                }
            }
            if let Some(lent) = quota.lending_limit
                && lent < nominal
            {
                add(&mut sums.kept, &quota.name, nominal - lent);
            }
        }
        sums
    }
}

fn add(amounts: &mut Amounts, name: &str, more: Quantity) {
    let before = amounts.entry(name.to_owned()).or_default();
    *before += more;
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
    /// The notes about the file that was read last.
    pub(crate) fn take_notes(&mut self) -> Vec<Mistake> {
        std::mem::take(&mut self.notes)
    }

    fn cluster_queue(&mut self, object: &OtherObject<'_>, read: ClusterQueue) {
        let ClusterQueue { metadata, spec } = read;
        let name = metadata.name;
        let sums = Sums::of(&spec.resource_groups);
        let cohort = if spec.cohort_name.is_empty() {
            spec.cohort.clone()
        } else {
            spec.cohort_name.clone()
        };
        let mut note = |key: &str, message: &str| {
            let title = format!("ClusterQueue {name}");
            self.notes.push(object.note(title, key, message.to_owned()));
        };
        note_flavors(&spec.resource_groups, &mut note);
        let selects_all = |selector: &serde_json::Value| {
            selector.as_object().is_some_and(serde_json::Map::is_empty)
        };
        if !spec.namespace_selector.as_ref().is_some_and(selects_all) {
            note(
                "spec.namespaceSelector",
                "queues are open to every namespace; limit it with the right to create jobs",
            );
        }
        note_policies(&spec, &mut note);
        let weight = spec.fair_sharing.and_then(|sharing| sharing.weight);
        let weight = weight.and_then(|weight| weight_of(weight, &mut note));
        // Without a cohort there is nothing to borrow.
        let capability = if cohort.is_empty() {
            sums.nominal.clone()
        } else {
            let limited = sums.limits.into_iter();
            limited
                .filter(|(resource, _)| !sums.unlimited.contains(resource))
                .collect()
        };
        let resource = sums.kept;
        let queue = Queue::new(
            name,
            Spec {
                weight,
                deserved: sums.nominal,
                capability,
                guarantee: (!resource.is_empty()).then_some(Guarantee { resource }),
                dequeue_strategy: match spec.queueing_strategy.as_str() {
                    "StrictFIFO" => "fifo",
                    _ => "traverse",
                },
                ..Spec::default()
            },
        );
        self.queues.push(Member { queue, cohort });
    }

    fn cohort(&mut self, object: &OtherObject<'_>, read: Cohort) {
        let Cohort { metadata, spec } = read;
        let sums = Sums::of(&spec.resource_groups);
        let name = metadata.name;
        let mut note = |key: &str, message: &str| {
            let title = format!("Cohort {name}");
            self.notes.push(object.note(title, key, message.to_owned()));
        };
        if !sums.limits.is_empty() || !sums.kept.is_empty() {
            note(
                "spec.resourceGroups",
                "limits of borrowing and lending between cohorts are left out",
            );
        }
        let weight = spec.fair_sharing.and_then(|sharing| sharing.weight);
        let weight = weight.and_then(|weight| weight_of(weight, &mut note));
        let parent = if spec.parent_name.is_empty() {
            spec.parent
        } else {
            spec.parent_name
        };
        let quotas = sums.nominal;
        let cohort = CohortQuotas {
            parent,
            quotas,
            weight,
        };
        self.cohorts.insert(name, cohort);
    }

    fn local_queue(&mut self, object: &OtherObject<'_>, read: &LocalQueue) {
        let (name, queue) = (read.metadata.full_name(), &read.spec.cluster_queue);
        let message = format!(
            "queues have no namespace: jobs of this one name the queue themselves (spec.queue: {queue})"
        );
        self.notes
            .push(object.note(format!("LocalQueue {name}"), "spec.clusterQueue", message));
    }

    fn flavor(&mut self, object: &OtherObject<'_>, read: &ResourceFlavor) {
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
        for (key, value, message) in fields {
            if value.is_some() {
                let title = format!("ResourceFlavor {}", read.metadata.name);
                self.notes.push(object.note(title, key, message.to_owned()));
            }
        }
    }

    /// The queues, parents first.
    pub(crate) fn queues(mut self) -> Vec<Queue> {
        for member in &self.queues {
            if !member.cohort.is_empty() {
                self.cohorts.entry(member.cohort.clone()).or_default();
            }
        }
        let parents: Vec<String> = self
            .cohorts
            .values()
            .map(|one| one.parent.clone())
            .collect();
        for parent in parents.into_iter().filter(|parent| !parent.is_empty()) {
            self.cohorts.entry(parent).or_default();
        }
        let taken: BTreeSet<&str> = self
            .queues
            .iter()
            .map(|member| member.queue.metadata.name.as_str())
            .collect();
        // A ClusterQueue may have the name of a cohort, and queues are of one kind.
        let name_of = |cohort: &str| match cohort {
            "" => String::new(),
            cohort if taken.contains(cohort) => format!("cohort-{cohort}"),
            cohort => cohort.to_owned(),
        };
        let mut totals: BTreeMap<&str, Amounts> = BTreeMap::new();
        for (cohort, quotas) in &self.cohorts {
            self.add_up(cohort, &quotas.quotas, &mut totals);
        }
        for member in &self.queues {
            self.add_up(&member.cohort, &member.queue.spec.deserved, &mut totals);
        }
        let mut cohorts: Vec<(usize, &String, &CohortQuotas)> = self
            .cohorts
            .iter()
            .map(|(name, cohort)| (self.above(name).count(), name, cohort))
            .collect();
        cohorts.sort_by_key(|(depth, name, _)| (*depth, (*name).clone()));
        let parents = cohorts.into_iter().map(|(_, name, cohort)| {
            let deserved = totals.get(name.as_str()).cloned().unwrap_or_default();
            let is_top = cohort.parent.is_empty();
            let spec = Spec {
                parent: name_of(&cohort.parent),
                weight: cohort.weight,
                // Nothing is borrowed from outside.
                capability: if is_top {
                    deserved.clone()
                } else {
                    Amounts::new()
                },
                deserved,
                ..Spec::default()
            };
            Queue::new(name_of(name), spec)
        });
        let members = self.queues.iter().map(|member| {
            let mut queue = member.queue.clone();
            queue.spec.parent = name_of(&member.cohort);
            queue
        });
        parents.chain(members).collect()
    }

    /// A cohort and those above it. A circle ends.
    fn above<'c>(&'c self, cohort: &'c str) -> impl Iterator<Item = &'c str> {
        let first = (!cohort.is_empty()).then_some(cohort);
        let chain = std::iter::successors(first, |name| {
            let parent = self.cohorts.get(*name)?.parent.as_str();
            (!parent.is_empty()).then_some(parent)
        });
        chain.take(DEEPEST)
    }

    fn add_up<'c>(
        &'c self,
        cohort: &'c str,
        quotas: &Amounts,
        totals: &mut BTreeMap<&'c str, Amounts>,
    ) {
        for name in self.above(cohort) {
            let total = totals.entry(name).or_default();
            for (resource, amount) in quotas {
                add(total, resource, *amount);
            }
        }
    }
}

/// Quotas of several flavors become one amount.
fn note_flavors(groups: &[ResourceGroup], note: &mut impl FnMut(&str, &str)) {
    for (index, group) in groups.iter().enumerate() {
        if group.flavors.len() > 1 {
            let names: Vec<&str> = group.flavors.iter().map(|one| one.name.as_str()).collect();
            let message = format!(
                "the quotas of the flavors {} are added up: a queue has one amount of a resource, whatever the nodes",
                names.join(", ")
            );
            note(&format!("spec.resourceGroups[{index}].flavors"), &message);
        }
    }
}

/// The policies without a counterpart.
fn note_policies(spec: &objects::ClusterQueueSpec, note: &mut impl FnMut(&str, &str)) {
    let preemption = &spec.preemption;
    let is_set = |policy: &str| !matches!(policy, "" | "Any");
    if is_set(&preemption.reclaim_within_cohort) {
        note(
            "spec.preemption.reclaimWithinCohort",
            "every queue reclaims up to what it deserves; spec.reclaimable: false of the others prevents it",
        );
    }
    if !preemption.within_cluster_queue.is_empty() {
        note(
            "spec.preemption.withinClusterQueue",
            "all queues preempt by the action preempt of the configuration, or none does",
        );
    }
    let others = [
        (
            "spec.preemption.borrowWithinCohort",
            preemption.borrow_within_cohort.is_some(),
        ),
        ("spec.admissionChecks", !spec.admission_checks.is_empty()),
        (
            "spec.admissionChecksStrategy",
            spec.admission_checks_strategy.is_some(),
        ),
        ("spec.flavorFungibility", spec.flavor_fungibility.is_some()),
        ("spec.admissionScope", spec.admission_scope.is_some()),
    ];
    for (key, is_set) in others {
        if is_set {
            note(key, "has no counterpart, and is left out");
        }
    }
    if spec
        .stop_policy
        .as_deref()
        .is_some_and(|policy| policy != "None")
    {
        note(
            "spec.stopPolicy",
            "close the queue after it was created: evictd-batch queue operate -a close",
        );
    }
}

/// The weight of a queue, which is a whole number.
fn weight_of(weight: Quantity, note: &mut impl FnMut(&str, &str)) -> Option<i32> {
    let milli = weight.milli_value();
    let whole = i32::try_from(milli / 1000).ok();
    let whole = whole.filter(|whole| milli % 1000 == 0 && (1..=65_535).contains(whole));
    if whole.is_none() {
        note(
            "spec.fairSharing.weight",
            "weights are whole numbers from 1 to 65535; multiply those of all queues",
        );
    }
    whole
}
