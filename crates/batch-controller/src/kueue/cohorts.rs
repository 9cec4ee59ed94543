//! The tree of cohorts and their members, as queues.

use super::amounts::{Amounts, add_all};
use super::notes::Origin;
use super::queue::{Guarantee, Queue, Spec};
use evictd_batch_admission::Settings;
use std::collections::{BTreeMap, BTreeSet};

/// Queues that exist in every cluster.
pub(super) const BUILT_IN: [&str; 2] = ["root", "default"];

/// A queue of a `ClusterQueue`, and its cohort.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) queue: Queue,
    pub(super) cohort: String,
    pub(super) origin: Origin,
}

#[derive(Debug)]
pub(super) struct CohortQuotas {
    pub(super) parent: String,
    pub(super) quotas: Amounts,
    pub(super) weight: Option<i32>,
    pub(super) origin: Origin,
}

/// The sums of a cohort and of all below it.
#[derive(Debug, Default)]
struct Totals {
    deserved: Amounts,
    guarantee: Amounts,
}

/// Cohorts and members. Each cohort that is named exists.
#[derive(Debug, Default)]
pub(super) struct Tree {
    cohorts: BTreeMap<String, CohortQuotas>,
    members: Vec<Member>,
    notes: Vec<String>,
}

impl Tree {
    pub(super) fn new(cohorts: BTreeMap<String, CohortQuotas>, members: Vec<Member>) -> Self {
        let mut tree = Self {
            cohorts,
            members,
            notes: Vec::new(),
        };
        tree.add_named_cohorts();
        tree.open_circles();
        tree
    }

    /// Cohorts need no object.
    fn add_named_cohorts(&mut self) {
        let of_members = self.members.iter();
        let of_members = of_members.map(|member| (&member.cohort, &member.origin));
        let of_cohorts = self.cohorts.values();
        let of_cohorts = of_cohorts.map(|cohort| (&cohort.parent, &cohort.origin));
        let missing: Vec<(String, Origin)> = of_members
            .chain(of_cohorts)
            .filter(|(name, _)| !name.is_empty() && !self.cohorts.contains_key(*name))
            .map(|(name, origin)| (name.clone(), origin.of_cohort(name)))
            .collect();
        for (name, origin) in missing {
            self.cohorts.entry(name).or_insert(CohortQuotas {
                parent: String::new(),
                quotas: Amounts::new(),
                weight: None,
                origin,
            });
        }
    }

    /// Cohorts in a circle get no parent.
    fn open_circles(&mut self) {
        let in_circles: Vec<String> = self
            .cohorts
            .keys()
            .filter(|name| {
                let last = self.self_and_ancestors(name).last();
                let last = last.and_then(|last| self.cohorts.get(last));
                last.is_some_and(|last| last.parent == **name)
            })
            .cloned()
            .collect();
        for name in in_circles {
            if let Some(cohort) = self.cohorts.get_mut(&name) {
                cohort.parent.clear();
                let message = "the parents form a circle; Kueue admits nothing in it";
                self.notes.push(cohort.origin.note_parent(message));
            }
        }
    }

    /// A cohort and its ancestors, up to one that came before.
    fn self_and_ancestors<'c>(&'c self, cohort: &'c str) -> impl Iterator<Item = &'c str> {
        let mut next = (!cohort.is_empty()).then_some(cohort);
        let mut seen = BTreeSet::new();
        std::iter::from_fn(move || {
            let name = next.filter(|name| seen.insert(*name))?;
            let parent = self.cohorts.get(name).map(|cohort| cohort.parent.as_str());
            next = parent.filter(|parent| !parent.is_empty());
            Some(name)
        })
    }

    /// The queues, parents first, and the notes.
    pub(super) fn queues(mut self) -> (Vec<Queue>, Vec<String>) {
        let mut notes = std::mem::take(&mut self.notes);
        let names = self.names();
        let name_of = |cohort: &str| names.get(cohort).cloned().unwrap_or_default();
        let totals = self.totals();
        let mut cohorts: Vec<(usize, &String, &CohortQuotas)> = self
            .cohorts
            .iter()
            .map(|(name, cohort)| (self.self_and_ancestors(name).count(), name, cohort))
            .collect();
        cohorts.sort_by_key(|(depth, name, _)| (*depth, *name));
        let mut queues = Vec::new();
        let mut push = |queue: Queue, depth: usize, origin: &Origin| {
            let limit = Settings::default().max_queue_depth;
            if depth > limit {
                let message = format!(
                    "the queue is {depth} levels below root; the webhook admits {limit} (--max-queue-depth)"
                );
                notes.push(origin.note_parent(&message));
            }
            for (resource, amount) in &queue.spec.capability {
                if amount.is_zero() {
                    let message =
                        format!("{resource}: zero is no limit here; close the queue, or give 1m");
                    notes.push(origin.note_amounts(&message));
                }
            }
            queues.push(queue);
        };
        for (depth, name, cohort) in cohorts {
            let queue = Queue::new(
                name_of(name),
                cohort.spec(name_of, totals.get(name.as_str())),
            );
            push(queue, depth, &cohort.origin);
        }
        for member in &self.members {
            let mut queue = member.queue.clone();
            queue.spec.parent = name_of(&member.cohort);
            let above = self.self_and_ancestors(&member.cohort);
            let top = above.last().and_then(|top| totals.get(top));
            // The webhook refuses more than the ancestor has. Nothing more can be borrowed either.
            for (resource, amount) in &mut queue.spec.capability {
                if let Some(most) = top.and_then(|top| top.deserved.get(resource)) {
                    *amount = (*amount).min(*most);
                }
            }
            let depth = self.self_and_ancestors(&member.cohort).count() + 1;
            push(queue, depth, &member.origin);
        }
        (queues, notes)
    }

    /// The name of each cohort's queue. Names of members and of built-in queues are taken.
    fn names(&self) -> BTreeMap<String, String> {
        let members = self.members.iter();
        let members = members.map(|member| member.queue.metadata.name.clone());
        let mut taken: BTreeSet<String> = members.chain(BUILT_IN.map(str::to_owned)).collect();
        let (renamed, kept): (Vec<&String>, Vec<&String>) =
            self.cohorts.keys().partition(|name| taken.contains(*name));
        taken.extend(kept.iter().copied().cloned());
        let kept = kept.into_iter().map(|name| (name.clone(), name.clone()));
        let mut names: BTreeMap<String, String> = kept.collect();
        for cohort in renamed {
            let mut name = format!("cohort-{cohort}");
            let mut number = 2;
            while !taken.insert(name.clone()) {
                name = format!("cohort-{cohort}-{number}");
                number += 1;
            }
            names.insert(cohort.clone(), name);
        }
        names
    }

    fn totals(&self) -> BTreeMap<&str, Totals> {
        let mut totals = BTreeMap::new();
        let none = Amounts::new();
        for (name, cohort) in &self.cohorts {
            self.add_to_ancestors(name, &cohort.quotas, &none, &mut totals);
        }
        for member in &self.members {
            let spec = &member.queue.spec;
            let guarantee = &spec.guarantee.resource;
            self.add_to_ancestors(&member.cohort, &spec.deserved, guarantee, &mut totals);
        }
        totals
    }

    fn add_to_ancestors<'c>(
        &'c self,
        cohort: &'c str,
        deserved: &Amounts,
        guarantee: &Amounts,
        totals: &mut BTreeMap<&'c str, Totals>,
    ) {
        for name in self.self_and_ancestors(cohort) {
            let total = totals.entry(name).or_default();
            add_all(&mut total.deserved, deserved);
            add_all(&mut total.guarantee, guarantee);
        }
    }
}

impl CohortQuotas {
    fn spec(&self, name_of: impl Fn(&str) -> String, totals: Option<&Totals>) -> Spec {
        let (deserved, resource) = totals.map_or_else(Default::default, |totals| {
            (totals.deserved.clone(), totals.guarantee.clone())
        });
        Spec {
            parent: name_of(&self.parent),
            weight: self.weight,
            // Nothing is borrowed from outside.
            capability: if self.parent.is_empty() {
                deserved.clone()
            } else {
                Amounts::new()
            },
            deserved,
            guarantee: Guarantee { resource },
            ..Spec::default()
        }
    }
}
