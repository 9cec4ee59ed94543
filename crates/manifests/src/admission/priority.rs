//! The plugin Priority: a pod names a class, the API server stores its value.

use super::{Admitted, Refusal};
use evictd_pod::pod::{SYSTEM_PRIORITY_CLASSES, system_priority};
use evictd_pod::wire;

/// The classes of a cluster.
#[derive(Debug, Clone, Default)]
pub(super) struct PriorityClasses(Vec<wire::PriorityClass>);

enum Found<'c> {
    Class(&'c wire::PriorityClass),
    /// The value of a built-in class.
    System(i32),
    Nothing,
}

const FIELD: &str = "spec.priorityClassName";

impl PriorityClasses {
    pub(super) fn add(&mut self, class: wire::PriorityClass) {
        self.0.push(class);
    }

    /// Sets priority and preemption policy by the pod's class or by the global default.
    pub(super) fn set_priority(&self, admitted: &mut Admitted) -> Result<(), Refusal> {
        let spec = &admitted.pod.spec;
        let name = spec.priority_class_name.clone();
        match self.find(&name, spec.priority) {
            Ok(Found::Class(class)) => set(admitted, class, name.is_empty()),
            Ok(Found::System(priority)) => {
                admitted.pod.spec.priority.get_or_insert(priority);
            }
            Ok(Found::Nothing) => {}
            Err(message) => return Err(admitted.refusal(FIELD, message)),
        }
        Ok(())
    }

    /// Sets the priority of a group by its class or by the global default, as that of a pod (S7-015).
    pub(super) fn set_group_priority(
        &self,
        metadata: &wire::Metadata,
        (priority, class_name): (&mut Option<i32>, &mut String),
    ) -> Result<(), Refusal> {
        // A group with a UID got its priority from an API server.
        if !metadata.uid.is_empty() {
            return Ok(());
        }
        match self.find(class_name, *priority) {
            Ok(Found::Class(class)) => {
                priority.get_or_insert(class.value);
                class_name.clone_from(&class.metadata.name);
            }
            Ok(Found::System(value)) => {
                priority.get_or_insert(value);
            }
            Ok(Found::Nothing) => {}
            Err(message) => {
                return Err(Refusal {
                    pod: metadata.full_name(),
                    field: FIELD,
                    message,
                });
            }
        }
        Ok(())
    }

    /// The class of this name, or the global default without a name.
    fn find(&self, name: &str, priority: Option<i32>) -> Result<Found<'_>, String> {
        // A pod that names no class keeps the priority that it has.
        if name.is_empty() && priority.is_some() {
            return Ok(Found::Nothing);
        }
        let class = if name.is_empty() {
            self.global_default()
        } else {
            let mut classes = self.0.iter();
            classes.find(|class| class.metadata.name == name)
        };
        if let Some(class) = class {
            return Ok(Found::Class(class));
        }
        if let Some(priority) = system_priority(name) {
            return Ok(Found::System(priority));
        }
        if name.is_empty() || priority.is_some() {
            return Ok(Found::Nothing);
        }
        Err(format!(
            "{name:?} is not in the input; known are {}",
            self.known()
        ))
    }

    /// Of several the API server takes the lowest.
    fn global_default(&self) -> Option<&wire::PriorityClass> {
        let defaults = self.0.iter().filter(|class| class.global_default);
        defaults.min_by_key(|class| class.value)
    }

    fn known(&self) -> String {
        let classes = self.0.iter();
        let classes = classes.map(|class| class.metadata.name.as_str());
        let built_in = SYSTEM_PRIORITY_CLASSES.into_iter().map(|(name, _)| name);
        let mut names: Vec<&str> = classes.chain(built_in).collect();
        names.sort_unstable();
        names.dedup();
        names.join(", ")
    }
}

fn set(admitted: &mut Admitted, class: &wire::PriorityClass, is_default: bool) {
    let spec = &mut admitted.pod.spec;
    let priority = *spec.priority.get_or_insert(class.value);
    if spec.preemption_policy.is_empty() {
        spec.preemption_policy.clone_from(&class.preemption_policy);
    }
    let name = &class.metadata.name;
    if is_default {
        spec.priority_class_name.clone_from(name);
        let note = format!("PriorityClass {name} is the global default: priority {priority}");
        admitted.notes.push(note);
    }
}
