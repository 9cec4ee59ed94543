//! The plugin `RuntimeClass`: the overhead of a pod's runtime, and the nodes that have the runtime.

use super::{Admitted, Refusal, amounts};
use crate::wire::RuntimeClass;
use std::collections::BTreeMap;

/// The classes of a cluster, by name.
#[derive(Debug, Clone, Default)]
pub(super) struct RuntimeClasses(BTreeMap<String, RuntimeClass>);

impl RuntimeClasses {
    pub(super) fn add(&mut self, class: RuntimeClass) {
        self.0.insert(class.metadata.name.clone(), class);
    }

    /// Adds overhead, node labels and tolerations of the class with this name.
    pub(super) fn apply(&self, admitted: &mut Admitted, name: &str) -> Result<(), Refusal> {
        if name.is_empty() {
            return Ok(());
        }
        let Some(class) = self.0.get(name) else {
            // Dumps seldom hold these classes, so that its absence proves nothing.
            let note = format!(
                "RuntimeClass {name} is not in the input; its overhead and its nodes are not known"
            );
            admitted.notes.push(note);
            return Ok(());
        };
        class.add_overhead(admitted)?;
        class.select_nodes(admitted)
    }
}

impl RuntimeClass {
    fn add_overhead(&self, admitted: &mut Admitted) -> Result<(), Refusal> {
        let fixed = &self.overhead.pod_fixed;
        let overhead = &mut admitted.pod.spec.overhead;
        if !overhead.is_empty() && overhead != fixed {
            let message = format!(
                "is {}, but RuntimeClass {} has {}",
                amounts(overhead),
                self.metadata.name,
                amounts(fixed)
            );
            return Err(admitted.refusal("spec.overhead", message));
        }
        if !fixed.is_empty() {
            overhead.clone_from(fixed);
            let name = &self.metadata.name;
            let note = format!("RuntimeClass {name} adds overhead of {}", amounts(fixed));
            admitted.notes.push(note);
        }
        Ok(())
    }

    fn select_nodes(&self, admitted: &mut Admitted) -> Result<(), Refusal> {
        let name = &self.metadata.name;
        for (key, value) in &self.scheduling.node_selector {
            let given = admitted.pod.spec.node_selector.get(key);
            if let Some(given) = given.filter(|given| *given != value) {
                let message = format!(
                    "{key}={given}, but RuntimeClass {name} runs on nodes with {key}={value}"
                );
                return Err(admitted.refusal("spec.nodeSelector", message));
            }
            admitted.pod.spec.node_selector.insert(key, value);
            let note = format!("RuntimeClass {name} selects nodes with {key}={value}");
            admitted.notes.push(note);
        }
        let tolerations = &mut admitted.pod.spec.tolerations;
        for toleration in &self.scheduling.tolerations {
            if !tolerations.contains(toleration) {
                tolerations.push(toleration.clone());
            }
        }
        Ok(())
    }
}
