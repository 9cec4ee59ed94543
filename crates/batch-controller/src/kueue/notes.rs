//! Notes about fields without a counterpart, each with its place.

use super::objects::{ClusterQueueSpec, ResourceGroup};
use evictd_document::{Mistake, OtherObject};
use evictd_pod::Quantity;
use serde_json::Value;

/// The field to which notes about amounts belong.
const AMOUNTS: &str = "spec.resourceGroups";

/// Notes about one object.
pub(super) struct ObjectNotes<'n, 'f> {
    notes: &'n mut Vec<Mistake>,
    object: &'n OtherObject<'f>,
    title: String,
}

/// The places of an object, for notes after all files were read.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    file: String,
    parent: Mistake,
    amounts: Mistake,
}

impl Origin {
    /// A note about the field that names the parent.
    pub(super) fn note_parent(&self, message: &str) -> String {
        self.note(&self.parent, message)
    }

    /// A note about the quotas.
    pub(super) fn note_amounts(&self, message: &str) -> String {
        self.note(&self.amounts, message)
    }

    /// The same places for a cohort that only other objects name.
    pub(super) fn of_cohort(&self, name: &str) -> Self {
        let mut origin = self.clone();
        origin.parent.object = format!("Cohort {name}");
        origin.amounts.object.clone_from(&origin.parent.object);
        origin
    }

    fn note(&self, mistake: &Mistake, message: &str) -> String {
        let message = message.to_owned();
        let mistake = Mistake {
            message,
            ..mistake.clone()
        };
        format!("{}{mistake}", self.file)
    }
}

impl<'n, 'f> ObjectNotes<'n, 'f> {
    pub(super) const fn new(
        notes: &'n mut Vec<Mistake>,
        object: &'n OtherObject<'f>,
        title: String,
    ) -> Self {
        Self {
            notes,
            object,
            title,
        }
    }

    pub(super) fn add(&mut self, key: &str, message: impl Into<String>) {
        let note = self.note(key, message.into());
        self.notes.push(note);
    }

    /// `parent` is the field that names the parent.
    pub(super) fn origin(&self, file: &str, parent: &str) -> Origin {
        Origin {
            file: file.to_owned(),
            parent: self.note(parent, String::new()),
            amounts: self.note(AMOUNTS, String::new()),
        }
    }

    fn note(&self, key: &str, message: String) -> Mistake {
        self.object.note(self.title.clone(), key, message)
    }

    /// Quotas of several flavors become one amount. A missing quota is left out.
    pub(super) fn add_flavors(&mut self, groups: &[ResourceGroup]) {
        for (index, group) in groups.iter().enumerate() {
            let flavors = format!("{AMOUNTS}[{index}].flavors");
            if group.flavors.len() > 1 {
                let names: Vec<&str> = group.flavors.iter().map(|one| one.name.as_str()).collect();
                let message = format!(
                    "the quotas of the flavors {} are added up: a queue has one amount of a resource, whatever the nodes",
                    names.join(", ")
                );
                self.add(&flavors, message);
            }
            for (flavor, quotas) in group.flavors.iter().enumerate() {
                for (resource, quota) in quotas.resources.iter().enumerate() {
                    if quota.nominal_quota.is_none() {
                        let key = format!("{flavors}[{flavor}].resources[{resource}]");
                        let message =
                            format!("nominalQuota of {} is missing: left out", quota.name);
                        self.add(&key, message);
                    }
                }
            }
        }
    }

    /// The policies without a counterpart. Defaults of Kueue are not noted, but for the one that differs here.
    pub(super) fn add_policies(&mut self, spec: &ClusterQueueSpec, has_cohort: bool) {
        let preemption = &spec.preemption;
        if has_cohort && preemption.reclaim_within_cohort != "Any" {
            self.add(
                "spec.preemption.reclaimWithinCohort",
                "every queue reclaims up to what it deserves; spec.reclaimable: false of the others prevents it",
            );
        }
        if !matches!(preemption.within_cluster_queue.as_str(), "" | "Never") {
            self.add(
                "spec.preemption.withinClusterQueue",
                "all queues preempt by the action preempt of the configuration, or none does",
            );
        }
        let borrows = preemption.borrow_within_cohort.as_ref();
        let borrows = borrows.is_some_and(|policy| {
            let policy = policy.get("policy").unwrap_or(&Value::Null);
            !policy.is_null() && policy != "Never"
        });
        let others = [
            ("spec.preemption.borrowWithinCohort", borrows),
            ("spec.admissionChecks", !spec.admission_checks.is_empty()),
            (
                "spec.admissionChecksStrategy",
                spec.admission_checks_strategy.is_some(),
            ),
            (
                "spec.flavorFungibility",
                spec.flavor_fungibility.as_ref().is_some_and(is_unusual),
            ),
            ("spec.admissionScope", spec.admission_scope.is_some()),
        ];
        for (key, is_set) in others {
            if is_set {
                self.add(key, "has no counterpart, and is left out");
            }
        }
        if is_stopped(spec.stop_policy.as_deref()) {
            self.add(
                "spec.stopPolicy",
                "close the queue after it was created: evictd-batch queue operate -a close",
            );
        }
    }

    /// The weight of a queue, which is a whole number.
    pub(super) fn weight_of(&mut self, weight: Option<Quantity>) -> Option<i32> {
        let milli = weight?.milli_value();
        let whole = i32::try_from(milli / 1000).ok();
        let whole = whole.filter(|whole| milli % 1000 == 0 && (1..=65_535).contains(whole));
        if whole.is_none() {
            self.add(
                "spec.fairSharing.weight",
                "weights are whole numbers from 1 to 65535; multiply those of all queues",
            );
        }
        whole
    }
}

/// Whether a `stopPolicy` stops anything.
pub(super) fn is_stopped(policy: Option<&str>) -> bool {
    policy.is_some_and(|policy| policy != "None")
}

/// Whether a `flavorFungibility` is not that of a `ClusterQueue` without one. `MayStopSearch` is the later name of `Borrow`.
fn is_unusual(fungibility: &Value) -> bool {
    fungibility.as_object().is_none_or(|fields| {
        fields.iter().any(|(key, value)| match key.as_str() {
            _ if value.is_null() => false,
            "whenCanBorrow" => value != "Borrow" && value != "MayStopSearch",
            "whenCanPreempt" => value != "TryNextFlavor",
            _ => true,
        })
    })
}
